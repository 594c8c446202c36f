//! What ends the wait of a future early: the closing of its pool, a token, a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use crate::clock::Ticks;
use crate::core::Core;
use crate::event::drop_waker;
use crate::sync::Lock;
use crate::token::{Listener, Registration, Token};

/// Set before the reasons to wait are looked at; unset when it is dropped.
pub(crate) struct WakeUps {
    waker: SetBy,
    until: Ticks,
    _closed: Option<Registration>,
    _cancelled: Option<Registration>,
    _alarm: Option<Alarm>,
}

impl WakeUps {
    /// Sets them, unless they are.
    pub(crate) fn set(
        slot: &mut Option<WakeUps>,
        core: &Arc<Core>,
        token: Option<&Token>,
        until: Ticks,
        waker: &Waker,
    ) {
        if slot.as_ref().is_some_and(|set| set.until == until && set.waker.will_wake(waker)) {
            return;
        }
        let register = |token: &Token| token.register(Listener::Waker(waker.clone()));
        *slot = Some(WakeUps {
            waker: SetBy(Some(waker.clone())),
            until,
            _closed: register(&core.closed),
            _cancelled: token.and_then(register),
            _alarm: Alarm::set(core, until, waker),
        });
    }
}

/// Whose wake-ups they are. A waker is user code, also when it is dropped.
struct SetBy(Option<Waker>);

impl SetBy {
    fn will_wake(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|own| own.will_wake(waker))
    }
}

impl Drop for SetBy {
    fn drop(&mut self) {
        drop_waker(self.0.take());
    }
}

/// Futures that wait until a time of the pool's clock: the supervisor sees to it. There may be
/// very many, so each is found by its time and its number.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    set: Lock<AlarmSet>,
}

#[derive(Debug, Default)]
struct AlarmSet {
    wakers: BTreeMap<(Ticks, u64), Waker>,
    next_number: u64,
}

struct Alarm {
    core: Arc<Core>,
    key: (Ticks, u64),
}

impl Alarms {
    /// Those whose time has come, to be woken; when the next one's is.
    pub(crate) fn due(&self, now: Ticks) -> (Vec<Waker>, Ticks) {
        let mut set = self.set.lock();
        let mut due = Vec::new();
        while let Some(first) = set.wakers.first_entry() {
            let at = first.key().0;
            if at > now {
                return (due, at);
            }
            due.push(first.remove());
        }
        (due, Ticks::NEVER)
    }
}

impl Alarm {
    fn set(core: &Arc<Core>, at: Ticks, waker: &Waker) -> Option<Alarm> {
        if at == Ticks::NEVER {
            return None;
        }
        let waker = waker.clone(); // user code: before the lock
        let key = {
            let mut set = core.alarms.set.lock();
            let key = (at, set.next_number);
            set.next_number += 1;
            set.wakers.insert(key, waker);
            key
        };
        core.watch_limit(at);
        Some(Alarm { core: Arc::clone(core), key })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let old = self.core.alarms.set.lock().wakers.remove(&self.key);
        drop_waker(old); // user code: after the lock
    }
}

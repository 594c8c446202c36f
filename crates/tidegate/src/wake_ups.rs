//! What ends the wait of a future early: the closing of its pool, a token, a time.

use std::sync::Arc;
use std::task::Waker;

use crate::clock::Ticks;
use crate::core::Core;
use crate::sync::Lock;
use crate::token::{Listener, Registration, Token};

/// Set before the reasons to wait are looked at; unset when it is dropped.
pub(crate) struct WakeUps {
    waker: Waker,
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
            waker: waker.clone(),
            until,
            _closed: register(&core.closed),
            _cancelled: token.and_then(register),
            _alarm: Alarm::set(core, until, waker),
        });
    }
}

/// Futures that wait until a time of the pool's clock: the supervisor sees to it.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    set: Lock<(u64, Vec<(u64, Ticks, Waker)>)>,
}

struct Alarm {
    core: Arc<Core>,
    number: u64,
}

impl Alarms {
    /// Those whose time has come, to be woken; when the next one's is.
    pub(crate) fn due(&self, now: Ticks) -> (Vec<Waker>, Ticks) {
        let mut set = self.set.lock();
        let due =
            set.1.extract_if(.., |(_, at, _)| *at <= now).map(|(_, _, waker)| waker).collect();
        let next = set.1.iter().map(|(_, at, _)| *at).min();
        (due, next.unwrap_or(Ticks::NEVER))
    }
}

impl Alarm {
    fn set(core: &Arc<Core>, at: Ticks, waker: &Waker) -> Option<Alarm> {
        if at == Ticks::NEVER {
            return None;
        }
        let waker = waker.clone(); // user code: before the lock
        let number = {
            let mut set = core.alarms.set.lock();
            set.0 += 1;
            let number = set.0;
            set.1.push((number, at, waker));
            number
        };
        core.watch_limit(at);
        Some(Alarm { core: Arc::clone(core), number })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut set = self.core.alarms.set.lock();
        let at = set.1.iter().position(|(number, ..)| *number == self.number);
        let old = at.map(|at| set.1.swap_remove(at));
        drop(set);
        drop(old);
    }
}

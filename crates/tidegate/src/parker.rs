//! Where a thread of ours, or of the user, sleeps until it is woken.
//!
//! Not `std::thread::park`: user code may call that too and eat the token
//! (hazard 78). A parker is also a `Waker`, so that threads and futures wait
//! for an outcome in the same way.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::sync::atomic::Ordering::{Acquire, SeqCst};
use crate::sync::{WaitWord, per_thread};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;

/// One token: `unpark` leaves it, `park` takes it or sleeps until it is there.
#[derive(Debug)]
pub(crate) struct Parker {
    word: WaitWord,
}

impl Parker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Parker { word: WaitWord::new(EMPTY) })
    }

    pub(crate) fn unpark(&self) {
        if self.word.value.swap(NOTIFIED, SeqCst) == EMPTY {
            self.word.wake(1);
        }
    }

    /// Sleeps until there is a token, and takes it.
    pub(crate) fn park(&self) {
        while self.word.value.swap(EMPTY, SeqCst) != NOTIFIED {
            self.word.wait(EMPTY, None);
        }
    }

    /// As `park`, at most until `deadline` of `clock`; true if there was a token.
    pub(crate) fn park_until(self: &Arc<Self>, clock: &Clock, deadline: Ticks) -> bool {
        if deadline == Ticks::NEVER {
            self.park();
            return true;
        }
        let alarm = clock.alarm(deadline, self);
        loop {
            if self.word.value.swap(EMPTY, SeqCst) == NOTIFIED {
                return true;
            }
            let left = match clock.left_until(deadline) {
                None => return false,
                Some(left) => left,
            };
            self.word.wait(EMPTY, alarm.real_limit(left));
        }
    }

    /// As `park_until`, but no longer than `limit` in real time, whatever the clock.
    pub(crate) fn park_at_most(self: &Arc<Self>, clock: &Clock, deadline: Ticks, limit: Duration) {
        let alarm = clock.alarm(deadline, self);
        if self.word.value.swap(EMPTY, SeqCst) == NOTIFIED {
            return;
        }
        if let Some(left) = clock.left_until(deadline) {
            let left = alarm.real_limit(left).map_or(limit, |left| left.min(limit));
            self.word.wait(EMPTY, Some(left));
            self.word.value.swap(EMPTY, SeqCst);
        }
    }

    /// Forgets a token that a former wait may have left behind.
    pub(crate) fn reset(&self) {
        if self.word.value.load(Acquire) != EMPTY {
            self.word.value.swap(EMPTY, SeqCst);
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

per_thread! {
    static MINE: std::cell::OnceCell<(Arc<Parker>, Waker)> = std::cell::OnceCell::new();
}

/// Runs `f` with this thread's parker and the waker that unparks it.
pub(crate) fn with_parker<R>(f: impl FnOnce(&Arc<Parker>, &Waker) -> R) -> R {
    let make = || {
        let parker = Parker::new();
        let waker = Waker::from(Arc::clone(&parker));
        (parker, waker)
    };
    // A wait inside a thread-local's destructor finds ours gone: use a fresh one.
    let mine = MINE.try_with(|mine| mine.get_or_init(make).clone());
    let (parker, waker) = mine.unwrap_or_else(|_| make());
    parker.reset();
    f(&parker, &waker)
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_deadline_and_limit_ends_a_park() {
        let (clock, parker) = (Clock::system(), Parker::new());
        let (soon, late) = (Duration::from_millis(5), Duration::from_secs(60));
        let began = clock.now();
        parker.park_at_most(&clock, began.after(soon), late);
        parker.park_at_most(&clock, began.after(late), soon);
        assert!(clock.now().since(began) < late / 2);
        let (manual, _hand) = Clock::manual();
        parker.park_at_most(&manual, manual.now().after(late), soon); // it stands still
        parker.unpark();
        parker.park_at_most(&clock, began.after(late), late);
        assert!(clock.now().since(began) < late / 2);
    }
}

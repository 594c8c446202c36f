//! Who wants to hear that something has settled.
//!
//! ```text
//!  settle:  count the outcome, *fence*, then look for watchers      one of the two
//!  watch:   become one by RMW, *fence*, then look at the counts     sees the other
//! ```
//!
//! Outcomes are counted by plain stores, the cheapest there is, so the order needs a fence
//! on both sides. These are the crate's fences, with a model of their own; `worker.rs` has
//! one more, of the same kind.

use std::task::Waker;

use crate::sync::Lock;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::atomic::{AtomicU32, fence};

#[derive(Debug)]
pub(crate) struct Watch {
    watchers: AtomicU32,
    wakers: Lock<Vec<Waker>>,
}

/// Watches until it is dropped.
pub(crate) struct Watching<'a>(&'a Watch);

impl Watch {
    pub(crate) fn new() -> Self {
        Watch { watchers: AtomicU32::new(0), wakers: Lock::new(Vec::new()) }
    }

    /// Something was counted: the wakers to wake, if anybody watches.
    #[inline]
    pub(crate) fn settled(&self) -> Option<Vec<Waker>> {
        fence(SeqCst);
        if self.watchers.load(SeqCst) == 0 { None } else { Some(self.take_wakers()) }
    }

    #[cold]
    fn take_wakers(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.wakers.lock())
    }

    /// From now on `settled` sees us. Leave a waker, then look, then sleep.
    pub(crate) fn begin(&self) -> Watching<'_> {
        self.forever();
        Watching(self)
    }

    /// As `begin`, for good.
    pub(crate) fn forever(&self) {
        self.watchers.fetch_add(1, SeqCst);
        fence(SeqCst);
    }
}

impl Watching<'_> {
    /// Leaves a waker for the next `settled`.
    pub(crate) fn leave(&self, waker: &Waker) {
        let waker = waker.clone(); // user code: before the lock
        let mut wakers = self.0.wakers.lock();
        if !wakers.iter().any(|w| w.will_wake(&waker)) {
            wakers.push(waker);
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, SeqCst);
    }
}

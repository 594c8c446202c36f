//! Something that happens once and that threads and futures wait for.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::panics::drop_quietly;
use crate::parker::with_parker;
use crate::sync::Lock;

/// A value that is set once; everybody who waits gets a clone.
#[derive(Debug)]
pub(crate) struct Event<T> {
    state: Lock<(Option<T>, Vec<Waker>)>,
}

impl<T: Clone> Event<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Event { state: Lock::new((None, Vec::new())) })
    }

    /// The first value stays.
    pub(crate) fn set(&self, value: T) {
        let wakers = {
            let mut state = self.state.lock();
            state.0.get_or_insert(value);
            std::mem::take(&mut state.1)
        };
        wake_quietly(wakers);
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.state.lock().0.clone()
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<T> {
        let waker = cx.waker().clone(); // user code: before the lock
        let mut state = self.state.lock();
        match &state.0 {
            Some(value) => Poll::Ready(value.clone()),
            None => {
                if !state.1.iter().any(|w| w.will_wake(&waker)) {
                    state.1.push(waker);
                }
                Poll::Pending
            }
        }
    }

    pub(crate) fn wait(&self) -> T {
        with_parker(|parker, waker| {
            loop {
                if let Poll::Ready(value) = self.poll(&mut Context::from_waker(waker)) {
                    return value;
                }
                parker.park();
            }
        })
    }
}

/// Wakes all; a waker that panics (hazard 83) does not keep the others asleep. How many did.
#[must_use]
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) -> u64 {
    let panics = |waker: Waker| crate::panics::quietly(|| waker.wake()).is_err();
    wakers.into_iter().map(panics).map(u64::from).sum()
}

/// As `wake_all`, for what does not know its pool: the one whose code we are in counts.
pub(crate) fn wake_quietly(wakers: impl IntoIterator<Item = Waker>) {
    let panics = wake_all(wakers);
    if panics > 0 {
        crate::core::Core::count_waker_panics(panics);
    }
}

/// Drops a waker, or what has one: user code, too. Counted as by `wake_quietly`.
pub(crate) fn drop_waker<T>(waker: T) {
    if drop_quietly(waker) {
        crate::core::Core::count_waker_panics(1);
    }
}

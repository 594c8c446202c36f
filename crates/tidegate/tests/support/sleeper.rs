//! A future that nobody polls without a reason.
#![allow(dead_code, reason = "each program uses its part")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};

/// A future that is polled once, and then only when it was woken: who forgets to wake it
/// leaves it where it is.
pub(crate) struct Sleeper<F> {
    future: F,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

impl<F: Future + Unpin> Sleeper<F> {
    pub(crate) fn new(future: F) -> Self {
        Sleeper { future, woken: Arc::new(Woken(AtomicBool::new(true))) }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(SeqCst)
    }

    pub(crate) fn poll_if_woken(&mut self) -> Poll<F::Output> {
        if self.is_woken() { self.poll() } else { Poll::Pending }
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.woken.0.store(false, SeqCst);
        let waker = Arc::clone(&self.woken).into();
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker))
    }
}

//! The smallest executor there is.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread, AtomicBool);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(true, SeqCst);
            self.0.unpark();
        }
    }
    let woken = Arc::new(Unpark(thread::current(), AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut future = pin!(future);
    loop {
        if woken.1.swap(false, SeqCst)
            && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return value;
        }
        thread::park();
    }
}

pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

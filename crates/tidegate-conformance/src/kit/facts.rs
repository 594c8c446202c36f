//! Waiting for a fact, with a deadline that only detects hangs.

use std::any::Any;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// What takes longer than this will not come any more.
pub const HANG: Duration = Duration::from_secs(30);

/// Polls `fact` until it holds; panics with `what` if it never does.
#[track_caller]
pub fn eventually(what: &str, mut fact: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    let mut rounds = 0_u32;
    while !fact() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        rounds += 1;
        if rounds < 20 {
            thread::yield_now();
        } else {
            thread::park_timeout(Duration::from_micros(200));
        }
    }
}

/// Lets the other threads run a little, before a test asserts that something
/// has *not* happened. A correct pool passes however short this is.
pub fn give_a_bug_its_chance() {
    let enough = Instant::now() + Duration::from_millis(3);
    while Instant::now() < enough {
        thread::yield_now();
    }
}

/// Does nothing for a moment, so that rounds of a race meet in different ways.
/// Unlike a yield it costs the same on a busy machine.
pub fn dawdle(steps: u64) {
    for _ in 0..steps {
        std::hint::spin_loop();
    }
}

/// A thread of the test that gives back a value.
#[derive(Debug)]
pub struct Background<T> {
    end: mpsc::Receiver<Result<T, Box<dyn Any + Send>>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Runs `f` on a thread of its own.
pub fn in_background<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Background<T> {
    let (tell, end) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        let _ = tell.send(result);
    });
    Background { end, thread: Some(thread) }
}

impl<T> Background<T> {
    /// What the closure returned; panics as it did, or if it never ends.
    #[track_caller]
    pub fn join(mut self) -> T {
        let result = self.end.recv_timeout(HANG).expect("the background thread ends");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    /// True once the closure has returned.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread until it is ready.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let deadline = Instant::now() + HANG;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park_timeout(HANG);
        assert!(Instant::now() < deadline, "the future was never woken");
    }
}

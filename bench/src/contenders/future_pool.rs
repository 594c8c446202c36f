//! Pools that run futures on a tokio runtime, and the two places they can be
//! fed from: a plain thread outside the runtime, or a task inside of it.

use std::cell::OnceCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use super::Contender;
use crate::body::HalvedTask;

/// How long a task with limits may run; never reached.
///
/// A check of the answers is patient: a machine that stands still for a second is no wrong answer.
pub(crate) const TIMEOUT: Duration =
    Duration::from_secs(if option_env!("TIDEGATE_BENCH_PATIENT").is_some() { 60 } else { 1 });

/// A pool of futures. Its methods are awaited; fed from outside, the producer
/// is a plain thread that blocks on each of them.
pub(crate) trait FuturePool: Send + Sync + Sized + 'static {
    type Handle<T: Send + 'static>: Send;

    fn start(runtime: &Handle, workers: usize, queue: usize) -> Self;

    /// The runtime's threads, where they are not the workers themselves.
    fn runtime_threads(workers: usize) -> usize {
        workers
    }

    /// Fire and forget. Waits while the pool is full.
    fn spawn<F>(&self, future: F) -> impl Future<Output = ()> + Send
    where
        F: Future<Output = ()> + Send + 'static;

    /// Result by handle. Waits while the pool is full.
    fn submit<T, F>(&self, future: F) -> impl Future<Output = Self::Handle<T>> + Send
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static;

    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> impl Future<Output = T> + Send;

    /// With a timeout and a cancellation of its own; `None` without such limits.
    fn submit_limited(
        &self,
        _task: HalvedTask,
    ) -> impl Future<Output = Option<Self::Handle<u64>>> + Send {
        async { None }
    }

    /// With a timeout and a token that all tasks share; `None` without such limits.
    fn submit_with_token(
        &self,
        _task: HalvedTask,
    ) -> impl Future<Output = Option<Self::Handle<u64>>> + Send {
        async { None }
    }

    /// Ends the pool once its tasks are done; the runtime ends by itself.
    fn finish(self) {}
}

/// The future that a task with limits is, wherever futures are cancelled at
/// an await: one await, between its halves.
#[allow(clippy::manual_async_fn, reason = "an `async fn` would hold its argument twice")]
pub(crate) fn halves(task: HalvedTask) -> impl Future<Output = u64> + Send {
    async move {
        let half = task.first();
        tokio::task::yield_now().await;
        task.second(half)
    }
}

/// The same within tokio's timeout.
pub(crate) async fn halves_in_time(task: HalvedTask) -> u64 {
    tokio::time::timeout(TIMEOUT, halves(task)).await.expect("the timeout is never reached")
}

pub(crate) fn runtime_for<P: FuturePool>(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(P::runtime_threads(workers))
        .max_blocking_threads(workers)
        .enable_time()
        .build()
        .expect("the system has threads left")
}

/// The pool fed with closures by plain threads.
pub(crate) struct Outside<P> {
    pool: P,
    // Behind the pool: fields are dropped in order.
    runtime: Runtime,
}

impl<P: FuturePool> Contender for Outside<P> {
    type Handle<T: Send + 'static> = P::Handle<T>;

    fn new(workers: usize, queue: usize) -> Self {
        let runtime = runtime_for::<P>(workers);
        Outside { pool: P::start(runtime.handle(), workers, queue), runtime }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        block_on(self.pool.spawn(async move { task() }));
    }

    #[inline]
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        block_on(self.pool.submit(async move { task() }))
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        block_on(self.pool.wait(handle))
    }

    fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        block_on(self.pool.submit_limited(task))
    }

    fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        block_on(self.pool.submit_with_token(task))
    }

    fn join(self) {
        self.pool.finish();
        drop(self.runtime);
    }
}

/// Polls on this thread and parks it meanwhile. Not the runtime's own: that
/// would make the thread part of the runtime, and costs more to enter.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        // One allocation per thread, not one per call.
        static WAKER: OnceCell<Waker> = const { OnceCell::new() };
    }
    WAKER.with(|waker| {
        let waker = waker.get_or_init(|| Waker::from(Arc::new(Unpark(thread::current()))));
        let mut cx = Context::from_waker(waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            thread::park();
        }
    })
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

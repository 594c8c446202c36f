//! tidegate's pool of futures.

use tidegate::{AsyncPool, Handle, Shutdown, Token};
use tokio::runtime;

use super::future_pool::{FuturePool, TIMEOUT, halves};
use super::tidegate::accepted;
use crate::body::HalvedTask;

/// Awaited: inside the runtime.
pub(crate) struct TidegateAsync {
    pool: AsyncPool,
    token: Token,
}

impl FuturePool for TidegateAsync {
    type Handle<T: Send + 'static> = Handle<T>;

    fn start(runtime: &runtime::Handle, workers: usize, queue: usize) -> Self {
        let pool = AsyncPool::builder("bench")
            .workers(workers)
            .queue(queue)
            .build_async_on(runtime)
            .expect("the configuration is valid and the runtime has timers");
        TidegateAsync { pool, token: Token::new() }
    }

    fn runtime_threads(workers: usize) -> usize {
        workers.min(8)
    }

    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        accepted(self.pool.spawn(future).await);
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        accepted(self.pool.submit(future).await)
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        match handle.await {
            Ok(result) => result,
            Err(error) => panic!("a benchmark task neither panics nor is cancelled: {error}"),
        }
    }

    async fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.pool.task("limited").timeout(TIMEOUT);
        Some(accepted(described.submit(move |_cx| halves(task)).await))
    }

    async fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.pool.task("limited").timeout(TIMEOUT).cancel_with(&self.token);
        Some(accepted(described.submit(move |_cx| halves(task)).await))
    }

    fn finish(self) {
        let report = self
            .pool
            .shutdown_blocking(Shutdown::light())
            .expect("shutdown is called from outside the pool");
        assert!(report.complete, "a worker was left behind");
    }
}

/// Through the calls that block: from a plain thread.
pub(crate) struct TidegateAsyncBlocking(TidegateAsync);

impl FuturePool for TidegateAsyncBlocking {
    type Handle<T: Send + 'static> = Handle<T>;

    fn start(runtime: &runtime::Handle, workers: usize, queue: usize) -> Self {
        TidegateAsyncBlocking(TidegateAsync::start(runtime, workers, queue))
    }

    fn runtime_threads(workers: usize) -> usize {
        TidegateAsync::runtime_threads(workers)
    }

    /// There is no `spawn` that blocks: a handle that is let go.
    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        accepted(self.0.pool.submit_blocking(future)).detach();
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        accepted(self.0.pool.submit_blocking(future))
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        match handle.wait() {
            Ok(result) => result,
            Err(error) => panic!("a benchmark task neither panics nor is cancelled: {error}"),
        }
    }

    async fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.0.pool.task("limited").timeout(TIMEOUT);
        Some(accepted(described.submit_blocking(move |_cx| halves(task))))
    }

    async fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.0.pool.task("limited").timeout(TIMEOUT).cancel_with(&self.0.token);
        Some(accepted(described.submit_blocking(move |_cx| halves(task))))
    }

    fn finish(self) {
        self.0.finish();
    }
}

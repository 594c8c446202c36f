//! tokio's own `spawn`, without a bound.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

use super::future_pool::{FuturePool, halves_in_time};
use crate::body::HalvedTask;

pub(crate) struct TokioSpawn {
    runtime: Handle,
    token: CancellationToken,
}

impl FuturePool for TokioSpawn {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn start(runtime: &Handle, _workers: usize, _queue: usize) -> Self {
        TokioSpawn { runtime: runtime.clone(), token: CancellationToken::new() }
    }

    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn(future);
        // Inside the runtime, a producer that never yields would keep its
        // thread from the tasks that it spawns there.
        consume_budget().await;
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.runtime.spawn(future)
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.await.expect("a benchmark task neither panics nor is aborted")
    }

    /// Its handle can abort it.
    async fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        Some(self.runtime.spawn(halves_in_time(task)))
    }

    async fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        Some(self.runtime.spawn(until_cancelled(self.token.clone(), task)))
    }
}

/// With a timeout, and the end of it all when the token says so.
pub(super) async fn until_cancelled(token: CancellationToken, task: HalvedTask) -> u64 {
    let result = token.run_until_cancelled(halves_in_time(task)).await;
    result.expect("nobody cancels")
}

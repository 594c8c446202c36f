//! tokio's `spawn` behind a semaphore: the usual way to give it a bound.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::future_pool::{FuturePool, halves_in_time};
use super::tokio_spawn::until_cancelled;
use crate::body::HalvedTask;

pub(crate) struct TokioSem {
    runtime: Handle,
    room: Arc<Semaphore>,
    token: CancellationToken,
}

impl TokioSem {
    async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("nobody closes the semaphore")
    }
}

impl FuturePool for TokioSem {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn start(runtime: &Handle, _workers: usize, queue: usize) -> Self {
        let room = Arc::new(Semaphore::new(queue));
        TokioSem { runtime: runtime.clone(), room, token: CancellationToken::new() }
    }

    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permit = self.permit().await;
        self.runtime.spawn(async move {
            future.await;
            drop(permit);
        });
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let permit = self.permit().await;
        self.runtime.spawn(async move {
            let result = future.await;
            drop(permit);
            result
        })
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.await.expect("a benchmark task neither panics nor is aborted")
    }

    async fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        Some(self.submit(halves_in_time(task)).await)
    }

    async fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        Some(self.submit(until_cancelled(self.token.clone(), task)).await)
    }
}

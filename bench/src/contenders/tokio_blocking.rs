//! tokio's `spawn_blocking`, with as many blocking threads as the workload
//! has workers. Its queue has no bound.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::future_pool::FuturePool;

pub(crate) struct TokioBlocking {
    runtime: Handle,
}

impl FuturePool for TokioBlocking {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn start(runtime: &Handle, _workers: usize, _queue: usize) -> Self {
        TokioBlocking { runtime: runtime.clone() }
    }

    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.runtime.spawn_blocking(|| closure_within(future));
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.runtime.spawn_blocking(|| closure_within(future))
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.await.expect("a benchmark task does not panic")
    }
}

/// It gets closures only, which come as futures that are ready at once: a
/// call, once it is inlined.
#[inline(always)]
fn closure_within<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("it is given no futures that wait"),
    }
}

//! `async-channel` and tokio tasks as workers: the hand-written pool of
//! async code.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use async_channel::{Receiver, Sender};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::future_pool::FuturePool;
use super::tokio_spawn::until_cancelled;
use crate::body::HalvedTask;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct AsyncChannel {
    sender: Sender<Job>,
    token: CancellationToken,
}

pub(crate) struct ResultOrCancel<T> {
    result: oneshot::AsyncReceiver<T>,
    /// For the workloads in which a task can be cancelled by its handle.
    _cancel: Option<CancellationToken>,
}

impl FuturePool for AsyncChannel {
    type Handle<T: Send + 'static> = ResultOrCancel<T>;

    fn start(runtime: &Handle, workers: usize, queue: usize) -> Self {
        let (sender, receiver) = async_channel::bounded(queue);
        for _ in 0..workers {
            runtime.spawn(work(receiver.clone()));
        }
        AsyncChannel { sender, token: CancellationToken::new() }
    }

    fn runtime_threads(workers: usize) -> usize {
        workers.min(8)
    }

    async fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.sender.send(Box::pin(future)).await.is_err() {
            panic!("the workers outlive the sender");
        }
    }

    async fn submit<T, F>(&self, future: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, result) = oneshot::async_channel();
        self.spawn(async move {
            // Fails when the handle was dropped: then nobody wants the result.
            let _ = sender.send(future.await);
        })
        .await;
        ResultOrCancel { result, _cancel: None }
    }

    async fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.result.await.expect("a benchmark task does not panic")
    }

    /// What has no handle to abort gets a token of its own.
    async fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let token = CancellationToken::new();
        let handle = self.submit(until_cancelled(token.clone(), task)).await;
        Some(ResultOrCancel { _cancel: Some(token), ..handle })
    }

    async fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        Some(self.submit(until_cancelled(self.token.clone(), task)).await)
    }
}

async fn work(receiver: Receiver<Job>) {
    while let Ok(mut job) = receiver.recv().await {
        // A worker that dies of one panicking task would be no fair peer.
        poll_fn(|cx| {
            let poll = catch_unwind(AssertUnwindSafe(|| job.as_mut().poll(cx)));
            poll.unwrap_or(Poll::Ready(()))
        })
        .await;
    }
}

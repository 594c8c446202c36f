//! Outcomes of futures as they come, within a window.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::offer;
use super::pool::AsyncPool;
use super::work::Outcome;
use crate::completed::{InFlight, Settled};
use crate::refused::{Reason, Refused};
use crate::stream::{Completion, Completions, collect};
use crate::task::Offer;

impl AsyncPool {
    /// A stream of outcomes in the order in which they come. At most `window` tasks (and one at
    /// least) are accepted and not yet collected; beyond that its submits refuse with `Full`.
    pub fn stream<T: Send + 'static, E: Send + 'static>(
        &self,
        window: usize,
    ) -> AsyncCompletions<T, E> {
        let pool = self.clone();
        AsyncCompletions { pool, window: window.max(1), next_key: 0, in_flight: InFlight::new() }
    }
}

/// Submits futures and gives their outcomes in the order in which they come: a `Stream`. See
/// [`AsyncPool::stream`].
pub struct AsyncCompletions<T, E> {
    pool: AsyncPool,
    window: usize,
    next_key: u64,
    in_flight: InFlight<T, E>,
}

impl<T: Send + 'static, E: Send + 'static> AsyncCompletions<T, E> {
    /// Submits a future that gives a `Result`, and waits for room as the policy says; gives its
    /// number. On a full window it refuses with `Full`: take an outcome first.
    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    pub fn submit<F>(&mut self, future: F) -> impl Future<Output = Result<u64, Refused<F>>> + Send
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        async move {
            let core = Arc::clone(self.pool.core());
            if self.in_flight.len() >= self.window {
                return Err(core.refuse("", Reason::Full, future));
            }
            let key = self.next_key;
            let mut number = Number(Some((Arc::clone(self.in_flight.settled()), key)));
            let on_outcome = Some(self.in_flight.callback(key));
            let offer = Offer { on_outcome, ..Offer::default() };
            let handle = offer::submit(core, Outcome(future), offer).await?;
            number.0 = None;
            self.in_flight.add(key, handle);
            self.next_key += 1;
            Ok(key)
        }
    }

    /// Accepted and not yet collected.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

/// Of a task that is not in flight yet. Dropped in between, under CallerRuns, the task has
/// settled and its number is listed; the next one will have the same.
struct Number(Option<(Arc<Settled>, u64)>);

impl Drop for Number {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|(settled, key)| settled.forget(key));
    }
}

/// Ready with `None` if nothing is in flight; more can be submitted then.
impl<T: Send + 'static, E: Send + 'static> Stream for AsyncCompletions<T, E> {
    type Item = Completion<T, E>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.in_flight.begin_queued(cx.waker());
        self.in_flight.poll_next(cx).map(|found| found.map(collect))
    }
}

/// As that of a pool of futures.
impl<T: Send + 'static, E: Send + 'static, S: 'static> Stream for Completions<T, E, S> {
    type Item = Completion<T, E>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Completions::poll_next(&mut self, cx)
    }
}

impl<T, E> fmt::Debug for AsyncCompletions<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCompletions")
            .field("pool", &self.pool.name())
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

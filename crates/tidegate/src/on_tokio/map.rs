//! Streams through a pool: outcomes as they come, and maps with a window.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::body::Outcome;
use super::offer;
use super::pool::AsyncPool;
use crate::admission::Patience;
use crate::completed::{InFlight, Settled};
use crate::handle::{CancelOnDrop, Handle};
use crate::map_error::MapError;
use crate::refused::{Reason, Refused};
use crate::stream::{Completion, collect};
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

    /// Runs `f` on every item of a stream, each a task of the pool, and gives the results in
    /// order. An item is pulled only when fewer than `window` are in flight and the pool has
    /// room: a slow reader or a full pool holds its source back.
    ///
    /// The first item that fails, or is not accepted, ends the stream with its error; what is
    /// still in flight is cancelled, also when the stream is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::pin::pin;
    /// use futures_core::Stream;
    /// use tidegate::{AsyncPool, Shutdown};
    ///
    /// # struct Numbers(u64);
    /// # impl Stream for Numbers {
    /// #     type Item = u64;
    /// #     fn poll_next(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>)
    /// #         -> std::task::Poll<Option<u64>> {
    /// #         self.0 += 1;
    /// #         std::task::Poll::Ready((self.0 < 10).then_some(self.0))
    /// #     }
    /// # }
    /// # let numbers = Numbers(0);
    /// let pool = AsyncPool::builder("squares").workers(4).build_async()?;
    /// let mut squares = pin!(pool.map(numbers, 8, |n| async move { Ok::<_, String>(n * n) }));
    /// let mut sum = 0;
    /// while let Some(square) = std::future::poll_fn(|cx| squares.as_mut().poll_next(cx)).await {
    ///     sum += square?;
    /// }
    /// assert_eq!(sum, 285);
    /// pool.shutdown(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn map<St, F, Fut, T, E>(
        &self,
        items: St,
        window: usize,
        f: F,
    ) -> AsyncMap<St, F, Fut, T, E>
    where
        St: Stream,
        F: FnMut(St::Item) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        AsyncMap {
            items,
            feed: Feed {
                pool: self.clone(),
                f,
                window: window.max(1),
                in_flight: VecDeque::new(),
                submitting: None,
                pulled_all: false,
                over: false,
            },
        }
    }
}

type Submitting<Fut, T, E> =
    Pin<Box<dyn Future<Output = Result<Handle<T, E>, Refused<Fut>>> + Send>>;

pin_project! {
    /// Results in order; see [`AsyncPool::map`].
    #[must_use = "streams do nothing unless polled"]
    pub struct AsyncMap<St, F, Fut, T, E> {
        #[pin]
        items: St,
        feed: Feed<F, Fut, T, E>,
    }
}

struct Feed<F, Fut, T, E> {
    pool: AsyncPool,
    f: F,
    window: usize,
    in_flight: VecDeque<CancelOnDrop<T, E>>,
    /// One item that waits for room.
    submitting: Option<Submitting<Fut, T, E>>,
    pulled_all: bool,
    over: bool,
}

impl<St, F, Fut, T, E> Stream for AsyncMap<St, F, Fut, T, E>
where
    St: Stream,
    F: FnMut(St::Item) -> Fut,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Item = Result<T, MapError<E>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let (mut items, feed) = (this.items, this.feed);
        if feed.over {
            return Poll::Ready(None);
        }
        loop {
            if let Some(submitting) = &mut feed.submitting {
                match submitting.as_mut().poll(cx) {
                    Poll::Ready(Ok(handle)) => feed.let_in(handle),
                    Poll::Ready(Err(refused)) => {
                        return feed.end(MapError::Refused(refused.reason()));
                    }
                    Poll::Pending => break,
                }
            }
            if feed.pulled_all || feed.in_flight.len() >= feed.window {
                break;
            }
            match items.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => feed.submit(item),
                Poll::Ready(None) => feed.pulled_all = true,
                Poll::Pending => break,
            }
        }
        let Some(oldest) = feed.in_flight.front_mut() else {
            feed.over = feed.pulled_all && feed.submitting.is_none();
            return if feed.over { Poll::Ready(None) } else { Poll::Pending };
        };
        let Poll::Ready(outcome) = Pin::new(oldest).poll(cx) else { return Poll::Pending };
        feed.in_flight.pop_front();
        match outcome {
            Ok(value) => Poll::Ready(Some(Ok(value))),
            Err(error) => feed.end(MapError::Task(error)),
        }
    }
}

impl<F, Fut, T, E> Feed<F, Fut, T, E>
where
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    fn submit<X>(&mut self, item: X)
    where
        F: FnMut(X) -> Fut,
    {
        let (core, work) = (Arc::clone(self.pool.core()), Outcome((self.f)(item)));
        // As for closures: it waits for room whatever the policy, and inside the pool it begins
        // on top of the task that asks.
        let offer = Offer { patience: Patience::Room, ..Offer::default() };
        self.submitting = Some(Box::pin(offer::submit(core, work, offer)));
    }

    fn let_in(&mut self, handle: Handle<T, E>) {
        self.submitting = None;
        self.in_flight.push_back(handle.cancel_on_drop());
    }

    fn end<V>(&mut self, error: MapError<E>) -> Poll<Option<Result<V, MapError<E>>>> {
        self.over = true;
        self.submitting = None;
        self.in_flight.clear(); // cancels
        Poll::Ready(Some(Err(error)))
    }
}

impl<St, F, Fut, T, E> fmt::Debug for AsyncMap<St, F, Fut, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncMap")
            .field("pool", &self.feed.pool.name())
            .field("in_flight", &self.feed.in_flight.len())
            .finish_non_exhaustive()
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
    pub async fn submit<F>(&mut self, future: F) -> Result<u64, Refused<F>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let core = Arc::clone(self.pool.core());
        if self.in_flight.len() >= self.window {
            return Err(core.refuse("", Reason::Full, future));
        }
        let key = self.next_key;
        let mut number = Number(Some((Arc::clone(self.in_flight.settled()), key)));
        let offer = Offer { on_outcome: Some(self.in_flight.callback(key)), ..Offer::default() };
        let handle = offer::submit(core, Outcome(future), offer).await?;
        number.0 = None;
        self.in_flight.add(key, handle);
        self.next_key += 1;
        Ok(key)
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
        self.in_flight.begin_queued();
        self.in_flight.poll_next(cx).map(|found| found.map(collect))
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

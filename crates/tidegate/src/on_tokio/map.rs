//! Maps over a stream: each item a task, at most a window of them, results in order or as they
//! come.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::offer;
use super::pool::AsyncPool;
use super::work::Outcome;
use crate::admission::Patience;
use crate::completed::InFlight;
use crate::extras::Callback;
use crate::first_failure::FirstFailure;
use crate::handle::{CancelOnDrop, Handle};
use crate::map_error::MapError;
use crate::outcome::OutcomeKind;
use crate::refused::{Reason, Refused};
use crate::task::Offer;

impl AsyncPool {
    /// Runs `f` on every item of a stream, each a task of the pool, and gives the results in
    /// order. An item is pulled only when fewer than `window` are in flight and the pool has
    /// room: a slow reader or a full pool holds its source back.
    ///
    /// The first item that fails or panics ends the stream with its error; what is still in flight
    /// is cancelled, also when the stream is dropped. If the pool takes no more, the results of
    /// what it has taken come before that error.
    ///
    /// [`as_completed`](AsyncMap::as_completed) gives the results as they come.
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
        let feed = Feed {
            pool: self.clone(),
            f,
            window: window.max(1),
            next_key: 0,
            first_failure: Arc::default(),
            submitting: None,
            pulled_all: false,
            refused: None,
            over: false,
        };
        AsyncMap { items, feed, in_flight: VecDeque::new() }
    }
}

pin_project! {
    /// Results in order; see [`AsyncPool::map`].
    #[must_use = "streams do nothing unless polled"]
    pub struct AsyncMap<St, F, Fut, T, E> {
        #[pin]
        items: St,
        feed: Feed<F, Fut, T, E>,
        in_flight: Ordered<T, E>,
    }
}

pin_project! {
    /// Results as they come, each with the number of its item, from 0; see
    /// [`AsyncMap::as_completed`].
    #[must_use = "streams do nothing unless polled"]
    pub struct AsyncMapAsCompleted<St, F, Fut, T, E> {
        #[pin]
        items: St,
        feed: Feed<F, Fut, T, E>,
        // Begun in order.
        first: Ordered<T, E>,
        rest: Unordered<T, E>,
    }
}

impl<St, F, Fut, T, E> AsyncMap<St, F, Fut, T, E> {
    /// Gives the results as they come, each with the number of its item: a slow item holds up
    /// none that are ready. What is in flight already comes first, in order. The first that fails
    /// ends it, as it does in order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use futures_core::Stream;
    /// use tidegate::{AsyncPool, Shutdown};
    ///
    /// # struct Numbers(u64);
    /// # impl Stream for Numbers {
    /// #     type Item = u64;
    /// #     fn poll_next(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>)
    /// #         -> std::task::Poll<Option<u64>> {
    /// #         self.0 += 1;
    /// #         std::task::Poll::Ready((self.0 <= 3).then_some(self.0))
    /// #     }
    /// # }
    /// # let numbers = Numbers(0); // 1, 2, 3
    /// let pool = AsyncPool::builder("pages").workers(3).build_async()?;
    /// let pages = pool.map(numbers, 3, |n| async move {
    ///     tokio::time::sleep(Duration::from_millis(100 / n)).await;
    ///     Ok::<_, String>(n)
    /// });
    /// let mut pages = pin!(pages.as_completed());
    /// let mut order = Vec::new();
    /// while let Some((number, page)) = std::future::poll_fn(|cx| pages.as_mut().poll_next(cx)).await {
    ///     order.push((number, page?));
    /// }
    /// assert_eq!(order, [(2, 3), (1, 2), (0, 1)]);
    /// pool.shutdown(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_completed(self) -> AsyncMapAsCompleted<St, F, Fut, T, E> {
        let AsyncMap { items, feed, in_flight } = self;
        AsyncMapAsCompleted { items, feed, first: in_flight, rest: Unordered::new() }
    }
}

/// In flight, oldest first. Dropping it cancels them.
type Ordered<T, E> = VecDeque<(u64, CancelOnDrop<T, E>)>;

/// In flight, collected as they settle. Dropping it cancels them.
struct Unordered<T, E> {
    in_flight: InFlight<T, E>,
}

impl<T, E> Unordered<T, E> {
    fn new() -> Self {
        Unordered { in_flight: InFlight::new() }
    }
}

impl<T, E> Drop for Unordered<T, E> {
    fn drop(&mut self) {
        for handle in self.in_flight.handles() {
            handle.cancel();
        }
    }
}

/// How an item becomes a task, and when.
struct Feed<F, Fut, T, E> {
    pool: AsyncPool,
    f: F,
    window: usize,
    next_key: u64,
    first_failure: Arc<FirstFailure>,
    /// One item that waits for room.
    submitting: Option<Submitting<Fut, T, E>>,
    /// There are no more, or no more are wanted.
    pulled_all: bool,
    /// Why the last one was not taken; not told yet.
    refused: Option<Reason>,
    over: bool,
}

type Submitting<Fut, T, E> =
    Pin<Box<dyn Future<Output = Result<Handle<T, E>, Refused<Fut>>> + Send>>;

/// What a map gives: the number of an item, and what became of it.
type Given<T, E> = Option<(usize, Result<T, MapError<E>>)>;

impl<F, Fut, T, E> Feed<F, Fut, T, E>
where
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    /// One more that was accepted. Pending, with the waker left, if the source or the pool holds
    /// it back; `None` if the window does, or there are no more.
    fn poll_pull<St>(
        &mut self,
        mut items: Pin<&mut St>,
        in_flight: usize,
        callback: impl FnOnce(u64) -> Option<Callback>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(u64, Handle<T, E>)>>
    where
        St: Stream,
        F: FnMut(St::Item) -> Fut,
    {
        if self.first_failure.has_come() {
            self.submitting = None;
            self.pulled_all = true;
        }
        if self.submitting.is_none() {
            if self.pulled_all || in_flight >= self.window {
                return Poll::Ready(None);
            }
            let Some(item) = ready!(items.as_mut().poll_next(cx)) else {
                self.pulled_all = true;
                return Poll::Ready(None);
            };
            let (core, work) = (Arc::clone(self.pool.core()), Outcome((self.f)(item)));
            // As for closures: it waits for room whatever the policy, and inside the pool it
            // begins on top of the task that asks.
            let on_outcome = self.stops_the_rest(callback(self.next_key));
            let patience = Patience::Room;
            let offer = Offer { patience, on_outcome: Some(on_outcome), ..Offer::default() };
            self.submitting = Some(Box::pin(offer::submit(core, work, offer)));
        }
        let submitting = self.submitting.as_mut().expect("just made if there was none");
        let submitted = ready!(submitting.as_mut().poll(cx));
        self.submitting = None;
        match submitted {
            Ok(handle) => {
                let key = self.next_key;
                self.next_key += 1;
                if let Some(cell) = handle.cell() {
                    self.first_failure.watch(key, cell, 0, self.window);
                }
                Poll::Ready(Some((key, handle)))
            }
            Err(refused) => {
                self.pulled_all = true;
                self.refused = Some(refused.reason());
                Poll::Ready(None)
            }
        }
    }

    /// The next item's callback: a failure stops what is queued behind it, also while nobody
    /// reads. It is told first, so that the reader finds it before those it stopped.
    fn stops_the_rest(&self, tell: Option<Callback>) -> Callback {
        let (key, first_failure) = (self.next_key, Arc::clone(&self.first_failure));
        Box::new(move |summary| {
            tell.into_iter().for_each(|tell| tell(summary));
            if matches!(summary.kind, OutcomeKind::Failed | OutcomeKind::Panicked) {
                first_failure.at(key);
            }
        })
    }

    /// The next result of those begun in order; None if there are none.
    fn poll_oldest(
        &mut self,
        in_flight: &mut Ordered<T, E>,
        cx: &mut Context<'_>,
    ) -> Poll<Given<T, E>> {
        let Some((key, oldest)) = in_flight.front_mut() else { return Poll::Ready(None) };
        let outcome = ready!(Pin::new(oldest).poll(cx));
        let key = *key as usize;
        in_flight.pop_front();
        if outcome.is_err() {
            self.end();
            in_flight.clear(); // cancels
        }
        Poll::Ready(Some((key, outcome.map_err(MapError::Task))))
    }

    /// Nothing is in flight.
    fn poll_end(&mut self) -> Poll<Given<T, E>> {
        if !self.pulled_all {
            return Poll::Pending;
        }
        self.over = true;
        let reason = self.refused.take();
        Poll::Ready(reason.map(|reason| (self.next_key as usize, Err(MapError::Refused(reason)))))
    }

    /// An error is given: nothing comes after it.
    fn end(&mut self) {
        self.over = true;
        self.submitting = None;
    }
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
        let (mut items, feed, in_flight) = (this.items, this.feed, this.in_flight);
        if feed.over {
            return Poll::Ready(None);
        }
        while let Poll::Ready(Some((key, handle))) =
            feed.poll_pull(items.as_mut(), in_flight.len(), |_| None, cx)
        {
            in_flight.push_back((key, handle.cancel_on_drop()));
        }
        let given = match ready!(feed.poll_oldest(in_flight, cx)) {
            None => ready!(feed.poll_end()),
            given => given,
        };
        Poll::Ready(given.map(|(_, result)| result))
    }
}

impl<St, F, Fut, T, E> Stream for AsyncMapAsCompleted<St, F, Fut, T, E>
where
    St: Stream,
    F: FnMut(St::Item) -> Fut,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Item = (usize, Result<T, MapError<E>>);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let (mut items, feed, first, rest) = (this.items, this.feed, this.first, this.rest);
        if feed.over {
            return Poll::Ready(None);
        }
        while let Poll::Ready(Some((key, handle))) = feed.poll_pull(
            items.as_mut(),
            first.len() + rest.in_flight.len(),
            |key| Some(rest.in_flight.callback(key)),
            cx,
        ) {
            rest.in_flight.add(key, handle);
        }
        if let Some(given) = ready!(feed.poll_oldest(first, cx)) {
            if given.1.is_err() {
                *rest = Unordered::new(); // cancels
            }
            return Poll::Ready(Some(given));
        }
        rest.in_flight.begin_queued(cx.waker());
        let Some((key, mut handle)) = ready!(rest.in_flight.poll_next(cx)) else {
            return feed.poll_end();
        };
        let outcome = handle.try_take().expect("listed only once it is settled");
        if outcome.is_err() {
            feed.end();
            *rest = Unordered::new(); // cancels
        }
        Poll::Ready(Some((key as usize, outcome.map_err(MapError::Task))))
    }
}

impl<St, F, Fut, T, E> fmt::Debug for AsyncMap<St, F, Fut, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.feed.show("AsyncMap", self.in_flight.len(), f)
    }
}

impl<St, F, Fut, T, E> fmt::Debug for AsyncMapAsCompleted<St, F, Fut, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.feed.show("AsyncMapAsCompleted", self.first.len() + self.rest.in_flight.len(), f)
    }
}

impl<F, Fut, T, E> Feed<F, Fut, T, E> {
    fn show(&self, name: &str, in_flight: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("pool", &self.pool.name())
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

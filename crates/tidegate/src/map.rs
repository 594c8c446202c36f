//! Map over an iterator: each item a task, results in order or as they come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::admission::Patience;
use crate::completed::InFlight;
use crate::core::Core;
use crate::cx::Cx;
use crate::extras::Callback;
use crate::first_failure::FirstFailure;
use crate::handle::Handle;
use crate::job::{Run, Work};
use crate::map_error::MapError;
use crate::outcome::{Cause, TaskError};
use crate::panics::quietly;
use crate::pool::Pool;
use crate::refused::{Reason, Refused};
use crate::scope::Scope;
use crate::settle::{self, Who};
use crate::task::{Offer, Unwanted};
use crate::wait_error::WaitError;
use crate::waiting::Depth;

/// The results of [`Pool::map`], in the order of the items.
///
/// Each item is a task. Items are pulled only when a result is asked for and fewer than
/// the [`window`](Map::window) are in flight: results never pile up, an endless iterator is
/// fine, and workers never wait for a slow reader.
///
/// The first error or panic stops it: nothing more is pulled, and what is queued behind the
/// failed item is cancelled. Results before it are still given, then the error, then
/// nothing. Dropping a map cancels what is queued and lets what runs go on.
///
/// The iterator runs on the reader's thread. One that blocks, such as a channel, holds up
/// results that are ready, unless the window is 1.
///
/// Outside the pool it waits for room in the queue, whatever the pool's policy. Inside a
/// task of the pool items run on top of it when there is no room, and while it waits.
#[must_use = "a map does nothing until it is iterated"]
pub struct Map<'m, I: Iterator, T, E = Infallible> {
    feed: Feed<'m, I, T, E>,
    in_flight: Ordered<T, E>,
}

/// The results of a [`Map`] as they come, each with the number of its item, from 0.
#[must_use = "a map does nothing until it is iterated"]
pub struct MapAsCompleted<'m, I: Iterator, T, E = Infallible> {
    feed: Feed<'m, I, T, E>,
    /// Begun in order.
    first: Ordered<T, E>,
    rest: Unordered<T, E>,
}

/// Where the items come from, and how one becomes a task.
struct Feed<'m, I: Iterator, T, E> {
    core: Arc<Core>,
    items: I,
    submit: Submit<'m, I::Item, T, E>,
    first_failure: Arc<FirstFailure>,
    window: usize,
    next_key: u64,
    /// Nothing more is pulled.
    over: bool,
    /// Pulled, and not accepted yet.
    held: Option<I::Item>,
    /// Why it never will be; not told yet.
    refused: Option<Reason>,
}

type Submit<'m, X, T, E> =
    Box<dyn FnMut(u64, X, Terms<'_>) -> Result<Handle<T, E>, Refused<X>> + Send + 'm>;

/// What an item is offered with. An `Offer` is so large that it costs more to hand it over than
/// to fill it in.
struct Terms<'t> {
    on_outcome: Option<Callback>,
    patience: Patience,
    unwanted: Unwanted<'t>,
}

impl<'t> Terms<'t> {
    #[inline(always)]
    fn into_offer(self) -> Offer<'t> {
        let Terms { on_outcome, patience, unwanted } = self;
        Offer { on_outcome, patience, unwanted: Some(unwanted), ..Offer::default() }
    }
}

/// So many references to what the items share are made at once, at most: the count is on a line
/// that workers write to, and each time it comes back takes longer than a short item.
const STOCK: usize = 64;

/// At least so many are in flight unless the user says otherwise: fewer, and short tasks
/// wait for the reader.
const SMALLEST_WINDOW: usize = 64;

impl<S: 'static> Pool<S> {
    /// Runs `f` on each item, and gives the results in order. See [`Map`].
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("squares").workers(2).build()?;
    /// let squares: Result<Vec<u64>, _> = pool.map(1..=4, |n| n * n).collect();
    /// assert_eq!(squares?, [1, 4, 9, 16]);
    /// pool.shutdown(Shutdown::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map<I, T, F>(&self, items: I, f: F) -> Map<'static, I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'static>,
        T: Send + 'static,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
    {
        self.map_result(items, move |item| Ok(f(item)))
    }

    /// As [`map`](Pool::map), for a function that returns a `Result`: the first `Err` stops it.
    ///
    /// ```
    /// use tidegate::{MapError, Pool, Shutdown, TaskError};
    ///
    /// let pool = Pool::builder("parse").workers(2).build()?;
    /// let mut numbers = pool.map_result(["1", "2", "x", "4"], |text| text.parse::<u64>());
    /// assert_eq!(numbers.next().unwrap()?, 1);
    /// assert_eq!(numbers.next().unwrap()?, 2);
    /// assert!(matches!(numbers.next(), Some(Err(MapError::Task(TaskError::Failed(_))))));
    /// assert!(numbers.next().is_none());
    /// pool.shutdown(Shutdown::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map_result<I, T, E, F>(&self, items: I, f: F) -> Map<'static, I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'static>,
        T: Send + 'static,
        E: Send + 'static,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'static,
    {
        let pool = self.clone();
        Map::new(self.core(), items.into_iter(), f, move |work, terms| match terms {
            Terms { on_outcome: None, patience, unwanted } => {
                pool.submit_plain(work, patience, Some(unwanted))
            }
            terms => pool.submit_work(work, terms.into_offer()),
        })
    }
}

impl<'scope, S: 'static> Scope<'scope, '_, S> {
    /// As [`Pool::map`], with items, function and results that may borrow.
    pub fn map<I, T, F>(&'scope self, items: I, f: F) -> Map<'scope, I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'scope>,
        T: Send + 'scope,
        F: Fn(I::Item) -> T + Send + Sync + 'scope,
    {
        self.map_result(items, move |item| Ok(f(item)))
    }

    /// As [`Pool::map_result`], with items, function and results that may borrow.
    pub fn map_result<I, T, E, F>(&'scope self, items: I, f: F) -> Map<'scope, I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'scope>,
        T: Send + 'scope,
        E: Send + 'scope,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'scope,
    {
        Map::new(self.core(), items.into_iter(), f, move |work, terms| {
            self.offer_item(work, terms.into_offer())
        })
    }
}

impl<'m, I: Iterator, T, E> Map<'m, I, T, E> {
    fn new<F>(
        core: &Arc<Core>,
        items: I,
        f: F,
        submit: impl Fn(Apply<I::Item, F>, Terms<'_>) -> Result<Handle<T, E>, Refused<I::Item>>
        + Send
        + 'm,
    ) -> Self
    where
        F: Send + Sync + 'm,
    {
        let first_failure = Arc::new(FirstFailure::default());
        let job = Arc::new(Job { f, first_failure: Arc::clone(&first_failure) });
        let (mut stock, mut batch) = (Vec::new(), 1);
        let submit: Submit<'m, I::Item, T, E> = Box::new(move |key, item, terms| {
            let job = stock.pop().unwrap_or_else(|| {
                batch = (2 * batch).min(STOCK);
                stock.extend((1..batch).map(|_| Arc::clone(&job)));
                Arc::clone(&job)
            });
            submit(Apply { job, key, item }, terms)
        });
        let feed = Feed {
            core: Arc::clone(core),
            items,
            submit,
            first_failure,
            window: SMALLEST_WINDOW.max(4 * core.most_workers()),
            next_key: 0,
            over: false,
            held: None,
            refused: None,
        };
        Map { feed, in_flight: Ordered { handles: VecDeque::new() } }
    }

    /// How many items may be in flight: pulled, and their results not yet given. At least 1;
    /// default: 4 for each worker, 64 at least.
    pub fn window(mut self, items: usize) -> Self {
        self.feed.window = items.max(1);
        self
    }

    /// Gives the results as they come, each with the number of its item. What is in flight
    /// already comes first, in order.
    pub fn as_completed(self) -> MapAsCompleted<'m, I, T, E> {
        MapAsCompleted { feed: self.feed, first: self.in_flight, rest: Unordered::new() }
    }

    /// The items that were not taken: one that the pool refused, and those never pulled.
    pub fn into_rest(self) -> impl Iterator<Item = I::Item> {
        self.feed.into_rest()
    }
}

impl<I: Iterator, T, E> Iterator for Map<'_, I, T, E> {
    type Item = Result<T, MapError<E>>;

    fn next(&mut self) -> Option<Self::Item> {
        let handles = &mut self.in_flight.handles;
        let mut pulled = false;
        while handles.len() < self.feed.window {
            let ready = handles.front().is_some_and(|(_, handle)| handle.is_settled());
            if pulled && ready {
                break;
            }
            let oldest = handles.front().and_then(|(_, handle)| handle.cell());
            let becomes_ready = |waker: &Waker| oldest.is_some_and(|cell| cell.register(waker));
            let oldest = handles.front().map(|(key, _)| *key);
            let pulled_one = self.feed.pull(ready, &becomes_ready, oldest, |_| None);
            let Some(one_more) = pulled_one else { break };
            handles.push_back(one_more);
            pulled = true;
        }
        self.in_flight.next(&mut self.feed).map(|(_, result)| result)
    }
}

impl<I: Iterator, T, E> MapAsCompleted<'_, I, T, E> {
    /// As [`Map::into_rest`].
    pub fn into_rest(self) -> impl Iterator<Item = I::Item> {
        self.feed.into_rest()
    }
}

impl<I: Iterator, T, E> Iterator for MapAsCompleted<'_, I, T, E> {
    type Item = (usize, Result<T, MapError<E>>);

    fn next(&mut self) -> Option<Self::Item> {
        let (feed, rest) = (&mut self.feed, &mut self.rest.in_flight);
        let mut pulled = false;
        while self.first.handles.len() + rest.len() < feed.window {
            let ready = match self.first.handles.front() {
                Some((_, handle)) => handle.is_settled(),
                None => rest.has_settled(),
            };
            if pulled && ready {
                break;
            }
            let oldest = self.first.handles.front().and_then(|(_, handle)| handle.cell());
            let settled = Arc::clone(rest.settled());
            let becomes_ready = |waker: &Waker| match oldest {
                Some(cell) => cell.register(waker),
                None => settled.is_ready_or_wakes(waker),
            };
            let oldest = self.first.handles.front().map(|(key, _)| *key).or(rest.oldest());
            let callback = |key| Some(rest.callback(key));
            let Some((key, handle)) = feed.pull(ready, &becomes_ready, oldest, callback) else {
                break;
            };
            rest.add(key, handle);
            pulled = true;
        }
        if !self.first.handles.is_empty() {
            let found = self.first.next(feed);
            if matches!(found, Some((_, Err(_)))) {
                self.rest = Unordered::new();
            }
            return found;
        }
        if rest.is_held_up(&feed.core) {
            let oldest = rest.oldest().unwrap_or(feed.next_key);
            feed.end();
            self.rest = Unordered::new();
            return Some((oldest as usize, Err(MapError::Refused(Reason::WouldDeadlock))));
        }
        loop {
            let Some((key, mut handle)) = rest.next(&feed.core) else {
                return feed.refusal();
            };
            let outcome = handle.try_take().expect("listed only once it is settled");
            if let Err(TaskError::Cancelled { cause: Cause::Group, .. }) = outcome
                && feed.first_failure.is_before(key)
            {
                continue; // the failure itself is still to come
            }
            if outcome.is_err() {
                feed.end();
                self.rest = Unordered::new();
            }
            return Some((key as usize, outcome.map_err(MapError::Task)));
        }
    }
}

impl<I: Iterator, T, E> Feed<'_, I, T, E> {
    /// Submits one more item, if there is one and nothing has failed. `ready`: a result can
    /// be given right now, so this is no time to wait for room; `becomes_ready` ends the wait.
    /// `oldest`: of those in flight.
    fn pull(
        &mut self,
        ready: bool,
        becomes_ready: Unwanted<'_>,
        oldest: Option<u64>,
        callback: impl FnOnce(u64) -> Option<Callback>,
    ) -> Option<(u64, Handle<T, E>)> {
        self.over |= self.first_failure.has_come();
        if self.over || ready && !self.core.queue.has_room() {
            return None;
        }
        let Some(item) = self.held.take().or_else(|| self.items.next()) else {
            self.over = true;
            return None;
        };
        let key = self.next_key;
        let patience = if ready { Patience::Probe } else { Patience::Room };
        let terms = Terms { on_outcome: callback(key), patience, unwanted: becomes_ready };
        match (self.submit)(key, item, terms) {
            Ok(handle) => {
                self.next_key += 1;
                if let Some(cell) = handle.cell() {
                    self.first_failure.watch(key, cell, oldest.unwrap_or(key), self.window);
                }
                Some((key, handle))
            }
            Err(refused) => {
                let reason = refused.reason();
                self.held = Some(refused.into_work());
                let not_now = match reason {
                    Reason::Full => ready,
                    Reason::Cancelled => true, // by `becomes_ready`
                    _ => false,
                };
                if !not_now {
                    self.over = true;
                    self.refused = Some(reason);
                }
                None
            }
        }
    }

    /// An error is given: nothing comes after it.
    fn end(&mut self) {
        self.over = true;
        self.refused = None;
    }

    /// Once nothing is in flight: why the last item is not.
    fn refusal<R>(&mut self) -> Option<(usize, Result<R, MapError<E>>)> {
        let reason = self.refused.take()?;
        Some((self.next_key as usize, Err(MapError::Refused(reason))))
    }

    fn into_rest(self) -> impl Iterator<Item = I::Item> {
        self.held.into_iter().chain(self.items)
    }
}

/// In flight, oldest first. Dropping it cancels what is queued.
struct Ordered<T, E> {
    handles: VecDeque<(u64, Handle<T, E>)>,
}

impl<T, E> Ordered<T, E> {
    fn next<I: Iterator>(
        &mut self,
        feed: &mut Feed<'_, I, T, E>,
    ) -> Option<(usize, Result<T, MapError<E>>)> {
        let Some((key, handle)) = self.handles.pop_front() else {
            return feed.refusal();
        };
        let result = handle.wait_at(Depth::Any).map_err(|error| match error {
            WaitError::Task(error) => MapError::Task(error),
            WaitError::NoOutcome { .. } => MapError::Refused(Reason::WouldDeadlock),
        });
        if result.is_err() {
            feed.end();
            *self = Ordered { handles: VecDeque::new() };
        }
        Some((key as usize, result))
    }
}

impl<T, E> Drop for Ordered<T, E> {
    fn drop(&mut self) {
        cancel_queued(self.handles.iter().map(|(_, handle)| handle));
    }
}

/// In flight, collected as they settle. Dropping it cancels what is queued.
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
        cancel_queued(self.in_flight.handles());
    }
}

fn cancel_queued<'h, T: 'h, E: 'h>(handles: impl Iterator<Item = &'h Handle<T, E>>) {
    for cell in handles.filter_map(Handle::cell) {
        settle::cancel_queued(cell, Cause::Group, Who::Caller);
    }
}

/// What all items of one map share.
struct Job<F> {
    f: F,
    first_failure: Arc<FirstFailure>,
}

/// One item, as work. Refused, it gives the item back.
pub(crate) struct Apply<X, F> {
    job: Arc<Job<F>>,
    key: u64,
    item: X,
}

impl<X: Send, T: Send, E: Send, F: Fn(X) -> Result<T, E> + Send + Sync> Work for Apply<X, F> {
    type Value = T;
    type Error = E;
    type Closure = X;

    fn into_closure(self) -> X {
        self.item
    }
}

impl<X: Send, T: Send, E: Send, F: Fn(X) -> Result<T, E> + Send + Sync> Run for Apply<X, F> {
    fn run(self, _: *mut (), _: &Cx) -> Result<T, E> {
        let Apply { job, key, item } = self;
        // From inside the task: the reader may be asleep, or far behind.
        match quietly(|| (job.f)(item)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                job.first_failure.at(key);
                Err(error)
            }
            Err(panic) => {
                job.first_failure.at(key);
                panic.resume()
            }
        }
    }
}

impl<I: Iterator, T, E> fmt::Debug for Map<'_, I, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.feed.show("Map", self.in_flight.handles.len(), f)
    }
}

impl<I: Iterator, T, E> fmt::Debug for MapAsCompleted<'_, I, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = self.first.handles.len() + self.rest.in_flight.len();
        self.feed.show("MapAsCompleted", in_flight, f)
    }
}

impl<I: Iterator, T, E> Feed<'_, I, T, E> {
    fn show(&self, name: &str, in_flight: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("pool", &self.core.name)
            .field("window", &self.window)
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::STOCK;
    use crate::{Pool, Shutdown};

    /// However it ends, of what the items share nothing is left: not in the stock either.
    #[test]
    fn hazard_63_a_map_leaves_no_reference_behind() -> Result<(), Box<dyn std::error::Error>> {
        let pool = Pool::builder("shared").workers(2).build()?;
        let shared = Arc::new(());
        let many = 3 * STOCK;
        // How many items, which one fails or panics, how many results are asked for.
        for (items, fails, panics, asked) in [
            (many, many, many, many),
            (many, many, many, 1),
            (many, many, many, 0),
            (many, STOCK, many, many),
            (many, many, STOCK, many),
        ] {
            let inside = Arc::clone(&shared);
            let map = pool.map_result(0..items, move |n| {
                let _inside = &inside;
                assert_ne!(n, panics, "on purpose");
                if n == fails { Err(n) } else { Ok(n) }
            });
            assert!(map.take(asked).count() <= asked);
            pool.wait_idle()?;
            assert_eq!(Arc::strong_count(&shared), 1, "{items} {fails} {panics} {asked}");
        }
        pool.shutdown(Shutdown::default())?;
        let inside = Arc::clone(&shared);
        let mut refused = pool.map(0..many, move |n| (n, Arc::strong_count(&inside)));
        assert!(refused.next().is_some_and(|result| result.is_err()));
        drop(refused);
        assert_eq!(Arc::strong_count(&shared), 1, "refused");
        Ok(())
    }
}

//! Outcomes as they come, with a window.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::awaited;
use crate::completed::InFlight;
use crate::frames;
use crate::handle::Handle;
use crate::ids::TaskId;
use crate::job::{Fallible, Plain, Run};
use crate::outcome::TaskError;
use crate::pool::Pool;
use crate::refused::{Reason, Refused};
use crate::task::Offer;

/// Submits tasks and gives their outcomes in the order in which they come.
///
/// At most `window` tasks are accepted and not yet collected: results never pile up, and
/// workers never wait for a slow reader. [`submit`](Completions::submit) on a full window
/// refuses with `Full`: take an outcome first.
///
/// ```
/// use tidegate::{Pool, Shutdown};
///
/// let pool = Pool::builder("sum").workers(2).build()?;
/// let mut done = pool.stream::<u64, std::convert::Infallible>(8);
/// let mut sum = 0;
/// for n in 0..100u64 {
///     if done.in_flight() == 8 {
///         sum += done.next().expect("eight are in flight").outcome?;
///     }
///     done.submit(move || n)?;
/// }
/// for completion in &mut done {
///     sum += completion.outcome?;
/// }
/// assert_eq!(sum, 4950);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Completions<T, E, S = ()> {
    pool: Pool<S>,
    window: usize,
    next_key: u64,
    in_flight: InFlight<T, E>,
}

/// One outcome of a [`Completions`] stream.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion<T, E> {
    /// The number of the submission in this stream, from 0.
    pub key: u64,
    /// The pool's id for the task.
    pub id: TaskId,
    /// How it ended.
    pub outcome: Result<T, TaskError<E>>,
}

impl<T: Send + 'static, E: Send + 'static, S: 'static> Completions<T, E, S> {
    pub(crate) fn new(pool: Pool<S>, window: usize) -> Self {
        Completions { pool, window: window.max(1), next_key: 0, in_flight: InFlight::new() }
    }

    /// Submits a closure that returns a `Result`; gives its number.
    pub fn submit_result<F>(&mut self, f: F) -> Result<u64, Refused<F>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.add(Fallible(f))
    }

    /// As [`submit_result`](Completions::submit_result), for async code: awaits room as
    /// [`Pool::submit_async`] does. Dropped while it waits it takes the closure along. A full
    /// window refuses with `Full`.
    pub fn submit_result_async<F>(
        &mut self,
        f: F,
    ) -> impl Future<Output = Result<u64, Refused<F>>> + Send
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.add_awaited(Fallible(f))
    }

    /// Accepted and not yet collected.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The next outcome; waits for it. `None` if nothing is in flight.
    ///
    /// Inside a task of the same pool it runs one of its own queued tasks instead of
    /// waiting, as [`Handle::wait`] does. In a pool with worker state it can't: there, with
    /// every worker waiting, nobody would be left; collect outside.
    ///
    /// # Panics
    /// Inside a poll of a pool's future: it blocks. There is [`next_async`](Self::next_async).
    #[allow(clippy::should_implement_trait, reason = "it is one: see the Iterator impl")]
    pub fn next(&mut self) -> Option<Completion<T, E>> {
        frames::must_not_poll("the next outcome of a stream", "await `next_async`");
        let core = Arc::clone(self.pool.core());
        self.in_flight.next(&core).map(collect)
    }

    /// The next outcome if it is there already.
    pub fn try_next(&mut self) -> Option<Completion<T, E>> {
        self.in_flight.try_next().map(collect)
    }

    /// As [`next`](Completions::next), for async code on any runtime. Dropped, it takes nothing
    /// along. With feature `tokio` this is also a `Stream`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("sum").workers(2).queue(1).build()?;
    /// let mut done = pool.stream(8);
    /// let mut sum = 0;
    /// for n in 0..8u64 {
    ///     done.submit_async(move || n).await?; // awaits room
    /// }
    /// while let Some(completion) = done.next_async().await {
    ///     sum += completion.outcome?;
    /// }
    /// assert_eq!(sum, 28);
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn next_async(&mut self) -> impl Future<Output = Option<Completion<T, E>>> + Send {
        poll_fn(|cx| self.poll_next(cx))
    }

    /// The next outcome, for async code that polls by hand; `Ready(None)` if nothing is in
    /// flight.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Completion<T, E>>> {
        self.in_flight.run_inside(self.pool.core());
        self.in_flight.poll_next(cx).map(|found| found.map(collect))
    }

    fn add<W>(&mut self, work: W) -> Result<u64, Refused<W::Closure>>
    where
        W: Run<Value = T, Error = E> + 'static,
    {
        let work = self.within_the_window(work)?;
        let handle = self.pool.submit_work(work, self.offer())?;
        Ok(self.added(handle))
    }

    async fn add_awaited<W>(&mut self, work: W) -> Result<u64, Refused<W::Closure>>
    where
        W: Run<Value = T, Error = E> + 'static,
    {
        let work = self.within_the_window(work)?;
        let (core, offer) = (Arc::clone(self.pool.core()), self.offer());
        let cell = awaited::offer(core, work, true, offer).await?;
        Ok(self.added(Handle::new(cell, false)))
    }

    fn within_the_window<W: Run>(&self, work: W) -> Result<W, Refused<W::Closure>> {
        if self.in_flight.len() < self.window {
            return Ok(work);
        }
        Err(self.pool.core().refuse("", Reason::Full, work.into_closure()))
    }

    /// What goes with the next task.
    fn offer(&self) -> Offer<'static> {
        let tell = self.in_flight.callback(self.next_key);
        Offer { on_outcome: Some(tell), ..Offer::default() }
    }

    fn added(&mut self, handle: Handle<T, E>) -> u64 {
        let key = self.next_key;
        self.in_flight.add(key, handle);
        self.next_key += 1;
        key
    }
}

impl<T: Send + 'static, S: 'static> Completions<T, std::convert::Infallible, S> {
    /// Submits a closure; gives its number.
    pub fn submit<F>(&mut self, f: F) -> Result<u64, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.add(Plain(f))
    }

    /// As [`submit_result_async`](Completions::submit_result_async), for a closure that can't
    /// fail.
    pub fn submit_async<F>(&mut self, f: F) -> impl Future<Output = Result<u64, Refused<F>>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.add_awaited(Plain(f))
    }
}

pub(crate) fn collect<T, E>((key, mut handle): (u64, Handle<T, E>)) -> Completion<T, E> {
    let id = handle.id();
    // The callback that listed it runs after publication.
    let outcome = handle.try_take().expect("listed only once it is settled");
    Completion { key, id, outcome }
}

impl<T: Send + 'static, E: Send + 'static, S: 'static> Iterator for Completions<T, E, S> {
    type Item = Completion<T, E>;
    fn next(&mut self) -> Option<Completion<T, E>> {
        Completions::next(self)
    }
}

impl<T, E, S> fmt::Debug for Completions<T, E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions")
            .field("pool", &self.pool.name())
            .field("window", &self.window)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

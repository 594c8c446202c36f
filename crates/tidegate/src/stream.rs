//! Outcomes as they come, with a window.
//!
//! Built from what is there: each task has a handle, kept here, and a callback that puts
//! its number on the list of settled ones. The handle owns the value until `next` takes it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::event::wake_quietly;
use crate::frames;
use crate::handle::Handle;
use crate::ids::TaskId;
use crate::job::{Fallible, Plain, Work};
use crate::outcome::TaskError;
use crate::parker::with_parker;
use crate::pool::Pool;
use crate::refused::{Reason, Refused};
use crate::sync::Lock;
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
    open: BTreeMap<u64, Handle<T, E>>,
    settled: Arc<Settled>,
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

#[derive(Default)]
struct Settled {
    state: Lock<(VecDeque<u64>, Option<Waker>)>,
}

impl<T: Send + 'static, E: Send + 'static, S: 'static> Completions<T, E, S> {
    pub(crate) fn new(pool: Pool<S>, window: usize) -> Self {
        let settled = Arc::new(Settled::default());
        Completions { pool, window: window.max(1), next_key: 0, open: BTreeMap::new(), settled }
    }

    /// Submits a closure that returns a `Result`; gives its number.
    pub fn submit_result<F>(&mut self, f: F) -> Result<u64, Refused<F>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.add(Fallible(f))
    }

    /// Accepted and not yet collected.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// The next outcome; waits for it. `None` if nothing is in flight.
    ///
    /// Inside a task of the same pool it runs one of its own queued tasks instead of
    /// waiting, as [`Handle::wait`] does. In a pool with worker state it can't: there, with
    /// every worker waiting, nobody would be left; collect outside.
    #[allow(clippy::should_implement_trait, reason = "it is one: see the Iterator impl")]
    pub fn next(&mut self) -> Option<Completion<T, E>> {
        let core = Arc::clone(self.pool.core());
        if frames::depth(core.address()) > 0 && self.settled.state.lock().0.is_empty() {
            let _ = self.open.values().any(|handle| handle.run_inside(&core));
        }
        with_parker(|parker, waker| {
            loop {
                match self.poll_next(&mut Context::from_waker(waker)) {
                    Poll::Ready(found) => return found,
                    Poll::Pending => parker.park(),
                }
            }
        })
    }

    /// The next outcome if it is there already.
    pub fn try_next(&mut self) -> Option<Completion<T, E>> {
        let key = self.settled.state.lock().0.pop_front()?;
        Some(self.collect(key))
    }

    /// The next outcome, for async code on any runtime; `Ready(None)` if nothing is in
    /// flight.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Completion<T, E>>> {
        if self.open.is_empty() {
            return Poll::Ready(None);
        }
        let waker = cx.waker().clone();
        let (key, old) = {
            let mut state = self.settled.state.lock();
            match state.0.pop_front() {
                Some(key) => (Some(key), None),
                None => (None, state.1.replace(waker)),
            }
        };
        drop(old);
        match key {
            Some(key) => Poll::Ready(Some(self.collect(key))),
            None => Poll::Pending,
        }
    }

    fn collect(&mut self, key: u64) -> Completion<T, E> {
        let mut handle = self.open.remove(&key).expect("a settled number is in flight");
        let id = handle.id();
        // The callback that listed it runs after publication.
        let outcome = handle.try_take().expect("listed only once it is settled");
        Completion { key, id, outcome }
    }

    fn add<W>(&mut self, work: W) -> Result<u64, Refused<W::Closure>>
    where
        W: Work<Value = T, Error = E> + 'static,
    {
        if self.open.len() >= self.window {
            let core = self.pool.core();
            return Err(core.refuse(Reason::Full, work.into_closure()));
        }
        let key = self.next_key;
        let settled = Arc::clone(&self.settled);
        let tell = Box::new(move |_: &_| settled.add(key));
        let offer = Offer { on_outcome: Some(tell), ..Offer::default() };
        let handle = self.pool.submit_work(work, offer)?;
        self.open.insert(key, handle);
        self.next_key += 1;
        Ok(key)
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
}

impl Settled {
    fn add(&self, key: u64) {
        let waker = {
            let mut state = self.state.lock();
            state.0.push_back(key);
            state.1.take()
        };
        wake_quietly(waker);
    }
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
            .field("in_flight", &self.open.len())
            .finish_non_exhaustive()
    }
}

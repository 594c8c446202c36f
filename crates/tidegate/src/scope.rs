//! Scopes: tasks that borrow from the stack of whoever waits for them.
//!
//! What makes it sound: `Pool::scope` does not return, however its body ends, before the
//! callback of every task has run. By then the closure and, unless a handle holds it, the
//! result are gone, whatever the outcome. A handle can't outlive the scope; one that is
//! forgotten leaks its result, which is harmless. Such a task is never abandoned: nobody may
//! say "it has ended" while its code can still use what it borrows.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::admission::Patience;
use crate::core::Core;
use crate::extras::Callback;
use crate::frames;
use crate::handle::Handle;
use crate::ids::TaskId;
use crate::job::{Fallible, Plain, Run};
use crate::outcome::{OutcomeKind, Summary, TaskError};
use crate::pool::Pool;
use crate::refused::Refused;
use crate::roll::Roll;
use crate::scoped_task::ScopedTask;
use crate::sync::Lock;
use crate::task::Offer;
use crate::wait_error::{WaitError, WaitReason};
use crate::waiting::Depth;

/// Where tasks that borrow are submitted; made by [`Pool::scope`].
pub struct Scope<'scope, 'env: 'scope, S = ()> {
    pool: &'env Pool<S>,
    open: Arc<Open>,
    /// Its end will wait inside a task of the pool.
    inside: bool,
    // Invariant in both, as `std::thread::Scope` is.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Collects the outcome of one scoped task.
#[must_use = "dropping a handle detaches its task; the scope still waits for it"]
pub struct ScopedHandle<'scope, T, E = std::convert::Infallible> {
    handle: Handle<T, E>,
    open: &'scope Open,
}

/// The tasks of one scope that have not ended.
#[derive(Default)]
struct Open {
    roll: Roll,
    panics: Lock<Panics>,
}

#[derive(Default)]
struct Panics {
    happened: Vec<(TaskId, String)>,
    /// A handle has given them to somebody, perhaps before the callback has told.
    seen: Vec<TaskId>,
}

impl<S: 'static> Pool<S> {
    /// Runs `body` with a scope, whose tasks may borrow whatever outlives this call, and
    /// returns when all of them have ended.
    ///
    /// A panic in `body` goes on once they have. One in a task, which no handle has given
    /// to anybody, panics here. Inside a task of the same pool tasks run on top of the
    /// running one when there is no room, and the end runs what is still queued: scopes
    /// nest, also on one worker.
    ///
    /// A scoped task can be cancelled and told to stop, never abandoned: a Hard shutdown
    /// returns in time and lists it as `still_borrowing`; only the scope waits for it. A Soft
    /// or Hard shutdown cancels what is queued, and the scope then ends without it: where a
    /// result depends on a task, wait for its handle.
    ///
    /// Tasks that run on top of each other share one stack. Allow a few KB for each level in a
    /// debug build, and set the builder's `stack_size` for recursion that goes deeper than a
    /// few hundred.
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("sums").workers(2).build()?;
    /// let mut numbers = [3, 1, 2];
    /// let (left, right) = numbers.split_at_mut(1);
    /// let sum: i32 = pool.scope(|s| {
    ///     let rest = s.submit(|| right.iter().sum::<i32>()).unwrap();
    ///     left[0] + rest.wait().unwrap()
    /// });
    /// assert_eq!(sum, 6);
    /// pool.shutdown(Shutdown::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Before `body` runs, inside a poll of a pool's future: a scope blocks. As said: when `body`
    /// did, or a task whose panic nobody saw (it is told to `on_unobserved`
    /// as well). A map in the scope keeps the panics of its items to itself: read it to the end.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, S>) -> R,
    ) -> R {
        frames::must_not_poll("a scope", "call it in `spawn_blocking`");
        let inside = frames::depth(self.core().address()) > 0;
        let open = Arc::new(Open::default());
        let scope = Scope {
            pool: self,
            open: Arc::clone(&open),
            inside,
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        // Unwinding from here would end borrows before their tasks.
        let no_way_out = AbortOnUnwind;
        open.roll
            .wait(self.core())
            .expect("not inside a poll, and with worker state nothing was accepted inside");
        std::mem::forget(no_way_out);
        match result {
            Err(payload) => resume_unwind(payload),
            Ok(value) => {
                if let Some(message) = open.unseen_panic() {
                    panic!("a scoped task panicked: {message}");
                }
                value
            }
        }
    }
}

/// Nothing in the wait panics; if it did all the same, going on would be unsound.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

impl<'scope, 'env, S: 'static> Scope<'scope, 'env, S> {
    /// Submits a closure that may borrow.
    pub fn submit<T, F>(&'scope self, f: F) -> Result<ScopedHandle<'scope, T>, Refused<F>>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        self.add(Plain(f), Offer::default())
    }

    /// As [`submit`](Scope::submit), for a closure that returns a `Result`: an `Err` counts
    /// as failed.
    pub fn submit_result<T, E, F>(
        &'scope self,
        f: F,
    ) -> Result<ScopedHandle<'scope, T, E>, Refused<F>>
    where
        T: Send + 'scope,
        E: Send + 'scope,
        F: FnOnce() -> Result<T, E> + Send + 'scope,
    {
        self.add(Fallible(f), Offer::default())
    }

    /// As [`submit`](Scope::submit), without a handle.
    pub fn spawn<F>(&'scope self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'scope,
    {
        self.add(Plain(f), Offer::default()).map(drop)
    }

    /// A task with a name, limits or a token, whose closure hears through its `Cx` that it
    /// should stop.
    pub fn task(&'scope self, name: &'static str) -> ScopedTask<'scope, 'env, S> {
        ScopedTask::new(self, name)
    }

    pub(crate) fn add<W: Run + 'scope>(
        &'scope self,
        work: W,
        offer: Offer<'_>,
    ) -> Result<ScopedHandle<'scope, W::Value, W::Error>, Refused<W::Closure>> {
        let open = Arc::clone(&self.open);
        let ended = Box::new(move |summary: &Summary| {
            if summary.kind == OutcomeKind::Panicked {
                let message = summary.message.clone().unwrap_or_default();
                open.panics.lock().happened.push((summary.id, message));
            }
            open.roll.leave();
        });
        let mut offer = Offer { patience: Patience::Fork, ..offer };
        let handle = match offer.wants {
            None => self.offer(work, ended, offer)?,
            Some(_) => self.offer(self.core().hold(work, &mut offer)?, ended, offer)?,
        };
        Ok(ScopedHandle { handle, open: &self.open })
    }

    /// A task of a map in this scope: the map sees to its panics.
    pub(crate) fn offer_item<W: Run + 'scope>(
        &'scope self,
        work: W,
        mut offer: Offer<'_>,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let (open, on_outcome) = (Arc::clone(&self.open), offer.on_outcome.take());
        let ended = Box::new(move |summary: &Summary| {
            if let Some(tell) = on_outcome {
                tell(summary);
            }
            open.roll.leave();
        });
        self.offer(work, ended, offer)
    }

    /// `ended` must leave the roll, last of all, and the handle must not leave the scope.
    fn offer<W: Run + 'scope>(
        &'scope self,
        work: W,
        ended: Callback,
        offer: Offer<'_>,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let core = self.pool.core();
        let inside = self.inside || frames::depth(core.address()) > 0;
        if core.config.worker_state.is_some() && inside {
            // Nobody could run it while its worker waits for the scope (W1).
            return Err(core.refuse(offer.name, core.held_up(), work.into_closure()));
        }
        self.open.roll.enter(usize::MAX);
        let offer = Offer { on_outcome: Some(ended), borrows: true, ..offer };
        // SAFETY: `Pool::scope` outlives the task and its callback: see the top of this file.
        match unsafe { core.offer_borrowing(work, true, offer) } {
            Ok(cell) => {
                if self.inside {
                    self.open.roll.accepted(cell);
                }
                Ok(Handle::new(cell, core.config.callers_may_help))
            }
            Err(refused) => {
                self.open.roll.leave();
                Err(refused)
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.pool.core()
    }
}

impl<T, E> ScopedHandle<'_, T, E> {
    /// Waits for the outcome, as [`Handle::wait`] does, however deep scopes are nested.
    pub fn wait(self) -> Result<T, ScopedWaitError<E>> {
        let id = self.handle.id();
        match self.handle.wait_at(Depth::Any) {
            Ok(value) => Ok(value),
            Err(WaitError::Task(error)) => {
                if error.is_panicked() {
                    self.open.panics.lock().seen.push(id);
                }
                Err(ScopedWaitError::Task(error))
            }
            Err(WaitError::NoOutcome { .. }) => Err(ScopedWaitError::WouldDeadlock),
        }
    }

    /// True once there is an outcome.
    pub fn is_settled(&self) -> bool {
        self.handle.is_settled()
    }

    /// Cancels the task, as [`Handle::cancel`] does.
    pub fn cancel(&self) -> bool {
        self.handle.cancel()
    }
}

/// What [`ScopedHandle::wait`] returns when there is no value.
#[derive(Debug)]
pub enum ScopedWaitError<E> {
    /// The task's outcome.
    Task(TaskError<E>),
    /// The wait could never end. The task goes on, and the scope waits for it.
    WouldDeadlock,
}

impl<E: fmt::Display> fmt::Display for ScopedWaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScopedWaitError::Task(error) => error.fmt(f),
            ScopedWaitError::WouldDeadlock => WaitReason::WouldDeadlock.fmt(f),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> std::error::Error for ScopedWaitError<E> {}

impl Open {
    fn unseen_panic(&self) -> Option<String> {
        let mut panics = self.panics.lock();
        let Panics { happened, seen } = std::mem::take(&mut *panics);
        let unseen = happened.into_iter().find(|(id, _)| !seen.contains(id));
        unseen.map(|(_, message)| message)
    }
}

impl<S> fmt::Debug for Scope<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.open.roll.slots();
        let mut shown = f.debug_struct("Scope");
        shown.field("pool", &self.pool.name()).field("tasks", &tasks).finish_non_exhaustive()
    }
}

impl<T, E> fmt::Debug for ScopedHandle<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopedHandle").field(&self.handle).finish()
    }
}

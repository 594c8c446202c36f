//! The builder of one task: everything beyond a plain closure.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::Weak;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::admission::Patience;
use crate::budget::Budget;
use crate::clock::Ticks;
use crate::cx::Cx;
use crate::extras::Callback;
use crate::handle::Handle;
use crate::holding::{Hold, Wants};
use crate::ids::ExternalId;
use crate::job::{FallibleWithCx, FallibleWithState, Run, Told, WithCx, WithState};
use crate::outcome::{Cause, Summary};
use crate::pool::Pool;
use crate::refused::{Reason, Refused};
use crate::roll::Roll;
use crate::token::Token;

/// Whether a wait for room should end, because something else has come up; leaves the waker there
/// if not. Nobody is refused anything then.
pub(crate) type Unwanted<'t> = &'t (dyn Fn(&Waker) -> bool + Sync);

/// What an offer carries beside the work.
pub(crate) struct Offer<'t> {
    pub(crate) name: &'static str,
    pub(crate) external_id: Option<ExternalId>,
    pub(crate) on_outcome: Option<Callback>,
    pub(crate) token: Option<&'t Token>,
    pub(crate) unwanted: Option<Unwanted<'t>>,
    /// Where it is counted already.
    pub(crate) roll: Option<&'t Roll>,
    /// What a cancel by that token is called.
    pub(crate) cause: Cause,
    pub(crate) patience: Patience,
    /// None: the pool's.
    pub(crate) timeout: Option<Duration>,
    pub(crate) queue_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    /// A moment by which everything must be over, the wait for room included.
    pub(crate) until: Option<Ticks>,
    /// How long it has waited for budgets.
    pub(crate) waited: Duration,
    /// Until when to wait for room, once a wait for budgets has begun.
    pub(crate) give_up_at: Option<Ticks>,
    /// A closure that a future offers: outside the pool it does not run there, but waits.
    pub(crate) awaited: bool,
    /// A scoped task.
    pub(crate) borrows: bool,
    /// Others follow at once, and whoever offers them sees to it that somebody is awake for all.
    pub(crate) others_follow: bool,
    /// Known once it is in its cell.
    pub(crate) is_future: bool,
    /// Budgets to take first; None once they are.
    pub(crate) wants: Option<Box<Wants>>,
    pub(crate) hold: Weak<Hold>,
}

impl Default for Offer<'_> {
    fn default() -> Self {
        Offer {
            name: "",
            external_id: None,
            on_outcome: None,
            token: None,
            unwanted: None,
            roll: None,
            cause: Cause::Token,
            patience: Patience::Policy,
            timeout: None,
            queue_timeout: None,
            total_timeout: None,
            until: None,
            waited: Duration::ZERO,
            give_up_at: None,
            awaited: false,
            borrows: false,
            others_follow: false,
            is_future: false,
            wants: None,
            hold: Weak::new(),
        }
    }
}

impl Offer<'_> {
    /// Refused for this reason, what the pool offers to itself is nobody's refusal.
    pub(crate) fn uncounted_reason(&self) -> Option<Reason> {
        match (self.patience, self.unwanted) {
            (Patience::Probe, _) => Some(Reason::Full),
            (_, Some(_)) => Some(Reason::Cancelled),
            _ => None,
        }
    }

    /// Whoever waits for the roll does not wait for this one: it only wants to come.
    pub(crate) fn step_back(&self) {
        if let Some(roll) = self.roll {
            roll.step_back();
        }
    }

    /// It may be accepted any moment.
    pub(crate) fn step_in(&self) {
        if let Some(roll) = self.roll {
            roll.step_in();
        }
    }
}

/// A task that is being described; made by [`Pool::task`].
///
/// Closures get a [`Cx`], through which they hear that they should stop. Every method
/// that starts with `try_` refuses instead of waiting.
///
/// Price over a plain [`Pool::submit`]: two clock readings for the name; a short lock for
/// an external id, a callback or a token. No allocation once warm, except what the callback itself
/// captures.
///
/// ```
/// use tidegate::{Pool, Shutdown, Token};
///
/// let pool = Pool::builder("thumbs").workers(2).build()?;
/// let request = Token::new();
/// let thumb = pool
///     .task("resize")
///     .external_id(4711u64)
///     .cancel_with(&request)
///     .on_outcome(|summary| println!("{summary}"))
///     .submit(|cx| if cx.stopping() { 0 } else { 42 })?;
/// assert_eq!(thumb.wait()?, 42);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task does nothing until it is submitted"]
pub struct Task<'p, S = ()> {
    pool: &'p Pool<S>,
    offer: Offer<'p>,
}

impl<S> fmt::Debug for Task<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("pool", &self.pool.name())
            .field("name", &self.offer.name)
            .field("external_id", &self.offer.external_id)
            .finish_non_exhaustive()
    }
}

/// What can be said of a task, whatever it is: written once for [`Task`] and for those that
/// are futures. Each has an `offer`.
macro_rules! task_settings {
    () => {
        /// The caller's own id for this task: shown in reports, the roster and summaries.
        pub fn external_id(mut self, id: impl Into<ExternalId>) -> Self {
            self.offer.external_id = Some(id.into());
            self
        }

        /// Lets `token` cancel it: while it waits for room (refused), queued (its place is
        /// free at once; a thread of the pool settles it) or running (told). A token that is
        /// cancelled already refuses. The last token given counts: for two, make a
        /// [`child`](Token::child) of one.
        pub fn cancel_with(mut self, token: &'p Token) -> Self {
            self.offer.token = Some(token);
            self
        }

        /// Runs `f` after the outcome is out, on the thread that settled it. A panic in it is
        /// counted and told to `on_unobserved`. `wait_idle` and `shutdown` wait for it. It may
        /// submit again; where that settles at once (`DropNewest`), each goes one level deeper.
        pub fn on_outcome(mut self, f: impl FnOnce(&Summary) + Send + 'static) -> Self {
            self.offer.on_outcome = Some(Box::new(f));
            self
        }

        /// How long it may run. At the end of that time it is told to stop (`cx.check()`), and
        /// whatever it returns after that, its outcome is
        /// [`TimedOut`](crate::TaskError::TimedOut) (a panic stays one). One that does not return is abandoned after
        /// the pool's grace: a timeout of 1 s with a grace of 5 s can hold `wait` for 6 s.
        ///
        /// In place of the pool's `task_timeout`; `Duration::MAX` is no limit.
        pub fn timeout(mut self, limit: Duration) -> Self {
            self.offer.timeout = Some(limit);
            self
        }

        /// No limit on its run, whatever the pool's `task_timeout`.
        pub fn no_timeout(self) -> Self {
            self.timeout(Duration::MAX)
        }

        /// How long it may wait in the queue, from its acceptance to its start. Then it is
        /// settled as timed out, never runs, and its place is free.
        pub fn queue_timeout(mut self, limit: Duration) -> Self {
            self.offer.queue_timeout = Some(limit);
            self
        }

        /// How long it may take in all, from its acceptance to its end: a limit both in the
        /// queue and on the run.
        pub fn total_timeout(mut self, limit: Duration) -> Self {
            self.offer.total_timeout = Some(limit);
            self
        }

        /// Waits for room no longer than until `deadline`.
        pub fn wait_until(mut self, deadline: Instant) -> Self {
            self.offer.patience = Patience::Until(deadline);
            self
        }

        /// Waits for room no longer than `limit`; it bounds what the pool's policy does, and makes
        /// nobody wait who would not.
        pub fn wait_at_most(mut self, limit: Duration) -> Self {
            self.offer.patience = Patience::For(limit);
            self
        }

        /// Takes `weight` of `budget` before it takes a place, and holds it until its code has
        /// returned or was dropped. Without enough left, `Wait` and `WaitFor` wait, in order of
        /// arrival; everything else refuses with `OverBudget`. Inside a task of the pool it never
        /// waits (`WouldDeadlock`). May be called for several budgets.
        pub fn budget(mut self, budget: &Budget, weight: u64) -> Self {
            self.offer.wants.get_or_insert_default().add(budget, weight);
            self
        }
    };
}
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) use task_settings;

impl<'p, S: 'static> Task<'p, S> {
    task_settings!();

    pub(crate) fn new(pool: &'p Pool<S>, name: &'static str) -> Self {
        Task { pool, offer: Offer { name, ..Offer::default() } }
    }

    fn handle<W: Run + 'static>(
        self,
        work: W,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let Task { pool, mut offer } = self;
        match offer.wants {
            None => pool.submit_work(work, offer),
            Some(_) => pool.submit_work(pool.core().hold(work, &mut offer)?, offer),
        }
    }

    fn detached<W: Run + 'static>(self, work: W) -> Result<(), Refused<W::Closure>> {
        let Task { pool, mut offer } = self;
        match offer.wants {
            None => pool.spawn_work(work, offer),
            Some(_) => pool.spawn_work(pool.core().hold(work, &mut offer)?, offer),
        }
    }

    pub(crate) fn into_parts(self) -> (&'p Pool<S>, Offer<'p>) {
        (self.pool, self.offer)
    }

    fn trying(mut self) -> Self {
        self.offer.patience = Patience::Try;
        self
    }

    /// Submits a closure that returns a value.
    pub fn submit<T, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&Cx) -> T + Send + 'static,
    {
        self.handle(WithCx(f))
    }

    /// Submits a closure that returns a `Result`: `Err` counts as failed.
    pub fn submit_result<T, E, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Cx) -> Result<T, E> + Send + 'static,
    {
        self.handle(FallibleWithCx(f))
    }

    /// As [`submit`](Task::submit), with the worker's state.
    pub fn submit_with<T, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &Cx) -> T + Send + 'static,
    {
        self.handle(WithState(f, PhantomData))
    }

    /// As [`submit_result`](Task::submit_result), with the worker's state.
    pub fn submit_result_with<T, E, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&mut S, &Cx) -> Result<T, E> + Send + 'static,
    {
        self.handle(FallibleWithState(f, PhantomData))
    }

    /// As [`submit`](Task::submit), but never waits: refuses with `Full`.
    pub fn try_submit<T, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&Cx) -> T + Send + 'static,
    {
        self.trying().handle(WithCx(f))
    }

    /// As [`submit_result`](Task::submit_result), but never waits: refuses with `Full`.
    pub fn try_submit_result<T, E, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Cx) -> Result<T, E> + Send + 'static,
    {
        self.trying().handle(FallibleWithCx(f))
    }

    /// Fire and forget. A panic is told to `on_unobserved`.
    pub fn spawn<F>(self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) + Send + 'static,
    {
        self.detached(WithCx(f))
    }

    /// Fire and forget. An error or a panic is told to `on_unobserved`.
    pub fn spawn_result<E, F>(self, f: F) -> Result<(), Refused<F>>
    where
        E: Display + Send + 'static,
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        self.detached(Told(FallibleWithCx(f)))
    }

    /// As [`spawn`](Task::spawn), but never waits: refuses with `Full`.
    pub fn try_spawn<F>(self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) + Send + 'static,
    {
        self.trying().detached(WithCx(f))
    }
}

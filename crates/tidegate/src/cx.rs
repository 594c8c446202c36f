//! What a running task knows about itself.

use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::extras;
use crate::ids::{ExternalId, TaskId, WorkerId};
use crate::life::CellRef;
use crate::outcome::{Cause, Stop};
use crate::settle::{self, RunEnv};
use crate::token::Token;

/// The context of a running task: was it told to stop, by whom, and what is it called?
///
/// Every closure that is submitted through [`Pool::task`](crate::Pool::task) gets one.
/// [`check`](Cx::check) is one relaxed load: call it in inner loops.
///
/// ```
/// use tidegate::{Pool, Shutdown, Stop};
///
/// let pool = Pool::builder("sums").workers(1).build()?;
/// let sum = pool.task("sum").submit_result(|cx| {
///     let mut sum = 0u64;
///     for n in 0..1_000 {
///         cx.check()?; // leaves early when told to
///         sum += n;
///     }
///     Ok::<u64, Stop>(sum)
/// })?;
/// assert_eq!(sum.wait()?, 499_500);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cx {
    cell: CellRef,
    worker: Option<WorkerId>,
    times: Option<Times>,
    name: &'static str,
}

#[derive(Clone, Debug)]
struct Times {
    clock: Clock,
    started: Ticks,
    limit: Ticks,
}

impl Cx {
    /// Whose it is.
    pub(crate) fn cell(&self) -> CellRef {
        self.cell
    }

    /// None: its time in the queue was over before it could begin.
    #[inline(always)]
    pub(crate) fn new(cell: CellRef, env: &RunEnv<'_>) -> Option<Cx> {
        let mut cx = Cx::untimed(cell, env.line.map(|line| line.id));
        // A clock costs as much as a short task: only tasks that need it pay for it.
        let begun = !cell.is_timed() || cx.begin(env);
        begun.then_some(cx)
    }

    /// Of a task with neither name nor limit.
    #[inline(always)]
    pub(crate) fn untimed(cell: CellRef, worker: Option<WorkerId>) -> Cx {
        Cx { cell, worker, times: None, name: "" }
    }

    /// Its time begins, and its name is known; false as for `new`.
    #[inline]
    pub(crate) fn begin(&mut self, env: &RunEnv<'_>) -> bool {
        self.name = self.cell.name().unwrap_or("");
        let started = env.core.clock.about_now();
        let mut limit = Ticks::NEVER;
        if self.cell.is_limited() {
            let extras = extras::of(self.cell).filter(|_| self.cell.has_extras());
            let total = extras.and_then(|extras| extras.lock().run_until);
            match self.cell.limit_run(started, total.unwrap_or(Ticks::NEVER)) {
                None => return false,
                Some(at) => limit = at,
            }
        }
        if let Some(line) = env.line {
            line.running_since(started);
        }
        self.times = Some(Times { clock: env.core.clock.clone(), started, limit });
        true
    }

    /// The same, for the task's own code.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn twin(&self) -> Cx {
        let times = self.times.clone();
        Cx { cell: self.cell, worker: self.worker, times, name: self.name }
    }

    pub(crate) fn started(&self) -> Option<Ticks> {
        self.times.as_ref().map(|times| times.started)
    }

    /// Whether its time was up at its return.
    #[inline(always)]
    pub(crate) fn is_late(&self, returned: Option<Ticks>) -> bool {
        returned.is_some_and(|at| at >= self.limit())
    }

    /// When its time is up.
    pub(crate) fn limit(&self) -> Ticks {
        self.times.as_ref().map_or(Ticks::NEVER, |times| times.limit)
    }

    /// `Err` once the task was told to stop; made for `?` in closures whose error is
    /// `From<Stop>`.
    #[inline]
    pub fn check(&self) -> Result<(), Stop> {
        match self.cell.stop_requested() {
            None => Ok(()),
            Some(cause) => Err(Stop { cause }),
        }
    }

    /// True once the task was told to stop.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.cell.stop_requested().is_some()
    }

    /// Who told it to stop; the first cause stays.
    pub fn cause(&self) -> Option<Cause> {
        self.cell.stop_requested()
    }

    /// How long until this task's limit; `None` without one.
    pub fn time_left(&self) -> Option<Duration> {
        let times = self.times.as_ref().filter(|times| times.limit != Ticks::NEVER)?;
        Some(times.limit.since(times.clock.now()))
    }

    /// A token that is cancelled when this task is told to stop: pass it on, or await it.
    pub fn token(&self) -> Token {
        let token = {
            let mut extras = extras::of_or_new(self.cell).lock();
            if !self.cell.is_running() {
                drop(extras); // abandoned: the cell may have another life
                let token = Token::new();
                token.cancel();
                return token;
            }
            extras.own_token.get_or_insert_with(Token::new).clone()
        };
        if !self.cell.note_token() {
            token.cancel();
        }
        token
    }

    /// The pool's id for this task.
    pub fn task_id(&self) -> TaskId {
        settle::task_id(self.cell)
    }

    /// The caller's id, if one was given.
    pub fn external_id(&self) -> Option<ExternalId> {
        let extras = extras::of(self.cell)?.lock();
        // An abandoned task must not see the id of its cell's next life.
        if self.cell.is_running() { extras.external_id.clone() } else { None }
    }

    /// The name given with [`Pool::task`](crate::Pool::task).
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The worker that runs it; `None` on a caller's thread.
    pub fn worker_id(&self) -> Option<WorkerId> {
        self.worker
    }
}

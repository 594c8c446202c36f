//! What a wait gives when it gives no value.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use crate::handle::Handle;
use crate::outcome::TaskError;
use crate::refused::HOLDS_UP_A_RUNTIME;

/// Why a wait ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// The wait could never end: the task is the waiter itself, waits for the waiter, or
    /// would have to run on top of too many others, or on a worker whose state is in use.
    WouldDeadlock,
    /// A future is being polled here, which a wait would hold up: await the handle instead.
    InPoll,
    /// The outcome was taken before, by `try_take`, `wait_timeout` or a poll.
    AlreadyTaken,
}

/// What [`Handle::wait`] returns when there is no value.
pub enum WaitError<T, E = Infallible> {
    /// The task's outcome.
    Task(TaskError<E>),
    /// There is no outcome yet, and the handle comes back.
    NoOutcome {
        /// Why.
        reason: WaitReason,
        /// Still good: cancel it, poll it, or wait somewhere else.
        handle: Handle<T, E>,
    },
}

impl<T, E> WaitError<T, E> {
    /// The task's outcome, if there is one.
    pub fn task(&self) -> Option<&TaskError<E>> {
        match self {
            WaitError::Task(error) => Some(error),
            WaitError::NoOutcome { .. } => None,
        }
    }

    /// The task's outcome, or the reason and the handle.
    pub fn into_task(self) -> Result<TaskError<E>, (WaitReason, Handle<T, E>)> {
        match self {
            WaitError::Task(error) => Ok(error),
            WaitError::NoOutcome { reason, handle } => Err((reason, handle)),
        }
    }

    /// The task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.task().is_some_and(TaskError::is_cancelled)
    }

    /// The task panicked.
    pub fn is_panicked(&self) -> bool {
        self.task().is_some_and(TaskError::is_panicked)
    }

    /// True if the task returned an error.
    pub fn is_failed(&self) -> bool {
        self.task().is_some_and(TaskError::is_failed)
    }

    /// True if its time limit passed.
    pub fn is_timed_out(&self) -> bool {
        self.task().is_some_and(TaskError::is_timed_out)
    }

    /// True if a full queue pushed it out.
    pub fn is_evicted(&self) -> bool {
        self.task().is_some_and(TaskError::is_evicted)
    }

    /// True if it did not stop within the grace.
    pub fn is_abandoned(&self) -> bool {
        self.task().is_some_and(TaskError::is_abandoned)
    }

    /// The wait could never have ended.
    pub fn is_would_deadlock(&self) -> bool {
        matches!(self, WaitError::NoOutcome { reason: WaitReason::WouldDeadlock, .. })
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitReason::InPoll => {
                return write!(f, "{HOLDS_UP_A_RUNTIME}; await the handle instead (`.await`)");
            }
            WaitReason::WouldDeadlock => {
                "the wait could never end (the task depends on the waiter), or would run more \
                 than 64 tasks on top of each other, or on a worker whose state is in use; \
                 wait outside the pool, or return and let it run"
            }
            WaitReason::AlreadyTaken => "the outcome was taken from this handle before",
        })
    }
}

impl<T, E: fmt::Debug> fmt::Debug for WaitError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Task(error) => fmt::Debug::fmt(error, f),
            WaitError::NoOutcome { reason, handle } => {
                f.debug_struct("NoOutcome").field("reason", reason).field("handle", handle).finish()
            }
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for WaitError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Task(error) => fmt::Display::fmt(error, f),
            WaitError::NoOutcome { reason, .. } => fmt::Display::fmt(reason, f),
        }
    }
}

impl<T, E: fmt::Display + fmt::Debug> Error for WaitError<T, E> {}

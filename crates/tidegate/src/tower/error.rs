//! Why a request has no answer.

use std::error::Error;
use std::fmt;

use crate::outcome::{Cause, TaskError, TimedOut};
use crate::panics::Panic;
use crate::refused::Reason;

/// Why a request to a [`PoolService`](crate::PoolService) or a
/// [`BudgetService`](crate::BudgetService) has no answer: its own error, the refusal, or how its
/// task ended otherwise. Exhaustive on purpose, and printed with what to do about it.
///
/// ```
/// use tidegate::{Reason, ServiceError};
///
/// fn status<E>(error: &ServiceError<E>) -> u16 {
///     match error {
///         ServiceError::Service(_) | ServiceError::Panicked(_) => 500,
///         ServiceError::Refused { reason: Reason::TooHeavy, .. } => 413,
///         ServiceError::Refused { .. } | ServiceError::Evicted => 503,
///         ServiceError::TimedOut(_) | ServiceError::Abandoned(_) => 504,
///         ServiceError::Cancelled { .. } => 503,
///     }
/// }
/// ```
#[derive(Debug)]
pub enum ServiceError<E> {
    /// The service itself failed: its error.
    Service(E),
    /// It was not let in, and the service has not seen it.
    Refused {
        /// Why.
        reason: Reason,
        /// Which pool or budget: `pool "requests"`.
        by: String,
    },
    /// A time limit passed, in the queue or while it ran.
    TimedOut(TimedOut),
    /// It was told to stop: it never ran, or was dropped at its next await.
    Cancelled {
        /// Who told it.
        cause: Cause,
        /// What the service gave after that, if it did.
        error: Option<E>,
    },
    /// The service panicked.
    Panicked(Panic),
    /// A full queue pushed it out; the service has not seen it.
    Evicted,
    /// Told to stop, it did not within the grace. It may still run.
    Abandoned(Cause),
}

impl<E> ServiceError<E> {
    /// Why it was refused, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            ServiceError::Refused { reason, .. } => Some(*reason),
            _ => None,
        }
    }
}

impl<E> From<TaskError<E>> for ServiceError<E> {
    fn from(ending: TaskError<E>) -> Self {
        match ending {
            TaskError::Failed(error) => ServiceError::Service(error),
            TaskError::Panicked(panic) => ServiceError::Panicked(panic),
            TaskError::TimedOut(place) => ServiceError::TimedOut(place),
            TaskError::Cancelled { cause, error } => ServiceError::Cancelled { cause, error },
            TaskError::Evicted => ServiceError::Evicted,
            TaskError::Abandoned(cause) => ServiceError::Abandoned(cause),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::Service(error) => write!(f, "the service failed: {error}"),
            ServiceError::Refused { reason, by } => {
                write!(f, "{by} refused the request: {reason}; {}", reason.advice())
            }
            ServiceError::TimedOut(TimedOut::InQueue) => f.write_str(
                "the request timed out in the queue and never ran; try again later, and add \
                 workers or shed load if this is usual",
            ),
            ServiceError::TimedOut(TimedOut::Running) => f.write_str(
                "the request timed out while it ran; allow it more time, or let it do less",
            ),
            ServiceError::Cancelled { cause, error } => {
                write!(f, "the request was cancelled by {cause}")?;
                if let Some(error) = error {
                    write!(f, ", and the service gave: {error}")?;
                }
                f.write_str("; send it again, elsewhere if the pool shuts down")
            }
            ServiceError::Panicked(panic) => {
                write!(f, "the service panicked: {}; look for a bug in it", panic.message())
            }
            ServiceError::Evicted => f.write_str(
                "the request was evicted from a full queue and never ran; try again later",
            ),
            ServiceError::Abandoned(cause) => write!(
                f,
                "the request was abandoned and may still run: told to stop by {cause}, it did not \
                 within the grace; send it again only if it may run twice"
            ),
        }
    }
}

// No `source`: `E` need not be an `Error` (a boxed one is not), and its text is in ours already.
impl<E: fmt::Display + fmt::Debug> Error for ServiceError<E> {}

//! How a task can end, and what the ending is called.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{ExternalId, TaskId};
use crate::panics::Panic;
use crate::text::write_on_one_line;

/// How an accepted task ended, without its value or error.
///
/// These seven are the contract, so the enum is exhaustive on purpose: a match
/// over it needs no wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// It returned a value.
    Completed,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// Its time limit passed.
    TimedOut,
    /// It was told to stop, and did (or never started).
    Cancelled,
    /// A full queue pushed it out before it ran.
    Evicted,
    /// It was told to stop and did not return within the grace; it may still run.
    Abandoned,
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            OutcomeKind::Completed => "completed",
            OutcomeKind::Failed => "failed",
            OutcomeKind::Panicked => "panicked",
            OutcomeKind::TimedOut => "timed out",
            OutcomeKind::Cancelled => "cancelled",
            OutcomeKind::Evicted => "evicted",
            OutcomeKind::Abandoned => "abandoned",
        })
    }
}

/// Where a task was when its time limit passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimedOut {
    /// It waited in the queue and never ran: the pool is too slow for its load.
    InQueue,
    /// It ran, was told to stop, and has returned since: the task is too slow.
    Running,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TimedOut::InQueue => "in the queue",
            TimedOut::Running => "while it ran",
        })
    }
}

/// Who or what told a task to stop. When there were several, the first stays.
///
/// Printed so that it fits after "cancelled by".
// The numbers live in four bits of a task's state word; 0 is left for "nobody".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cause {
    /// `cancel` on its handle, or by its id.
    Handle = 1,
    /// A token it was submitted with.
    Token = 2,
    /// Its group was cancelled, or another task of the group failed.
    Group = 3,
    /// The pool shut down.
    Shutdown = 4,
    /// The guard made by `cancel_on_drop` was dropped.
    Dropped = 5,
    /// Its worker was lost, or no worker could be started to run it.
    WorkerLost = 6,
    /// Its worker was stopped or recycled by id.
    WorkerStopped = 7,
    /// Its time limit passed.
    Timeout = 8,
}

impl Cause {
    /// The cause as a number in `1..=8`, for a four-bit field.
    pub(crate) const fn to_bits(self) -> u8 {
        self as u8
    }

    /// The pair of `to_bits`. Asked only of a word that holds a cause.
    pub(crate) const fn from_bits(bits: u8) -> Cause {
        match bits {
            1 => Cause::Handle,
            2 => Cause::Token,
            3 => Cause::Group,
            4 => Cause::Shutdown,
            5 => Cause::Dropped,
            6 => Cause::WorkerLost,
            7 => Cause::WorkerStopped,
            8 => Cause::Timeout,
            _ => panic!("a stop cause was read from a word that holds none"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cause::Handle => "its handle",
            Cause::Token => "its token",
            Cause::Group => "its group",
            Cause::Shutdown => "the shutdown of the pool",
            Cause::Dropped => "the drop of its guard",
            Cause::WorkerLost => "the loss of its worker",
            Cause::WorkerStopped => "the stop of its worker",
            Cause::Timeout => "its time limit",
        })
    }
}

/// Why an accepted task has no value: every outcome except Completed.
///
/// You get it from a handle or a completion stream. All variants but
/// [`Abandoned`](TaskError::Abandoned) promise that the closure is gone: it has
/// returned or was dropped, and so have its captures. Exhaustive on purpose.
///
/// ```
/// use tidegate::TaskError;
///
/// fn worth_a_retry(error: &TaskError<std::io::Error>) -> bool {
///     match error {
///         TaskError::Failed(e) => e.kind() == std::io::ErrorKind::Interrupted,
///         TaskError::TimedOut(_) | TaskError::Evicted => true,
///         TaskError::Panicked(_) | TaskError::Cancelled { .. } | TaskError::Abandoned(_) => false,
///     }
/// }
/// ```
#[derive(Debug)]
pub enum TaskError<E = Infallible> {
    /// The closure returned this error.
    Failed(E),
    /// The closure panicked, or a capture did in its `Drop`.
    Panicked(Panic),
    /// A time limit passed.
    TimedOut(TimedOut),
    /// It was told to stop: it never ran, or it returned an error after that.
    Cancelled {
        /// Who told it.
        cause: Cause,
        /// What the closure returned then; `None` if it never ran.
        error: Option<E>,
    },
    /// A full queue pushed it out; it never ran.
    Evicted,
    /// Told to stop, it did not return within the grace. It may still run and
    /// still hold what it captured.
    Abandoned(Cause),
}

impl<E> TaskError<E> {
    /// The closure returned an error, unasked.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self, TaskError::Failed(_))
    }

    /// The closure panicked.
    #[must_use]
    pub fn is_panicked(&self) -> bool {
        matches!(self, TaskError::Panicked(_))
    }

    /// A time limit passed.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        matches!(self, TaskError::TimedOut(_))
    }

    /// It was told to stop, and is gone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, TaskError::Cancelled { .. })
    }

    /// A full queue pushed it out.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        matches!(self, TaskError::Evicted)
    }

    /// It may still run: told to stop, it did not return within the grace.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        matches!(self, TaskError::Abandoned(_))
    }

    /// The outcome's kind; never `Completed`.
    #[must_use]
    pub fn kind(&self) -> OutcomeKind {
        match self {
            TaskError::Failed(_) => OutcomeKind::Failed,
            TaskError::Panicked(_) => OutcomeKind::Panicked,
            TaskError::TimedOut(_) => OutcomeKind::TimedOut,
            TaskError::Cancelled { .. } => OutcomeKind::Cancelled,
            TaskError::Evicted => OutcomeKind::Evicted,
            TaskError::Abandoned(_) => OutcomeKind::Abandoned,
        }
    }

    /// Who told it to stop, for Cancelled and Abandoned.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        match self {
            TaskError::Cancelled { cause, .. } | TaskError::Abandoned(cause) => Some(*cause),
            _ => None,
        }
    }

    /// The same ending with the closure's error, if there is one, changed by `f`.
    #[must_use]
    pub fn map_failed<O>(self, f: impl FnOnce(E) -> O) -> TaskError<O> {
        match self {
            TaskError::Failed(error) => TaskError::Failed(f(error)),
            TaskError::Panicked(panic) => TaskError::Panicked(panic),
            TaskError::TimedOut(place) => TaskError::TimedOut(place),
            TaskError::Cancelled { cause, error } => {
                TaskError::Cancelled { cause, error: error.map(f) }
            }
            TaskError::Evicted => TaskError::Evicted,
            TaskError::Abandoned(cause) => TaskError::Abandoned(cause),
        }
    }
}

impl<E: fmt::Display> fmt::Display for TaskError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Failed(error) => write!(f, "the task failed: {error}"),
            TaskError::Panicked(panic) => write!(f, "the task panicked: {}", panic.message()),
            TaskError::TimedOut(place) => write!(f, "the task timed out {place}"),
            TaskError::Cancelled { cause, error: None } => {
                write!(f, "the task was cancelled by {cause}")
            }
            TaskError::Cancelled { cause, error: Some(error) } => {
                write!(f, "the task was cancelled by {cause}: {error}")
            }
            TaskError::Evicted => f.write_str("the task was evicted from a full queue"),
            TaskError::Abandoned(cause) => write!(
                f,
                "the task was abandoned and may still run: told to stop by {cause}, \
                 it did not return within the grace"
            ),
        }
    }
}

// No `source`: `E` need not be an `Error`, and its text is in ours already.
impl<E: fmt::Display + fmt::Debug> Error for TaskError<E> {}

/// The error that `cx.check()?` returns once a running task is told to stop.
///
/// Give your error type a `From<Stop>` and let `?` carry it out: a task that
/// returns an error after a stop request is settled Cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// Who told it to stop.
    pub cause: Cause,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "told to stop by {}", self.cause)
    }
}

impl Error for Stop {}

/// What an `on_outcome` callback is told: everything about an ending except the
/// value, which belongs to the handle.
///
/// Printed as one line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// How it ended.
    pub kind: OutcomeKind,
    /// Who told it to stop, if somebody did and it counts as Cancelled or Abandoned.
    pub cause: Option<Cause>,
    /// The name of the pool.
    pub pool: Arc<str>,
    /// The name given with `pool.task(name)`; may be empty.
    pub name: &'static str,
    /// The pool's id for the task.
    pub id: TaskId,
    /// The caller's id for it, if one was given.
    pub external_id: Option<ExternalId>,
    /// The text of its error or panic, where there is one.
    pub message: Option<String>,
    /// How long the closure ran; `None` if it never started.
    pub run_time: Option<Duration>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {:?}: task ", self.pool)?;
        if !self.name.is_empty() {
            write_on_one_line(f, self.name)?;
            f.write_str(" ")?;
        }
        write!(f, "{}", self.id)?;
        if let Some(external) = &self.external_id {
            f.write_str(" (")?;
            write_on_one_line(f, &external.to_string())?;
            f.write_str(")")?;
        }
        write!(f, " {}", self.kind)?;
        if let Some(cause) = self.cause {
            write!(f, " by {cause}")?;
        }
        if let Some(time) = self.run_time {
            write!(f, " after {time:.1?}")?;
        }
        match &self.message {
            Some(message) => {
                f.write_str(": ")?;
                write_on_one_line(f, message)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panics::quietly;

    const CAUSES: [Cause; 8] = [
        Cause::Handle,
        Cause::Token,
        Cause::Group,
        Cause::Shutdown,
        Cause::Dropped,
        Cause::WorkerLost,
        Cause::WorkerStopped,
        Cause::Timeout,
    ];

    fn panicked() -> Panic {
        quietly(|| panic!("out of paint")).unwrap_err()
    }

    #[test]
    fn a_cause_survives_its_four_bits() {
        for cause in CAUSES {
            assert!((1..16).contains(&cause.to_bits()), "0 means that nobody asked");
            assert_eq!(Cause::from_bits(cause.to_bits()), cause);
        }
    }

    #[test]
    fn each_error_has_one_kind_and_one_predicate() {
        let stopped = TaskError::Cancelled { cause: Cause::Token, error: None };
        let errors: [TaskError<&str>; 6] = [
            TaskError::Failed("no"),
            TaskError::Panicked(panicked()),
            TaskError::TimedOut(TimedOut::InQueue),
            stopped,
            TaskError::Evicted,
            TaskError::Abandoned(Cause::Timeout),
        ];
        let kinds = errors.each_ref().map(TaskError::kind);
        let expected = [
            OutcomeKind::Failed,
            OutcomeKind::Panicked,
            OutcomeKind::TimedOut,
            OutcomeKind::Cancelled,
            OutcomeKind::Evicted,
            OutcomeKind::Abandoned,
        ];
        assert_eq!(kinds, expected);
        for (i, e) in errors.iter().enumerate() {
            let says = [
                e.is_failed(),
                e.is_panicked(),
                e.is_timed_out(),
                e.is_cancelled(),
                e.is_evicted(),
                e.is_abandoned(),
            ];
            assert_eq!(says, std::array::from_fn(|j| i == j));
        }
        assert_eq!(errors[3].cause(), Some(Cause::Token));
        assert_eq!(errors[5].cause(), Some(Cause::Timeout));
        assert_eq!(errors[0].cause(), None);
    }

    #[test]
    fn map_failed_reaches_the_error_of_a_cancelled_task_too() {
        let failed = TaskError::Failed(2).map_failed(|n| n + 1);
        assert!(matches!(failed, TaskError::Failed(3)));
        let stopped = TaskError::Cancelled { cause: Cause::Handle, error: Some(2) };
        let stopped = stopped.map_failed(|n| n + 1);
        assert!(matches!(stopped, TaskError::Cancelled { cause: Cause::Handle, error: Some(3) }));
    }

    #[test]
    fn errors_say_what_happened() {
        let cases: [(TaskError<&str>, &str); 6] = [
            (TaskError::Failed("no ink"), "the task failed: no ink"),
            (TaskError::Panicked(panicked()), "the task panicked: out of paint"),
            (TaskError::TimedOut(TimedOut::Running), "the task timed out while it ran"),
            (
                TaskError::Cancelled { cause: Cause::Handle, error: Some("halfway") },
                "the task was cancelled by its handle: halfway",
            ),
            (TaskError::Evicted, "the task was evicted from a full queue"),
            (
                TaskError::Abandoned(Cause::Shutdown),
                "the task was abandoned and may still run: told to stop by the shutdown of \
                 the pool, it did not return within the grace",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(Stop { cause: Cause::Token }.to_string(), "told to stop by its token");
    }

    #[test]
    fn errors_travel_with_the_question_mark() {
        fn travels<T: Error + Send + Sync + 'static>() {}
        travels::<TaskError>();
        travels::<TaskError<String>>();
        travels::<Stop>();
    }

    #[test]
    fn an_error_stays_small_enough_for_a_cell() {
        assert!(size_of::<TaskError<u64>>() <= 24);
    }

    #[test]
    fn a_summary_is_one_line() {
        let summary = Summary {
            kind: OutcomeKind::Cancelled,
            cause: Some(Cause::Token),
            pool: "images".into(),
            name: "resize",
            id: TaskId { hi: 1, lo: 2 },
            external_id: Some(7_u64.into()),
            message: Some("halfway".into()),
            run_time: Some(Duration::from_millis(1500)),
        };
        assert_eq!(
            summary.to_string(),
            "pool \"images\": task resize t1-2 (7) cancelled by its token after 1.5s: halfway"
        );
    }
}

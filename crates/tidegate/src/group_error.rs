//! What waiting for a group gives when not all went well.

use std::error::Error;
use std::fmt;

use crate::outcome::TaskError;
use crate::refused::HOLDS_UP_A_RUNTIME;
use crate::wait_error::WaitReason;

/// What [`Group::wait`](crate::Group::wait) returns when not all went well.
#[derive(Debug)]
pub enum GroupError<E> {
    /// Tasks failed: the first, and, if the group collects all, the others.
    Tasks {
        /// The first failure.
        first: TaskError<E>,
        /// The others, in the order in which they came.
        rest: Vec<TaskError<E>>,
    },
    /// Tasks failed, and another wait for the same group has returned the failures.
    AlreadyTaken,
    /// The wait could never end: the waiter is a task of the group, or runs on a worker
    /// that would have to run the group's tasks and can't.
    WouldDeadlock,
    /// A future is being polled here, which a wait would hold up: await the group instead.
    InPoll,
}

impl<E> GroupError<E> {
    /// The first failure; none if the wait could never end, or another wait was given it.
    pub fn first(&self) -> Option<&TaskError<E>> {
        match self {
            GroupError::Tasks { first, .. } => Some(first),
            _ => None,
        }
    }

    /// All failures, in the order in which they came.
    pub fn into_failures(self) -> Vec<TaskError<E>> {
        match self {
            GroupError::Tasks { first, rest } => std::iter::once(first).chain(rest).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn no_wait(reason: WaitReason) -> Self {
        match reason {
            WaitReason::InPoll => GroupError::InPoll,
            WaitReason::WouldDeadlock | WaitReason::AlreadyTaken => GroupError::WouldDeadlock,
        }
    }

    /// True if the wait could never end.
    pub fn is_would_deadlock(&self) -> bool {
        matches!(self, GroupError::WouldDeadlock)
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Tasks { first, rest } if rest.is_empty() => write!(f, "{first}"),
            GroupError::Tasks { first, rest } => write!(f, "{first}, and {} more", rest.len()),
            GroupError::AlreadyTaken => {
                f.write_str("tasks of the group failed; another wait has returned the failures")
            }
            GroupError::WouldDeadlock => f.write_str(
                "waiting for the group could never end: the waiter is one of its tasks, or is \
                 on a worker that can't run them; wait outside the pool",
            ),
            GroupError::InPoll => {
                let instead = "`wait_async` (of an `AsyncGroup`: `wait`)";
                write!(f, "{HOLDS_UP_A_RUNTIME}; await {instead} instead")
            }
        }
    }
}

impl<E: fmt::Display + fmt::Debug> Error for GroupError<E> {}

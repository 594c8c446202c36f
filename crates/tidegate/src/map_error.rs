//! What a map gives in place of a result.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use crate::outcome::TaskError;
use crate::refused::Reason;

/// Why a map ended early.
#[derive(Debug)]
pub enum MapError<E = Infallible> {
    /// The outcome of the item that stopped it.
    Task(TaskError<E>),
    /// The pool did not take an item, which [`Map::into_rest`](crate::Map::into_rest) gives back.
    /// `WouldDeadlock`: inside a task of a pool with worker state nobody could run it; or it was
    /// taken, but waits for the reader, which goes on alone (such an item does not come back).
    Refused(Reason),
}

impl<E: fmt::Display> fmt::Display for MapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Task(error) => fmt::Display::fmt(error, f),
            MapError::Refused(reason) => write!(f, "the pool refused an item: {reason}"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> Error for MapError<E> {}

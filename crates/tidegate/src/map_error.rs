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
    /// `WouldDeadlock`: inside a task of a pool with worker state nobody could run it; inside a
    /// poll of a future the reader must not wait for it; or it was taken, but waits for the
    /// reader, which goes on alone (such an item does not come back).
    Refused(Reason),
}

impl<E: fmt::Display> fmt::Display for MapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Task(error) => fmt::Display::fmt(error, f),
            MapError::Refused(Reason::WouldDeadlock) => f.write_str(
                "the pool did not finish an item, for which the reader would have to wait where it \
                 must not: inside a task whose worker's state is in use, or a poll of a future; \
                 read the map outside, in `spawn_blocking`, or use `AsyncPool::map`",
            ),
            MapError::Refused(reason) => write!(f, "the pool refused an item: {reason}"),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> Error for MapError<E> {}

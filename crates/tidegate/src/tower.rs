//! Services of `tower` behind a pool of futures or a budget (feature `tower`).
//!
//! ```text
//!  pool.rs    each request is a task of a pool
//!  budget.rs  each request takes a share of a budget
//!  error.rs   why there is no answer
//! ```
//!
//! A layer decides nothing itself: the pool's policy, or the budget, does.

mod budget;
mod error;
mod pool;

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

pub use budget::{BudgetLayer, BudgetService};
pub use error::ServiceError;
pub use pool::{PoolLayer, PoolService};

/// The service that was polled ready; a clone, which has to be polled first, stays behind.
fn take_ready<S: Clone>(service: &mut S) -> S {
    let fresh = service.clone();
    mem::replace(service, fresh)
}

/// The answer of a [`PoolService`] or a [`BudgetService`]. Dropping it cancels the request.
///
/// Nothing is offered or taken before its first poll.
#[must_use = "a future does nothing until it is polled"]
pub struct ServiceFuture<T, E> {
    answer: Pin<Box<dyn Future<Output = Result<T, ServiceError<E>>> + Send>>,
}

impl<T, E> ServiceFuture<T, E> {
    fn new(answer: impl Future<Output = Result<T, ServiceError<E>>> + Send + 'static) -> Self {
        ServiceFuture { answer: Box::pin(answer) }
    }
}

impl<T, E> Future for ServiceFuture<T, E> {
    type Output = Result<T, ServiceError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

impl<T, E> fmt::Debug for ServiceFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceFuture").finish_non_exhaustive()
    }
}

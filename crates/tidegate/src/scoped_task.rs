//! The builder of one scoped task.

use std::fmt;
use std::time::Duration;

use crate::budget::Budget;
use crate::cx::Cx;
use crate::ids::ExternalId;
use crate::job::{FallibleWithCx, WithCx};
use crate::refused::Refused;
use crate::scope::{Scope, ScopedHandle};
use crate::task::Offer;
use crate::token::Token;

/// A scoped task to be submitted, from [`Scope::task`].
///
/// ```
/// use tidegate::{Pool, Shutdown, Stop};
///
/// let pool = Pool::builder("search").workers(2).build()?;
/// let lines = vec!["tide", "gate", "tidegate"];
/// let found = pool.scope(|s| {
///     let search = s.task("search").submit_result(|cx| {
///         let mut found = 0;
///         for line in &lines {
///             cx.check()?;
///             found += usize::from(line.contains("gate"));
///         }
///         Ok::<usize, Stop>(found)
///     });
///     search.unwrap().wait().unwrap()
/// });
/// assert_eq!(found, 2);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task does nothing until it is submitted"]
pub struct ScopedTask<'scope, 'env, S = ()> {
    scope: &'scope Scope<'scope, 'env, S>,
    token: Option<Token>,
    offer: Offer<'static>,
}

impl<'scope, 'env, S: 'static> ScopedTask<'scope, 'env, S> {
    pub(crate) fn new(scope: &'scope Scope<'scope, 'env, S>, name: &'static str) -> Self {
        ScopedTask { scope, token: None, offer: Offer { name, ..Offer::default() } }
    }

    /// How long it may run before it is told to stop.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.offer.timeout = Some(limit);
        self
    }

    /// How long it may wait in the queue.
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.offer.queue_timeout = Some(limit);
        self
    }

    /// Cancelled when this token is.
    pub fn cancel_with(mut self, token: &Token) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// No limit on its run, whatever the pool's `task_timeout`.
    pub fn no_timeout(self) -> Self {
        self.timeout(Duration::MAX)
    }

    /// How long it may take in all, in the queue and running.
    pub fn total_timeout(mut self, limit: Duration) -> Self {
        self.offer.total_timeout = Some(limit);
        self
    }

    /// The caller's own id for this task.
    pub fn external_id(mut self, id: impl Into<ExternalId>) -> Self {
        self.offer.external_id = Some(id.into());
        self
    }

    /// Takes `weight` of `budget` first; see [`Task::budget`](crate::Task::budget).
    pub fn budget(mut self, budget: &Budget, weight: u64) -> Self {
        self.offer.wants.get_or_insert_default().add(budget, weight);
        self
    }

    /// Submits a closure that may borrow.
    pub fn submit<T, F>(self, f: F) -> Result<ScopedHandle<'scope, T>, Refused<F>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx) -> T + Send + 'scope,
    {
        self.scope.add(WithCx(f), Offer { token: self.token.as_ref(), ..self.offer })
    }

    /// As [`submit`](ScopedTask::submit), for a closure that returns a `Result`.
    pub fn submit_result<T, E, F>(self, f: F) -> Result<ScopedHandle<'scope, T, E>, Refused<F>>
    where
        T: Send + 'scope,
        E: Send + 'scope,
        F: FnOnce(&Cx) -> Result<T, E> + Send + 'scope,
    {
        self.scope.add(FallibleWithCx(f), Offer { token: self.token.as_ref(), ..self.offer })
    }
}

impl<S> fmt::Debug for ScopedTask<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedTask").field("name", &self.offer.name).finish_non_exhaustive()
    }
}

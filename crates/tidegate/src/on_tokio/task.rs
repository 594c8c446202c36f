//! The builder of one task that is a future.

use std::fmt::{self, Display};
use std::future::Future;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::offer;
use super::pool::AsyncPool;
use super::work::{Call, Outcome, Value};
use crate::admission::Patience;
use crate::budget::Budget;
use crate::cx::Cx;
use crate::handle::Handle;
use crate::ids::ExternalId;
use crate::job::Told;
use crate::outcome::Summary;
use crate::refused::Refused;
use crate::task::{Offer, task_settings};
use crate::token::Token;

/// A task that is being described; made by [`AsyncPool::task`].
///
/// Takes closures that get a [`Cx`] and give a future. A future that is told to stop (cancel,
/// limit, Hard) is dropped at its next await; the `Cx` is for what it does between two of them.
/// Every method that starts with `try_` refuses instead of waiting; those that end with
/// `_blocking` are for threads that are not the runtime's.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tidegate::{AsyncPool, Shutdown};
///
/// let pool = AsyncPool::builder("fetch").workers(100).build_async()?;
/// let page = pool
///     .task("page")
///     .external_id(4711u64)
///     .timeout(Duration::from_millis(5))
///     .submit(|_cx| std::future::pending::<String>())
///     .await?;
/// assert!(page.await.unwrap_err().is_timed_out()); // it was dropped
/// pool.shutdown(Shutdown::default()).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a task does nothing until it is submitted"]
pub struct AsyncTask<'p> {
    pool: &'p AsyncPool,
    offer: Offer<'p>,
}

impl fmt::Debug for AsyncTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pool, name) = (self.pool.name(), self.offer.name);
        f.debug_struct("AsyncTask")
            .field("pool", &pool)
            .field("name", &name)
            .finish_non_exhaustive()
    }
}

/// A closure as work.
fn call<F, W>(f: F) -> Call<F, W> {
    Call(f, PhantomData)
}

impl<'p> AsyncTask<'p> {
    task_settings!();

    pub(crate) fn new(pool: &'p AsyncPool, name: &'static str) -> Self {
        AsyncTask { pool, offer: Offer { name, ..Offer::default() } }
    }

    /// Submits a closure whose future gives a value; waits for room as the policy says.
    ///
    /// Dropped while it waits, it takes the closure along: that was not accepted.
    pub fn submit<T, Fut, F>(
        self,
        f: F,
    ) -> impl Future<Output = Result<Handle<T>, Refused<F>>> + Send
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        offer::submit(self.pool.core(), call::<F, Value<Fut>>(f), self.offer)
    }

    /// As [`submit`](AsyncTask::submit), for futures that give a `Result`: `Err` counts as
    /// failed.
    pub fn submit_result<T, E, Fut, F>(
        self,
        f: F,
    ) -> impl Future<Output = Result<Handle<T, E>, Refused<F>>> + Send
    where
        T: Send + 'static,
        E: Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        offer::submit(self.pool.core(), call::<F, Outcome<Fut>>(f), self.offer)
    }

    /// Fire and forget. A panic is told to `on_unobserved`.
    pub fn spawn<Fut, F>(self, f: F) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        Fut: Future<Output = ()> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        offer::spawn(self.pool.core(), call::<F, Value<Fut>>(f), self.offer)
    }

    /// Fire and forget. An error or a panic is told to `on_unobserved`.
    pub fn spawn_result<E, Fut, F>(
        self,
        f: F,
    ) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        E: Display + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        let work = Told(call::<F, Outcome<Fut>>(f));
        offer::spawn(self.pool.core(), work, self.offer)
    }

    /// As [`submit`](AsyncTask::submit), but never waits: refuses with `Full`.
    pub fn try_submit<T, Fut, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        let cell = self.pool.core().try_future(call::<F, Value<Fut>>(f), true, self.offer)?;
        Ok(Handle::new(cell, false))
    }

    /// As [`submit_result`](AsyncTask::submit_result), but never waits: refuses with `Full`.
    pub fn try_submit_result<T, E, Fut, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        let cell = self.pool.core().try_future(call::<F, Outcome<Fut>>(f), true, self.offer)?;
        Ok(Handle::new(cell, false))
    }

    /// As [`spawn`](AsyncTask::spawn), but never waits: refuses with `Full`.
    pub fn try_spawn<Fut, F>(self, f: F) -> Result<(), Refused<F>>
    where
        Fut: Future<Output = ()> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        self.pool.core().try_future(call::<F, Value<Fut>>(f), false, self.offer)?;
        Ok(())
    }

    /// As [`submit`](AsyncTask::submit), for a thread that may block. Inside a poll that a
    /// pool runs it never waits: `WouldDeadlock`.
    pub fn submit_blocking<T, Fut, F>(self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        let cell = self.pool.core().future_blocking(call::<F, Value<Fut>>(f), true, self.offer)?;
        Ok(Handle::new(cell, false))
    }

    /// As [`submit_result`](AsyncTask::submit_result), for a thread that may block.
    pub fn submit_result_blocking<T, E, Fut, F>(self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        F: FnOnce(Cx) -> Fut + Send + 'static,
    {
        let work = call::<F, Outcome<Fut>>(f);
        Ok(Handle::new(self.pool.core().future_blocking(work, true, self.offer)?, false))
    }
}

//! Pools of futures as their users see them.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::driver::Runtime;
use super::offer::{self, Plainly};
use super::task::AsyncTask;
use super::time::TokioTime;
use super::work::{Outcome, Value};
use crate::builder::Builder;
use crate::config::{BuildError, Workers};
use crate::core::Core;
use crate::diagnosis::Diagnosis;
use crate::driver::Driver;
use crate::handle::Handle;
use crate::ids::{TaskId, WorkerId};
use crate::job::Told;
use crate::panics::quietly;
use crate::pool::{Pool, ShutdownFuture};
use crate::refused::Refused;
use crate::report::Shutdown;
use crate::report::{Report, ShutdownError};
use crate::resize::ResizeError;
use crate::snapshot::{PoolState, Snapshot, WorkerInfo};
use crate::steer::{StopWorker, WorkerError};
use crate::task::Offer;
use crate::token::Token;

/// A bounded set of workers on a tokio runtime that owns the futures it accepts: [`Pool`] for
/// async code, under the same rules.
///
/// Each worker polls one task at a time, so `workers` bounds how many futures are under way
/// and `queue` how many wait; what a task awaits of its own pool comes on top. A future that is cancelled, or out of time, is dropped at its
/// next await. The pool belongs to the runtime it was built on; when that shuts down, what is
/// left settles as cancelled and everybody who waits hears of it.
///
/// Times are tokio's: `tokio::time::pause` works in tests.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::{AsyncPool, Shutdown};
///
/// let pool = AsyncPool::builder("fetch").workers(100).queue(1_000).build_async()?;
/// let nine = pool.submit(async { 3 * 3 }).await?; // waits for room when 1,000 tasks wait
/// assert_eq!(nine.await?, 9);
/// let report = pool.shutdown(Shutdown::default()).await?; // drains, within 30 s
/// assert!(report.is_success(), "{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncPool {
    pool: Pool,
}

impl fmt::Debug for AsyncPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncPool")
            .field("name", &self.name())
            .field("state", &self.state())
            .finish()
    }
}

impl Builder<()> {
    /// Starts a pool of futures on the tokio runtime that this is called in, which needs its
    /// time driver. The hook of the first worker runs here, and its panic is an error; a later
    /// one's is restarted.
    pub fn build_async(self) -> Result<AsyncPool, BuildError> {
        match tokio::runtime::Handle::try_current() {
            Ok(handle) => self.build_async_on(&handle),
            Err(error) => Err(BuildError::Worker(format!(
                "{error}. Build it in a task of the runtime, or with `build_async_on`"
            ))),
        }
    }

    /// As [`build_async`](Builder::build_async), on the runtime of this handle, from any thread.
    pub fn build_async_on(
        mut self,
        handle: &tokio::runtime::Handle,
    ) -> Result<AsyncPool, BuildError> {
        let timed = quietly(|| {
            let _inside = handle.enter();
            drop(tokio::time::sleep(Duration::ZERO));
        });
        if timed.is_err() {
            let cause = "its runtime has no timers: call `enable_time` when that is built";
            return Err(BuildError::Worker(cause.to_owned()));
        }
        self.run_on(Driver::tokio(Runtime::new(handle.clone())), || TokioTime::new(handle.clone()));
        Ok(AsyncPool { pool: self.build()? })
    }

    /// A pool whose closures run on the runtime of this handle: what an `AsyncPool` is built
    /// on, for the conformance suite. Its closures block; `blocking` tells the runtime.
    #[doc(hidden)]
    pub fn on_runtime(
        mut self,
        handle: &tokio::runtime::Handle,
        blocking: Option<fn(&mut dyn FnMut())>,
    ) -> Self {
        let runtime = Runtime::new(handle.clone()).for_closures(blocking);
        self.run_on(Driver::tokio(runtime), || TokioTime::new(handle.clone()));
        self
    }
}

/// Submitting.
impl AsyncPool {
    /// Describes a pool; [`build_async`](Builder::build_async) starts it.
    pub fn builder(name: impl Into<String>) -> Builder<()> {
        Pool::builder(name)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.pool.core()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.pool.name()
    }

    /// Submits a future; the handle, itself a future, gives its value. Waits for room as the
    /// policy says. Dropped while it waits, it takes the future along: that was not accepted.
    ///
    /// Price: no allocation for a small future that is ready when it is first polled; one for any
    /// other.
    pub fn submit<F>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<Handle<F::Output>, Refused<F>>> + Send
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        offer::submit(self.core(), Value(future), Plainly)
    }

    /// As [`submit`](AsyncPool::submit), for a future that gives a `Result`: `Err` counts as
    /// failed.
    pub fn submit_result<T, E, F>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<Handle<T, E>, Refused<F>>> + Send
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        offer::submit(self.core(), Outcome(future), Plainly)
    }

    /// Fire and forget: still bounded, counted and isolated. A panic is told to
    /// `on_unobserved`.
    pub fn spawn<F>(&self, future: F) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        F: Future<Output = ()> + Send + 'static,
    {
        offer::spawn(self.core(), Value(future), Plainly)
    }

    /// Fire and forget for a future that may fail: its error is told to `on_unobserved`.
    pub fn spawn_result<E, F>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        E: Display + Send + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        offer::spawn(self.core(), Told(Outcome(future)), Plainly)
    }

    /// As [`submit`](AsyncPool::submit), but never waits, whatever the policy: refuses with
    /// `Full`. From any thread.
    pub fn try_submit<F>(&self, future: F) -> Result<Handle<F::Output>, Refused<F>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let cell = self.core().try_future(Value(future), true, Offer::default())?;
        Ok(Handle::new(cell, false))
    }

    /// As [`spawn`](AsyncPool::spawn), but never waits: refuses with `Full`.
    pub fn try_spawn<F>(&self, future: F) -> Result<(), Refused<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.core().try_future(Value(future), false, Offer::default()).map(drop)
    }

    /// As [`submit`](AsyncPool::submit), for a thread that may block; so may
    /// [`Handle::wait`] there. Inside a poll that a pool runs it never waits: `WouldDeadlock`.
    pub fn submit_blocking<F>(&self, future: F) -> Result<Handle<F::Output>, Refused<F>>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let cell = self.core().future_plainly(Value(future), true)?;
        Ok(Handle::new(cell, false))
    }

    /// Describes a task: its name, ids, limits, token, callback, budgets, and how long it may
    /// wait for room.
    pub fn task(&self, name: &'static str) -> AsyncTask<'_> {
        AsyncTask::new(self, name)
    }
}

/// Ending.
impl AsyncPool {
    /// Accepts nothing from now on; what is queued still runs.
    pub fn close(&self) {
        self.pool.close();
    }

    /// A token that is cancelled when the pool closes; see [`Pool::closed`].
    #[must_use]
    pub fn closed(&self) -> Token {
        self.pool.closed()
    }

    /// Ready once everything accepted is settled and every callback has returned. An error in a
    /// task of the pool: it would wait for itself.
    pub async fn wait_idle(&self) -> Result<(), ShutdownError> {
        self.pool.wait_idle_async().await
    }

    /// As [`wait_idle`](AsyncPool::wait_idle), for a thread that may block.
    pub fn wait_idle_blocking(&self) -> Result<(), ShutdownError> {
        self.pool.wait_idle()
    }

    /// Ends the pool; see [`Pool::shutdown`]. It begins when this is called, and dropping the
    /// future leaves it going. In async code of the pool itself it is an error.
    pub fn shutdown(&self, how: Shutdown) -> ShutdownFuture {
        self.pool.shutdown_async(how)
    }

    /// As [`shutdown`](AsyncPool::shutdown), for a thread that may block.
    pub fn shutdown_blocking(&self, how: Shutdown) -> Result<Report, ShutdownError> {
        self.pool.shutdown(how)
    }

    /// Starts no queued task until [`resume`](AsyncPool::resume); see [`Pool::pause`].
    pub fn pause(&self) {
        self.pool.pause();
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.pool.resume();
    }
}

/// Looking and steering.
impl AsyncPool {
    /// All counters and gauges, consistent with each other.
    pub fn snapshot(&self) -> Snapshot {
        self.pool.snapshot()
    }

    /// The workers, the last few that ended included.
    pub fn roster(&self) -> Vec<WorkerInfo> {
        self.pool.roster()
    }

    /// Where the pool is in its life.
    pub fn state(&self) -> PoolState {
        self.pool.state()
    }

    /// What the pool looks like to somebody who knows pools; see [`Pool::diagnose`].
    pub fn diagnose(&self) -> Diagnosis {
        self.pool.diagnose()
    }

    /// The same since a snapshot of yours; see [`Pool::diagnose_since`].
    pub fn diagnose_since(&self, earlier: &Snapshot) -> Diagnosis {
        self.pool.diagnose_since(earlier)
    }

    /// Cancels the task with this id; see [`Pool::cancel_task`].
    pub fn cancel_task(&self, id: TaskId) -> bool {
        self.pool.cancel_task(id)
    }

    /// Changes how many workers there are; see [`Pool::resize`].
    pub fn resize(&self, workers: impl Into<Workers>) -> Result<(), ResizeError> {
        self.pool.resize(workers)
    }

    /// Ends one worker for good; see [`Pool::stop_worker`].
    pub fn stop_worker(&self, id: WorkerId, how: StopWorker) -> Result<(), WorkerError> {
        self.pool.stop_worker(id, how)
    }

    /// Ends one worker and starts a fresh one; see [`Pool::recycle_worker`].
    pub fn recycle_worker(&self, id: WorkerId, how: StopWorker) -> Result<(), WorkerError> {
        self.pool.recycle_worker(id, how)
    }
}

impl AsRef<Pool> for AsyncPool {
    /// The pool behind it, for code of yours that takes a [`Pool`] to look at it.
    fn as_ref(&self) -> &Pool {
        &self.pool
    }
}

//! The pool as its users see it.

use std::fmt::{self, Display};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::admission::Patience;
use crate::builder::Builder;
use crate::clock::Ticks;
use crate::core::{Core, Ending, PAUSED};
use crate::cx::Cx;
use crate::frames;
use crate::handle::Handle;
use crate::ids::TaskId;
use crate::job::{Fallible, Plain, Run, Told, WithState};
use crate::parker::with_parker;
use crate::refused::Refused;
use crate::report::{Report, Shutdown, ShutdownError};
use crate::settle::Who;
use crate::snapshot::{PoolState, Snapshot, WorkerInfo};
use crate::stream::Completions;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::{Offer, Task, Unwanted};
use crate::token::{Registration, Token};
use crate::unobserved::UnobservedKind;

/// A bounded set of worker threads that owns the work it accepts.
///
/// Offering work has two ends: the pool *refuses* it, hands it back and says why; or it
/// *accepts* it, and exactly one outcome follows. Clones are the same pool. Dropping the
/// last one closes it and lets what was accepted drain in the background; end with
/// [`shutdown`](Pool::shutdown), or that work is lost when `main` returns.
///
/// ```
/// use tidegate::{Pool, Shutdown};
///
/// let pool = Pool::builder("squares").workers(2).queue(100).build()?;
/// let nine = pool.submit(|| 3 * 3)?;
/// pool.spawn(|| println!("fire and forget, still counted"))?;
/// assert_eq!(nine.wait()?, 9);
/// let report = pool.shutdown(Shutdown::default())?;
/// assert!(report.is_success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<S = ()> {
    owner: Arc<Owner>,
    state: PhantomData<fn(&mut S)>,
}

/// Dropped with the last `Pool`. Public in name only, for the sealed `AnyPool`.
#[allow(unreachable_pub, missing_debug_implementations, reason = "nobody can name it")]
pub struct Owner {
    core: Arc<Core>,
    // The parent token's listener goes with us.
    _parent: Option<Registration>,
}

impl Pool<()> {
    /// Describes a pool. The name is shown in reports and names the threads.
    pub fn builder(name: impl Into<String>) -> Builder<()> {
        Builder::new(name.into())
    }
}

impl<S> Pool<S> {
    pub(crate) fn new(core: Arc<Core>, parent: Option<Registration>) -> Self {
        Pool { owner: Arc::new(Owner { core, _parent: parent }), state: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    #[cfg(any(feature = "prometheus", feature = "top"))]
    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// The name given to [`builder`](Pool::builder).
    pub fn name(&self) -> &str {
        &self.core().name
    }

    #[inline]
    pub(crate) fn submit_work<W: Run + 'static>(
        &self,
        work: W,
        offer: Offer<'_>,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let cell = self.core().offer(work, true, offer)?;
        Ok(Handle::new(cell, self.core().config.callers_may_help))
    }

    #[inline]
    pub(crate) fn submit_plain<W: Run + 'static>(
        &self,
        work: W,
        patience: Patience,
        unwanted: Option<Unwanted<'_>>,
    ) -> Result<Handle<W::Value, W::Error>, Refused<W::Closure>> {
        let cell = self.core().submit_plain(work, patience, unwanted)?;
        Ok(Handle::new(cell, self.core().config.callers_may_help))
    }

    pub(crate) fn spawn_work<W: Run + 'static>(
        &self,
        work: W,
        offer: Offer<'_>,
    ) -> Result<(), Refused<W::Closure>> {
        self.core().offer(work, false, offer)?;
        Ok(())
    }
}

/// Submitting.
impl<S: 'static> Pool<S> {
    /// Submits a closure; the handle gives its value.
    ///
    /// Price: no allocation for captures and results of up to 40 bytes, once warm.
    #[inline]
    pub fn submit<T, F>(&self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit_plain(Plain(f), Patience::Policy, None)
    }

    /// Submits a closure that returns a `Result`: `Err` counts as failed, and the handle
    /// gives `TaskError::Failed`.
    pub fn submit_result<T, E, F>(&self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.submit_plain(Fallible(f), Patience::Policy, None)
    }

    /// Submits a closure that gets the worker's state; see
    /// [`Builder::worker_state`].
    pub fn submit_with<T, F>(&self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce(&mut S, &Cx) -> T + Send + 'static,
    {
        self.submit_plain(WithState(f, PhantomData), Patience::Policy, None)
    }

    /// As [`submit`](Pool::submit), but never waits, whatever the policy: refuses with
    /// `Full`.
    pub fn try_submit<T, F>(&self, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit_plain(Plain(f), Patience::Try, None)
    }

    /// As [`submit_result`](Pool::submit_result), but never waits: refuses with `Full`.
    pub fn try_submit_result<T, E, F>(&self, f: F) -> Result<Handle<T, E>, Refused<F>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce() -> Result<T, E> + Send + 'static,
    {
        self.submit_plain(Fallible(f), Patience::Try, None)
    }

    /// As [`submit`](Pool::submit); a wait for room lasts at most `limit`, then it refuses
    /// with `TimedOut`. Where the policy does not wait, neither does this.
    pub fn submit_timeout<T, F>(&self, limit: Duration, f: F) -> Result<Handle<T>, Refused<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit_plain(Plain(f), Patience::For(limit), None)
    }

    /// Fire and forget: still bounded, counted and isolated. A panic is told to
    /// `on_unobserved`.
    ///
    /// Price: no allocation for captures of up to 40 bytes (a queue of more than 65,536 places
    /// grows on its first fill).
    #[inline]
    pub fn spawn<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core().spawn_plain(f, Patience::Policy)
    }

    /// As [`spawn`](Pool::spawn), but never waits: refuses with `Full`.
    pub fn try_spawn<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core().spawn_plain(f, Patience::Try)
    }

    /// Fire and forget for a closure that may fail: its error is told to `on_unobserved`.
    pub fn spawn_result<E, F>(&self, f: F) -> Result<(), Refused<F>>
    where
        E: Display + Send + 'static,
        F: FnOnce() -> Result<(), E> + Send + 'static,
    {
        self.spawn_work(Told(Fallible(f)), Offer::default())
    }

    /// Describes a task: its name, ids, token, callback, and how long it may wait for room.
    pub fn task(&self, name: &'static str) -> Task<'_, S> {
        Task::new(self, name)
    }

    /// A stream of outcomes in the order in which they come. At most `window` tasks (and one
    /// at least) are accepted and not yet collected; beyond that its submits refuse with
    /// `Full`: collect first.
    pub fn stream<T: Send + 'static, E: Send + 'static>(
        &self,
        window: usize,
    ) -> Completions<T, E, S> {
        Completions::new(self.clone(), window)
    }
}

/// Ending.
impl<S> Pool<S> {
    /// Accepts nothing from now on; what is queued still runs. Submitters that wait for
    /// room are refused with `Closed`.
    pub fn close(&self) {
        self.core().close();
    }

    /// A token that is cancelled when the pool closes, whoever does that: [`close`](Pool::close),
    /// a shutdown, a signal, its parent, the drop of the last `Pool`. Wait for it, await it, or
    /// give it to those who produce the work. Cancelling it closes nothing.
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("service").workers(2).build()?;
    /// let closed = pool.closed();
    /// let main = std::thread::spawn(move || closed.wait()); // until somebody ends it
    /// pool.shutdown(Shutdown::default())?;
    /// main.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn closed(&self) -> Token {
        self.core().closed.child()
    }

    /// Waits until everything accepted is settled and every callback has returned. On a
    /// paused pool with queued tasks that is after the `resume`.
    pub fn wait_idle(&self) -> Result<(), ShutdownError> {
        self.wait_idle_until(Ticks::NEVER).map(|_| ())
    }

    /// As [`wait_idle`](Pool::wait_idle), at most `limit`; false if that passed.
    pub fn wait_idle_timeout(&self, limit: Duration) -> Result<bool, ShutdownError> {
        self.wait_idle_until(self.core().clock.now().after(limit))
    }

    fn wait_idle_until(&self, deadline: Ticks) -> Result<bool, ShutdownError> {
        let core = self.core();
        may_wait(core)?;
        may_block()?;
        let watching = core.watch.begin();
        Ok(with_parker(|parker, waker| {
            loop {
                watching.leave(waker);
                if core.is_idle() {
                    return true;
                }
                if !parker.park_until(&core.clock, deadline) {
                    return core.is_idle();
                }
            }
        }))
    }

    /// Ends the pool and joins its threads. Every caller waits for the same end and gets
    /// the same report; a stronger mode escalates one that is under way.
    ///
    /// Inside a task, callback or hook of this pool it returns
    /// [`ShutdownError::InsideTask`]: it would wait for itself. [`close`](Pool::close) works there.
    pub fn shutdown(&self, how: Shutdown) -> Result<Report, ShutdownError> {
        let core = self.core();
        may_wait(core)?;
        may_block()?;
        core.begin_shutdown(how, Who::Caller);
        let report = core.ending.report.wait();
        core.ending.join();
        Ok((*report).clone())
    }

    /// As [`shutdown`](Pool::shutdown), for async code on any runtime. It begins when this
    /// is called; what is queued is settled in the call; dropping the future leaves it going.
    pub fn shutdown_async(&self, how: Shutdown) -> ShutdownFuture {
        let core = self.core();
        let error = may_wait(core).err();
        if error.is_none() {
            core.begin_shutdown(how, Who::Caller);
        }
        ShutdownFuture { ending: Arc::clone(&core.ending), error }
    }

    /// Starts no queued task until [`resume`](Pool::resume). Running tasks go on, tasks are
    /// accepted while there is room, and a task that waits for its own target still runs it.
    pub fn pause(&self) {
        let core = self.core();
        let control = core.control.lock();
        // A closing pool can't be paused: its end would never come.
        if control.closing.is_none() {
            core.queue.suspend(true);
            core.flags.fetch_or(PAUSED, SeqCst);
        }
        drop(control);
        core.lot.kick_all();
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let core = self.core();
        let control = core.control.lock();
        core.end_pause();
        drop(control);
        core.lot.kick_all();
        core.room_is_free();
        core.wake_for_rest();
        core.wake_supervisor(); // to look at the size again
    }
}

/// Looking and steering.
impl<S> Pool<S> {
    /// All counters and gauges, consistent with each other.
    pub fn snapshot(&self) -> Snapshot {
        self.core().snapshot()
    }

    /// The workers, the last few that ended included.
    pub fn roster(&self) -> Vec<WorkerInfo> {
        let now = self.core().clock.now();
        self.core().roster.lock().list(now)
    }

    /// Where the pool is in its life.
    pub fn state(&self) -> PoolState {
        self.core().state()
    }

    /// Cancels the task with this id, from a handle, the roster or a summary: settles it if
    /// it is queued, tells it to stop if it runs. False if there is nothing to cancel.
    pub fn cancel_task(&self, id: TaskId) -> bool {
        self.core().cancel_task(id)
    }
}

/// Not inside a poll of some pool of futures.
fn may_block() -> Result<(), ShutdownError> {
    if frames::polls() { Err(ShutdownError::InPoll) } else { Ok(()) }
}

/// Errors where a wait for this pool could never end.
pub(crate) fn may_wait(core: &Core) -> Result<(), ShutdownError> {
    if frames::depth(core.address()) > 0 {
        return Err(ShutdownError::InsideTask);
    }
    if !core.is_own_process() {
        return Err(ShutdownError::Forked);
    }
    Ok(())
}

impl Ending {
    /// Waits for the supervisor's thread; one caller joins, the others wait for that.
    fn join(&self) {
        let thread = self.supervisor.lock().take();
        match thread {
            Some(thread) => {
                thread.join();
                self.joined.set(());
            }
            None => self.joined.wait(),
        }
    }
}

/// The end of a pool, as a future; see [`Pool::shutdown_async`].
#[must_use = "the shutdown is under way; await it to know its end"]
pub struct ShutdownFuture {
    ending: Arc<Ending>,
    error: Option<ShutdownError>,
}

impl Future for ShutdownFuture {
    type Output = Result<Report, ShutdownError>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error {
            return Poll::Ready(Err(error));
        }
        self.ending.report.poll(cx).map(|report| Ok((*report).clone()))
    }
}

impl fmt::Debug for ShutdownFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = self.ending.report.get().is_some();
        f.debug_struct("ShutdownFuture").field("over", &over).field("error", &self.error).finish()
    }
}

#[cfg(any(feature = "prometheus", feature = "top"))]
impl Owner {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Owner {
    /// S6: closes, never blocks, never joins.
    fn drop(&mut self) {
        if self.core.control.lock().closing.is_some() {
            return; // it ends, or has ended, by itself
        }
        self.core.close();
        let reading = self.core.reading();
        let left = reading.accepted - reading.outcomes.sum();
        if left > 0 {
            let message = "call `shutdown` before the last `Pool` goes".to_owned();
            self.core.unobserved(UnobservedKind::DroppedWithWork(left), "", None, message);
        }
        self.core.begin_shutdown(Shutdown::light(), Who::Watcher);
    }
}

impl<S> Clone for Pool<S> {
    fn clone(&self) -> Self {
        Pool { owner: Arc::clone(&self.owner), state: PhantomData }
    }
}

impl<S> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.name()).field("state", &self.state()).finish()
    }
}

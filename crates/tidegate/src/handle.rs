//! The caller's end of a task.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::cell::{CellRef, Kind, Look};
use crate::clock::{Clock, Ticks};
use crate::core::Core;
use crate::depot;
use crate::frames::{self, MAX_DEPTH};
use crate::ids::TaskId;
use crate::job::take;
use crate::outcome::{Cause, TaskError, TimedOut};
use crate::panics::Panic;
use crate::parker::with_parker;
use crate::settle::{self, Who};
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::{snooze, steps};

/// Steps awake before a waiter sleeps.
const AWAKE_STEPS: u32 = steps(60);

/// Collects the outcome of one task.
///
/// Wait for it, poll it, await it on any runtime, or drop it: dropping *detaches*, the
/// task goes on, and an error that nobody read is told to the pool's `on_unobserved`.
/// [`cancel_on_drop`](Handle::cancel_on_drop) gives one that cancels instead.
///
/// ```
/// use tidegate::{Pool, Shutdown};
///
/// let pool = Pool::builder("work").workers(2).build()?;
/// let answer = pool.submit(|| 6 * 7)?;
/// assert_eq!(answer.wait()?, 42);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a handle detaches its task; call `detach` to say so"]
pub struct Handle<T, E = Infallible> {
    /// None once the outcome was taken.
    cell: Option<CellRef>,
    life: CellRef,
    may_help: bool,
    output: PhantomData<fn() -> (T, E)>,
}

/// Why a wait ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// The wait could never end: the task is the waiter itself, waits for the waiter, or
    /// would have to run on top of too many others, or on a worker whose state is in use.
    WouldDeadlock,
    /// The outcome was taken before, by `try_take`, `wait_timeout` or a poll.
    AlreadyTaken,
}

/// What [`Handle::wait`] returns when there is no value.
pub enum WaitError<T, E = Infallible> {
    /// The task's outcome.
    Task(TaskError<E>),
    /// There is no outcome yet, and the handle comes back.
    NoOutcome {
        /// Why.
        reason: WaitReason,
        /// Still good: cancel it, poll it, or wait somewhere else.
        handle: Handle<T, E>,
    },
}

impl<T, E> Handle<T, E> {
    /// The cell must have been filled with work of these types, with its HANDLE flag set.
    pub(crate) fn new(cell: CellRef, may_help: bool) -> Self {
        Handle { cell: Some(cell), life: cell, may_help, output: PhantomData }
    }

    /// The pool's id for this task.
    pub fn id(&self) -> TaskId {
        settle::task_id(self.life)
    }

    /// True once there is an outcome.
    pub fn is_settled(&self) -> bool {
        self.cell.is_none_or(|cell| matches!(cell.look(), Look::Settled(..)))
    }

    /// Cancels the task: settles it at once if it is queued (its captures are dropped on
    /// this thread), tells it to stop if it runs. False if it was settled or told before.
    pub fn cancel(&self) -> bool {
        self.cell.is_some_and(|cell| settle::cancel(cell, Cause::Handle, Who::Caller))
    }

    /// Lets the task go on without a handle.
    pub fn detach(self) {}

    /// A handle that cancels its task when it is dropped.
    pub fn cancel_on_drop(self) -> CancelOnDrop<T, E> {
        CancelOnDrop { handle: Some(self) }
    }

    /// Waits for the outcome.
    ///
    /// Inside a task of the same pool: a target that is still queued is run here and now,
    /// on top of the waiting task, at most 64 deep; one that runs elsewhere is waited for. A
    /// wait that could never end comes back as [`WaitError::NoOutcome`]. Never runs an
    /// unrelated task.
    pub fn wait(mut self) -> Result<T, WaitError<T, E>> {
        let Some(cell) = self.cell else {
            return Err(WaitError::NoOutcome { reason: WaitReason::AlreadyTaken, handle: self });
        };
        if !matches!(cell.look(), Look::Settled(..))
            && let Err(reason) = self.block(cell)
        {
            return Err(WaitError::NoOutcome { reason, handle: self });
        }
        if !matches!(cell.look(), Look::Settled(..)) {
            // Run here, but given up meanwhile: the reaper is about to publish that.
            wait_asleep(cell, &Clock::system(), Ticks::NEVER);
        }
        let outcome = self.try_take().expect("waited until it was settled");
        outcome.map_err(WaitError::Task)
    }

    /// Waits at most `limit`, by the pool's clock. `None`: no outcome yet, or it was taken before. Never runs
    /// the task itself.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<T, TaskError<E>>> {
        let cell = self.cell?;
        if !matches!(cell.look(), Look::Settled(..)) {
            let core = Core::find(cell.cell().core.load(SeqCst));
            let clock = core.map_or_else(Clock::system, |core| core.clock.clone());
            let deadline = clock.now().after(limit);
            wait_asleep(cell, &clock, deadline);
        }
        self.try_take()
    }

    /// The outcome, if there is one. `None` also if it was taken before.
    pub fn try_take(&mut self) -> Option<Result<T, TaskError<E>>> {
        let cell = self.cell?;
        let Look::Settled(kind, cause) = cell.look() else { return None };
        self.cell = None;
        // SAFETY: settled with our handle, so the payload is ours; `settle_returned` stored
        // it by this table, for the types this handle was made with.
        let outcome = cell.payload(|words| unsafe {
            match kind {
                Kind::Completed => Ok(take::<T>(words)),
                Kind::Failed => Err(TaskError::Failed(take::<E>(words))),
                Kind::Panicked => Err(TaskError::Panicked(take::<Panic>(words))),
                Kind::TimedOutInQueue => Err(TaskError::TimedOut(TimedOut::InQueue)),
                Kind::TimedOutRunning => Err(TaskError::TimedOut(TimedOut::Running)),
                Kind::Cancelled => Err(TaskError::Cancelled { cause, error: None }),
                Kind::CancelledWithError => {
                    Err(TaskError::Cancelled { cause, error: Some(take::<E>(words)) })
                }
                Kind::Evicted => Err(TaskError::Evicted),
                Kind::Abandoned => Err(TaskError::Abandoned(cause)),
            }
        });
        depot::put(cell);
        Some(outcome)
    }

    pub(crate) fn cell(&self) -> Option<CellRef> {
        self.cell
    }

    /// R9 for a stream: runs the task here if it is queued; true if it did.
    pub(crate) fn run_inside(&self, core: &Arc<Core>) -> bool {
        let queued = self.cell.filter(|cell| cell.is_queued());
        queued.is_some_and(|cell| run_queued(cell, core).unwrap_or(false))
    }

    fn block(&self, cell: CellRef) -> Result<(), WaitReason> {
        let pool = cell.cell().core.load(SeqCst);
        if frames::depth(pool) > 0 {
            return wait_inside(cell, pool);
        }
        if self.may_help && help(cell, pool) {
            return Ok(());
        }
        // Still queued: others are before it, so let the workers get on in peace.
        let mut step = if cell.is_queued() { 5 } else { 0 };
        while step < AWAKE_STEPS {
            snooze(step);
            if matches!(cell.look(), Look::Settled(..)) {
                return Ok(());
            }
            step += 1;
        }
        wait_asleep(cell, &Clock::system(), Ticks::NEVER);
        Ok(())
    }
}

/// Sleeps until settled, or until the deadline.
fn wait_asleep(cell: CellRef, clock: &Clock, deadline: Ticks) {
    with_parker(|parker, waker| {
        while !cell.register(waker) {
            if !parker.park_until(clock, deadline) {
                cell.withdraw_waker();
                return;
            }
        }
    });
}

/// R9: inside a task of the target's own pool.
fn wait_inside(cell: CellRef, pool: *mut ()) -> Result<(), WaitReason> {
    // The pool is alive: we run inside it.
    let Some(core) = Core::find(pool) else {
        wait_asleep(cell, &Clock::system(), Ticks::NEVER);
        return Ok(());
    };
    if cell.is_queued() && run_queued(cell, &core)? {
        return Ok(());
    }
    let me = frames::runner();
    {
        // One lock for the look and the entry: of two waits that close a cycle, the
        // second sees the first.
        let mut waits = core.waits.lock();
        let mut target = cell;
        while target.is_running() {
            // Who is only about to run it waits for nobody yet, and will see us.
            let Some(runner) = core.runner_of(target) else { break };
            if runner == me {
                return Err(WaitReason::WouldDeadlock);
            }
            match waits.get(&runner) {
                Some(next) => target = *next,
                None => break,
            }
        }
        waits.insert(me, cell);
    }
    wait_asleep(cell, &Clock::system(), Ticks::NEVER);
    core.waits.lock().remove(&me);
    Ok(())
}

/// Takes a queued task out and runs it on top of the waiting one; false if somebody else
/// was first.
pub(crate) fn run_queued(cell: CellRef, core: &Arc<Core>) -> Result<bool, WaitReason> {
    if core.config.worker_state.is_some() || frames::depth(core.address()) >= MAX_DEPTH {
        return Err(WaitReason::WouldDeadlock);
    }
    let claimed = cell.claim_start();
    if claimed {
        core.queue.give_credit();
        core.lobby.wake_first();
        core.run_here(cell);
    }
    Ok(claimed)
}

/// For a scope, which can't come back without its tasks.
pub(crate) fn run_queued_however_deep(cell: CellRef, core: &Arc<Core>) {
    if cell.claim_start() {
        core.queue.give_credit();
        core.lobby.wake_first();
        core.run_here(cell);
    }
}

/// R10: outside the pool, in place of an idle worker, if ours is the only queued task.
fn help(cell: CellRef, pool: *mut ()) -> bool {
    let Some(core) = Core::find(pool) else { return false };
    // With `queue(0)` the task is a promise to the worker that waits for it.
    if core.queue.bound() == 0
        || !cell.is_queued()
        || cell.is_limited()
        || !core.queue.holds_one()
        || !core.may_start()
        || !core.lot.hold()
    {
        return false;
    }
    let claimed = cell.claim_start();
    if claimed {
        core.queue.give_credit();
        core.run_here(cell);
    }
    core.lot.release();
    core.wake_for_rest();
    claimed
}

impl Core {
    /// Neither paused nor under Hard.
    fn may_start(self: &Arc<Self>) -> bool {
        self.flags.load(SeqCst) & (crate::core::PAUSED | crate::core::HARD) == 0
    }
}

impl<T, E> Drop for Handle<T, E> {
    fn drop(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        if !cell.detach() {
            return;
        }
        let Look::Settled(kind, _) = cell.look() else { return };
        // An error that nobody read is told (O6); without its pool there is nobody to tell.
        match Core::find(cell.cell().core.load(SeqCst)) {
            Some(core) => settle::discard_output(cell, kind, &core),
            None => drop(settle::drop_payload(cell, kind)),
        }
    }
}

impl<T, E> Future for Handle<T, E> {
    type Output = Result<T, TaskError<E>>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let cell = self.cell.expect("a handle was polled after its outcome was taken");
        if !matches!(cell.look(), Look::Settled(..)) && !cell.register(cx.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(self.try_take().expect("settled"))
    }
}

// Nothing in a handle is pinned or borrowed; its output is only ever moved out.
impl<T, E> Unpin for Handle<T, E> {}

// SAFETY: a handle gives its output by value to whoever holds it, so `T: Send` and
// `E: Send` are enough for both; `&Handle` only looks at and cancels the cell.
unsafe impl<T: Send, E: Send> Send for Handle<T, E> {}
// SAFETY: as above.
unsafe impl<T: Send, E: Send> Sync for Handle<T, E> {}

impl<T, E> fmt::Debug for Handle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settled = self.is_settled();
        f.debug_struct("Handle").field("id", &self.id()).field("settled", &settled).finish()
    }
}

/// A handle that cancels its task when it is dropped; see [`Handle::cancel_on_drop`].
#[must_use = "dropping it cancels the task"]
pub struct CancelOnDrop<T, E = Infallible> {
    /// None only while it is being taken apart.
    handle: Option<Handle<T, E>>,
}

impl<T, E> CancelOnDrop<T, E> {
    /// The plain handle: from now on dropping detaches.
    pub fn into_handle(self) -> Handle<T, E> {
        let mut this = ManuallyDrop::new(self);
        this.handle.take().expect("taken only here")
    }

    /// As [`Handle::wait`].
    pub fn wait(self) -> Result<T, WaitError<T, E>> {
        self.into_handle().wait()
    }
}

impl<T, E> std::ops::Deref for CancelOnDrop<T, E> {
    type Target = Handle<T, E>;
    fn deref(&self) -> &Handle<T, E> {
        self.handle.as_ref().expect("taken only when consumed")
    }
}

impl<T, E> std::ops::DerefMut for CancelOnDrop<T, E> {
    fn deref_mut(&mut self) -> &mut Handle<T, E> {
        self.handle.as_mut().expect("taken only when consumed")
    }
}

impl<T, E> Drop for CancelOnDrop<T, E> {
    fn drop(&mut self) {
        if let Some(cell) = self.handle.as_ref().and_then(|handle| handle.cell) {
            settle::cancel(cell, Cause::Dropped, Who::Caller);
        }
    }
}

impl<T, E> Future for CancelOnDrop<T, E> {
    type Output = Result<T, TaskError<E>>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.handle.as_mut().expect("taken only when consumed")).poll(cx)
    }
}

impl<T, E> fmt::Debug for CancelOnDrop<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&self.handle).finish()
    }
}

impl<T, E> WaitError<T, E> {
    /// The task's outcome, if there is one.
    pub fn task(&self) -> Option<&TaskError<E>> {
        match self {
            WaitError::Task(error) => Some(error),
            WaitError::NoOutcome { .. } => None,
        }
    }

    /// The task's outcome, or the reason and the handle.
    pub fn into_task(self) -> Result<TaskError<E>, (WaitReason, Handle<T, E>)> {
        match self {
            WaitError::Task(error) => Ok(error),
            WaitError::NoOutcome { reason, handle } => Err((reason, handle)),
        }
    }

    /// The task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.task().is_some_and(TaskError::is_cancelled)
    }

    /// The task panicked.
    pub fn is_panicked(&self) -> bool {
        self.task().is_some_and(TaskError::is_panicked)
    }

    /// True if the task returned an error.
    pub fn is_failed(&self) -> bool {
        self.task().is_some_and(TaskError::is_failed)
    }

    /// True if its time limit passed.
    pub fn is_timed_out(&self) -> bool {
        self.task().is_some_and(TaskError::is_timed_out)
    }

    /// True if a full queue pushed it out.
    pub fn is_evicted(&self) -> bool {
        self.task().is_some_and(TaskError::is_evicted)
    }

    /// True if it did not stop within the grace.
    pub fn is_abandoned(&self) -> bool {
        self.task().is_some_and(TaskError::is_abandoned)
    }

    /// The wait could never have ended.
    pub fn is_would_deadlock(&self) -> bool {
        matches!(self, WaitError::NoOutcome { reason: WaitReason::WouldDeadlock, .. })
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitReason::WouldDeadlock => {
                "the wait could never end (the task depends on the waiter), or would run more \
                 than 64 tasks on top of each other, or on a worker whose state is in use; \
                 wait outside the pool, or return and let it run"
            }
            WaitReason::AlreadyTaken => "the outcome was taken from this handle before",
        })
    }
}

impl<T, E: fmt::Debug> fmt::Debug for WaitError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Task(error) => fmt::Debug::fmt(error, f),
            WaitError::NoOutcome { reason, handle } => {
                f.debug_struct("NoOutcome").field("reason", reason).field("handle", handle).finish()
            }
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for WaitError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::Task(error) => fmt::Display::fmt(error, f),
            WaitError::NoOutcome { reason, .. } => fmt::Display::fmt(reason, f),
        }
    }
}

impl<T, E: fmt::Display + fmt::Debug> Error for WaitError<T, E> {}

//! The caller's end of a task.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::cell::Kind;
use crate::clock::{Clock, Ticks};
use crate::core::Core;
use crate::depot;
use crate::frames;
use crate::ids::TaskId;
use crate::job::take;
use crate::life::{CellRef, Look};
use crate::outcome::{Cause, TaskError, TimedOut};
use crate::panics::Panic;
use crate::settle::{self, Who};
use crate::sync::atomic::Ordering::SeqCst;
use crate::wait_error::{WaitError, WaitReason};
use crate::waiting::{self, Depth, run_queued, wait_asleep};

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
    life: CellRef,
    /// The outcome was taken: the cell has other lives now.
    taken: bool,
    may_help: bool,
    output: PhantomData<fn() -> (T, E)>,
}

impl<T, E> Handle<T, E> {
    /// The cell must have been filled with work of these types, with its HANDLE flag set.
    pub(crate) fn new(cell: CellRef, may_help: bool) -> Self {
        Handle { life: cell, taken: false, may_help, output: PhantomData }
    }

    /// The pool's id for this task.
    pub fn id(&self) -> TaskId {
        settle::task_id(self.life)
    }

    /// True once there is an outcome.
    pub fn is_settled(&self) -> bool {
        self.cell().is_none_or(|cell| matches!(cell.look(), Look::Settled(..)))
    }

    /// Cancels the task: settles it at once if it is queued (its captures are dropped on
    /// this thread), tells it to stop if it runs. False if it was settled or told before.
    pub fn cancel(&self) -> bool {
        self.cell().is_some_and(|cell| settle::cancel(cell, Cause::Handle, Who::Caller))
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
    /// unrelated task. Inside a poll of an `AsyncPool`'s task it never blocks: await the handle.
    #[inline]
    pub fn wait(self) -> Result<T, WaitError<T, E>> {
        self.wait_at(Depth::Limited)
    }

    /// Quick if there is a value already.
    #[inline(always)]
    pub(crate) fn wait_at(self, depth: Depth) -> Result<T, WaitError<T, E>> {
        // No outcome comes by here: it may be large, and what this thread runs while it waits
        // lies on top of this frame (hazard 75).
        if self.has_value() { self.into_value() } else { self.wait_slowly(depth) }
    }

    /// A value is the outcome, as it mostly is, and was not taken.
    #[inline(always)]
    fn has_value(&self) -> bool {
        !self.taken && self.life.is_completed()
    }

    #[inline]
    fn into_value(mut self) -> Result<T, WaitError<T, E>> {
        // SAFETY: the caller has asked whether it has one.
        Ok(unsafe { self.take_value() })
    }

    /// # Safety
    /// It has a value.
    #[inline(always)]
    unsafe fn take_value(&mut self) -> T {
        self.taken = true;
        // SAFETY: as in `try_take`.
        let value = self.life.payload(|words| unsafe { take::<T>(words) });
        depot::put(self.life);
        value
    }

    fn wait_slowly(self, depth: Depth) -> Result<T, WaitError<T, E>> {
        let Some(cell) = self.cell() else {
            return Err(WaitError::NoOutcome { reason: WaitReason::AlreadyTaken, handle: self });
        };
        if !matches!(cell.look(), Look::Settled(..))
            && let Err(reason) = waiting::wait(cell, self.may_help, depth)
        {
            return Err(WaitError::NoOutcome { reason, handle: self });
        }
        if !matches!(cell.look(), Look::Settled(..)) {
            // Run here, but given up meanwhile: the reaper is about to publish that.
            wait_asleep(cell, &Clock::system(), Ticks::NEVER);
        }
        self.into_outcome()
    }

    fn into_outcome(mut self) -> Result<T, WaitError<T, E>> {
        let outcome = self.try_take().expect("waited until it was settled");
        outcome.map_err(WaitError::Task)
    }

    /// Waits at most `limit`, by the pool's clock. `None`: no outcome yet, or it was taken before. Never runs
    /// the task itself. Inside a poll of an `AsyncPool`'s task it does not wait: await the handle.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<T, TaskError<E>>> {
        let cell = self.cell()?;
        if !matches!(cell.look(), Look::Settled(..)) && !frames::polls() {
            let core = Core::find(cell.cell().core.load(SeqCst));
            let clock = core.map_or_else(Clock::system, |core| core.clock.clone());
            let deadline = clock.now().after(limit);
            wait_asleep(cell, &clock, deadline);
        }
        self.try_take()
    }

    /// The outcome, if there is one. `None` also if it was taken before.
    pub fn try_take(&mut self) -> Option<Result<T, TaskError<E>>> {
        if self.has_value() {
            // SAFETY: just asked.
            return Some(Ok(unsafe { self.take_value() }));
        }
        let cell = self.cell()?;
        let Look::Settled(kind, cause) = cell.look() else { return None };
        self.taken = true;
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

    /// None once the outcome was taken.
    #[inline(always)]
    pub(crate) fn cell(&self) -> Option<CellRef> {
        (!self.taken).then_some(self.life)
    }

    /// R9 for a stream: runs the task here if it is queued; true if it did.
    pub(crate) fn run_inside(&self, core: &Arc<Core>) -> bool {
        let queued = self.cell().filter(|cell| cell.is_queued());
        queued.is_some_and(|cell| run_queued(cell, core, Depth::Any).unwrap_or(false))
    }
}

impl<T, E> Drop for Handle<T, E> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let cell = self.life;
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
        let cell = self.cell().expect("a handle was polled after its outcome was taken");
        if cell.look() == Look::Queued {
            waiting::begin_queued(cell, cx.waker());
        }
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
        if let Some(cell) = self.handle.as_ref().and_then(Handle::cell) {
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

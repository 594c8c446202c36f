//! How a task ends: who may end it, what is stored, who is told, in that order.
//!
//! 1. *Claim* (`life.rs`): one CAS. The loser changes nothing.
//! 2. Drop what is left of the work, store the outcome.
//! 3. Count, flip to Settled, wake whoever waits.
//! 4. End the span, run the callback.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use crate::cell::{Kind, Ops};
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::decide::{self, Returned};
use crate::depot;
use crate::extras::{self, Extras};
use crate::frames;
use crate::holding;
use crate::ids::{TaskId, TaskInfo};
use crate::job::{Run, Verb, Words, Work, pass_on, peek, put, take};
use crate::life::{CellRef, Won};
use crate::line::WorkerLine;
use crate::nest::Nest;
use crate::outcome::{Cause, OutcomeKind, Summary};
use crate::panics::{Panic, quietly};
use crate::publish::Published;
use crate::queue::Item;
use crate::reaper::Chore;
use crate::ring::INLINE_WORDS;
use crate::short_way;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::token::Token;
use crate::trace::{self, TaskSpan};
use crate::unobserved::UnobservedKind;

/// Where a task runs.
pub(crate) struct RunEnv<'a> {
    pub(crate) core: &'a Arc<Core>,
    /// None on a caller's thread.
    pub(crate) line: Option<&'a WorkerLine>,
    /// The worker's state, or null.
    pub(crate) state: *mut (),
    /// Where a task goes that is a future and has begun.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    pub(crate) nest: &'a Nest,
}

/// Whose thread settles: only a caller's may run user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Caller,
    /// Supervisor, or inside `token.cancel`: claims only, the reaper publishes.
    Watcher,
}

/// The id under which the roster and `cancel_task` know a cell task.
pub(crate) fn task_id(cell: CellRef) -> TaskId {
    TaskId { hi: u64::from(cell.number()) << 1, lo: cell.generation() }
}

/// What reports list about a task; None if it ended meanwhile.
pub(crate) fn task_info(cell: CellRef) -> Option<TaskInfo> {
    let external_id = extras::of(cell).and_then(|extras| extras.lock().external_id.clone());
    // Last, because it checks that all of this was about one life.
    let name = cell.name()?;
    Some(TaskInfo { id: task_id(cell), name, external_id })
}

// ---------------------------------------------------------------- typed part

/// The functions of a work type, as a constant.
pub(crate) struct OpsOf<W>(PhantomData<W>);

impl<W: Run> OpsOf<W> {
    pub(crate) const OPS: Ops = OpsOf::<W>::with(run::<W>, false);
}

impl<W: Work> OpsOf<W> {
    /// For work that is run in a way of its own.
    pub(crate) const fn with(run: unsafe fn(CellRef, &RunEnv<'_>) -> bool, is_future: bool) -> Ops {
        Ops {
            is_future,
            run,
            drop_work: drop_work::<W>,
            drop_output: drop_output::<W>,
            describe: describe::<W>,
        }
    }
}

unsafe fn run<W: Run>(cell: CellRef, env: &RunEnv<'_>) -> bool {
    if short_way::is_for::<W>()
        && let Some(line) = env.line
        && !cell.has_extras()
    {
        // SAFETY: by contract, and it has none.
        return unsafe { short_way::run::<W>(cell, env, line) };
    }
    // SAFETY: by contract.
    unsafe { run_at_length::<W>(cell, env) }
}

/// The long way, for whatever was said about the task.
///
/// # Safety
/// As for `Ops::run`.
unsafe fn run_at_length<W: Run>(cell: CellRef, env: &RunEnv<'_>) -> bool {
    let Some(cx) = Cx::new(cell, env) else {
        settle_expired(cell, env);
        return false;
    };
    // SAFETY: the caller has claimed the start, so the payload is ours and holds a `W`.
    let work: W = cell.payload(|words| unsafe { take(words) });
    let span = TaskSpan::of(cell, cx.name());
    let lowest = env.show(cell);
    env.core.watch_limit(cx.limit());
    let mut left = [MaybeUninit::uninit(); INLINE_WORDS];
    let (returned, at) = span.around(env.core, || {
        let returned = quietly(|| match work.run(env.state, &cx) {
            Ok(value) => {
                // SAFETY: fresh words.
                unsafe { put(&mut left, value) };
                Returned::Value
            }
            Err(error) => {
                // SAFETY: fresh words.
                unsafe { put(&mut left, error) };
                Returned::Error
            }
        });
        // Strict: what counts is when the closure returned, not when we come to settle it.
        (returned, cx.started().map(|_| env.core.clock.about_now()))
    });
    let how = returned.unwrap_or_else(|panic| {
        // SAFETY: fresh words.
        unsafe { put(&mut left, panic) };
        Returned::Panic
    });
    // SAFETY: `how` says what was just stored.
    unsafe { settle_returned::<W>(cell, env, how, left, &cx, at) };
    env.hide(cell, lowest);
    how == Returned::Panic
}

/// # Safety
/// `left` holds what `how` says, stored by `put`.
pub(crate) unsafe fn settle_returned<W: Work>(
    cell: CellRef,
    env: &RunEnv<'_>,
    how: Returned,
    left: Words,
    cx: &Cx,
    at: Option<Ticks>,
) {
    let won = cell.claim_running();
    // SAFETY: by contract.
    unsafe { settle_claimed::<W>(cell, env, won, how, left, cx, at) }
}

/// # Safety
/// As for `settle_returned`; `won` is what `claim_running` said.
pub(crate) unsafe fn settle_claimed<W: Work>(
    cell: CellRef,
    env: &RunEnv<'_>,
    won: Option<Won>,
    how: Returned,
    mut left: Words,
    cx: &Cx,
    at: Option<Ticks>,
) {
    let Some(won) = won else {
        // Abandoned meanwhile: the cell may be somebody else's by now.
        env.core.ledger.late_returns.fetch_add(1, Relaxed);
        trace::returned_late(env.core, cx.name(), task_id(cell));
        if how == Returned::Panic {
            // SAFETY: by contract.
            let panic = unsafe { peek::<Panic>(&left) };
            let text = format!("after it was abandoned: {}", panic.message());
            env.core.unobserved(UnobservedKind::Panicked, cx.name(), Some(task_id(cell)), text);
        }
        // SAFETY: by contract, and nobody looks at it again.
        unsafe { drop_returned::<W>(&mut left, how, env.core) };
        return;
    };
    // Also if the supervisor has seen it pass before this thread's clock did.
    let is_late = cx.is_late(at) || won.stop_cause() == Some(Cause::Timeout);
    let kind = decide::outcome(how, is_late, won.stop_cause().is_some());
    if kind == Kind::TimedOutRunning {
        // SAFETY: as above.
        unsafe { drop_returned::<W>(&mut left, how, env.core) };
    } else {
        // SAFETY: claimed, and the payload was moved out before the run.
        cell.payload(|words| unsafe {
            match how {
                Returned::Value => pass_on::<W::Value>(&left, words),
                Returned::Error => pass_on::<W::Error>(&left, words),
                Returned::Panic => pass_on::<Panic>(&left, words),
            }
        });
    }
    let run_time = note_run_time(cell, env, cx, at);
    finish(cell, kind, won.stop_cause(), run_time, env.core, env.line);
}

/// How long it ran, if it was timed; noted for its worker and its name.
#[inline]
pub(crate) fn note_run_time(
    cell: CellRef,
    env: &RunEnv<'_>,
    cx: &Cx,
    at: Option<Ticks>,
) -> Option<Duration> {
    let (at, started) = at.zip(cx.started())?;
    let took = at.since(started);
    if let Some(line) = env.line {
        line.ran_alone(cell, took, at);
    }
    if let Some(times) = env.core.times.of(cx.name()) {
        times.run_time.record(took, 1);
    }
    Some(took)
}

/// Settles a future that was dropped before it was ready: by the cause it was told, or `cause`.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) fn settle_stopped(
    cell: CellRef,
    env: &RunEnv<'_>,
    cx: &Cx,
    at: Option<Ticks>,
    cause: Cause,
) {
    let Some(won) = cell.claim_running() else {
        env.core.ledger.late_returns.fetch_add(1, Relaxed);
        trace::returned_late(env.core, cx.name(), task_id(cell));
        return;
    };
    let cause = won.stop_cause().unwrap_or(cause);
    cell.set_cause(cause);
    let kind = decide::interrupted(cause, at.is_some_and(|at| at >= cx.limit()));
    let run_time = note_run_time(cell, env, cx, at);
    finish(cell, kind, Some(cause), run_time, env.core, env.line);
}

/// A value that came too late goes quietly.
///
/// # Safety
/// As for `settle_returned`.
#[cold]
unsafe fn drop_returned<W: Work>(left: &mut Words, how: Returned, core: &Core) {
    let kind = match how {
        Returned::Value => Kind::Completed,
        Returned::Error => Kind::Failed,
        Returned::Panic => Kind::Panicked,
    };
    // SAFETY: by contract.
    if let Err(panic) = quietly(|| unsafe { drop_output::<W>(left, kind) }) {
        core.ledger.drop_panics.fetch_add(1, Relaxed);
        core.discard(panic);
    }
}

unsafe fn drop_work<W: Work>(words: *mut Words) {
    // SAFETY: the caller owns a payload that holds a `W`.
    drop(unsafe { take::<W>(words) });
}

unsafe fn drop_output<W: Work>(words: *mut Words, kind: Kind) {
    // SAFETY: the caller owns a settled payload; `settle_returned` stored by this table.
    unsafe {
        match kind {
            Kind::Completed => drop(take::<W::Value>(words)),
            Kind::Failed | Kind::CancelledWithError => drop(take::<W::Error>(words)),
            Kind::Panicked => drop(take::<Panic>(words)),
            _ => {}
        }
    }
}

unsafe fn describe<W: Work>(words: *const Words, kind: Kind) -> Option<String> {
    // SAFETY: as in `drop_output`; `V` and `Box<V>` are both read in place.
    unsafe {
        match kind {
            Kind::Failed | Kind::CancelledWithError => Some(W::describe(peek::<W::Error>(words))),
            Kind::Panicked => Some(peek::<Panic>(words).message().to_owned()),
            _ => None,
        }
    }
}

// ---------------------------------------------------------------- untyped part

/// Steps 3 and 4 for a cell whose claim this thread won and whose outcome is stored.
fn finish(
    cell: CellRef,
    kind: Kind,
    cause: Option<Cause>,
    run_time: Option<Duration>,
    core: &Arc<Core>,
    line: Option<&WorkerLine>,
) {
    let extras = if cell.has_extras() { extras::take(cell) } else { Extras::default() };
    let (callback, span) = (extras.on_outcome, extras.span);
    let is_told = callback.is_some() || span.is_some();
    let summary = callback.is_some().then(|| Summary {
        kind: public_kind(kind),
        cause,
        pool: Arc::clone(&core.name),
        name: cell.name().unwrap_or(""),
        id: task_id(cell),
        external_id: extras.external_id.clone(),
        message: message(cell, kind),
        run_time,
    });
    if matches!(kind, Kind::Cancelled | Kind::CancelledWithError) {
        let name = cell.name().unwrap_or("");
        core.note_cancelled(TaskInfo { id: task_id(cell), name, external_id: extras.external_id });
    }
    if kind == Kind::Abandoned {
        holding::abandoned(&extras.hold);
    }
    drop(extras.own_token);
    if is_told {
        core.ledger.callbacks.fetch_add(1, SeqCst);
    }
    match line {
        Some(line) => line.outcomes().count_own(kind),
        None => core.ledger.outcomes.count(kind),
    }
    tell(cell.publish(kind), cell, kind, core);
    span.end(core, public_kind(kind));
    if let (Some(callback), Some(summary)) = (callback, summary) {
        // Wherever it runs, a callback is code of the pool: it must not wait for it (R8).
        let run = || frames::enter(core.address(), line, || callback(&summary));
        if let Err(panic) = quietly(run) {
            core.ledger.callback_panics.fetch_add(1, Relaxed);
            let message = panic.message().to_owned();
            core.unobserved(
                UnobservedKind::CallbackPanicked,
                summary.name,
                Some(summary.id),
                message,
            );
            core.discard(panic);
        }
    }
    if is_told {
        core.ledger.callbacks.fetch_sub(1, SeqCst);
    }
    if line.is_none() {
        core.settled();
    }
}

/// Wakes who waits for the outcome, or drops it if nobody will collect it.
#[inline(never)]
pub(crate) fn tell(published: Published, cell: CellRef, kind: Kind, core: &Core) {
    match published {
        Published::ToHandle(waker) => {
            if waker.is_some() {
                core.lot.note_wake(); // before it: whoever is woken may submit
            }
            core.wake(waker);
        }
        Published::Unclaimed => discard_output(cell, kind, core),
    }
}

fn public_kind(kind: Kind) -> OutcomeKind {
    match kind {
        Kind::Completed => OutcomeKind::Completed,
        Kind::Failed => OutcomeKind::Failed,
        Kind::Panicked => OutcomeKind::Panicked,
        Kind::TimedOutInQueue | Kind::TimedOutRunning => OutcomeKind::TimedOut,
        Kind::Cancelled | Kind::CancelledWithError => OutcomeKind::Cancelled,
        Kind::Evicted => OutcomeKind::Evicted,
        Kind::Abandoned => OutcomeKind::Abandoned,
    }
}

fn message(cell: CellRef, kind: Kind) -> Option<String> {
    // SAFETY: the caller owns the settled payload, and `ops` is for its types.
    cell.payload(|words| unsafe { (cell.ops().describe)(words, kind) })
}

/// Drops an outcome that nobody will collect and frees the cell. Errors are told (O6).
///
/// The caller owns the settled cell: the publisher that found no handle, or the handle.
pub(crate) fn discard_output(cell: CellRef, kind: Kind, core: &Core) {
    let told = match kind {
        Kind::Failed => Some(UnobservedKind::Failed),
        Kind::Panicked => Some(UnobservedKind::Panicked),
        Kind::TimedOutInQueue | Kind::TimedOutRunning => Some(UnobservedKind::TimedOut),
        Kind::Abandoned => Some(UnobservedKind::Abandoned),
        _ => None,
    };
    if let Some(told) = told {
        let name = cell.name().unwrap_or("");
        let text = message(cell, kind).unwrap_or_default();
        core.unobserved(told, name, Some(task_id(cell)), text);
    }
    if drop_payload(cell, kind) {
        core.ledger.drop_panics.fetch_add(1, Relaxed);
    }
}

/// Drops a settled payload and frees the cell; true if the drop panicked.
pub(crate) fn drop_payload(cell: CellRef, kind: Kind) -> bool {
    let drop_output = cell.ops().drop_output;
    // SAFETY: the caller owns the settled payload.
    let panicked = quietly(|| cell.payload(|words| unsafe { drop_output(words, kind) }));
    depot::put(cell);
    match panicked {
        Ok(()) => false,
        Err(panic) => {
            panic.discard();
            true
        }
    }
}

/// Settles a task that was claimed in the queue: it will never run.
pub(crate) fn settle_unstarted(cell: CellRef, kind: Kind, cause: Option<Cause>, core: &Arc<Core>) {
    core.drop_unused_work(cell);
    // Before the outcome: see `ledger.rs`.
    core.ledger.unstarted.fetch_add(1, SeqCst);
    finish(cell, kind, cause, None, core, None);
}

/// Settles a task that was claimed to run but whose time in the queue is over.
pub(crate) fn settle_expired(cell: CellRef, env: &RunEnv<'_>) {
    let claimed = cell.claim_running();
    debug_assert!(claimed.is_some(), "a task was given up before it was shown");
    env.core.drop_unused_work(cell);
    let cause = Some(Cause::Timeout);
    finish(cell, Kind::TimedOutInQueue, cause, None, env.core, env.line);
}

/// Settles an item that was taken out of the queue instead of being run.
pub(crate) fn settle_item(item: Item, kind: Kind, cause: Option<Cause>, core: &Arc<Core>) {
    match item {
        Item::Cell(cell) => settle_unstarted(cell, kind, cause, core),
        Item::Inline(job) => {
            if drop_quietly_job(job) {
                core.ledger.drop_panics.fetch_add(1, Relaxed);
            }
            core.ledger.count_unstarted(kind);
            core.settled();
        }
    }
}

fn drop_quietly_job(job: crate::job::InlineJob) -> bool {
    match quietly(|| job.consume(Verb::Drop)) {
        Ok(()) => false,
        Err(panic) => {
            panic.discard();
            true
        }
    }
}

/// Publishes Abandoned for a running cell that the supervisor has claimed.
pub(crate) fn settle_abandoned(cell: CellRef, cause: Cause, core: &Arc<Core>) {
    cell.set_cause(cause);
    let name = cell.name().unwrap_or("");
    finish(cell, Kind::Abandoned, Some(cause), None, core, None);
    trace::abandoned(core, name, task_id(cell), Some(cause));
}

/// Completes a task that is queued and returns nothing, because others have done its work.
pub(crate) fn complete_queued(cell: CellRef, core: &Arc<Core>) {
    if cell.claim_queued(Cause::Group).is_some() {
        core.queue.give_credit();
        core.room_is_free();
        settle_unstarted(cell, Kind::Completed, None, core);
    }
}

/// Cancels a task that is queued: it frees its place now. False if it is not.
pub(crate) fn cancel_queued(cell: CellRef, cause: Cause, who: Who) -> bool {
    // Looked up first: the address alone says nothing about whether the pool is alive.
    let Some(core) = Core::find(cell.cell().core.load(SeqCst)) else { return false };
    if cell.claim_queued(cause).is_none() {
        return false;
    }
    core.queue.give_credit();
    core.room_is_free();
    match who {
        Who::Caller => settle_unstarted(cell, Kind::Cancelled, Some(cause), &core),
        Who::Watcher => core.reap(Chore::Unstarted(Item::Cell(cell), Kind::Cancelled, cause)),
    }
    true
}

/// Cancels a task wherever it is: settles it if it is queued, tells it if it runs.
/// False if it was settled, or told, before.
pub(crate) fn cancel(cell: CellRef, cause: Cause, who: Who) -> bool {
    if cancel_queued(cell, cause, who) {
        return true;
    }
    let Some(core) = Core::find(cell.cell().core.load(SeqCst)) else { return false };
    match core.request_stop(cell, cause, core.clock.now().0) {
        None => false,
        Some(has_token) => {
            if has_token && let Some(token) = own_token(cell) {
                match who {
                    Who::Caller => token.cancel(),
                    Who::Watcher => core.reap(Chore::CancelToken(token)),
                }
            }
            core.wake_supervisor();
            true
        }
    }
}

pub(crate) fn own_token(cell: CellRef) -> Option<Token> {
    let extras = extras::of(cell)?.lock();
    // Settling empties the extras before this life ends: told and here, it is ours.
    if cell.was_told() { extras.own_token.clone() } else { None }
}

impl Core {
    /// Drops the work of a task that this thread has claimed and that never ran.
    fn drop_unused_work(&self, cell: CellRef) {
        let drop_work = cell.ops().drop_work;
        // SAFETY: the claim made the payload ours, and it holds the work.
        if let Err(panic) = quietly(|| cell.payload(|words| unsafe { drop_work(words) })) {
            self.ledger.drop_panics.fetch_add(1, Relaxed);
            self.discard(panic);
        }
    }

    /// Drops a panic that was told; its payload may panic again.
    pub(crate) fn discard(&self, panic: Panic) {
        if panic.discard() {
            self.ledger.drop_panics.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use crate::{Clock, Pool, Shutdown, Stop};

    /// The supervisor may see the limit pass when the worker's clock is a trifle short of it.
    #[test]
    fn o3_who_was_told_that_its_time_is_up_has_timed_out() -> Result<(), Box<dyn std::error::Error>>
    {
        const LIMIT: Duration = Duration::from_secs(3);
        const TRIFLE: Duration = Duration::from_nanos(1);
        let (clock, hand) = Clock::manual();
        let pool = Pool::builder("told").workers(2).clock(clock).build()?;
        let begun = Arc::new(Barrier::new(3));
        let run = |limit| {
            let begun = Arc::clone(&begun);
            pool.task("").timeout(limit).submit_result(move |cx| {
                begun.wait();
                cx.token().wait();
                cx.check()
            })
        };
        let tasks = [run(LIMIT)?, run(LIMIT - TRIFLE)?];
        begun.wait();
        hand.advance(LIMIT - TRIFLE);
        for (n, task) in tasks.into_iter().enumerate() {
            let error: crate::WaitError<(), Stop> = task.wait().unwrap_err();
            assert!(error.is_timed_out(), "task {n}: {error}");
        }
        pool.shutdown(Shutdown::default())?;
        Ok(())
    }
}

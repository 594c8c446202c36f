//! The short way of a task that has no extras, from its offer to its outcome.
//!
//! It has neither callback nor budget, external id, span or total limit, and ends as almost every
//! task does: on its worker, with a value that fits into the cell. It may have a name, a limit and
//! a token that cancels it, but without the first two its cell's second line is never touched.
//! Whatever turns out otherwise goes on by the long way (`admission.rs`, `settle.rs`), which knows
//! everything. Both make the same claims in the same order, and the suite can't tell them apart.

use std::borrow::Borrow;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::admission::Patience;
use crate::cell::{Kind, Label};
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::decide::Returned::{self, Error, Value};
use crate::depot;
use crate::job::{Run, Work, fits, put, take};
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
use crate::job::{Words, pass_on};
use crate::life::{CellRef, Won};
use crate::line::WorkerLine;
use crate::panics::quietly;
use crate::publish::Published;
use crate::queue::{NoRoom, Standing};
use crate::refused::Refused;
use crate::ring::INLINE_WORDS;
use crate::settle::{self, OpsOf, RunEnv};
use crate::task::{Offer, Unwanted};

impl Core {
    /// As `offer` with a handle, of what says only how long it waits for room.
    #[inline(always)]
    pub(crate) fn submit_plain<W: Run + 'static>(
        self: &Arc<Self>,
        work: W,
        patience: Patience,
        unwanted: Option<Unwanted<'_>>,
    ) -> Result<CellRef, Refused<W::Closure>> {
        // The pool's limit is one of the task's, and large work is boxed at the door. Whoever
        // waits for room whatever the policy may have to hear that it would be for ever (W1).
        let by_the_long_way = self.config.task_timeout.is_some()
            || patience == Patience::Room && self.config.worker_state.is_some()
            || !fits::<W>();
        if by_the_long_way {
            return self.offer(work, true, Offer { patience, unwanted, ..Offer::default() });
        }
        let cell = depot::take();
        let label = Label { handle: true, ..Label::default() };
        // SAFETY: a free cell's payload is empty.
        cell.fill(&OpsOf::<W>::OPS, self.address(), label, |words| unsafe { put(words, work) });
        match self.queue.push_cell(cell, Standing::Newcomer) {
            Ok(()) => {
                self.task_added();
                Ok(cell)
            }
            Err(why) => {
                let offer = Offer { patience, unwanted, ..Offer::default() };
                // SAFETY: nobody has seen the cell, which holds this `W`.
                unsafe { self.submit_slowly::<W>(cell, why, &offer) }
            }
        }
    }

    /// # Safety
    /// Nobody else has seen the cell, which holds a `W`.
    #[cold]
    unsafe fn submit_slowly<W: Run>(
        self: &Arc<Self>,
        cell: CellRef,
        why: NoRoom,
        offer: &Offer<'_>,
    ) -> Result<CellRef, Refused<W::Closure>> {
        match self.offer_slowly(cell, why, offer) {
            Ok(()) => Ok(cell),
            Err(reason) => {
                // SAFETY: by contract; it was refused.
                let work = unsafe { self.take_back::<W>(cell) };
                let (uncounted, work) = (offer.uncounted_reason(), work.into_closure());
                Err(self.refuse_counted_unless(uncounted, offer.name, reason, work))
            }
        }
    }
}

/// Whether this type of work can go the short way to its end.
pub(crate) const fn is_for<W: Run>() -> bool {
    fits::<W::Value>() && fits::<W::Error>()
}

/// Runs and settles a task that its worker has claimed; true if it panicked.
///
/// # Safety
/// As for `Ops::run`; the cell has no extras.
#[inline(always)]
pub(crate) unsafe fn run<W: Run>(cell: CellRef, env: &RunEnv<'_>, line: &WorkerLine) -> bool {
    // SAFETY: by contract.
    unsafe {
        if cell.is_timed() {
            run_timed::<W>(cell, env, line)
        } else {
            run_as::<W, _>(cell, env, line, || Cx::untimed(cell, Some(line.id)), None)
        }
    }
}

/// With a name or a limit.
///
/// # Safety
/// As for `run`.
#[inline(never)]
unsafe fn run_timed<W: Run>(cell: CellRef, env: &RunEnv<'_>, line: &WorkerLine) -> bool {
    let mut cx = Cx::untimed(cell, Some(line.id));
    if !cx.begin(env) {
        settle::settle_expired(cell, env);
        return false;
    }
    // SAFETY: by contract.
    unsafe { run_as::<W, _>(cell, env, line, || &cx, Some(&cx)) }
}

/// `cx` gives the task's context, made where it is needed; `timed` is it if the task is timed.
///
/// # Safety
/// As for `run`.
#[inline(always)]
unsafe fn run_as<W: Run, B: Borrow<Cx>>(
    cell: CellRef,
    env: &RunEnv<'_>,
    line: &WorkerLine,
    cx: impl Fn() -> B,
    timed: Option<&Cx>,
) -> bool {
    // SAFETY: the caller has claimed the start, so the payload is ours and holds a `W`.
    let work: W = cell.payload(|words| unsafe { take(words) });
    let lowest = env.show(cell);
    if let Some(cx) = timed {
        env.core.watch_limit(cx.limit());
    }
    let returned = quietly(|| work.run(env.state, cx().borrow()));
    // Strict: what counts is when the closure returned, not when we come to settle it.
    let at = timed.map(|_| env.core.clock.about_now());
    let is_late = timed.is_some_and(|cx| cx.is_late(at));
    let won = cell.claim_running();
    let panicked = returned.is_err();
    match returned {
        Ok(Ok(value)) => match won {
            Some(won) if !is_late && !won.has_extras() => {
                // SAFETY: claimed, and the payload was moved out before the run.
                cell.payload(|words| unsafe { put(words, value) });
                if let Some(cx) = timed {
                    settle::note_run_time(cell, env, cx, at);
                }
                publish_value(cell, env, line, won);
            }
            // SAFETY: a value is what it left.
            won => unsafe {
                settle_otherwise::<W, _>(cell, env, cx().borrow(), at, won, (Value, value))
            },
        },
        // SAFETY: as above, an error.
        Ok(Err(error)) => unsafe {
            settle_otherwise::<W, _>(cell, env, cx().borrow(), at, won, (Error, error));
        },
        // SAFETY: as above, a panic.
        Err(panic) => unsafe {
            settle_otherwise::<W, _>(cell, env, cx().borrow(), at, won, (Returned::Panic, panic));
        },
    }
    env.hide(cell, lowest);
    panicked
}

/// The value of a claimed task is in its cell.
#[inline(always)]
fn publish_value(cell: CellRef, env: &RunEnv<'_>, line: &WorkerLine, won: Won) {
    line.outcomes().count_own(Kind::Completed);
    match cell.publish_after(won, Kind::Completed) {
        Published::ToHandle(None) => {}
        told => settle::tell(told, cell, Kind::Completed, env.core),
    }
}

/// Settles a future that is ready; the long way if there is more to it than its value.
///
/// # Safety
/// `left` holds what `how` says, stored by `put`.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
#[inline(always)]
pub(crate) unsafe fn settle_future<W: Work>(
    cell: CellRef,
    env: &RunEnv<'_>,
    how: Returned,
    left: Words,
    cx: &Cx,
    at: Option<Ticks>,
) {
    let won = cell.claim_running();
    match (won, env.line) {
        (Some(won), Some(line)) if how == Value && !cx.is_late(at) && !won.has_extras() => {
            // SAFETY: claimed, and the payload was moved out before the first poll.
            cell.payload(|words| unsafe { pass_on::<W::Value>(&left, words) });
            settle::note_run_time(cell, env, cx, at);
            publish_value(cell, env, line, won);
        }
        // SAFETY: by contract.
        _ => unsafe { settle::settle_claimed::<W>(cell, env, won, how, left, cx, at) },
    }
}

/// Goes on by the long way; `won` as `claim_running` said.
///
/// # Safety
/// What is left is what it is said to be: the work's value, its error, or a panic.
#[cold]
#[inline(never)]
unsafe fn settle_otherwise<W: Work, V>(
    cell: CellRef,
    env: &RunEnv<'_>,
    cx: &Cx,
    at: Option<Ticks>,
    won: Option<Won>,
    (how, value): (Returned, V),
) {
    let mut left = [MaybeUninit::uninit(); INLINE_WORDS];
    // SAFETY: fresh words; then by contract.
    unsafe {
        put(&mut left, value);
        settle::settle_claimed::<W>(cell, env, won, how, left, cx, at);
    }
}

//! How a thread waits for a task: awake for a while, asleep, or by running it.

use std::sync::Arc;
use std::task::Waker;

use crate::clock::{Clock, Ticks};
use crate::core::Core;
use crate::frames::{self, MAX_DEPTH};
use crate::life::{CellRef, Look};
use crate::line::WorkerLine;
use crate::parker::with_parker;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::{snooze, steps};
use crate::wait_error::WaitReason;

/// Steps awake before a waiter sleeps.
const AWAKE_STEPS: u32 = steps(60);
/// About a microsecond, in which it does not give its core away.
const FEW_AWAKE_STEPS: u32 = steps(5);

/// How many tasks may lie on top of each other; none where the worker's state is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// At most 64 (R9).
    Limited,
    /// For what forks and joins: it nests as deep as the stack allows, as recursion does.
    Any,
}

/// R9 for a future that waits: a target that is still queued begins on top of the task that is
/// polled here, if that is one of the same pool; if not now, `waker` is woken when it may.
#[inline]
pub(crate) fn begin_queued(cell: CellRef, waker: &Waker) {
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    crate::on_tokio::begin_queued(cell, waker);
    let _ = (cell, waker);
}

/// False if a future of the pool is polled here that may not begin another on top of itself;
/// `waker` is woken when it may, the last one of this `who`.
pub(crate) fn may_begin_here(core: &Core, who: usize, waker: &Waker) -> bool {
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    let may = frames::with_poll(core.address(), |poll| {
        poll.is_none_or(|poll| poll.may_begin_or_wish(who, waker))
    });
    #[cfg(not(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle)))))]
    let may = true;
    let _ = (core, who, waker);
    may
}

/// As `may_begin_here`, and nobody is woken.
pub(crate) fn may_begin_now(core: &Core) -> bool {
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    let may =
        frames::with_poll(core.address(), |poll| poll.is_none_or(|poll| poll.may_begin.get()));
    #[cfg(not(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle)))))]
    let may = true;
    let _ = core;
    may
}

/// Until there is an outcome, or the reason why there can't be one.
pub(crate) fn wait(cell: CellRef, may_help: bool, depth: Depth) -> Result<(), WaitReason> {
    if frames::polls() {
        return Err(WaitReason::InPoll);
    }
    let pool = cell.cell().core.load(SeqCst);
    if frames::depth(pool) > 0 {
        return wait_inside(cell, pool, depth);
    }
    if may_help && help(cell, pool) {
        return Ok(());
    }
    // Still queued: others are before it, so let the workers get on in peace.
    let mut step = if cell.is_queued() { 2 } else { 0 };
    // A runtime's threads do not step aside for one that waits awake.
    let steps = if cell.ops().is_future { FEW_AWAKE_STEPS } else { AWAKE_STEPS };
    while step < steps {
        snooze(step);
        if matches!(cell.look(), Look::Settled(..)) {
            return Ok(());
        }
        step += 1;
    }
    wait_asleep(cell, &Clock::system(), Ticks::NEVER);
    Ok(())
}

/// Sleeps until settled, or until the deadline.
pub(crate) fn wait_asleep(cell: CellRef, clock: &Clock, deadline: Ticks) {
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
fn wait_inside(cell: CellRef, pool: *mut (), depth: Depth) -> Result<(), WaitReason> {
    // The pool is alive: we run inside it.
    let Some(core) = Core::find(pool) else {
        wait_asleep(cell, &Clock::system(), Ticks::NEVER);
        return Ok(());
    };
    if cell.is_queued() && run_queued(cell, &core, depth)? {
        return Ok(());
    }
    // A worker may be no thread of its own.
    let me = frames::with_line(pool, |line| line.map_or_else(frames::runner, WorkerLine::runner));
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
pub(crate) fn run_queued(
    cell: CellRef,
    core: &Arc<Core>,
    depth: Depth,
) -> Result<bool, WaitReason> {
    let too_deep = depth == Depth::Limited && frames::depth(core.address()) >= MAX_DEPTH;
    if too_deep || core.config.worker_state.is_some() {
        return Err(WaitReason::WouldDeadlock);
    }
    let claimed = cell.claim_start();
    if claimed {
        core.queue.give_credit();
        core.room_is_free();
        core.run_here(cell);
    }
    Ok(claimed)
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
    let claimed = core.queue.take_first(cell, CellRef::claim_start);
    if claimed {
        core.room_is_free();
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

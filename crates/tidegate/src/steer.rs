//! Steering one worker: stop it, or follow it with a fresh one.

use std::fmt;
use std::sync::Arc;

use crate::config::Workers;
use crate::core::Core;
use crate::ids::WorkerId;
use crate::line::{RETIRE, STOP_AFTER_TASK, STOP_HARD};
use crate::outcome::Cause;
use crate::pool::Pool;
use crate::roster::{Entry, Phase, Roster};
use crate::sync::atomic::Ordering::SeqCst;

/// When a worker that is told to stop does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWorker {
    /// After the task that it runs.
    AfterTask,
    /// Its task is told to stop, and abandoned after the grace.
    Hard,
}

/// Why a worker could not be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerError {
    /// There is no live worker with this id.
    Unknown(WorkerId),
    /// It is the last one: a pool without workers would strand its queue.
    LastWorker(WorkerId),
    /// A pool with a range of workers has no more than its minimum.
    AtMinimum(WorkerId),
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerError::Unknown(id) => {
                write!(f, "no live worker has id {id}; ask `pool.roster()` for the present ones")
            }
            WorkerError::LastWorker(id) => write!(
                f,
                "worker {id} is the last one and its queue would be stranded; \
                 recycle it, or shut the pool down"
            ),
            WorkerError::AtMinimum(id) => write!(
                f,
                "without worker {id} the pool would have fewer than its minimum; \
                 recycle it, or resize the pool"
            ),
        }
    }
}

impl std::error::Error for WorkerError {}

impl<S> Pool<S> {
    /// Ends one worker for good: the pool has one less. Does not wait for that.
    ///
    /// A pool with a range of workers may grow again when its load asks for it; below its
    /// minimum it does not go.
    pub fn stop_worker(&self, id: WorkerId, how: StopWorker) -> Result<(), WorkerError> {
        self.order_stop(id, how, false)
    }

    /// Ends one worker and starts a fresh one in its place, with a fresh state. Does not wait
    /// for that.
    pub fn recycle_worker(&self, id: WorkerId, how: StopWorker) -> Result<(), WorkerError> {
        self.order_stop(id, how, true)
    }

    fn order_stop(&self, id: WorkerId, how: StopWorker, replace: bool) -> Result<(), WorkerError> {
        let core = self.core();
        let line = {
            let mut roster = core.roster.lock();
            let live = |entry: &&mut Entry| {
                let going = entry.line.ordered(STOP_AFTER_TASK | RETIRE);
                matches!(entry.phase, Phase::Live | Phase::Starting)
                    && (how == StopWorker::Hard || !going)
            };
            let Some(entry) = roster.find(id).filter(live) else {
                return Err(WorkerError::Unknown(id));
            };
            // A stop that turns Hard has been counted before.
            let first = !entry.line.ordered(STOP_AFTER_TASK | RETIRE);
            if !replace && first {
                one_less(core, &mut roster, id)?;
            }
            let entry = roster.find(id).expect("found under this lock");
            if first {
                entry.replace = replace;
            }
            let hard = if how == StopWorker::Hard { STOP_HARD } else { 0 };
            if hard != 0 {
                entry.line.hard_at.fetch_min(core.clock.now().0, SeqCst);
            }
            entry.line.orders.fetch_or(STOP_AFTER_TASK | hard, SeqCst);
            Arc::clone(&entry.line)
        };
        if how == StopWorker::Hard {
            for cell in line.running_cells() {
                core.tell(cell, Cause::WorkerStopped);
            }
            core.wake_supervisor();
        }
        core.lot.kick_all();
        Ok(())
    }
}

/// The pool will do with one worker less, `id`.
fn one_less(core: &Core, roster: &mut Roster, id: WorkerId) -> Result<(), WorkerError> {
    let (target, Workers { min, max }) = (core.target(), roster.limits);
    if roster.limits.is_range() {
        if target <= min {
            return Err(WorkerError::AtMinimum(id));
        }
    } else {
        if roster.positions() <= 1 || target <= 1 {
            return Err(WorkerError::LastWorker(id));
        }
        roster.limits = Workers::from(max - 1);
    }
    core.set_target(roster, target - 1);
    Ok(())
}

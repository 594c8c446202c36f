//! What a worker shows to others: what it runs, what it has counted, what it is ordered.
//!
//! ```text
//!  run word: number of the task << 2 | IDLE | INLINE | ABANDONED | CELL
//! ```
//! A worker stores INLINE before an inline task and settles it by CAS to IDLE; the
//! supervisor abandons it by CAS to ABANDONED. Cell tasks are decided by their cell; the
//! word only says that one runs. The number is the count of tasks started here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Ticks;
use crate::histogram::{Histogram, Recorder};
use crate::ids::{TaskId, WorkerId};
use crate::ledger::{Outcomes, bump, bump_by};
use crate::life::CellRef;
use crate::sync::Lock;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

pub(crate) const IDLE: u64 = 0;
pub(crate) const INLINE: u64 = 1;
pub(crate) const ABANDONED: u64 = 2;
pub(crate) const CELL: u64 = 3;
const RUN_STATE: u64 = 3;

/// Orders to one worker.
pub(crate) const STOP_AFTER_TASK: u32 = 1;
/// Whatever it runs is told to stop.
pub(crate) const STOP_HARD: u32 = 4;
/// Its task was abandoned; the roster has the last word.
pub(crate) const STUCK: u32 = 2;
/// There are more workers than needed (W4): it goes after its task unless it is called back.
pub(crate) const RETIRE: u32 = 8;

/// How long a busy runtime may take to poll a worker.
const TURN: Duration = Duration::from_secs(1);

/// What one incarnation of a worker writes and others read.
#[derive(Debug)]
pub(crate) struct WorkerLine {
    pub(crate) id: WorkerId,
    /// The number of the last task of its former incarnations.
    first: u64,
    hot: Hot,
    /// Read after each task; seldom written.
    pub(crate) orders: AtomicU32,
    /// Which inline task was told to stop (its run word), and when.
    told: Lock<(u64, Ticks)>,
    /// When the time of the inline task is up, in a pool with `task_timeout`.
    pub(crate) limit_at: AtomicU64,
    /// When STOP_HARD was ordered: from then on whatever runs here has been told.
    pub(crate) hard_at: AtomicU64,
    /// Cell tasks above the lowest one, innermost last.
    on_top: Lock<Vec<CellRef>>,
    /// When it began to work; 0: not yet.
    born: AtomicU64,
    /// Since when it is in one poll of a future, in real time; 0: it is not.
    in_poll_since: AtomicU64,
    /// The task of that poll, or of the last one: address and generation.
    polled: (AtomicPtr<()>, AtomicU64),
    /// When a future here was first seen to have been told to stop, in real time.
    told_since: AtomicU64,
    /// Of a worker that is a future.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) waker: OnceLock<std::task::Waker>,
    times: Recorders,
}

/// How long tasks waited and ran: of one worker, or of all that share it.
#[derive(Debug, Default)]
pub(crate) struct OwnTimes {
    queue_wait: Recorder,
    run_time: Recorder,
}

impl OwnTimes {
    pub(crate) fn add_to(&self, queue_wait: &mut Histogram, run_time: &mut Histogram) {
        self.queue_wait.add_to(queue_wait);
        self.run_time.add_to(run_time);
    }
}

/// They are two kilobytes.
#[derive(Debug)]
enum Recorders {
    /// Made with the first task, and written without read-modify-writes.
    Own(OnceLock<Box<OwnTimes>>),
    Shared(Arc<OwnTimes>),
}

/// What the worker itself writes, task by task: two cache lines, which no other worker shares.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Hot {
    run: AtomicU64,
    /// The lowest cell task on the stack; those that wait-inside runs on top of it are in
    /// `WorkerLine::on_top`.
    base: AtomicPtr<()>,
    base_generation: AtomicU64,
    outcomes: Outcomes,
    /// Started by a waiting task on this stack.
    nested: AtomicU64,
    since: AtomicU64,
    runner: AtomicU64,
    /// Nanoseconds in tasks, up to `since`.
    busy: AtomicU64,
    /// Tasks since the last `ran` that were timed one by one, and their nanoseconds.
    timed: (AtomicU64, AtomicU64),
}

impl WorkerLine {
    /// `times`: if they are shared.
    pub(crate) fn new(id: WorkerId, times: Option<Arc<OwnTimes>>) -> Arc<Self> {
        WorkerLine::counting_from(id, 0, times)
    }

    /// The next incarnation of a worker: it goes on counting, so that no two of its tasks
    /// have the same id.
    pub(crate) fn after(gone: &WorkerLine, times: Option<Arc<OwnTimes>>) -> Arc<Self> {
        WorkerLine::counting_from(gone.id, gone.run_word() >> 2, times)
    }

    fn counting_from(id: WorkerId, first: u64, times: Option<Arc<OwnTimes>>) -> Arc<Self> {
        let hot = Hot { run: AtomicU64::new(first << 2), ..Hot::default() };
        Arc::new(WorkerLine {
            id,
            first,
            hot,
            orders: AtomicU32::new(0),
            told: Lock::new((0, Ticks(0))),
            limit_at: AtomicU64::new(u64::MAX),
            hard_at: AtomicU64::new(u64::MAX),
            on_top: Lock::default(),
            born: AtomicU64::new(0),
            in_poll_since: AtomicU64::new(0),
            polled: Default::default(),
            told_since: AtomicU64::new(0),
            #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
            waker: OnceLock::new(),
            times: times.map_or(Recorders::Own(OnceLock::new()), Recorders::Shared),
        })
    }

    /// False: it is in one already. That began earlier, and keeps the thread.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn poll_begins(&self, cell: CellRef, real_now: impl FnOnce() -> Ticks) -> bool {
        if self.in_poll_since.load(Relaxed) != 0 {
            return false;
        }
        // Release: who sees this task sees that the poll before it has ended.
        self.polled.0.store(cell.address(), Release);
        self.polled.1.store(cell.generation(), Release);
        self.in_poll_since.store(real_now().0, SeqCst);
        true
    }

    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn poll_ends(&self) {
        self.in_poll_since.store(0, SeqCst);
    }

    /// How long it has been in one poll, if it is in one.
    pub(crate) fn in_poll_for(&self, real_now: Ticks) -> Option<Duration> {
        match self.in_poll_since.load(SeqCst) {
            0 => None,
            since => Some(real_now.since(Ticks(since))),
        }
    }

    /// The task that it polls, and for how long, if that is `at_least`.
    pub(crate) fn long_poll(
        &self,
        at_least: Duration,
        real_now: Ticks,
    ) -> Option<(CellRef, Duration)> {
        let since = self.in_poll_since.load(SeqCst);
        let lasts = real_now.since(Ticks(since));
        if since == 0 || lasts < at_least {
            return None;
        }
        let cell = CellRef::from_parts(self.polled.0.load(Acquire), self.polled.1.load(Acquire));
        // Still the same poll: so this is its task.
        (self.in_poll_since.load(SeqCst) == since).then_some((cell, lasts))
    }

    /// Nothing here was told to stop.
    pub(crate) fn patience_begins(&self) {
        if self.told_since.load(SeqCst) != 0 {
            self.told_since.store(0, SeqCst);
        }
    }

    /// When a future here that was told to stop is given up, in real time: from when it was
    /// first seen so. One that is not in a poll only waits for its turn.
    pub(crate) fn patience_ends(&self, grace: Duration, real_now: Ticks) -> Ticks {
        let _ = self.told_since.compare_exchange(0, real_now.0, SeqCst, SeqCst);
        let grace = match self.in_poll_for(real_now) {
            Some(_) => grace,
            None => grace.max(TURN),
        };
        Ticks(self.told_since.load(SeqCst)).after(grace)
    }

    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.hot.outcomes
    }

    pub(crate) fn started(&self) -> u64 {
        self.hot.nested.load(Acquire) + (self.hot.run.load(Acquire) >> 2) - self.first
    }

    pub(crate) fn set_runner(&self, runner: u64) {
        self.hot.runner.store(runner, Release);
    }

    /// Counts a task that a waiting task of this worker runs on top of itself.
    pub(crate) fn count_nested(&self) {
        bump(&self.hot.nested);
    }

    /// The thread's number (`frames.rs`).
    pub(crate) fn runner(&self) -> u64 {
        self.hot.runner.load(Acquire)
    }

    pub(crate) fn run_word(&self) -> u64 {
        self.hot.run.load(SeqCst)
    }

    pub(crate) fn begins(&self, at: Ticks) {
        self.born.store(at.0, Relaxed);
    }

    /// `tasks` have taken so long together; by the worker itself.
    pub(crate) fn ran(&self, tasks: u32, took: Duration) {
        let (timed, nanos) = &self.hot.timed;
        let tasks = u64::from(tasks).saturating_sub(timed.load(Relaxed));
        let left = (took.as_nanos() as u64).saturating_sub(nanos.load(Relaxed));
        timed.store(0, Relaxed);
        nanos.store(0, Relaxed);
        bump_by(&self.hot.busy, left);
        if let Some(each) = left.checked_div(tasks) {
            self.record(|times| &times.run_time, Duration::from_nanos(each), tasks);
        }
    }

    /// The lowest task on the stack was timed by itself, and ends now.
    pub(crate) fn ran_alone(&self, cell: CellRef, took: Duration, now: Ticks) {
        if self.hot.base.load(Relaxed) != cell.address() {
            return; // part of the time of another one
        }
        let nanos = took.as_nanos() as u64;
        bump(&self.hot.timed.0);
        bump_by(&self.hot.timed.1, nanos);
        bump_by(&self.hot.busy, nanos);
        self.running_since(now);
        self.record(|times| &times.run_time, took, 1);
    }

    /// A task that it took has waited so long, and stands for `weight`.
    pub(crate) fn waited(&self, waited: Duration, weight: u64) {
        self.record(|times| &times.queue_wait, waited, weight);
    }

    fn record(&self, which: impl Fn(&OwnTimes) -> &Recorder, took: Duration, weight: u64) {
        match &self.times {
            Recorders::Own(own) => which(own.get_or_init(Box::default)).record_own(took, weight),
            Recorders::Shared(shared) => which(shared).record(took, weight),
        }
    }

    /// Those of a worker that has had a task, unless it shares them.
    pub(crate) fn own_times(&self) -> Option<&OwnTimes> {
        match &self.times {
            Recorders::Own(own) => own.get().map(|times| &**times),
            Recorders::Shared(_) => None,
        }
    }

    /// How long it was in tasks, and how long it has been there.
    pub(crate) fn busy_of(&self, now: Ticks) -> (Duration, Duration) {
        let born = self.born.load(Relaxed);
        if born == 0 {
            return (Duration::ZERO, Duration::ZERO);
        }
        let lived = now.since(Ticks(born));
        let before = Duration::from_nanos(self.hot.busy.load(Acquire));
        let running = self.run_word() & RUN_STATE != IDLE;
        let now_in = if running { now.since(Ticks(self.since())) } else { Duration::ZERO };
        ((before + now_in).min(lived), lived)
    }

    /// A task with a name begins.
    pub(crate) fn running_since(&self, at: Ticks) {
        self.hot.since.store(at.0, Relaxed);
    }

    pub(crate) fn since(&self) -> u64 {
        self.hot.since.load(Relaxed)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.run_word() & RUN_STATE == IDLE
    }

    /// It is in no task, and nobody has told it to leave one.
    pub(crate) fn has_nothing_to_give_up(&self) -> bool {
        self.is_idle() && self.hard_at.load(SeqCst) == u64::MAX && !self.ordered(STUCK)
    }

    /// Any of these.
    pub(crate) fn ordered(&self, order: u32) -> bool {
        self.orders.load(SeqCst) & order != 0
    }

    /// The id of an inline task: odd, so it is never an address.
    pub(crate) fn inline_id(&self, run: u64) -> TaskId {
        TaskId { hi: u64::from(self.id.0) << 1 | 1, lo: run >> 2 }
    }

    /// The run word of the inline task that runs now.
    pub(crate) fn inline_running(&self) -> Option<u64> {
        Some(self.run_word()).filter(|run| run & RUN_STATE == INLINE)
    }

    /// The inline task that runs now, and when its time is up.
    pub(crate) fn inline_limit(&self) -> Option<(u64, Ticks)> {
        let run = self.inline_running()?;
        let at = Ticks(self.limit_at.load(SeqCst));
        (self.run_word() == run).then_some((run, at))
    }

    /// Tells the inline task `run`, if it is the one that runs; the first time counts.
    pub(crate) fn tell_inline(&self, run: u64, now: Ticks) {
        let mut told = self.told.lock();
        if self.inline_running() == Some(run) && told.0 != run {
            *told = (run, now);
        }
    }

    /// When the inline task `run` was told.
    pub(crate) fn told_inline(&self, run: u64) -> Option<Ticks> {
        let told = self.told.lock();
        (told.0 == run).then_some(told.1)
    }

    /// Gives an inline task up; true if it had not ended.
    pub(crate) fn abandon_inline(&self, run: u64) -> bool {
        let next = run & !RUN_STATE | ABANDONED;
        self.hot.run.compare_exchange(run, next, SeqCst, Relaxed).is_ok()
    }

    /// The cell tasks on this worker's stack that still run, innermost first.
    ///
    /// The stack may change under the look: whoever acts on one does so by a claim, which
    /// its generation guards.
    pub(crate) fn running_cells(&self) -> Vec<CellRef> {
        let mut found: Vec<_> = self.on_top.lock().iter().rev().copied().collect();
        let (base, generation) =
            (self.hot.base.load(SeqCst), self.hot.base_generation.load(SeqCst));
        if !base.is_null() {
            found.push(CellRef::from_parts(base, generation));
        }
        // Not those that were given up: their code runs on, but they are settled.
        found.retain(|cell| cell.is_running());
        found
    }

    /// Puts a cell task on the stack; true if it is the lowest.
    #[inline(always)]
    pub(crate) fn push(&self, cell: CellRef) -> bool {
        let lowest = self.hot.base.load(Relaxed).is_null();
        if lowest {
            // A reader that pairs this with an older address finds no such life.
            self.hot.base_generation.store(cell.generation(), Release);
            self.hot.base.store(cell.address(), Release);
        } else {
            self.on_top.lock().push(cell);
        }
        lowest
    }

    #[inline(always)]
    pub(crate) fn pop(&self, cell: CellRef, lowest: bool) {
        if lowest {
            self.hot.base.store(std::ptr::null_mut(), Release);
        } else {
            // Closures end in the order of the stack, futures in any.
            let mut on_top = self.on_top.lock();
            let at = on_top.iter().rposition(|other| *other == cell);
            at.map(|at| on_top.remove(at));
        }
    }

    /// Exactly one of this and `abandon_inline` succeeds.
    #[inline(always)]
    pub(crate) fn end_inline(&self, run: u64) -> bool {
        let next = run & !RUN_STATE | IDLE;
        self.hot.run.compare_exchange(run, next, SeqCst, Relaxed).is_ok()
    }

    pub(crate) fn begin(&self, state: u64) -> u64 {
        let run = ((self.hot.run.load(Relaxed) & !RUN_STATE) + 4) | state;
        self.hot.run.store(run, Release);
        run
    }

    pub(crate) fn end(&self) {
        let run = self.hot.run.load(Relaxed);
        self.hot.run.store(run & !RUN_STATE, Release);
    }
}

#[cfg(all(test, feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A cell that nobody looks into.
    fn cell(number: usize) -> CellRef {
        CellRef::from_parts(std::ptr::without_provenance_mut(64 * number), 7)
    }

    #[test]
    fn v3_a_poll_inside_a_poll_does_not_hide_it() {
        let line = WorkerLine::new(WorkerId(0), None);
        let (start, later) = (Ticks(1), Ticks(1).after(SECOND));
        let seen = || line.long_poll(SECOND, later);
        assert_eq!(seen(), None);
        assert!(line.poll_begins(cell(1), || start));
        assert_eq!(seen(), Some((cell(1), SECOND)));
        assert_eq!(line.long_poll(SECOND, Ticks(later.0 - 1)), None, "not yet");
        assert!(!line.poll_begins(cell(2), || later), "who did not begin does not end");
        assert_eq!(seen(), Some((cell(1), SECOND)));
        line.poll_ends();
        assert_eq!(seen(), None);
        assert!(line.poll_begins(cell(2), || later));
        assert_eq!(seen(), None, "each poll begins anew");
        assert_eq!(line.long_poll(SECOND, later.after(SECOND)), Some((cell(2), SECOND)));
    }
}

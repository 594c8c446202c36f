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
use crate::life::{CellRef, Won};
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
    /// Cell tasks above the lowest one, innermost last. Locked also by whoever gives one up.
    on_top: Lock<Vec<CellRef>>,
    /// When it began to work; 0: not yet.
    born: AtomicU64,
    /// The number of its last poll of a future << 2 | DATED | IN_POLL.
    polls: AtomicU64,
    /// When that poll began, in real time, if it is dated.
    in_poll_since: AtomicU64,
    /// Its task: address and generation.
    polled: (AtomicPtr<()>, AtomicU64),
    /// Of a worker that is a future.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) waker: OnceLock<std::task::Waker>,
    /// It lets others on its thread go on (`away_watch.rs`).
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) away: crate::sync::atomic::AtomicBool,
    times: Recorders,
}

/// Which poll a worker is in, or was in last.
///
/// A clock costs as much as a short poll. So while somebody looks at this word now and then
/// (`Core::watch_polls`) polls are not dated: one that is seen twice has lasted for as long as there
/// is between the two looks, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollWord(u64);

const IN_POLL: u64 = 1;
const DATED: u64 = 2;
#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
const NEXT_POLL: u64 = 4;

impl PollWord {
    /// Without a date.
    #[cfg(test)]
    #[allow(dead_code, reason = "for tests of those who look at it")]
    pub(crate) fn new(number: u64, is_in_poll: bool) -> PollWord {
        PollWord((number * NEXT_POLL) | u64::from(is_in_poll))
    }

    pub(crate) fn is_in_poll(self) -> bool {
        self.0 & IN_POLL != 0
    }

    pub(crate) fn is_dated(self) -> bool {
        self.0 & DATED != 0
    }
}

/// What an observer remembers of a worker's polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeenPoll {
    word: PollWord,
    /// When it was first seen so, in real time: later than it began.
    since: Ticks,
}

impl SeenPoll {
    /// True if it is another one than at the last look.
    pub(crate) fn look(&mut self, word: PollWord, real_now: Ticks) -> bool {
        let is_new = word != self.word;
        if is_new {
            *self = SeenPoll { word, since: real_now };
        }
        is_new
    }
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
            polls: AtomicU64::new(0),
            in_poll_since: AtomicU64::new(0),
            polled: Default::default(),
            #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
            waker: OnceLock::new(),
            #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
            away: crate::sync::atomic::AtomicBool::new(false),
            times: times.map_or(Recorders::Own(OnceLock::new()), Recorders::Shared),
        })
    }

    /// A poll begins; `date` says when, in real time, unless somebody watches (`PollWord`). Gives
    /// its number, or None if it is in one already: that began earlier, and keeps the thread.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    #[inline(always)]
    pub(crate) fn poll_begins(
        &self,
        cell: CellRef,
        date: impl FnOnce() -> Option<Ticks>,
    ) -> Option<u64> {
        let last = self.polls.load(Relaxed);
        if last & IN_POLL != 0 {
            return None;
        }
        // Release: who sees this task sees that the poll before it has ended.
        self.polled.0.store(cell.address(), Release);
        self.polled.1.store(cell.generation(), Release);
        let mut word = ((last & !(DATED | IN_POLL)) + NEXT_POLL) | IN_POLL;
        if let Some(since) = date() {
            self.in_poll_since.store(since.0, Release);
            word |= DATED;
        }
        self.polls.store(word, Release);
        Some(word / NEXT_POLL)
    }

    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    #[inline(always)]
    pub(crate) fn poll_ends(&self) {
        self.polls.store(self.polls.load(Relaxed) & !(DATED | IN_POLL), Release);
    }

    pub(crate) fn poll_word(&self) -> PollWord {
        PollWord(self.polls.load(Acquire))
    }

    /// The task that it polls, and for how long, if that is `at_least`. `seen`: which poll was seen
    /// last, and when first; brought up to date.
    pub(crate) fn long_poll(
        &self,
        at_least: Duration,
        real_now: Ticks,
        seen: &mut SeenPoll,
    ) -> Option<(CellRef, Duration)> {
        let word = self.poll_word();
        seen.look(word, real_now);
        if !word.is_in_poll() {
            return None;
        }
        let since =
            if word.is_dated() { Ticks(self.in_poll_since.load(Acquire)) } else { seen.since };
        let lasts = real_now.since(since);
        if lasts < at_least {
            return None;
        }
        let cell = CellRef::from_parts(self.polled.0.load(Acquire), self.polled.1.load(Acquire));
        // Still the same poll: so this is its task, and that its date.
        (self.poll_word() == word).then_some((cell, lasts))
    }

    /// When a future here is given up that was told to stop, in real time. One that is not in a
    /// poll only waits for its turn.
    pub(crate) fn patience_ends(&self, grace: Duration, told_since: Ticks) -> Ticks {
        let is_in_poll = self.poll_word().is_in_poll();
        told_since.after(if is_in_poll { grace } else { grace.max(TURN) })
    }

    /// This worker polls the task, and is woken when that is told to stop. False: it was told
    /// before, or given up.
    ///
    /// A task may have been given up in its first poll, and its cell live again: what is written
    /// there then would be another one's. So nobody gives up what this worker runs meanwhile.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn will_poll(&self, cell: CellRef) -> bool {
        let _nothing_is_given_up = self.on_top.lock();
        if !cell.is_running() {
            return false;
        }
        cell.set_runner(self.id);
        !cell.was_told()
    }

    /// Claims a task that this worker runs and that was told to stop.
    pub(crate) fn give_up(&self, cell: CellRef) -> Option<Won> {
        let _its_worker_writes_nothing = self.on_top.lock(); // see `will_poll`
        cell.claim_stopped()
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
        let seen = |now| line.long_poll(SECOND, now, &mut SeenPoll::default());
        assert_eq!(seen(later), None);
        assert!(line.poll_begins(cell(1), || Some(start)).is_some());
        assert_eq!(seen(later), Some((cell(1), SECOND)));
        assert_eq!(seen(Ticks(later.0 - 1)), None, "not yet");
        let inside = line.poll_begins(cell(2), || Some(later));
        assert_eq!(inside, None, "who did not begin does not end");
        assert_eq!(seen(later), Some((cell(1), SECOND)));
        line.poll_ends();
        assert_eq!(seen(later), None);
        assert!(line.poll_begins(cell(2), || Some(later)).is_some());
        assert_eq!(seen(later), None, "each poll begins anew");
        assert_eq!(seen(later.after(SECOND)), Some((cell(2), SECOND)));
    }

    #[test]
    fn v3_a_poll_without_a_date_lasts_since_it_was_first_seen() {
        let line = WorkerLine::new(WorkerId(0), None);
        let (mut seen, mut now) = (SeenPoll::default(), Ticks(1));
        let mut look = |after: Duration| {
            now = now.after(after);
            line.long_poll(SECOND, now, &mut seen)
        };
        assert_eq!(look(SECOND), None);
        for number in 1..=3 {
            assert_eq!(line.poll_begins(cell(number), || None), Some(number as u64));
            assert_eq!(look(10 * SECOND), None, "it may have begun just now");
            assert_eq!(look(SECOND / 2), None);
            assert_eq!(look(SECOND / 2), Some((cell(number), SECOND)));
            assert_eq!(look(SECOND), Some((cell(number), 2 * SECOND)));
            line.poll_ends();
        }
        assert_eq!(look(SECOND), None);
    }
}

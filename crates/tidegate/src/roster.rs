//! Who works here: one entry per worker, in every state it can be in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Ticks;
use crate::config::Workers;
use crate::histogram::Histogram;
use crate::ids::{TaskId, TaskInfo, WorkerId};
use crate::ledger::Totals;
use crate::line::{OwnTimes, RETIRE, STOP_AFTER_TASK, STUCK, SeenPoll, WorkerLine};
use crate::snapshot::{LONG_POLL, LongPoll, WorkerInfo, WorkerState};
use crate::spawn::Joiner;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::worker::End;

/// Ended workers that the roster still shows.
const REMEMBERED: usize = 16;

#[derive(Debug)]
pub(crate) enum Phase {
    Starting,
    Live,
    /// These tasks of its were abandoned; it does not count as a worker any more.
    Stuck(Vec<TaskInfo>),
    /// Waits for its next start.
    Restarting {
        at: Ticks,
        cause: String,
    },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) line: Arc<WorkerLine>,
    pub(crate) phase: Phase,
    pub(crate) thread: Option<Joiner>,
    /// Failed starts in a row.
    pub(crate) failures: u32,
    pub(crate) restarts: u32,
    /// It will be followed by a new one (recycle), or not (stop).
    pub(crate) replace: bool,
    /// It is that new one: nobody was lost.
    pub(crate) recycled: bool,
    pub(crate) seen_poll: SeenPoll,
}

#[derive(Debug)]
pub(crate) struct Roster {
    /// How many there may be.
    pub(crate) limits: Workers,
    /// Places that the pool has grown by and that nobody has taken yet.
    pub(crate) new_places: usize,
    /// Whether the last change by the load was to more; None before the first.
    pub(crate) grew: Option<bool>,
    /// In boxes: the nodes of a map that grows at its end stay half empty.
    pub(crate) entries: BTreeMap<WorkerId, Box<Entry>>,
    /// Futures that were told to stop, and when that was first seen, in real time. Each has a time of
    /// its own: what is left of another's grace is none of its. Not in the entries, of which there
    /// may be very many.
    pub(crate) told: BTreeMap<TaskId, Ticks>,
    pub(crate) ended: VecDeque<WorkerInfo>,
    next_id: u32,
    /// Counts of incarnations that are over.
    pub(crate) folded: Totals,
    pub(crate) folded_started: u64,
    pub(crate) folded_times: [Histogram; 2],
    /// Of all workers together, if they are too many to have their own.
    shared_times: Option<Arc<OwnTimes>>,
    /// In tasks, and in all.
    pub(crate) folded_busy: (Duration, Duration),
    /// The most that a snapshot has shown of the former.
    pub(crate) busy_shown: Duration,
    /// Threads that have left their worker loop and wait to be joined.
    pub(crate) leaving: Vec<Joiner>,
    pub(crate) joined: usize,
    /// Failed starts in a row, of whichever worker.
    pub(crate) failures: u32,
    /// Workers that take tasks, for those who do not hold the lock.
    pub(crate) live_count: Arc<AtomicUsize>,
}

/// All workers together at one moment.
#[derive(Debug)]
pub(crate) struct StaffReading {
    pub(crate) live: u64,
    pub(crate) stuck: u64,
    pub(crate) coming: u64,
    /// In one poll for too long, and the longest of these.
    pub(crate) blocked: u64,
    pub(crate) longest_poll: Option<LongPoll>,
    pub(crate) workers: Vec<WorkerInfo>,
    /// How long they were in tasks, and there.
    pub(crate) busy: Duration,
    pub(crate) lived: Duration,
    pub(crate) queue_wait: Histogram,
    pub(crate) run_time: Histogram,
}

impl Entry {
    /// These tasks of its are given up.
    pub(crate) fn is_stuck_in(&mut self, mut tasks: Vec<TaskInfo>) {
        match &mut self.phase {
            Phase::Stuck(before) => before.append(&mut tasks),
            phase => *phase = Phase::Stuck(tasks),
        }
    }

    /// It works here, or is about to, and will not go.
    fn stays(&self) -> bool {
        let stopped = self.line.ordered(STOP_AFTER_TASK) && !self.replace;
        !matches!(self.phase, Phase::Stuck(_)) && !stopped && !self.line.ordered(RETIRE)
    }

    /// How little it would be missed.
    fn dispensable(&self) -> u8 {
        match self.phase {
            Phase::Restarting { .. } => 4,
            _ if self.line.ordered(STOP_AFTER_TASK) => 3, // it goes anyway, to be replaced
            Phase::Live if self.line.is_idle() => 2,
            Phase::Starting => 1,
            _ => 0,
        }
    }
}

impl Roster {
    /// `share_times`: there may be very many.
    pub(crate) fn new(limits: Workers, share_times: bool) -> Roster {
        Roster {
            limits,
            new_places: 0,
            grew: None,
            entries: BTreeMap::new(),
            told: BTreeMap::new(),
            ended: VecDeque::new(),
            next_id: 0,
            folded: Totals::default(),
            folded_started: 0,
            folded_times: Default::default(),
            shared_times: share_times.then(Arc::default),
            folded_busy: Default::default(),
            busy_shown: Duration::ZERO,
            leaving: Vec::new(),
            joined: 0,
            failures: 0,
            live_count: Arc::default(),
        }
    }

    /// A new worker, about to start.
    pub(crate) fn add(&mut self) -> Arc<WorkerLine> {
        let line = WorkerLine::new(WorkerId(self.next_id), self.shared_times.clone());
        self.next_id += 1;
        self.insert(Entry {
            line: Arc::clone(&line),
            phase: Phase::Starting,
            thread: None,
            failures: 0,
            restarts: 0,
            replace: false,
            recycled: false,
            seen_poll: SeenPoll::default(),
        });
        line
    }

    /// The next incarnation of a worker that has gone, to be started at `at`.
    pub(crate) fn add_again(&mut self, gone: &Entry, at: Ticks, cause: String, failures: u32) {
        let recycled = gone.replace && failures == 0;
        self.insert(Entry {
            line: WorkerLine::after(&gone.line, self.shared_times.clone()),
            phase: Phase::Restarting { at, cause },
            thread: None,
            failures,
            restarts: gone.restarts + 1,
            replace: false,
            recycled,
            seen_poll: SeenPoll::default(),
        });
    }

    pub(crate) fn find(&mut self, id: WorkerId) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(|entry| &mut **entry)
    }

    fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.line.id, Box::new(entry));
    }

    /// Workers that count towards the bound: starting, live, or about to come back. Not those
    /// who were told to go: they take no further task.
    pub(crate) fn positions(&self) -> usize {
        self.count(Entry::stays)
    }

    /// W4: sends so many home, each after its task, the most dispensable first.
    pub(crate) fn retire(&mut self, surplus: usize) {
        // The newest first, and only then by use: the sort is stable.
        let mut staying: Vec<_> =
            self.entries.values_mut().rev().filter(|entry| entry.stays()).collect();
        // Each is asked once: what they do changes while we look, and a sort must not see that.
        staying.sort_by_cached_key(|entry| std::cmp::Reverse(entry.dispensable()));
        let mut not_yet_back = Vec::new();
        for entry in staying.into_iter().take(surplus) {
            entry.replace = false;
            match entry.phase {
                Phase::Restarting { .. } => not_yet_back.push(entry.line.id),
                _ => drop(entry.line.orders.fetch_or(RETIRE, SeqCst)),
            }
        }
        for id in not_yet_back {
            self.entries.remove(&id);
        }
    }

    /// Keeps up to so many who were about to retire; how many.
    pub(crate) fn call_back(&mut self, missing: usize) -> usize {
        let retiring = |entry: &&mut Box<Entry>| {
            entry.line.ordered(RETIRE)
                && !entry.line.ordered(STOP_AFTER_TASK)
                && !matches!(entry.phase, Phase::Stuck(_))
        };
        let retiring = self.entries.values_mut().filter(retiring).take(missing);
        let mut kept = 0;
        for entry in retiring {
            entry.line.orders.fetch_and(!RETIRE, SeqCst);
            kept += 1;
        }
        kept
    }

    /// A worker is about to retire; false if it was called back. From now on it can't be.
    pub(crate) fn let_go(&mut self, id: WorkerId) -> bool {
        let Some(entry) = self.find(id) else { return true };
        let goes = entry.line.ordered(RETIRE);
        if goes {
            entry.line.orders.fetch_or(STOP_AFTER_TASK, SeqCst);
        }
        goes
    }

    fn count(&self, of: impl Fn(&Entry) -> bool) -> usize {
        self.entries.values().filter(|entry| of(entry)).count()
    }

    pub(crate) fn live(&self) -> usize {
        self.count(|entry| matches!(entry.phase, Phase::Live))
    }

    /// On their way, those included that only have their place yet.
    pub(crate) fn coming(&self) -> usize {
        let coming =
            |entry: &Entry| matches!(entry.phase, Phase::Starting | Phase::Restarting { .. });
        self.count(coming) + self.new_places
    }

    /// Live workers that have not run anything yet.
    pub(crate) fn untried(&self) -> usize {
        self.count(|entry| matches!(entry.phase, Phase::Live) && entry.line.started() == 0)
    }

    pub(crate) fn stuck(&self) -> usize {
        self.count(|entry| matches!(entry.phase, Phase::Stuck(_)))
    }

    /// Threads that have not left their loop.
    pub(crate) fn threads(&self) -> usize {
        self.count(|entry| !matches!(entry.phase, Phase::Restarting { .. }))
    }

    /// A worker has begun, or begun again. Not by counting all: there may be very many.
    pub(crate) fn begins(&mut self, id: WorkerId) {
        self.failures = 0;
        if let Some(entry) = self.entries.get_mut(&id) {
            let was_live = matches!(std::mem::replace(&mut entry.phase, Phase::Live), Phase::Live);
            entry.failures = 0;
            self.live_count.fetch_add(usize::from(!was_live), SeqCst);
        }
    }

    /// After whatever changed who is live.
    pub(crate) fn recount(&self) {
        self.live_count.store(self.live(), SeqCst);
    }

    /// A stuck worker whose task returned after all: true if a place is missing and it
    /// may go on.
    pub(crate) fn rejoin(&mut self, id: WorkerId, target: usize) -> bool {
        let room = self.positions() < target;
        let Some(entry) = self.find(id) else { return false };
        if !matches!(entry.phase, Phase::Stuck(_)) {
            // The supervisor tried to abandon and came too late.
            return true;
        }
        if room {
            entry.phase = Phase::Live;
            entry.line.orders.fetch_and(!STUCK, SeqCst);
        }
        self.recount();
        room
    }

    /// Takes a worker whose thread has left its loop off the list; the entry says how.
    pub(crate) fn remove(&mut self, id: WorkerId, end: &End, now: Ticks) -> Option<Box<Entry>> {
        let mut entry = self.entries.remove(&id)?;
        if matches!(entry.phase, Phase::Live) {
            self.live_count.fetch_sub(1, SeqCst);
        }
        self.folded.add(entry.line.outcomes());
        self.folded_started += entry.line.started();
        let (busy, lived) = entry.line.busy_of(now);
        self.folded_busy = (self.folded_busy.0 + busy, self.folded_busy.1 + lived);
        if let Some(times) = entry.line.own_times() {
            let [queue_wait, run_time] = &mut self.folded_times;
            times.add_to(queue_wait, run_time);
        }
        self.leaving.extend(entry.thread.take());
        let cause = match end {
            End::Ordered(why) => (*why).to_owned(),
            End::Returned => "its abandoned task returned".to_owned(),
            End::Failed(cause) => cause.clone(),
        };
        let mut info = self.info(&entry, Ticks(0));
        info.state = WorkerState::Ended { cause };
        self.ended.push_back(info);
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
        Some(entry)
    }

    fn info(&self, entry: &Entry, now: Ticks) -> WorkerInfo {
        WorkerInfo {
            id: entry.line.id,
            state: state_of(entry, now),
            started: entry.line.started(),
            panicked: entry.line.outcomes().panicked.load(Relaxed),
            restarts: entry.restarts,
        }
    }

    /// What a snapshot says of all of them. Polls go by real time.
    pub(crate) fn reading(&mut self, now: Ticks, real_now: Ticks) -> StaffReading {
        let [mut queue_wait, mut run_time] = self.folded_times.clone();
        if let Some(times) = &self.shared_times {
            times.add_to(&mut queue_wait, &mut run_time);
        }
        let (mut busy, mut lived) = self.folded_busy;
        let (mut blocked, mut longest_poll) = (0, None::<LongPoll>);
        for entry in self.entries.values_mut() {
            let poll = long_poll(entry, real_now);
            let line = &entry.line;
            if let Some(poll) = poll {
                blocked += 1;
                longest_poll = longest_poll.into_iter().chain([poll]).max_by_key(|p| p.lasts);
            }
            if let Some(times) = line.own_times() {
                times.add_to(&mut queue_wait, &mut run_time);
            }
            let own = line.busy_of(now);
            (busy, lived) = (busy + own.0, lived + own.1);
        }
        // Between two tasks the last one is not counted yet.
        self.busy_shown = self.busy_shown.max(busy);
        StaffReading {
            live: self.live() as u64,
            stuck: self.stuck() as u64,
            coming: self.coming() as u64,
            blocked,
            longest_poll,
            workers: self.list(now),
            busy: self.busy_shown,
            lived,
            queue_wait,
            run_time,
        }
    }

    pub(crate) fn list(&self, now: Ticks) -> Vec<WorkerInfo> {
        let present = self.entries.values().map(|entry| self.info(entry, now));
        self.ended.iter().cloned().chain(present).collect()
    }
}

fn state_of(entry: &Entry, now: Ticks) -> WorkerState {
    match &entry.phase {
        Phase::Starting => WorkerState::Starting,
        Phase::Stuck(_) => WorkerState::Stuck,
        Phase::Restarting { at, cause } => {
            WorkerState::Restarting { after: at.since(now), cause: cause.clone() }
        }
        Phase::Live => {
            if entry.line.ordered(STOP_AFTER_TASK | RETIRE) {
                return WorkerState::Stopping;
            }
            running_state(&entry.line, now).unwrap_or(WorkerState::Idle)
        }
    }
}

/// What a live worker runs: the innermost task, which is what keeps it busy.
fn running_state(line: &WorkerLine, now: Ticks) -> Option<WorkerState> {
    let since = now.since(Ticks(line.since()));
    if let Some(cell) = line.running_cells().first()
        && let Some(name) = cell.name()
    {
        return Some(WorkerState::Running { name, id: crate::settle::task_id(*cell), since });
    }
    let run = line.inline_running()?;
    Some(WorkerState::Running { name: "", id: line.inline_id(run), since })
}

/// What keeps its worker in one poll; also of one that was given up, whose poll goes on.
fn long_poll(entry: &mut Entry, real_now: Ticks) -> Option<LongPoll> {
    let (cell, lasts) = entry.line.long_poll(LONG_POLL, real_now, &mut entry.seen_poll)?;
    let id = crate::settle::task_id(cell);
    let given_up = || match &entry.phase {
        Phase::Stuck(tasks) => tasks.iter().find(|task| task.id == id).map(|task| task.name),
        _ => None,
    };
    let name = cell.name().or_else(given_up).unwrap_or("");
    Some(LongPoll { name, id, worker: entry.line.id, lasts })
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;
    use crate::line::INLINE;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether a worker is idle changes while those to be sent home are chosen.
    #[test]
    fn w4_who_is_sent_home_is_chosen_while_they_come_and_go() {
        const WORKERS: usize = 200;
        let mut roster = Roster::new(Workers { min: 1, max: WORKERS }, false);
        let lines: Vec<_> = (0..WORKERS).map(|_| roster.add()).collect();
        for entry in roster.entries.values_mut() {
            entry.phase = Phase::Live;
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for half in lines.chunks(WORKERS / 2) {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        for line in half {
                            line.begin(INLINE);
                        }
                        for line in half {
                            line.end();
                        }
                    }
                });
            }
            // Also when it panics: the scope waits for them.
            let _stops = Stop(&stop);
            for _ in 0..2_000 {
                roster.retire(WORKERS / 2);
                assert_eq!(roster.positions(), WORKERS / 2);
                assert_eq!(roster.call_back(WORKERS), WORKERS / 2);
            }
        });
    }

    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

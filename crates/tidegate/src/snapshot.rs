//! What a pool looks like at one moment: counters, states, workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::ids::{TaskId, WorkerId};
use crate::report::{Mode, NonZero};
use crate::times::TaskTimes;

/// A poll that takes longer keeps others from their turn: what waits on the same thread of the
/// runtime, its timers too, comes that much later.
pub(crate) const LONG_POLL: Duration = Duration::from_millis(100);

/// What was offered to a pool, what became of it, who works.
///
/// Meant to be polled, also ten times a second and on a busy pool. What counts events only
/// grows. In *every* snapshot, also of a pool at full speed:
///
/// ```text
/// offered  = accepted + refused
/// accepted = queued + running + completed + failed + panicked
///            + timed_out + cancelled + evicted + abandoned
/// queued  <= queue_capacity
/// ```
///
/// Counters are exact. Nothing stops for a snapshot, so on a busy pool what passes while it is
/// taken, and what is just being settled, shows as running.
///
/// Printed as a few aligned lines for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// Whether it runs, and if not, how far it has stopped.
    pub state: PoolState,
    /// How long there has been a pool, by its clock.
    pub uptime: Duration,
    /// Work taken so far; each has, or will have, exactly one outcome.
    pub accepted: u64,
    /// Work handed back so far, by reason.
    pub refused: Refusals,
    /// Accepted and not started: waits in the queue.
    pub queued: u64,
    /// Started and not settled.
    pub running: u64,
    /// Returned a value.
    pub completed: u64,
    /// Returned an error.
    pub failed: u64,
    /// Panicked.
    pub panicked: u64,
    /// Ran or waited past a time limit.
    pub timed_out: u64,
    /// Told to stop, and did.
    pub cancelled: u64,
    /// Pushed out by a full queue.
    pub evicted: u64,
    /// Told to stop, and did not return within the grace.
    pub abandoned: u64,
    /// Started on the thread of a caller: CallerRuns, or a caller that helped.
    pub on_caller: u64,
    /// Started on the thread of a running task: it waits for them, or there was no room.
    pub nested: u64,
    /// Abandoned tasks whose code still runs now.
    pub stuck: u64,
    /// Workers of a pool of futures that have been in one poll for 100 ms or more: each keeps a
    /// thread of the runtime. Stuck ones too. In real time, whatever the pool's clock says.
    pub blocked_workers: u64,
    /// The longest of these polls.
    pub longest_poll: Option<LongPoll>,
    /// Abandoned tasks whose code has returned since.
    pub late_returns: u64,
    /// Items that `map_slice` has run, inside its tasks.
    pub items: u64,
    /// Panics in `on_outcome` callbacks, and in the wakers of those who wait for the pool.
    pub callback_panics: u64,
    /// Panics in the `Drop` of captures, results and payloads.
    pub drop_panics: u64,
    /// Panics in hooks of the pool.
    pub hook_panics: u64,
    /// Workers started again after one was lost. (A recycled one was not.)
    pub worker_restarts: u64,
    /// How often the pool grew by itself after it had shrunk, or shrank after it had grown.
    pub size_turns: u64,
    /// How many workers there should be.
    pub workers: u64,
    /// Workers that are alive and not stuck.
    pub live_workers: u64,
    /// Workers that are about to start, or to start again.
    pub starting_workers: u64,
    /// Workers that wait for something to do.
    pub idle_workers: u64,
    /// The most tasks that may wait in the queue.
    pub queue_capacity: u64,
    /// Threads and futures that wait in a submit, for room or for a budget.
    pub waiting_submitters: u64,
    /// Those of them that wait for a budget: no worker could help them.
    pub waiting_for_budget: u64,
    /// From the offer to the acceptance; most take no time.
    pub submit_wait: Histogram,
    /// How much of that was for budgets, all together.
    pub budget_wait: Duration,
    /// From the acceptance to the start. Exact while tasks take more than 20 µs, else of one in
    /// 64.
    pub queue_wait: Histogram,
    /// From the start to the return, of what workers took from the queue and callers ran. One
    /// by one with a name or a limit, and while tasks take more than a microsecond; else the
    /// mean of up to 32, which come together.
    pub run_time: Histogram,
    /// The same by the names of the tasks; at most 64 names, and `other`.
    pub tasks: Vec<TaskTimes>,
    /// How long workers were in tasks, all together.
    pub busy: Duration,
    /// How long workers were there, all together.
    pub worker_time: Duration,
    /// The workers, and the last that have ended.
    pub roster: Vec<WorkerInfo>,
}

impl Snapshot {
    /// Tasks that ended badly: failed, panicked, timed out or abandoned.
    pub(crate) fn failures(&self) -> u64 {
        let each = [self.failed, self.panicked, self.timed_out, self.abandoned];
        each.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// Submitters for whom a worker would make room.
    pub(crate) fn waiting_for_room(&self) -> u64 {
        self.waiting_submitters.saturating_sub(self.waiting_for_budget)
    }

    /// All work that anybody tried to submit.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.accepted + self.refused.total()
    }

    /// Accepted work that has its outcome.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.outcomes().iter().map(|(_, count)| count).sum()
    }

    /// Which share of their time the workers were in tasks, since the start: 0 to 1. For a
    /// shorter time, see [`utilisation_since`](Snapshot::utilisation_since).
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        share(self.busy, self.worker_time)
    }

    /// As [`utilisation`](Snapshot::utilisation), since an earlier snapshot.
    #[must_use]
    pub fn utilisation_since(&self, earlier: &Snapshot) -> f64 {
        share(
            self.busy.saturating_sub(earlier.busy),
            self.worker_time.saturating_sub(earlier.worker_time),
        )
    }

    /// That nothing was lost or counted twice (`accepted = queued + running +
    /// outcomes`): meant for tests. The error says which way the sum is wrong.
    pub fn check(&self) -> Result<(), String> {
        // Wide, so that a gauge that wrapped below zero is reported, not added up.
        let sum = self.outcomes().iter().map(|(_, count)| u128::from(*count)).sum::<u128>()
            + u128::from(self.queued)
            + u128::from(self.running);
        let accepted = u128::from(self.accepted);
        if sum == accepted {
            return Ok(());
        }
        let verb = if sum < accepted { "lost" } else { "counted twice" };
        let off = sum.abs_diff(accepted);
        Err(format!(
            "{off} of {accepted} accepted tasks {verb}: queued {} + running {} + outcomes ({}) = {sum}",
            self.queued,
            self.running,
            NonZero(&self.outcomes()),
        ))
    }

    pub(crate) fn outcomes(&self) -> [(&'static str, u64); 7] {
        [
            ("completed", self.completed),
            ("failed", self.failed),
            ("panicked", self.panicked),
            ("timed out", self.timed_out),
            ("cancelled", self.cancelled),
            ("evicted", self.evicted),
            ("abandoned", self.abandoned),
        ]
    }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool {:?} {}", self.pool, self.state)?;
        let (live, all, idle) = (self.live_workers, self.workers, self.idle_workers);
        let busy = self.utilisation() * 100.0;
        write!(f, "  workers   {live} of {all} live, {idle} idle, {} stuck, ", self.stuck)?;
        writeln!(f, "{busy:.0} % busy since the start")?;
        if let Some(longest) = &self.longest_poll {
            writeln!(f, "  blocked   {} in one poll, the longest {longest}", self.blocked_workers)?;
        }
        let (queued, room, waiting) = (self.queued, self.queue_capacity, self.waiting_for_room());
        write!(f, "  queue     {queued} of {room}, {waiting} submitters wait for room")?;
        match self.waiting_for_budget {
            0 => writeln!(f)?,
            others => writeln!(f, ", {others} for a budget")?,
        }
        writeln!(f, "  running   {}", self.running)?;
        writeln!(f, "  accepted  {}, settled {}", self.accepted, self.settled())?;
        writeln!(f, "  outcomes  {}", NonZero(&self.outcomes()))?;
        writeln!(f, "  submits   {}", self.submit_wait)?;
        writeln!(f, "  waits     {}", self.queue_wait)?;
        writeln!(f, "  runs      {}", self.run_time)?;
        for times in &self.tasks {
            writeln!(f, "  {:?} runs {}", times.name, times.run_time)?;
        }
        write!(f, "  refused   {}", self.refused)?;
        let asides = [
            ("on caller", self.on_caller),
            ("nested", self.nested),
            ("worker restarts", self.worker_restarts),
            ("turns in size", self.size_turns),
            ("late returns", self.late_returns),
            ("items", self.items),
            ("callback panics", self.callback_panics),
            ("drop panics", self.drop_panics),
            ("hook panics", self.hook_panics),
        ];
        if asides.iter().any(|(_, count)| *count > 0) {
            write!(f, "\n  also      {}", NonZero(&asides))?;
        }
        Ok(())
    }
}

/// How often a pool refused work, by [`Reason`](crate::refused::Reason).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Refusals {
    /// No room, and no waiting.
    pub full: u64,
    /// No room in time.
    pub timed_out: u64,
    /// The token was cancelled.
    pub cancelled: u64,
    /// The pool was closed.
    pub closed: u64,
    /// A task would have waited for its own pool.
    pub would_deadlock: u64,
    /// No room in the budget.
    pub over_budget: u64,
    /// Heavier than the whole budget.
    pub too_heavy: u64,
    /// No thread could be started.
    pub spawn_failed: u64,
}

impl Refusals {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reasons().iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn reasons(&self) -> [(&'static str, u64); 8] {
        [
            ("full", self.full),
            ("timed out", self.timed_out),
            ("cancelled", self.cancelled),
            ("closed", self.closed),
            ("would deadlock", self.would_deadlock),
            ("over budget", self.over_budget),
            ("too heavy", self.too_heavy),
            ("spawn failed", self.spawn_failed),
        ]
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NonZero(&self.reasons()).fmt(f)
    }
}

/// Where a pool is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolState {
    /// It accepts work and runs it.
    #[default]
    Running,
    /// It accepts work and starts none until `resume`.
    Paused,
    /// `close` was called: it accepts nothing and runs what it has.
    Closed,
    /// It shuts down, in this mode.
    Closing(Mode),
    /// It is over.
    Stopped {
        /// Nothing of it runs any more; if false, the report names what does.
        complete: bool,
    },
}

impl fmt::Display for PoolState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolState::Running => f.write_str("running"),
            PoolState::Paused => f.write_str("PAUSED"),
            PoolState::Closed => f.write_str("closed"),
            PoolState::Closing(mode) => write!(f, "closing ({mode})"),
            PoolState::Stopped { complete: true } => f.write_str("stopped"),
            PoolState::Stopped { complete: false } => f.write_str("stopped, INCOMPLETE"),
        }
    }
}

/// A poll that does not return: see [`Snapshot::blocked_workers`].
///
/// Printed as in "fetch t3a-12 for 2.0s".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongPoll {
    /// The task's name; may be empty.
    pub name: &'static str,
    /// The task's id. It can be cancelled, which is heard when the poll returns.
    pub id: TaskId,
    /// Whose poll it is.
    pub worker: WorkerId,
    /// How long it has taken so far, in real time.
    pub lasts: Duration,
}

impl fmt::Display for LongPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LongPoll { name, id, lasts, .. } = self;
        let space = if name.is_empty() { "" } else { " " };
        write!(f, "{name}{space}{id} for {lasts:.1?}")
    }
}

/// One line of the roster: a worker, what it does, and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its id, for `stop_worker` and `recycle_worker`.
    pub id: WorkerId,
    /// What it does now.
    pub state: WorkerState,
    /// Tasks it has started.
    pub started: u64,
    /// Tasks that panicked on it.
    pub panicked: u64,
    /// How often it was started again.
    pub restarts: u32,
}

impl fmt::Display for WorkerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkerInfo { id, state, started, panicked, restarts } = self;
        write!(f, "worker {id:>3}  {started:>9} started, {panicked} panicked, ")?;
        write!(f, "{restarts} restarts  {state}")
    }
}

/// What a worker does now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// Its thread is up; its hook or state is being made.
    Starting,
    /// It waits for a task.
    Idle,
    /// It runs a task.
    Running {
        /// The task's name; may be empty.
        name: &'static str,
        /// The task's id, for `cancel_task`.
        id: TaskId,
        /// How long it has run so far. Exact if the task has a name, or if the last one took
        /// more than a microsecond; otherwise it may include up to 31 short ones before it.
        since: Duration,
    },
    /// It was told to stop and ends after its task.
    Stopping,
    /// Its task was abandoned and has not returned; somebody else has its place.
    Stuck,
    /// It was lost and will be started again.
    Restarting {
        /// How long until then.
        after: Duration,
        /// What it was lost to.
        cause: String,
    },
    /// It is gone for good.
    Ended {
        /// Why.
        cause: String,
    },
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerState::Starting => f.write_str("starting"),
            WorkerState::Idle => f.write_str("idle"),
            WorkerState::Running { name: "", id, since } => write!(f, "runs {id} for {since:.1?}"),
            WorkerState::Running { name, id, since } => {
                write!(f, "runs {name} {id} for {since:.1?}")
            }
            WorkerState::Stopping => f.write_str("stopping"),
            WorkerState::Stuck => f.write_str("STUCK"),
            WorkerState::Restarting { after, cause } => {
                write!(f, "restarts in {after:.1?}: {cause}")
            }
            WorkerState::Ended { cause } => write!(f, "ended: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Snapshot {
        Snapshot {
            pool: "images".into(),
            accepted: 1_024,
            refused: Refusals { full: 5, closed: 2, ..Refusals::default() },
            queued: 12,
            running: 2,
            completed: 1_000,
            failed: 5,
            panicked: 3,
            cancelled: 1,
            abandoned: 1,
            stuck: 1,
            worker_restarts: 1,
            workers: 4,
            live_workers: 3,
            idle_workers: 1,
            queue_capacity: 1_000,
            waiting_submitters: 2,
            busy: Duration::from_secs(1),
            worker_time: Duration::from_secs(4),
            ..Snapshot::default()
        }
    }

    #[test]
    fn offered_is_accepted_plus_refused() {
        assert_eq!(busy().refused.total(), 7);
        assert_eq!(busy().offered(), 1_031);
        assert_eq!(busy().settled(), 1_010);
    }

    #[test]
    fn check_finds_a_task_lost_or_counted_twice() {
        assert_eq!(busy().check(), Ok(()));
        assert_eq!(Snapshot::default().check(), Ok(()));
        let lost = Snapshot { accepted: 1_025, ..busy() }.check().unwrap_err();
        assert_eq!(
            lost,
            "1 of 1025 accepted tasks lost: queued 12 + running 2 + outcomes \
             (completed 1000, failed 5, panicked 3, cancelled 1, abandoned 1) = 1024"
        );
        let twice = Snapshot { running: 3, ..busy() }.check().unwrap_err();
        assert!(twice.starts_with("1 of 1024 accepted tasks counted twice"));
    }

    #[test]
    fn check_survives_a_gauge_that_wrapped() {
        let wrapped = Snapshot { queued: u64::MAX, running: u64::MAX, ..busy() };
        assert!(wrapped.check().is_err());
    }

    #[test]
    fn each_outcome_counts_in_the_identity() {
        let base = Snapshot { accepted: 1, ..Snapshot::default() };
        let each = [
            Snapshot { queued: 1, ..base.clone() },
            Snapshot { running: 1, ..base.clone() },
            Snapshot { completed: 1, ..base.clone() },
            Snapshot { failed: 1, ..base.clone() },
            Snapshot { panicked: 1, ..base.clone() },
            Snapshot { timed_out: 1, ..base.clone() },
            Snapshot { cancelled: 1, ..base.clone() },
            Snapshot { evicted: 1, ..base.clone() },
            Snapshot { abandoned: 1, ..base.clone() },
        ];
        for snapshot in each {
            assert_eq!(snapshot.check(), Ok(()));
        }
        assert!(base.check().is_err());
    }

    #[test]
    fn a_snapshot_reads_at_three_in_the_morning() {
        assert_eq!(
            busy().to_string(),
            "pool \"images\" running\n\
             \x20 workers   3 of 4 live, 1 idle, 1 stuck, 25 % busy since the start\n\
             \x20 queue     12 of 1000, 2 submitters wait for room\n\
             \x20 running   2\n\
             \x20 accepted  1024, settled 1010\n\
             \x20 outcomes  completed 1000, failed 5, panicked 3, cancelled 1, abandoned 1\n\
             \x20 submits   none\n\
             \x20 waits     none\n\
             \x20 runs      none\n\
             \x20 refused   full 5, closed 2\n\
             \x20 also      worker restarts 1"
        );
        let text = Snapshot { waiting_for_budget: 2, ..busy() }.to_string();
        assert!(
            text.contains("12 of 1000, 0 submitters wait for room, 2 for a budget\n"),
            "{text}"
        );
    }

    #[test]
    fn a_snapshot_names_the_poll_that_blocks() {
        let (id, worker) = (TaskId { hi: 1, lo: 2 }, WorkerId(3));
        let poll = LongPoll { name: "hash", id, worker, lasts: Duration::from_millis(1_500) };
        let text = Snapshot { blocked_workers: 2, longest_poll: Some(poll), ..busy() }.to_string();
        let line = "\n  blocked   2 in one poll, the longest hash t1-2 for 1.5s\n";
        assert!(text.contains(line), "{text}");
        assert_eq!(LongPoll { name: "", ..poll }.to_string(), "t1-2 for 1.5s");
    }

    #[test]
    fn a_roster_line_says_what_the_worker_does() {
        let id = TaskId { hi: 1, lo: 2 };
        let since = Duration::from_millis(1_500);
        let state = WorkerState::Running { name: "resize", id, since };
        let info = WorkerInfo { id: WorkerId(3), state, started: 17, panicked: 1, restarts: 0 };
        assert_eq!(
            info.to_string(),
            "worker   3         17 started, 1 panicked, 0 restarts  runs resize t1-2 for 1.5s"
        );
    }

    #[test]
    fn states_that_need_a_person_stand_out() {
        assert_eq!(PoolState::Closing(Mode::Soft).to_string(), "closing (soft)");
        assert_eq!(PoolState::Stopped { complete: false }.to_string(), "stopped, INCOMPLETE");
        let after = Duration::from_millis(20);
        let state = WorkerState::Restarting { after, cause: "EAGAIN".into() };
        assert_eq!(state.to_string(), "restarts in 20.0ms: EAGAIN");
    }
}

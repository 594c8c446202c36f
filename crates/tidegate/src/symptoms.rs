//! The decision behind a diagnosis: a pure function of two snapshots (V3).
//!
//! [`Verdict`] defines each word; here is one function for each. What is about nothing
//! happening (stalled, starved, overprovisioned) needs time to be seen, so it looks at how much
//! has passed; what happened is counted.

use std::sync::Arc;
use std::time::Duration;

use crate::diagnosis::{Diagnosis, Evidence, Measure, Verdict};
use crate::histogram::Histogram;
use crate::snapshot::{LongPoll, PoolState, Snapshot, WorkerState};

/// So long nothing must have happened.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);
/// So long no task may end while nobody knows how long they take.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// A worker that starts takes no longer: hooks and state included.
const LONG_START: Duration = Duration::from_secs(10);
const FEW_FAILURES: u64 = 3;
const FEW_CHANGES: u64 = 3;
const SELDOM: Duration = Duration::from_secs(10);
const MANY_TASKS: u64 = 100;
const NO_TIME: Duration = Duration::from_micros(1);
/// Below this utilisation workers have nothing to do.
const NEXT_TO_NOTHING: f64 = 0.05;
/// Who waits no longer in the queue was only waiting for a thread to wake up.
const NO_WAIT: Duration = Duration::from_millis(10);

pub(crate) fn diagnose(before: &Snapshot, now: &Snapshot) -> Diagnosis {
    let seen = Seen::between(before, now);
    let mut holds = Verdict::ILLS.into_iter().filter(|ill| seen.looks_for(*ill) && seen.is(*ill));
    let verdict = holds.next().unwrap_or(Verdict::Healthy);
    Diagnosis {
        pool: Arc::clone(&now.pool),
        state: now.state,
        verdict,
        also: holds.collect(),
        limited_by_budget: seen.limited_by_budget(),
        window: seen.elapsed,
        evidence: seen.evidence(verdict),
    }
}

/// What changed between two snapshots.
struct Seen<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    elapsed: Duration,
    offered: u64,
    settled: u64,
    completed: u64,
    failures: u64,
    /// Over the life of the pool; None if nothing has ended.
    failing_before: Option<f64>,
    restarts: u64,
    size_turns: u64,
    /// Refused or pushed out for want of room.
    turned_away: u64,
    on_caller: u64,
    /// How long submitters waited for room, all together.
    waited: Duration,
    /// The same for budgets.
    budget_wait: Duration,
    over_budget: u64,
    too_heavy: u64,
    runs: Histogram,
    utilisation: f64,
}

impl<'a> Seen<'a> {
    fn between(before: &'a Snapshot, now: &'a Snapshot) -> Seen<'a> {
        let since = |count: fn(&Snapshot) -> u64| count(now).saturating_sub(count(before));
        let sum = |counts: &[u64]| counts.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        let (failures, completed) = (since(Snapshot::failures), since(|s| s.completed));
        let (full, late) = (since(|s| s.refused.full), since(|s| s.refused.timed_out));
        let evicted = since(|s| s.evicted);
        let refused = |of: &Snapshot| sum(&of.refused.reasons().map(|(_, count)| count));
        let refused = refused(now).saturating_sub(refused(before));
        let submit_wait = now.submit_wait.sum().saturating_sub(before.submit_wait.sum());
        let budget_wait = now.budget_wait.saturating_sub(before.budget_wait);
        Seen {
            before,
            now,
            elapsed: now.uptime.saturating_sub(before.uptime),
            offered: since(|s| s.accepted).saturating_add(refused),
            settled: sum(&[completed, failures, since(|s| s.cancelled), evicted]),
            completed,
            failures,
            failing_before: (before.failures().saturating_add(before.completed) > 0)
                .then(|| share(before.failures(), before.completed)),
            // A stuck worker is replaced by a start that is counted as well.
            restarts: since(|s| s.worker_restarts).saturating_sub(since(|s| s.abandoned)),
            size_turns: since(|s| s.size_turns),
            turned_away: sum(&[full, late, evicted]),
            on_caller: since(|s| s.on_caller),
            waited: submit_wait.saturating_sub(budget_wait),
            budget_wait,
            over_budget: since(|s| s.refused.over_budget),
            too_heavy: since(|s| s.refused.too_heavy),
            runs: now.run_time.since(&before.run_time),
            utilisation: now.utilisation_since(before),
        }
    }

    /// Whether this can be said of a pool in its state.
    fn looks_for(&self, ill: Verdict) -> bool {
        use Verdict::{BlockedReactor, Failing, Flapping, ShortHanded, Stalled, Stuck};
        match self.now.state {
            PoolState::Running => true,
            PoolState::Paused => {
                matches!(ill, BlockedReactor | ShortHanded | Stuck | Failing | Flapping)
            }
            // Workers leave when nothing is left for them: nobody is missing.
            PoolState::Closed | PoolState::Closing(_) => {
                matches!(ill, BlockedReactor | Stuck | Stalled | Failing | Flapping)
            }
            PoolState::Stopped { .. } => matches!(ill, BlockedReactor | Stuck),
        }
    }

    fn is(&self, ill: Verdict) -> bool {
        match ill {
            Verdict::BlockedReactor => self.now.blocked_workers > 0,
            Verdict::ShortHanded => self.is_short_handed(),
            Verdict::Stuck => self.now.stuck > 0,
            Verdict::Stalled => self.is_stalled(),
            Verdict::Failing => self.is_failing(),
            Verdict::Flapping => self.is_flapping(),
            Verdict::Saturated => self.is_saturated(),
            Verdict::SuspiciouslyFast => self.is_suspiciously_fast(),
            Verdict::Starved => self.is_starved(),
            Verdict::Overprovisioned => self.is_overprovisioned(),
            Verdict::Healthy => true,
        }
    }

    // ------------------------------------------------------------ one for each word

    fn is_short_handed(&self) -> bool {
        let missing = self.now.workers.saturating_sub(self.now.live_workers);
        let was_short = self.before.live_workers < self.before.workers;
        let nobody_came = self.now.live_workers <= self.before.live_workers;
        let stays_so =
            was_short && (self.comes_back_later() || nobody_came && self.elapsed >= LONG_START);
        missing > 0 && (stays_so || self.now.starting_workers < missing)
    }

    fn is_stalled(&self) -> bool {
        let patience = self.patience();
        let in_tasks = self.all_in_tasks_for().is_some_and(|time| time >= patience);
        let nothing_moved = self.elapsed >= patience
            && backlog(self.before) > 0
            && self.settled == 0
            // Nothing ended, so what has begun would show.
            && self.now.running <= self.before.running;
        backlog(self.now) > 0 && (in_tasks || nothing_moved)
    }

    fn is_failing(&self) -> bool {
        let share = self.failing();
        let jumped = share >= 0.1 && self.failing_before.is_some_and(|was| share >= 2.0 * was);
        self.failures >= FEW_FAILURES && (share >= 0.5 || jumped)
    }

    fn is_flapping(&self) -> bool {
        let often = |count: u64| {
            let seldom = SELDOM.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            count >= FEW_CHANGES && self.elapsed <= seldom
        };
        often(self.restarts) || often(self.size_turns)
    }

    fn is_saturated(&self) -> bool {
        let Snapshot { queued, queue_capacity, .. } = *self.now;
        let full = match queue_capacity {
            0 => self.now.idle_workers == 0,
            _ => u128::from(queued) * 4 >= u128::from(queue_capacity) * 3,
        };
        let pushed_back = self.turned_away > 0
            || self.on_caller > 0
            || self.now.waiting_for_room() > 0
            || !self.waited.is_zero();
        full && pushed_back && !self.is_stalled()
    }

    fn is_suspiciously_fast(&self) -> bool {
        let usual = self.before.run_time.quantile(0.5).unwrap_or(Duration::ZERO);
        let fast = self.runs.quantile(0.99).is_some_and(|p99| p99 <= NO_TIME.max(usual / 100));
        let idle = self.utilisation < NEXT_TO_NOTHING && self.elapsed >= WINDOW;
        // Tasks that fail at once are fast for a known reason.
        fast && idle && self.completed >= MANY_TASKS && !self.is_failing()
    }

    fn is_starved(&self) -> bool {
        self.elapsed >= WINDOW
            && self.offered == 0
            && self.settled == 0
            && self.now.running == 0
            && backlog(self.now) == 0
            && !self.limited_by_budget()
    }

    fn is_overprovisioned(&self) -> bool {
        let waits = self.now.queue_wait.since(&self.before.queue_wait);
        let nobody_waits = waits.quantile(0.99).is_none_or(|p99| p99 <= NO_WAIT)
            && self.waited.is_zero()
            && self.turned_away == 0
            && backlog(self.now) == 0;
        self.elapsed >= WINDOW
            && self.now.live_workers >= 2
            && self.utilisation < NEXT_TO_NOTHING
            && nobody_waits
            && !self.limited_by_budget()
            && !self.is_starved()
            && !self.is_suspiciously_fast()
    }

    // ------------------------------------------------------------ what they look at

    /// No word of its own: a budget that is used up does what it is for, and the pool works.
    /// But its workers are not what is scarce, and neither more nor fewer of them would help.
    fn limited_by_budget(&self) -> bool {
        self.now.waiting_for_budget > 0
            || !self.budget_wait.is_zero()
            || self.over_budget > 0
            || self.too_heavy > 0
    }

    /// Which share of what ended in the window failed.
    fn failing(&self) -> f64 {
        share(self.failures, self.completed)
    }

    /// Somebody failed to start, and will try again.
    fn comes_back_later(&self) -> bool {
        let waits = |state: &WorkerState| matches!(state, WorkerState::Restarting { .. });
        self.now.roster.iter().any(|worker| waits(&worker.state))
    }

    /// How long a task may take before it counts as hanging.
    fn patience(&self) -> Duration {
        match self.now.run_time.quantile(0.99) {
            None => FIRST_PATIENCE,
            Some(p99) => p99.saturating_mul(2).max(WINDOW),
        }
    }

    /// How long every worker has been in its task at least; None if one is free, or none
    /// is there.
    fn all_in_tasks_for(&self) -> Option<Duration> {
        let mut least: Option<Duration> = None;
        for worker in &self.now.roster {
            match worker.state {
                WorkerState::Idle => return None,
                WorkerState::Running { since, .. } => {
                    least = Some(least.map_or(since, |least| least.min(since)));
                }
                _ => {}
            }
        }
        least
    }

    /// Why workers are not there, as the roster says it.
    fn cause(&self) -> Option<String> {
        self.now.roster.iter().rev().find_map(|worker| match &worker.state {
            WorkerState::Restarting { cause, .. } => Some(cause.clone()),
            _ => None,
        })
    }

    fn evidence(&self, verdict: Verdict) -> Vec<Evidence> {
        let now = self.now;
        let mut evidence = Vec::new();
        let mut add = |what, value| evidence.push(Evidence { what, value });
        let count = Measure::Count;
        match verdict {
            Verdict::BlockedReactor => {
                add("blocked workers", count(now.blocked_workers));
                add("live", count(now.live_workers));
                if let Some(poll) = now.longest_poll {
                    add("the longest in", Measure::Text(task(poll)));
                    add("for", Measure::Time(poll.lasts));
                    add("on worker", count(poll.worker.index() as u64));
                }
                add("queued", count(now.queued));
            }
            Verdict::ShortHanded | Verdict::Flapping | Verdict::Stuck => {
                add("workers", count(now.workers));
                add("live", count(now.live_workers));
                add("stuck", count(now.stuck));
                add("restarts", count(self.restarts));
                if verdict == Verdict::Flapping {
                    add("turns in size", count(self.size_turns));
                }
                if let Some(cause) = self.cause() {
                    add("because", Measure::Text(cause));
                }
            }
            Verdict::Stalled => {
                add("queued", count(now.queued));
                add("waiting for room", count(now.waiting_for_room()));
                add("settled", count(self.settled));
                add("running", count(now.running));
                add("idle workers", count(now.idle_workers));
                if let Some(time) = self.all_in_tasks_for() {
                    add("all in tasks for", Measure::Time(time));
                }
                add("patience", Measure::Time(self.patience()));
            }
            Verdict::Failing => {
                add("failures", count(self.failures));
                add("completed", count(self.completed));
                add("share", Measure::Share(self.failing()));
                if let Some(was) = self.failing_before {
                    add("share before", Measure::Share(was));
                }
            }
            Verdict::Saturated => {
                add("queued", count(now.queued));
                add("queue capacity", count(now.queue_capacity));
                add("queued before", count(self.before.queued));
                add("waiting for room", count(now.waiting_for_room()));
                add("submit wait", Measure::Time(self.waited));
                add("turned away", count(self.turned_away));
                add("run by callers", count(self.on_caller));
                add("settled", count(self.settled));
            }
            _ => {
                add("offered", count(self.offered));
                add("settled", count(self.settled));
                add("queued", count(now.queued));
                add("live workers", count(now.live_workers));
                add("busy", Measure::Share(self.utilisation));
                if let Some(p99) = self.runs.quantile(0.99) {
                    add("run time p99", Measure::Time(p99));
                }
            }
        }
        if self.limited_by_budget() {
            add("waiting for a budget", count(now.waiting_for_budget));
            add("waited for budgets", Measure::Time(self.budget_wait));
            add("refused over budget", count(self.over_budget));
            add("refused as too heavy", count(self.too_heavy));
        }
        evidence
    }
}

/// Which task it is, by name and id.
fn task(poll: LongPoll) -> String {
    format!("{} {}", poll.name, poll.id).trim_start().to_owned()
}

/// What waits for a worker; who waits for a budget does not.
fn backlog(of: &Snapshot) -> u64 {
    of.queued.saturating_add(of.waiting_for_room())
}

fn share(part: u64, rest: u64) -> f64 {
    if part == 0 { 0.0 } else { part as f64 / (part as f64 + rest as f64) }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests;

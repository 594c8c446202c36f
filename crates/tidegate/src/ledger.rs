//! Counters that add up.
//!
//! Outcomes and starts of a worker are written by that worker alone (plain load and
//! store, on its own line); what other threads do goes to shared atomics. `queued` and
//! `running` are differences. A sum is read in the order outcomes → started → accepted,
//! and every task is counted in the opposite order, so no difference is ever negative.

use crate::cell::Kind;
use crate::refused::Reason;
use crate::snapshot::Refusals;
use crate::sync::Padded;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Outcomes, by kind.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) panicked: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) abandoned: AtomicU64,
}

impl Outcomes {
    fn of(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Completed => &self.completed,
            Kind::Failed => &self.failed,
            Kind::Panicked => &self.panicked,
            Kind::TimedOutInQueue | Kind::TimedOutRunning => &self.timed_out,
            Kind::Cancelled | Kind::CancelledWithError => &self.cancelled,
            Kind::Evicted => &self.evicted,
            Kind::Abandoned => &self.abandoned,
        }
    }

    /// By the one thread that owns this set.
    #[inline(always)]
    pub(crate) fn count_own(&self, kind: Kind) {
        bump(self.of(kind));
    }

    /// By any thread.
    pub(crate) fn count(&self, kind: Kind) {
        self.of(kind).fetch_add(1, SeqCst);
    }
}

/// Single writer: exact, and no read-modify-write.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Release);
}

/// As `bump`, by more than one; stays at the most it can be.
pub(crate) fn bump_by(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).saturating_add(more), Release);
}

/// Plain sums of outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) panicked: u64,
    pub(crate) timed_out: u64,
    pub(crate) cancelled: u64,
    pub(crate) evicted: u64,
    pub(crate) abandoned: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, from: &Outcomes) {
        self.completed += from.completed.load(Acquire);
        self.failed += from.failed.load(Acquire);
        self.panicked += from.panicked.load(Acquire);
        self.timed_out += from.timed_out.load(Acquire);
        self.cancelled += from.cancelled.load(Acquire);
        self.evicted += from.evicted.load(Acquire);
        self.abandoned += from.abandoned.load(Acquire);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.completed
            + self.failed
            + self.panicked
            + self.timed_out
            + self.cancelled
            + self.evicted
            + self.abandoned
    }

    pub(crate) fn since(&self, before: &Totals) -> Totals {
        Totals {
            completed: self.completed - before.completed,
            failed: self.failed - before.failed,
            panicked: self.panicked - before.panicked,
            timed_out: self.timed_out - before.timed_out,
            cancelled: self.cancelled - before.cancelled,
            evicted: self.evicted - before.evicted,
            abandoned: self.abandoned - before.abandoned,
        }
    }
}

/// A consistent reading of the whole pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) outcomes: Totals,
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) accepted: u64,
}

impl Reading {
    /// From sums that were read in this order.
    pub(crate) fn new(outcomes: Totals, unstarted: u64, started: u64, accepted: u64) -> Reading {
        let settled = outcomes.sum();
        let running = started.saturating_sub(settled.saturating_sub(unstarted));
        let queued = accepted.saturating_sub(settled + running);
        Reading { outcomes, queued, running, accepted }
    }

    /// What passed while the sums were read, and what is just being settled, would show as
    /// queued beyond what fits: it counts as running.
    pub(crate) fn within(mut self, places: u64) -> Reading {
        let more = self.queued.saturating_sub(places);
        self.queued -= more;
        self.running += more;
        self
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.accepted == self.outcomes.sum()
    }
}

/// What threads other than workers count.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) outcomes: Padded<Outcomes>,
    /// Settled without having started.
    pub(crate) unstarted: AtomicU64,
    /// Started by callers and by waiters outside the pool.
    pub(crate) started: AtomicU64,
    /// Accepted without a place in the queue: run by the caller, or evicted on arrival.
    pub(crate) accepted: AtomicU64,
    refused: [AtomicU64; 8],
    pub(crate) on_caller: AtomicU64,
    pub(crate) nested: AtomicU64,
    pub(crate) late_returns: AtomicU64,
    /// Items of slices.
    pub(crate) items: AtomicU64,
    pub(crate) callback_panics: AtomicU64,
    pub(crate) drop_panics: AtomicU64,
    pub(crate) hook_panics: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) size_turns: AtomicU64,
    /// Threads and futures that wait in a submit for a budget.
    pub(crate) budget_waiters: AtomicU64,
    /// Callbacks that have yet to run or to return.
    pub(crate) callbacks: AtomicU64,
}

impl Ledger {
    fn refusals(&self, reason: Reason) -> &AtomicU64 {
        &self.refused[match reason {
            Reason::Full => 0,
            Reason::TimedOut => 1,
            Reason::Cancelled => 2,
            Reason::Closed => 3,
            Reason::WouldDeadlock => 4,
            Reason::OverBudget => 5,
            Reason::TooHeavy => 6,
            Reason::SpawnFailed => 7,
        }]
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refusals(reason).fetch_add(1, SeqCst);
    }

    pub(crate) fn refused(&self) -> Refusals {
        let read = |reason| self.refusals(reason).load(Acquire);
        Refusals {
            full: read(Reason::Full),
            timed_out: read(Reason::TimedOut),
            cancelled: read(Reason::Cancelled),
            closed: read(Reason::Closed),
            would_deadlock: read(Reason::WouldDeadlock),
            over_budget: read(Reason::OverBudget),
            too_heavy: read(Reason::TooHeavy),
            spawn_failed: read(Reason::SpawnFailed),
        }
    }

    /// Counts what was settled in the queue, on whatever thread.
    pub(crate) fn count_unstarted(&self, kind: Kind) {
        // Before the outcome: see the order of reading.
        self.unstarted.fetch_add(1, SeqCst);
        self.outcomes.count(kind);
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a1_a_reading_fits_its_places_and_adds_up() {
        let outcomes = Totals { completed: 7, ..Totals::default() };
        for (queued, running) in (0..12).flat_map(|q| (0..12).map(move |r| (q, r))) {
            let raw = Reading { outcomes, queued, running, accepted: 7 + queued + running };
            let shown = raw.within(3);
            assert_eq!(shown.accepted, raw.accepted, "counters are never touched");
            assert_eq!(shown.accepted, 7 + shown.queued + shown.running);
            assert_eq!(shown.queued, queued.min(3));
        }
    }
}

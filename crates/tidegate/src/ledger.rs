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

    /// The same with gauges that a person expects: what passed while the sums were read
    /// would show as queued, or as running, beyond what fits.
    ///
    /// `threads` is the most that can run, if that is known. Whatever is taken off
    /// `accepted` was accepted after the reading began, so it still never falls.
    pub(crate) fn steady(mut self, places: u64, threads: Option<u64>) -> Reading {
        let mut open = self.queued + self.running;
        if let Some(threads) = threads {
            open = open.min(places + threads);
            self.running = self.running.min(threads);
        }
        // Taken from the queue, and about to be counted as started.
        self.queued = (open - self.running.min(open)).min(places);
        self.running = open - self.queued;
        self.accepted = self.outcomes.sum() + open;
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
    pub(crate) callback_panics: AtomicU64,
    pub(crate) drop_panics: AtomicU64,
    pub(crate) hook_panics: AtomicU64,
    pub(crate) restarts: AtomicU64,
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

    /// Every small reading: the identity holds, nothing is beyond what fits, and nothing
    /// that was there when the reading began is lost.
    #[test]
    fn a1_a_steady_reading_fits_and_adds_up() {
        let outcomes = Totals { completed: 7, ..Totals::default() };
        let (places, threads) = (3, 2);
        for (queued, running) in (0..12).flat_map(|q| (0..12).map(move |r| (q, r))) {
            let raw = Reading { outcomes, queued, running, accepted: 7 + queued + running };
            let known = raw.steady(places, Some(threads));
            assert_eq!(known.accepted, 7 + known.queued + known.running);
            assert!(known.queued <= places && known.running <= threads, "{known:?}");
            if queued <= places && running <= threads {
                assert_eq!((known.queued, known.running), (queued, running), "it was right");
            }
            // Tasks on top of others, and on callers: no bound on those that run.
            let unknown = raw.steady(places, None);
            assert_eq!(unknown.accepted, raw.accepted);
            assert_eq!(unknown.accepted, 7 + unknown.queued + unknown.running);
            assert!(unknown.queued <= places);
        }
    }
}

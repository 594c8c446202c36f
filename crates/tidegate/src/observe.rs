//! What a pool looks like from outside at one moment.

use std::sync::Arc;

use crate::core::{Core, PAUSED};
use crate::histogram::Histogram;
use crate::ledger::Reading;
use crate::snapshot::{PoolState, Snapshot};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::SeqCst;

impl Core {
    /// Outcomes, then starts, then accepted: see `ledger.rs`.
    pub(crate) fn reading(&self) -> Reading {
        let roster = self.roster.lock();
        let mut outcomes = roster.folded;
        outcomes.add(&self.ledger.outcomes);
        for entry in roster.entries.values() {
            outcomes.add(entry.line.outcomes());
        }
        let unstarted = self.ledger.unstarted.load(SeqCst);
        let mut started = roster.folded_started + self.ledger.started.load(SeqCst);
        for entry in roster.entries.values() {
            started += entry.line.started();
        }
        let accepted = self.ledger.accepted.load(SeqCst) + self.queue.accepted();
        Reading::new(outcomes, unstarted, started, accepted)
    }

    /// A reading whose gauges look like one moment, if there is one within a few tries.
    fn steady_reading(&self) -> Reading {
        const TRIES: usize = 4;
        let mut reading = self.reading();
        for _ in 1..TRIES {
            if reading.queued <= self.queue.bound() {
                break;
            }
            reading = self.reading();
        }
        reading.within(self.queue.bound())
    }

    /// Everything accepted is settled and every callback has returned.
    pub(crate) fn is_idle(&self) -> bool {
        self.ledger.callbacks.load(SeqCst) == 0
            && self.reading().is_idle()
            // A callback is counted before its outcome, so look once more.
            && self.ledger.callbacks.load(SeqCst) == 0
    }

    pub(crate) fn state(&self) -> PoolState {
        if let Some(report) = self.ending.report.get() {
            return PoolState::Stopped { complete: report.complete };
        }
        if let Some(closing) = self.control.lock().closing {
            return PoolState::Closing(closing.mode);
        }
        if self.queue.is_closed() {
            return PoolState::Closed;
        }
        if self.flags.load(SeqCst) & PAUSED != 0 { PoolState::Paused } else { PoolState::Running }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let ledger = &self.ledger;
        let read = |counter: &AtomicU64| counter.load(SeqCst);
        // Before what they are part of.
        let late_returns = read(&ledger.late_returns);
        let now = self.clock.now();
        let mut staff = self.roster.lock().reading(now, self.real_time.now());
        self.times.run_time.add_to(&mut staff.run_time);
        let reading = self.steady_reading();
        let mut submit_wait = Histogram::default();
        self.times.submit_wait.add_to(&mut submit_wait);
        let budget_wait = self.times.budget_wait();
        let waiting_for_budget = read(&ledger.budget_waiters);
        submit_wait.add_none(reading.accepted.saturating_sub(submit_wait.count()));
        Snapshot {
            pool: Arc::clone(&self.name),
            state: self.state(),
            uptime: now.since(self.born),
            accepted: reading.accepted,
            refused: ledger.refused(),
            queued: reading.queued,
            running: reading.running,
            completed: reading.outcomes.completed,
            failed: reading.outcomes.failed,
            panicked: reading.outcomes.panicked,
            timed_out: reading.outcomes.timed_out,
            cancelled: reading.outcomes.cancelled,
            evicted: reading.outcomes.evicted,
            abandoned: reading.outcomes.abandoned,
            on_caller: read(&ledger.on_caller),
            nested: read(&ledger.nested),
            stuck: staff.stuck,
            blocked_workers: staff.blocked,
            longest_poll: staff.longest_poll,
            late_returns,
            items: read(&ledger.items),
            callback_panics: read(&ledger.callback_panics) + self.lobby.waker_panics(),
            drop_panics: read(&ledger.drop_panics),
            hook_panics: read(&ledger.hook_panics),
            worker_restarts: read(&ledger.restarts),
            size_turns: read(&ledger.size_turns),
            workers: self.target() as u64,
            live_workers: staff.live,
            starting_workers: staff.coming,
            idle_workers: self.lot.idle().min(staff.live),
            queue_capacity: self.queue.bound(),
            waiting_submitters: u64::from(self.lobby.waiting()) + waiting_for_budget,
            waiting_for_budget,
            submit_wait,
            budget_wait,
            queue_wait: staff.queue_wait,
            run_time: staff.run_time,
            tasks: self.times.by_name(),
            busy: staff.busy,
            worker_time: staff.lived,
            roster: staff.workers,
        }
    }
}

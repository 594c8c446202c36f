//! The end of a pool, and what must be true then.

use tidegate::{Mode, PoolState};

use super::*;

impl<G: Ground> World<G> {
    pub(super) fn shut_down(mut self, how: Shutdown) {
        let closing = G::shut_down(&self.pool, how);
        self.closed = true;
        // Some have no handle to wait for, so nobody may end before it has begun.
        let begun = |now: Snapshot| {
            let going = matches!(now.state, PoolState::Closing(_) | PoolState::Stopped { .. });
            going && (how.mode() == Mode::Light || now.queued == 0)
        };
        self.until(|| begun(self.look().snapshot()), "a shutdown begins");
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.line.is_empty() || !self.at_budget.is_empty() {
            assert!(Instant::now() < deadline, "somebody waits for room in a closed pool");
            self.poll_line();
            self.ground.go_on();
        }
        // Light runs what waits; the others settle it as cancelled, at once.
        for task in std::mem::take(&mut self.waiting) {
            match how.mode() {
                Mode::Light => self.running.push(task),
                _ => self.settles(task, Settles::Cancelled),
            }
        }
        for task in std::mem::take(&mut self.running) {
            match how.mode() {
                Mode::Hard if G::DROPS => self.settles(task, Settles::Cancelled),
                _ => self.ends_well(task),
            }
        }
        while !self.on_callers.is_empty() {
            match how.mode() {
                Mode::Hard => self.caller_ends(0, Settles::Cancelled),
                _ => self.finish_on_caller(0, End::Value),
            }
        }
        let report = self.ground.report(closing);
        assert!(report.is_success(), "{report}");
        for team in &self.teams {
            assert_eq!(self.ground.conclude(&team.group), team.failures, "failures of a group");
        }
        self.start_what_can();
        let last = self.look().snapshot();
        last.check().unwrap();
        last.assert_drained();
        assert_eq!(counts(&last), self.expected);
        assert_eq!(last.state, PoolState::Stopped { complete: true });
        assert_eq!((self.budget.in_use(), self.budget.waiting()), (0, 0), "permits are lost");
        assert_eq!(last.offered(), last.settled() + last.refused.total());
        self.each_was_dropped_once();
    }

    pub(super) fn ends_well(&mut self, mut task: Open) {
        let word = std::mem::replace(&mut task.end, oneshot::channel().0);
        word.send(End::Value).expect("it is there");
        match self.is_overdue(&task) {
            true => self.settles(task, Settles::TimedOut),
            false => self.settles(task, Settles::Completed),
        }
    }

    /// It drains in the background. Groups and submissions are owners, too: they go before.
    pub(super) fn drop_pool(mut self) {
        while self.unanswered() > 0 {
            self.leave(0);
        }
        let World { pool, teams, waiting, running, fates, ground, budget, .. } = self;
        drop(teams);
        drop(pool);
        let mut handles = Vec::new();
        for task in running.into_iter().chain(waiting) {
            let _ = task.end.send(End::Value); // a member may be gone
            handles.extend(task.handle.map(|handle| (task.number, handle, task.until)));
        }
        for (number, handle, until) in handles {
            match ground.outcome(handle) {
                Ok(value) => assert_eq!(value, number),
                Err(error) => assert!(error.is_timed_out() && until.is_some(), "{error:?}"),
            }
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while fates.iter().any(|fate| fate.drops() == 0) {
            assert!(Instant::now() < deadline, "some were never dropped: {fates:?}");
            ground.go_on();
        }
        assert!(fates.iter().all(|fate| fate.drops() == 1), "{fates:?}");
        // A member's comes back after its captures have gone, and nobody here was told of its end.
        while budget.in_use() > 0 {
            assert!(Instant::now() < deadline, "permits are lost: {budget:?}");
            ground.go_on();
        }
        assert_eq!(budget.waiting(), 0);
    }

    pub(super) fn each_was_dropped_once(&self) {
        for (number, fate) in self.fates.iter().enumerate() {
            assert_eq!(fate.drops(), 1, "task {number}");
        }
    }
}

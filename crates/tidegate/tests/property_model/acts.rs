//! What each step does, to the pool and to the model.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use tidegate::{StopWorker, WorkerState};

use super::*;

impl<G: Ground> World<G> {
    pub(super) fn script(&mut self, group: Option<usize>) -> (Script, Open) {
        let (number, fate) = (self.fates.len() as u32, Fate::default());
        self.fates.push(fate.clone());
        let (script, end, begun) = Script::new(number, fate);
        group.into_iter().for_each(|group| self.teams[group].open += 1);
        let (handle, told, run_limit, until) = (None, false, None, None);
        let open = Open { handle, end, number, group, told, run_limit, until, begun };
        (script, open)
    }

    pub(super) fn submit(&mut self, limits: Option<(u64, u64)>) {
        let (script, open) = self.script(None);
        let millis = Duration::from_millis;
        let times = limits.map(|(queue, run)| (millis(queue), millis(run)));
        match G::try_submit(&self.pool, script, times) {
            Ok(handle) => {
                assert!(!self.closed, "a closed pool accepted");
                let until = limits.map(|(queue, _)| self.now + queue);
                let run_limit = limits.map(|(_, run)| run);
                self.accepted(Open { handle: Some(handle), run_limit, until, ..open });
            }
            Err(reason) => self.refused_at_once(reason, None),
        }
    }

    pub(super) fn refused_at_once(&mut self, reason: Reason, group: Option<usize>) {
        match reason {
            Reason::Closed => assert!(self.closed),
            Reason::Full => {
                let slot = group.is_none_or(|group| self.teams[group].open <= GROUP_LIMIT);
                let room = self.waiting.len() < self.queue;
                assert!(!(slot && room), "refused although there is room");
            }
            other => panic!("refused for {other:?}"),
        }
        self.refused(reason, group);
    }

    /// The one that takes members; those before it were cancelled.
    pub(super) fn team(&self) -> usize {
        self.teams.len() - 1
    }

    pub(super) fn submit_member(&mut self) {
        let team = self.team();
        let (script, open) = self.script(Some(team));
        match G::try_member(&self.teams[team].group, script) {
            Ok(()) => {
                assert!(!self.closed, "a closed pool accepted");
                assert!(self.teams[team].open <= GROUP_LIMIT, "one too many in the group");
                self.accepted(open);
            }
            Err(reason) => self.refused_at_once(reason, Some(team)),
        }
    }

    pub(super) fn line_up(&mut self, patience: Option<u64>) {
        let (script, task) = self.script(None);
        let (fate, token) = (script.fate(), Token::new());
        let until = patience.map(|patience| self.now + patience);
        let patience = patience.map(Duration::from_millis);
        if let Some(submission) = G::line_up(&self.pool, script, patience, &token) {
            let submission = Sleeper::new(submission);
            self.line.push_back(InLine { submission, token, until, fate, task });
        }
    }

    /// Only for room: a wait for a slot would be no part of the line.
    pub(super) fn line_up_member(&mut self) {
        let team = self.team();
        if self.teams[team].open >= GROUP_LIMIT {
            return;
        }
        let (script, task) = self.script(Some(team));
        let fate = script.fate();
        match G::line_up_member(&self.teams[team].group, script) {
            // Its token is the group's, so this one says whether that was cancelled.
            Some(submission) => {
                let (submission, token, until) = (Sleeper::new(submission), Token::new(), None);
                self.line.push_back(InLine { submission, token, until, fate, task });
                // It takes its slot with the first poll.
                self.poll_line();
            }
            None => self.teams[team].open -= 1,
        }
    }

    pub(super) fn leave(&mut self, n: usize) {
        if self.line.is_empty() {
            return;
        }
        let waiter = self.line.remove(n % self.line.len()).expect("within");
        self.leaves(waiter);
    }

    pub(super) fn leaves(&mut self, waiter: InLine) {
        assert_eq!(waiter.fate.drops(), 0);
        drop(waiter.submission);
        assert_eq!(waiter.fate.drops(), 1, "it takes its work along");
        waiter.task.group.into_iter().for_each(|group| self.teams[group].open -= 1);
    }

    pub(super) fn cancel_in_line(&mut self, n: usize) {
        let (n, of) = (n.checked_rem(self.line.len()), &mut self.line);
        let Some(waiter) = n.map(|n| &of[n]).filter(|w| w.task.group.is_none()) else { return };
        waiter.token.cancel();
    }

    pub(super) fn is_overdue(&self, task: &Open) -> bool {
        task.until.is_some_and(|until| until <= self.now)
    }

    /// The supervisor settles what is overdue in the queue; what runs too long is told.
    pub(super) fn advance(&mut self, by: u64) {
        self.all_have_begun();
        self.now += by;
        self.ground.advance(Duration::from_millis(by));
        let (waiting, running) =
            (std::mem::take(&mut self.waiting), std::mem::take(&mut self.running));
        let (late, waiting) = waiting.into_iter().partition::<Vec<_>, _>(|t| self.is_overdue(t));
        self.waiting = waiting.into();
        let dropped = |task: &Open| G::DROPS && self.is_overdue(task);
        let (too_long, running) = running.into_iter().partition::<Vec<_>, _>(dropped);
        self.running = running;
        late.into_iter().chain(too_long).for_each(|task| self.settles(task, Settles::TimedOut));
    }

    /// Takes the outcome, if there is a handle, and counts it.
    pub(super) fn settles(&mut self, task: Open, how: Settles) {
        if let Some(handle) = task.handle {
            let outcome = self.ground.outcome(handle);
            let as_expected = match (&how, &outcome) {
                (Settles::Completed, Ok(number)) => *number == task.number,
                (Settles::Failed, Err(error)) => error.is_failed(),
                (Settles::Panicked, Err(error)) => error.is_panicked(),
                (Settles::TimedOut, Err(error)) => error.is_timed_out(),
                (Settles::Cancelled | Settles::CancelledByGroup, Err(error)) => {
                    error.is_cancelled()
                }
                _ => false,
            };
            assert!(as_expected, "{how:?}, but found {outcome:?}");
            let fate = &self.fates[task.number as usize];
            assert_eq!(fate.drops(), 1, "its outcome shows, and its captures are there (O1)");
        }
        if let Some(group) = task.group {
            let team = &mut self.teams[group];
            team.open -= 1;
            let fine = matches!(how, Settles::Completed | Settles::CancelledByGroup);
            team.failures += usize::from(!fine);
        }
        match how {
            Settles::Completed => self.expected.completed += 1,
            Settles::Failed => self.expected.failed += 1,
            Settles::Panicked => self.expected.panicked += 1,
            Settles::TimedOut => self.expected.timed_out += 1,
            Settles::Cancelled | Settles::CancelledByGroup => self.expected.cancelled += 1,
        }
    }

    pub(super) fn finish(&mut self, n: usize, end: End) {
        if self.running.is_empty() {
            return;
        }
        let mut task = self.running.remove(n % self.running.len());
        let word = std::mem::replace(&mut task.end, oneshot::channel().0);
        word.send(end).expect("it runs");
        let late = self.is_overdue(&task);
        let how = match end {
            // A limit is strict.
            End::Value | End::Error if late => Settles::TimedOut,
            End::Value => Settles::Completed,
            End::Error if task.told && task.group.is_some() => Settles::CancelledByGroup,
            End::Error if task.told => Settles::Cancelled,
            End::Error => Settles::Failed,
            End::Panic => Settles::Panicked,
        };
        self.settles(task, how);
    }

    /// The running, then the queued.
    pub(super) fn open_task(&mut self, n: usize) -> Option<&mut Open> {
        let open = self.running.len() + self.waiting.len();
        self.running.iter_mut().chain(&mut self.waiting).nth(n.checked_rem(open)?)
    }

    pub(super) fn cancel(&mut self, n: usize) {
        let overdue = |task: &Open, now| task.until.is_some_and(|until| until <= now);
        let (now, open) = (self.now, self.running.len() + self.waiting.len());
        let Some(task) = self.open_task(n).filter(|task| task.handle.is_some()) else { return };
        let first_time = !std::mem::replace(&mut task.told, true);
        let told_now = task.handle.as_ref().expect("filtered").cancel();
        // Beyond its limit the supervisor tells it too, and may be faster.
        assert!(told_now == first_time || overdue(task, now), "told once");
        let n = n % open;
        let task = match n.checked_sub(self.running.len()) {
            None if G::DROPS => self.running.remove(n),
            None => return,
            Some(n) => {
                let task = self.waiting.remove(n).expect("within");
                let settled = task.handle.as_ref().is_some_and(Handle::is_settled);
                assert!(settled, "a queued task settles in the call");
                task
            }
        };
        self.settles(task, Settles::Cancelled);
    }

    /// Another takes its place.
    pub(super) fn cancel_group(&mut self) {
        let team = self.team();
        G::cancel_group(&self.teams[team].group);
        let fresh = G::group(&self.pool, GROUP_LIMIT);
        self.teams.push(Team { group: fresh, open: 0, failures: 0 });
        let is_member = |task: &Open| task.group == Some(team);
        for waiter in self.line.iter().filter(|waiter| is_member(&waiter.task)) {
            waiter.token.cancel();
        }
        let (queued, waiting) = self.waiting.drain(..).partition::<Vec<_>, _>(is_member);
        self.waiting = waiting.into();
        let (members, running) = self.running.drain(..).partition::<Vec<_>, _>(is_member);
        self.running = running;
        for task in queued {
            self.settles(task, Settles::CancelledByGroup);
        }
        for mut task in members {
            task.told = true;
            match G::DROPS {
                true => self.settles(task, Settles::CancelledByGroup),
                false => self.running.push(task),
            }
        }
    }

    pub(super) fn glance(&mut self, n: usize, detach: bool) {
        let Some(task) = self.open_task(n) else { return };
        let Some(handle) = &mut task.handle else { return };
        let polled = Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it has not ended");
        if detach {
            drop(task.handle.take());
        }
    }

    /// Only workers without a task, so that the model knows who is left.
    pub(super) fn stop_one(&mut self, n: usize, recycle: bool) {
        self.all_have_begun();
        let roster = self.look().roster();
        let idle: Vec<_> = roster.iter().filter(|w| w.state == WorkerState::Idle).collect();
        if idle.is_empty() || !recycle && self.workers == 1 {
            return;
        }
        let id = idle[n % idle.len()].id;
        if recycle {
            self.look().recycle_worker(id, StopWorker::AfterTask).unwrap();
        } else {
            self.look().stop_worker(id, StopWorker::AfterTask).unwrap();
            self.workers -= 1;
        }
    }
}

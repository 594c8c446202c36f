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
        let weight = 0;
        let open = Open { handle, end, number, group, weight, told, run_limit, until, begun };
        (script, open)
    }

    pub(super) fn submit(&mut self, limits: Option<(u64, u64)>, weight: u64) {
        let (script, open) = self.script(None);
        let millis = Duration::from_millis;
        let limits_of_it = limits.map(|(queue, run)| (millis(queue), millis(run)));
        let terms = Terms { limits: limits_of_it, ..self.terms(weight) };
        let expected = self.refusal(weight, None);
        match G::try_submit(&self.pool, script, &terms) {
            Ok(handle) => {
                assert_eq!(expected, None, "accepted");
                self.in_use += weight;
                let until = limits.map(|(queue, _)| self.now + queue);
                let run_limit = limits.map(|(_, run)| run);
                self.accepted(Open { handle: Some(handle), weight, run_limit, until, ..open });
            }
            Err(reason) => {
                assert_eq!(expected, Some(reason), "refused");
                self.refused(reason, None);
            }
        }
    }

    /// The one that takes members; those before it were cancelled.
    pub(super) fn team(&self) -> usize {
        self.teams.len() - 1
    }

    pub(super) fn submit_member(&mut self) {
        let team = self.team();
        let (script, open) = self.script(Some(team));
        let expected = self.refusal(0, Some(team));
        match G::try_member(&self.teams[team].group, script) {
            Ok(()) => {
                assert_eq!(expected, None, "accepted");
                self.accepted(open);
            }
            Err(reason) => {
                assert_eq!(expected, Some(reason), "refused");
                self.refused(reason, Some(team));
            }
        }
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
                (Settles::Evicted, Err(error)) => error.is_evicted(),
                _ => false,
            };
            assert!(as_expected, "{how:?}, but found {outcome:?}");
            let fate = &self.fates[task.number as usize];
            assert_eq!(fate.drops(), 1, "its outcome shows, and its captures are there (O1)");
        }
        self.in_use -= task.weight;
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
            Settles::Evicted => self.expected.evicted += 1,
        }
    }

    pub(super) fn finish(&mut self, n: usize, end: End) {
        let all = self.running.len() + self.on_callers.len();
        let Some(n) = n.checked_rem(all) else { return };
        if let Some(n) = n.checked_sub(self.running.len()) {
            return self.finish_on_caller(n, end);
        }
        let mut task = self.running.remove(n);
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
        while let Some(at) = self.on_callers.iter().position(|w| is_member(&w.task)) {
            self.caller_ends(at, Settles::CancelledByGroup);
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

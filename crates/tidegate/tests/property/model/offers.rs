//! Submissions that are awaited: what the policy and the budget make of them.

use super::*;

type Answer = Result<Option<Handle<u32, &'static str>>, Reason>;

/// What becomes of an offer at once.
enum Fares {
    Refused(Reason),
    Accepted,
    Waits,
    WaitsForTheBudget,
    Evicted,
    /// In place of the oldest.
    Evicts,
    OnCaller,
}

impl<G: Ground> World<G> {
    pub(super) fn terms(&self, weight: u64) -> Terms {
        let budget = (weight > 0).then(|| (self.budget.clone(), weight));
        Terms { budget, ..Terms::default() }
    }

    fn is_over_budget(&self, weight: u64) -> bool {
        weight > 0 && (!self.at_budget.is_empty() || self.in_use + weight > CAPACITY)
    }

    /// Why an offer that does not wait is refused.
    pub(super) fn refusal(&self, weight: u64, group: Option<usize>) -> Option<Reason> {
        let slot = group.is_none_or(|group| self.teams[group].open <= GROUP_LIMIT);
        let room = self.waiting.len() < self.queue;
        match () {
            () if self.closed => Some(Reason::Closed),
            () if weight > CAPACITY => Some(Reason::TooHeavy),
            () if self.is_over_budget(weight) => Some(Reason::OverBudget),
            () if !(slot && room) => Some(Reason::Full),
            () => None,
        }
    }

    /// R5 and B1.
    fn fares(&self, weight: u64) -> Fares {
        let waits = matches!(self.policy, WhenFull::Wait | WhenFull::WaitFor(_));
        match (self.refusal(weight, None), self.policy) {
            (None, _) => Fares::Accepted,
            (Some(Reason::OverBudget), _) if waits => Fares::WaitsForTheBudget,
            (Some(Reason::Full), _) if waits => Fares::Waits,
            (Some(Reason::Full), WhenFull::DropNewest) => Fares::Evicted,
            (Some(Reason::Full), WhenFull::DropOldest) => Fares::Evicts,
            (Some(Reason::Full), WhenFull::CallerRuns) => Fares::OnCaller,
            (Some(reason), _) => Fares::Refused(reason),
        }
    }

    pub(super) fn line_up(&mut self, patience: Option<u64>, weight: u64) {
        // Its limit counts anew for room: the model would have to know when it was served.
        let weight = if matches!(self.policy, WhenFull::WaitFor(_)) { 0 } else { weight };
        let (script, task) = self.script(None);
        let (fate, token) = (script.fate(), Token::new());
        let own = patience.map(|patience| self.now + patience);
        let patience = patience.map(Duration::from_millis);
        let terms = Terms { patience, token: token.clone(), ..self.terms(weight) };
        if let Some(submission) = G::line_up(&self.pool, script, terms) {
            let (submission, task) = (Sleeper::new(submission), Open { weight, ..task });
            self.first_look(InLine { submission, token, until: self.until_of(own), fate, task });
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
                let (submission, token) = (Sleeper::new(submission), Token::new());
                self.first_look(InLine {
                    submission,
                    token,
                    until: self.until_of(None),
                    fate,
                    task,
                });
            }
            None => self.teams[team].open -= 1,
        }
    }

    fn until_of(&self, own: Option<u64>) -> Option<u64> {
        let policy = match self.policy {
            WhenFull::WaitFor(limit) => Some(self.now + limit.as_millis() as u64),
            _ => None,
        };
        own.into_iter().chain(policy).min()
    }

    fn first_look(&mut self, mut waiter: InLine) {
        let weight = waiter.task.weight;
        let fares = self.fares(weight);
        let answer = waiter.submission.poll();
        match (fares, answer) {
            (Fares::Refused(expected), Poll::Ready(Err(reason))) => {
                assert_eq!(reason, expected, "refused");
                self.refused(reason, waiter.task.group);
            }
            (Fares::WaitsForTheBudget, Poll::Pending) => self.at_budget.push_back(waiter),
            (Fares::Waits, Poll::Pending) => {
                self.in_use += weight;
                self.line.push_back(waiter);
            }
            (Fares::OnCaller, Poll::Pending) => {
                self.in_use += weight;
                self.on_callers.push(waiter);
            }
            (Fares::Accepted, Poll::Ready(Ok(handle))) => {
                self.in_use += weight;
                self.accepted(Open { handle, ..waiter.task });
            }
            (Fares::Evicted, Poll::Ready(Ok(handle))) => {
                self.in_use += weight;
                self.settles(Open { handle, ..waiter.task }, Settles::Evicted);
            }
            (Fares::Evicts, Poll::Ready(Ok(handle))) => {
                self.in_use += weight;
                let oldest = self.waiting.pop_front().expect("the queue is full");
                self.settles(oldest, Settles::Evicted);
                self.accepted(Open { handle, ..waiter.task });
            }
            (_, Poll::Pending) => panic!("it waits"),
            (_, Poll::Ready(answer)) => panic!("at once: {answer:?}"),
        }
    }

    // ------------------------------------------------------------ in line

    pub(super) fn unanswered(&self) -> usize {
        self.line.len() + self.at_budget.len() + self.on_callers.len()
    }

    pub(super) fn leave(&mut self, n: usize) {
        let Some(n) = n.checked_rem(self.unanswered()) else { return };
        let (line, at_budget) = (self.line.len(), self.at_budget.len());
        if n < line {
            let waiter = self.line.remove(n).expect("within");
            self.in_use -= waiter.task.weight;
            self.leaves(waiter);
        } else if n < line + at_budget {
            let waiter = self.at_budget.remove(n - line).expect("within");
            self.leaves(waiter);
        } else {
            // Its task was accepted, and goes with it.
            let waiter = self.on_callers.remove(n - line - at_budget);
            drop(waiter.submission);
            assert_eq!(waiter.fate.drops(), 1, "its task goes with it");
            // Its group does not call that a failure: whoever drops it knows.
            let how = match waiter.task.group {
                Some(_) => Settles::CancelledByGroup,
                None => Settles::Cancelled,
            };
            self.settles(waiter.task, how);
        }
    }

    fn leaves(&mut self, waiter: InLine) {
        assert_eq!(waiter.fate.drops(), 0);
        drop(waiter.submission);
        assert_eq!(waiter.fate.drops(), 1, "it takes its work along");
        waiter.task.group.into_iter().for_each(|group| self.teams[group].open -= 1);
    }

    pub(super) fn cancel_in_line(&mut self, n: usize) {
        let Some(n) = n.checked_rem(self.unanswered()) else { return };
        let waits = self.line.len() + self.at_budget.len();
        let mut all = self.line.iter().chain(&self.at_budget).chain(&self.on_callers);
        let Some(waiter) = all.nth(n).filter(|w| w.task.group.is_none()) else { return };
        waiter.token.cancel();
        if let Some(n) = n.checked_sub(waits) {
            self.caller_ends(n, Settles::Cancelled);
        }
    }

    /// Nobody waits who could come in, or should be gone.
    pub(super) fn line_is_right(&self) -> bool {
        let full = self.waiting.len() == self.queue;
        let mut all = self.line.iter().chain(&self.at_budget);
        (self.line.is_empty() || full) && !all.any(|waiter| self.ends(waiter))
    }

    fn ends(&self, waiter: &InLine) -> bool {
        self.closed
            || waiter.token.is_cancelled()
            || waiter.until.is_some_and(|until| until <= self.now)
    }

    /// From the first to the last, so that who has come first is let in first.
    pub(super) fn poll_line(&mut self) {
        let mut at = 0;
        while at < self.at_budget.len() {
            // Whoever has left the line of the budget waits for room, if that is needed.
            let first = at == 0 && self.in_use + self.at_budget[0].task.weight <= CAPACITY;
            if first && let Some(served) = self.at_budget.pop_front() {
                self.in_use += served.task.weight;
                self.line.push_back(served);
            } else if let Poll::Ready(answer) = self.at_budget[at].submission.poll_if_woken() {
                let waiter = self.at_budget.remove(at).expect("just polled");
                self.in_use += waiter.task.weight; // as one that was served
                self.answered(waiter, answer);
                at = 0;
            } else {
                at += 1;
            }
        }
        let mut at = 0;
        while at < self.line.len() {
            match self.line[at].submission.poll_if_woken() {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    let waiter = self.line.remove(at).expect("just polled");
                    self.answered(waiter, answer);
                }
            }
        }
    }

    /// It holds what it wants of the budget, or never will.
    fn answered(&mut self, waiter: InLine, answer: Answer) {
        match answer {
            Ok(handle) => {
                assert!(!self.closed, "a closed pool accepted");
                self.accepted(Open { handle, ..waiter.task });
            }
            Err(reason) => {
                match reason {
                    Reason::Closed => assert!(self.closed),
                    Reason::Cancelled => assert!(waiter.token.is_cancelled()),
                    Reason::TimedOut => assert!(waiter.until.is_some_and(|at| at <= self.now)),
                    other => panic!("refused for {other:?}"),
                }
                self.in_use -= waiter.task.weight;
                self.refused(reason, waiter.task.group);
            }
        }
        self.start_what_can();
    }

    // ------------------------------------------------------------ on callers

    pub(super) fn finish_on_caller(&mut self, n: usize, end: End) {
        let task = &mut self.on_callers[n].task;
        let word = std::mem::replace(&mut task.end, oneshot::channel().0);
        word.send(end).expect("it runs");
        let how = match end {
            End::Value => Settles::Completed,
            End::Error => Settles::Failed,
            End::Panic => Settles::Panicked,
        };
        self.caller_ends(n, how);
    }

    /// Its task ends, and with it the submission.
    pub(super) fn caller_ends(&mut self, n: usize, how: Settles) {
        let mut waiter = self.on_callers.remove(n);
        let mut answer = Poll::Pending;
        let ended = || {
            answer = waiter.submission.poll_if_woken();
            answer.is_ready()
        };
        self.until(ended, "a task on its caller ends");
        match answer {
            Poll::Ready(Ok(handle)) => self.settles(Open { handle, ..waiter.task }, how),
            other => panic!("it was accepted, and now {other:?}"),
        }
    }
}

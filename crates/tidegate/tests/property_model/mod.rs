//! The model of one pool, and what can be done to it, whoever runs its tasks.
//!
//! The tasks do nothing but wait for a word of the test, so the model knows exactly who
//! runs, who waits and what was refused. After each step the pool must come to rest in the
//! model's state, and the identity of A1 must hold on the way. At the end each task, accepted
//! or not, was dropped exactly once.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidegate::{
    Handle, Mode, Pool, PoolState, Reason, Shutdown, Snapshot, StopWorker, Token, WorkerState,
};
use tokio::sync::oneshot;

mod ground;
mod script;
#[path = "../support/sleeper.rs"]
mod sleeper;
mod steps;
pub(crate) use ground::{Ground, Outcome, Submission};
pub(crate) use script::{End, Fate, Script};
pub(crate) use sleeper::Sleeper;
pub(crate) use steps::{Step, cases, ending, step};

/// Members of a group that may be unsettled at a time.
const GROUP_LIMIT: usize = 3;

/// A task as the test sees it.
struct Open {
    /// None for members, and once it was dropped.
    handle: Option<Handle<u32, &'static str>>,
    end: oneshot::Sender<End>,
    number: u32,
    /// Which group it belongs to.
    group: Option<usize>,
    told: bool,
    /// How long it may run; then, when its time in the queue, or its run, is over.
    run_limit: Option<u64>,
    until: Option<u64>,
    /// Its code has begun: from then on its limit counts.
    begun: oneshot::Receiver<()>,
}

/// A submission in line.
struct InLine {
    submission: Sleeper<Submission>,
    token: Token,
    until: Option<u64>,
    fate: Fate,
    task: Open,
}

struct Team<G> {
    group: G,
    open: usize,
    failures: usize,
}

#[derive(Default, Debug, PartialEq, Eq, Clone)]
struct Counts {
    queued: u64,
    running: u64,
    in_line: u64,
    completed: u64,
    failed: u64,
    panicked: u64,
    timed_out: u64,
    cancelled: u64,
    full: u64,
    closed: u64,
    refused_late: u64,
    refused_cancelled: u64,
}

fn counts(s: &Snapshot) -> Counts {
    Counts {
        queued: s.queued,
        running: s.running,
        in_line: s.waiting_submitters,
        completed: s.completed,
        failed: s.failed,
        panicked: s.panicked,
        timed_out: s.timed_out,
        cancelled: s.cancelled,
        full: s.refused.full,
        closed: s.refused.closed,
        refused_late: s.refused.timed_out,
        refused_cancelled: s.refused.cancelled,
    }
}

/// The model, and the pool beside it.
pub(crate) struct World<G: Ground> {
    pool: G::Pool,
    teams: Vec<Team<G::Group>>,
    now: u64,
    workers: usize,
    queue: usize,
    paused: bool,
    closed: bool,
    running: Vec<Open>,
    waiting: VecDeque<Open>,
    line: VecDeque<InLine>,
    expected: Counts,
    fates: Vec<Fate>,
    // Last: a runtime goes after its pool.
    ground: G,
}

/// All of it: steps, then the end.
pub(crate) fn play<G: Ground>(
    workers: usize,
    queue: usize,
    steps: Vec<Step>,
    ending: Option<Shutdown>,
) {
    let mut world = World::<G>::new(workers, queue);
    for step in steps {
        world.take(step);
    }
    match ending {
        Some(how) => world.shut_down(how),
        None => world.drop_pool(),
    }
}

impl<G: Ground> World<G> {
    fn new(workers: usize, queue: usize) -> Self {
        let builder = Pool::builder("property")
            .workers(workers)
            .queue(queue)
            .grace(Duration::from_secs(600))
            .restart_backoff(Duration::ZERO..=Duration::ZERO)
            .on_unobserved(|_| {});
        let (ground, pool) = G::build(builder);
        let mut world = World {
            teams: vec![Team { group: G::group(&pool, GROUP_LIMIT), open: 0, failures: 0 }],
            pool,
            now: 0,
            workers,
            queue,
            paused: false,
            closed: false,
            running: Vec::new(),
            waiting: VecDeque::new(),
            line: VecDeque::new(),
            expected: Counts::default(),
            fates: Vec::new(),
            ground,
        };
        world.at_rest();
        world
    }

    fn look(&self) -> &Pool {
        G::pool(&self.pool)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit => self.submit(None),
            Step::SubmitLimited(queue, run) => self.submit(Some((queue, run))),
            Step::SubmitMember => self.submit_member(),
            Step::LineUp(patience) => self.line_up(patience),
            Step::LineUpMember => self.line_up_member(),
            Step::Leave(n) => self.leave(n),
            Step::CancelInLine(n) => self.cancel_in_line(n),
            Step::Advance(by) => self.advance(by),
            Step::Finish(n, end) => self.finish(n, end),
            Step::Cancel(n) => self.cancel(n),
            Step::CancelGroup => self.cancel_group(),
            Step::Glance(n) => self.glance(n, false),
            Step::Detach(n) => self.glance(n, true),
            Step::Pause => {
                self.look().pause();
                self.paused = true;
            }
            Step::Resume => {
                self.look().resume();
                self.paused = false;
            }
            Step::Recycle(n) => self.stop_one(n, true),
            Step::Stop(n) => self.stop_one(n, false),
            Step::Close => {
                self.look().close();
                self.closed = true;
            }
        }
        self.at_rest();
    }

    // ------------------------------------------------------------ coming to rest

    /// The model's own scheduler: as many as there are workers run, oldest first.
    fn start_what_can(&mut self) {
        while !self.paused && self.running.len() < self.workers {
            let Some(mut next) = self.waiting.pop_front() else { break };
            next.until = next.run_limit.map(|limit| self.now + limit);
            self.running.push(next);
        }
        self.expected.queued = self.waiting.len() as u64;
        self.expected.running = self.running.len() as u64;
        self.expected.in_line = self.line.len() as u64;
    }

    fn at_rest(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            self.start_what_can();
            self.poll_line();
            let snapshot = self.look().snapshot();
            snapshot.check().expect("the identity holds at all times");
            assert!(snapshot.queued <= snapshot.queue_capacity, "too many wait\n{snapshot}");
            let live = snapshot.live_workers == self.workers as u64;
            let slots = self.teams.iter().all(|team| G::unsettled(&team.group) == team.open);
            if counts(&snapshot) == self.expected && live && slots && self.line_is_right() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected {:?} with {} workers, {} in line, groups of {:?}, found\n{snapshot}\n{:#?}",
                self.expected,
                self.workers,
                self.line.len(),
                self.teams.iter().map(|t| (t.open, G::unsettled(&t.group))).collect::<Vec<_>>(),
                self.look().roster()
            );
            self.ground.go_on();
        }
    }

    /// Nobody waits who could come in, or should be gone.
    fn line_is_right(&self) -> bool {
        let full = self.waiting.len() == self.queue;
        self.line.is_empty() || full && !self.closed && !self.line.iter().any(|w| self.ends(w))
    }

    fn ends(&self, waiter: &InLine) -> bool {
        self.closed
            || waiter.token.is_cancelled()
            || waiter.until.is_some_and(|until| until <= self.now)
    }

    /// From the first to the last, so that who has come first is let in first.
    fn poll_line(&mut self) {
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

    fn answered(
        &mut self,
        waiter: InLine,
        answer: Result<Option<Handle<u32, &'static str>>, Reason>,
    ) {
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
                self.refused(reason, waiter.task.group);
            }
        }
        self.start_what_can();
    }

    fn accepted(&mut self, task: Open) {
        self.waiting.push_back(task);
        self.start_what_can();
        assert!(self.waiting.len() <= self.queue, "one too many waits");
    }

    fn refused(&mut self, reason: Reason, group: Option<usize>) {
        group.into_iter().for_each(|group| self.teams[group].open -= 1);
        match reason {
            Reason::Closed => self.expected.closed += 1,
            Reason::Full => self.expected.full += 1,
            Reason::TimedOut => self.expected.refused_late += 1,
            Reason::Cancelled => self.expected.refused_cancelled += 1,
            other => panic!("refused for {other:?}"),
        }
    }

    /// Goes on until it is so.
    fn until(&self, mut fact: impl FnMut() -> bool, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !fact() {
            assert!(Instant::now() < deadline, "never: {what}");
            self.ground.go_on();
        }
    }

    /// A task counts as running a moment before its worker shows it.
    fn all_have_begun(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        for task in &mut running {
            let gone = |begun: &mut oneshot::Receiver<()>| {
                begun.try_recv() == Err(oneshot::error::TryRecvError::Closed)
            };
            self.until(|| gone(&mut task.begun), "a running task begins");
        }
        self.running = running;
    }

    // ------------------------------------------------------------ submitting

    fn script(&mut self, group: Option<usize>) -> (Script, Open) {
        let (number, fate) = (self.fates.len() as u32, Fate::default());
        self.fates.push(fate.clone());
        let (script, end, begun) = Script::new(number, fate);
        group.into_iter().for_each(|group| self.teams[group].open += 1);
        let (handle, told, run_limit, until) = (None, false, None, None);
        let open = Open { handle, end, number, group, told, run_limit, until, begun };
        (script, open)
    }

    fn submit(&mut self, limits: Option<(u64, u64)>) {
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

    fn refused_at_once(&mut self, reason: Reason, group: Option<usize>) {
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
    fn team(&self) -> usize {
        self.teams.len() - 1
    }

    fn submit_member(&mut self) {
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

    fn line_up(&mut self, patience: Option<u64>) {
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
    fn line_up_member(&mut self) {
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

    fn leave(&mut self, n: usize) {
        if self.line.is_empty() {
            return;
        }
        let waiter = self.line.remove(n % self.line.len()).expect("within");
        self.leaves(waiter);
    }

    fn leaves(&mut self, waiter: InLine) {
        assert_eq!(waiter.fate.drops(), 0);
        drop(waiter.submission);
        assert_eq!(waiter.fate.drops(), 1, "it takes its work along");
        waiter.task.group.into_iter().for_each(|group| self.teams[group].open -= 1);
    }

    fn cancel_in_line(&mut self, n: usize) {
        let (n, of) = (n.checked_rem(self.line.len()), &mut self.line);
        let Some(waiter) = n.map(|n| &of[n]).filter(|w| w.task.group.is_none()) else { return };
        waiter.token.cancel();
    }

    // ------------------------------------------------------------ ending

    fn is_overdue(&self, task: &Open) -> bool {
        task.until.is_some_and(|until| until <= self.now)
    }

    /// The supervisor settles what is overdue in the queue; what runs too long is told.
    fn advance(&mut self, by: u64) {
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
    fn settles(&mut self, task: Open, how: Settles) {
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

    fn finish(&mut self, n: usize, end: End) {
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
    fn open_task(&mut self, n: usize) -> Option<&mut Open> {
        let open = self.running.len() + self.waiting.len();
        self.running.iter_mut().chain(&mut self.waiting).nth(n.checked_rem(open)?)
    }

    fn cancel(&mut self, n: usize) {
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
    fn cancel_group(&mut self) {
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

    fn glance(&mut self, n: usize, detach: bool) {
        let Some(task) = self.open_task(n) else { return };
        let Some(handle) = &mut task.handle else { return };
        let polled = Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it has not ended");
        if detach {
            drop(task.handle.take());
        }
    }

    /// Only workers without a task, so that the model knows who is left.
    fn stop_one(&mut self, n: usize, recycle: bool) {
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

    // ------------------------------------------------------------ the end

    fn shut_down(mut self, how: Shutdown) {
        let closing = G::shut_down(&self.pool, how);
        self.closed = true;
        // Some have no handle to wait for, so nobody may end before it has begun.
        let begun = |now: Snapshot| {
            let going = matches!(now.state, PoolState::Closing(_) | PoolState::Stopped { .. });
            going && (how.mode() == Mode::Light || now.queued == 0)
        };
        self.until(|| begun(self.look().snapshot()), "a shutdown begins");
        self.poll_line();
        assert!(self.line.is_empty(), "somebody waits for room in a closed pool");
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
        assert_eq!(last.offered(), last.settled() + last.refused.total());
        self.each_was_dropped_once();
    }

    fn ends_well(&mut self, mut task: Open) {
        let word = std::mem::replace(&mut task.end, oneshot::channel().0);
        word.send(End::Value).expect("it is there");
        match self.is_overdue(&task) {
            true => self.settles(task, Settles::TimedOut),
            false => self.settles(task, Settles::Completed),
        }
    }

    /// It drains in the background. Groups and submissions are owners, too: they go before.
    fn drop_pool(mut self) {
        for waiter in std::mem::take(&mut self.line) {
            self.leaves(waiter);
        }
        let World { pool, teams, waiting, running, fates, ground, .. } = self;
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
    }

    fn each_was_dropped_once(&self) {
        for (number, fate) in self.fates.iter().enumerate() {
            assert_eq!(fate.drops(), 1, "task {number}");
        }
    }
}

/// How a task settles.
#[derive(Clone, Copy, Debug)]
enum Settles {
    Completed,
    Failed,
    Panicked,
    TimedOut,
    Cancelled,
    CancelledByGroup,
}

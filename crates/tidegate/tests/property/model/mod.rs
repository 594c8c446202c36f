//! The model of one pool, and what can be done to it, whoever runs its tasks.
//!
//! The tasks do nothing but wait for a word of the test, so the model knows exactly who
//! runs, who waits and what was refused. After each step the pool must come to rest in the
//! model's state, and the identity of A1 must hold on the way. At the end each task, accepted
//! or not, was dropped exactly once.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::{Duration, Instant};

use tidegate::{Budget, Handle, Pool, Reason, Shutdown, Snapshot, Token, WhenFull};
use tokio::sync::oneshot;

use crate::sleeper::Sleeper;

mod acts;
mod end;
mod ground;
mod offers;
mod script;
mod steps;
pub(crate) use ground::{Ground, Outcome, Submission, Terms, on_terms};
pub(crate) use script::{End, Fate, Script};
pub(crate) use steps::{Step, ending, policy, step};

/// Members of a group that may be unsettled at a time.
const GROUP_LIMIT: usize = 3;
/// Of the budget.
const CAPACITY: u64 = 3;

/// A task as the test sees it.
struct Open {
    /// None for members, and once it was dropped.
    handle: Option<Handle<u32, &'static str>>,
    end: oneshot::Sender<End>,
    number: u32,
    /// Which group it belongs to.
    group: Option<usize>,
    /// What it takes of the budget.
    weight: u64,
    told: bool,
    /// How long it may run; then, when its time in the queue, or its run, is over.
    run_limit: Option<u64>,
    until: Option<u64>,
    /// Its code has begun: from then on its limit counts.
    begun: oneshot::Receiver<()>,
}

/// A submission that has no answer yet.
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
    evicted: u64,
    over_budget: u64,
    too_heavy: u64,
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
        evicted: s.evicted,
        over_budget: s.refused.over_budget,
        too_heavy: s.refused.too_heavy,
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
    policy: WhenFull,
    budget: Budget,
    /// What is taken of it.
    in_use: u64,
    paused: bool,
    closed: bool,
    running: Vec<Open>,
    waiting: VecDeque<Open>,
    /// Those who wait for room.
    line: VecDeque<InLine>,
    /// Those who wait for the budget.
    at_budget: VecDeque<InLine>,
    /// Those whose task runs inside the submission.
    on_callers: Vec<InLine>,
    expected: Counts,
    fates: Vec<Fate>,
    // Last: a runtime goes after its pool.
    ground: G,
}

/// All of it: steps, then the end.
pub(crate) fn play<G: Ground>(
    shape: (usize, usize, WhenFull),
    steps: Vec<Step>,
    ending: Option<Shutdown>,
) {
    let mut world = World::<G>::new(shape);
    for step in steps {
        world.take(step);
    }
    match ending {
        Some(how) => world.shut_down(how),
        None => world.drop_pool(),
    }
}

impl<G: Ground> World<G> {
    fn new((workers, queue, policy): (usize, usize, WhenFull)) -> Self {
        let builder = Pool::builder("property")
            .workers(workers)
            .queue(queue)
            .when_full(policy)
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
            policy,
            budget: Budget::new("property", CAPACITY),
            in_use: 0,
            paused: false,
            closed: false,
            running: Vec::new(),
            waiting: VecDeque::new(),
            line: VecDeque::new(),
            at_budget: VecDeque::new(),
            on_callers: Vec::new(),
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
            Step::Submit(weight) => self.submit(None, weight),
            Step::SubmitLimited(queue, run) => self.submit(Some((queue, run)), 0),
            Step::SubmitMember => self.submit_member(),
            Step::LineUp(patience, weight) => self.line_up(patience, weight),
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
        self.expected.running = (self.running.len() + self.on_callers.len()) as u64;
        self.expected.in_line = (self.line.len() + self.at_budget.len()) as u64;
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
            let permits = (self.budget.in_use(), self.budget.waiting());
            let permits = permits == (self.in_use, self.at_budget.len());
            let same = counts(&snapshot) == self.expected;
            if same && live && slots && permits && self.line_is_right() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected {:?} with {} workers, {} in line, {} of {:?} in use, groups of {:?}, found\n{snapshot}\n{:#?}",
                self.expected,
                self.workers,
                self.line.len(),
                self.in_use,
                self.budget,
                self.teams.iter().map(|t| (t.open, G::unsettled(&t.group))).collect::<Vec<_>>(),
                self.look().roster()
            );
            self.ground.go_on();
        }
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
            Reason::TooHeavy => self.expected.too_heavy += 1,
            Reason::OverBudget => self.expected.over_budget += 1,
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
    Evicted,
}

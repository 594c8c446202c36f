//! Random interleavings against a model that a child could check by hand.
//!
//! The tasks do nothing but wait for a word of the test, so the model knows exactly who
//! runs, who waits and what was refused. After each step the pool must come to rest in the
//! model's state, and the identity of A1 must hold on the way.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate::{
    Clock, Handle, ManualClock, Mode, Pool, PoolState, Reason, Shutdown, Snapshot, StopWorker,
    WorkerState,
};

#[derive(Clone, Copy, Debug)]
enum End {
    Value,
    Error,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit,
    /// With limits in the queue and of the run, in milliseconds.
    SubmitLimited(u64, u64),
    /// So many milliseconds pass.
    Advance(u64),
    /// Let the running task at this position (modulo) end.
    Finish(usize, End),
    /// Cancel the n-th open task (modulo), queued or running.
    Cancel(usize),
    Pause,
    Resume,
    /// Recycle an idle or running worker after its task.
    Recycle(usize),
    Stop(usize),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(End::Value), Just(End::Error), Just(End::Panic)];
    prop_oneof![
        6 => Just(Step::Submit),
        2 => (1..20u64, 1..20u64).prop_map(|(queue, run)| Step::SubmitLimited(queue, run)),
        2 => (1..15u64).prop_map(Step::Advance),
        4 => (0..8usize, end).prop_map(|(n, end)| Step::Finish(n, end)),
        3 => (0..8usize).prop_map(Step::Cancel),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
        1 => (0..4usize).prop_map(Step::Recycle),
        1 => (0..4usize).prop_map(Step::Stop),
        1 => Just(Step::Close),
    ]
}

fn shutdown() -> impl Strategy<Value = Shutdown> {
    prop_oneof![Just(Shutdown::light()), Just(Shutdown::soft()), Just(Shutdown::hard())]
}

/// A task as the test sees it.
struct Open {
    handle: Handle<u32, &'static str>,
    end: Sender<End>,
    number: u32,
    told: bool,
    /// How long it may run; then, when its time in the queue, or its run, is over.
    run_limit: Option<u64>,
    until: Option<u64>,
    /// Its code has begun: from then on its limit counts.
    begun: Receiver<()>,
}

#[derive(Default, Debug, PartialEq, Eq, Clone)]
struct Counts {
    queued: u64,
    running: u64,
    completed: u64,
    failed: u64,
    panicked: u64,
    timed_out: u64,
    cancelled: u64,
    full: u64,
    closed: u64,
}

fn counts(s: &Snapshot) -> Counts {
    Counts {
        queued: s.queued,
        running: s.running,
        completed: s.completed,
        failed: s.failed,
        panicked: s.panicked,
        timed_out: s.timed_out,
        cancelled: s.cancelled,
        full: s.refused.full,
        closed: s.refused.closed,
    }
}

struct World {
    pool: Pool,
    clock: ManualClock,
    now: u64,
    workers: usize,
    queue: usize,
    paused: bool,
    closed: bool,
    running: Vec<Open>,
    waiting: VecDeque<Open>,
    expected: Counts,
    next: u32,
}

impl World {
    fn new(workers: usize, queue: usize) -> World {
        let (clock, hands) = Clock::manual();
        let pool = Pool::builder("property")
            .clock(clock)
            .workers(workers)
            .queue(queue)
            .grace(Duration::from_secs(600))
            .restart_backoff(Duration::ZERO..=Duration::ZERO)
            .on_unobserved(|_| {})
            .build()
            .unwrap();
        let world = World {
            pool,
            clock: hands,
            now: 0,
            workers,
            queue,
            paused: false,
            closed: false,
            running: Vec::new(),
            waiting: VecDeque::new(),
            expected: Counts::default(),
            next: 0,
        };
        world.at_rest();
        world
    }

    /// The model's own scheduler: as many as there are workers run, oldest first.
    fn start_what_can(&mut self) {
        while !self.paused && self.running.len() < self.workers {
            let Some(mut next) = self.waiting.pop_front() else { break };
            next.until = next.run_limit.map(|limit| self.now + limit);
            self.running.push(next);
        }
        self.expected.queued = self.waiting.len() as u64;
        self.expected.running = self.running.len() as u64;
    }

    fn at_rest(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let snapshot = self.pool.snapshot();
            snapshot.check().expect("the identity holds at all times");
            let live = snapshot.live_workers == self.workers as u64;
            if counts(&snapshot) == self.expected && live {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected {:?} with {} workers, found\n{snapshot}\n{:#?}",
                self.expected,
                self.workers,
                self.pool.roster()
            );
            std::thread::yield_now();
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit => self.submit(None),
            Step::SubmitLimited(queue, run) => self.submit(Some((queue, run))),
            Step::Advance(by) => self.advance(by),
            Step::Finish(n, end) => self.finish(n, end),
            Step::Cancel(n) => self.cancel(n),
            Step::Pause => {
                self.pool.pause();
                self.paused = true;
            }
            Step::Resume => {
                self.pool.resume();
                self.paused = false;
            }
            Step::Recycle(n) => self.stop_one(n, true),
            Step::Stop(n) => self.stop_one(n, false),
            Step::Close => {
                self.pool.close();
                self.closed = true;
            }
        }
        self.start_what_can();
        self.at_rest();
    }

    /// A task counts as running a moment before its worker shows it.
    fn all_have_begun(&self) {
        for task in &self.running {
            let _ = task.begun.recv(); // at once from the second time on: the sender is gone
        }
    }

    /// The supervisor settles what is overdue in the queue; what runs too long is told.
    fn advance(&mut self, by: u64) {
        self.all_have_begun();
        self.now += by;
        self.clock.advance(Duration::from_millis(by));
        let overdue = |task: &Open| task.until.is_some_and(|until| until <= self.now);
        let (late, waiting) = self.waiting.drain(..).partition::<Vec<_>, _>(overdue);
        self.waiting = waiting.into();
        for task in late {
            assert!(task.handle.wait().unwrap_err().is_timed_out());
            self.expected.timed_out += 1;
        }
    }

    fn is_overdue(&self, task: &Open) -> bool {
        task.until.is_some_and(|until| until <= self.now)
    }

    fn submit(&mut self, limits: Option<(u64, u64)>) {
        let (end, word): (_, Receiver<End>) = channel();
        let number = self.next;
        let (begins, begun) = channel();
        let word = move || {
            drop(begins);
            word.recv().unwrap_or(End::Value)
        };
        let work = move || match word() {
            End::Value => Ok(number),
            End::Error => Err("error"),
            End::Panic => std::panic::resume_unwind(Box::new("panic")),
        };
        let offered = match limits {
            None => self.pool.try_submit_result(work).map_err(|refused| refused.reason()),
            Some((queue, run)) => {
                let task = self.pool.task("limited").timeout(Duration::from_millis(run));
                let task = task.queue_timeout(Duration::from_millis(queue));
                task.try_submit_result(move |_| work()).map_err(|refused| refused.reason())
            }
        };
        match offered {
            Ok(handle) => {
                assert!(!self.closed, "a closed pool accepted");
                self.next += 1;
                let until = limits.map(|(queue, _)| self.now + queue);
                let run_limit = limits.map(|(_, run)| run);
                let told = false;
                self.waiting.push_back(Open { handle, end, number, told, run_limit, until, begun });
                self.start_what_can();
                assert!(self.waiting.len() <= self.queue, "one too many waits");
            }
            Err(reason) => match reason {
                Reason::Closed => {
                    assert!(self.closed);
                    self.expected.closed += 1;
                }
                Reason::Full => {
                    assert_eq!(self.waiting.len(), self.queue, "refused although there is room");
                    self.expected.full += 1;
                }
                other => panic!("refused for {other:?}"),
            },
        }
    }

    fn finish(&mut self, n: usize, end: End) {
        if self.running.is_empty() {
            return;
        }
        let task = self.running.remove(n % self.running.len());
        task.end.send(end).unwrap();
        let late = self.is_overdue(&task);
        let outcome = task.handle.wait();
        match end {
            End::Value | End::Error if late => {
                assert!(outcome.unwrap_err().is_timed_out(), "a limit is strict");
                self.expected.timed_out += 1;
            }
            End::Value => {
                assert_eq!(outcome.unwrap(), task.number);
                self.expected.completed += 1;
            }
            End::Error => {
                let error = outcome.unwrap_err();
                let error = error.task().unwrap();
                if task.told {
                    assert!(error.is_cancelled());
                    self.expected.cancelled += 1;
                } else {
                    assert!(error.is_failed());
                    self.expected.failed += 1;
                }
            }
            End::Panic => {
                assert!(outcome.unwrap_err().is_panicked());
                self.expected.panicked += 1;
            }
        }
    }

    fn cancel(&mut self, n: usize) {
        let open = self.running.len() + self.waiting.len();
        if open == 0 {
            return;
        }
        let n = n % open;
        if n < self.running.len() {
            let first_time = !std::mem::replace(&mut self.running[n].told, true);
            let told_now = self.running[n].handle.cancel();
            // Beyond its limit the supervisor tells it too, and may be faster.
            assert!(told_now == first_time || self.is_overdue(&self.running[n]), "told once");
            return;
        }
        let task = self.waiting.remove(n - self.running.len()).unwrap();
        assert!(task.handle.cancel());
        assert!(task.handle.is_settled(), "a queued task settles in the call");
        assert!(task.handle.wait().unwrap_err().is_cancelled());
        self.expected.cancelled += 1;
    }

    /// Only workers without a task, so that the model knows who is left.
    fn stop_one(&mut self, n: usize, recycle: bool) {
        self.all_have_begun();
        let roster = self.pool.roster();
        let idle: Vec<_> = roster.iter().filter(|w| w.state == WorkerState::Idle).collect();
        if idle.is_empty() || !recycle && self.workers == 1 {
            return;
        }
        let id = idle[n % idle.len()].id;
        if recycle {
            self.pool.recycle_worker(id, StopWorker::AfterTask).unwrap();
        } else {
            self.pool.stop_worker(id, StopWorker::AfterTask).unwrap();
            self.workers -= 1;
        }
    }

    fn end(mut self, how: Shutdown) {
        let pool = self.pool.clone();
        let closing = std::thread::spawn(move || pool.shutdown(how).unwrap());
        let light = how.mode() == Mode::Light;
        // Light runs what waits; the others settle it as cancelled, at once.
        for task in self.waiting.drain(..) {
            if light {
                self.running.push(task);
            } else {
                assert!(task.handle.wait().unwrap_err().is_cancelled());
                self.expected.cancelled += 1;
            }
        }
        for task in self.running.drain(..) {
            task.end.send(End::Value).unwrap();
            let outcome = task.handle.wait();
            // Those that waited until now have just begun.
            if task.until.is_some_and(|until| until <= self.now) {
                assert!(outcome.unwrap_err().is_timed_out());
                self.expected.timed_out += 1;
            } else {
                assert_eq!(outcome.unwrap(), task.number);
                self.expected.completed += 1;
            }
        }
        let report = closing.join().unwrap();
        assert!(report.is_success(), "{report}");
        self.expected.queued = 0;
        self.expected.running = 0;
        let last = self.pool.snapshot();
        last.check().unwrap();
        assert_eq!(counts(&last), self.expected);
        assert_eq!(last.state, PoolState::Stopped { complete: true });
    }
}

fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a1_any_interleaving_comes_to_rest_where_the_model_does(
        workers in 1..4usize,
        queue in 1..6usize,
        steps in prop::collection::vec(step(), 0..24),
        how in shutdown(),
    ) {
        let mut world = World::new(workers, queue);
        for step in steps {
            world.take(step);
        }
        world.end(how);
    }
}

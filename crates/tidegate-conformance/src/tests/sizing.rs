//! W4: pools that grow and shrink with their load.
//!
//! Time is the test's. That something does *not* happen is asserted before its time has come;
//! that it does, as time goes by ([`Time::until`]), however late the supervisor gets a core.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tidegate::{
    Builder, Clock, ManualClock, Pool, Reason, Shutdown, StopWorker, WorkerError, WorkerId,
    WorkerInfo, WorkerState,
};

use crate::Ctx;
use crate::kit::{
    Background, Gate, dawdle, eventually, give_a_bug_its_chance, idle, in_background, occupy,
    refusal, value,
};

pub(super) const GROW: Duration = Duration::from_millis(10);
pub(super) const SHRINK: Duration = Duration::from_secs(10);
const COOLDOWN: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);
/// Steps of time: while a pool grows, and while it shrinks.
pub(super) const SOON: Duration = Duration::from_micros(2_500);
pub(super) const LATER: Duration = Duration::from_millis(250);

/// The test's hand on the clock.
pub(super) struct Time {
    hand: ManualClock,
    passed: Cell<Duration>,
}

impl Time {
    /// Goes by, and lets the supervisor see that.
    pub(super) fn pass(&self, time: Duration) {
        self.hand.advance(time);
        self.passed.set(self.passed.get() + time);
        // One that was due is off the list until it has looked. It may look for good.
        let enough = Instant::now() + Duration::from_millis(1);
        while self.hand.sleepers() == 0 && Instant::now() < enough {
            std::thread::yield_now();
        }
    }

    /// Goes by until `fact` holds; says when it last did not.
    #[track_caller]
    pub(super) fn until(
        &self,
        what: &str,
        step: Duration,
        mut fact: impl FnMut() -> bool,
    ) -> Duration {
        let mut before = self.passed.get();
        eventually(what, || {
            let now = self.passed.get();
            if fact() {
                return true;
            }
            before = now;
            self.pass(step);
            false
        });
        before
    }

    /// Goes by until a moment that `until` has told is so long ago, less a little.
    fn almost(&self, since: Duration, time: Duration) {
        self.pass((since + time - NANO).saturating_sub(self.passed.get()));
    }

    /// Goes by until nobody waits for more of it.
    #[track_caller]
    pub(super) fn stands_still(&self) {
        let sleeps_for_good = || {
            let mut looks = 0..100;
            looks.all(|_| {
                std::thread::yield_now();
                self.hand.sleepers() == 0
            })
        };
        self.until("the supervisor has nothing to wait for", SOON, sleeps_for_good);
    }
}

/// A builder whose time is the test's.
pub(super) fn timed(cx: &Ctx) -> (Builder, Time) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(100).clock(clock);
    let builder = builder.grow_after(GROW).shrink_after(SHRINK).resize_cooldown(COOLDOWN);
    (builder, Time { hand, passed: Cell::default() })
}

/// As many workers as there should be, and as there are.
pub(super) fn workers(pool: &Pool) -> (u64, u64) {
    let now = pool.snapshot();
    (now.workers, now.live_workers)
}

#[track_caller]
pub(super) fn becomes(pool: &Pool, size: u64) {
    eventually(&format!("there are {size} workers"), || workers(pool) == (size, size));
}

/// Puts `tasks` in at once.
pub(super) fn fill(pool: &Pool, gate: &Gate, tasks: usize) {
    assert!(pool.spawn_all((0..tasks).map(|_| gate.waiter())).is_ok(), "there is room");
}

/// A pool with as many workers as it may have, each in a task at the gate.
fn grown(builder: Builder, time: &Time, max: usize) -> (Pool, Gate) {
    let pool = builder.build().expect("the pool starts");
    let gate = Gate::new();
    fill(&pool, &gate, max);
    time.until("it grows", SOON, || gate.entered() == max);
    becomes(&pool, max as u64);
    (pool, gate)
}

/// What is at the gate ends; then nothing is left to do.
pub(super) fn done(pool: &Pool, gate: &Gate) {
    gate.open();
    idle(pool);
}

pub(crate) fn W4_grows_when_tasks_wait_and_not_before(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).build().expect("the pool starts");
    let gate = Gate::new();
    fill(&pool, &gate, 3);
    gate.wait_until_entered(1);
    time.pass(GROW - NANO);
    give_a_bug_its_chance();
    assert_eq!((workers(&pool), gate.entered()), ((1, 1), 1), "it grew too early");
    time.until("it grows", SOON, || gate.entered() == 2);
    becomes(&pool, 2);
    assert_eq!(pool.snapshot().worker_restarts, 0, "growing is no restart");
    done(&pool, &gate);
}

pub(crate) fn W4_a_worker_that_is_idle_is_enough(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).build().expect("the pool starts");
    for _ in 0..50 {
        pool.submit(|| ()).map(value).expect("there is room");
        time.pass(GROW);
    }
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (1, 1));
}

pub(crate) fn W4_holds_still_for_the_cooldown(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).build().expect("the pool starts");
    let gate = Gate::new();
    fill(&pool, &gate, 9);
    for size in 2..=4 {
        let changed = time.until("it grows", SOON, || workers(&pool).0 >= size);
        time.almost(changed, COOLDOWN);
        give_a_bug_its_chance();
        assert_eq!(workers(&pool).0, size, "it changed within the cooldown");
    }
    gate.wait_until_entered(4);
    time.pass(COOLDOWN);
    time.pass(COOLDOWN);
    give_a_bug_its_chance();
    assert_eq!((workers(&pool), gate.entered()), ((4, 4), 4), "above its maximum");
    done(&pool, &gate);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn W4_shrinks_when_idle_and_not_before(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let (pool, gate) = grown(builder.workers(2..=4), &time, 4);
    done(&pool, &gate);
    time.pass(SHRINK - NANO);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (4, 4), "it shrank too early");
    let changed = time.until("it shrinks", LATER, || workers(&pool).0 < 4);
    time.almost(changed, COOLDOWN);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool).0, 3, "it changed within the cooldown");
    time.until("it shrinks to its minimum", LATER, || workers(&pool) == (2, 2));
    time.stands_still();
    time.pass(100 * SHRINK);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (2, 2), "below its minimum");
    let ended = |w: &&WorkerInfo| matches!(w.state, WorkerState::Ended { .. });
    assert_eq!(pool.roster().iter().filter(ended).count(), 2);
    occupy(&pool, 2).open();
}

pub(crate) fn W4_a_busy_worker_is_not_sent_home(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let (pool, gate) = grown(builder.workers(1..=4), &time, 4);
    gate.let_through(3);
    eventually("three are idle", || pool.snapshot().idle_workers == 3);
    time.until("the idle go", LATER, || workers(&pool) == (2, 2));
    time.pass(SHRINK);
    time.pass(SHRINK);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (2, 2), "the one that is busy, and one in reserve");
    assert_eq!(pool.snapshot().running, 1, "a task was disturbed");
    done(&pool, &gate);
    assert_eq!(pool.snapshot().completed, 4);
}

pub(crate) fn W4_an_idle_pool_is_silent(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).build().expect("the pool starts");
    time.stands_still();
    for _ in 0..3 {
        pool.submit(|| ()).map(value).expect("there is room");
        time.stands_still();
    }
}

pub(crate) fn W4_min_0_comes_back_from_nothing(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(0..=2).build().expect("the first worker proves that it can");
    assert_eq!(workers(&pool), (1, 1));
    for round in 0..3 {
        time.pass(SHRINK - NANO);
        give_a_bug_its_chance();
        assert_eq!(workers(&pool).0, 1, "it went too early");
        time.until("the last one goes", LATER, || workers(&pool) == (0, 0));
        time.stands_still();
        let handle = pool.submit(move || round).expect("there is room");
        assert_eq!(value(handle), round, "at once: no time has passed");
        becomes(&pool, 1);
    }
    assert_eq!(pool.snapshot().worker_restarts, 0);
}

/// A pool of at most two workers that has none.
fn empty(builder: Builder, time: &Time) -> Pool {
    let pool = builder.workers(0..=2).build().expect("the pool starts");
    time.until("the last one goes", LATER, || workers(&pool) == (0, 0));
    pool
}

/// Its first worker may be sent home before the build has seen it.
pub(crate) fn W4_min_0_and_queue_0_can_be_built_however_fast_it_shrinks(cx: &Ctx) {
    let busy: Vec<_> = (0..4).map(|_| in_background(|| dawdle(3_000_000))).collect();
    for _ in 0..300 {
        let builder = cx.builder().workers(0..=2).queue(0);
        let builder = builder.shrink_after(Duration::ZERO).resize_cooldown(Duration::ZERO);
        let pool = builder.build().expect("the pool starts");
        assert_eq!(value(pool.submit(|| 7).expect("a worker comes for it")), 7);
        pool.shutdown(Shutdown::default()).expect("outside the pool");
    }
    busy.into_iter().for_each(Background::join);
}

pub(crate) fn W4_min_0_drains_from_nothing(cx: &Ctx) {
    for how in [Shutdown::light(), Shutdown::soft()] {
        let (builder, time) = timed(cx);
        let pool = empty(builder, &time);
        pool.pause();
        for _ in 0..3 {
            pool.spawn(|| ()).expect("a paused pool accepts");
        }
        let report = pool.shutdown(how).expect("outside the pool");
        assert_eq!(report.completed + report.cancelled, 3, "{report}");
        assert!(report.is_success(), "{report}");
    }
}

pub(crate) fn W4_min_0_and_queue_0_hand_over_to_a_new_worker(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = empty(builder.queue(0), &time);
    assert_eq!(pool.submit(|| 5).map(value).expect("it waits for the new worker"), 5);
}

/// A submit that waits for room; its task then waits at the gate.
pub(super) fn waiting_submit(pool: &Pool, gate: &Gate) -> Background<()> {
    let (pool, task) = (pool.clone(), gate.waiter());
    in_background(move || pool.submit(task).map(value).expect("it gets in"))
}

pub(crate) fn W4_queue_0_grows_for_whoever_finds_nobody_idle(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=2).queue(0).build().expect("the pool starts");
    let gate = occupy(&pool, 1);
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full, "a try does not wait for a thread");
    eventually("but the pool has grown for the next", || pool.try_spawn(gate.waiter()).is_ok());
    gate.wait_until_entered(2); // although no time has passed
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full, "above its maximum");
    pool.resize(1..=4).expect("it may have more");
    let waiting: Vec<_> = (0..2).map(|_| waiting_submit(&pool, &gate)).collect();
    time.until("both get a worker", SOON, || gate.entered() == 4);
    becomes(&pool, 4);
    gate.open();
    waiting.into_iter().for_each(Background::join);
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn W4_a_small_full_queue_grows_the_pool(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=2).queue(1).build().expect("the pool starts");
    let gate = occupy(&pool, 1);
    let waiting: Vec<_> = (0..9).map(|_| waiting_submit(&pool, &gate)).collect();
    eventually("eight wait for room", || pool.snapshot().waiting_submitters == 8);
    // The head never stands for long, but there is always somebody who waits for room.
    let mut through = 0;
    time.until("it grows", SOON, || {
        if through < 5 {
            through += 1;
            gate.let_through(1);
            gate.wait_until_entered(1 + through);
        }
        workers(&pool).0 == 2
    });
    gate.open();
    waiting.into_iter().for_each(Background::join);
}

pub(crate) fn W4_no_growth_while_paused(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).build().expect("the pool starts");
    pool.pause();
    let gate = Gate::new();
    fill(&pool, &gate, 8);
    for _ in 0..5 {
        time.pass(SHRINK);
        give_a_bug_its_chance();
    }
    assert_eq!(workers(&pool), (1, 1), "more workers would find nothing to do");
    pool.resize(2..=4).expect("a paused pool can be resized");
    becomes(&pool, 2);
    pool.resume();
    gate.wait_until_entered(2);
    time.pass(GROW - NANO);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (2, 2), "the pause counts as a wait");
    time.until("it grows", SOON, || workers(&pool).0 == 3);
    done(&pool, &gate);
}

pub(crate) fn W4_stuck_workers_do_not_count(cx: &Ctx) {
    const GRACE: Duration = Duration::from_secs(5);
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=2).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let deaf = pool.task("deaf").submit(move |_| passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    deaf.cancel();
    time.pass(GRACE);
    eventually("it is given up", || pool.snapshot().stuck == 1);
    becomes(&pool, 1);
    pool.submit(|| ()).map(value).expect("another worker takes its place");
    assert_eq!(workers(&pool).0, 1, "one stuck worker made it grow");
    let second = Gate::new();
    fill(&pool, &second, 3);
    time.until("it grows beside it", SOON, || second.entered() == 2);
    becomes(&pool, 2);
    assert_eq!(pool.snapshot().stuck, 1);
    gate.open();
    eventually("it returns", || pool.snapshot().late_returns == 1);
    done(&pool, &second);
    becomes(&pool, 2);
}

pub(crate) fn W4_a_thread_that_cannot_be_started_comes_later(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let refuses = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&refuses);
    let builder = builder.workers(1..=2).spawner(move |thread, body| match inside.load(SeqCst) {
        true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        false => thread.spawn(body),
    });
    let pool = builder.build().expect("the pool starts");
    refuses.store(true, SeqCst);
    let gate = Gate::new();
    fill(&pool, &gate, 3);
    let put_off = |w: &WorkerInfo| matches!(w.state, WorkerState::Restarting { .. });
    time.until("its start is put off", SOON, || pool.roster().iter().any(put_off));
    assert_eq!(workers(&pool), (2, 1));
    refuses.store(false, SeqCst);
    time.until("it comes", LATER, || gate.entered() == 2);
    done(&pool, &gate);
    assert_eq!(pool.snapshot().completed, 3);
}

pub(crate) fn W4_stop_worker_stops_at_the_minimum(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let (pool, gate) = grown(builder.workers(2..=4), &time, 4);
    let ids: Vec<WorkerId> = pool.roster().iter().map(|worker| worker.id).collect();
    pool.stop_worker(ids[0], StopWorker::AfterTask).expect("above the minimum");
    pool.stop_worker(ids[1], StopWorker::AfterTask).expect("above the minimum");
    let third = pool.stop_worker(ids[2], StopWorker::AfterTask);
    assert_eq!(third, Err(WorkerError::AtMinimum(ids[2])));
    done(&pool, &gate);
    becomes(&pool, 2);
    pool.recycle_worker(ids[2], StopWorker::AfterTask).expect("it is replaced");
    occupy(&pool, 2).open();
}

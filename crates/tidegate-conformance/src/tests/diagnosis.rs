//! V3: each condition is created, and exactly its verdict comes, by a clock that the test turns.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{
    Budget, Builder, Clock, Diagnosis, Handle, ManualClock, Pool, Shutdown, StopWorker, Verdict,
    WhenFull, WorkerState,
};

use super::sizing::{LATER, SOON, fill, timed};
use crate::Ctx;
use crate::kit::{
    Gate, deliberate_panic, eventually, idle, in_background, occupy, task_error, value,
};

const SECOND: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(5);
const WORKERS: usize = 4;

fn described(cx: &Ctx) -> (Builder, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().workers(WORKERS).queue(8).clock(clock).grace(GRACE);
    (builder.callers_may_help(false).on_unobserved(|_| ()), hand)
}

/// All workers are there, and the past is not part of the answer.
fn settled_in<S>(pool: &Pool<S>, hand: &ManualClock) {
    eventually("all are there", || pool.snapshot().live_workers == WORKERS as u64);
    hand.advance(SECOND);
    let _ = pool.diagnose();
}

fn opened(cx: &Ctx) -> (Pool, ManualClock) {
    let (builder, hand) = described(cx);
    let pool = builder.build().expect("the pool starts");
    settled_in(&pool, &hand);
    (pool, hand)
}

/// This one holds, and no other.
#[track_caller]
fn assert_only(diagnosis: &Diagnosis, verdict: Verdict) {
    assert_eq!(diagnosis.verdict, verdict, "{diagnosis}");
    assert!(diagnosis.also.is_empty(), "{diagnosis}");
    assert!(!diagnosis.evidence.is_empty(), "a verdict without evidence");
}

/// One task that takes this long, alone.
fn one_of(pool: &Pool, hand: &ManualClock, took: Duration) {
    let busy = occupy(pool, 1);
    hand.advance(took);
    busy.open();
    idle_and_timed(pool);
}

/// Times are written a moment after the outcome.
fn idle_and_timed(pool: &Pool) {
    idle(pool);
    eventually("all are timed", || {
        let now = pool.snapshot();
        now.run_time.count() == now.settled()
    });
}

/// A task that hears nothing, told to stop and given up.
fn abandon(pool: &Pool, hand: &ManualClock) -> (Gate, Handle<()>) {
    let (gate, before) = (Gate::new(), pool.snapshot().abandoned);
    let handle = pool.submit(gate.waiter()).expect("there is room");
    gate.wait_until_entered(1);
    assert!(handle.cancel());
    hand.advance(GRACE);
    eventually("it is given up", || pool.snapshot().abandoned == before + 1);
    (gate, handle)
}

pub(crate) fn V3_healthy_under_an_ordinary_load(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    for _ in 0..3 {
        one_of(&pool, &hand, SECOND);
        assert_only(&pool.diagnose(), Verdict::Healthy);
    }
}

pub(crate) fn V3_saturated_when_the_queue_is_full_and_submitters_wait(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    one_of(&pool, &hand, SECOND);
    let _ = pool.diagnose();
    let busy = occupy(&pool, WORKERS);
    for _ in 0..8 {
        pool.spawn(|| ()).expect("there is room");
    }
    assert_only(&pool.diagnose(), Verdict::Healthy);
    let other = pool.clone();
    let waiter = in_background(move || other.submit(|| ()).map(value).is_ok());
    eventually("it waits", || pool.snapshot().waiting_submitters == 1);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Saturated);
    busy.open();
    assert!(waiter.join());
}

pub(crate) fn V3_saturated_when_work_is_refused(cx: &Ctx) {
    let (builder, hand) = described(cx);
    let pool = builder.when_full(WhenFull::Reject).build().expect("the pool starts");
    settled_in(&pool, &hand);
    let busy = occupy(&pool, WORKERS);
    while pool.spawn(|| ()).is_ok() {}
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Saturated);
    busy.open();
    idle(&pool);
    one_of(&pool, &hand, SECOND);
    let earlier = pool.snapshot();
    one_of(&pool, &hand, SECOND);
    assert_only(&pool.diagnose_since(&earlier), Verdict::Healthy);
}

pub(crate) fn V3_stalled_when_work_waits_and_no_worker_finishes(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    one_of(&pool, &hand, SECOND);
    let _ = pool.diagnose();
    let busy = occupy(&pool, WORKERS);
    pool.spawn(|| ()).expect("there is room");
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy);
    hand.advance(2 * SECOND);
    assert_only(&pool.diagnose(), Verdict::Stalled);
    // A drain that hangs is one as well; the same in a pause is what was asked for.
    pool.pause();
    assert_only(&pool.diagnose(), Verdict::Healthy);
    pool.resume();
    pool.close();
    assert_only(&pool.diagnose(), Verdict::Stalled);
    busy.open();
    idle(&pool);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy);
}

/// The pool idles, and would wait for ever; but not for a worker.
pub(crate) fn V3_no_stall_when_a_submitter_waits_for_a_budget(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    let memory = Budget::new("memory", 1);
    let held = memory.acquire(1).expect("nobody has it");
    one_of(&pool, &hand, SECOND);
    let (other, wanted) = (pool.clone(), memory.clone());
    let waiter = in_background(move || other.task("").budget(&wanted, 1).submit(|_| ()).is_ok());
    eventually("it waits", || pool.snapshot().waiting_for_budget == 1);
    let _ = pool.diagnose();
    for _ in 0..2 {
        hand.advance(100 * SECOND); // far beyond any patience, twice
        let diagnosis = pool.diagnose();
        assert_only(&diagnosis, Verdict::Healthy);
        assert!(diagnosis.limited_by_budget);
        assert!(diagnosis.to_string().contains("waiting for a budget 1"), "{diagnosis}");
    }
    drop(held);
    assert!(waiter.join());
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.waiting_submitters, now.waiting_for_budget), (0, 0));
    assert_eq!(now.budget_wait, 200 * SECOND);
    assert_eq!(now.submit_wait.sum(), now.budget_wait, "it had not to wait for room");
}

pub(crate) fn V3_a_budget_that_refuses_is_no_sign_of_too_many_workers(cx: &Ctx) {
    let (builder, hand) = described(cx);
    let pool = builder.when_full(WhenFull::Reject).build().expect("the pool starts");
    settled_in(&pool, &hand);
    let memory = Budget::new("memory", 1);
    let held = memory.acquire(1).expect("nobody has it");
    let offer = || pool.task("").budget(&memory, 1).submit(|_| ()).map(value).is_ok();
    assert!(!offer() && !offer());
    hand.advance(SECOND);
    let diagnosis = pool.diagnose();
    assert_only(&diagnosis, Verdict::Healthy);
    assert!(diagnosis.limited_by_budget);
    assert!(diagnosis.to_string().contains("refused over budget 2"), "{diagnosis}");
    drop(held);
    assert!(offer());
    idle_and_timed(&pool);
    hand.advance(SECOND);
    let diagnosis = pool.diagnose();
    assert_only(&diagnosis, Verdict::Overprovisioned);
    assert!(!diagnosis.limited_by_budget, "it is over");
}

pub(crate) fn V3_a_rate_that_is_waited_for_is_seen(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = described(cx).0.clock(clock.clone()).build().expect("the pool starts");
    settled_in(&pool, &hand);
    let rate = Budget::per_second("rate", 1).burst(1).with_clock(clock);
    let task = |pool: &Pool| pool.task("").budget(&rate, 1).submit(|_| ()).map(value).is_ok();
    assert!(task(&pool));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| task(&pool));
        eventually("it waits", || pool.snapshot().waiting_for_budget == 1);
        eventually("it sleeps", || hand.sleepers() > 0);
        let _ = pool.diagnose();
        hand.advance(SECOND);
        assert!(waiter.join().expect("no panic"));
    });
    let diagnosis = pool.diagnose();
    assert_only(&diagnosis, Verdict::Healthy);
    assert!(diagnosis.to_string().contains("waited for budgets 1.0s"), "{diagnosis}");
}

pub(crate) fn V3_stuck_when_an_abandoned_task_does_not_return(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    let busy = occupy(&pool, 1);
    let (gate, _abandoned) = abandon(&pool, &hand);
    eventually("it is replaced", || pool.snapshot().live_workers == WORKERS as u64);
    assert_only(&pool.diagnose(), Verdict::Stuck);
    gate.open();
    eventually("it returns", || pool.snapshot().stuck == 0);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy);
    busy.open();
}

/// L4: above `max_abandoned` nobody comes, and that is the more urgent.
pub(crate) fn V3_short_handed_above_max_abandoned(cx: &Ctx) {
    let (builder, hand) = described(cx);
    let pool = builder.max_abandoned(0).build().expect("the pool starts");
    settled_in(&pool, &hand);
    let (gate, _abandoned) = abandon(&pool, &hand);
    let diagnosis = pool.diagnose();
    assert_eq!(diagnosis.verdict, Verdict::ShortHanded, "{diagnosis}");
    assert_eq!(diagnosis.also, [Verdict::Stuck], "{diagnosis}");
    gate.open();
    eventually("it is back", || pool.snapshot().live_workers == WORKERS as u64);
}

pub(crate) fn V3_short_handed_when_no_thread_can_be_started(cx: &Ctx) {
    let (builder, hand) = described(cx);
    let broken = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&broken);
    let builder =
        builder.restart_backoff(SECOND..=SECOND).spawner(move |thread, body| {
            match inside.load(SeqCst) {
                true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
                false => thread.spawn(body),
            }
        });
    let pool = builder.build().expect("the pool starts");
    settled_in(&pool, &hand);
    let busy = occupy(&pool, 1);
    hand.advance(SECOND);
    let _ = pool.diagnose();
    broken.store(true, SeqCst);
    let idle_one = pool.roster().into_iter().find(|w| w.state == WorkerState::Idle);
    let id = idle_one.expect("three are idle").id;
    pool.recycle_worker(id, StopWorker::AfterTask).expect("it is there");
    eventually("its place is empty, and a start has failed", || {
        let failed = |w: &tidegate::WorkerInfo| matches!(&w.state, WorkerState::Restarting { cause, .. } if cause.contains("could not"));
        pool.roster().iter().any(failed)
    });
    let earlier = pool.snapshot();
    hand.advance(SECOND / 10);
    assert_only(&pool.diagnose(), Verdict::Healthy); // it is on its way
    assert_only(&pool.diagnose_since(&earlier), Verdict::ShortHanded);
    broken.store(false, SeqCst);
    // Each time: a start that failed just now counts its back-off from later on.
    eventually("it is back", || {
        hand.advance(SECOND);
        pool.snapshot().live_workers == WORKERS as u64
    });
    assert_only(&pool.diagnose(), Verdict::Healthy);
    busy.open();
}

pub(crate) fn V3_failing_when_the_share_of_errors_jumps(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    for _ in 0..4 {
        one_of(&pool, &hand, SECOND);
    }
    let _ = pool.diagnose();
    let busy = occupy(&pool, 1);
    for n in 0..4 {
        let task = pool.submit_result(move || match n {
            0 => deliberate_panic("one of them"),
            _ => Err::<(), _>("no disk"),
        });
        task_error(task.expect("there is room"));
    }
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Failing);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy); // it is over
    busy.open();
}

pub(crate) fn V3_flapping_when_workers_are_lost_again_and_again(cx: &Ctx) {
    let (builder, hand) = described(cx);
    let faults = Arc::new(AtomicU64::new(0));
    let inside = Arc::clone(&faults);
    let builder = builder.restart_backoff(Duration::ZERO..=Duration::ZERO);
    let builder = builder.on_worker_start(move |_| {
        if inside.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            deliberate_panic("in a start hook");
        }
    });
    let pool = builder.build().expect("the pool starts");
    settled_in(&pool, &hand);
    let busy = occupy(&pool, 1);
    let before = pool.snapshot().worker_restarts;
    faults.store(5, SeqCst);
    let idle_one = pool.roster().into_iter().find(|w| w.state == WorkerState::Idle);
    let id = idle_one.expect("three are idle").id;
    pool.recycle_worker(id, StopWorker::AfterTask).expect("it is there");
    eventually("it came back every time", || {
        let now = pool.snapshot();
        faults.load(SeqCst) == 0
            && now.worker_restarts >= before + 3
            && now.live_workers == WORKERS as u64
    });
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Flapping);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy);
    busy.open();
}

pub(crate) fn V3_flapping_when_the_size_goes_up_and_down(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(1..=4).shrink_after(SECOND).build().expect("the pool starts");
    pool.resize(1..=3).expect("a hand's own changes are no flapping");
    pool.resize(1..=4).expect("nor these");
    let before = pool.snapshot();
    for _ in 0..2 {
        let gate = Gate::new();
        fill(&pool, &gate, 8);
        time.until("it grows", SOON, || pool.snapshot().live_workers == 4);
        time.pass(SECOND / 2);
        gate.open();
        idle(&pool);
        time.until("it shrinks", LATER, || pool.snapshot().live_workers == 1);
    }
    let now = pool.snapshot();
    assert_eq!(now.size_turns, 3, "up, down, up, down");
    assert_only(&now.diagnose_since(&before), Verdict::Flapping);
}

pub(crate) fn V3_starved_when_nothing_arrives(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::Starved);
    one_of(&pool, &hand, SECOND);
    assert_only(&pool.diagnose(), Verdict::Healthy);
    hand.advance(SECOND);
    pool.pause();
    assert_only(&pool.diagnose(), Verdict::Healthy);
    hand.advance(SECOND);
    pool.shutdown(Shutdown::default()).expect("outside the pool");
    assert_only(&pool.diagnose(), Verdict::Healthy);
}

pub(crate) fn V3_overprovisioned_when_workers_are_to_spare(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    for _ in 0..3 {
        one_of(&pool, &hand, SECOND / 10);
        hand.advance(SECOND - SECOND / 10);
        assert_only(&pool.diagnose(), Verdict::Overprovisioned);
    }
}

pub(crate) fn V3_suspiciously_fast_when_tasks_do_nothing(cx: &Ctx) {
    const TASKS: u64 = 200;
    let (pool, hand) = opened(cx);
    for _ in 0..TASKS {
        pool.spawn(|| ()).expect("there is room");
    }
    idle(&pool);
    eventually("all are timed", || pool.snapshot().run_time.count() == TASKS);
    hand.advance(SECOND);
    assert_only(&pool.diagnose(), Verdict::SuspiciouslyFast);
}

pub(crate) fn V3_the_window_is_the_callers_or_the_pools(cx: &Ctx) {
    let (pool, hand) = opened(cx);
    let start = pool.snapshot();
    one_of(&pool, &hand, SECOND);
    let _ = pool.diagnose();
    hand.advance(SECOND / 2);
    assert_eq!(pool.diagnose().window, SECOND + SECOND / 2, "the last call was too near");
    hand.advance(SECOND / 2);
    let last = pool.diagnose();
    assert_eq!(last.window, SECOND);
    assert_only(&last, Verdict::Starved);
    let since_start = pool.diagnose_since(&start);
    assert_eq!(since_start.window, 2 * SECOND);
    assert_only(&since_start, Verdict::Healthy);
    assert!(since_start.to_string().contains("is healthy: nothing stands out"), "{since_start}");
}

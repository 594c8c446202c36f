//! L2, L3 and O3: limits in the queue and while running, by a clock that the test turns.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tidegate::{
    Cause, Clock, ManualClock, OutcomeKind, Pool, Shutdown, TaskError, TimedOut, UnobservedKind,
    WhenFull,
};

use crate::Ctx;
use crate::kit::{
    Gate, Tracked, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background,
    occupy, task_error, value,
};

const LIMIT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(2);

fn timed(cx: &Ctx) -> (Pool, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(100).clock(clock).grace(GRACE).on_unobserved(|_| ());
    (builder.build().expect("the pool starts"), hand)
}

fn timed_out<E>(error: &TaskError<E>) -> Option<TimedOut> {
    match error {
        TaskError::TimedOut(how) => Some(*how),
        _ => None,
    }
}

pub(crate) fn L2_a_running_task_is_told_at_its_limit(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let gate = Gate::new();
    let passage = gate.passage();
    let handle = pool.task("slow").timeout(LIMIT).submit_result(move |task| {
        assert_eq!(task.time_left(), Some(LIMIT), "the clock stands still");
        passage.enter_unless(|| task.stopping());
        assert_eq!((task.cause(), task.time_left()), (Some(Cause::Timeout), Some(Duration::ZERO)));
        task.check()?;
        Ok::<_, tidegate::Stop>(())
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    hand.advance(LIMIT - MOMENT);
    give_a_bug_its_chance();
    assert!(!handle.is_settled(), "told before its time");
    hand.advance(MOMENT);
    assert_eq!(timed_out(&task_error(handle)), Some(TimedOut::Running));
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.timed_out, now.failed, now.abandoned), (1, 0, 0));
    now.check().expect("no task was lost");
}

pub(crate) fn L2_the_time_of_the_run_begins_with_it(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let busy = occupy(&pool, cx.workers());
    let handle = pool.task("patient").timeout(LIMIT).submit(|_| 7).expect("there is room");
    hand.advance(10 * LIMIT);
    give_a_bug_its_chance();
    busy.open();
    assert_eq!(value(handle), 7, "its time in the queue was counted");
}

pub(crate) fn L2_a_queued_task_ends_at_its_limit_and_frees_its_place(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(1).when_full(WhenFull::Reject).clock(clock);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (captured, drops) = Tracked::new();
    let task = pool.task("hasty").queue_timeout(LIMIT);
    let handle = task.submit(move |_| drop(captured)).expect("there is one place");
    hand.advance(LIMIT - MOMENT);
    give_a_bug_its_chance();
    assert!(!handle.is_settled() && pool.submit(|| ()).is_err(), "not yet");
    hand.advance(MOMENT);
    assert_eq!(timed_out(&task_error(handle)), Some(TimedOut::InQueue));
    assert_eq!(drops.load(SeqCst), 1, "its captures are gone before the outcome shows");
    // Every worker is stuck, and yet the place is free.
    let next = pool.submit(|| 5).expect("the place is free now, not when a worker comes by");
    busy.open();
    assert_eq!(value(next), 5);
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.timed_out, now.refused.full), (1, 1));
    now.check().expect("no task was lost");
}

pub(crate) fn L2_the_time_in_the_queue_begins_with_acceptance(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(1).clock(clock).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let first = pool.submit(|| ()).expect("there is one place");
    let submitter = {
        let pool = pool.clone();
        in_background(move || {
            pool.task("late").queue_timeout(LIMIT).submit(|_| 1).expect("a place comes free")
        })
    };
    eventually("it waits for room", || pool.snapshot().waiting_submitters == 1);
    hand.advance(10 * LIMIT);
    assert!(first.cancel(), "which gives the submitter room");
    let handle = submitter.join();
    give_a_bug_its_chance();
    assert!(!handle.is_settled(), "the wait for room was counted as time in the queue");
    hand.advance(LIMIT);
    assert_eq!(timed_out(&task_error(handle)), Some(TimedOut::InQueue));
    busy.open();
}

pub(crate) fn L2_a_task_that_starts_in_time_has_no_limit_in_the_queue(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let gate = Gate::new();
    let passage = gate.passage();
    let task = pool.task("started").queue_timeout(LIMIT);
    let handle = task.submit(move |task| {
        passage.enter();
        task.stopping()
    });
    gate.wait_until_entered(1);
    hand.advance(10 * LIMIT);
    give_a_bug_its_chance();
    gate.open();
    assert!(!value(handle.expect("there is room")), "the queue's limit hit a running task");
}

pub(crate) fn L2_a_total_limit_is_both(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let busy = occupy(&pool, cx.workers());
    let queued = pool.task("total").total_timeout(LIMIT).submit(|_| ()).expect("there is room");
    hand.advance(LIMIT);
    assert_eq!(timed_out(&task_error(queued)), Some(TimedOut::InQueue));
    busy.open();
    idle(&pool);
    let busy = occupy(&pool, cx.workers());
    let gate = Gate::new();
    let passage = gate.passage();
    let task = pool.task("total").total_timeout(2 * LIMIT).timeout(10 * LIMIT);
    let running = task.submit(move |task| passage.enter_unless(|| task.stopping()));
    hand.advance(LIMIT);
    busy.open();
    gate.wait_until_entered(1);
    hand.advance(LIMIT - MOMENT);
    give_a_bug_its_chance();
    let running = running.expect("there is room");
    assert!(!running.is_settled(), "its time is not up");
    hand.advance(MOMENT);
    assert_eq!(timed_out(&task_error(running)), Some(TimedOut::Running));
}

pub(crate) fn L2_the_pools_limit_and_opting_out(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let builder = cx.builder().queue(100).clock(clock).task_timeout(LIMIT).workers(4);
    let builder = builder.on_unobserved(move |event| {
        heard.lock().expect("nobody panics").push(event.kind);
    });
    let pool = builder.build().expect("the pool starts");
    let gate = Gate::new();
    let (one, two, three, four) = (gate.passage(), gate.passage(), gate.passage(), gate.passage());
    let plain = pool.submit(move || one.enter()).expect("there is room");
    pool.spawn(move || two.enter()).expect("there is room");
    let free = pool.task("free").no_timeout().submit(move |_| three.enter());
    let longer = pool.task("longer").timeout(100 * LIMIT).submit(move |task| {
        let left = task.time_left();
        four.enter();
        left
    });
    gate.wait_until_entered(4);
    hand.advance(LIMIT);
    gate.open();
    assert_eq!(timed_out(&task_error(plain)), Some(TimedOut::Running), "strict");
    value(free.expect("there is room"));
    assert_eq!(value(longer.expect("there is room")), Some(100 * LIMIT));
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.timed_out, now.completed), (2, 2), "one has a handle, one has none");
    // The hook hears of it after it was counted.
    let heard = || told.lock().expect("nobody panics").clone();
    eventually("nothing fails in silence", || !heard().is_empty());
    assert_eq!(heard(), [UnobservedKind::TimedOut]);
}

pub(crate) fn L2_limits_hold_while_paused_and_closed(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    pool.pause();
    let queued = pool.task("").queue_timeout(LIMIT).submit(|_| ()).expect("there is room");
    let other = pool.task("").queue_timeout(2 * LIMIT).submit(|_| ()).expect("there is room");
    hand.advance(LIMIT);
    assert_eq!(timed_out(&task_error(queued)), Some(TimedOut::InQueue));
    pool.close();
    hand.advance(LIMIT);
    assert_eq!(timed_out(&task_error(other)), Some(TimedOut::InQueue));
    assert!(pool.shutdown(Shutdown::light()).expect("outside the pool").is_success());
}

pub(crate) fn L2_on_the_callers_thread_limits_hold_too(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(1).when_full(WhenFull::CallerRuns).clock(clock);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is one place");
    let gate = Gate::new();
    let caller = {
        let (pool, passage) = (pool.clone(), gate.passage());
        in_background(move || {
            let task = pool.task("here").timeout(LIMIT);
            task.submit(move |task| passage.enter_unless(|| task.stopping()))
        })
    };
    gate.wait_until_entered(1);
    hand.advance(LIMIT);
    let handle = caller.join().expect("the caller runs it");
    assert_eq!(timed_out(&task_error(handle)), Some(TimedOut::Running));
    busy.open();
    value(queued);
}

pub(crate) fn L2_who_ignores_the_limit_is_abandoned_after_the_grace(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let gate = Gate::new();
    let (passage, told) = (gate.passage(), Gate::new());
    let hears = told.passage();
    let task = pool.task("stubborn").timeout(LIMIT);
    let handle = task.submit(move |task| {
        passage.enter_unless(|| task.stopping());
        hears.enter(); // it was told, and goes on all the same
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    hand.advance(LIMIT);
    told.wait_until_entered(1);
    hand.advance(GRACE - MOMENT);
    give_a_bug_its_chance();
    assert!(!handle.is_settled(), "given up before the grace was over");
    eventually("the grace passes", || {
        hand.advance(MOMENT);
        handle.is_settled()
    });
    assert!(matches!(task_error(handle), TaskError::Abandoned(Cause::Timeout)));
    told.open();
    eventually("it returns late", || pool.snapshot().late_returns == 1);
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.abandoned, now.timed_out, now.completed), (1, 0, 0), "a late return counted");
    now.check().expect("no task was lost");
}

pub(crate) fn L2_a_fire_and_forget_task_is_abandoned_too(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().clock(clock).grace(GRACE).task_timeout(LIMIT);
    let pool = builder.build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    pool.spawn(move || passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    eventually("limit and grace pass", || {
        hand.advance(LIMIT.max(GRACE));
        pool.snapshot().abandoned == 1
    });
    gate.open();
    eventually("it returns late", || pool.snapshot().late_returns == 1);
    assert_eq!(pool.snapshot().completed, 0);
}

pub(crate) fn L3_limits_fire_when_every_worker_is_stuck(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let busy = occupy(&pool, cx.workers());
    let limits = [3, 1, 2, 5, 4, 1];
    let queued: Vec<_> = limits
        .iter()
        .map(|n| {
            let task = pool.task("queued").queue_timeout(*n * LIMIT);
            task.submit(|_| ()).expect("there is room")
        })
        .collect();
    let forever = pool.submit(|| 9).expect("there is room");
    for round in 1..=5 {
        hand.advance(LIMIT);
        for (handle, limit) in queued.iter().zip(limits) {
            if limit <= round {
                eventually("its time is up", || handle.is_settled());
            } else {
                assert!(!handle.is_settled(), "{limit} is not {round}");
            }
        }
    }
    let ends: Vec<_> = queued.into_iter().map(|handle| timed_out(&task_error(handle))).collect();
    assert_eq!(ends, [Some(TimedOut::InQueue); 6]);
    busy.open();
    assert_eq!(value(forever), 9, "one without a limit is not touched");
}

pub(crate) fn L3_many_limits_cost_no_thread(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let busy = occupy(&pool, cx.workers());
    let handles: Vec<_> = (0..90)
        .map(|_| pool.task("many").queue_timeout(LIMIT).submit(|_| ()).expect("there is room"))
        .collect();
    let threads = crate::kit::threads_named(pool.name());
    // The workers and the supervisor.
    assert!(threads <= Some(cx.workers() + 1), "a thread per limit: {threads:?}");
    hand.advance(LIMIT);
    for handle in handles {
        assert_eq!(timed_out(&task_error(handle)), Some(TimedOut::InQueue));
    }
    assert_eq!(pool.snapshot().timed_out, 90);
    busy.open();
}

/// The whole table of O3: what the closure returned, whether it was late or told.
pub(crate) fn O3_a_timeout_is_strict(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let run = |what: &'static str, late: bool| {
        let gate = Gate::new();
        let passage = gate.passage();
        let task = pool.task(what).timeout(LIMIT).submit_result(move |_| {
            passage.enter();
            match what {
                "panic" => deliberate_panic("on purpose"),
                "error" => Err("on purpose"),
                _ => Ok(()),
            }
        });
        let task = task.expect("there is room");
        gate.wait_until_entered(1);
        hand.advance(if late { LIMIT } else { LIMIT - MOMENT });
        gate.open();
        match task.wait() {
            Ok(()) => OutcomeKind::Completed,
            Err(error) => match error.into_task().expect("we wait outside") {
                TaskError::Failed(_) => OutcomeKind::Failed,
                TaskError::Panicked(_) => OutcomeKind::Panicked,
                TaskError::TimedOut(TimedOut::Running) => OutcomeKind::TimedOut,
                other => panic!("{other:?}"),
            },
        }
    };
    assert_eq!(run("value", false), OutcomeKind::Completed);
    assert_eq!(run("error", false), OutcomeKind::Failed);
    assert_eq!(run("panic", false), OutcomeKind::Panicked);
    assert_eq!(run("value", true), OutcomeKind::TimedOut);
    assert_eq!(run("error", true), OutcomeKind::TimedOut);
    assert_eq!(run("panic", true), OutcomeKind::Panicked);
}

pub(crate) fn L2_the_summary_says_where_it_was(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let busy = occupy(&pool, cx.workers());
    let (tell, told) = mpsc::channel();
    let task = pool.task("queued").queue_timeout(LIMIT).on_outcome(move |summary| {
        tell.send((summary.kind, summary.cause, summary.run_time)).expect("the test listens");
    });
    task.spawn(|_| ()).expect("there is room");
    hand.advance(LIMIT);
    let summary = told.recv_timeout(crate::kit::HANG).expect("the callback comes");
    assert_eq!(summary, (OutcomeKind::TimedOut, Some(Cause::Timeout), None));
    busy.open();
}

pub(crate) fn L5_limits_of_zero_and_of_for_ever(cx: &Ctx) {
    let (pool, hand) = timed(cx);
    let zero = pool.task("").timeout(Duration::ZERO).submit(|_| ()).expect("there is room");
    assert_eq!(timed_out(&task_error(zero)), Some(TimedOut::Running));
    let zero = pool.task("").queue_timeout(Duration::ZERO).submit(|_| ()).expect("there is room");
    assert_eq!(timed_out(&task_error(zero)), Some(TimedOut::InQueue));
    for never in [Duration::MAX, Duration::MAX - Duration::from_nanos(1)] {
        let gate = Gate::new();
        let passage = gate.passage();
        let task = pool.task("").timeout(never).queue_timeout(never).total_timeout(never);
        let handle = task.submit(move |task| {
            passage.enter();
            task.stopping()
        });
        gate.wait_until_entered(1);
        hand.advance(Duration::from_secs(100 * 365 * 86_400));
        give_a_bug_its_chance();
        gate.open();
        assert!(!value(handle.expect("there is room")));
    }
}

//! L1, L4 and L5: what a task is told, the grace, and time that never goes wrong.

use std::sync::mpsc;
use std::time::Duration;

use tidegate::{
    Cause, Clock, ExternalId, Handle, Mode, Pool, PoolState, Shutdown, WaitError, WhenFull,
    WorkerState,
};

use crate::Ctx;
use crate::kit::{
    Background, Gate, Tracked, block_on, eventually, give_a_bug_its_chance, idle, in_background,
    occupy, task_error, value,
};

const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn L1_the_context_gives_everything(cx: &Ctx) {
    let pool = cx.builder().callers_may_help(false).build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let offer = pool.task("long").external_id(u128::MAX).submit(move |task| {
        assert!(task.check().is_ok() && !task.stopping(), "nobody has asked yet");
        assert_eq!((task.cause(), task.time_left()), (None, None));
        passage.enter();
        assert!(task.check().is_err() && task.stopping(), "it was told");
        assert_eq!(task.cause(), Some(Cause::Handle));
        (task.task_id(), task.external_id(), task.name(), task.worker_id().is_some())
    });
    let handle = offer.expect("there is room");
    let id = handle.id();
    gate.wait_until_entered(1);
    handle.cancel();
    gate.open();
    assert_eq!(value(handle), (id, Some(ExternalId::from(u128::MAX)), "long", true));
}

pub(crate) fn L1_the_token_can_be_passed_on(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (give, take) = mpsc::channel();
    let handle = pool.task("").submit(move |task| {
        give.send(task.token()).expect("the test listens");
        task.token().wait();
        task.cause()
    });
    let handle = handle.expect("there is room");
    let token = take.recv_timeout(crate::kit::HANG).expect("the task sends its token");
    assert!(!token.is_cancelled());
    handle.cancel();
    block_on(token.cancelled());
    assert!(token.wait_timeout(Duration::ZERO), "waiting for it works too");
    assert_eq!(value(handle), Some(Cause::Handle), "the task itself could wait for it");
}

/// A task that ignores every request until the gate opens.
fn stubborn(pool: &Pool, gate: &Gate) -> Handle<()> {
    let (passage, before) = (gate.passage(), gate.entered());
    let handle = pool.task("stubborn").submit(move |_| passage.enter()).expect("there is room");
    gate.wait_until_entered(before + 1);
    handle
}

pub(crate) fn L4_grace_then_abandoned_and_replaced(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let handle = stubborn(&pool, &gate);
    assert!(handle.cancel());
    hand.advance(GRACE - Duration::from_millis(2));
    give_a_bug_its_chance();
    assert!(!handle.is_settled(), "given up before the grace was over");
    hand.advance(Duration::from_millis(2));
    assert!(task_error(handle).is_abandoned());
    // Its worker counts as stuck and has a replacement: all may be busy beside it.
    occupy(&pool, cx.workers()).open();
    let stuck = pool.roster().iter().filter(|worker| worker.state == WorkerState::Stuck).count();
    assert_eq!(stuck, 1, "the roster shows the stuck worker");
    let now = pool.snapshot();
    assert_eq!((now.abandoned, now.stuck, now.live_workers), (1, 1, cx.workers() as u64));
}

pub(crate) fn L4_a_stuck_worker_that_returns_retires(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let (result, drops) = Tracked::new();
    let passage = gate.passage();
    let offer = pool.submit(move || {
        passage.enter();
        result
    });
    let handle = offer.expect("there is room");
    gate.wait_until_entered(1);
    handle.cancel();
    hand.advance(GRACE);
    assert!(task_error(handle).is_abandoned());
    gate.open();
    eventually("it returns late", || pool.snapshot().late_returns == 1);
    eventually("its late value is dropped", || {
        drops.load(std::sync::atomic::Ordering::SeqCst) == 1
    });
    eventually("nobody is stuck", || pool.snapshot().stuck == 0);
    eventually("the pool has its size again", || {
        pool.snapshot().live_workers == cx.workers() as u64
    });
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!((now.abandoned, now.completed), (1, 0), "the late return changed the outcome");
    now.check().expect("no task was lost");
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn L4_grace_zero(cx: &Ctx) {
    let pool = cx.builder().grace(Duration::ZERO).build().expect("the pool starts");
    let gate = Gate::new();
    let handle = stubborn(&pool, &gate);
    handle.cancel();
    assert!(task_error(handle).is_abandoned(), "without a grace it is given up at the first scan");
}

pub(crate) fn L4_max_abandoned_bounds_the_replacements(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(10).clock(clock).grace(GRACE).max_abandoned(1);
    let pool = builder.build().expect("the pool starts");
    let gate = Gate::new();
    for _ in 0..2 {
        let handle = stubborn(&pool, &gate);
        handle.cancel();
        hand.advance(GRACE);
        assert!(task_error(handle).is_abandoned());
    }
    let short = cx.workers() as u64 - 1;
    eventually("the pool runs short-handed", || pool.snapshot().live_workers == short);
    let rest = occupy(&pool, cx.workers() - 1);
    let waiting = pool.submit(|| 5).expect("there is room");
    give_a_bug_its_chance();
    assert!(!waiting.is_settled(), "a second replacement was started");
    gate.let_through(1);
    assert_eq!(value(waiting), 5, "capacity did not come back with the worker");
    rest.open();
    gate.open();
    eventually("nobody is stuck", || pool.snapshot().stuck == 0);
    eventually("the pool has its size", || pool.snapshot().live_workers == cx.workers() as u64);
}

pub(crate) fn L4_nobody_is_abandoned_without_a_request(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let handle = stubborn(&pool, &gate);
    hand.advance(Duration::from_secs(86_400));
    give_a_bug_its_chance();
    assert!(!handle.is_settled(), "a long task is no crime");
    gate.open();
    value(handle);
    assert_eq!(pool.snapshot().abandoned, 0);
}

pub(crate) fn L4_the_grace_counts_from_the_first_request(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let handle = stubborn(&pool, &gate);
    handle.cancel();
    hand.advance(GRACE - Duration::from_millis(2));
    handle.cancel();
    pool.cancel_task(handle.id());
    hand.advance(Duration::from_millis(2));
    assert!(task_error(handle).is_abandoned(), "a second request started the grace anew");
}

pub(crate) fn L5_duration_max_means_never(cx: &Ctx) {
    let never = Duration::MAX;
    let (clock, hand) = Clock::manual();
    let builder =
        cx.builder().queue(10).when_full(WhenFull::WaitFor(never)).grace(never).clock(clock);
    let pool = builder.build().expect("the pool starts");
    assert_eq!(value(pool.submit_timeout(never, || 1).expect("there is room")), 1);
    assert_eq!(value(pool.task("").wait_at_most(never).submit(|_| 2).expect("there is room")), 2);
    let mut handle = pool.submit(|| 3).expect("there is room");
    assert!(matches!(handle.wait_timeout(never), Some(Ok(3))));
    assert!(pool.wait_idle_timeout(never).expect("outside the pool"));
    let gate = Gate::new();
    let told = stubborn(&pool, &gate);
    told.cancel();
    hand.advance(Duration::from_secs(100 * 365 * 86_400));
    give_a_bug_its_chance();
    assert!(!told.is_settled(), "a grace of Duration::MAX ran out");
    gate.open();
    value(told);
    assert!(pool.shutdown(Shutdown::hard().within(never)).expect("outside the pool").is_success());
}

pub(crate) fn L5_nearly_endless_durations_do_not_overflow(cx: &Ctx) {
    let nearly = Duration::MAX - Duration::from_nanos(1);
    let builder = cx.builder().grace(nearly).when_full(WhenFull::WaitFor(nearly));
    let pool = builder.restart_backoff(nearly..=nearly).build().expect("the pool starts");
    let mut handle = pool.submit_timeout(nearly, || 3).expect("there is room");
    assert!(matches!(handle.wait_timeout(nearly), Some(Ok(3))));
    assert!(pool.wait_idle_timeout(nearly).expect("outside the pool"));
    assert!(
        pool.shutdown(Shutdown::light().within(nearly)).expect("outside the pool").is_success()
    );
}

pub(crate) fn L5_a_jump_of_the_clock_fires_everything_once(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    let told: Vec<_> = (0..cx.workers()).map(|_| stubborn(&pool, &gate)).collect();
    told.iter().for_each(|handle| assert!(handle.cancel()));
    // As after a suspended machine: ten years at once, and again.
    for _ in 0..2 {
        hand.advance(Duration::from_secs(10 * 365 * 86_400));
    }
    for handle in told {
        assert!(task_error(handle).is_abandoned());
    }
    hand.advance(Duration::from_secs(10 * 365 * 86_400));
    give_a_bug_its_chance();
    assert_eq!(pool.snapshot().abandoned, cx.workers() as u64, "one was given up twice");
    gate.open();
    eventually("all return", || pool.snapshot().late_returns == cx.workers() as u64);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn L5_zero_waits_do_not_wait(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let mut queued = pool.submit(|| ()).expect("there is one place");
    assert!(queued.wait_timeout(Duration::ZERO).is_none());
    assert!(pool.submit_timeout(Duration::ZERO, || ()).is_err(), "no room, no wait");
    assert!(!pool.wait_idle_timeout(Duration::ZERO).expect("outside the pool"));
    busy.open();
    match queued.wait() {
        Ok(()) => {}
        Err(WaitError::Task(error)) => panic!("the task ended badly: {error:?}"),
        Err(_) => panic!("looking at a handle used it up"),
    }
}

/// Every call waits, is disturbed on the way, and has to go on waiting.
pub(crate) fn hazard_88_waits_of_duration_max_end_when_it_happens(cx: &Ctx) {
    const NEVER: Duration = Duration::MAX;
    let (manual, hand) = Clock::manual();
    let a_century_passes = || {
        hand.advance(Duration::from_secs(100 * 365 * 86_400));
        give_a_bug_its_chance();
    };
    for clock in [Clock::system(), manual] {
        let pool = cx.builder().queue(2).clock(clock).build().expect("the pool starts");
        let (gate, last) = (occupy(&pool, cx.workers()), Gate::new());
        let mut queued = pool.submit(|| 1).expect("there is room");
        pool.spawn(last.waiter()).expect("there is room");
        let outcome = in_background(move || queued.wait_timeout(NEVER));
        let offer = with(&pool, |pool| pool.submit_timeout(NEVER, || 2).expect("room comes"));
        let idle = with(&pool, |pool| pool.wait_idle_timeout(NEVER).expect("outside the pool"));
        eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
        a_century_passes();
        assert!(!outcome.is_finished() && !offer.is_finished(), "never came");
        gate.let_through(1);
        assert!(matches!(outcome.join(), Some(Ok(1))));
        let late = offer.join();
        last.wait_until_entered(1);
        let how = Shutdown::light().within(NEVER);
        let end = with(&pool, move |pool| pool.shutdown(how).expect("outside the pool"));
        eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
        a_century_passes();
        assert!(!idle.is_finished() && !end.is_finished(), "never came");
        gate.open();
        last.open();
        assert_eq!(value(late), 2);
        assert!(idle.join(), "it became idle in the end");
        assert!(end.join().is_success());
    }
}

fn with<T: Send + 'static>(
    pool: &Pool,
    call: impl FnOnce(&Pool) -> T + Send + 'static,
) -> Background<T> {
    let pool = pool.clone();
    in_background(move || call(&pool))
}

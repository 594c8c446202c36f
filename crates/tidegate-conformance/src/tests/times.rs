//! A2 and A3: how long tasks waited and ran, and how busy the workers were.

use std::time::Duration;

use tidegate::{Clock, Histogram, ManualClock, Pool, Shutdown, WorkerState};

use crate::Ctx;
use crate::kit::{Gate, eventually, idle, in_background, occupy, value};

const SECOND: Duration = Duration::from_secs(1);

fn timed(cx: &Ctx, queue: usize) -> (Pool, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().workers(cx.workers()).queue(queue).clock(clock);
    let pool = builder.callers_may_help(false).build();
    (pool.expect("the pool starts"), hand)
}

/// So many were measured, and all took this long, to within a bucket. One may stand for others
/// that were taken before their time was noted.
#[track_caller]
fn assert_all_took(histogram: &Histogram, took: Duration, samples: u64) {
    let within = |time: Option<Duration>| {
        time.is_some_and(|time| time >= took && time <= took.mul_f64(1.26))
    };
    assert!(within(histogram.quantile(0.0)) && within(histogram.quantile(1.0)), "{histogram}");
    assert_eq!(histogram.samples(), samples, "{histogram}");
    assert!(histogram.count() >= samples, "{histogram}");
    assert_eq!(histogram.sum(), took * histogram.count() as u32);
}

pub(crate) fn A2_the_wait_in_the_queue_is_measured(cx: &Ctx) {
    let (pool, hand) = timed(cx, 100);
    let busy = occupy(&pool, cx.workers());
    let before = pool.snapshot();
    let waiting: Vec<_> = (0..4)
        .map(|n| match n {
            0 => pool.submit(|| ()).expect("there is room"),
            _ => pool.task("named").submit(|_| ()).expect("there is room"),
        })
        .collect();
    hand.advance(5 * SECOND);
    busy.open();
    waiting.into_iter().for_each(value);
    idle(&pool);
    let now = pool.snapshot();
    assert_all_took(&now.queue_wait.since(&before.queue_wait), 5 * SECOND, 4);
    let named = &now.tasks[0];
    assert_eq!(&*named.name, "named");
    assert_all_took(&named.queue_wait, 5 * SECOND, 3);
}

pub(crate) fn A2_the_run_is_measured_by_name(cx: &Ctx) {
    let (pool, hand) = timed(cx, 100);
    for (before, name) in ["", "long", "longer"].into_iter().enumerate() {
        let gate = Gate::new();
        let passage = gate.passage();
        let task = pool.task(name).submit(move |_| passage.enter()).expect("there is room");
        gate.wait_until_entered(1);
        hand.advance(match name {
            "longer" => 9 * SECOND,
            _ => 3 * SECOND,
        });
        gate.open();
        value(task);
        // The worker reads the clock a moment later: until then time must stand.
        eventually("it was timed", || pool.snapshot().run_time.count() == before as u64 + 1);
    }
    let now = pool.snapshot();
    assert_eq!(now.run_time.sum(), 15 * SECOND, "{now}");
    let names: Vec<_> = now.tasks.iter().map(|times| &*times.name).collect();
    assert_eq!(names, ["long", "longer"]);
    assert_all_took(&now.tasks[0].run_time, 3 * SECOND, 1);
    assert_all_took(&now.tasks[1].run_time, 9 * SECOND, 1);
}

/// Also before a worker has run many tasks, and whether they have a name or not.
pub(crate) fn A2_a_busy_worker_shows_at_once(cx: &Ctx) {
    for name in ["", "named"] {
        let (clock, hand) = Clock::manual();
        let pool = cx.builder().workers(1).queue(10).clock(clock).build().expect("it starts");
        let gate = Gate::new();
        for _ in 0..4 {
            let passage = gate.passage();
            let task = pool.task(name).submit(move |_| passage.enter());
            task.expect("there is room").detach();
        }
        for ran in 1..=4 {
            gate.wait_until_entered(ran);
            let before = pool.snapshot();
            hand.advance(SECOND);
            let now = pool.snapshot();
            assert_eq!(now.busy, SECOND * ran as u32, "{name:?}, {now}");
            assert!(now.utilisation_since(&before) > 0.99, "{name:?}, {now}");
            gate.let_through(1);
            // The next one, or the rest, is where it is noted.
            eventually("it is timed", || pool.snapshot().run_time.count() == ran as u64);
        }
        let now = pool.snapshot();
        assert_eq!((now.run_time.samples(), now.run_time.sum()), (4, 4 * SECOND), "{name:?}");
    }
}

pub(crate) fn A2_a_shutdown_forgets_no_run(cx: &Ctx) {
    const TASKS: u64 = 1_000;
    let pool = cx.builder().queue(TASKS as usize).build().expect("the pool starts");
    for _ in 0..TASKS {
        pool.spawn(|| ()).expect("there is room");
    }
    pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!(pool.snapshot().run_time.count(), TASKS);
}

pub(crate) fn A2_the_wait_for_room_is_measured(cx: &Ctx) {
    let (pool, hand) = timed(cx, 1);
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is one place");
    let other = pool.clone();
    let waiter = in_background(move || other.task("patient").submit(|_| ()).map(value).is_ok());
    eventually("it waits", || pool.snapshot().waiting_submitters == 1);
    hand.advance(2 * SECOND);
    busy.open();
    assert!(waiter.join());
    value(queued);
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!(now.submit_wait.count(), now.accepted, "those that did not wait count as well");
    assert_eq!(now.submit_wait.sum(), 2 * SECOND);
    let patient = now.tasks.iter().find(|times| &*times.name == "patient").expect("it is there");
    assert_all_took(&patient.submit_wait, 2 * SECOND, 1);
}

pub(crate) fn A2_utilisation_is_the_share_of_time_in_tasks(cx: &Ctx) {
    let (pool, hand) = timed(cx, 100);
    eventually("all are there", || pool.snapshot().live_workers == cx.workers() as u64);
    let before = pool.snapshot();
    hand.advance(SECOND);
    assert!(pool.snapshot().utilisation_since(&before) < 0.01, "nobody works");
    let before = pool.snapshot();
    let busy = occupy(&pool, 1);
    hand.advance(SECOND);
    let during = pool.snapshot().utilisation_since(&before);
    let expected = 1.0 / cx.workers() as f64;
    assert!((during - expected).abs() < 0.01, "{during} with one of {} busy", cx.workers());
    busy.open();
    idle(&pool);
    eventually("the task is counted", || pool.snapshot().run_time.count() == 1);
    let before = pool.snapshot();
    hand.advance(SECOND);
    assert!(pool.snapshot().utilisation_since(&before) < 0.01, "it has ended");
}

pub(crate) fn A2_a_snapshot_has_the_roster(cx: &Ctx) {
    let (pool, hand) = timed(cx, 100);
    let gate = Gate::new();
    let passage = gate.passage();
    let task = pool.task("seen").submit(move |_| passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    hand.advance(SECOND);
    let now = pool.snapshot();
    let running = now.roster.iter().filter_map(|worker| match worker.state {
        WorkerState::Running { name, since, .. } => Some((name, since)),
        _ => None,
    });
    assert_eq!(running.collect::<Vec<_>>(), [("seen", SECOND)], "{now}");
    gate.open();
    value(task);
}

/// Real time, so only counts are looked at: each task stands for itself or is stood for.
pub(crate) fn A3_short_tasks_are_sampled_and_counters_are_not(cx: &Ctx) {
    const TASKS: u64 = 50_000;
    let pool = cx.builder().queue(1_000).build().expect("the pool starts");
    for _ in 0..TASKS {
        pool.spawn(|| ()).expect("there is room");
    }
    idle(&pool);
    eventually("all are timed", || pool.snapshot().run_time.count() == TASKS);
    let now = pool.snapshot();
    assert_eq!((now.completed, now.submit_wait.count()), (TASKS, TASKS));
    assert!(now.run_time.samples() <= TASKS);
    assert!(now.queue_wait.count() <= TASKS, "{now}");
    assert!(now.queue_wait.samples() > 0, "{now}");
}

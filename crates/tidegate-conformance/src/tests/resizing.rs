//! W4: `resize`, and what many changes of size at once must not do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Builder, Pool, ResizeError, Shutdown, StopWorker, WorkerState};

use super::sizing::{SHRINK, SOON, becomes, done, fill, timed, waiting_submit, workers};
use crate::Ctx;
use crate::kit::{
    Background, Gate, Peak, dawdle, eventually, give_a_bug_its_chance, idle, in_background, occupy,
    value, workers_of,
};

pub(crate) fn W4_resize_up_lets_waiting_submitters_in(cx: &Ctx) {
    for queue in [0, 1] {
        let pool = cx.builder().workers(1).queue(queue).build().expect("the pool starts");
        let gate = occupy(&pool, 1);
        let waiting: Vec<_> = (0..2 + queue).map(|_| waiting_submit(&pool, &gate)).collect();
        eventually("two wait", || pool.snapshot().waiting_submitters == 2);
        pool.resize(2).expect("it grows");
        gate.wait_until_entered(2);
        pool.resize(3 + queue).expect("it grows");
        gate.wait_until_entered(3 + queue);
        eventually("nobody waits", || pool.snapshot().waiting_submitters == 0);
        gate.open();
        waiting.into_iter().for_each(Background::join);
        assert_eq!(pool.snapshot().worker_restarts, 0, "growing is no restart");
    }
}

/// The supervisor may be about to grow the pool when somebody fixes its size.
pub(crate) fn W4_a_resize_is_not_undone(cx: &Ctx) {
    let builder = cx.builder().workers(1..=64).queue(1_000).grow_after(Duration::ZERO);
    let builder = builder.resize_cooldown(Duration::ZERO).shrink_after(Duration::MAX);
    let pool = builder.build().expect("the pool starts");
    let stop = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (pool, stop) = (pool.clone(), Arc::clone(&stop));
        in_background(move || {
            while !stop.load(SeqCst) {
                drop(pool.try_spawn(|| dawdle(2_000))); // full, sometimes
            }
        })
    };
    for round in 0..300 {
        pool.resize(2).expect("it is not closing");
        pool.resize(1..=64).expect("it is not closing");
        dawdle(round * 10);
        let now = pool.snapshot().workers;
        pool.resize(now as usize).expect("it is not closing");
        give_a_bug_its_chance();
        assert_eq!(pool.snapshot().workers, now, "round {round}: somebody else has the last word");
    }
    stop.store(true, SeqCst);
    feeder.join();
    pool.shutdown(Shutdown::hard()).expect("outside the pool");
}

pub(crate) fn W4_resize_above_the_first_size_stays_correct(cx: &Ctx) {
    // The ring was made for one worker: with `queue(0)` the others are served by the spill.
    let pool = cx.builder().workers(1).queue(0).build().expect("the pool starts");
    pool.resize(40).expect("it grows");
    becomes(&pool, 40);
    for _ in 0..20 {
        occupy(&pool, 40).open();
        idle(&pool);
    }
    assert_eq!(pool.snapshot().completed, 800);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn W4_resize_down_lets_running_tasks_finish(cx: &Ctx) {
    let pool = cx.builder().workers(4).queue(20).build().expect("the pool starts");
    let gate = occupy(&pool, 4);
    let peak = Peak::new();
    for _ in 0..8 {
        let peak = Arc::clone(&peak);
        pool.spawn(move || peak.during(std::thread::yield_now)).expect("there is room");
    }
    pool.resize(1).expect("it shrinks");
    eventually("three are told", || {
        let stopping = |w: &&tidegate::WorkerInfo| w.state == WorkerState::Stopping;
        pool.roster().iter().filter(stopping).count() == 3
    });
    assert_eq!(pool.snapshot().running, 4, "a task was disturbed");
    done(&pool, &gate);
    becomes(&pool, 1);
    assert_eq!((pool.snapshot().completed, peak.most()), (12, 1));
}

pub(crate) fn W4_resize_down_and_up_again_keeps_the_busy(cx: &Ctx) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&started);
    let builder = cx.builder().workers(4).on_worker_start(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let pool = builder.build().expect("the pool starts");
    let gate = occupy(&pool, 4);
    let stopping = || {
        let stopping = |w: &&tidegate::WorkerInfo| w.state == WorkerState::Stopping;
        pool.roster().iter().filter(stopping).count()
    };
    pool.resize(1).expect("it shrinks");
    eventually("three are told", || stopping() == 3);
    pool.resize(4).expect("it grows");
    eventually("they are called back", || stopping() == 0);
    done(&pool, &gate);
    occupy(&pool, 4).open();
    assert_eq!(started.load(SeqCst), 4, "threads were started although four were there");
}

pub(crate) fn W4_resize_between_numbers_and_ranges(cx: &Ctx) {
    let (builder, time) = timed(cx);
    let pool = builder.workers(2).build().expect("the pool starts");
    pool.resize(3..=5).expect("a range");
    becomes(&pool, 3);
    let gate = Gate::new();
    fill(&pool, &gate, 9);
    time.until("it grows", SOON, || gate.entered() == 5);
    pool.resize(0..=2).expect("a smaller range");
    done(&pool, &gate);
    becomes(&pool, 2);
    pool.resize(4).expect("a number");
    becomes(&pool, 4);
    time.pass(100 * SHRINK);
    give_a_bug_its_chance();
    assert_eq!(workers(&pool), (4, 4), "a fixed pool changes by itself");
    time.stands_still();
}

pub(crate) fn W4_resize_says_what_is_wrong(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    #[allow(clippy::reversed_empty_ranges, reason = "that is what is wrong with it")]
    let wrong = [tidegate::Workers::from(0), (3..=2).into(), (1..=1_000_000).into()];
    // Without the name of the pool.
    let complaint = |error: String| error.split_once(": ").expect("of a pool").1.to_owned();
    for workers in wrong {
        let said = pool.resize(workers).expect_err("it makes no sense").to_string();
        let built = cx.builder().workers(workers).build().expect_err("nor here").to_string();
        assert!(said.contains(pool.name()), "{said}");
        assert_eq!(complaint(said.clone()), complaint(built));
        assert!(said.contains("workers is") && said.contains("expected 1 to"), "{said}");
    }
    pool.close();
    pool.resize(2).expect("a closed pool may drain faster");
    pool.shutdown(Shutdown::default()).expect("outside the pool");
    assert_eq!(pool.resize(2), Err(ResizeError::Closing));
}

/// As fast as it can: every look may change the size.
fn restless(cx: &Ctx) -> Builder {
    let builder = cx.builder().queue(100).grow_after(Duration::ZERO);
    builder.shrink_after(Duration::from_millis(1)).resize_cooldown(Duration::ZERO)
}

/// Resizes until it is dropped.
struct Resizer(Arc<AtomicBool>, Option<Background<u64>>);

impl Resizer {
    fn start(pool: &Pool) -> Resizer {
        let over = Arc::new(AtomicBool::new(false));
        let (pool, done) = (pool.clone(), Arc::clone(&over));
        let sizes: [tidegate::Workers; 6] =
            [1.into(), 6.into(), (0..=3).into(), (2..=8).into(), 2.into(), (0..=1).into()];
        let resizing = in_background(move || {
            let mut changes = 0;
            while !done.load(SeqCst) && pool.resize(sizes[changes as usize % 6]).is_ok() {
                changes += 1;
                give_a_bug_its_chance();
            }
            changes
        });
        Resizer(over, Some(resizing))
    }

    fn stop(mut self) -> u64 {
        self.0.store(true, SeqCst);
        self.1.take().expect("it is stopped once").join()
    }
}

pub(crate) fn W4_resizing_under_load_loses_nothing(cx: &Ctx) {
    const EACH: u64 = 3_000;
    for queue in [0, 2, 200] {
        let pool = restless(cx).workers(0..=4).queue(queue).build().expect("the pool starts");
        let resizer = Resizer::start(&pool);
        let ran = Arc::new(AtomicU64::new(0));
        let submitters: Vec<_> = (0..3)
            .map(|_| {
                let (pool, ran) = (pool.clone(), Arc::clone(&ran));
                in_background(move || {
                    for n in 0..EACH {
                        let ran = Arc::clone(&ran);
                        let task = move || {
                            ran.fetch_add(1, SeqCst);
                        };
                        pool.spawn(task).expect("it waits for room");
                        if n % 500 == 0 {
                            give_a_bug_its_chance(); // a pause between bursts
                        }
                    }
                })
            })
            .collect();
        submitters.into_iter().for_each(Background::join);
        assert!(resizer.stop() > 0);
        idle(&pool);
        assert_eq!(ran.load(SeqCst), 3 * EACH);
        pool.snapshot().check().expect("no task was lost");
        let report = pool.shutdown(Shutdown::default()).expect("outside the pool");
        assert!(report.is_success(), "{report}");
    }
}

pub(crate) fn hazard_30_deciders_never_go_below_the_minimum(cx: &Ctx) {
    for _ in 0..20 {
        let pool = restless(cx).workers(2..=6).build().expect("the pool starts");
        let gate = Gate::new();
        let tasks: Vec<_> =
            (0..12).map(|_| pool.submit(gate.waiter()).expect("there is room")).collect();
        gate.wait_until_entered(6);
        gate.open();
        let stoppers: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                in_background(move || {
                    for worker in pool.roster() {
                        let _ = pool.stop_worker(worker.id, StopWorker::AfterTask);
                    }
                    pool.snapshot().workers
                })
            })
            .collect();
        for stopper in stoppers {
            assert!(stopper.join() >= 2, "below its minimum");
        }
        tasks.into_iter().for_each(|task| value(task));
        becomes(&pool, 2);
    }
}

pub(crate) fn hazard_34_a_burst_leaves_no_threads_behind(cx: &Ctx) {
    let pool = restless(cx).workers(0..=16).build().expect("the pool starts");
    let gate = Gate::new();
    for _ in 0..64 {
        pool.spawn(gate.waiter()).expect("there is room");
    }
    gate.wait_until_entered(16);
    if let Some(threads) = workers_of(pool.name()) {
        assert_eq!(threads, 16);
    }
    done(&pool, &gate);
    eventually("all threads are gone", || workers_of(pool.name()).unwrap_or(0) == 0);
    becomes(&pool, 0);
    pool.submit(|| ()).map(value).expect("and one comes back");
}

pub(crate) fn hazard_87_resize_races_with_shutdown(cx: &Ctx) {
    for round in 0..30 {
        let pool = restless(cx).workers(0..=4).queue(50).build().expect("the pool starts");
        let resizer = Resizer::start(&pool);
        let mut accepted = 0;
        for _ in 0..round * 7 {
            accepted += u64::from(pool.try_spawn(|| ()).is_ok());
        }
        let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
        assert!(report.is_success(), "{report}");
        resizer.stop();
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.completed, now.live_workers), (accepted, accepted, 0));
    }
}

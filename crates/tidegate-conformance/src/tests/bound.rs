//! R6 and R7: the bound is exact, and tasks start in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tidegate::{Pool, Reason};

use crate::kit::{
    Gate, Peak, Ran, eventually, idle, in_background, job, occupy, occupy_port, refusal, taken,
    value, why_refused,
};
use crate::{Ctx, How};

pub(crate) fn R6_bound_is_exact(cx: &Ctx) {
    for queue in [1, 2, 3, 5, 64, 100, 1_000] {
        let pool = cx.open_with(cx.wish().queue(queue));
        let busy = occupy_port(&*pool, cx.workers());
        for n in 0..queue {
            let offer = pool.try_submit(job(|| 0));
            assert!(offer.is_ok(), "place {n} of {queue} was refused");
        }
        assert_eq!(why_refused(pool.try_submit(job(|| 0))), Reason::Full, "more than {queue} wait");
        busy.open();
        pool.shutdown(How::Light);
    }
}

pub(crate) fn R6_one_place_comes_free_for_one_task(cx: &Ctx) {
    let pool = cx.builder().queue(3).build().expect("the pool starts");
    let gate = occupy(&pool, cx.workers());
    let fill = || std::iter::from_fn(|| pool.try_spawn(gate.waiter()).ok()).count();
    assert_eq!(fill(), 3);
    for n in 1..=20 {
        gate.let_through(1);
        gate.wait_until_entered(cx.workers() + n);
        assert_eq!(fill(), 1, "one task started, so one place is free");
    }
    gate.open();
}

pub(crate) fn R6_bound_holds_under_contention(cx: &Ctx) {
    for _ in 0..20 {
        let pool = cx.builder().queue(7).build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers());
        let start = Gate::new();
        let rivals: Vec<_> = (0..4)
            .map(|_| {
                let (pool, start) = (pool.clone(), start.passage());
                in_background(move || {
                    start.enter();
                    (0..50).filter(|_| pool.try_spawn(|| ()).is_ok()).count()
                })
            })
            .collect();
        start.wait_until_entered(4);
        start.open();
        let accepted: usize = rivals.into_iter().map(|rival| rival.join()).sum();
        assert_eq!(accepted, 7, "check and increment came apart");
        busy.open();
    }
}

pub(crate) fn R6_queue_zero(cx: &Ctx) {
    let pool = cx.builder().queue(0).build().expect("the pool starts");
    let gate = occupy(&pool, cx.workers());
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full, "no worker is idle");
    let waiting = {
        let pool = pool.clone();
        in_background(move || value(pool.submit(|| 4).expect("an idle worker takes it")))
    };
    eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
    gate.let_through(1);
    assert_eq!(waiting.join(), 4, "an idle worker was not handed the task");
    gate.open();
    idle(&pool);
    let all_again = occupy(&pool, cx.workers());
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full);
    assert_eq!(pool.snapshot().queued, 0, "nothing may wait in a queue of 0");
    all_again.open();
}

pub(crate) fn R6_defaults(cx: &Ctx) {
    let pool = Pool::builder(cx.wish().name).build().expect("the pool starts");
    let parallelism = std::thread::available_parallelism().map_or(1, usize::from);
    let now = pool.snapshot();
    assert_eq!((now.workers, now.queue_capacity), (parallelism as u64, 1_000));
}

pub(crate) fn R6_nested_tasks_stay_within_the_bound(cx: &Ctx) {
    let pool = cx.builder().queue(1_000).build().expect("the pool starts");
    let peak = Peak::new();
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (inside, peak) = (pool.clone(), Arc::clone(&peak));
            let outer = move || {
                let inner = inside.try_submit(move || peak.during(std::thread::yield_now));
                inner.map(value).is_ok()
            };
            pool.submit(outer).expect("there is room")
        })
        .collect();
    assert!(tasks.into_iter().all(value), "there was room for every inner task");
    assert!(
        peak.most() <= cx.workers(),
        "{} innermost closures on {} workers",
        peak.most(),
        cx.workers()
    );
}

pub(crate) fn R7_start_order(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(300));
    let gate = occupy_port(&*pool, cx.workers());
    let ran = Ran::new();
    let note = |n: u64| {
        let ran = ran.clone();
        move || {
            ran.note(n);
            n
        }
    };
    let handles: Vec<_> = (0..300)
        .filter_map(|n| match n % 2 {
            0 => Some(taken(pool.submit(job(note(n))))),
            _ => pool.spawn(Box::new(ran.noting(n))).map(|()| None).expect("there is room"),
        })
        .collect();
    // One worker alone does them all, so that the order in which they run is
    // the order in which they were taken.
    gate.let_through(1);
    eventually("all have run", || ran.order().len() == 300);
    assert_eq!(ran.order(), (0..300).collect::<Vec<_>>(), "somebody overtook");
    gate.open();
    handles.into_iter().for_each(|handle| drop(handle.wait()));
    pool.shutdown(How::Light);
}

pub(crate) fn R7_start_order_in_waves(cx: &Ctx) {
    let (workers, waves) = (cx.workers(), 5);
    let pool = cx.open_with(cx.wish().queue(workers * waves));
    let busy = occupy_port(&*pool, workers);
    let (ran, gate) = (Ran::new(), Gate::new());
    for n in 0..workers * waves {
        let (note, passage) = (ran.noting(n as u64), gate.passage());
        let work = move || {
            note();
            passage.enter();
        };
        pool.spawn(Box::new(work)).expect("there is room");
    }
    busy.open();
    for wave in 1..=waves {
        gate.wait_until_entered(wave * workers);
        let mut seen = ran.order();
        seen.sort_unstable();
        let expected: Vec<u64> = (0..(wave * workers) as u64).collect();
        assert_eq!(seen, expected, "wave {wave} started a task out of turn");
        gate.let_through(workers);
    }
    pool.shutdown(How::Light);
}

pub(crate) fn R7_order_survives_a_flood_of_cancelled_tasks(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let ran = Ran::new();
    // Between two tasks that stay, thousands come and go: the ring fills with
    // dead slots although there is room.
    for n in 0..20 {
        pool.spawn(ran.noting(n)).expect("cancelled tasks hold no place");
        for _ in 0..5_000 {
            let doomed = pool.submit(|| ()).expect("cancelled tasks hold no place");
            assert!(doomed.cancel(), "a queued task can be cancelled");
        }
    }
    assert_eq!(pool.snapshot().queued, 20);
    busy.let_through(1);
    eventually("the survivors have run", || ran.order().len() == 20);
    assert_eq!(ran.order(), (0..20).collect::<Vec<_>>(), "the order was lost in the flood");
    busy.open();
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn R7_no_task_waits_behind_a_long_one(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = cx.open();
    for _ in 0..50 {
        let long = occupy_port(&*pool, 1);
        let handles: Vec<_> = (0..20).map(|n| taken(pool.submit(job(move || n)))).collect();
        // The long one is still running: if a task were stuck behind it, this would hang.
        handles.into_iter().for_each(|handle| drop(handle.wait()));
        long.open();
    }
    pool.shutdown(How::Light);
}

pub(crate) fn R7_short_mode_strands_nothing(cx: &Ctx) {
    cx.needs_workers(2);
    const OUTSTANDING: usize = 100;
    let pool = cx.builder().queue(1_000).build().expect("the pool starts");
    for tasks in [50_000_u64].into_iter().chain([5_000; 19]) {
        // So many and so short that one worker does them alone and the others sleep.
        let mut short = VecDeque::new();
        for n in 0..tasks {
            if short.len() == OUTSTANDING {
                short.pop_front().map(value);
            }
            short.push_back(pool.submit(move || n).expect("there is room"));
        }
        let gate = Gate::new();
        pool.spawn(gate.waiter()).expect("there is room");
        short.extend((0..20).map(|n| pool.submit(move || n).expect("there is room")));
        eventually("those behind the long task settle while it runs", || {
            short.iter().all(|handle| handle.is_settled())
        });
        gate.wait_until_entered(1);
        gate.open();
        let values: Vec<u64> = short.into_iter().map(value).collect();
        assert_eq!(values.len(), OUTSTANDING + 20);
    }
}

pub(crate) fn R7_order_of_one_producer_among_many(cx: &Ctx) {
    let pool = cx.builder().queue(4).build().expect("the pool starts");
    let gate = occupy(&pool, cx.workers() - 1);
    let misplaced = Arc::new(AtomicUsize::new(0));
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, misplaced) = (pool.clone(), Arc::clone(&misplaced));
            in_background(move || {
                let next = Arc::new(AtomicUsize::new(0));
                for n in 0..500 {
                    let (next, misplaced) = (Arc::clone(&next), Arc::clone(&misplaced));
                    let work = move || {
                        let in_turn = next.swap(n + 1, SeqCst) == n;
                        misplaced.fetch_add(usize::from(!in_turn), SeqCst);
                    };
                    pool.spawn(work).expect("an open pool accepts");
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join());
    // Before the others are free: two that start in order may still overtake each other.
    eventually("the one free worker has run them all", || pool.snapshot().completed == 2_000);
    gate.open();
    assert_eq!(misplaced.load(SeqCst), 0, "tasks of one producer changed places");
}

pub(crate) fn R6_queue_zero_takes_work_from_the_start(cx: &Ctx) {
    for _ in 0..20 {
        let pool = cx.builder().queue(0).build().expect("the pool starts");
        value(pool.try_submit(|| ()).expect("a worker is idle"));
    }
}

//! A1 and A2: the numbers add up, at rest and always.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Pool, Shutdown, Snapshot, Token, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, deliberate_panic, eventually, idle, in_background, occupy, sum_of_outcomes,
};

/// One of everything that can happen to a task, over and over. How many were offered.
fn mixed_load(pool: &Pool, rounds: u64) -> u64 {
    let spent = Token::new();
    spent.cancel();
    for n in 0..rounds {
        let token = Token::new();
        drop(pool.spawn(|| ()));
        drop(pool.submit(move || n));
        drop(pool.submit_result(|| Err::<(), _>("failed")));
        drop(pool.spawn(|| deliberate_panic("counted")));
        drop(pool.task("").cancel_with(&spent).submit(|_| ()));
        drop(pool.task("told").cancel_with(&token).submit(|_| ()));
        token.cancel();
        if let Ok(handle) = pool.try_submit(|| ()) {
            handle.cancel();
        }
    }
    rounds * 7
}

fn assert_exact_at_rest(now: &Snapshot, offered: u64) {
    assert_eq!(now.offered(), offered, "an offer was neither accepted nor refused");
    assert_eq!(now.offered(), now.accepted + now.refused.total());
    assert_eq!((now.queued, now.running), (0, 0), "a gauge stuck");
    assert_eq!(now.accepted, now.settled(), "a task was lost or counted twice");
    assert_eq!((now.waiting_submitters, now.stuck), (0, 0), "a gauge stuck");
}

pub(crate) fn A1_identity_at_rest(cx: &Ctx) {
    let policies = [
        WhenFull::Wait,
        WhenFull::Reject,
        WhenFull::DropNewest,
        WhenFull::DropOldest,
        WhenFull::CallerRuns,
    ];
    for policy in policies {
        let pool = cx.builder().queue(4).when_full(policy).build().expect("the pool starts");
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                in_background(move || mixed_load(&pool, 60))
            })
            .collect();
        let offered: u64 = producers.into_iter().map(|producer| producer.join()).sum();
        idle(&pool);
        assert_exact_at_rest(&pool.snapshot(), offered);
        pool.shutdown(Shutdown::light()).expect("outside the pool");
        assert!(pool.spawn(|| ()).is_err());
        assert_exact_at_rest(&pool.snapshot(), offered + 1);
    }
}

pub(crate) fn A1_gauges_stay_within_their_bounds(cx: &Ctx) {
    const QUEUE: usize = 8;
    let builder = cx.builder().queue(QUEUE).callers_may_help(false);
    let pool = builder.build().expect("the pool starts");
    let producers: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            in_background(move || {
                for _ in 0..2_000 {
                    pool.spawn(|| ()).expect("the pool is open");
                }
            })
        })
        .collect();
    let mut before = pool.snapshot();
    while before.accepted < 6_000 {
        let now = pool.snapshot();
        assert!(now.queued <= QUEUE as u64, "more queued than there are places:\n{now}");
        now.check().unwrap_or_else(|what| panic!("{what}"));
        assert_only_grows(&before, &now);
        before = now;
    }
    producers.into_iter().for_each(|producer| producer.join());
    idle(&pool);
}

pub(crate) fn A1_inequalities_always(cx: &Ctx) {
    let pool = cx.builder().queue(8).build().expect("the pool starts");
    let done = Arc::new(AtomicBool::new(false));
    let observer = {
        let (pool, done) = (pool.clone(), Arc::clone(&done));
        in_background(move || {
            let (mut before, mut looks) = (pool.snapshot(), 0_u64);
            while !done.load(SeqCst) || looks < 100 {
                let now = pool.snapshot();
                now.check().unwrap_or_else(|what| panic!("{what}"));
                assert_eq!(now.accepted, sum_of_outcomes(&now));
                assert!(now.completed <= now.accepted && now.settled() <= now.accepted, "{now}");
                assert_only_grows(&before, &now);
                before = now;
                looks += 1;
            }
        })
    };
    let producers: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            in_background(move || mixed_load(&pool, 300))
        })
        .collect();
    for producer in producers {
        producer.join();
    }
    done.store(true, SeqCst);
    observer.join();
}

fn assert_only_grows(before: &Snapshot, now: &Snapshot) {
    let counters = |s: &Snapshot| {
        [
            s.accepted,
            s.refused.total(),
            s.completed,
            s.failed,
            s.panicked,
            s.timed_out,
            s.cancelled,
            s.evicted,
            s.abandoned,
        ]
    };
    let shrunk = counters(before).into_iter().zip(counters(now)).any(|(before, now)| now < before);
    assert!(!shrunk, "a counter went back:\n{before}\n{now}");
}

pub(crate) fn A1_identity_survives_shutdown_in_the_middle(cx: &Ctx) {
    for how in [Shutdown::light(), Shutdown::soft(), Shutdown::hard()] {
        let pool = cx.builder().queue(16).build().expect("the pool starts");
        let producer = {
            let pool = pool.clone();
            in_background(move || mixed_load(&pool, 200))
        };
        eventually("work flows", || pool.snapshot().accepted > 20);
        let report = pool.shutdown(how).expect("outside the pool");
        let offered = producer.join();
        let now = pool.snapshot();
        assert_exact_at_rest(&now, offered);
        let reported = report.completed
            + report.failed
            + report.panicked
            + report.cancelled
            + report.abandoned;
        assert!(reported <= now.settled(), "the report counts more than there was: {report}");
    }
}

pub(crate) fn A1_abandoned_tasks_keep_the_identity(cx: &Ctx) {
    let pool = cx.builder().queue(16).grace(Duration::ZERO).build().expect("the pool starts");
    for n in 1..=5 {
        let gate = Gate::new();
        let passage = gate.passage();
        let handle = pool.submit(move || passage.enter()).expect("there is room");
        gate.wait_until_entered(1);
        handle.cancel();
        drop(handle.wait());
        pool.snapshot().check().expect("while it is stuck");
        gate.open();
        eventually("it returns, and its worker is back", || {
            let now = pool.snapshot();
            now.late_returns == n && now.stuck == 0
        });
        pool.snapshot().check().expect("after its late return");
    }
    idle(&pool);
    assert_exact_at_rest(&pool.snapshot(), 5);
}

pub(crate) fn A2_one_snapshot_shows_it_all(cx: &Ctx) {
    let pool = cx.builder().queue(9).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    (0..2).for_each(|_| pool.spawn(|| ()).expect("there is room"));
    let now = pool.snapshot();
    let workers = cx.workers() as u64;
    assert_eq!(&*now.pool, pool.name());
    assert_eq!((now.workers, now.live_workers, now.idle_workers), (workers, workers, 0));
    assert_eq!((now.queued, now.running, now.queue_capacity), (2, workers, 9));
    let text = now.to_string();
    assert!(
        text.contains(pool.name()) && text.contains("accepted"),
        "a person can't read it: {text}"
    );
    busy.open();
    idle(&pool);
    eventually("all idle again", || pool.snapshot().idle_workers == workers);
}

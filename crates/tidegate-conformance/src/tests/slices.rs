//! G3: maps over slices, and many tasks at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Pool, Reason, Shutdown, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, Peak, Ran, Tracked, deliberate_panic, eventually, idle, in_background, occupy, value,
};

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).build().expect("the pool starts")
}

pub(crate) fn G3_a_slice_gives_one_result_each_in_order(cx: &Ctx) {
    let pool = open(cx);
    for length in [0, 1, 2, 7, 10_000] {
        let items: Vec<String> = (0..length).map(|n| n.to_string()).collect();
        let lengths = pool.map_slice(&items, |item| item.clone() + "!").expect("nothing fails");
        assert!(lengths.iter().zip(&items).all(|(result, item)| *result == format!("{item}!")));
        assert_eq!(lengths.len(), length);
    }
    assert_eq!(pool.map_slice(&[1, 2, 3], |_| ()).expect("nothing fails").len(), 3);
    idle(&pool);
    let now = pool.snapshot();
    now.check().expect("no task was lost");
    assert_eq!(now.items, 10_013, "items are counted");
    let most = 5 * cx.workers() as u64;
    assert!(now.accepted <= most, "{} tasks for 5 slices", now.accepted);
}

/// One item is not done before all others are, wherever it stands: at the front, alone, or in the
/// middle of short ones that its worker runs one after the other.
pub(crate) fn G3_nothing_is_stranded_behind_a_long_item(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = open(cx);
    let items: Vec<usize> = (0..1_000).collect();
    for long in [0, 1, 37, 490, 499, 500, 750, 998, 999] {
        let gate = Gate::new();
        let (passage, done) = (gate.passage(), AtomicUsize::new(0));
        let results = pool.map_slice(&items, |n| {
            if *n == long {
                passage.enter();
            } else if done.fetch_add(1, SeqCst) == 998 {
                gate.open();
            }
            *n
        });
        assert_eq!(results.expect("nothing fails"), items);
    }
}

pub(crate) fn G3_a_panic_costs_one_item_of_a_slice(cx: &Ctx) {
    let pool = open(cx);
    let items: Vec<u32> = (0..100).collect();
    let f = |n: &u32| if n % 10 == 3 { deliberate_panic("of an item") } else { n * 2 };
    let error = pool.map_slice(&items, f).expect_err("ten items panic");
    assert_eq!(
        error.panics.iter().map(|(item, _)| *item).collect::<Vec<_>>(),
        [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]
    );
    assert!(error.panics[0].1.message().contains("of an item"));
    assert_eq!(error.refused, None);
    for (item, result) in error.results.iter().enumerate() {
        let expected = (item % 10 != 3).then_some(item as u32 * 2);
        assert_eq!(*result, expected, "item {item}");
    }
    assert!(error.to_string().contains("10 of 100 items panicked"), "{error}");
    assert_eq!(value(pool.submit(|| 1).expect("the pool goes on")), 1);
}

pub(crate) fn G3_a_slice_inside_the_pool(cx: &Ctx) {
    for queue in [1, 100] {
        let pool = cx.builder().queue(queue).build().expect("the pool starts");
        let inner = pool.clone();
        let handle = pool.submit(move || {
            let rows: Vec<u64> = (0..20).collect();
            let again = inner.clone();
            let sums = inner.map_slice(&rows, |row| {
                let columns: Vec<u64> = (0..20).map(|column| column * row).collect();
                let again = again.map_slice(&columns, |cell| *cell).expect("nothing fails");
                again.into_iter().sum::<u64>()
            });
            sums.expect("nothing fails").into_iter().sum::<u64>()
        });
        assert_eq!(value(handle.expect("there is room")), 190 * 190);
    }
}

pub(crate) fn G3_a_slice_stays_within_the_workers(cx: &Ctx) {
    let pool = open(cx);
    let peak = Peak::new();
    let items = vec![(); 2_000];
    pool.map_slice(&items, |()| peak.during(std::thread::yield_now)).expect("nothing fails");
    assert!(peak.most() <= cx.workers(), "{} at a time", peak.most());
}

/// Only one worker is free: the caller does not wait for the others.
pub(crate) fn G3_a_slice_does_not_wait_for_busy_workers(cx: &Ctx) {
    for queue in [1, 100] {
        let pool = cx.builder().queue(queue).build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers() - 1);
        let items: Vec<u32> = (0..500).collect();
        assert_eq!(pool.map_slice(&items, |n| *n).expect("nothing fails"), items);
        let busy_workers = cx.workers() as u64 - 1;
        eventually("only those are left", || pool.snapshot().running == busy_workers);
        busy.open();
    }
}

/// Its task is pushed out of the queue by others before it began.
pub(crate) fn G3_a_slice_that_is_pushed_out_comes_again(cx: &Ctx) {
    let builder = cx.builder().workers(1).queue(1).when_full(WhenFull::DropOldest);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, 1);
    let slice = {
        let pool = pool.clone();
        in_background(move || pool.map_slice(&[1, 2, 3], |n| n * 2).map_err(|e| e.to_string()))
    };
    for round in 1..4 {
        eventually("it is queued", || pool.snapshot().queued == 1);
        pool.spawn(|| ()).expect("the oldest goes");
        assert!(pool.snapshot().evicted >= round);
        pool.spawn(|| ()).expect("the oldest goes");
    }
    busy.open();
    assert_eq!(slice.join(), Ok(vec![2, 4, 6]));
}

pub(crate) fn G3_a_slice_of_a_closed_pool_is_refused(cx: &Ctx) {
    let pool = open(cx);
    pool.close();
    let error = pool.map_slice(&[1, 2, 3], |n| *n).expect_err("the pool is closed");
    assert_eq!((error.refused, error.results), (Some(Reason::Closed), vec![None; 3]));
    assert!(pool.map_slice(&[0; 0], |n| *n).is_ok(), "nothing to do is done");
}

/// Some items are done, some are not: what is there comes back, and nothing twice.
pub(crate) fn G3_a_hard_shutdown_ends_a_slice_between_items(cx: &Ctx) {
    let grace = Duration::from_millis(1);
    let pool = cx.builder().queue(100).grace(grace).build().expect("the pool starts");
    let gate = Gate::new();
    let (passage, drops) = (gate.passage(), Arc::default());
    let items: Vec<usize> = (0..1_000).collect();
    let report = std::thread::scope(|threads| {
        let shutdown = threads.spawn(|| {
            gate.wait_until_entered(1);
            // Returns although they borrow, and has told them.
            let report = pool.shutdown(Shutdown::hard()).expect("outside the pool");
            gate.open();
            report
        });
        let error = pool.map_slice(&items, |n| {
            passage.enter();
            (*n, Tracked::sharing(&drops))
        });
        let error = error.expect_err("it was stopped");
        assert_eq!(error.refused, Some(Reason::Closed));
        let there = error.results.iter().flatten().count();
        assert_eq!(there, gate.entered(), "each that ran is there");
        assert!((1..=cx.workers()).contains(&there), "each worker finished its item: {there}");
        let right = |(at, found): (usize, &Option<(usize, Tracked)>)| {
            found.as_ref().is_none_or(|(n, _)| *n == at)
        };
        assert!(error.results.iter().enumerate().all(right), "each in its place");
        assert_eq!(drops.load(SeqCst), 0);
        drop(error);
        assert_eq!(drops.load(SeqCst), there, "each is dropped once");
        shutdown.join().expect("no panic")
    });
    assert!(!report.still_borrowing.is_empty(), "{report}");
}

// ---------------------------------------------------------------- many at once

pub(crate) fn G3_a_bulk_is_as_many_spawns_in_order(cx: &Ctx) {
    for queue in [1, 3, 100] {
        let pool = cx.builder().workers(1).queue(queue).build().expect("the pool starts");
        let ran = Ran::new();
        let accepted = pool.spawn_all((0..1_000).map(|n| ran.noting(n)));
        assert_eq!(accepted.map_err(|refused| refused.reason()), Ok(1_000));
        idle(&pool);
        assert!(ran.order().into_iter().eq(0..1_000), "in order, none lost, queue {queue}");
        // Too large for a slot.
        let large = (0..50).map(|n| {
            let (ran, ballast) = (ran.clone(), [n; 32]);
            move || ran.note(ballast[31])
        });
        assert_eq!(pool.spawn_all(large).map_err(|refused| refused.reason()), Ok(50));
        idle(&pool);
        assert_eq!(ran.order().len(), 1_050);
        pool.snapshot().check().expect("no task was lost");
    }
}

pub(crate) fn G3_a_refused_bulk_gives_the_rest_back(cx: &Ctx) {
    let pool = cx.builder().queue(20).when_full(WhenFull::Reject).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let ran = Ran::new();
    let refused = pool.spawn_all((0..50).map(|n| ran.noting(n))).expect_err("there are 20 places");
    assert_eq!(refused.reason(), Reason::Full);
    let rest = refused.into_work();
    assert_eq!((rest.accepted(), pool.snapshot().queued), (20, 20), "the bound is exact");
    let mut given_back = 0;
    for work in rest {
        given_back += 1;
        work();
    }
    assert_eq!(given_back, 30);
    assert!(ran.order().into_iter().eq(20..50), "in order, from the refused one on");
    busy.open();
    idle(&pool);
    assert_eq!(ran.order().len(), 50, "each once");
    pool.close();
    let refused = pool.spawn_all([|| ()]).expect_err("the pool is closed");
    assert_eq!((refused.reason(), refused.into_work().count()), (Reason::Closed, 1));
}

/// A bulk that finds everybody asleep wakes somebody for every task.
pub(crate) fn G3_a_bulk_leaves_no_worker_asleep(cx: &Ctx) {
    let pool = open(cx);
    for _ in 0..50 {
        idle(&pool);
        let gate = Gate::new();
        // All run at once, or the gate is never reached by all of them.
        let tasks = (0..cx.workers()).map(|_| gate.waiter());
        pool.spawn_all(tasks).map_err(|refused| refused.reason()).expect("there is room");
        gate.wait_until_entered(cx.workers()); // else a task waits although a worker sleeps
        gate.open();
    }
}

//! R5: one test per policy, with its column of the table.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use tidegate::{Clock, OutcomeKind, Pool, Reason, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, Ran, Tracked, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background,
    occupy, refusal, task_error, value,
};

/// All workers busy at the gate, a queue of `queue` places, `policy` for the rest.
fn full_pool(cx: &Ctx, queue: usize, policy: WhenFull) -> (Pool, Gate) {
    let pool = cx.builder().queue(queue).when_full(policy).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    (pool, busy)
}

pub(crate) fn R5_wait(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 1, WhenFull::Wait);
    let ran = Ran::new();
    pool.spawn(ran.noting(0)).expect("there is one place");
    let arrivals: Vec<_> = (1..=5)
        .map(|n| {
            let (pool_too, note) = (pool.clone(), ran.noting(n));
            let submitter = in_background(move || pool_too.spawn(note).is_ok());
            eventually("the submitter waits", || pool.snapshot().waiting_submitters == n);
            submitter
        })
        .collect();
    assert_eq!(pool.snapshot().accepted, cx.workers() as u64 + 1, "somebody got in without room");
    busy.let_through(1);
    for submitter in arrivals {
        assert!(submitter.join(), "a submitter that waited was not accepted");
    }
    eventually("all have run", || ran.order().len() == 6);
    assert_eq!(ran.order(), [0, 1, 2, 3, 4, 5], "room was not given in order of arrival");
    busy.open();
    idle(&pool);
    assert_eq!(pool.snapshot().refused.total(), 0, "waiting was counted as a refusal");
}

pub(crate) fn R5_wait_for(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let limit = Duration::from_secs(10);
    let builder = cx.builder().queue(1).when_full(WhenFull::WaitFor(limit)).clock(clock);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    pool.spawn(|| ()).expect("there is one place");
    let late = {
        let pool = pool.clone();
        in_background(move || refusal(pool.submit(|| ())))
    };
    eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
    hand.advance(limit - Duration::from_millis(2));
    give_a_bug_its_chance();
    assert!(!late.is_finished(), "it gave up before its time");
    hand.advance(Duration::from_millis(2));
    assert_eq!(late.join(), Reason::TimedOut);
    assert_eq!(pool.snapshot().refused.timed_out, 1);
    let patient = {
        let pool = pool.clone();
        in_background(move || pool.submit(|| 8).map(value).ok())
    };
    eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
    busy.open();
    assert_eq!(patient.join(), Some(8), "room in time was not used");
}

pub(crate) fn R5_reject(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 2, WhenFull::Reject);
    let queued = [1, 2].map(|n| pool.submit(move || n).expect("there are two places"));
    assert_eq!(refusal(pool.submit(|| 3)), Reason::Full);
    assert_eq!(refusal(pool.spawn(|| ())), Reason::Full);
    assert_eq!(pool.snapshot().refused.full, 2);
    busy.open();
    assert_eq!(queued.map(value), [1, 2], "what was queued is untouched");
}

pub(crate) fn R5_drop_newest(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 1, WhenFull::DropNewest);
    let queued = pool.submit(|| 1).expect("there is one place");
    let (capture, drops) = Tracked::new();
    let newest = pool.submit(move || drop(capture)).expect("it is accepted, then evicted");
    assert!(newest.is_settled(), "the newest is settled at once");
    assert_eq!(drops.load(SeqCst), 1, "its captures are dropped at once");
    assert!(task_error(newest).is_evicted());
    let now = pool.snapshot();
    assert_eq!((now.evicted, now.refused.total()), (1, 0), "an eviction is no refusal");
    assert_eq!(now.accepted, cx.workers() as u64 + 2, "an evicted task counts as accepted");
    busy.open();
    assert_eq!(value(queued), 1, "what was queued is untouched");
}

pub(crate) fn R5_drop_oldest(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 2, WhenFull::DropOldest);
    let ran = Ran::new();
    let (capture, drops) = Tracked::new();
    let oldest = pool.submit(move || drop(capture)).expect("there are two places");
    let second = pool.submit(ran.noting(2)).expect("there are two places");
    let third = pool.submit(ran.noting(3)).expect("the oldest makes room");
    assert!(oldest.is_settled(), "the victim is settled by the submit that evicts it");
    assert_eq!(drops.load(SeqCst), 1, "the victim's captures are dropped at once");
    assert!(task_error(oldest).is_evicted(), "the oldest, not another one");
    assert!(!second.is_settled() && !third.is_settled(), "one eviction was enough");
    pool.spawn(ran.noting(4)).expect("the oldest makes room");
    assert!(task_error(second).is_evicted(), "evictions go on in order");
    busy.let_through(1);
    value(third);
    eventually("both have run", || ran.order().len() == 2);
    assert_eq!(ran.order(), [3, 4], "the survivors run in order");
    busy.open();
    idle(&pool);
    assert_eq!(pool.snapshot().evicted, 2);
}

pub(crate) fn R5_drop_oldest_evicts_fire_and_forget_too(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 1, WhenFull::DropOldest);
    let ran = Ran::new();
    for n in 0..10 {
        pool.spawn(ran.noting(n)).expect("the oldest makes room");
    }
    busy.open();
    idle(&pool);
    assert_eq!(ran.order(), [9], "only the newest is left");
    assert_eq!(pool.snapshot().evicted, 9);
}

pub(crate) fn R5_caller_runs(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 1, WhenFull::CallerRuns);
    pool.spawn(|| ()).expect("there is one place");
    let handle = pool.submit(|| thread::current().id()).expect("the caller runs it");
    assert!(handle.is_settled(), "it ran inside submit");
    assert_eq!(value(handle), thread::current().id(), "it ran on another thread");
    let panicked = pool.submit(|| deliberate_panic("on the caller")).expect("the caller runs it");
    assert!(task_error::<(), _>(panicked).is_panicked(), "a panic is an outcome there too");
    let failed = pool.submit_result(|| Err::<(), _>("no")).expect("the caller runs it");
    assert!(task_error(failed).is_failed());
    let now = pool.snapshot();
    assert_eq!(now.on_caller, 3, "what runs on callers is counted apart");
    assert_eq!((now.completed, now.panicked, now.failed), (1, 1, 1), "they are tasks of the pool");
    busy.open();
}

pub(crate) fn R5_caller_runs_with_name_and_callback(cx: &Ctx) {
    let (pool, busy) = full_pool(cx, 1, WhenFull::CallerRuns);
    pool.spawn(|| ()).expect("there is one place");
    let (tell, told) = std::sync::mpsc::channel();
    let offer = pool.task("here").external_id(5_u64).on_outcome(move |end| {
        let _ = tell.send(end.clone());
    });
    let handle =
        offer.submit(|task| (task.name(), task.worker_id().is_none())).expect("the caller runs it");
    assert_eq!(value(handle), ("here", true), "no worker runs it");
    let summary = told.recv().expect("the callback is called");
    assert_eq!((summary.name, summary.kind), ("here", OutcomeKind::Completed));
    busy.open();
}

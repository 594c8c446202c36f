//! R10: tasks run on workers; callers help only where the pool allows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use tidegate::{Pool, Reason};

use crate::Ctx;
use crate::kit::{Gate, Peak, in_background, occupy, refusal, value};

pub(crate) fn R10_tasks_run_on_workers(cx: &Ctx) {
    let pool = cx.builder().callers_may_help(false).build().expect("the pool starts");
    for _ in 0..500 {
        let handle = pool.submit(|| thread::current().id()).expect("there is room");
        assert_ne!(value(handle), thread::current().id(), "the caller ran a task unasked");
    }
    assert_eq!(pool.snapshot().on_caller, 0);
}

pub(crate) fn R10_helping_keeps_the_bound(cx: &Ctx) {
    let pool = cx.builder().queue(100).callers_may_help(true).build().expect("the pool starts");
    let peak = Peak::new();
    let helped = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, peak, helped) = (pool.clone(), Arc::clone(&peak), Arc::clone(&helped));
            in_background(move || {
                for _ in 0..500 {
                    let peak = Arc::clone(&peak);
                    let task = move || peak.during(|| thread::current().id());
                    let ran_on = value(pool.submit(task).expect("there is room"));
                    helped.fetch_add(u64::from(ran_on == thread::current().id()), SeqCst);
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join());
    assert!(peak.most() <= cx.workers(), "{} ran at once on {} workers", peak.most(), cx.workers());
    assert_eq!(pool.snapshot().on_caller, helped.load(SeqCst), "help was not counted apart");
}

pub(crate) fn R10_nobody_helps_when_no_worker_is_idle(cx: &Ctx) {
    let pool = cx.builder().queue(10).callers_may_help(true).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let gate = Gate::new();
    let passage = gate.passage();
    let task = pool.submit(move || passage.enter()).expect("there is room");
    let caller = in_background(move || value(task));
    crate::kit::give_a_bug_its_chance();
    assert_eq!(gate.entered(), 0, "a caller ran it beside as many workers as may run");
    busy.open();
    gate.wait_until_entered(1);
    gate.open();
    caller.join();
}

pub(crate) fn R10_a_helper_counts_as_inside(cx: &Ctx) {
    let pool = cx.builder().queue(1).callers_may_help(true).build().expect("the pool starts");
    for _ in 0..200 {
        let inside = pool.clone();
        let busy = occupy(&pool, cx.workers() - 1);
        let handle = pool.submit(move || {
            while inside.try_spawn(|| ()).is_ok() {}
            refusal(inside.submit(|| ()))
        });
        // On whichever thread it runs, it is a task of the pool.
        assert_eq!(value(handle.expect("there is room")), Reason::WouldDeadlock);
        busy.open();
        pool.wait_idle().expect("outside the pool");
    }
}

pub(crate) fn R10_helping_and_worker_state_exclude_each_other(cx: &Ctx) {
    let builder = Pool::builder(cx.wish().name).workers(1).callers_may_help(true);
    let answer = builder.worker_state(|_| 0_u8).build();
    assert!(answer.is_err(), "a caller has no state to run the task with");
}

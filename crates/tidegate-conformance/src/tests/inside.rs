//! R8: submitting from inside a task of the same pool.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate::{Inside, Mode, Pool, PoolState, Reason, Shutdown, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, eventually, give_a_bug_its_chance, idle, in_background, occupy, refusal, task_error,
    value,
};

/// Fills the queue from where it is called.
fn fill(pool: &Pool) {
    while pool.try_spawn(|| ()).is_ok() {}
}

pub(crate) fn R8_submit_inside_a_full_pool_would_deadlock(cx: &Ctx) {
    for policy in [WhenFull::Wait, WhenFull::WaitFor(Duration::from_secs(3600))] {
        let pool = cx.builder().queue(2).when_full(policy).build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers() - 1);
        let inside = pool.clone();
        let handle = pool.submit(move || {
            fill(&inside);
            let plain = refusal(inside.submit(|| ()));
            let timed = refusal(inside.submit_timeout(Duration::from_secs(3600), || ()));
            let spawned = refusal(inside.spawn(|| ()));
            [plain, timed, spawned]
        });
        let reasons = value(handle.expect("there is room"));
        assert_eq!(reasons, [Reason::WouldDeadlock; 3], "{policy:?}");
        assert_eq!(pool.snapshot().refused.would_deadlock, 3);
        busy.open();
    }
}

pub(crate) fn R8_submit_inside_with_room_is_accepted(cx: &Ctx) {
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    let inside = pool.clone();
    let outer =
        pool.submit(move || inside.submit(|| 6).expect("there is room")).expect("there is room");
    let inner = value(outer);
    assert_eq!(value(inner), 6, "a task may leave work behind");
}

pub(crate) fn R8_run_inline_is_an_option(cx: &Ctx) {
    let builder = cx.builder().queue(1).callers_may_help(false).when_full_inside(Inside::RunInline);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let handle = pool.submit(move || {
        fill(&inside);
        let inner = inside.submit(|| thread::current().id()).expect("it runs inline");
        assert!(inner.is_settled(), "it ran inside submit");
        value(inner) == thread::current().id()
    });
    assert!(value(handle.expect("there is room")), "it ran on another thread");
    let now = pool.snapshot();
    assert_eq!(now.refused.would_deadlock, 0);
    assert_eq!(now.nested, 1, "work run by a task on its own thread is counted apart");
    busy.open();
    idle(&pool);
    pool.snapshot().check().expect("inline work has an outcome of its own");
}

pub(crate) fn R8_other_policies_decide_inside_as_outside(cx: &Ctx) {
    let reject = inside_a_full_pool(cx, WhenFull::Reject, |pool| {
        refusal(pool.submit(|| ())) == Reason::Full
    });
    assert!(reject, "Reject refuses Full");
    let newest = inside_a_full_pool(cx, WhenFull::DropNewest, |pool| {
        task_error(pool.submit(|| ()).expect("it is accepted, then evicted")).is_evicted()
    });
    assert!(newest, "DropNewest evicts the new one");
    let oldest = inside_a_full_pool(cx, WhenFull::DropOldest, |pool| pool.spawn(|| ()).is_ok());
    assert!(oldest, "DropOldest makes room");
    let caller = inside_a_full_pool(cx, WhenFull::CallerRuns, |pool| {
        let here = thread::current().id();
        value(pool.submit(move || thread::current().id() == here).expect("the caller runs it"))
    });
    assert!(caller, "CallerRuns runs it on the task's thread");
}

fn inside_a_full_pool(cx: &Ctx, policy: WhenFull, f: fn(&Pool) -> bool) -> bool {
    let pool = cx.builder().queue(1).when_full(policy).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let handle = pool.submit(move || {
        fill(&inside);
        f(&inside)
    });
    let verdict = value(handle.expect("there is room"));
    busy.open();
    idle(&pool);
    verdict
}

pub(crate) fn R8_a_callback_counts_as_inside(cx: &Ctx) {
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (tell, told) = mpsc::channel();
    let inside = pool.clone();
    let doomed = pool.task("doomed").on_outcome(move |_| {
        fill(&inside);
        let answer = (refusal(inside.submit(|| ())), inside.wait_idle().is_err());
        tell.send(answer).expect("the test listens");
    });
    let doomed = doomed.submit(|_| ()).expect("there is room");
    // Cancelled here, so its callback runs here: on a thread that is no worker.
    assert!(doomed.cancel());
    let (reason, wait_failed) =
        told.recv_timeout(crate::kit::HANG).expect("the callback is called");
    assert_eq!(reason, Reason::WouldDeadlock);
    assert!(wait_failed, "a callback must not wait for the whole pool");
    busy.open();
}

pub(crate) fn R8_submits_by_tasks_during_a_drain_are_refused_closed(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let (inside, passage) = (pool.clone(), gate.passage());
    let handle = pool.submit(move || {
        passage.enter();
        [
            refusal(inside.submit(|| ())),
            refusal(inside.try_submit(|| ())),
            refusal(inside.spawn(|| ())),
        ]
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    let closing = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::light()).expect("outside the pool"))
    };
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    gate.open();
    assert_eq!(value(handle), [Reason::Closed; 3], "work was lost silently, or let in");
    assert!(closing.join().complete, "the drain ends");
}

pub(crate) fn R8_a_task_of_another_pool_may_wait(cx: &Ctx) {
    let full = cx.builder().queue(1).build().expect("the pool starts");
    let other = cx.builder().build().expect("the pool starts");
    let busy = occupy(&full, cx.workers());
    full.spawn(|| ()).expect("there is one place");
    let target = full.clone();
    let outer = other.submit(move || value(target.submit(|| 9).expect("it waits for room")));
    let outer = outer.expect("there is room");
    eventually("the task of the other pool waits", || full.snapshot().waiting_submitters == 1);
    give_a_bug_its_chance();
    assert!(!outer.is_settled(), "it waits, as anybody outside the pool");
    busy.open();
    assert_eq!(value(outer), 9);
}

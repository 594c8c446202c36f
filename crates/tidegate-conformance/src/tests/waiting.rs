//! R9: waiting for handles from inside a worker of the same pool.

use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate::{Handle, Pool, PoolState, Reason, Shutdown, ShutdownError, WaitError, WaitReason};

use crate::Ctx;
use crate::kit::{Gate, Ran, idle, no_outcome, occupy, refusal, value};

pub(crate) fn R9_wait_inside_runs_a_queued_target(cx: &Ctx) {
    let pool = cx.builder().queue(10).callers_may_help(false).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let handle = pool.submit(move || {
        let target = inside.submit(|| thread::current().id()).expect("there is room");
        (thread::current().id(), value(target))
    });
    let (waiter, ran_on): (ThreadId, ThreadId) = value(handle.expect("there is room"));
    assert_eq!(waiter, ran_on, "the waiter takes its target out and runs it itself");
    assert_eq!(pool.snapshot().nested, 1, "counted apart");
    busy.open();
}

pub(crate) fn R9_wait_inside_for_a_running_target_waits(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let running = pool.submit(move || passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    let waiter = pool.submit(move || running.wait().is_ok()).expect("there is room");
    gate.open();
    assert!(value(waiter), "a target that runs elsewhere is waited for");
    assert_eq!(pool.snapshot().nested, 0);
}

pub(crate) fn R9_never_runs_unrelated_tasks(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let ran = Ran::new();
    let (inside, notes) = (pool.clone(), ran.clone());
    let outer = pool.submit(move || {
        inside.spawn(notes.noting(1)).expect("there is room");
        let target = inside.submit(notes.noting(2)).expect("there is room");
        inside.spawn(notes.noting(3)).expect("there is room");
        value(target);
        notes.order()
    });
    assert_eq!(
        value(outer.expect("there is room")),
        [2],
        "the waiter ran work that is none of its business"
    );
    idle_after(&pool, busy);
    assert_eq!(ran.order(), [2, 1, 3], "the others run afterwards, in order");
}

fn idle_after(pool: &Pool, busy: Gate) {
    // One worker alone, so that the order stays exact: the gate stays shut until it is done.
    crate::kit::eventually("the queue is empty", || pool.snapshot().queued == 0);
    busy.open();
    idle(pool);
}

pub(crate) fn R9_wait_on_the_own_handle_would_deadlock(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (give, own) = mpsc::channel::<Handle<bool>>();
    let (back, kept) = mpsc::channel();
    let handle = pool.submit(move || {
        let (reason, handle) = no_outcome(own.recv().expect("the test sends it").wait());
        back.send(handle).expect("the test listens");
        reason == WaitReason::WouldDeadlock
    });
    let handle = handle.expect("there is room");
    let id = handle.id();
    give.send(handle).expect("the task listens");
    let handle = kept.recv_timeout(crate::kit::HANG).expect("the handle comes back");
    assert_eq!(handle.id(), id, "another handle came back");
    assert!(value(handle), "the reason says so");
}

pub(crate) fn R9_a_cycle_of_waits_would_deadlock(cx: &Ctx) {
    cx.needs_workers(2);
    for _ in 0..20 {
        let pool = cx.builder().queue(10).build().expect("the pool starts");
        let gate = Gate::new();
        let (give_a, take_a) = mpsc::channel::<Handle<()>>();
        let (give_b, take_b) = mpsc::channel::<Handle<()>>();
        let (tell, told) = mpsc::channel();
        let waiter = |other: mpsc::Receiver<Handle<()>>| {
            let (passage, tell) = (gate.passage(), tell.clone());
            move || {
                passage.enter();
                let refused = matches!(
                    other.recv().expect("the test sends it").wait(),
                    Err(WaitError::NoOutcome { reason: WaitReason::WouldDeadlock, .. })
                );
                tell.send(refused).expect("the test listens");
            }
        };
        let a = pool.submit(waiter(take_b)).expect("there is room");
        let b = pool.submit(waiter(take_a)).expect("there is room");
        gate.wait_until_entered(2);
        give_a.send(a).expect("b listens");
        give_b.send(b).expect("a listens");
        gate.open();
        let verdicts =
            [0, 1].map(|_| told.recv_timeout(crate::kit::HANG).expect("neither waits for ever"));
        assert!(verdicts.contains(&true), "a cycle of waits was not noticed");
        pool.shutdown(Shutdown::light()).expect("outside the pool");
    }
}

pub(crate) fn R9_nesting_has_a_limit(cx: &Ctx) {
    let pool = cx.builder().queue(200).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let depth = value(pool.submit(move || nest(&inside, 1)).expect("there is room"));
    // The limit is 64; whether the first task counts is not worth a contract.
    assert!((63..=65).contains(&depth), "nested {depth} deep");
    busy.open();
    pool.shutdown(Shutdown::light()).expect("outside the pool");
}

/// Waits for a task that waits for a task …, until that is refused; how deep it got.
fn nest(pool: &Pool, depth: u32) -> u32 {
    if depth == 100 {
        return depth;
    }
    let inside = pool.clone();
    let inner = pool.submit(move || nest(&inside, depth + 1)).expect("there is room");
    match inner.wait() {
        Ok(deepest) => deepest,
        Err(WaitError::NoOutcome { reason, handle }) => {
            assert_eq!(reason, WaitReason::WouldDeadlock);
            handle.cancel();
            depth
        }
        Err(other) => panic!("a nested task ended badly: {other:?}"),
    }
}

pub(crate) fn R9_shutdown_inside_is_an_error_and_close_works(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let inside = pool.clone();
    let handle = pool.submit(move || {
        let shutdown = inside.shutdown(Shutdown::light()).err();
        let idle = inside.wait_idle().err();
        let open = inside.state() == PoolState::Running;
        inside.close();
        (shutdown, idle, open, refusal(inside.submit(|| ())))
    });
    let (shutdown, idle, open, after_close) = value(handle.expect("there is room"));
    assert_eq!(shutdown, Some(ShutdownError::InsideTask), "it would have joined itself");
    assert_eq!(idle, Some(ShutdownError::InsideTask), "it would have waited for itself");
    assert!(open, "a shutdown that fails changes nothing");
    assert_eq!(after_close, Reason::Closed, "close works inside a task");
    assert!(pool.shutdown(Shutdown::light()).expect("outside the pool").complete);
}

pub(crate) fn R9_looking_never_runs_the_task(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let handle = pool.submit(move || {
        let mut target = inside.submit(|| 5).expect("there is room");
        let nothing_yet =
            target.try_take().is_none() && target.wait_timeout(Duration::from_millis(1)).is_none();
        (nothing_yet, !target.is_settled(), value(target))
    });
    let (nothing_yet, unsettled, five) = value(handle.expect("there is room"));
    assert!(nothing_yet && unsettled, "try_take or wait_timeout ran the task");
    assert_eq!(five, 5, "wait does");
    busy.open();
}

pub(crate) fn R9_a_handle_that_came_back_still_works(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (give, own) = mpsc::channel::<Handle<u8>>();
    let (back, kept) = mpsc::channel();
    let handle = pool.submit(move || {
        let (_, handle) = no_outcome(own.recv().expect("the test sends it").wait());
        let (reason, handle) = no_outcome(handle.wait());
        assert_eq!(reason, WaitReason::WouldDeadlock, "a second wait says the same");
        back.send(handle).expect("the test listens");
        3
    });
    give.send(handle.expect("there is room")).expect("the task listens");
    let mut handle = kept.recv_timeout(crate::kit::HANG).expect("the handle comes back");
    let taken = handle.wait_timeout(crate::kit::HANG).expect("the task ends");
    assert!(matches!(taken, Ok(3)));
    let (reason, _) = no_outcome(handle.wait());
    assert_eq!(reason, WaitReason::AlreadyTaken, "the value is given once");
}

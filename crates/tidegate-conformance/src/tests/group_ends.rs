//! G1: how groups end: failures nobody wants, drops, and waits that meet other waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Clock, Group, GroupError, Pool, Reason, Shutdown, TaskError, Token, WhenFull};

use super::groups::sum;
use crate::Ctx;
use crate::kit::{Gate, deliberate_panic, eventually, idle, in_background, occupy, value};

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).build().expect("the pool starts")
}

fn first<E>(error: &GroupError<E>) -> &TaskError<E> {
    error.first().expect("a task failed")
}

/// An error whose `Drop` panics, as those of a group that nobody wants are dropped.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        deliberate_panic("in the drop of an error");
    }
}

/// Hazard 37 for groups.
pub(crate) fn hazard_37_errors_that_panic_when_dropped_do_not_hold_up_a_group(cx: &Ctx) {
    let pool = open(cx);
    let group = pool.group().start();
    let busy = occupy(&pool, cx.workers());
    let gate = Gate::new();
    for _ in 0..2 {
        let passage = gate.passage();
        let task = move |_: &tidegate::Cx| {
            passage.enter();
            Err(Bomb)
        };
        group.submit(task).expect("there is room");
    }
    busy.open();
    gate.wait_until_entered(cx.workers().min(2));
    gate.open();
    let error = group.wait().expect_err("both fail");
    for bomb in error.into_failures() {
        std::mem::forget(bomb);
    }
    // One is kept, and then a panic comes: it goes on alone.
    let group = pool.group().collect_all().start();
    group.submit(|_| Err(Bomb)).expect("there is room");
    idle(&pool);
    std::mem::forget(group.wait().expect_err("it failed"));
    if cx.workers() > 1 {
        let group = pool.group().start();
        let (first, second) = (Gate::new(), Gate::new());
        let (at_first, at_second) = (first.passage(), second.passage());
        let fails = move |_: &tidegate::Cx| {
            at_first.enter();
            Err(Bomb)
        };
        let panics = move |_: &tidegate::Cx| {
            at_second.enter();
            deliberate_panic("after an error")
        };
        group.submit(fails).expect("there is room");
        group.submit(panics).expect("there is room");
        first.wait_until_entered(1);
        second.wait_until_entered(1);
        first.open();
        eventually("the error is told", || group.token().is_cancelled());
        second.open();
        let raised = catch_unwind(AssertUnwindSafe(|| group.wait()));
        assert!(raised.is_err(), "the panic goes on, and the process lives");
    }
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

/// Hazard 8 for groups: the deadline counts from the start of the group, whatever waits.
pub(crate) fn G1_the_deadline_also_ends_the_wait_for_room(cx: &Ctx) {
    let (clock, hands) = Clock::manual();
    let pool = cx.builder().workers(1).queue(1).clock(clock).build().expect("the pool starts");
    let busy = occupy(&pool, 1);
    let filler = pool.submit(|| ()).expect("there is one place");
    let start = || pool.group().deadline(Duration::from_millis(500)).start::<()>();
    let waiting = |group: &Group<()>| {
        let group = group.clone();
        let work = |cx: &tidegate::Cx| {
            cx.token().wait();
            Ok(())
        };
        let submitter = in_background(move || group.submit(work).map_err(|r| r.reason()));
        eventually("it waits for room", || pool.snapshot().waiting_submitters == 1);
        submitter
    };
    let group = start();
    let submitter = waiting(&group);
    hands.advance(Duration::from_millis(500));
    assert_eq!(submitter.join(), Err(Reason::TimedOut), "the deadline ends the wait");
    group.wait().expect("nothing of it was accepted");
    // Room comes 100 ms before the end: that is what is left for the task.
    let group = start();
    let submitter = waiting(&group);
    hands.advance(Duration::from_millis(400));
    assert!(filler.cancel(), "its place is free");
    assert_eq!(submitter.join(), Ok(()));
    busy.open();
    eventually("it runs", || pool.snapshot().running == 1 && pool.snapshot().queued == 0);
    hands.advance(Duration::from_millis(100));
    let error = group.wait().expect_err("its time is up");
    assert!(first(&error).is_timed_out(), "{error:?}");
}

pub(crate) fn G1_inside_the_limit_holds_too(cx: &Ctx) {
    let pool = open(cx);
    let inner = pool.clone();
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let handle = pool.submit(move || {
        let group: Group<()> = inner.group().limit(2).start();
        for _ in 0..50 {
            let (own, seen) = (group.clone(), Arc::clone(&seen));
            let task = move |_: &tidegate::Cx| {
                seen.fetch_max(own.unsettled(), SeqCst);
                Ok(())
            };
            group.submit(task).expect("inside a task a group never refuses for room");
        }
        group.wait().is_ok()
    });
    assert!(value(handle.expect("there is room")));
    // Two in the queue or on other workers, and the one that runs inline for want of a slot.
    assert!((1..=3).contains(&most.load(SeqCst)), "{} unsettled", most.load(SeqCst));
}

pub(crate) fn G1_a_cancel_of_its_own_token_is_no_failure(cx: &Ctx) {
    let pool = open(cx);
    let busy = occupy(&pool, cx.workers());
    let parent = Token::new();
    let group: Group<()> = pool.group().parent(&parent).start();
    group.submit(|_| Ok(())).expect("there is room");
    group.token().cancel();
    group.wait().expect("whoever has the token may end the group");
    busy.open();
}

/// O6: what no wait has returned is told, and a bad `Drop` of it hurts nobody.
pub(crate) fn O6_failures_of_a_dropped_group_are_told(cx: &Ctx) {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let hook = move |_: &tidegate::Unobserved| _ = counted.fetch_add(1, SeqCst);
    let pool = cx.builder().queue(100).on_unobserved(hook).build().expect("the pool starts");
    let group = pool.group().collect_all().start();
    for n in 0..4 {
        let task = move |_: &tidegate::Cx| match n % 2 {
            0 => Err(Bomb),
            _ => deliberate_panic("nobody waits"),
        };
        group.submit(task).expect("there is room");
    }
    idle(&pool);
    assert_eq!(told.load(SeqCst), 0, "somebody may still wait");
    drop(group);
    assert_eq!(told.load(SeqCst), 4);
    assert_eq!(pool.snapshot().drop_panics, 2, "and the process lives");
}

/// As deep as the stack goes, also where the queue has room.
pub(crate) fn G1_groups_nest_deeply(cx: &Ctx) {
    fn deeper(pool: &Pool, levels: u32) -> bool {
        let group: Group<()> = pool.group().start();
        let inner = pool.clone();
        let task = move |_: &tidegate::Cx| match levels {
            0 => Ok(()),
            _ => deeper(&inner, levels - 1).then_some(()).ok_or(()),
        };
        group.submit(task).expect("inside a task a group never refuses for room");
        group.wait().is_ok()
    }
    let builder = cx.builder().callers_may_help(false).workers(1).queue(100).stack_size(16 << 20);
    let pool = builder.build().expect("the pool starts");
    assert!(deeper(&pool, 100));
}

pub(crate) fn G1_only_one_wait_returns_the_failures(cx: &Ctx) {
    let pool = open(cx);
    let group = pool.group().start();
    group.submit(|_| Err("first")).expect("there is room");
    let other = group.clone();
    assert!(matches!(first(&group.wait().expect_err("it failed")), TaskError::Failed("first")));
    let error = other.wait().expect_err("it is not told that all went well");
    assert!(matches!(error, GroupError::AlreadyTaken), "{error:?}");
}

pub(crate) fn G1_inside_a_group_works_while_the_pool_drains(cx: &Ctx) {
    let pool = open(cx);
    let gate = Gate::new();
    let (inner, passage) = (pool.clone(), gate.passage());
    let handle = pool.submit(move || {
        passage.enter();
        sum(&inner, 0, 50)
    });
    let handle = handle.expect("there is room");
    gate.wait_until_entered(1);
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::light()).expect("outside the pool"))
    };
    eventually("the pool closes", || refusal_of(&pool) == Some(Reason::Closed));
    gate.open();
    assert_eq!(value(handle), 1_225, "a drain finishes what it has begun, forks included");
    assert!(shutdown.join().is_success());
}

fn refusal_of(pool: &Pool) -> Option<Reason> {
    pool.try_submit(|| ()).err().map(|refused| refused.reason())
}

pub(crate) fn G1_dropping_a_group_cancels_and_detaches(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<()> = pool.group().start();
    let token = group.token().clone();
    let busy = occupy(&pool, cx.workers());
    for _ in 0..5 {
        group.submit(|_| Ok(())).expect("there is room");
    }
    drop(group);
    assert!(token.is_cancelled());
    busy.open();
    idle(&pool);
    assert_eq!(pool.snapshot().cancelled, 5);
}

pub(crate) fn G1_an_evicted_task_is_a_failure(cx: &Ctx) {
    let builder = cx.builder().queue(1).when_full(WhenFull::DropNewest);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let group: Group<()> = pool.group().collect_all().start();
    for _ in 0..3 {
        group.submit(|_| Ok(())).expect("dropping is accepting");
    }
    busy.open();
    let failures = group.wait().expect_err("two were pushed out").into_failures();
    assert_eq!(failures.iter().filter(|error| error.is_evicted()).count(), 2);
}

/// The first error and a place in the queue: what still waits for room never starts.
pub(crate) fn hazard_60_fail_fast_reaches_a_submitter_that_waits_for_room(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let group: Group<&str> = pool.group().start();
    let gate = Gate::new();
    for _ in 0..cx.workers() {
        let passage = gate.passage();
        let task = move |_: &tidegate::Cx| {
            passage.enter();
            Err("failed")
        };
        group.submit(task).expect("there is room");
    }
    gate.wait_until_entered(cx.workers());
    group.submit(|_| Ok(())).expect("there is one place");
    let submitter = {
        let group = group.clone();
        in_background(move || group.submit(|_| Ok(())).map_err(|refused| refused.reason()))
    };
    eventually("it waits for room", || pool.snapshot().waiting_submitters == 1);
    gate.let_through(1);
    let answer = submitter.join();
    gate.open();
    group.wait().expect_err("they failed");
    // It may have got the place of the one that was queued, but it never ran.
    assert!(matches!(answer, Ok(()) | Err(Reason::Cancelled)), "{answer:?}");
    idle(&pool);
    assert_eq!(pool.snapshot().completed, 0);
}

/// A group's limit below the number of workers, and a queue that is full of strangers.
pub(crate) fn hazard_59_limit_and_queue_do_not_wait_for_each_other(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let group: Group<()> = pool.group().limit(1).start();
    let others = {
        let pool = pool.clone();
        in_background(move || {
            for _ in 0..200 {
                pool.spawn(|| ()).expect("the pool is open");
            }
        })
    };
    let members: Vec<_> = (0..3)
        .map(|_| {
            let group = group.clone();
            in_background(move || {
                for _ in 0..100 {
                    group.submit(|_| Ok(())).expect("the group is open");
                }
            })
        })
        .collect();
    others.join();
    members.into_iter().for_each(|member| member.join());
    group.wait().expect("nothing fails");
    idle(&pool);
    assert_eq!(pool.snapshot().completed, 500);
}

/// One wait returns one failure: whatever else failed is told.
pub(crate) fn O6_what_a_wait_does_not_return_is_told(cx: &Ctx) {
    if cx.workers() < 2 {
        return; // both members have to run at a time
    }
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let hook = move |event: &tidegate::Unobserved| heard.lock().expect("no panic").push(event.kind);
    let pool = cx.builder().queue(100).on_unobserved(hook).build().expect("the pool starts");
    let group = pool.group().start();
    let gate = Gate::new();
    let passage = gate.passage();
    let panics = move |_: &tidegate::Cx| {
        passage.enter();
        deliberate_panic("the second")
    };
    group.submit(panics).expect("there is room");
    gate.wait_until_entered(1);
    group.submit(|_| Err("the first")).expect("there is room");
    eventually("the first failure", || group.token().is_cancelled());
    gate.open();
    let waited = catch_unwind(AssertUnwindSafe(|| group.wait()));
    assert!(waited.is_err(), "the panic goes on");
    assert_eq!(*told.lock().expect("no panic"), [tidegate::UnobservedKind::Failed]);
}

/// The only worker waits for the group while somebody outside waits for room to join it.
pub(crate) fn G1_a_wait_inside_does_not_wait_for_who_wants_to_join(cx: &Ctx) {
    for with_budget in [false, true] {
        let pool = cx.builder().workers(1).queue(1).callers_may_help(false).build();
        let pool = pool.expect("the pool starts");
        let budget = tidegate::Budget::new("budget", 1);
        let held = budget.acquire(u64::from(with_budget)).expect("nobody else");
        let group: Group<()> = pool.group().budget(&budget, 1).start();
        let gate = Gate::new();
        let (passage, inner) = (gate.passage(), group.clone());
        let waits = pool.submit(move || {
            passage.enter();
            inner.wait().is_ok()
        });
        let waits = waits.expect("there is room");
        gate.wait_until_entered(1);
        let filler = pool.submit(|| ()).expect("there is one place");
        let joins = group.clone();
        let submitter = in_background(move || joins.submit(|_| Ok(())).map_err(|r| r.reason()));
        eventually("it waits", || budget.waiting() == 1 || pool.snapshot().waiting_submitters == 1);
        assert_eq!(group.unsettled(), 1);
        gate.open();
        assert!(value(waits), "nothing of the group was accepted");
        value(filler);
        drop(held);
        let joined = submitter.join();
        assert!(matches!(joined, Ok(()) | Err(Reason::Cancelled)), "{joined:?}");
        idle(&pool);
        assert_eq!((group.unsettled(), budget.in_use()), (0, 0));
        pool.snapshot().check().expect("no task was lost");
    }
}

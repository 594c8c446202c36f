//! G1: tasks that belong together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Cause, Clock, Group, GroupError, Pool, Reason, TaskError, TimedOut, Token};

use crate::Ctx;
use crate::kit::{
    Gate, Peak, deliberate_panic, give_a_bug_its_chance, idle, in_background, occupy, refusal,
    value,
};

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).build().expect("the pool starts")
}

fn first<E>(error: &GroupError<E>) -> &TaskError<E> {
    error.first().expect("a task failed")
}

pub(crate) fn G1_wait_returns_when_all_have_settled(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<String> = pool.group().start();
    let sum = Arc::new(AtomicU64::new(0));
    for n in 0..50 {
        let sum = Arc::clone(&sum);
        let add = move |_: &tidegate::Cx| {
            sum.fetch_add(n, SeqCst);
            Ok(())
        };
        group.submit(add).expect("an open pool accepts");
    }
    group.wait().expect("nothing fails");
    assert_eq!((sum.load(SeqCst), group.unsettled()), (1_225, 0));
    assert!(group.token().is_cancelled(), "the group is over when wait returns");
    assert_eq!(refusal(group.submit(|_| Ok(()))), Reason::Cancelled);
    assert_eq!(value(pool.submit(|| 1).expect("the pool goes on")), 1);
}

pub(crate) fn G1_the_first_failure_cancels_the_rest(cx: &Ctx) {
    let pool = open(cx);
    let parent = Token::new();
    let group = pool.group().parent(&parent).start();
    let busy = occupy(&pool, cx.workers());
    let ran = Arc::new(AtomicUsize::new(0));
    group.submit(|_| Err("first")).expect("there is room");
    for _ in 0..20 {
        let ran = Arc::clone(&ran);
        let task = move |cx: &tidegate::Cx| {
            ran.fetch_add(1, SeqCst);
            cx.token().wait(); // only a stop ends it
            Err("told to stop")
        };
        group.submit(task).expect("there is room");
    }
    busy.open();
    let error = group.wait().expect_err("one failed");
    assert!(matches!(first(&error), TaskError::Failed("first")), "{error:?}");
    assert_eq!(error.into_failures().len(), 1, "what the group cancelled is no failure");
    // One worker runs the failure, the others one member each, until they are told.
    assert!(ran.load(SeqCst) < cx.workers().max(2), "queued ones never start");
    assert!(!parent.is_cancelled(), "a group never cancels its parent");
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn G1_collect_all_goes_on_and_returns_all(cx: &Ctx) {
    let pool = open(cx);
    let group = pool.group().collect_all().start();
    for n in 0..30 {
        let task = move |_: &tidegate::Cx| match n % 3 {
            0 => Err(n),
            1 => deliberate_panic("collected"),
            _ => Ok(()),
        };
        group.submit(task).expect("there is room");
    }
    let failures = group.wait().expect_err("some failed").into_failures();
    let panics = failures.iter().filter(|error| error.is_panicked()).count();
    assert_eq!((failures.len(), panics), (20, 10));
}

pub(crate) fn G1_a_panic_goes_on_in_the_waiter(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<()> = pool.group().start();
    group.submit(|_| deliberate_panic("for the waiter")).expect("there is room");
    let raised = catch_unwind(AssertUnwindSafe(|| group.wait())).expect_err("wait panics");
    let text = raised.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| raised.downcast_ref::<&str>().copied());
    assert!(text.is_some_and(|text| text.contains("for the waiter")), "with its own payload");
    assert_eq!(value(pool.submit(|| 1).expect("the pool goes on")), 1);
}

pub(crate) fn G1_the_limit_bounds_what_is_unsettled(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<()> = pool.group().limit(2).start();
    let gate = Gate::new();
    for _ in 0..2 {
        let passage = gate.passage();
        let task = move |_: &tidegate::Cx| {
            passage.enter();
            Ok(())
        };
        group.submit(task).expect("there is a slot");
    }
    assert_eq!(refusal(group.try_submit(|_| Ok(()))), Reason::Full, "a try never waits");
    let submitter = {
        let group = group.clone();
        in_background(move || group.submit(|_| Ok(())).map_err(|refused| refused.reason()))
    };
    give_a_bug_its_chance();
    assert!(!submitter.is_finished() && group.unsettled() == 2, "the third waits for a slot");
    gate.open();
    assert_eq!(submitter.join(), Ok(()));
    let peak = Peak::new();
    for _ in 0..50 {
        let peak = Arc::clone(&peak);
        let task = move |_: &tidegate::Cx| {
            peak.during(|| ());
            Ok(())
        };
        group.submit(task).expect("an open pool accepts");
    }
    group.wait().expect("nothing fails");
    assert!(peak.most() <= 2, "{} at a time", peak.most());
}

pub(crate) fn G1_who_waits_for_a_slot_is_released(cx: &Ctx) {
    let full = |pool: &Pool, gate: &Gate, parent: &Token| {
        let group: Group<()> = pool.group().limit(1).parent(parent).start();
        let passage = gate.passage();
        let task = move |_: &tidegate::Cx| {
            passage.enter();
            Ok(())
        };
        group.submit(task).expect("there is a slot");
        let waits = group.clone();
        let submitter =
            in_background(move || waits.submit(|_| Ok(())).map_err(|refused| refused.reason()));
        (group, submitter)
    };
    let pool = open(cx);
    let (gate, parent) = (Gate::new(), Token::new());
    let (group, submitter) = full(&pool, &gate, &parent);
    parent.cancel();
    assert_eq!(submitter.join(), Err(Reason::Cancelled));
    gate.open();
    drop(group);
    idle(&pool);
    let gate = Gate::new();
    let (_group, submitter) = full(&pool, &gate, &Token::new());
    gate.wait_until_entered(1);
    pool.close();
    assert_eq!(submitter.join(), Err(Reason::Closed));
    gate.open();
}

pub(crate) fn G1_cancel_stops_the_group_and_is_no_failure(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<&str> = pool.group().start();
    let gate = Gate::new();
    for _ in 0..cx.workers() + 5 {
        let passage = gate.passage();
        let task = move |cx: &tidegate::Cx| {
            passage.enter_unless(|| cx.stopping());
            if cx.stopping() { Err("stopped") } else { Ok(()) }
        };
        group.submit(task).expect("there is room");
    }
    gate.wait_until_entered(cx.workers());
    group.cancel();
    group.wait().expect("what the group itself cancels is no failure");
    idle(&pool);
    assert_eq!(pool.snapshot().cancelled as usize, cx.workers() + 5);
}

pub(crate) fn G1_a_cancel_from_elsewhere_is_a_failure(cx: &Ctx) {
    let pool = open(cx);
    let parent = Token::new();
    let group: Group<()> = pool.group().parent(&parent).start();
    let busy = occupy(&pool, cx.workers());
    group.submit(|_| Ok(())).expect("there is room");
    parent.cancel();
    let error = group.wait().expect_err("the parent cancelled it");
    assert!(matches!(first(&error), TaskError::Cancelled { cause: Cause::Group, .. }));
    busy.open();
}

pub(crate) fn G1_the_deadline_is_for_the_whole_group(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(100).clock(clock).build().expect("the pool starts");
    let second = Duration::from_secs(1);
    let group: Group<()> = pool.group().deadline(3 * second).collect_all().start();
    let busy = occupy(&pool, cx.workers());
    group.submit(|_| Ok(())).expect("there is room");
    hand.advance(2 * second);
    group.submit(|_| Ok(())).expect("there is room");
    give_a_bug_its_chance();
    assert_eq!(group.unsettled(), 2, "there is a second left");
    hand.advance(second);
    let failures = group.wait().expect_err("its time is up").into_failures();
    assert_eq!(failures.len(), 2);
    for failure in failures {
        assert!(matches!(failure, TaskError::TimedOut(TimedOut::InQueue)), "{failure:?}");
    }
    let late: Group<()> = pool.group().deadline(second).start();
    hand.advance(second);
    assert_eq!(refusal(late.submit(|_| Ok(()))), Reason::TimedOut, "its time is up");
    late.wait().expect("it had no task");
    busy.open();
}

/// Fork and join, far deeper than the queue is long.
pub(super) fn sum(pool: &Pool, from: u64, to: u64) -> u64 {
    if to - from <= 2 {
        return (from..to).sum();
    }
    let middle = from + (to - from) / 2;
    let total = Arc::new(AtomicU64::new(0));
    let group: Group<()> = pool.group().start();
    for (from, to) in [(from, middle), (middle, to)] {
        let (inner, total) = (pool.clone(), Arc::clone(&total));
        let task = move |_: &tidegate::Cx| {
            total.fetch_add(sum(&inner, from, to), SeqCst);
            Ok(())
        };
        group.submit(task).expect("inside a task a group never refuses for room");
    }
    group.wait().expect("nothing fails");
    total.load(SeqCst)
}

pub(crate) fn G1_fork_and_join_inside_the_pool(cx: &Ctx) {
    for queue in [1, 100] {
        let pool = cx.builder().queue(queue).build().expect("the pool starts");
        let inner = pool.clone();
        let handle = pool.submit(move || sum(&inner, 0, 200)).expect("there is room");
        assert_eq!(value(handle), 19_900);
    }
}

pub(crate) fn G1_submitting_to_a_group_from_inside_it(cx: &Ctx) {
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    let group: Group<()> = pool.group().limit(3).start();
    let ran = Arc::new(AtomicUsize::new(0));
    fn spread(group: &Group<()>, ran: &Arc<AtomicUsize>, depth: u32) {
        ran.fetch_add(1, SeqCst);
        for _ in 0..if depth == 0 { 0 } else { 3 } {
            let (inner, ran) = (group.clone(), Arc::clone(ran));
            let task = move |_: &tidegate::Cx| {
                spread(&inner, &ran, depth - 1);
                Ok(())
            };
            group.submit(task).expect("neither limit nor queue refuse inside");
        }
    }
    let (inner, counted) = (group.clone(), Arc::clone(&ran));
    let root = move |_: &tidegate::Cx| {
        spread(&inner, &counted, 4);
        Ok(())
    };
    group.submit(root).expect("there is room");
    group.wait().expect("nothing fails");
    assert_eq!(ran.load(SeqCst), 1 + 3 + 9 + 27 + 81);
}

/// The one worker that could run it is the waiter's: the other is held up by a member that
/// waits for it.
pub(crate) fn G1_a_waiter_inside_runs_what_is_added_meanwhile(cx: &Ctx) {
    let pool = cx.builder().workers(2).queue(100).build().expect("the pool starts");
    let group: Group<()> = pool.group().start();
    let (gate, waits) = (Gate::new(), Gate::new());
    let passage = gate.passage();
    let member = move |_: &tidegate::Cx| {
        passage.enter();
        Ok(())
    };
    group.submit(member).expect("there is room");
    gate.wait_until_entered(1);
    let (inner, passage) = (group.clone(), waits.passage());
    let waiter = pool.submit(move || {
        passage.enter();
        inner.wait().is_ok()
    });
    let waiter = waiter.expect("there is room");
    waits.open();
    waits.wait_until_entered(1);
    give_a_bug_its_chance();
    let gate = Arc::new(gate);
    let opens = Arc::clone(&gate);
    let late = move |_: &tidegate::Cx| {
        opens.open();
        Ok(())
    };
    group.submit(late).expect("there is room");
    assert!(value(waiter), "nothing failed");
}

/// Deeper than waits may be nested: forking is no waiting.
pub(crate) fn R8_a_fork_is_never_refused_however_deep(cx: &Ctx) {
    fn deeper(group: &Group<()>, levels: u32) {
        if levels > 0 {
            let inner = group.clone();
            let task = move |_: &tidegate::Cx| {
                deeper(&inner, levels - 1);
                Ok(())
            };
            group.submit(task).expect("inside a task a group never refuses for room");
        }
    }
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let group: Group<()> = pool.group().start();
    let (gate, inner) = (Gate::new(), group.clone());
    let passage = gate.passage();
    let root = move |_: &tidegate::Cx| {
        passage.enter();
        deeper(&inner, 100);
        Ok(())
    };
    group.submit(root).expect("there is room");
    gate.wait_until_entered(1);
    pool.spawn(|| ()).expect("there is one place");
    gate.open();
    group.wait().expect("nothing fails");
    assert_eq!(pool.snapshot().nested, 100, "each ran on top of the one before");
    busy.open();
}

pub(crate) fn G1_waiting_for_a_group_from_inside_it_would_deadlock(cx: &Ctx) {
    let pool = open(cx);
    let group: Group<&str> = pool.group().start();
    let inner = group.clone();
    let task = move |_: &tidegate::Cx| match inner.wait() {
        Err(error) if error.is_would_deadlock() => Err("refused"),
        _ => Ok(()),
    };
    group.submit(task).expect("there is room");
    let error = group.wait().expect_err("the task says so");
    assert!(matches!(first(&error), TaskError::Failed("refused")), "{error:?}");
}

/// The member runs on top of the task that submits it: nobody has its handle yet.
pub(crate) fn G1_a_member_that_runs_inline_knows_its_group(cx: &Ctx) {
    let pool = cx.builder().workers(1).queue(1).build().expect("the pool starts");
    let inner = pool.clone();
    let handle = pool.submit(move || {
        inner.spawn(|| ()).expect("there is one place");
        let group: Group<&str> = inner.group().start();
        let own = group.clone();
        let task = move |_: &tidegate::Cx| match own.wait() {
            Err(error) if error.is_would_deadlock() => Err("refused"),
            _ => Ok(()),
        };
        group.submit(task).expect("inside a task a group never refuses for room");
        group.wait().map_err(|error| error.to_string())
    });
    let told = value(handle.expect("there is room")).expect_err("the member says so");
    assert!(told.contains("refused"), "{told}");
}

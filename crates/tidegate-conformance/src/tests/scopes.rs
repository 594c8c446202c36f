//! G2: tasks that borrow, under every ending.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Clock, Pool, Reason, Scope, ScopedWaitError, Shutdown, TaskError, WhenFull};

use crate::Ctx;
use crate::kit::{
    Gate, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background, occupy,
    refusal, value,
};

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).build().expect("the pool starts")
}

pub(crate) fn G2_tasks_borrow_from_the_stack(cx: &Ctx) {
    let pool = open(cx);
    let numbers: Vec<u64> = (0..1_000).collect();
    let mut halves = [0, 0];
    let (low, high) = halves.split_at_mut(1);
    let longest = pool.scope(|s| {
        s.spawn(|| low[0] = numbers[..500].iter().sum()).expect("there is room");
        s.spawn(|| high[0] = numbers[500..].iter().sum()).expect("there is room");
        let largest = s.submit(|| numbers.iter().max().copied()).expect("there is room");
        largest.wait().expect("it gives its value")
    });
    assert_eq!((halves[0] + halves[1], longest), (499_500, Some(999)));
    let result = pool.scope(|s| {
        let error = s.submit_result(|| Err::<(), &u64>(&numbers[7])).expect("there is room");
        match error.wait() {
            Err(ScopedWaitError::Task(TaskError::Failed(seven))) => *seven,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(result, 7, "results may borrow too");
    idle(&pool);
    pool.snapshot().check().expect("no task was lost");
}

/// Sets its flag for as long as the borrow is alive.
struct Frame<'a>(&'a AtomicBool);

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// A task that waits for the gate and then looks whether its frame is still there.
fn looks_late<'scope, 'env>(s: &'scope Scope<'scope, 'env>, frame: &'env Frame<'_>, gate: &Gate) {
    let passage = gate.passage();
    let task = move || {
        passage.enter();
        assert!(frame.0.load(SeqCst), "the frame was gone");
    };
    s.spawn(task).expect("there is room");
}

pub(crate) fn G2_a_panic_in_the_body_waits_for_the_tasks(cx: &Ctx) {
    let pool = open(cx);
    let (alive, gate) = (Arc::new(AtomicBool::new(true)), Arc::new(Gate::new()));
    let scope = {
        let (pool, alive, gate) = (pool.clone(), Arc::clone(&alive), Arc::clone(&gate));
        in_background(move || {
            catch_unwind(AssertUnwindSafe(|| {
                let frame = Frame(&alive);
                pool.scope(|s| {
                    looks_late(s, &frame, &gate);
                    gate.wait_until_entered(1);
                    deliberate_panic("in the body")
                })
            }))
            .is_err()
        })
    };
    gate.wait_until_entered(1);
    give_a_bug_its_chance();
    assert!(!scope.is_finished() && alive.load(SeqCst), "the scope left its task behind");
    gate.open();
    assert!(scope.join(), "the panic goes on");
    idle(&pool);
    assert_eq!(pool.snapshot().panicked, 0, "the task found its frame");
}

pub(crate) fn G2_forgotten_handles_change_nothing(cx: &Ctx) {
    let pool = open(cx);
    let counted = AtomicUsize::new(0);
    pool.scope(|s| {
        for _ in 0..50 {
            let handle = s.submit(|| counted.fetch_add(1, SeqCst)).expect("there is room");
            std::mem::forget(handle);
        }
    });
    assert_eq!(counted.load(SeqCst), 50, "the scope ended before its tasks");
}

pub(crate) fn G2_a_panic_in_a_task_is_the_scopes_unless_seen(cx: &Ctx) {
    let pool = open(cx);
    let unseen = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| s.spawn(|| deliberate_panic("nobody looks")).expect("there is room"));
    }));
    let payload = unseen.expect_err("the scope panics");
    let text = payload.downcast_ref::<String>().expect("with a text");
    assert!(text.contains("nobody looks"), "{text}");
    let seen = pool.scope(|s| {
        let handle = s.submit(|| deliberate_panic("seen")).expect("there is room");
        handle.wait().is_err()
    });
    assert!(seen);
    assert_eq!(value(pool.submit(|| 1).expect("the pool goes on")), 1);
}

fn quicksort(pool: &Pool, numbers: &mut [u32]) {
    if numbers.len() <= 8 {
        numbers.sort_unstable();
        return;
    }
    let pivot = numbers[numbers.len() / 2];
    numbers.sort_by_key(|n| *n >= pivot);
    let mut middle = numbers.partition_point(|n| *n < pivot);
    if middle == 0 {
        // It is the smallest: those that equal it go first.
        numbers.sort_by_key(|n| *n > pivot);
        middle = numbers.partition_point(|n| *n <= pivot);
    }
    let (low, high) = numbers.split_at_mut(middle);
    pool.scope(|s| {
        s.spawn(|| quicksort(pool, low)).expect("inside a task a scope never refuses for room");
        quicksort(pool, high);
    });
}

pub(crate) fn G2_nested_scopes_inside_the_pool(cx: &Ctx) {
    for queue in [1, 100] {
        let pool = cx.builder().queue(queue).build().expect("the pool starts");
        let mut numbers: Vec<u32> = (0..2_000).map(|n| n * 7_919 % 2_003).collect();
        let mut expected = numbers.clone();
        expected.sort_unstable();
        let inner = pool.clone();
        let sorted = pool.submit(move || {
            quicksort(&inner, &mut numbers);
            numbers
        });
        assert!(value(sorted.expect("there is room")) == expected, "not sorted");
    }
}

pub(crate) fn G2_a_shutdown_drops_queued_ones_before_the_scope_ends(cx: &Ctx) {
    for how in [Shutdown::light(), Shutdown::soft(), Shutdown::hard()] {
        let pool = open(cx);
        let (gate, ran) = (Arc::new(Gate::new()), Arc::new(AtomicUsize::new(0)));
        let drops = Arc::new(AtomicUsize::new(0));
        let scope = {
            let (pool, gate, ran) = (pool.clone(), Arc::clone(&gate), Arc::clone(&ran));
            let (workers, drops) = (cx.workers(), Arc::clone(&drops));
            in_background(move || {
                let (borrowed, drops) = (&ran, &*drops);
                pool.scope(|s| {
                    for _ in 0..workers {
                        let passage = gate.passage();
                        s.spawn(move || passage.enter()).expect("there is room");
                    }
                    gate.wait_until_entered(workers);
                    for _ in 0..5 {
                        let looks_in_drop = LooksInDrop { ran: borrowed, drops };
                        s.spawn(move || looks_in_drop.count()).expect("there is room");
                    }
                });
            })
        };
        gate.wait_until_entered(cx.workers());
        eventually("all are there", || pool.snapshot().queued == 5);
        assert_eq!(drops.load(SeqCst), 0, "the tasks hold what they captured");
        let shutdown = {
            let pool = pool.clone();
            in_background(move || pool.shutdown(how).expect("outside the pool"))
        };
        eventually("it closes", || pool.try_submit(|| ()).is_err());
        if how != Shutdown::light() {
            eventually("they are dropped while others run", || drops.load(SeqCst) == 5);
        }
        gate.open();
        scope.join();
        shutdown.join();
        let expected = if how == Shutdown::light() { 5 } else { 0 };
        assert_eq!((ran.load(SeqCst), drops.load(SeqCst)), (expected, 5));
    }
}

/// A capture that uses what it borrows when it is dropped.
struct LooksInDrop<'a> {
    ran: &'a AtomicUsize,
    drops: &'a AtomicUsize,
}

impl LooksInDrop<'_> {
    /// By a method, so that a closure captures all of it: of a field that can be copied it takes only the copy.
    fn count(&self) {
        self.ran.fetch_add(1, SeqCst);
    }
}

impl Drop for LooksInDrop<'_> {
    fn drop(&mut self) {
        assert!(self.ran.load(SeqCst) <= 5, "what it borrowed is gone");
        self.drops.fetch_add(1, SeqCst);
    }
}

/// Hazard 62: a task that still borrows is never given up.
pub(crate) fn hazard_62_hard_returns_and_a_scoped_task_is_not_abandoned(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let grace = Duration::from_secs(5);
    let pool = cx.builder().queue(100).clock(clock).grace(grace).build().expect("it starts");
    let (alive, gate) = (Arc::new(AtomicBool::new(true)), Arc::new(Gate::new()));
    let scope = {
        let (pool, alive, gate) = (pool.clone(), Arc::clone(&alive), Arc::clone(&gate));
        in_background(move || {
            let frame = Frame(&alive);
            pool.scope(|s| looks_late(s, &frame, &gate));
        })
    };
    gate.wait_until_entered(1);
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::hard()).expect("outside the pool"))
    };
    eventually("Hard returns though it borrows", || {
        hand.advance(grace);
        shutdown.is_finished()
    });
    let report = shutdown.join();
    assert_eq!((report.complete, report.abandoned), (false, 0), "{report}");
    assert_eq!(report.still_borrowing.len(), 1, "{report}");
    assert!(!scope.is_finished() && alive.load(SeqCst), "only the scope waits for it");
    gate.open();
    scope.join();
    eventually("it is settled", || pool.snapshot().settled() == 1);
    assert_eq!(pool.snapshot().panicked, 0, "the task found its frame");
}

pub(crate) fn G2_a_scoped_task_can_be_cancelled(cx: &Ctx) {
    let pool = open(cx);
    let busy = occupy(&pool, cx.workers());
    let ran = AtomicBool::new(false);
    pool.scope(|s| {
        let handle = s.submit(|| ran.store(true, SeqCst)).expect("there is room");
        assert!(handle.cancel() && handle.is_settled());
        let error = handle.wait().expect_err("it never ran");
        assert!(matches!(error, ScopedWaitError::Task(TaskError::Cancelled { .. })));
    });
    assert!(!ran.load(SeqCst));
    busy.open();
}

pub(crate) fn G2_a_refusal_gives_borrowing_work_back(cx: &Ctx) {
    let builder = cx.builder().queue(1).when_full(WhenFull::Reject);
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let text = String::from("borrowed");
    pool.scope(|s| {
        let first = s.submit(|| text.len()).expect("there is one place");
        let refused = s.submit(|| text.len() + 1).expect_err("there is no other");
        assert_eq!(refused.reason(), Reason::Full);
        assert_eq!(refused.into_work()(), 9, "the closure comes back");
        busy.open();
        assert_eq!(first.wait().expect("it gives its value"), 8);
    });
}

pub(crate) fn G2_tasks_may_submit_to_their_own_scope(cx: &Ctx) {
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    let count = AtomicUsize::new(0);
    fn spread<'scope, 'env>(s: &'scope Scope<'scope, 'env>, count: &'env AtomicUsize, depth: u32) {
        count.fetch_add(1, SeqCst);
        for _ in 0..if depth == 0 { 0 } else { 2 } {
            s.spawn(move || spread(s, count, depth - 1)).expect("the pool is open");
        }
    }
    pool.scope(|s| spread(s, &count, 6));
    assert_eq!(count.load(SeqCst), 127);
}

/// Its one free worker is the one that waits for the scope.
pub(crate) fn G2_the_end_of_a_scope_inside_runs_what_is_added_meanwhile(cx: &Ctx) {
    let pool = cx.builder().workers(2).queue(100).build().expect("the pool starts");
    let inner = pool.clone();
    let outer = pool.submit(move || {
        let gate = Gate::new();
        inner.scope(|s| {
            let (passage, gate) = (gate.passage(), &gate);
            let task = move || {
                give_a_bug_its_chance(); // the body is over, the scope waits
                s.spawn(|| gate.open()).expect("there is room");
                passage.enter();
            };
            s.spawn(task).expect("there is room");
            let looks = inner.clone();
            eventually("the task runs elsewhere", move || looks.snapshot().running == 2);
        });
    });
    value(outer.expect("there is room"));
}

/// Hazard 61: every way a body can end, while its tasks are queued, running or over.
pub(crate) fn hazard_61_bodies_that_panic_in_every_phase(cx: &Ctx) {
    let pool = open(cx);
    for phase in 0..3 {
        let (alive, gate) = (AtomicBool::new(true), Arc::new(Gate::new()));
        let busy = (phase == 0).then(|| occupy(&pool, cx.workers()));
        let opener = Arc::clone(&gate);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let frame = Frame(&alive);
            pool.scope(|s| {
                looks_late(s, &frame, &gate);
                match phase {
                    0 => {
                        // Queued: let everything go only once the body has ended.
                        in_background(move || {
                            give_a_bug_its_chance();
                            opener.open();
                            busy.expect("made for this phase").open();
                        });
                    }
                    1 => {
                        gate.wait_until_entered(1);
                        in_background(move || {
                            give_a_bug_its_chance();
                            opener.open();
                        });
                    }
                    _ => {
                        gate.open();
                        idle(&pool);
                    }
                }
                deliberate_panic("in the body")
            })
        }));
        assert!(panicked.is_err() && !alive.load(SeqCst));
        idle(&pool);
        assert_eq!(pool.snapshot().panicked, 0, "the task found its frame in phase {phase}");
    }
}

pub(crate) fn G2_the_panic_of_a_scope_is_the_one_nobody_saw(cx: &Ctx) {
    let pool = open(cx);
    let raised = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            let seen = s.submit(|| -> () { deliberate_panic("seen") }).expect("there is room");
            assert!(seen.wait().is_err());
            s.spawn(|| deliberate_panic("not seen")).expect("there is room");
        });
    }));
    let payload = raised.expect_err("one was not seen");
    let text = payload.downcast_ref::<String>().expect("a text");
    assert!(text.contains("not seen"), "{text}");
}

/// A scoped task with a name and a context: it hears the stop, and the report names it.
pub(crate) fn G2_a_scoped_task_hears_that_it_should_stop(cx: &Ctx) {
    let grace = Duration::from_millis(1);
    let pool = cx.builder().queue(100).grace(grace).build().expect("the pool starts");
    let gate = Gate::new();
    let (passage, heard) = (gate.passage(), AtomicBool::new(false));
    let report = std::thread::scope(|threads| {
        let shutdown = threads.spawn(|| {
            gate.wait_until_entered(1);
            let report = pool.shutdown(Shutdown::hard()).expect("outside the pool");
            gate.open(); // told, and still there
            report
        });
        pool.scope(|s| {
            let task = s.task("borrower").submit(|cx| {
                passage.enter();
                heard.store(cx.stopping(), SeqCst);
            });
            let _ = task.expect("there is room").wait();
        });
        shutdown.join().expect("no panic")
    });
    assert!(heard.load(SeqCst), "it was told");
    let names: Vec<_> = report.still_borrowing.iter().map(|task| task.name).collect();
    assert_eq!(names, ["borrower"]);
}

pub(crate) fn G2_a_scoped_task_has_limits_and_a_token(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(100).clock(clock).build().expect("the pool starts");
    let second = Duration::from_secs(1);
    let (gate, data) = (Gate::new(), [1, 2, 3]);
    let timed_out = |error: ScopedWaitError<std::convert::Infallible>| {
        matches!(error, ScopedWaitError::Task(TaskError::TimedOut(_)))
    };
    let length = |_: &tidegate::Cx| data.len();
    let busy = occupy(&pool, cx.workers());
    pool.scope(|s| {
        let token = tidegate::Token::new();
        let tasks = [
            s.task("").queue_timeout(second).submit(length),
            s.task("").total_timeout(second).submit(length),
            s.task("").cancel_with(&token).submit(length),
        ];
        let [in_queue, in_all, cancelled] = tasks.map(|task| task.expect("there is room"));
        hand.advance(second);
        assert!(timed_out(in_queue.wait().expect_err("its time in the queue is up")));
        assert!(timed_out(in_all.wait().expect_err("its time is up")));
        token.cancel();
        let error = cancelled.wait().expect_err("it was cancelled");
        assert!(matches!(error, ScopedWaitError::Task(TaskError::Cancelled { .. })));
    });
    busy.open();
    pool.scope(|s| {
        let token = tidegate::Token::new();
        let hears = |cx: &tidegate::Cx| {
            gate.passage().enter_unless(|| cx.stopping());
            (cx.cause(), cx.external_id())
        };
        let limited = s.task("").timeout(second).external_id(7u64).submit(hears);
        let limited = limited.expect("there is room");
        gate.wait_until_entered(1);
        hand.advance(second);
        assert!(timed_out(limited.wait().expect_err("its time is up")));
        let told = s.task("").cancel_with(&token).external_id(7u64).submit(hears);
        let told = told.expect("there is room");
        gate.wait_until_entered(2);
        token.cancel();
        let (cause, id) = told.wait().expect("it returned a value");
        assert_eq!((cause, id), (Some(tidegate::Cause::Token), Some(7u64.into())));
    });
}

/// The worker whose task made the scope would have to run it, and can't (W1).
pub(crate) fn G2_with_state_a_scope_inside_takes_nothing_from_anywhere(cx: &Ctx) {
    let pool = cx.builder().queue(10).callers_may_help(false).worker_state(|_| 0u8).build();
    let pool = pool.expect("the pool starts");
    let inner = pool.clone();
    let task = pool.submit(move || {
        inner.scope(|s| {
            let elsewhere = std::thread::scope(|threads| {
                threads.spawn(|| refusal(s.spawn(|| ()))).join().expect("no panic")
            });
            (refusal(s.spawn(|| ())), elsewhere)
        })
    });
    let would_deadlock = Reason::WouldDeadlock;
    assert_eq!(value(task.expect("there is room")), (would_deadlock, would_deadlock));
    let inner = pool.clone();
    let task = pool.submit(move || {
        inner.close();
        let mapped = inner.map([1], |n: u8| n).next().expect("an answer");
        let tidegate::MapError::Refused(mapped) = mapped.expect_err("it is closed") else {
            panic!("refused")
        };
        (mapped, inner.scope(|s| refusal(s.spawn(|| ()))))
    });
    let closed = Reason::Closed;
    assert_eq!(value(task.expect("there is room")), (closed, closed), "the first of the reasons");
}

/// S4: a task that a caller runs is never given up either, and is named.
pub(crate) fn S4_a_task_on_a_caller_is_listed_as_borrowing(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let grace = Duration::from_secs(1);
    let builder = cx.builder().queue(1).when_full(WhenFull::CallerRuns);
    let pool = builder.clock(clock).grace(grace).build().expect("the pool starts");
    let (busy, gate) = (occupy(&pool, cx.workers()), Gate::new());
    let queued = pool.submit(|| ()).expect("there is one place");
    let (other, passage) = (pool.clone(), gate.passage());
    let caller = in_background(move || {
        other.task("mine").spawn(move |_| passage.enter()).expect("the caller runs it");
    });
    gate.wait_until_entered(1);
    let other = pool.clone();
    let shutdown =
        in_background(move || other.shutdown(Shutdown::hard()).expect("outside the pool"));
    busy.open();
    eventually("Hard returns", || {
        hand.advance(grace);
        shutdown.is_finished()
    });
    let report = shutdown.join();
    let names: Vec<_> = report.still_borrowing.iter().map(|task| task.name).collect();
    assert_eq!((names, report.complete), (vec!["mine"], false), "{report}");
    gate.open();
    caller.join();
    drop(queued);
}

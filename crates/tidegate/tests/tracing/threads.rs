//! What is told of pools of threads.

use std::error::Error;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tidegate::{
    Clock, Cx, Pool, Reason, Refused, Shutdown, ShutdownError, StopWorker, Token, WhenFull,
};
use tracing::Level;

use crate::collector::{listen, lock, thread_name, until};
use crate::gate::Gate;

type TestResult = Result<(), Box<dyn Error>>;

fn one_worker(name: &str) -> tidegate::Builder {
    Pool::builder(name).workers(1)
}

// ---------------------------------------------------------------- spans

#[test]
fn v2_a_span_is_a_child_of_its_submitters_and_entered_by_the_worker() -> TestResult {
    let seen = listen("spans");
    let pool = one_worker("spans").build()?;
    let request = tracing::info_span!(target: "test", "request");
    let handle = request.in_scope(|| {
        pool.task("resize").external_id("order-7").submit(|cx| {
            tracing::info!(target: "test", pool = "spans", "inside");
            cx.task_id()
        })
    })?;
    let id = handle.wait()?;
    pool.wait_idle()?;
    let span = seen.span("resize");
    assert_eq!(span.name, "task");
    assert_eq!(span.parent, request.id().map(|id| id.into_u64()));
    assert_eq!(span.fields["id"], id.to_string());
    assert_eq!(span.fields["external_id"], "order-7");
    assert_eq!(span.fields["outcome"], "completed");
    assert_eq!(span.entered_on, ["spans-0"]);
    assert_eq!((span.inside, span.closed), (0, true));
    let inside = seen.the("inside").inside.expect("it happened inside a span");
    assert_eq!(seen.all.span(inside).fields["task"], "resize");
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_every_outcome_is_on_its_span() -> TestResult {
    let seen = listen("ends");
    let (clock, hand) = Clock::manual();
    let second = Duration::from_secs(1);
    let pool = one_worker("ends").clock(clock).on_unobserved(|_| ()).build()?;
    assert!(pool.task("completed").submit(|_| ())?.wait().is_ok());
    assert!(pool.task("failed").submit_result(|_| Err::<(), _>("no"))?.wait().is_err());
    assert!(pool.task("panicked").submit(|_| panic!("ouch"))?.wait().is_err());
    let (begun, begins) = mpsc::channel();
    let slow = pool.task("timed out running").timeout(second).submit(move |cx| {
        begun.send(()).unwrap();
        until("the stop", || cx.stopping());
    })?;
    begins.recv()?;
    hand.advance(second);
    assert!(slow.wait().is_err());
    let gate = Gate::hold(&pool)?;
    let late = pool.task("timed out in queue").queue_timeout(second).submit(|_| ())?;
    let cancelled = pool.task("cancelled").submit(|_| ())?;
    let token = Token::new();
    let by_token = pool.task("cancelled by token").cancel_with(&token).submit(|_| ())?;
    assert!(cancelled.cancel());
    token.cancel();
    hand.advance(second);
    assert!(late.wait().is_err() && cancelled.wait().is_err() && by_token.wait().is_err());
    gate.open();
    pool.shutdown(Shutdown::default())?;
    for (task, outcome, runs) in [
        ("completed", "completed", 1),
        ("failed", "failed", 1),
        ("panicked", "panicked", 1),
        ("timed out running", "timed_out", 1),
        ("timed out in queue", "timed_out", 0),
        ("cancelled", "cancelled", 0),
        ("cancelled by token", "cancelled", 0),
    ] {
        let span = seen.span(task);
        assert_eq!(span.fields["outcome"], outcome, "{task}");
        assert_eq!((span.entered_on.len(), span.inside, span.closed), (runs, 0, true), "{task}");
    }
    Ok(())
}

#[test]
fn v2_an_abandoned_tasks_span_ends_with_its_code() -> TestResult {
    let seen = listen("deaf");
    let pool = one_worker("deaf").grace(Duration::ZERO).build()?;
    let barrier = Arc::new(Barrier::new(2));
    let theirs = Arc::clone(&barrier);
    let deaf = pool.task("listen").submit(move |_| {
        theirs.wait();
        theirs.wait();
    })?;
    barrier.wait();
    let id = deaf.id();
    deaf.cancel();
    assert!(deaf.wait().is_err());
    let told = seen.the("task abandoned");
    assert_eq!(told.level, Level::WARN);
    assert_eq!(
        (&*told.fields["task"], &told.fields["id"], &*told.fields["cause"]),
        ("listen", &id.to_string(), "handle")
    );
    assert_eq!(seen.outcome("listen").as_deref(), Some("abandoned"));
    let span = seen.span("listen");
    assert_eq!((span.inside, span.closed), (1, false), "its code still runs");
    assert!(seen.events_of("abandoned task returned").is_empty());
    barrier.wait();
    let late = seen.the("abandoned task returned");
    assert_eq!((late.level, &*late.fields["task"]), (Level::INFO, "listen"));
    until("the end of the span", || seen.span("listen").closed);
    // One without a name has no span, but is told of as well.
    let gate = Gate::hold(&pool)?;
    assert!(
        pool.roster()
            .into_iter()
            .any(|worker| { pool.recycle_worker(worker.id, StopWorker::Hard).is_ok() })
    );
    until("the second", || seen.events_of("task abandoned").len() == 2);
    gate.open();
    until("its return", || seen.events_of("abandoned task returned").len() == 2);
    assert!(seen.events_of("unobserved").is_empty(), "it would be told twice");
    assert_eq!(seen.spans().len(), 1);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_who_runs_a_task_enters_its_span() -> TestResult {
    let seen = listen("callers");
    let pool = one_worker("callers").queue(1).when_full(WhenFull::CallerRuns).build()?;
    let gate = Gate::hold(&pool)?;
    pool.spawn(|| ())?;
    pool.task("by caller").submit(|_| ())?.wait()?;
    gate.open();
    pool.wait_idle()?;
    let inner = pool.clone();
    let outer = pool.task("outer").submit(move |_| {
        let nested = inner.task("nested").submit(|_| ()).unwrap();
        nested.wait().unwrap();
    })?;
    outer.wait()?;
    pool.shutdown(Shutdown::default())?;
    assert_eq!(seen.span("by caller").entered_on, [thread_name()]);
    assert_eq!(seen.span("nested").entered_on, ["callers-0"]);
    let parent = seen.span("nested").parent.expect("it was submitted inside another");
    assert_eq!(seen.all.span(parent).fields["task"], "outer");
    Ok(())
}

#[test]
fn v2_tasks_of_groups_and_scopes_have_spans_if_they_have_names() -> TestResult {
    let seen = listen("together");
    let pool = one_worker("together").build()?;
    let group = pool.group().name("member").start::<&str>();
    group.submit(|_| Ok(()))?;
    group.wait().map_err(|error| format!("{error:?}"))?;
    assert_eq!(seen.outcome("member").as_deref(), Some("completed"), "when the group is over");
    let numbers = [1, 2, 3];
    let sum = pool.scope(|s| {
        let sum = s.task("borrows").submit(|_| numbers.iter().sum::<i32>()).unwrap();
        s.submit(|| ()).unwrap().wait().unwrap();
        sum.wait().unwrap()
    });
    assert_eq!(sum, 6);
    assert_eq!(seen.outcome("borrows").as_deref(), Some("completed"), "when the scope is over");
    assert_eq!(seen.spans().len(), 2);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_nothing_is_told_of_a_task_without_a_name() -> TestResult {
    let seen = listen("plain");
    let pool = one_worker("plain").build()?;
    pool.spawn(|| ())?;
    pool.submit(|| ())?.wait()?;
    assert_eq!(pool.map(0..3, |n| n).count(), 3);
    pool.wait_idle()?;
    assert!(seen.spans().is_empty() && seen.events().is_empty(), "{:?}", seen.events());
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

// ---------------------------------------------------------------- refusals

#[test]
fn v2_refused_work_comes_back_as_it_was_given() -> TestResult {
    /// Only compiles if it is the very type that was offered.
    fn back<F>(_: &F, refused: Refused<F>) -> F {
        refused.into_work()
    }
    let seen = listen("full");
    let pool = one_worker("full").queue(1).when_full(WhenFull::Reject).build()?;
    let gate = Gate::hold(&pool)?;
    let queued = pool.task("fits").submit(|_| 0)?;
    let number = Box::new(42_u64);
    let address = &raw const *number as usize;
    let work = move |_: &Cx| (*number, &raw const *number as usize);
    let refused = pool.task("resize").submit(work).unwrap_err();
    assert_eq!(refused.reason(), Reason::Full);
    let told = seen.the("work refused");
    assert_eq!(told.level, Level::WARN);
    assert_eq!((&*told.fields["task"], &*told.fields["reason"]), ("resize", "full"));
    let span = seen.span("resize");
    assert_eq!((&*span.fields["outcome"], span.closed), ("refused", true));
    assert!(span.entered_on.is_empty());
    // It can be offered again, and its captures are where they were.
    gate.open();
    queued.wait()?;
    let again = pool.task("again").submit(refused.into_work())?;
    assert_eq!(again.wait()?, (42, address));
    pool.close();
    let seven = |_: &Cx| 7;
    let refused = pool.task("closed").submit(seven).unwrap_err();
    assert_eq!(size_of_val(&back(&seven, refused)), 0, "nothing is around it");
    assert!(seen.events().iter().any(|e| e.fields["reason"] == "closed"));
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_refusals_are_ten_a_second_and_a_count() -> TestResult {
    let seen = listen("flood");
    let (clock, hand) = Clock::manual();
    let pool = one_worker("flood").queue(1).clock(clock).build()?;
    let gate = Gate::hold(&pool)?;
    pool.spawn(|| ())?;
    let refused = || assert!(pool.try_spawn(|| ()).is_err());
    let told = || seen.events_of("work refused");
    (0..25).for_each(|_| refused());
    assert_eq!(told().len(), 10);
    hand.advance(Duration::from_millis(999));
    refused();
    assert_eq!(told().len(), 10);
    hand.advance(Duration::from_millis(1));
    (0..12).for_each(|_| refused());
    let events = told();
    assert_eq!(events.len(), 20);
    let left_out: Vec<_> = events.iter().filter_map(|e| e.fields.get("left_out")).collect();
    assert_eq!(left_out, ["16"], "once, and by the first of the next second");
    assert_eq!(events[10].fields["left_out"], "16");
    gate.open();
    pool.shutdown(Shutdown::default())?;
    assert_eq!(seen.the("more refusals").fields["left_out"], "2", "nothing is lost at the end");
    Ok(())
}

// ---------------------------------------------------------------- the pool

#[test]
fn v2_a_worker_that_fails_and_comes_back_is_told() -> TestResult {
    let seen = listen("flaky");
    let fails = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&fails);
    let pool = Pool::builder("flaky")
        .workers(1)
        .restart_backoff(Duration::ZERO..=Duration::ZERO)
        .try_worker_state(move |_| if theirs.swap(false, SeqCst) { Err("no ink") } else { Ok(()) })
        .build()?;
    fails.store(true, SeqCst);
    // After a panic the state is made again.
    assert!(pool.submit_with(|_, _| panic!("ouch")).map_err(|r| r.reason())?.wait().is_err());
    pool.submit_with(|_, _| ()).map_err(|r| r.reason())?.wait()?;
    let failed = seen.the("worker could not start");
    assert_eq!((failed.level, &*failed.fields["worker"]), (Level::WARN, "0"));
    assert!(failed.fields["cause"].contains("no ink"), "{failed:?}");
    assert!(seen.events_of("unobserved").is_empty(), "it would be told twice");
    let again = seen.the("worker restarted");
    assert_eq!((again.level, &*again.thread), (Level::WARN, "flaky-reaper"));
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_a_thread_that_cannot_be_started_is_told_by_another() -> TestResult {
    let seen = listen("scarce");
    let left_to_fail = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&left_to_fail);
    let told = Arc::new(AtomicU64::new(0));
    let hook = Arc::clone(&told);
    let pool = one_worker("scarce")
        .restart_backoff(Duration::ZERO..=Duration::ZERO)
        .on_unobserved(move |_| _ = hook.fetch_add(1, SeqCst))
        .spawner(move |builder, body| {
            let worker = thread_name().contains("supervisor");
            let fails = theirs.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(u64::from(worker)));
            if worker && fails.is_ok() {
                Err(io::Error::other("no threads"))
            } else {
                builder.spawn(body)
            }
        })
        .build()?;
    left_to_fail.store(1, SeqCst);
    let id = pool.roster()[0].id;
    pool.recycle_worker(id, StopWorker::AfterTask)?;
    let failed = seen.the("worker could not start");
    assert!(failed.fields["cause"].contains("no threads"), "{failed:?}");
    seen.the("worker restarted");
    pool.submit(|| ())?.wait()?;
    pool.shutdown(Shutdown::default())?;
    assert_eq!(told.load(SeqCst), 1, "the hook hears it too");
    Ok(())
}

#[test]
fn v2_a_shutdown_is_told_from_begin_to_end() -> TestResult {
    let seen = listen("closing");
    let pool = one_worker("closing").build()?;
    let gate = Gate::hold(&pool)?;
    let queued = pool.submit(|| ())?;
    let report = thread::scope(|scope| {
        let theirs = &pool;
        let soft = Shutdown::soft().within(Duration::from_secs(3600));
        let closing = scope.spawn(move || theirs.shutdown(soft));
        let begun = seen.the("shutdown begun");
        assert_eq!(begun.level, Level::INFO);
        assert_eq!((&*begun.fields["mode"], &*begun.fields["deadline"]), ("soft", "3600s"));
        assert!(queued.wait().is_err());
        // A weaker request changes nothing, a stronger one does.
        drop(pool.shutdown_async(Shutdown::light()));
        drop(pool.shutdown_async(Shutdown::hard()));
        let escalated = seen.the("shutdown escalated");
        assert_eq!((&*escalated.fields["mode"], &*escalated.fields["late"]), ("hard", "false"));
        assert!(seen.events_of("shutdown finished").is_empty());
        gate.open();
        closing.join().expect("no panic")
    })?;
    let ended = seen.events_of("shutdown finished");
    assert_eq!(ended.len(), 1, "told before the report is out");
    let fields = &ended[0].fields;
    assert_eq!((ended[0].level, &*fields["complete"]), (Level::INFO, "true"));
    assert_eq!(fields["cancelled"], report.cancelled.to_string());
    assert_eq!((&*fields["cancelled"], &*fields["completed"]), ("1", "1"));
    Ok(())
}

#[test]
fn v2_a_shutdown_that_leaves_something_behind_is_a_warning() -> TestResult {
    let seen = listen("late");
    let (clock, hand) = Clock::manual();
    let pool = one_worker("late").clock(clock).grace(Duration::from_secs(1)).build()?;
    let gate = Gate::hold(&pool)?;
    thread::scope(|scope| -> TestResult {
        let theirs = &pool;
        let within = Shutdown::light().within(Duration::from_secs(5));
        let closing = scope.spawn(move || theirs.shutdown(within));
        seen.the("shutdown begun");
        hand.advance(Duration::from_secs(5));
        assert_eq!(seen.the("shutdown escalated").fields["late"], "true");
        // The supervisor has to have seen the limit before the grace begins.
        until("the end", || {
            hand.advance(Duration::from_secs(1));
            closing.is_finished()
        });
        assert!(!closing.join().expect("no panic")?.is_success());
        Ok(())
    })?;
    let ended = seen.the("shutdown finished, but");
    assert_eq!((ended.level, &*ended.fields["still_running"]), (Level::WARN, "1"));
    gate.open();
    Ok(())
}

#[test]
fn v2_resizing_is_told() -> TestResult {
    let seen = listen("sized");
    let soon = Duration::from_millis(1);
    let pool = one_worker("sized").shrink_after(soon).resize_cooldown(soon).build()?;
    pool.resize(3)?;
    pool.resize(3)?;
    let resized = seen.the("pool resized");
    assert_eq!(resized.level, Level::DEBUG);
    assert_eq!((&*resized.fields["from"], &*resized.fields["to"]), ("1", "3"));
    pool.resize(0..=3)?;
    // It is idle: the load takes workers away.
    until("the load", || seen.events_of("pool resized").len() > 1);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

// ---------------------------------------------------------------- unobserved

#[test]
fn v2_failures_that_nobody_observes_are_events_unless_a_hook_hears_them() -> TestResult {
    let seen = listen("unseen");
    let pool = one_worker("unseen").build()?;
    pool.task("boil").spawn_result(|_| Err("dry"))?;
    pool.spawn(|| panic!("ouch"))?;
    pool.wait_idle()?;
    until("both", || seen.events_of("unobserved").len() == 2);
    let failed = seen.the("unobserved: failed");
    assert_eq!(failed.level, Level::ERROR);
    assert_eq!((&*failed.fields["task"], &*failed.fields["error"]), ("boil", "dry"));
    let panicked = seen.the("unobserved: panicked");
    assert_eq!((&*panicked.fields["error"], &*panicked.thread), ("ouch", "unseen-0"));
    pool.shutdown(Shutdown::default())?;

    let seen = listen("hooked");
    let (heard, hears) = mpsc::channel();
    let heard = Mutex::new(heard);
    let hook = move |what: &tidegate::Unobserved| lock(&heard).send(what.message.clone()).unwrap();
    let pool = one_worker("hooked").on_unobserved(hook).build()?;
    pool.spawn(|| panic!("ouch"))?;
    assert_eq!(hears.recv()?, "ouch");
    pool.shutdown(Shutdown::default())?;
    assert!(seen.events_of("unobserved").is_empty());
    Ok(())
}

/// Runs in a process of its own, with and without a subscriber: see below.
#[test]
fn v2_child_fails_unobserved() -> TestResult {
    let _seen = match std::env::var("TIDEGATE_CHILD").as_deref() {
        Err(_) => return Ok(()),
        Ok("listens") => Some(listen("child")),
        Ok(_) => None,
    };
    let pool = one_worker("child").build()?;
    pool.task("boil").spawn_result(|_| Err("dry"))?;
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

#[test]
fn v2_without_a_subscriber_failures_go_to_stderr() -> TestResult {
    for (child, lines) in [("listens", 0), ("alone", 1)] {
        let said = Command::new(std::env::current_exe()?)
            .args(["--exact", "threads::v2_child_fails_unobserved", "--nocapture"])
            .env("TIDEGATE_CHILD", child)
            .output()?;
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{text}");
        let count = text.lines().filter(|line| line.ends_with("failed: dry")).count();
        assert_eq!(count, lines, "{child}: {text}");
    }
    Ok(())
}

// ---------------------------------------------------------------- bad subscribers

#[test]
fn v2_a_subscriber_that_panics_everywhere_loses_no_task() -> TestResult {
    for name in ["panicky", "panicky-new", "unable"] {
        let _seen = listen(name);
        let pool = one_worker(name).queue(1).grace(Duration::ZERO).on_unobserved(|_| ()).build()?;
        for n in 0..10 {
            let number = pool.task("number").submit(move |_| n)?;
            assert_eq!(number.wait()?, n);
        }
        assert!(pool.task("ouch").submit(|_| panic!("ouch"))?.wait().unwrap_err().is_panicked());
        let gate = Gate::hold(&pool)?;
        let queued = pool.task("queued").submit(|_| ())?;
        let refused = pool.task("refused").try_submit(|_| 7).unwrap_err();
        assert_eq!(refused.reason(), Reason::Full);
        queued.cancel();
        assert!(queued.wait().unwrap_err().is_cancelled());
        gate.open();
        pool.resize(2)?;
        let report = pool.shutdown(Shutdown::default())?;
        assert!(report.is_success(), "{report}");
        let snapshot = pool.snapshot();
        let settled = snapshot.completed + snapshot.panicked + snapshot.cancelled;
        assert_eq!((snapshot.accepted, settled), (13, 13), "{name}");
        assert!(snapshot.hook_panics > 0, "{name}: nobody has counted");
        if name == "panicky" {
            // Twelve spans: entered (never exited then), their outcome, closed by two; and more.
            assert!(snapshot.hook_panics >= 12 * 3, "{}", snapshot.hook_panics);
        }
    }
    Ok(())
}

#[test]
fn v2_a_subscriber_may_use_the_pool() -> TestResult {
    let seen = listen("reentrant");
    let pool = one_worker("reentrant").queue(1).grace(Duration::ZERO).build()?;
    let (theirs, calls) = (pool.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    seen.react(move |_| {
        counted.fetch_add(1, SeqCst);
        // None of these may wait for the pool, nor make another span or event.
        match theirs.task("theirs").submit(|_| ()) {
            Ok(handle) => handle.detach(),
            Err(refused) => {
                assert!(matches!(refused.reason(), Reason::WouldDeadlock | Reason::Closed))
            }
        }
        assert_eq!(theirs.wait_idle(), Err(ShutdownError::InsideTask));
        assert!(theirs.shutdown(Shutdown::hard()).is_err());
        assert_eq!(theirs.snapshot().pool.as_ref(), "reentrant");
    });
    for n in 0..20 {
        assert_eq!(pool.task("ours").submit(move |_| n)?.wait()?, n);
    }
    pool.wait_idle()?;
    let gate = Gate::hold(&pool)?;
    // The subscriber takes the last place.
    while pool.task("ours").try_submit(|_| ()).is_ok() {}
    gate.open();
    pool.resize(2)?;
    pool.shutdown(Shutdown::default())?;
    assert!(calls.load(SeqCst) > 22);
    assert!(seen.spans().iter().all(|span| span.fields["task"] == "ours"));
    assert_eq!(pool.snapshot().hook_panics, 0, "an assertion of the subscriber");
    // It holds the pool.
    lock(&seen.all.reactions).remove("reentrant");
    Ok(())
}

#[test]
fn v2_a_subscriber_that_hangs_stops_no_watch() -> TestResult {
    let seen = listen("hanging");
    let (opened, opens) = mpsc::channel::<()>();
    let opens = Mutex::new(opens);
    seen.react(move |event| {
        if event.message().starts_with("task abandoned") {
            let _ = lock(&opens).recv();
        }
    });
    let pool = one_worker("hanging").grace(Duration::ZERO).build()?;
    let barrier = Arc::new(Barrier::new(3));
    let theirs = Arc::clone(&barrier);
    let deaf = pool.submit(move || _ = theirs.wait())?;
    until("its start", || pool.snapshot().running == 1);
    deaf.cancel();
    assert!(deaf.wait().is_err());
    seen.the("task abandoned");
    // The reaper hangs. Time is watched, and what is due is settled all the same.
    let theirs = Arc::clone(&barrier);
    let second = pool.submit(move || _ = theirs.wait())?;
    let late = pool.task("late").queue_timeout(Duration::from_millis(1)).submit(|_| ())?;
    assert!(late.wait().is_err());
    barrier.wait();
    second.wait()?;
    drop(opened);
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

//! G4 and W5: the completion stream, and a batch that takes its pool along.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate::{Cause, Clock, Reason, Shutdown, TaskError};

use crate::Ctx;
use crate::kit::{
    Gate, HANG, deliberate_panic, eventually, idle, in_background, occupy, refusal, threads_named,
};

pub(crate) fn G4_every_result_comes_once(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let mut stream = pool.stream::<u64, std::convert::Infallible>(16);
    let (mut seen, mut next) = (HashSet::new(), 0_u64);
    while seen.len() < 500 {
        while next < 500 && stream.in_flight() < 16 {
            stream.submit(move || next * 2).expect("the window has room");
            next += 1;
        }
        let done = stream.next().expect("something is in flight");
        assert!(
            matches!(done.outcome, Ok(value) if value == done.key * 2),
            "key and value disagree"
        );
        assert!(seen.insert(done.key), "{} came twice", done.key);
    }
    assert!(stream.next().is_none(), "nothing is in flight, so nothing comes");
    assert_eq!(stream.in_flight(), 0);
}

pub(crate) fn G4_the_window_bounds_what_is_not_collected(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let mut stream = pool.stream::<u64, std::convert::Infallible>(4);
    let ran = Arc::new(AtomicU64::new(0));
    let offer = |stream: &mut tidegate::Completions<_, _, _>| {
        let ran = Arc::clone(&ran);
        stream.submit(move || ran.fetch_add(1, SeqCst))
    };
    (0..4).for_each(|n| assert!(offer(&mut stream).is_ok(), "place {n} of the window"));
    idle(&pool);
    assert_eq!(refusal(offer(&mut stream)), Reason::Full, "finished but not collected counts");
    assert_eq!((stream.in_flight(), ran.load(SeqCst)), (4, 4));
    assert!(stream.next().is_some());
    assert!(offer(&mut stream).is_ok(), "one was collected, so one fits");
    assert_eq!(stream.by_ref().count(), 4, "it is an iterator over what is in flight");
}

pub(crate) fn G4_every_kind_of_outcome_comes(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let mut stream = pool.stream::<u8, String>(10);
    stream.submit_result(|| Ok(1)).expect("there is room");
    stream.submit_result(|| Err("bad".to_owned())).expect("there is room");
    stream.submit_result(|| deliberate_panic("streamed")).expect("there is room");
    assert!(stream.try_next().is_none(), "nothing has ended yet");
    busy.open();
    let mut ends: Vec<_> = stream.by_ref().map(|done| (done.key, done.outcome)).collect();
    ends.sort_by_key(|(key, _)| *key);
    assert!(matches!(&ends[0].1, Ok(1)));
    assert!(matches!(&ends[1].1, Err(TaskError::Failed(error)) if error == "bad"));
    assert!(matches!(&ends[2].1, Err(TaskError::Panicked(_))));
}

pub(crate) fn G4_a_shutdown_comes_through_the_stream(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let mut stream = pool.stream::<u8, std::convert::Infallible>(10);
    for n in 0..5 {
        stream.submit(move || n).expect("there is room");
    }
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::soft()).expect("outside the pool"))
    };
    let ends: Vec<_> = stream.by_ref().collect();
    assert_eq!(ends.len(), 5, "a cancelled task never came");
    for done in ends {
        assert_eq!(done.outcome.err().and_then(|error| error.cause()), Some(Cause::Shutdown));
    }
    assert_eq!(refusal(stream.submit(|| 9)), Reason::Closed);
    busy.open();
    shutdown.join();
}

pub(crate) fn G4_dropping_the_stream_detaches(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let ran = Arc::new(AtomicU64::new(0));
    let mut stream = pool.stream::<u64, std::convert::Infallible>(10);
    for _ in 0..5 {
        let ran = Arc::clone(&ran);
        stream.submit(move || ran.fetch_add(1, SeqCst)).expect("there is room");
    }
    drop(stream);
    busy.open();
    idle(&pool);
    assert_eq!(ran.load(SeqCst), 5, "accepted work was lost with the stream");
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn G4_next_inside_a_task_runs_its_own_tasks(cx: &Ctx) {
    let pool = cx.builder().queue(10).callers_may_help(false).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let outer = pool.submit(move || {
        let mut stream = inside.stream::<ThreadId, std::convert::Infallible>(3);
        for _ in 0..3 {
            stream.submit(|| thread::current().id()).expect("there is room");
        }
        let ran_on = [0, 1, 2].map(|_| stream.next().and_then(|done| done.outcome.ok()));
        (ran_on, thread::current().id(), stream.in_flight())
    });
    let outer = outer.expect("there is room").wait_timeout(HANG);
    let outer = outer.expect("a task waited for what only it could run");
    let (ran_on, waiter, left) = outer.expect("it returns a value");
    assert_eq!(ran_on, [Some(waiter); 3], "the waiter takes its own tasks out and runs them");
    assert_eq!((left, pool.snapshot().nested), (0, 3), "counted apart");
    busy.open();
}

pub(crate) fn W5_a_batch_gives_all_outcomes_in_order(cx: &Ctx) {
    let wish = cx.wish();
    let threads = format!("{}-", wish.name);
    let builder =
        tidegate::Pool::builder(wish.name).workers(cx.workers()).queue(3).on_unobserved(|_| ());
    let tasks = (0..300_u32).map(|n| {
        move || match n {
            7 => Err("seven".to_owned()),
            8 => deliberate_panic("eight"),
            _ => Ok(n),
        }
    });
    let batch = builder.run_batch(tasks, Shutdown::light()).expect("the pool starts");
    assert!(batch.is_done() && batch.unfinished.is_empty(), "{:?}", batch.unfinished);
    assert_eq!(batch.outcomes.len(), 300);
    for (n, outcome) in (0..).zip(&batch.outcomes) {
        match (n, outcome) {
            (7, Err(TaskError::Failed(error))) => assert_eq!(error, "seven"),
            (8, Err(TaskError::Panicked(_))) => {}
            (_, Ok(value)) => assert_eq!(*value, n, "outcomes changed places"),
            (_, other) => panic!("item {n} ended as {other:?}"),
        }
    }
    assert!(batch.report.complete, "{}", batch.report);
    eventually("the pool is gone", || threads_named(&threads).unwrap_or(0) == 0);
}

pub(crate) fn W5_an_incomplete_batch_lists_the_unfinished(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    // One worker: with more, an item that has begun may not have ended when the time is up.
    let builder = cx.builder().workers(1).queue(100).clock(clock).grace(Duration::from_secs(1));
    let gate = Gate::new();
    let passages: Vec<_> = (0..6).map(|_| gate.passage()).collect();
    let running = in_background(move || {
        let tasks = passages.into_iter().enumerate().map(|(n, passage)| {
            move || {
                if n == 2 {
                    passage.enter();
                }
                Ok::<_, String>(n)
            }
        });
        builder
            .run_batch(tasks, Shutdown::light().within(Duration::from_secs(10)))
            .expect("the pool starts")
    });
    gate.wait_until_entered(1);
    eventually("the limit and the grace pass", || {
        hand.advance(Duration::from_secs(1));
        running.is_finished()
    });
    let batch = running.join();
    assert!(!batch.is_done(), "an abandoned item is not done");
    assert_eq!(batch.unfinished, [2, 3, 4, 5], "item 2 never returned, nobody began the rest");
    assert_eq!(batch.outcomes.len(), 6, "every item has an outcome");
    let stuck = &batch.outcomes[2];
    assert!(matches!(stuck, Err(TaskError::Abandoned(_))), "its code still runs: {stuck:?}");
    assert!(!batch.report.is_success());
}

pub(crate) fn W5_an_empty_batch_is_done(cx: &Ctx) {
    let none: [fn() -> Result<u8, String>; 0] = [];
    let batch = cx.builder().run_batch(none, Shutdown::default()).expect("the pool starts");
    assert!(batch.is_done() && batch.outcomes.is_empty());
}

//! The invariants I1–I8 of the specification. They speak of Go channels; each
//! test says in its name what that means for a pool. Portable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use tidegate::Reason;

use crate::kit::{
    Gate, Peak, deliberate_panic, in_background, job, occupy_port, taken, until_stopped,
    why_refused,
};
use crate::{Ctx, Ending, How, SuiteHandle};

/// I1, a single closer of jobs: closing is one event however many ask for it.
pub(crate) fn I1_many_closers_close_once(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(64));
    let busy = occupy_port(&*pool, cx.workers());
    let queued: Vec<_> = (0..10).map(|n| taken(pool.submit(job(move || n)))).collect();
    let closers: Vec<_> = (0..4)
        .map(|_| {
            let pool = Arc::clone(&pool);
            in_background(move || pool.shutdown(How::Light))
        })
        .collect();
    busy.open();
    closers.into_iter().for_each(|closer| closer.join());
    for (n, handle) in queued.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ending::Value(n as u64), "a second closer discarded work");
    }
}

/// I2, a single closer of results: the end comes after the last result.
pub(crate) fn I2_the_end_comes_after_the_last_result(cx: &Ctx) {
    let pool = cx.open();
    let handles: Vec<_> = (0..500).map(|n| taken(pool.submit(job(move || n)))).collect();
    pool.shutdown(How::Light);
    let settled = handles.iter().filter(|handle| handle.is_settled()).count();
    assert_eq!(settled, 500, "shutdown returned before the last result");
}

/// I3, add before spawn: a task is counted before it can run.
pub(crate) fn I3_counted_before_it_runs(cx: &Ctx) {
    let pool = cx.open();
    for n in 1..=500 {
        let inside = Arc::clone(&pool);
        let handle = taken(pool.submit(job(move || inside.counts().map_or(0, |now| now.accepted))));
        let Ending::Value(accepted) = handle.wait() else { panic!("the task ends with a value") };
        assert!(accepted >= n, "task {n} ran when only {accepted} were counted");
    }
    pool.shutdown(How::Light);
}

/// I4, done on every exit: value, error and panic all end the task once.
pub(crate) fn I4_done_on_every_exit(cx: &Ctx) {
    let pool = cx.open();
    let endings = [
        taken(pool.submit(Box::new(|_| Ok(1)))),
        taken(pool.submit(Box::new(|_| Err("no".to_owned())))),
        taken(pool.submit(Box::new(|_| deliberate_panic("exit")))),
    ]
    .map(|handle| handle.wait());
    assert_eq!(endings[0], Ending::Value(1));
    assert_eq!(endings[1], Ending::Failed("no".to_owned()));
    assert!(matches!(endings[2], Ending::Panicked(_)), "a panic ended as {:?}", endings[2]);
    // A worker that forgot to say "done" would hold this up for ever.
    pool.shutdown(How::Light);
}

/// I5, no send on closed: what comes after close is refused, and nothing panics.
pub(crate) fn I5_nothing_enters_after_close(cx: &Ctx) {
    let pool = cx.open();
    let closed = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, closed) = (Arc::clone(&pool), Arc::clone(&closed));
            in_background(move || offer_until_refused(&pool, &closed))
        })
        .collect();
    occupy_port(&*pool, 1).open();
    pool.close();
    closed.store(true, SeqCst);
    for producer in producers {
        assert_eq!(producer.join(), Reason::Closed);
    }
    assert_eq!(why_refused(pool.submit(job(|| 0))), Reason::Closed);
    assert_eq!(why_refused(pool.try_submit(job(|| 0))), Reason::Closed);
    pool.shutdown(How::Light);
}

fn offer_until_refused(pool: &Arc<dyn crate::SuitePool>, closed: &AtomicBool) -> Reason {
    loop {
        let late = closed.load(SeqCst);
        match pool.submit(job(|| 0)) {
            Ok(_) => assert!(!late, "work was accepted after close had returned"),
            Err(refusal) => return refusal.reason,
        }
    }
}

/// I6, workers receive only: a failing task closes nothing.
pub(crate) fn I6_a_failing_task_closes_nothing(cx: &Ctx) {
    let pool = cx.open();
    for n in 0..50 {
        let bad = taken(pool.submit(Box::new(|_| deliberate_panic("bad"))));
        let good = taken(pool.submit(job(move || n)));
        assert!(matches!(bad.wait(), Ending::Panicked(_)));
        assert_eq!(good.wait(), Ending::Value(n), "the neighbour of a panic suffered");
    }
    pool.shutdown(How::Light);
}

/// I7: for every job exactly one of result, error, cancelled.
pub(crate) fn I7_exactly_one_end_for_every_job(cx: &Ctx) {
    let pool = cx.open();
    let ran = Arc::new(AtomicU64::new(0));
    let started = Gate::new();
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, ran, started) = (Arc::clone(&pool), Arc::clone(&ran), started.passage());
            in_background(move || offer_until_closed(&pool, &ran, || started.enter()))
        })
        .collect();
    started.wait_until_entered(4);
    started.open();
    pool.shutdown(How::Hard);
    let mut values = 0;
    for handle in producers.into_iter().flat_map(|producer| producer.join()) {
        match handle.wait() {
            Ending::Value(_) => values += 1,
            Ending::Cancelled => {}
            other => panic!("neither a result nor cancelled: {other:?}"),
        }
    }
    assert_eq!(values, ran.load(SeqCst), "a job ran without a result, or has one without running");
}

fn offer_until_closed(
    pool: &Arc<dyn crate::SuitePool>,
    ran: &Arc<AtomicU64>,
    warmed_up: impl FnOnce(),
) -> Vec<Box<dyn SuiteHandle>> {
    let offer = || {
        let ran = Arc::clone(ran);
        pool.submit(job(move || ran.fetch_add(1, SeqCst)))
    };
    let mut handles: Vec<_> = (0..50).map(|_| taken(offer())).collect();
    warmed_up();
    while handles.len() < 20_000 {
        match offer() {
            Ok(handle) => handles.push(handle),
            Err(_) => break,
        }
    }
    handles
}

/// I8, bounded concurrency: also with panics, and with work that is told to stop.
pub(crate) fn I8_bounded_concurrency_with_failures(cx: &Ctx) {
    let pool = cx.open();
    let peak = Peak::new();
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let (pool, peak) = (Arc::clone(&pool), Arc::clone(&peak));
            in_background(move || {
                for n in 0..300 {
                    let peak = Arc::clone(&peak);
                    let handle = pool.submit(Box::new(move |_| {
                        peak.during(|| if n % 7 == 0 { deliberate_panic("counted") } else { Ok(n) })
                    }));
                    drop(taken(handle));
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join());
    let gate = Gate::new();
    let patient: Vec<_> =
        (0..cx.workers()).map(|_| taken(pool.submit(until_stopped(gate.passage())))).collect();
    gate.wait_until_entered(cx.workers());
    pool.shutdown(How::Hard);
    for handle in patient {
        assert_eq!(handle.wait(), Ending::Cancelled, "a task that obeys is cancelled");
    }
    assert!(peak.most() <= cx.workers(), "{} ran at once on {} workers", peak.most(), cx.workers());
}

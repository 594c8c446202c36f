//! The table of outcomes, O1 and O1a.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate::{Cause, Clock, Handle, OutcomeKind, TaskError, Token, WhenFull};

use crate::kit::{
    Gate, Tracked, dawdle, deliberate_panic, eventually, idle, in_background, job, occupy,
    occupy_port, taken, task_error, until_stopped, value,
};
use crate::{Ctx, Ending, How};

pub(crate) fn O1_row_completed_failed_panicked(cx: &Ctx) {
    let pool = cx.open();
    assert_eq!(taken(pool.submit(Box::new(|_| Ok(3)))).wait(), Ending::Value(3));
    assert_eq!(
        taken(pool.submit(Box::new(|_| Err("e".into())))).wait(),
        Ending::Failed("e".into())
    );
    let Ending::Panicked(message) = taken(pool.submit(Box::new(|_| deliberate_panic("p")))).wait()
    else {
        panic!("a panic did not end as one");
    };
    assert_eq!(message, format!("{} p", crate::kit::DELIBERATE), "the message is kept whole");
    pool.shutdown(How::Light);
}

pub(crate) fn O1_row_cancelled_in_the_queue(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(2));
    let busy = occupy_port(&*pool, cx.workers());
    let (capture, drops) = Tracked::new();
    let doomed = taken(pool.submit(job(move || {
        drop(capture);
        1
    })));
    assert!(doomed.cancel(), "a queued task can be cancelled");
    assert!(doomed.is_settled(), "it is settled then, not when a worker comes to it");
    assert_eq!(drops.load(SeqCst), 1, "its captures are gone");
    assert_eq!(doomed.wait(), Ending::Cancelled);
    busy.open();
    pool.shutdown(How::Light);
    assert_eq!(drops.load(SeqCst), 1, "its captures were dropped twice");
}

pub(crate) fn O1_row_cancelled_while_running(cx: &Ctx) {
    let pool = cx.open();
    let gate = Gate::new();
    let running = taken(pool.submit(until_stopped(gate.passage())));
    gate.wait_until_entered(1);
    assert!(running.cancel(), "a running task can be told");
    assert_eq!(running.wait(), Ending::Cancelled, "it obeyed");
    pool.shutdown(How::Light);
}

pub(crate) fn O1_row_cancelled_names_its_cause(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let token = Token::new();
    let by_handle = pool.submit(|| ()).expect("there is room");
    let by_token = pool.task("").cancel_with(&token).submit(|_| ()).expect("there is room");
    let by_drop = pool.submit(|| ()).expect("there is room");
    let by_id = pool.submit(|| ()).expect("there is room");
    by_handle.cancel();
    token.cancel();
    assert!(pool.cancel_task(by_id.id()), "a task can be cancelled by its id");
    let dropped_id = by_drop.id();
    drop(by_drop.cancel_on_drop());
    let cause = |handle: Handle<()>| task_error(handle).cause();
    assert_eq!(cause(by_handle), Some(Cause::Handle));
    assert_eq!(cause(by_token), Some(Cause::Token));
    assert_eq!(cause(by_id), Some(Cause::Handle));
    assert!(!pool.cancel_task(dropped_id), "the guard's drop has cancelled it already");
    eventually("all four are counted", || pool.snapshot().cancelled == 4);
    busy.open();
}

pub(crate) fn O1_a_parent_cancels_what_a_dropped_child_was_given_to(cx: &Ctx) {
    for (dropped, held) in [(1, false), (1, true), (2, false), (2, true), (3, false)] {
        let pool = cx.builder().queue(10).build().expect("the pool starts");
        let parent = Token::new();
        let top = if held { parent.child() } else { parent.clone() };
        let child = || (0..dropped).fold(top.clone(), |token, _| token.child());
        let (busy, gate) = (occupy(&pool, cx.workers() - 1), Gate::new());
        let passage = gate.passage();
        let told = pool
            .task("")
            .cancel_with(&child())
            .submit(move |task| !passage.enter_unless(|| task.stopping()))
            .expect("there is room");
        gate.wait_until_entered(1);
        let queued = pool.task("").cancel_with(&child()).submit(|_| ()).expect("there is room");
        parent.cancel();
        eventually("both settle", || told.is_settled() && queued.is_settled());
        assert!(value(told), "{dropped} dropped: it runs and was not told");
        assert_eq!(task_error(queued).cause(), Some(Cause::Token), "{dropped} dropped");
        busy.open();
    }
}

pub(crate) fn O1_a_parent_is_cancelled_as_its_child_is_dropped(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    for round in 0..500 {
        let parent = Token::new();
        let child = parent.child().child();
        let task = pool.task("").cancel_with(&child).submit(|_| ()).expect("there is room");
        let dropping = in_background(move || drop(child));
        dawdle(round % 64);
        parent.cancel();
        dropping.join();
        eventually("it settles", || task.is_settled());
        assert!(task_error(task).is_cancelled(), "round {round}");
    }
    busy.open();
}

pub(crate) fn O1_row_evicted_never_ran(cx: &Ctx) {
    let pool =
        cx.builder().queue(1).when_full(WhenFull::DropOldest).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ran);
    let victim = pool.submit(move || seen.store(true, SeqCst)).expect("there is one place");
    pool.spawn(|| ()).expect("the oldest makes room");
    assert_eq!(task_error(victim).kind(), OutcomeKind::Evicted);
    busy.open();
    idle(&pool);
    assert!(!ran.load(SeqCst), "an evicted task ran");
}

pub(crate) fn O1_row_abandoned_may_still_run(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool =
        cx.builder().clock(clock).grace(Duration::from_secs(5)).build().expect("the pool starts");
    let gate = Gate::new();
    let (capture, drops) = Tracked::new();
    let passage = gate.passage();
    let stubborn = pool.submit(move || {
        passage.enter();
        drop(capture);
    });
    let stubborn = stubborn.expect("there is room");
    gate.wait_until_entered(1);
    assert!(stubborn.cancel());
    hand.advance(Duration::from_secs(5));
    let error = task_error(stubborn);
    assert!(matches!(error, TaskError::Abandoned(Cause::Handle)), "told by its handle: {error:?}");
    assert_eq!(drops.load(SeqCst), 0, "its code still runs and holds its captures");
    assert_eq!(pool.snapshot().stuck, 1, "and that can be seen");
    gate.open();
    eventually("it returns at last", || pool.snapshot().late_returns == 1);
    eventually("its captures are dropped", || drops.load(SeqCst) == 1);
}

pub(crate) fn O1_captures_are_gone_before_the_outcome_shows(cx: &Ctx) {
    struct Slow(Arc<AtomicBool>);
    impl Drop for Slow {
        fn drop(&mut self) {
            // Long enough for a waiter to slip in, if it could.
            (0..3).for_each(|_| thread::yield_now());
            crate::kit::dawdle(2_000);
            self.0.store(true, SeqCst);
        }
    }
    let pool = cx.open();
    for n in 0..60 {
        let gone = Arc::new(AtomicBool::new(false));
        let capture = Slow(Arc::clone(&gone));
        let handle = taken(pool.submit(Box::new(move |_| {
            let _held = &capture;
            match n % 3 {
                0 => Ok(n),
                1 => Err("e".to_owned()),
                _ => deliberate_panic("with captures"),
            }
        })));
        eventually("it settles", || handle.is_settled());
        assert!(
            gone.load(SeqCst),
            "the outcome of {n} was visible before its captures were dropped"
        );
    }
    pool.shutdown(How::Light);
}

pub(crate) fn O1_late_claims_change_nothing(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let token = Token::new();
    let done = pool.task("").cancel_with(&token).submit(|_| 5).expect("there is room");
    eventually("it settles", || done.is_settled());
    idle(&pool);
    assert!(!done.cancel(), "too late for the handle");
    assert!(!pool.cancel_task(done.id()), "too late for the id");
    token.cancel();
    assert_eq!(value(done), 5, "a settled outcome was changed");
    assert_eq!(pool.snapshot().cancelled, 0);
}

pub(crate) fn O1_one_winner_when_many_cancel(cx: &Ctx) {
    let pool = cx.builder().queue(1_000).build().expect("the pool starts");
    let outcomes = Arc::new(AtomicU64::new(0));
    for _ in 0..300 {
        let (token, seen) = (Token::new(), Arc::clone(&outcomes));
        let offer = pool.task("").cancel_with(&token).on_outcome(move |_| {
            seen.fetch_add(1, SeqCst);
        });
        let handle = offer.submit(|_| ()).expect("there is room");
        let (id, by_id) = (handle.id(), pool.clone());
        let rival = thread::spawn(move || by_id.cancel_task(id));
        token.cancel();
        handle.cancel();
        rival.join().expect("cancel by id does not panic");
        drop(handle.wait());
    }
    idle(&pool);
    assert_eq!(outcomes.load(SeqCst), 300, "a task was settled twice, or never");
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn O1a_a_cancelled_task_frees_its_place_at_once(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(2));
    let busy = occupy_port(&*pool, cx.workers());
    let mut queued: Vec<_> = (0..2).map(|n| taken(pool.submit(job(move || n)))).collect();
    for _ in 0..500 {
        assert!(pool.try_submit(job(|| 0)).is_err(), "both places are taken");
        assert!(queued.remove(0).cancel());
        queued.push(taken(pool.try_submit(job(|| 1))));
    }
    busy.open();
    for handle in queued {
        assert_eq!(handle.wait(), Ending::Value(1));
    }
    pool.shutdown(How::Light);
}

pub(crate) fn O1a_who_drops_the_captures_of_a_cancelled_task(cx: &Ctx) {
    struct TellThread(mpsc::Sender<ThreadId>);
    impl Drop for TellThread {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (tell, dropped_on) = mpsc::channel();
    let capture = TellThread(tell.clone());
    let by_handle = pool.submit(move || drop(capture)).expect("there is room");
    let (token, capture) = (Token::new(), TellThread(tell));
    let offer = pool.task("").cancel_with(&token);
    let by_token = offer.submit(move |_| drop(capture)).expect("there is room");
    by_handle.cancel();
    let here = thread::current().id();
    assert_eq!(dropped_on.try_recv(), Ok(here), "handle.cancel does it all on the calling thread");
    token.cancel();
    let elsewhere = dropped_on.recv_timeout(crate::kit::HANG).expect("a reaper drops it");
    assert_ne!(elsewhere, here, "token.cancel ran the drop of somebody's captures");
    assert!(task_error(by_token).is_cancelled());
    let refilled = (0..3).filter(|_| pool.try_spawn(|| ()).is_ok()).count();
    assert_eq!(refilled, 2, "both places are free again");
    busy.open();
}

//! R1–R4: offering work, and what a refusal is.

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tidegate::{Clock, ExternalId, OutcomeKind, Reason, Refused, TaskError, Token, WhenFull};

use crate::kit::{
    Ran, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background, job, occupy,
    occupy_port, refusal, refused, taken, task_error, value,
};
use crate::{Ctx, Ending, How};

pub(crate) fn R1_submit_gives_the_value(cx: &Ctx) {
    let pool = cx.open();
    assert_eq!(taken(pool.submit(job(|| 42))).wait(), Ending::Value(42));
    pool.shutdown(How::Light);
}

pub(crate) fn R1_spawn_is_counted_and_isolated(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let ran = Ran::new();
    pool.spawn(ran.noting(1)).expect("there is room");
    pool.spawn(|| deliberate_panic("nobody waits for this")).expect("there is room");
    pool.spawn(ran.noting(2)).expect("there is room");
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!(ran.order().len(), 2, "a panic took a neighbour with it");
    assert_eq!((now.accepted, now.completed, now.panicked), (3, 2, 1));
}

pub(crate) fn R1_result_twin_counts_err_as_failed(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let good = pool.submit_result(|| Ok::<_, String>(1)).expect("there is room");
    let bad = pool.submit_result(|| Err::<u8, _>("broken".to_owned())).expect("there is room");
    assert_eq!(value(good), 1, "Ok is flattened to the value");
    let TaskError::Failed(error) = task_error(bad) else { panic!("Err is not Failed") };
    assert_eq!(error, "broken");
    pool.spawn_result(|| Err::<(), _>("unseen")).expect("there is room");
    idle(&pool);
    assert_eq!((pool.snapshot().completed, pool.snapshot().failed), (1, 2));
}

pub(crate) fn R2_one_builder_for_everything(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (tell, told) = mpsc::channel();
    let token = Token::new();
    let handle = pool
        .task("resize")
        .external_id("order-7")
        .cancel_with(&token)
        .wait_until(Instant::now() + Duration::from_secs(3600))
        .on_outcome(move |summary| tell.send(summary.clone()).expect("the test listens"))
        .submit(|task| (task.name(), task.task_id(), task.external_id()))
        .expect("there is room");
    let id = handle.id();
    let seen = value(handle);
    assert_eq!(seen, ("resize", id, Some(ExternalId::from("order-7"))), "the task sees its names");
    let summary = told.recv_timeout(crate::kit::HANG).expect("the callback is called");
    assert_eq!((summary.name, summary.id, summary.kind), ("resize", id, OutcomeKind::Completed));
    assert_eq!(summary.external_id, Some(ExternalId::from("order-7")));
}

pub(crate) fn R2_plain_submit_is_the_same_path(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let offers: [fn(&tidegate::Pool) -> tidegate::Handle<u32>; 4] = [
        |pool| pool.submit(|| 5).expect("there is room"),
        |pool| pool.try_submit(|| 5).expect("there is room"),
        |pool| pool.task("").submit(|_| 5).expect("there is room"),
        |pool| pool.submit_with(|(), _| 5).expect("there is room"),
    ];
    for (n, offer) in (1..).zip(offers) {
        assert_eq!(value(offer(&pool)), 5);
        idle(&pool);
        assert_eq!(
            (pool.snapshot().accepted, pool.snapshot().completed),
            (n, n),
            "way {n} counts differently"
        );
    }
}

pub(crate) fn R3_refusal_hands_the_work_back(cx: &Ctx) {
    let pool = cx.open_with(cx.wish().queue(1));
    let busy = occupy_port(&*pool, cx.workers());
    drop(taken(pool.submit(job(|| 0))));
    let refusal = pool.try_submit(job(|| 77)).err().expect("the queue is full");
    assert_eq!(refusal.reason, Reason::Full);
    let work = refusal.work.expect("the work comes back");
    busy.open();
    assert_eq!(taken(pool.submit(work)).wait(), Ending::Value(77), "the work came back changed");
    pool.shutdown(How::Light);
}

pub(crate) fn R3_refusal_travels_as_an_error(cx: &Ctx) {
    struct NotDebug(u8);
    fn offer(pool: &tidegate::Pool) -> Result<(), Box<dyn Error + Send + Sync>> {
        let capture = NotDebug(9);
        pool.spawn(move || assert_eq!(capture.0, 9))?;
        Ok(())
    }
    fn can_travel<E: Error + Send + Sync + 'static>(_: &E) {}
    fn is_error_whenever_send<F: Send + 'static>(refused: &Refused<F>) {
        can_travel(refused);
    }
    let pool = cx.builder().build().expect("the pool starts");
    pool.close();
    let error = offer(&pool).expect_err("the pool is closed");
    assert!(!error.to_string().is_empty() && !format!("{error:?}").is_empty(), "it says nothing");
    let capture = NotDebug(10);
    let refused = refused(pool.submit(move || capture.0));
    is_error_whenever_send(&refused);
    assert_eq!(refused.into_work()(), 10, "the closure comes back by value");
}

pub(crate) fn R3_reasons_are_never_merged(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(1).clock(clock).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    pool.spawn(|| ()).expect("there is one place");
    let cancelled = Token::new();
    cancelled.cancel();
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full);
    assert_eq!(refusal(pool.task("").cancel_with(&cancelled).submit(|_| ())), Reason::Cancelled);
    let late = {
        let pool = pool.clone();
        in_background(move || refusal(pool.submit_timeout(Duration::from_secs(1), || ())))
    };
    eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
    hand.advance(Duration::from_secs(1));
    assert_eq!(late.join(), Reason::TimedOut);
    pool.close();
    assert_eq!(refusal(pool.submit(|| ())), Reason::Closed);
    let said = pool.snapshot().refused;
    assert_eq!((said.full, said.cancelled, said.timed_out, said.closed), (1, 1, 1, 1), "{said}");
    assert_eq!(said.total(), 4, "a refusal was counted under a second reason");
    busy.open();
}

pub(crate) fn R3_precedence_of_reasons(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    let cancelled = Token::new();
    cancelled.cancel();
    let inside = pool.clone();
    let token = cancelled.clone();
    let handle = pool.submit(move || {
        inside.spawn(|| ()).expect("there is one place");
        let full = refusal(inside.try_submit(|| ()));
        let deadlock = refusal(inside.submit(|| ()));
        let token_first = refusal(inside.task("").cancel_with(&token).submit(|_| ()));
        inside.close();
        let closed_first = refusal(inside.task("").cancel_with(&token).submit(|_| ()));
        (full, deadlock, token_first, closed_first)
    });
    let (full, deadlock, token_first, closed_first) = value(handle.expect("there is room"));
    assert_eq!(full, Reason::Full, "try_submit never waits, so it can't deadlock");
    assert_eq!(deadlock, Reason::WouldDeadlock);
    assert_eq!(token_first, Reason::Cancelled, "a cancelled token comes before the full queue");
    assert_eq!(closed_first, Reason::Closed, "closed comes first");
    busy.open();
}

pub(crate) fn R4_try_submit_never_waits(cx: &Ctx) {
    let hour = Duration::from_secs(3600);
    let policies = [
        WhenFull::Wait,
        WhenFull::WaitFor(hour),
        WhenFull::Reject,
        WhenFull::DropNewest,
        WhenFull::DropOldest,
        WhenFull::CallerRuns,
    ];
    for policy in policies {
        let pool = cx.builder().queue(1).when_full(policy).build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers());
        let queued = pool.try_submit(|| 1).expect("there is one place");
        assert_eq!(refusal(pool.try_submit(|| 2)), Reason::Full, "{policy:?}");
        assert_eq!(refusal(pool.try_spawn(|| ())), Reason::Full, "{policy:?}");
        assert_eq!(pool.snapshot().evicted, 0, "{policy:?}: try_submit evicted something");
        busy.open();
        assert_eq!(value(queued), 1, "{policy:?}");
    }
}

pub(crate) fn R4_waits_are_bounded_in_three_ways(cx: &Ctx) {
    let second = Duration::from_secs(1);
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(1).clock(clock).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    pool.spawn(|| ()).expect("there is one place");
    let ways: [fn(tidegate::Pool) -> Reason; 2] = [
        |pool| refusal(pool.submit_timeout(Duration::from_secs(1), || ())),
        |pool| refusal(pool.task("").wait_at_most(Duration::from_secs(1)).submit(|_| ())),
    ];
    for way in ways {
        let pool_too = pool.clone();
        let late = in_background(move || way(pool_too));
        eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
        hand.advance(second - Duration::from_millis(2));
        give_a_bug_its_chance();
        assert!(!late.is_finished(), "it gave up before its time");
        hand.advance(Duration::from_millis(2));
        assert_eq!(late.join(), Reason::TimedOut);
    }
    let past = Instant::now();
    assert_eq!(refusal(pool.task("").wait_until(past).submit(|_| ())), Reason::TimedOut);
    busy.open();
    idle(&pool);
    let handle =
        pool.task("").wait_until(past).submit(|_| 3).expect("a past deadline takes free room");
    assert_eq!(value(handle), 3);
}

pub(crate) fn R4_a_token_ends_a_wait_for_room(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    pool.spawn(|| ()).expect("there is one place");
    let token = Token::new();
    let waiting = {
        let (pool, token) = (pool.clone(), token.clone());
        in_background(move || refusal(pool.task("").cancel_with(&token).submit(|_| ())))
    };
    eventually("the submitter waits", || pool.snapshot().waiting_submitters == 1);
    token.cancel();
    assert_eq!(waiting.join(), Reason::Cancelled);
    assert_eq!(pool.snapshot().waiting_submitters, 0, "it left the line");
    busy.open();
}

pub(crate) fn R4_a_cancelled_token_refuses_though_there_is_room(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let parent = Token::new();
    let child = parent.child();
    parent.cancel();
    for token in [&parent, &child] {
        assert_eq!(refusal(pool.task("").cancel_with(token).submit(|_| ())), Reason::Cancelled);
        assert_eq!(refusal(pool.task("").cancel_with(token).try_submit(|_| ())), Reason::Cancelled);
        assert_eq!(refusal(pool.task("").cancel_with(token).spawn(|_| ())), Reason::Cancelled);
    }
    assert_eq!(pool.snapshot().accepted, 0, "cancelled work was let in");
}

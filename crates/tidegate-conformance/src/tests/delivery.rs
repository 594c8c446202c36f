//! O4: how an outcome reaches whoever wants it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Cause, Handle, OutcomeKind, Shutdown};

use crate::Ctx;
use crate::kit::{
    Gate, HANG, Tracked, block_on, deliberate_panic, eventually, idle, in_background, occupy, value,
};

pub(crate) fn O4_every_way_to_collect(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let offer = |n: u8| pool.submit(move || n).expect("there is room");
    assert_eq!(value(offer(1)), 1, "wait");
    let mut timed = offer(2);
    assert!(matches!(timed.wait_timeout(HANG), Some(Ok(2))), "wait_timeout");
    let mut taken = offer(3);
    eventually("it settles", || taken.is_settled());
    assert!(matches!(taken.try_take(), Some(Ok(3))), "try_take");
    assert!(taken.try_take().is_none(), "the value is given once");
    assert!(matches!(block_on(offer(4)), Ok(4)), "as a future, on any runtime");
}

pub(crate) fn O4_nothing_is_given_before_the_end(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let gate = Gate::new();
    let passage = gate.passage();
    let mut handle = pool.submit(move || passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    assert!(!handle.is_settled());
    assert!(handle.try_take().is_none());
    assert!(handle.wait_timeout(Duration::from_millis(1)).is_none());
    assert!(poll_once(&mut handle).is_pending());
    gate.open();
    assert!(block_on(handle).is_ok(), "a handle that was looked at still gives its outcome");
}

fn poll_once<T, E>(handle: &mut Handle<T, E>) -> Poll<Result<T, tidegate::TaskError<E>>> {
    let mut context = Context::from_waker(Waker::noop());
    std::pin::Pin::new(handle).poll(&mut context)
}

pub(crate) fn O4_a_future_waits_for_a_queued_and_for_a_running_task(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| 1).expect("there is room");
    let waiter = in_background(move || block_on(queued).ok());
    busy.open();
    assert_eq!(waiter.join(), Some(1));
    for n in 0..500 {
        let handle = pool.submit(move || n).expect("there is room");
        assert!(matches!(block_on(handle), Ok(got) if got == n), "a wake-up was lost");
    }
}

pub(crate) fn O4_the_callback_gets_a_summary_after_publication(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (tell, told) = mpsc::channel();
    let (show, shown) = mpsc::channel::<Handle<(), String>>();
    let gate = Gate::new();
    let passage = gate.passage();
    let offer = pool.task("noted").external_id(77_u64).on_outcome(move |summary| {
        let settled = shown.recv().expect("the test sends the handle").is_settled();
        tell.send((summary.clone(), settled)).expect("the test listens");
    });
    let handle = offer.submit_result(move |_| {
        passage.enter();
        Err("why".to_owned())
    });
    let handle = handle.expect("there is room");
    let id = handle.id();
    show.send(handle).expect("the callback listens");
    gate.open();
    let (summary, settled) = told.recv_timeout(HANG).expect("the callback is called");
    assert!(settled, "the callback came before the outcome was visible");
    assert_eq!((summary.kind, summary.name, summary.id), (OutcomeKind::Failed, "noted", id));
    assert_eq!(summary.external_id, Some(77_u64.into()));
    assert!(summary.message.is_some(), "an error has a text");
    assert!(summary.run_time.is_some(), "it ran, so it has a run time");
    assert_eq!(&*summary.pool, pool.name());
}

pub(crate) fn O4_the_callback_comes_for_tasks_that_never_ran(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (tell, told) = mpsc::channel();
    let offer = pool.task("").on_outcome(move |end| {
        let _ = tell.send((end.kind, end.cause, end.run_time));
    });
    let handle = offer.submit(|_| ()).expect("there is room");
    handle.cancel();
    let told = told.recv_timeout(HANG).expect("the callback is called");
    assert_eq!(told, (OutcomeKind::Cancelled, Some(Cause::Handle), None));
    busy.open();
}

pub(crate) fn O4_a_panicking_callback_is_counted_and_kills_nothing(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    for n in 0..cx.workers() * 2 {
        let offer = pool.task("").on_outcome(|_| deliberate_panic("in a callback"));
        assert_eq!(value(offer.submit(move |_| n).expect("there is room")), n, "the outcome stays");
    }
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!(now.callback_panics, cx.workers() as u64 * 2);
    assert_eq!((now.panicked, now.worker_restarts), (0, 0), "it was no panic of the task");
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn O4_wait_idle_and_shutdown_wait_for_callbacks(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let (gate, done) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let (passage, finished) = (gate.passage(), Arc::clone(&done));
    let offer = pool.task("").on_outcome(move |_| {
        passage.enter();
        finished.store(true, SeqCst);
    });
    offer.spawn(|_| ()).expect("there is room");
    gate.wait_until_entered(1);
    assert!(
        !pool.wait_idle_timeout(Duration::from_millis(1)).expect("outside"),
        "a callback still runs"
    );
    let closing = {
        let (pool, done) = (pool.clone(), Arc::clone(&done));
        in_background(move || {
            pool.wait_idle().expect("outside the pool");
            let idle_waited = done.load(SeqCst);
            pool.shutdown(Shutdown::light()).expect("outside the pool");
            idle_waited
        })
    };
    gate.open();
    assert!(closing.join(), "wait_idle returned while a callback still ran");
}

pub(crate) fn O4_dropping_a_handle_detaches(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (tell, told) = mpsc::channel();
    drop(pool.submit(move || tell.send(1)).expect("there is room"));
    pool.submit(|| ()).expect("there is room").detach();
    busy.open();
    assert_eq!(told.recv_timeout(HANG), Ok(1), "a detached task still runs");
    idle(&pool);
    assert_eq!(pool.snapshot().cancelled, 0);
}

pub(crate) fn O4_cancel_on_drop_cancels(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let (passage, (tell, told)) = (gate.passage(), mpsc::channel());
    let offer = pool.task("").on_outcome(move |end| {
        let _ = tell.send((end.kind, end.cause));
    });
    let guard = offer.submit_result(move |task| match passage.enter_unless(|| task.stopping()) {
        true => Ok(()),
        false => Err("stopped"),
    });
    let guard = guard.expect("there is room").cancel_on_drop();
    gate.wait_until_entered(1);
    drop(guard);
    let end = told.recv_timeout(HANG).expect("the task ends");
    assert_eq!(end, (OutcomeKind::Cancelled, Some(Cause::Dropped)));
}

pub(crate) fn O4_an_uncollected_result_goes_with_its_handle(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let (result, drops) = Tracked::new();
    let handle = pool.submit(move || result).expect("there is room");
    eventually("it settles", || handle.is_settled());
    assert_eq!(drops.load(SeqCst), 0, "the result belongs to the handle");
    drop(handle);
    assert_eq!(drops.load(SeqCst), 1, "nobody else keeps it");
    let busy = occupy(&pool, cx.workers());
    let (result, drops) = Tracked::new();
    drop(pool.submit(move || result).expect("there is room"));
    busy.open();
    idle(&pool);
    eventually("a result that nobody can collect is dropped", || drops.load(SeqCst) == 1);
}

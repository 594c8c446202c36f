//! S6 and S9: dropping the pool, joining its threads, and having no worker left.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate::{Cause, Mode, Pool, PoolState, Shutdown, StopWorker, Unobserved, UnobservedKind};

use crate::kit::{
    Gate, HANG, Ran, block_on, eventually, in_background, occupy, occupy_port, taken, task_error,
    threads_named, value,
};
use crate::{Ctx, Ending, How};

pub(crate) fn S6_drop_drains_in_the_background(cx: &Ctx) {
    let wish = cx.wish().queue(10);
    let threads = format!("{}-", wish.name);
    let pool = cx.open_with(wish);
    let busy = occupy_port(&*pool, cx.workers());
    let queued: Vec<_> = (0..5).map(|n| taken(pool.submit(crate::kit::job(move || n)))).collect();
    // Must return although every worker is held.
    drop(pool);
    assert!(queued.iter().all(|handle| !handle.is_settled()), "nothing was cancelled");
    busy.open();
    for (n, handle) in queued.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ending::Value(n as u64), "accepted work was lost");
    }
    eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
}

pub(crate) fn S6_only_the_last_drop_counts(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let clones: Vec<_> = (0..4).map(|_| pool.clone()).collect();
    drop(clones);
    assert!(pool.submit(|| ()).is_ok(), "a clone's drop closed the pool");
}

pub(crate) fn S6_a_drop_with_work_left_is_reported(cx: &Ctx) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let hook = move |event: &Unobserved| {
        let _ = tell.lock().expect("nobody panics holding it").send(event.clone());
    };
    let pool = cx.builder().queue(10).on_unobserved(hook).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    (0..3).for_each(|_| pool.spawn(|| ()).expect("there is room"));
    drop(pool);
    let event = told.recv_timeout(HANG).expect("the hook is called");
    let left = cx.workers() as u64 + 3;
    assert_eq!(event.kind, UnobservedKind::DroppedWithWork(left), "running and queued");
    busy.open();
}

pub(crate) fn S6_a_drop_without_work_is_silent(cx: &Ctx) {
    let wish = cx.wish();
    let reports = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reports);
    let builder = Pool::builder(wish.name.clone()).workers(cx.workers());
    let builder = builder.on_unobserved(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    drop(builder.build().expect("the pool starts"));
    let threads = format!("{}-", wish.name);
    eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
    assert_eq!(reports.load(SeqCst), 0);
}

pub(crate) fn S6_the_last_pool_is_dropped_by_its_own_task(cx: &Ctx) {
    for _ in 0..20 {
        let wish = cx.wish();
        let threads = format!("{}-", wish.name);
        let pool = Pool::builder(wish.name).workers(cx.workers()).on_unobserved(|_| ()).build();
        let pool = pool.expect("the pool starts");
        let gate = Gate::new();
        let (inside, passage, ran) = (pool.clone(), gate.passage(), Ran::new());
        let note = ran.noting(2);
        let task = move || {
            passage.enter();
            inside.spawn(note).expect("there is room");
            drop(inside);
        };
        pool.spawn(task).expect("there is room");
        gate.wait_until_entered(1);
        drop(pool);
        gate.open();
        eventually("what the task left behind has run", || ran.order() == [2]);
        eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
    }
}

pub(crate) fn S6_shutdown_joins_for_real(cx: &Ctx) {
    let shared = Arc::new(());
    let stopped = Arc::new(AtomicU64::new(0));
    let (held, counter) = (Arc::clone(&shared), Arc::clone(&stopped));
    let builder = cx.builder().on_worker_stop(move |_| {
        let _held = &held;
        counter.fetch_add(1, SeqCst);
    });
    let pool = builder.build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    for _ in 0..100 {
        let capture = Arc::clone(&shared);
        if pool.try_spawn(move || drop(capture)).is_err() {
            break;
        }
    }
    busy.open();
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!(stopped.load(SeqCst), cx.workers() as u64, "a worker's stop hook was still to come");
    assert!(report.threads_joined >= cx.workers(), "{report}");
    drop(pool);
    assert_eq!(Arc::strong_count(&shared), 1, "something of the pool is still alive");
}

/// A spawner that fails while `broken` is set.
fn fragile(
    broken: &Arc<AtomicBool>,
) -> impl Fn(std::thread::Builder, Box<dyn FnOnce() + Send>) -> io::Result<std::thread::JoinHandle<()>>
+ Send
+ Sync
+ 'static
+ use<> {
    let broken = Arc::clone(broken);
    move |thread, body| match broken.load(SeqCst) {
        true => Err(io::Error::other("no more threads")),
        false => thread.spawn(body),
    }
}

pub(crate) fn S9_no_worker_can_be_made_while_closing(cx: &Ctx) {
    let broken = Arc::new(AtomicBool::new(false));
    let builder = cx.builder().workers(1).queue(10).spawner(fragile(&broken));
    let pool =
        builder.restart_backoff(Duration::ZERO..=Duration::ZERO).build().expect("the pool starts");
    let busy = occupy(&pool, 1);
    let queued: Vec<_> = (0..3).map(|n| pool.submit(move || n).expect("there is room")).collect();
    let worker = pool.roster()[0].id;
    pool.recycle_worker(worker, StopWorker::AfterTask).expect("the worker exists");
    broken.store(true, SeqCst);
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::light()).expect("outside the pool"))
    };
    eventually("the pool closes", || pool.state() == PoolState::Closing(Mode::Light));
    busy.open();
    for handle in queued {
        let error = task_error(handle);
        assert_eq!(error.cause(), Some(Cause::WorkerLost), "nobody is left to run it: {error:?}");
    }
    let report = shutdown.join();
    assert!(!report.complete && !report.is_success(), "the report says Incomplete: {report}");
    assert_eq!(report.cancelled, 3);
}

pub(crate) fn S9_a_worker_that_comes_back_in_time_drains(cx: &Ctx) {
    let failures = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&failures);
    let armed = Arc::new(AtomicBool::new(false));
    let trigger = Arc::clone(&armed);
    let builder = cx.builder().workers(1).queue(10).spawner(move |thread, body| {
        if trigger.load(SeqCst) && seen.fetch_add(1, SeqCst) < 2 {
            return Err(io::Error::other("not yet"));
        }
        thread.spawn(body)
    });
    let pool =
        builder.restart_backoff(Duration::ZERO..=Duration::ZERO).build().expect("the pool starts");
    let busy = occupy(&pool, 1);
    let queued: Vec<_> = (0..3).map(|n| pool.submit(move || n).expect("there is room")).collect();
    pool.recycle_worker(pool.roster()[0].id, StopWorker::AfterTask).expect("the worker exists");
    armed.store(true, SeqCst);
    busy.open();
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert!(report.is_success(), "two failures are not the end: {report}");
    let values: Vec<_> = queued.into_iter().map(crate::kit::value).collect();
    assert_eq!(values, [0, 1, 2]);
}

pub(crate) fn S6_handles_outlive_the_pool(cx: &Ctx) {
    let pool = cx.open();
    let handles: Vec<_> = (0..10).map(|n| taken(pool.submit(crate::kit::job(move || n)))).collect();
    pool.shutdown(How::Light);
    drop(pool);
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.wait(), Ending::Value(n as u64), "the value went with the pool");
    }
}

pub(crate) fn hazard_70_the_last_pool_is_dropped_inside_async_code(cx: &Ctx) {
    let busy_with_five = || {
        let wish = cx.wish();
        let threads = format!("{}-", wish.name);
        let builder = Pool::builder(wish.name).workers(cx.workers()).on_unobserved(|_| ());
        let pool = builder.build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers());
        let five: Vec<_> = (0..5).map(|n| pool.submit(move || n).expect("there is room")).collect();
        (pool, busy, five, threads)
    };
    let gone = |threads: String| {
        eventually("the workers are gone", || threads_named(&threads).unwrap_or(0) == 0);
    };

    let (pool, busy, five, threads) = busy_with_five();
    let drops_it = async move {
        drop(pool);
        // Only reached if the drop does not wait for the workers.
        busy.open();
        let mut values = Vec::new();
        for handle in five {
            values.push(handle.await.expect("accepted work drains"));
        }
        values
    };
    let polled = in_background(move || block_on(drops_it));
    assert_eq!(polled.join(), [0, 1, 2, 3, 4]);
    gone(threads);

    let (pool, busy, mut five, threads) = busy_with_five();
    let first = five.remove(0);
    let mut given_up = Box::pin(async move {
        let _until_the_end = pool;
        first.await
    });
    assert!(given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    in_background(move || block_on(async move { drop(given_up) })).join();
    busy.open();
    assert_eq!(five.into_iter().map(value).collect::<Vec<_>>(), [1, 2, 3, 4]);
    gone(threads);
}

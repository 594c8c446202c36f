//! Known ways to fail: deadlocks, lost wake-ups, races. The number is the line
//! of the hazard list; lines that a clause's own test covers are named there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use tidegate::{Pool, Shutdown, StopWorker, WhenFull, WorkerInfo, WorkerState};

use crate::kit::{
    Background, Gate, HANG, dawdle, eventually, in_background, job, occupy, refusal, taken, value,
};
use crate::{Ctx, Ending, How};

pub(crate) fn hazard_02_all_workers_wait_for_queued_tasks(cx: &Ctx) {
    let pool = cx.builder().queue(cx.workers() * 2).build().expect("the pool starts");
    let together = Gate::new();
    let outers: Vec<_> = (0..cx.workers() as u64)
        .map(|n| {
            let (inside, passage) = (pool.clone(), together.passage());
            let outer = move || {
                let inner = inside.submit(move || n).expect("there is room");
                passage.enter();
                value(inner)
            };
            pool.submit(outer).expect("there is room")
        })
        .collect();
    // Every worker now holds an outer task, and every inner one is queued.
    together.wait_until_entered(cx.workers());
    together.open();
    for (n, outer) in outers.into_iter().enumerate() {
        assert_eq!(value(outer), n as u64);
    }
}

/// Portable form of 2: a pool that lets tasks wait for its own queue must help.
pub(crate) fn hazard_02_fork_join_by_handles(cx: &Ctx) {
    fn sum(pool: &Arc<dyn crate::SuitePool>, from: u64, to: u64) -> u64 {
        if to - from < 4 {
            return (from..to).sum();
        }
        let middle = (from + to) / 2;
        let left = Arc::clone(pool);
        let left = taken(pool.submit(job(move || sum(&left, from, middle))));
        let right = sum(pool, middle, to);
        match left.wait() {
            Ending::Value(value) => value + right,
            other => panic!("a half was lost: {other:?}"),
        }
    }
    let pool = cx.open_with(cx.wish().queue(1_000));
    let inside = Arc::clone(&pool);
    let whole = taken(pool.submit(job(move || sum(&inside, 0, 500))));
    assert_eq!(whole.wait(), Ending::Value(500 * 499 / 2));
    pool.shutdown(How::Light);
}

pub(crate) fn hazard_07_a_free_place_always_wakes_a_submitter(cx: &Ctx) {
    // Many submitters, one place: a lost wake-up leaves one of them waiting in an idle pool.
    for queue in [1, 2, 64] {
        let pool = cx.open_with(cx.wish().queue(queue));
        let submitters: Vec<_> = (0..6)
            .map(|_| {
                let pool = Arc::clone(&pool);
                in_background(move || {
                    for n in 0..400 {
                        drop(taken(pool.submit(job(move || n))));
                    }
                })
            })
            .collect();
        submitters.into_iter().for_each(|submitter| submitter.join());
        pool.shutdown(How::Light);
    }
}

pub(crate) fn hazard_14_a_slow_producer_starves_nobody(cx: &Ctx) {
    // User code that is slow or stuck while a submit is under way: here the
    // evicted task's drop, on the submitter's own thread.
    struct StuckDrop(crate::kit::Passage);
    impl Drop for StuckDrop {
        fn drop(&mut self) {
            self.0.enter();
        }
    }
    let pool =
        cx.builder().queue(2).when_full(WhenFull::DropOldest).build().expect("the pool starts");
    let (busy, gate) = (occupy(&pool, cx.workers()), Gate::new());
    let stuck = StuckDrop(gate.passage());
    pool.spawn(move || drop(stuck)).expect("there is room");
    pool.spawn(|| ()).expect("there is room");
    let slow = {
        let pool = pool.clone();
        in_background(move || pool.spawn(|| ()).is_ok())
    };
    gate.wait_until_entered(1);
    for _ in 0..10 {
        assert!(pool.spawn(|| ()).is_ok(), "another producer waits for the slow one");
    }
    busy.open();
    assert_eq!(
        value(pool.submit(|| 5).expect("there is room")),
        5,
        "workers wait for the slow one"
    );
    gate.open();
    assert!(slow.join());
}

/// Gives an order on another thread, and a moment later the caller goes on.
fn meanwhile<T: Send + 'static>(
    pool: &Pool,
    steps: u64,
    order: impl FnOnce(&Pool) -> T + Send + 'static,
) -> Background<T> {
    let start = Gate::new();
    let (pool, passage) = (pool.clone(), start.passage());
    let ordering = in_background(move || {
        passage.enter();
        order(&pool)
    });
    start.wait_until_entered(1);
    start.open();
    dawdle(steps);
    ordering
}

pub(crate) fn hazard_29_a_task_comes_as_an_idle_worker_leaves(cx: &Ctx) {
    cx.needs_workers(2);
    for round in 0..100 {
        let pool = cx.builder().queue(10).callers_may_help(false).build().expect("the pool starts");
        eventually("all idle", || pool.snapshot().idle_workers == cx.workers() as u64);
        let worker = pool.roster()[round % cx.workers()].id;
        let leaving = meanwhile(&pool, round as u64 % 10 * 100, move |pool| {
            pool.stop_worker(worker, StopWorker::AfterTask)
        });
        let taken = pool.submit(|| 29).expect("there is room").wait_timeout(HANG);
        assert!(matches!(taken, Some(Ok(29))), "stranded: {:?}", pool.snapshot());
        leaving.join().expect("it is not the last worker");
        eventually("it has left", || pool.snapshot().live_workers == cx.workers() as u64 - 1);
        assert_eq!(value(pool.submit(|| 30).expect("there is room")), 30);
    }
}

/// The others are busy: whoever takes the place of the idle worker must find the task.
pub(crate) fn hazard_29_a_task_comes_as_the_last_idle_worker_is_replaced(cx: &Ctx) {
    let pool = cx.builder().queue(10).callers_may_help(false).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers() - 1);
    for round in 0..100 {
        eventually("one is idle", || pool.snapshot().idle_workers == 1);
        let roster = pool.roster();
        let idle = roster.iter().find(|worker| worker.state == WorkerState::Idle);
        let WorkerInfo { id: idle, restarts, .. } = *idle.expect("just seen");
        let leaving = meanwhile(&pool, round % 10 * 100, move |pool| {
            pool.recycle_worker(idle, StopWorker::AfterTask)
        });
        let taken = pool.submit(move || round).expect("there is room").wait_timeout(HANG);
        assert!(matches!(taken, Some(Ok(n)) if n == round), "stranded: {:?}", pool.snapshot());
        leaving.join().expect("it was there");
        let replaced = |worker: &WorkerInfo| worker.id == idle && worker.restarts == restarts + 1;
        eventually("it was replaced", || pool.roster().iter().any(replaced));
    }
    assert_eq!(pool.snapshot().worker_restarts, 0, "nobody was lost");
    busy.open();
}

pub(crate) fn hazard_33_no_wake_up_is_lost(cx: &Ctx) {
    let pool = cx.open();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..1_500_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Now and then long enough for the workers to go to sleep.
        dawdle(if random.is_multiple_of(8) { 12_000 } else { random >> 54 });
        let handle = taken(pool.submit(job(move || round)));
        assert_eq!(handle.wait(), Ending::Value(round));
    }
    pool.shutdown(How::Light);
}

pub(crate) fn hazard_33_every_idle_worker_can_be_woken(cx: &Ctx) {
    // As many tasks as workers must all run at once, from whatever state of sleep.
    let pool = cx.builder().queue(1_000).build().expect("the pool starts");
    for _ in 0..200 {
        let gate = Gate::new();
        for _ in 0..cx.workers() {
            pool.spawn(gate.waiter()).expect("there is room");
        }
        gate.wait_until_entered(cx.workers());
        gate.open();
    }
}

pub(crate) fn hazard_80_submit_then_drop_gives_the_value(cx: &Ctx) {
    for n in 0..100 {
        let pool = cx.open();
        let handle = taken(pool.submit(job(move || n)));
        drop(pool);
        assert_eq!(handle.wait(), Ending::Value(n), "the drop overtook the value");
    }
}

pub(crate) fn hazard_86_no_lock_is_held_while_captures_are_dropped(cx: &Ctx) {
    struct Busybody(tidegate::Pool, mpsc::Sender<bool>);
    impl Drop for Busybody {
        fn drop(&mut self) {
            let _ = (self.0.snapshot(), self.0.roster(), self.0.state());
            let _ = self.1.send(self.0.try_spawn(|| ()).is_ok());
        }
    }
    let pool = cx.builder().queue(3).build().expect("the pool starts");
    let busy = occupy(&pool, cx.workers());
    let (tell, told) = mpsc::channel();
    let capture = Busybody(pool.clone(), tell.clone());
    let by_cancel = pool.submit(move || drop(capture)).expect("there is room");
    by_cancel.cancel();
    assert_eq!(told.recv_timeout(HANG), Ok(true), "cancel holds a lock while it drops");
    let capture = Busybody(pool.clone(), tell);
    pool.spawn(move || drop(capture)).expect("there is room");
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::soft()).expect("outside the pool"))
    };
    assert_eq!(
        told.recv_timeout(HANG),
        Ok(false),
        "shutdown holds a lock while it drops, or is open"
    );
    busy.open();
    shutdown.join();
}

pub(crate) fn hazard_15_a_task_chain_ends_with_the_drain(cx: &Ctx) {
    fn again(pool: tidegate::Pool, links: Arc<AtomicU64>) {
        links.fetch_add(1, SeqCst);
        let next = pool.clone();
        let _ = pool.spawn(move || again(next, links));
    }
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let links = Arc::new(AtomicU64::new(0));
    let (first, counter) = (pool.clone(), Arc::clone(&links));
    pool.spawn(move || again(first, counter)).expect("there is room");
    eventually("the chain runs", || links.load(SeqCst) > 100);
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert!(report.complete, "tasks that submit tasks kept the drain from ending");
    assert!(pool.snapshot().refused.closed >= 1, "the last link was refused, not lost");
}

pub(crate) fn hazard_19_shutdowns_race(cx: &Ctx) {
    let hows = [Shutdown::light(), Shutdown::soft(), Shutdown::hard(), Shutdown::default()];
    for _ in 0..25 {
        let pool = cx.builder().queue(50).build().expect("the pool starts");
        (0..50).for_each(|_| pool.spawn(thread::yield_now).expect("there is room"));
        let callers = hows.map(|how| {
            let pool = pool.clone();
            in_background(move || {
                let report = pool.shutdown(how).expect("outside the pool");
                (report, pool.snapshot().settled() == pool.snapshot().accepted)
            })
        });
        let mut reports = HashMap::new();
        for caller in callers {
            let (report, over) = caller.join();
            assert!(over, "a shutdown returned before the end");
            *reports.entry(report.to_string()).or_insert(0) += 1;
        }
        assert_eq!(reports.len(), 1, "callers got different reports: {reports:?}");
        assert_eq!(refusal(pool.submit(|| ())), tidegate::Reason::Closed);
    }
}

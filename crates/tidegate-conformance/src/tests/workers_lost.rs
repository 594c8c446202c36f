//! W2: workers that die come back, and no task goes with them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{Builder, Shutdown, StopWorker};

use crate::Ctx;
use crate::kit::{deliberate_panic, eventually, idle, occupy, task_error, value};

fn at_once(builder: Builder) -> Builder {
    builder.restart_backoff(Duration::ZERO..=Duration::ZERO)
}

/// Fails the next `n` times it is asked.
#[derive(Clone, Default)]
struct Faults(Arc<AtomicU64>);

impl Faults {
    fn next(&self, n: u64) {
        self.0.store(n, SeqCst);
    }

    fn strike(&self) -> bool {
        self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    fn spent(&self) -> bool {
        self.0.load(SeqCst) == 0
    }
}

pub(crate) fn W2_state_that_cannot_be_made(cx: &Ctx) {
    let faults = Faults::default();
    let inside = faults.clone();
    let builder = at_once(cx.builder()).queue(50).callers_may_help(false);
    let builder = builder.try_worker_state(move |_| match inside.strike() {
        true => Err("no connection"),
        false => Ok(0_u64),
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    faults.next(5);
    let bad = pool.submit_with(|_, _| -> () { deliberate_panic("spoils the state") });
    assert!(task_error(bad.expect("there is room")).is_panicked());
    let queued: Vec<_> = (0..20).map(|n| pool.submit(move || n).expect("there is room")).collect();
    let values: Vec<u32> = queued.into_iter().map(value).collect();
    assert_eq!(values, (0..20).collect::<Vec<_>>(), "a dying worker took a task with it");
    eventually("the faults are spent", || faults.spent());
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    let now = pool.snapshot();
    assert_eq!(now.live_workers, cx.workers() as u64, "capacity did not come back");
    assert!(now.worker_restarts >= 1, "and it was counted");
}

pub(crate) fn W2_a_panicking_start_hook(cx: &Ctx) {
    let faults = Faults::default();
    let inside = faults.clone();
    let builder = at_once(cx.builder()).queue(50).on_worker_start(move |_| {
        if inside.strike() {
            deliberate_panic("in a start hook");
        }
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    for n in 1..=10 {
        faults.next(n % 4);
        let worker = pool.roster()[0].id;
        pool.recycle_worker(worker, StopWorker::AfterTask).expect("the worker exists");
        assert_eq!(value(pool.submit(move || n).expect("there is room")), n);
        eventually("the faults are spent", || faults.spent());
        occupy(&pool, cx.workers()).open();
        idle(&pool);
    }
    let now = pool.snapshot();
    assert_eq!(now.live_workers, cx.workers() as u64, "capacity did not come back");
    assert!(now.hook_panics >= 10, "panics in hooks are counted: {}", now.hook_panics);
}

pub(crate) fn W2_a_panicking_stop_hook(cx: &Ctx) {
    let armed = Arc::new(AtomicBool::new(true));
    let trigger = Arc::clone(&armed);
    let builder = at_once(cx.builder()).on_worker_stop(move |_| {
        if trigger.load(SeqCst) {
            deliberate_panic("in a stop hook");
        }
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    pool.recycle_worker(pool.roster()[0].id, StopWorker::AfterTask).expect("the worker exists");
    eventually("the hook has panicked", || pool.snapshot().hook_panics >= 1);
    occupy(&pool, cx.workers()).open();
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert!(report.complete, "a hook held the shutdown up: {report}");
}

/// Also hazard 28: the thread can't be started.
pub(crate) fn W2_spawn_failure_later_loses_no_task(cx: &Ctx) {
    let faults = Faults::default();
    let inside = faults.clone();
    let builder =
        at_once(cx.builder()).queue(50).spawner(move |thread, body| match inside.strike() {
            true => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            false => thread.spawn(body),
        });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    for failures in 1..=6 {
        faults.next(failures);
        for worker in pool.roster() {
            // Some of them may be on their way already.
            let _ = pool.recycle_worker(worker.id, StopWorker::AfterTask);
        }
        let queued: Vec<_> =
            (0..20).map(|n| pool.submit(move || n).expect("there is room")).collect();
        assert_eq!(queued.into_iter().map(value).sum::<u32>(), 190, "a task went with its worker");
        eventually("the faults are spent", || faults.spent());
    }
    eventually("capacity comes back", || pool.snapshot().live_workers == cx.workers() as u64);
    occupy(&pool, cx.workers()).open();
}

/// A task panics, its worker's state can't be made anew, and then no thread can be had.
pub(crate) fn hazard_27_nobody_is_started_while_unwinding(cx: &Ctx) {
    let (states, threads) = (Faults::default(), Faults::default());
    let (broken_state, broken_spawn) = (states.clone(), threads.clone());
    let unwinding = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&unwinding);
    let builder = at_once(cx.builder()).queue(50).callers_may_help(false);
    let builder = builder.spawner(move |thread, body| {
        seen.fetch_or(std::thread::panicking(), SeqCst);
        match broken_spawn.strike() {
            true => deliberate_panic("a spawner that gives up"),
            false => thread.spawn(body),
        }
    });
    let builder = builder.try_worker_state(move |_| match broken_state.strike() {
        true => Err("no connection"),
        false => Ok(0_u64),
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    for failures in 1..=6 {
        states.next(1);
        threads.next(failures);
        let bad = pool.submit_with(|_, _| -> () { deliberate_panic("spoils the state") });
        let queued: Vec<_> =
            (0..20).map(|n| pool.submit(move || n).expect("there is room")).collect();
        assert!(task_error(bad.expect("there is room")).is_panicked());
        assert_eq!(queued.into_iter().map(value).sum::<u32>(), 190, "a task went with its worker");
        eventually("the faults are spent", || states.spent() && threads.spent());
    }
    eventually("capacity comes back", || pool.snapshot().live_workers == cx.workers() as u64);
    occupy(&pool, cx.workers()).open();
    assert!(!unwinding.load(SeqCst), "a thread was started from a destructor of a panic");
}

pub(crate) fn W2_a_first_worker_that_fails_is_a_build_error(cx: &Ctx) {
    let plain = || at_once(cx.builder()).callers_may_help(false);
    let message = |answer: Result<(), String>, what: &str| match answer {
        Ok(()) => panic!("{what}: a pool without workers was built"),
        Err(message) => message,
    };
    let spawn = plain().spawner(|_, _| Err(io::Error::other("EAGAIN, really"))).build();
    let said = message(spawn.map(drop).map_err(|e| e.to_string()), "spawn");
    assert!(said.contains("EAGAIN, really"), "the OS error is lost: {said}");
    let state = plain().try_worker_state(|_| Err::<u8, _>("no database")).build();
    let said = message(state.map(drop).map_err(|e| e.to_string()), "state");
    assert!(said.contains("no database"), "the cause is lost: {said}");
    let panicking = plain().worker_state(|_| -> u8 { deliberate_panic("state") }).build();
    let said = message(panicking.map(drop).map_err(|e| e.to_string()), "panicking state");
    assert!(said.contains("state"), "the cause is lost: {said}");
    let hook = plain().on_worker_start(|_| deliberate_panic("start hook")).build();
    let said = message(hook.map(drop).map_err(|e| e.to_string()), "hook");
    assert!(said.contains("start hook"), "the cause is lost: {said}");
}

pub(crate) fn W2_failing_builds_leave_nothing_behind(cx: &Ctx) {
    for fail_at in 0..cx.workers().min(4) as u64 + 2 {
        let spawned = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&spawned);
        let wish = cx.wish();
        let threads = format!("{}-", wish.name);
        let builder = tidegate::Pool::builder(wish.name).workers(cx.workers());
        let builder = at_once(builder).on_unobserved(|_| ()).spawner(move |thread, body| {
            match counter.fetch_add(1, SeqCst) == fail_at {
                true => Err(io::Error::other("the N-th spawn")),
                false => thread.spawn(body),
            }
        });
        // Either the build says so, or the pool makes up for it.
        if let Ok(pool) = builder.build() {
            occupy(&pool, cx.workers()).open();
            assert!(pool.shutdown(Shutdown::light()).expect("outside the pool").complete);
        }
        eventually("no thread is left", || crate::kit::threads_named(&threads).unwrap_or(0) == 0);
    }
}

//! W1 and W3: threads with names, hooks and state; the roster and pool states.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate::{
    Builder, Clock, Cx, Inside, Mode, Pool, PoolState, Shutdown, StopWorker, WaitReason, WhenFull,
    WorkerId, WorkerState,
};

use crate::Ctx;
use crate::kit::{
    Gate, deliberate_panic, eventually, idle, in_background, no_outcome, occupy, task_error, value,
};

pub(crate) fn W1_threads_are_named(cx: &Ctx) {
    let pool = cx.builder().callers_may_help(false).build().expect("the pool starts");
    let handle = pool.task("").submit(|task| {
        let name = thread::current().name().map(str::to_owned);
        (name, task.worker_id())
    });
    let (name, worker) = value(handle.expect("there is room"));
    let worker = worker.expect("a worker runs it");
    assert_eq!(name, Some(format!("{}-{worker}", pool.name())));
}

pub(crate) fn W1_exactly_as_many_workers_as_asked_for(cx: &Ctx) {
    for _ in 0..50 {
        let started = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&started);
        let builder = cx.builder().on_worker_start(move |_| {
            counter.fetch_add(1, SeqCst);
        });
        let pool = builder.build().expect("the pool starts");
        let busy = occupy(&pool, cx.workers());
        assert_eq!(pool.roster().len(), cx.workers(), "{:?}", pool.roster());
        assert_eq!(started.load(SeqCst), cx.workers() as u64, "more were started than asked for");
        busy.open();
        pool.shutdown(Shutdown::light()).expect("outside the pool");
        assert_eq!(started.load(SeqCst), cx.workers() as u64, "more were started than asked for");
        assert_eq!(pool.snapshot().worker_restarts, 0, "nobody was lost");
    }
}

pub(crate) fn W1_stack_size(cx: &Ctx) {
    fn deep(levels: u32) -> u64 {
        let frame = std::hint::black_box([levels as u8; 1024]);
        let below = if levels == 0 { 0 } else { deep(levels - 1) };
        below + u64::from(frame[usize::from(frame[0])])
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let builder =
        cx.builder().callers_may_help(false).stack_size(16 << 20).spawner(move |thread, body| {
            seen.lock().expect("nobody panics holding it").push(format!("{thread:?}"));
            thread.spawn(body)
        });
    let pool = builder.build().expect("the pool starts");
    let passed_on =
        asked.lock().expect("nobody panics holding it").iter().any(|t| t.contains("16777216"));
    assert!(passed_on, "the stack size did not reach the thread: {asked:?}");
    // Four MiB of frames: more than the default of two.
    assert!(value(pool.submit(|| deep(4_000)).expect("there is room")) > 0);
}

pub(crate) fn W1_hooks_run_once_per_worker(cx: &Ctx) {
    let (started, stopped) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let note = |list: &Arc<Mutex<Vec<WorkerId>>>| {
        let list = Arc::clone(list);
        move |id| list.lock().expect("nobody panics holding it").push(id)
    };
    let builder = cx.builder().on_worker_start(note(&started)).on_worker_stop(note(&stopped));
    let pool = builder.build().expect("the pool starts");
    assert!(!started.lock().expect("unpoisoned").is_empty(), "build waits for the first worker");
    occupy(&pool, cx.workers()).open();
    pool.shutdown(Shutdown::light()).expect("outside the pool");
    for list in [started, stopped] {
        let ids = list.lock().expect("nobody panics holding it").clone();
        let distinct: HashSet<WorkerId> = ids.iter().copied().collect();
        assert_eq!((ids.len(), distinct.len()), (cx.workers(), cx.workers()), "{ids:?}");
    }
}

struct Till {
    owner: WorkerId,
    sales: u64,
}

impl Till {
    fn sell(&mut self, _: &Cx) -> u64 {
        self.sales += 1;
        self.sales
    }
}

fn tills(builder: Builder) -> (Pool<Till>, Arc<AtomicU64>) {
    let made = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&made);
    let builder = builder.queue(100).callers_may_help(false).worker_state(move |owner| {
        counter.fetch_add(1, SeqCst);
        Till { owner, sales: 0 }
    });
    (builder.build().expect("the pool starts"), made)
}

fn with_tills(cx: &Ctx) -> (Pool<Till>, Arc<AtomicU64>) {
    tills(cx.builder())
}

pub(crate) fn W1_each_worker_has_its_own_state(cx: &Ctx) {
    let (pool, made) = with_tills(cx);
    let sales: Vec<_> = (0..200)
        .map(|_| {
            let sale = pool.submit_with(|till: &mut Till, task| {
                till.sales += 1;
                (Some(till.owner) == task.worker_id(), till.owner, till.sales)
            });
            sale.expect("there is room")
        })
        .collect();
    let mut seen = HashSet::new();
    for (own, owner, number) in sales.into_iter().map(value) {
        assert!(own, "a task got another worker's state");
        assert!(seen.insert((owner, number)), "two tasks held the same state at once");
    }
    pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!(made.load(SeqCst), cx.workers() as u64, "made once per worker");
}

pub(crate) fn W1_state_is_rebuilt_after_a_panic(cx: &Ctx) {
    let (pool, made) = with_tills(cx);
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    // The others stay busy, so that one worker does all that follows.
    let busy = occupy(&pool, cx.workers() - 1);
    let before = made.load(SeqCst);
    assert_eq!(value(pool.submit_with(Till::sell).expect("there is room")), 1);
    let bad = pool.submit_with(|till, _| -> () {
        till.sales = 99;
        deliberate_panic("half-done")
    });
    assert!(task_error(bad.expect("there is room")).is_panicked());
    assert_eq!(
        value(pool.submit_with(Till::sell).expect("there is room")),
        1,
        "the half-done state lived on"
    );
    assert_eq!(made.load(SeqCst), before + 1);
    busy.open();
}

pub(crate) fn W1_state_is_rebuilt_after_a_late_panic(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let grace = Duration::from_secs(5);
    // Nobody takes the place of a stuck worker, so it goes on when it returns.
    let (pool, made) = tills(cx.builder().clock(clock).grace(grace).max_abandoned(0));
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    let busy = occupy(&pool, cx.workers() - 1);
    let before = made.load(SeqCst);
    let owner = value(pool.submit_with(|till, _| till.owner).expect("there is room"));
    let sell = || value(pool.submit_with(Till::sell).expect("there is room"));
    assert_eq!(sell(), 1);
    let gate = Gate::new();
    let passage = gate.passage();
    let bad = pool.submit_with(move |till, _| -> () {
        till.sales = 99;
        passage.enter();
        deliberate_panic("too late")
    });
    let bad = bad.expect("there is room");
    gate.wait_until_entered(1);
    bad.cancel();
    hand.advance(grace);
    assert!(task_error(bad).is_abandoned());
    gate.let_through(1);
    assert_eq!(sell(), 1, "the half-done state lived on");
    assert_eq!((made.load(SeqCst), pool.snapshot().late_returns), (before + 1, 1));

    let passage = gate.passage();
    let forgotten = move || {
        passage.enter();
        deliberate_panic("too late, and nobody holds its handle")
    };
    pool.spawn(forgotten).expect("there is room");
    gate.wait_until_entered(2);
    let task = pool.roster().into_iter().find_map(|worker| match worker.state {
        WorkerState::Running { id, .. } if worker.id == owner => Some(id),
        _ => None,
    });
    assert!(pool.cancel_task(task.expect("it runs")));
    hand.advance(grace);
    eventually("it is given up", || pool.snapshot().abandoned == 2);
    gate.open();
    assert_eq!(sell(), 1, "the state of a task without a handle lived on");
    assert_eq!((made.load(SeqCst), pool.snapshot().late_returns), (before + 2, 2));
    busy.open();
}

pub(crate) fn W1_a_wait_inside_a_stateful_pool_would_deadlock(cx: &Ctx) {
    let (pool, _) = with_tills(cx);
    let busy = occupy(&pool, cx.workers() - 1);
    let inside = pool.clone();
    let outer = pool.submit_with(move |_, _| {
        let inner = inside.submit(|| 1).expect("there is room");
        no_outcome(inner.wait())
    });
    let (reason, inner) = value(outer.expect("there is room"));
    assert_eq!(reason, WaitReason::WouldDeadlock, "the state can't be lent twice");
    assert_eq!(value(inner), 1, "it runs when the worker is free");
    busy.open();
}

pub(crate) fn W1_what_state_excludes_is_a_build_error(cx: &Ctx) {
    let with_state = |builder: tidegate::Builder| builder.worker_state(|_| 0_u8).build();
    let plain = || cx.builder().callers_may_help(false);
    let answers = [
        ("CallerRuns", with_state(plain().when_full(WhenFull::CallerRuns))),
        ("run inline", with_state(plain().when_full_inside(Inside::RunInline))),
        ("helping", with_state(plain().callers_may_help(true))),
    ];
    for (what, answer) in answers {
        let error = answer.err().unwrap_or_else(|| panic!("{what} needs a state it does not have"));
        assert!(!error.to_string().is_empty(), "{what}: the error says nothing");
    }
    let zero = plain().queue(0).when_full(WhenFull::DropOldest).build();
    assert!(zero.is_err(), "DropOldest with queue(0) has nothing to drop");
}

fn states(pool: &Pool) -> Vec<WorkerState> {
    pool.roster().into_iter().map(|worker| worker.state).collect()
}

pub(crate) fn W3_the_roster_shows_idle_running_and_stopping(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    eventually("all idle", || states(&pool) == vec![WorkerState::Idle; cx.workers()]);
    let gate = Gate::new();
    let passage = gate.passage();
    let handle = pool.task("seen").submit(move |_| passage.enter()).expect("there is room");
    gate.wait_until_entered(1);
    let is_seen = |state: &WorkerState| matches!(state, WorkerState::Running { name: "seen", id, .. } if *id == handle.id());
    assert_eq!(states(&pool).iter().filter(|state| is_seen(state)).count(), 1);
    let roster = pool.roster();
    let runner = roster.iter().find(|worker| is_seen(&worker.state)).expect("just seen");
    assert!(runner.started >= 1, "it has started a task");
    pool.recycle_worker(runner.id, StopWorker::AfterTask).expect("the worker exists");
    assert!(states(&pool).contains(&WorkerState::Stopping), "it ends after its task");
    gate.open();
    value(handle);
    eventually("all idle again", || {
        states(&pool).iter().filter(|s| **s == WorkerState::Idle).count() == cx.workers()
    });
}

pub(crate) fn W3_the_roster_shows_starting(cx: &Ctx) {
    cx.needs_workers(2);
    let (gate, first) = (Gate::new(), AtomicU64::new(0));
    let passage = gate.passage();
    let builder = cx.builder().on_worker_start(move |_| {
        if first.fetch_add(1, SeqCst) > 0 {
            passage.enter();
        }
    });
    let pool = builder.build().expect("the first worker is enough");
    gate.wait_until_entered(1);
    assert!(states(&pool).contains(&WorkerState::Starting), "{:?}", states(&pool));
    gate.open();
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn W3_the_roster_shows_restarting_with_its_cause(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let wait = Duration::from_secs(10);
    let starts = Arc::new(AtomicU64::new(0));
    let (count, workers) = (Arc::clone(&starts), cx.workers() as u64);
    let builder =
        cx.builder().clock(clock).restart_backoff(wait..=wait).on_worker_start(move |_| {
            if count.fetch_add(1, SeqCst) == workers {
                deliberate_panic("hook of the replacement");
            }
        });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    pool.recycle_worker(pool.roster()[0].id, StopWorker::AfterTask).expect("the worker exists");
    let restarting = || {
        states(&pool).into_iter().find_map(|state| match state {
            WorkerState::Restarting { after, cause }
                if cause.contains("hook of the replacement") =>
            {
                Some(after)
            }
            _ => None,
        })
    };
    eventually("the replacement dies and the roster says why", || restarting().is_some());
    let after = restarting().expect("the clock stands still");
    assert!(after > Duration::ZERO && after <= wait, "not the back-off: {after:?}");
    assert_eq!(pool.snapshot().live_workers, workers - 1);
    hand.advance(wait);
    eventually("capacity comes back", || pool.snapshot().live_workers == workers);
    occupy(&pool, cx.workers()).open();
    assert!(pool.snapshot().worker_restarts >= 1);
}

pub(crate) fn W3_pool_states(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    assert_eq!(pool.state(), PoolState::Running);
    pool.pause();
    assert_eq!(pool.state(), PoolState::Paused);
    pool.resume();
    let busy = occupy(&pool, cx.workers());
    pool.close();
    assert_eq!(pool.state(), PoolState::Closed);
    pool.pause();
    assert_eq!(pool.state(), PoolState::Closed, "paused or not, it accepts nothing");
    pool.resume();
    let shutdown = {
        let pool = pool.clone();
        in_background(move || pool.shutdown(Shutdown::soft()).expect("outside the pool"))
    };
    eventually("closing", || pool.state() == PoolState::Closing(Mode::Soft));
    assert_eq!(pool.snapshot().state, pool.state(), "the snapshot says the same");
    busy.open();
    shutdown.join();
    assert_eq!(pool.state(), PoolState::Stopped { complete: true });
    pool.pause();
    pool.resume();
    assert_eq!(pool.state(), PoolState::Stopped { complete: true }, "stopped is stopped");
}

//! S7 and S8: one worker, one task, pause and resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{
    Cause, Clock, Pool, PoolState, Reason, Shutdown, StopWorker, TaskId, WorkerId, WorkerState,
};

use crate::Ctx;
use crate::kit::{
    Gate, Passage, Ran, dawdle, eventually, give_a_bug_its_chance, idle, in_background, occupy,
    refusal, task_error, value,
};

const GRACE: Duration = Duration::from_secs(5);

/// Which worker runs the task of this name, and the task's id.
fn runner_of(pool: &Pool, wanted: &str) -> (WorkerId, TaskId) {
    let running = |state: &WorkerState| match state {
        WorkerState::Running { name, id, .. } if *name == wanted => Some(*id),
        _ => None,
    };
    let roster = pool.roster();
    let found = roster.iter().find_map(|worker| Some((worker.id, running(&worker.state)?)));
    found.unwrap_or_else(|| panic!("no worker runs {wanted}: {roster:?}"))
}

fn obedient(
    pool: &Pool,
    name: &'static str,
    passage: Passage,
) -> tidegate::Handle<(), &'static str> {
    let task =
        pool.task(name).submit_result(move |task| match passage.enter_unless(|| task.stopping()) {
            true => Ok(()),
            false => Err("stopped"),
        });
    task.expect("there is room")
}

pub(crate) fn S7_stop_one_worker_after_its_task(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let task = obedient(&pool, "last", gate.passage());
    gate.wait_until_entered(1);
    let (worker, _) = runner_of(&pool, "last");
    pool.stop_worker(worker, StopWorker::AfterTask).expect("the worker exists");
    give_a_bug_its_chance();
    assert!(!task.is_settled(), "its task was disturbed");
    gate.open();
    value(task);
    let left = cx.workers() as u64 - 1;
    eventually("the worker ends", || pool.snapshot().live_workers == left);
    let rest = occupy(&pool, cx.workers() - 1);
    let ended = pool
        .roster()
        .iter()
        .any(|w| w.id == worker && matches!(w.state, WorkerState::Ended { .. }));
    assert!(
        ended || pool.roster().iter().all(|w| w.id != worker),
        "the roster still shows it at work"
    );
    rest.open();
}

pub(crate) fn S7_stop_one_worker_hard(cx: &Ctx) {
    cx.needs_workers(2);
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let (doomed, spared) =
        (obedient(&pool, "doomed", gate.passage()), obedient(&pool, "spared", gate.passage()));
    gate.wait_until_entered(2);
    let (worker, _) = runner_of(&pool, "doomed");
    pool.stop_worker(worker, StopWorker::Hard).expect("the worker exists");
    assert_eq!(task_error(doomed).cause(), Some(Cause::WorkerStopped));
    assert!(!spared.is_settled(), "another worker's task was told too");
    gate.open();
    value(spared);
}

pub(crate) fn S7_stop_one_worker_hard_reaches_a_fire_and_forget_task(cx: &Ctx) {
    cx.needs_workers(2);
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().clock(clock).grace(GRACE).build().expect("the pool starts");
    let gate = Gate::new();
    pool.spawn(gate.waiter()).expect("there is room");
    gate.wait_until_entered(1);
    let (worker, _) = runner_of(&pool, "");
    pool.stop_worker(worker, StopWorker::Hard).expect("the worker exists");
    hand.advance(GRACE - Duration::from_millis(2));
    give_a_bug_its_chance();
    assert_eq!(pool.snapshot().abandoned, 0, "given up before the grace was over");
    hand.advance(Duration::from_millis(2));
    eventually("it is given up", || pool.snapshot().abandoned == 1);
    let state_of = |id| pool.roster().into_iter().find(|w| w.id == id).map(|w| w.state);
    assert_eq!(state_of(worker), Some(WorkerState::Stuck));
    gate.open();
    eventually("it returns late, and its worker ends", || {
        matches!(state_of(worker), Some(WorkerState::Ended { .. }))
    });
    occupy(&pool, cx.workers() - 1).open();
    let now = pool.snapshot();
    assert_eq!((now.late_returns, now.stuck, now.live_workers), (1, 0, cx.workers() as u64 - 1));
    now.check().expect("no task was lost");
}

pub(crate) fn S7_recycle_one_worker(cx: &Ctx) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&started);
    let builder = cx.builder().queue(10).on_worker_start(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    for how in [StopWorker::AfterTask, StopWorker::Hard] {
        let before = started.load(SeqCst);
        let gate = Gate::new();
        let task = obedient(&pool, "recycled", gate.passage());
        gate.wait_until_entered(1);
        let (worker, _) = runner_of(&pool, "recycled");
        pool.recycle_worker(worker, how).expect("the worker exists");
        if how == StopWorker::AfterTask {
            gate.open();
            value(task);
        } else {
            assert_eq!(task_error(task).cause(), Some(Cause::WorkerStopped));
        }
        eventually("a fresh thread takes its place", || started.load(SeqCst) == before + 1);
        occupy(&pool, cx.workers()).open();
        assert_eq!(pool.snapshot().live_workers, cx.workers() as u64);
    }
}

pub(crate) fn S7_recycle_an_idle_worker(cx: &Ctx) {
    let started = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&started);
    let builder = cx.builder().on_worker_start(move |_| {
        counter.fetch_add(1, SeqCst);
    });
    let pool = builder.build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    for worker in pool.roster() {
        pool.recycle_worker(worker.id, StopWorker::AfterTask).expect("the worker exists");
    }
    eventually("all are fresh", || started.load(SeqCst) == cx.workers() as u64 * 2);
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn S7_an_unknown_worker_is_an_error(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    let larger =
        Pool::builder(cx.wish().name).workers(cx.workers() + 50).build().expect("the pool starts");
    let stranger = larger.roster().iter().map(|worker| worker.id).max().expect("it has workers");
    assert!(pool.stop_worker(stranger, StopWorker::Hard).is_err());
    assert!(pool.recycle_worker(stranger, StopWorker::AfterTask).is_err());
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn S7_cancel_one_task_by_id_from_the_roster(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let task = obedient(&pool, "picked", gate.passage());
    gate.wait_until_entered(1);
    let (_, id) = runner_of(&pool, "picked");
    assert_eq!(id, task.id(), "the roster names the task by its id");
    assert!(pool.cancel_task(id));
    assert!(task_error(task).is_cancelled());
    assert!(!pool.cancel_task(id), "it is gone");
}

/// A paused pool with `queued` tasks that note their number, every worker free.
fn paused_with_work(cx: &Ctx, queued: u64) -> (Pool, Ran) {
    let pool = cx.builder().queue(20).build().expect("the pool starts");
    let (busy, ran) = (occupy(&pool, cx.workers()), Ran::new());
    for n in 0..queued {
        pool.spawn(ran.noting(n)).expect("there is room");
    }
    pool.pause();
    busy.open();
    eventually("what ran has finished", || pool.snapshot().running == 0);
    (pool, ran)
}

pub(crate) fn S8_pause_holds_the_backlog(cx: &Ctx) {
    let (pool, ran) = paused_with_work(cx, 10);
    pool.spawn(ran.noting(10)).expect("a paused pool accepts");
    give_a_bug_its_chance();
    assert_eq!(ran.order(), [0_u64; 0], "a paused pool started something");
    assert_eq!((pool.state(), pool.snapshot().queued), (PoolState::Paused, 11));
    assert!(
        !pool.wait_idle_timeout(Duration::from_millis(1)).expect("outside"),
        "paused is not idle"
    );
    pool.resume();
    idle(&pool);
    let mut all = ran.order();
    all.sort_unstable();
    assert_eq!(all, (0..11).collect::<Vec<_>>(), "resume starts the backlog");
    assert_eq!(pool.state(), PoolState::Running);
}

pub(crate) fn S8_what_is_submitted_after_a_pause_does_not_start(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    for round in 0..2_000 {
        pool.pause();
        let handle = pool.submit(|| ()).expect("a paused pool accepts");
        // Workers that the resume before has woken are about to look at the queue.
        dawdle(round % 64);
        handle.cancel();
        assert!(task_error(handle).is_cancelled(), "it started in round {round}");
        pool.resume();
    }
}

pub(crate) fn S8_queued_tasks_can_be_cancelled_while_paused(cx: &Ctx) {
    let pool = cx.builder().queue(2).build().expect("the pool starts");
    pool.pause();
    let doomed = pool.submit(|| ()).expect("there is room");
    let kept = pool.submit(|| 1).expect("there is room");
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full);
    assert!(doomed.cancel());
    assert!(task_error(doomed).is_cancelled());
    let late = pool.try_submit(|| 2).expect("its place is free");
    pool.resume();
    assert_eq!((value(kept), value(late)), (1, 2));
}

pub(crate) fn S8_a_waiter_inside_may_run_its_own_target(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let gate = Gate::new();
    let (inside, passage) = (pool.clone(), gate.passage());
    let outer = pool.submit(move || {
        passage.enter();
        value(inside.submit(|| 12).expect("there is room"))
    });
    let outer = outer.expect("there is room");
    gate.wait_until_entered(1);
    pool.pause();
    gate.open();
    assert_eq!(value(outer), 12, "a running task waited for ever in a paused pool");
    pool.resume();
}

pub(crate) fn S8_queue_zero_has_no_idle_worker_while_paused(cx: &Ctx) {
    let pool = cx.builder().queue(0).build().expect("the pool starts");
    occupy(&pool, cx.workers()).open();
    idle(&pool);
    pool.pause();
    assert_eq!(refusal(pool.try_submit(|| ())), Reason::Full);
    pool.resume();
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn S8_queue_zero_runs_what_it_accepted_before_a_pause(cx: &Ctx) {
    let pool = cx.builder().queue(0).build().expect("the pool starts");
    for round in 0..300 {
        // Whoever is woken for it finds the pool paused.
        let accepted = pool.submit(move || round).expect("a worker is waited for");
        pool.pause();
        eventually("it was handed over, and runs", || accepted.is_settled());
        assert_eq!(value(accepted), round);
        pool.resume();
    }
}

pub(crate) fn S8_queue_zero_has_its_workers_back_after_a_pause(cx: &Ctx) {
    let pool = cx.builder().queue(0).build().expect("the pool starts");
    let gate = occupy(&pool, cx.workers());
    pool.pause();
    gate.open();
    idle(&pool);
    give_a_bug_its_chance(); // they go to rest in a paused pool
    pool.resume();
    occupy(&pool, cx.workers()).open();
}

pub(crate) fn S8_close_does_not_end_the_pause(cx: &Ctx) {
    let (pool, ran) = paused_with_work(cx, 3);
    pool.close();
    give_a_bug_its_chance();
    assert_eq!((ran.order().len(), pool.snapshot().queued), (0, 3), "close started the backlog");
    pool.resume();
    idle(&pool);
    assert_eq!(ran.order().len(), 3);
}

pub(crate) fn S8_shutdown_ends_the_pause(cx: &Ctx) {
    let (pool, ran) = paused_with_work(cx, 3);
    let report = pool.shutdown(Shutdown::light()).expect("outside the pool");
    assert_eq!((report.completed, ran.order().len()), (3, 3), "{report}");
    let (pool, ran) = paused_with_work(cx, 3);
    let report = pool.shutdown(Shutdown::soft()).expect("outside the pool");
    assert_eq!((report.cancelled, ran.order().len()), (3, 0), "{report}");
}

pub(crate) fn S8_the_last_drop_ends_the_pause(cx: &Ctx) {
    let (pool, ran) = paused_with_work(cx, 3);
    drop(pool);
    eventually("the backlog drains", || ran.order().len() == 3);
}

pub(crate) fn S8_wait_idle_waits_for_a_paused_pool(cx: &Ctx) {
    let (pool, ran) = paused_with_work(cx, 3);
    let waiting = {
        let (pool, ran) = (pool.clone(), ran.clone());
        in_background(move || {
            idle(&pool);
            ran.order().len()
        })
    };
    give_a_bug_its_chance();
    assert!(!waiting.is_finished(), "it called a paused backlog idle");
    pool.resume();
    assert_eq!(waiting.join(), 3);
}

//! Futures that are stuck in one poll: when that is seen, and when they are given up.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{AsyncPool, Cause, Handle, Shutdown, TaskError, Verdict, WaitError, WorkerState};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::kit::*;

/// Long enough to tell one grace from none on a busy machine.
const GRACE: Duration = Duration::from_millis(400);

/// After so many polls they have no date (`poll_watch.rs`).
const MANY: u32 = 300;

/// Runs on a thread of its own until it is dropped, so that a test may block.
struct Driven(tokio::runtime::Handle, Arc<Notify>, Option<thread::JoinHandle<()>>);

impl Driven {
    fn new(runtime: Runtime) -> Driven {
        let (handle, stop) = (runtime.handle().clone(), Arc::new(Notify::new()));
        let told = Arc::clone(&stop);
        let driver = thread::spawn(move || runtime.block_on(told.notified()));
        Driven(handle, stop, Some(driver))
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.1.notify_one();
        let _ = self.2.take().map(thread::JoinHandle::join);
    }
}

fn on_each_thread(test: impl Fn(&tokio::runtime::Handle)) {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        test(&Driven::new(runtime).0);
    }
}

fn wait_until(fact: impl Fn() -> bool) {
    let began = Instant::now();
    while !fact() {
        assert!(began.elapsed() < LONG, "it hangs");
        thread::yield_now();
    }
}

fn has_passed(time: Duration, since: Instant) {
    wait_until(|| since.elapsed() > time);
}

/// A future that is in one poll until it is let go, after so many others.
struct Stuck {
    task: Option<Handle<()>>,
    begun: Receiver<()>,
    release: Sender<()>,
}

impl Stuck {
    fn after(polls: u32, pool: &AsyncPool) -> Stuck {
        let (release, blocked) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let task = pool.submit_blocking(async move {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            begins.send(()).unwrap();
            let _ = blocked.recv(); // blocks the thread
            pending::<()>().await;
        });
        Stuck { task: Some(task.unwrap()), begun, release }
    }

    fn cancel(&self) -> Instant {
        let told = Instant::now();
        assert!(self.task.as_ref().unwrap().cancel());
        told
    }

    /// True if it was given up, false if it was dropped.
    fn was_abandoned(&mut self) -> bool {
        match self.task.take().unwrap().wait() {
            Err(WaitError::Task(TaskError::Cancelled { cause: Cause::Handle, .. })) => false,
            Err(WaitError::Task(TaskError::Abandoned(Cause::Handle))) => true,
            other => panic!("{other:?}"),
        }
    }
}

/// Nobody asks until then, so it is the supervisor that has seen it.
#[test]
fn v3_a_poll_without_a_date_blocks_the_reactor_since_the_supervisor_saw_it() {
    on_each_thread(|runtime| {
        let pool = quiet("undated").workers(2).build_async_on(runtime).unwrap();
        let before = Instant::now();
        let mut stuck = Stuck::after(MANY, &pool);
        stuck.begun.recv().unwrap();
        let began = Instant::now();
        has_passed(2 * SECOND, began);
        let (now, since) = (pool.snapshot(), before.elapsed());
        assert_eq!(now.blocked_workers, 1, "nobody has looked\n{now}");
        let poll = now.longest_poll.as_ref().unwrap();
        assert!(poll.lasts >= SECOND, "it was seen late: {poll}");
        assert!(poll.lasts <= since, "it was seen before it began: {poll}");
        assert_eq!(poll.id, stuck.task.as_ref().unwrap().id());
        assert_eq!(pool.diagnose().verdict, Verdict::BlockedReactor);
        stuck.cancel();
        stuck.release.send(()).unwrap();
        assert!(!stuck.was_abandoned());
        wait_until(|| pool.snapshot().blocked_workers == 0);
        pool.shutdown_blocking(Shutdown::default()).unwrap();
    });
}

#[test]
fn l4_a_poll_without_a_date_is_given_up_after_its_grace_and_not_before() {
    on_each_thread(|runtime| {
        let pool = quiet("undated").workers(1).grace(GRACE).build_async_on(runtime).unwrap();
        let mut stuck = Stuck::after(MANY, &pool);
        stuck.begun.recv().unwrap();
        // How long it was stuck before it was told does not count.
        has_passed(2 * GRACE, Instant::now());
        let told = stuck.cancel();
        assert!(stuck.was_abandoned());
        assert!(told.elapsed() >= GRACE, "too early: after {:?}", told.elapsed());
        stuck.release.send(()).unwrap();
        wait_until(|| pool.snapshot().late_returns == 1);
        pool.shutdown_blocking(Shutdown::default()).unwrap();
    });
}

/// The grace of one task is not what another on the same worker has left of its own.
#[test]
fn l4_each_task_of_a_worker_has_a_grace_of_its_own() {
    on_each_thread(|runtime| {
        let pool = quiet("each").workers(1).queue(8).grace(GRACE).build_async_on(runtime).unwrap();
        let mut first = Stuck::after(0, &pool);
        first.begun.recv().unwrap();
        let told = first.cancel();
        // Whoever ends this looks at the first, too.
        let late = pool.task("late").queue_timeout(Duration::from_millis(1));
        assert!(late.submit_blocking(|_| async {}).unwrap().wait().is_err());
        first.release.send(()).unwrap();
        if first.was_abandoned() {
            println!("skipped: the machine was too slow");
            pool.shutdown_blocking(Shutdown::default()).unwrap();
            return;
        }
        let mut second = Stuck::after(0, &pool);
        second.begun.recv().unwrap();
        has_passed(GRACE, told);
        let told = second.cancel();
        assert!(second.was_abandoned());
        assert!(told.elapsed() >= GRACE, "too early: after {:?}", told.elapsed());
        second.release.send(()).unwrap();
        wait_until(|| pool.snapshot().late_returns == 1);
        pool.shutdown_blocking(Shutdown::default()).unwrap();
    });
}

/// Its cell lives again by then, under another task's limit.
#[test]
fn a_first_poll_that_returns_after_it_was_given_up_shortens_nobodys_limit() {
    on_each_thread(|runtime| {
        let builder = quiet("limits").workers(1).queue(100).grace(Duration::ZERO);
        let pool = builder.build_async_on(runtime).unwrap();
        let mut stuck = Stuck::after(0, &pool);
        stuck.begun.recv().unwrap();
        stuck.cancel();
        assert!(stuck.was_abandoned());
        pool.pause();
        let others: Vec<_> = (0..100)
            .map(|n| pool.task("other").timeout(LONG).submit_blocking(move |_| async move { n }))
            .collect();
        stuck.release.send(()).unwrap();
        wait_until(|| pool.snapshot().late_returns == 1);
        pool.resume();
        for (n, other) in others.into_iter().enumerate() {
            assert_eq!(other.unwrap().wait().unwrap(), n, "it had a minute");
        }
        pool.shutdown_blocking(Shutdown::default()).unwrap();
    });
}

/// The same, with tasks that run: whoever stops them wakes their worker. They have a grace, for
/// without one the supervisor may come upon the very poll that ends them, and give that up.
#[test]
fn a_first_poll_that_returns_after_it_was_given_up_keeps_nobody_from_being_stopped() {
    let [_, (_, runtime)] = runtimes();
    let driven = Driven::new(runtime);
    let builder = quiet("stops").workers(20).queue(100).grace(5 * GRACE);
    let pool = builder.build_async_on(&driven.0).unwrap();
    let mut stuck = Stuck::after(0, &pool);
    stuck.begun.recv().unwrap();
    stuck.cancel();
    assert!(stuck.was_abandoned());
    let others: Vec<_> = (0..10).map(|_| pool.submit_blocking(pending::<()>()).unwrap()).collect();
    wait_until(|| pool.snapshot().running == 10);
    stuck.release.send(()).unwrap();
    wait_until(|| pool.snapshot().late_returns == 1);
    for other in others {
        other.cancel();
        match other.wait() {
            Err(WaitError::Task(TaskError::Cancelled { cause: Cause::Handle, .. })) => {}
            ended => panic!("{ended:?}"),
        }
    }
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

/// What is spawned there runs on the thread where the worker is about to look for work again; that
/// one has said that it searches, and the other one sleeps.
#[test]
fn r7_a_task_does_not_wait_for_a_worker_that_searches_behind_a_poll_that_blocks() {
    let [_, (_, runtime)] = runtimes();
    let pool = quiet("behind").workers(2).build_async_on(runtime.handle()).unwrap();
    for _ in 0..20 {
        let (blocks, begun, release) = blocks();
        pool.try_spawn(async { drop(tokio::spawn(blocks)) }).unwrap();
        begun.recv().unwrap();
        let mut task = pool.try_submit(async { 7 }).unwrap();
        let ended = task.wait_timeout(LONG).expect("there is another thread, and a worker");
        assert_eq!(ended.unwrap(), 7);
        drop(release);
        pool.wait_idle_blocking().unwrap();
    }
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

/// As workload S. By then the other worker may sleep, search, or let others go on; and the runtime
/// may have put it onto the thread that is about to be blocked.
#[test]
fn r7_a_task_does_not_wait_behind_one_that_blocks() {
    let [_, (_, runtime)] = runtimes();
    for _ in 0..100 {
        let pool = quiet("short").workers(2).build_async_on(runtime.handle()).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        for _ in 0..3_000 {
            pool.submit_blocking(async {}).unwrap().detach();
        }
        let long = pool.submit_blocking(async move { _ = blocked.recv() }).unwrap();
        let mut task = pool.submit_blocking(async { 7 }).unwrap();
        let ended = task.wait_timeout(LONG).expect("there is another thread, and a worker");
        assert_eq!(ended.unwrap(), 7);
        drop(release);
        long.wait().unwrap();
        pool.shutdown_blocking(Shutdown::default()).unwrap();
    }
}

/// A future that blocks its thread until it is let go: itself, when it has begun, and how.
fn blocks() -> (impl Future<Output = ()> + Send + 'static, Receiver<()>, Sender<()>) {
    let (release, blocked) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let future = async move {
        begins.send(()).unwrap();
        let _ = blocked.recv();
    };
    (future, begun, release)
}

/// A thread of the runtime looks now and then at what comes from outside before it goes on with its
/// own, here always. What comes blocks it, and a worker that has let others go on is its own.
fn blocks_where_a_worker_lets_others_go_on(
    workers: usize,
    come: impl Fn(&AsyncPool, &Runtime) -> (Receiver<()>, Sender<()>),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .global_queue_interval(1)
        .event_interval(1)
        .enable_time()
        .build()
        .unwrap();
    let pool = quiet("next").workers(workers).build_async_on(runtime.handle()).unwrap();
    for _ in 0..20 {
        wait_until(|| pool.roster().iter().all(|worker| worker.state == WorkerState::Idle));
        // One thread is somebody else's, the other one a worker's.
        let (other, begun, free) = blocks();
        drop(runtime.spawn(other));
        begun.recv().unwrap();
        let (first, begun, go) = blocks();
        pool.submit_blocking(first).unwrap().detach();
        begun.recv().unwrap();
        // With that one so many that it lets others go on, and none that it takes for short.
        for _ in 1..32 {
            let short = async { has_passed(Duration::from_micros(10), Instant::now()) };
            pool.submit_blocking(short).unwrap().detach();
        }
        let (begun, release) = come(&pool, &runtime);
        let mut task = pool.submit_blocking(async { 7 }).unwrap();
        drop(go);
        begun.recv().unwrap();
        drop(free);
        let ended = task.wait_timeout(LONG).expect("there is another thread, and a worker");
        assert_eq!(ended.unwrap(), 7);
        drop(release);
        pool.wait_idle_blocking().unwrap();
    }
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

/// The second worker is woken by the tasks before, and waits for a thread.
#[test]
fn r7_a_task_does_not_wait_for_a_worker_that_lets_another_go_on_which_blocks() {
    blocks_where_a_worker_lets_others_go_on(2, |pool, _| {
        let (long, begun, release) = blocks();
        pool.submit_blocking(long).unwrap().detach();
        (begun, release)
    });
}

#[test]
fn r7_a_task_does_not_wait_for_a_worker_that_lets_somebody_else_go_on_who_blocks() {
    blocks_where_a_worker_lets_others_go_on(1, |_, runtime| {
        let (long, begun, release) = blocks();
        drop(runtime.spawn(long));
        (begun, release)
    });
}

/// Its task is over; what its worker begins next must not hold it up.
#[test]
fn who_awaits_an_outcome_does_not_wait_behind_the_next_task() {
    let [_, (_, runtime)] = runtimes();
    for _ in 0..20 {
        let awaits = async {
            let pool = quiet("next").workers(2).build_async().unwrap();
            while pool.roster().iter().any(|worker| worker.state != WorkerState::Idle) {
                tokio::task::yield_now().await;
            }
            let (release, blocked) = mpsc::channel::<()>();
            let short = pool.submit(async {}).await.unwrap();
            let long = pool.submit(async move { blocked.recv_timeout(LONG) }).await.unwrap();
            short.await.unwrap();
            drop(release);
            let released = Err(mpsc::RecvTimeoutError::Disconnected);
            assert_eq!(long.await.unwrap(), released, "it went on when that gave up");
            pool.shutdown(Shutdown::default()).await.unwrap();
        };
        runtime.block_on(runtime.spawn(awaits)).unwrap();
    }
}

#[test]
fn who_awaits_room_does_not_wait_behind_the_next_task() {
    let [_, (_, runtime)] = runtimes();
    for _ in 0..20 {
        let awaits = async {
            let pool = quiet("room").workers(2).queue(1).build_async().unwrap();
            let (release, blocked) = mpsc::channel::<()>();
            let long = pool.submit(async move { blocked.recv_timeout(LONG) }).await.unwrap();
            for _ in 0..10 {
                pool.spawn(async {}).await.unwrap();
            }
            drop(release);
            let released = Err(mpsc::RecvTimeoutError::Disconnected);
            assert_eq!(long.await.unwrap(), released, "there was room before that gave up");
            pool.shutdown(Shutdown::default()).await.unwrap();
        };
        runtime.block_on(runtime.spawn(awaits)).unwrap();
    }
}

/// A pool of one worker with a task in it that ends when it is told to, and a large queue, which
/// tells of room now and then only.
async fn busy_with_large_queue() -> (AsyncPool, tokio::sync::oneshot::Sender<()>) {
    let pool = quiet("large").workers(1).queue(PLACES).build_async().unwrap();
    let (go, waits) = tokio::sync::oneshot::channel::<()>();
    pool.spawn(async move { waits.await.unwrap() }).await.unwrap();
    while pool.snapshot().running == 0 {
        tokio::task::yield_now().await;
    }
    (pool, go)
}

const PLACES: usize = 64;

/// Fills the queue, then awaits room elsewhere, and drops `release` once there was some.
async fn await_room(pool: &AsyncPool, release: mpsc::Sender<()>) -> tokio::task::JoinHandle<()> {
    while pool.snapshot().queued < PLACES as u64 {
        pool.spawn(async {}).await.unwrap();
    }
    let own = pool.clone();
    let awaits = tokio::spawn(async move {
        own.spawn(async {}).await.unwrap();
        drop(release);
    });
    while pool.snapshot().waiting_submitters == 0 {
        tokio::task::yield_now().await;
    }
    awaits
}

const RELEASED: Result<(), mpsc::RecvTimeoutError> = Err(mpsc::RecvTimeoutError::Disconnected);

/// A cancel tells of room at once, and from inside a poll.
#[test]
fn who_is_told_of_room_by_a_cancel_does_not_wait_behind_the_next_task() {
    let [_, (_, runtime)] = runtimes();
    for _ in 0..20 {
        let awaits = async {
            let (pool, go) = busy_with_large_queue().await;
            let (victim, to_cancel) = mpsc::channel::<tidegate::Handle<()>>();
            pool.spawn(async move { _ = to_cancel.recv().unwrap().cancel() }).await.unwrap();
            let (release, blocked) = mpsc::channel::<()>();
            let long = pool.submit(async move { blocked.recv_timeout(LONG) }).await.unwrap();
            victim.send(pool.submit(async {}).await.unwrap()).unwrap();
            let awaits_room = await_room(&pool, release).await;
            go.send(()).unwrap();
            assert_eq!(long.await.unwrap(), RELEASED, "there was room before that gave up");
            awaits_room.await.unwrap();
            pool.shutdown(Shutdown::default()).await.unwrap();
        };
        runtime.block_on(runtime.spawn(awaits)).unwrap();
    }
}

/// So does a task that begins a queued one on top of itself.
#[test]
fn who_is_told_of_room_by_an_await_does_not_wait_behind_what_that_begins() {
    let [_, (_, runtime)] = runtimes();
    for _ in 0..20 {
        let awaits = async {
            let (pool, go) = busy_with_large_queue().await;
            let (child, to_await) = mpsc::channel::<tidegate::Handle<_>>();
            let parent = async move { to_await.recv().unwrap().await.unwrap() };
            let parent = pool.submit(parent).await.unwrap();
            let (release, blocked) = mpsc::channel::<()>();
            child
                .send(pool.submit(async move { blocked.recv_timeout(LONG) }).await.unwrap())
                .unwrap();
            let awaits_room = await_room(&pool, release).await;
            go.send(()).unwrap();
            assert_eq!(parent.await.unwrap(), RELEASED, "there was room before that gave up");
            awaits_room.await.unwrap();
            pool.shutdown(Shutdown::default()).await.unwrap();
        };
        runtime.block_on(runtime.spawn(awaits)).unwrap();
    }
}

/// The runtime is there and nobody drives it: the one thread that could is in here.
#[test]
fn s1_hard_gives_up_what_its_runtime_does_not_come_to_before_it_reports() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (pool, task) = runtime.block_on(async {
        let builder = quiet("undriven").workers(2).queue(10).grace(Duration::from_millis(100));
        let pool = builder.build_async().unwrap();
        let task = pool.task("waits").submit(|_| pending::<()>()).await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        (pool, task)
    });
    let report = pool.shutdown_blocking(Shutdown::hard()).unwrap();
    assert_eq!(report.abandoned, 1, "{report}");
    let listed: Vec<_> = report.still_running.iter().map(|task| task.name).collect();
    assert_eq!(listed, ["waits"]);
    assert!(!report.complete);
    assert!(task.is_settled(), "a report is out, and a task has no outcome");
    assert!(matches!(task.wait(), Err(WaitError::Task(TaskError::Abandoned(_)))));
    pool.snapshot().check().unwrap();
}

/// What it wakes is what its thread does next, and no other thread takes it from there; those who
/// submit meanwhile find somebody woken, and wake nobody.
#[test]
fn r7_a_task_does_not_wait_for_a_worker_that_was_woken_by_a_future_which_computes() {
    let [_, (_, runtime)] = runtimes();
    let pool = quiet("computes").workers(4).build_async_on(runtime.handle()).unwrap();
    for _ in 0..20 {
        wait_until(|| pool.roster().iter().all(|worker| worker.state == WorkerState::Idle));
        let (release, blocked) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let own = pool.clone();
        let computes = runtime.spawn(async move {
            own.try_spawn(async {}).unwrap();
            begins.send(()).unwrap();
            let _ = blocked.recv(); // as if it computed
        });
        begun.recv().unwrap();
        let mut task = pool.try_submit(async { 7 }).unwrap();
        let ended = task.wait_timeout(LONG).expect("there is another thread, and a worker");
        assert_eq!(ended.unwrap(), 7);
        drop(release);
        runtime.block_on(computes).unwrap();
    }
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

//! A runtime that ends under its pool: everything settles and nobody hangs.
//!
//! Those who wait are on no runtime at all, the grace is endless, and the clock of the pool has
//! stopped with its runtime: no timer can release them.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate::{
    AsyncGroup, AsyncPool, Budget, Builder, Handle, Inside, Permit, Refused, Report, Shutdown,
    TaskError, Token, WaitError,
};
use tokio::runtime::Runtime;

use crate::kit::*;
use crate::sleeper::Sleeper;

/// Two tasks that run and five that are queued: there is no more room, and none of them ends.
struct Torn {
    pool: AsyncPool,
    runtime: Runtime,
    drops: Drops,
    tasks: Vec<Handle<()>>,
    group: AsyncGroup<()>,
    budget: Budget,
    _taken: Permit,
    waiters: Vec<(&'static str, Waiter)>,
}

enum Waiter {
    Future(Sleeper<Pin<Box<dyn Future<Output = String>>>>),
    Thread(JoinHandle<String>),
}

impl Torn {
    fn new(runtime: Runtime) -> Torn {
        let builder = quiet("torn").workers(2).queue(5).grace(Duration::MAX);
        let pool = builder.build_async_on(runtime.handle()).unwrap();
        let budget = Budget::new("one", 1);
        let taken = budget.try_acquire(1).unwrap();
        let (group, drops) = (pool.group().start(), Drops::default());
        let (tasks, waiters) = (Vec::new(), Vec::new());
        let mut torn = Torn { pool, runtime, drops, tasks, group, budget, _taken: taken, waiters };
        for running in 1..=2 {
            torn.tasks.push(torn.pool.try_submit(torn.endless()).unwrap());
            torn.runtime.block_on(async {
                while torn.pool.snapshot().running < running {
                    tokio::task::yield_now().await;
                }
            });
        }
        for _ in 0..4 {
            torn.tasks.push(torn.pool.try_submit(torn.endless()).unwrap());
        }
        let member = torn.endless();
        let member = async {
            member.await;
            Ok(())
        };
        torn.group.try_submit(member).unwrap();
        torn
    }

    /// Counted when it is dropped, wherever that is.
    fn endless(&self) -> impl Future<Output = ()> + Send + use<> {
        let counted = self.drops.clone();
        async move {
            let _counted = counted;
            pending::<()>().await;
        }
    }

    fn awaits(&mut self, what: &'static str, future: impl Future<Output = String> + 'static) {
        let mut sleeper = Sleeper::new(Box::pin(future) as Pin<Box<dyn Future<Output = _>>>);
        assert!(sleeper.poll().is_pending(), "{what} did not wait");
        self.waiters.push((what, Waiter::Future(sleeper)));
    }

    fn blocks(&mut self, what: &'static str, wait: impl FnOnce() -> String + Send + 'static) {
        self.waiters.push((what, Waiter::Thread(thread::spawn(wait))));
    }

    /// Whatever does not need an open door.
    fn all_wait_for_the_end(&mut self) {
        let (own, group) = (self.pool.clone(), self.group.clone());
        self.awaits("idle", async move { format!("{:?}", own.wait_idle().await) });
        self.awaits("group", async move { format!("{:?}", group.wait().await) });
        let (running, queued) = (self.tasks.remove(0), self.tasks.pop().unwrap());
        self.awaits("running task", async move { of_task(running.await) });
        self.awaits("queued task", async move { of_task(queued.await) });
        let (running, queued) = (self.tasks.remove(0), self.tasks.pop().unwrap());
        self.blocks("running task", move || of_wait(running.wait()));
        self.blocks("queued task", move || of_wait(queued.wait()));
    }

    fn all_wait_for_room_or_permits(&mut self) {
        let (own, work) = (self.pool.clone(), self.endless());
        self.awaits("room", async move { of_submit(own.submit(work).await) });
        let (own, work) = (self.pool.clone(), self.endless());
        self.blocks("room", move || of_submit(own.submit_blocking(work)));
        let (own, work, budget) = (self.pool.clone(), self.endless(), self.budget.clone());
        self.awaits("permit", async move {
            of_submit(own.task("b").budget(&budget, 1).submit(|_| work).await)
        });
        let (own, work, budget) = (self.pool.clone(), self.endless(), self.budget.clone());
        self.blocks("permit", move || {
            of_submit(own.task("b").budget(&budget, 1).submit_blocking(|_| work))
        });
        while self.pool.snapshot().waiting_submitters < 4 {
            thread::yield_now();
        }
    }

    fn all_wait_for_the_shutdown(&mut self) {
        let light = self.pool.shutdown(Shutdown::light());
        self.awaits("shutdown", async move { lost(&light.await.unwrap()) });
        let own = self.pool.clone();
        self.blocks("shutdown", move || lost(&own.shutdown_blocking(Shutdown::light()).unwrap()));
    }

    /// The runtime goes; what each of them was told.
    fn tear(self) -> (AsyncPool, Drops, Vec<(&'static str, String)>) {
        self.runtime.shutdown_timeout(LONG);
        let released = self.waiters.into_iter().map(|(what, waiter)| (what, end(what, waiter)));
        let released = released.collect();
        for task in self.tasks {
            assert_eq!(of_wait(task.wait()), "cancelled");
        }
        assert_eq!(self.group.unsettled(), 0, "a slot is lost");
        assert_eq!((self.budget.waiting(), self.budget.in_use()), (0, 1), "ours is left");
        (self.pool, self.drops, released)
    }
}

fn end(what: &str, waiter: Waiter) -> String {
    let deadline = Instant::now() + LONG;
    match waiter {
        Waiter::Future(mut future) => loop {
            if let Poll::Ready(told) = future.poll_if_woken() {
                return told;
            }
            assert!(Instant::now() < deadline, "the future that waits for {what} is not woken");
            thread::yield_now();
        },
        Waiter::Thread(thread) => {
            while !thread.is_finished() {
                assert!(Instant::now() < deadline, "the thread that waits for {what} hangs");
                thread::yield_now();
            }
            thread.join().unwrap()
        }
    }
}

fn of_task(outcome: Result<(), TaskError>) -> String {
    match outcome {
        Err(TaskError::Cancelled { .. }) => "cancelled".to_owned(),
        other => format!("{other:?}"),
    }
}

fn of_wait(outcome: Result<(), WaitError<()>>) -> String {
    match outcome {
        Err(WaitError::Task(error)) => of_task(Err(error)),
        other => format!("{other:?}"),
    }
}

/// Nobody asked for Hard, so what was left is lost; and nothing is left.
fn lost(report: &Report) -> String {
    let gone = report.still_running.is_empty() && report.abandoned_workers == 0;
    match gone && report.workers_lost && !report.is_success() {
        true => "lost".to_owned(),
        false => report.to_string(),
    }
}

/// Its work is given back, and dropped here.
fn of_submit<F>(submitted: Result<Handle<()>, Refused<F>>) -> String {
    submitted.map_or_else(|refused| format!("{:?}", refused.reason()), |_| "accepted".to_owned())
}

#[test]
fn hazard_69_a_runtime_that_shuts_down_under_the_pool() {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        let mut torn = Torn::new(runtime);
        torn.all_wait_for_the_end();
        torn.all_wait_for_room_or_permits();
        let (pool, drops, released) = torn.tear();
        println!("{released:?}");
        for (what, told) in released {
            let expected = match what {
                "idle" => "Ok(())",
                "group" => "Err",
                "room" | "permit" => "Closed",
                _ => "cancelled",
            };
            assert!(told.starts_with(expected), "{what}: {told}");
        }
        let report = pool.shutdown_blocking(Shutdown::default()).unwrap();
        println!("{report}");
        let now = pool.snapshot();
        now.check().unwrap();
        assert_eq!((now.cancelled, now.waiting_submitters), (7, 0));
        assert_eq!(drops.0.load(SeqCst), 7 + 4, "each was dropped once");
        assert_eq!(Arc::strong_count(&drops.0), 1);
    }
}

#[test]
fn hazard_69_a_runtime_that_shuts_down_under_a_shutdown() {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        let mut torn = Torn::new(runtime);
        torn.all_wait_for_the_end();
        torn.all_wait_for_the_shutdown();
        let (pool, drops, released) = torn.tear();
        println!("{released:?}");
        pool.snapshot().check().unwrap();
        assert_eq!(pool.snapshot().cancelled, 7);
        assert_eq!(drops.0.load(SeqCst), 7, "each was dropped once");
        let told = |whom| released.iter().filter(move |(what, _)| *what == whom).map(|(_, t)| &**t);
        assert_eq!(told("shutdown").collect::<Vec<_>>(), ["lost", "lost"], "and nothing is left");
        assert_eq!(told("idle").collect::<Vec<_>>(), ["Ok(())"]);
    }
}

/// Whoever leaves last rings, also while the watch is just looking.
#[test]
fn hazard_69_a_shutdown_ends_with_the_runtime_and_not_with_the_grace() {
    for n in 0..100 {
        let runtime = runtimes().into_iter().nth(n % 2).unwrap().1;
        let builder = quiet("ends").workers(2).grace(Duration::MAX);
        let pool = builder.build_async_on(runtime.handle()).unwrap();
        runtime.block_on(async { pool.spawn(pending()).await.unwrap() });
        let (tell, over) = std::sync::mpsc::channel();
        let closed = pool.closed();
        std::thread::spawn(move || {
            let report = pool.shutdown_blocking(Shutdown::light()).unwrap();
            tell.send(lost(&report)).unwrap();
        });
        closed.wait();
        drop(runtime);
        assert_eq!(over.recv_timeout(LONG), Ok("lost".to_owned()), "round {n}");
    }
}

/// Counts the threads that a pool starts for itself.
#[derive(Default)]
struct Threads(Arc<AtomicUsize>);

impl Threads {
    fn counted(&self, builder: Builder) -> Builder {
        let count = Arc::clone(&self.0);
        builder.spawner(move |thread, body| {
            count.fetch_add(1, SeqCst);
            thread.spawn(body)
        })
    }

    /// It ends, by a few threads: who does chores makes no new ones for ever.
    fn end(self, pool: &AsyncPool, completed: u64) {
        let report = pool.shutdown_blocking(Shutdown::default()).unwrap();
        assert_eq!(lost(&report), "lost");
        let now = pool.snapshot();
        now.check().unwrap();
        assert_eq!((now.completed, now.cancelled), (completed, 2), "{now}");
        let threads = self.0.load(SeqCst);
        assert!(threads < 20, "{threads} threads were started");
    }
}

/// Cancels as the runtime drops it: there is something to do, and nobody left to do it.
struct CancelsWhenDropped(Token);
impl Drop for CancelsWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What a token cancels in the queue is cleared away by a task of the runtime, which is dropped
/// before or after whoever asks for it.
fn cancelled_by_the_end(runtime: Runtime, pool_first: bool) {
    let token = Token::new();
    let cancels = CancelsWhenDropped(token.clone());
    let parked = async move {
        let _cancels = cancels;
        pending::<()>().await;
    };
    let threads = Threads::default();
    let builder = threads.counted(quiet("chores").workers(1).queue(5));
    let (pool, queued) = runtime.block_on(async {
        let pool = if pool_first {
            let pool = builder.build_async().unwrap();
            tokio::spawn(parked);
            pool
        } else {
            tokio::spawn(parked);
            builder.build_async().unwrap()
        };
        pool.spawn(pending()).await.unwrap();
        let queued = pool.task("queued").cancel_with(&token).submit(|_| async {});
        let queued = queued.await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        (pool, queued)
    });
    runtime.shutdown_timeout(LONG);
    assert_eq!(of_wait(queued.wait()), "cancelled");
    threads.end(&pool, 0);
}

/// The worker goes with one task on top of another, and one that was given up at its turn.
fn torn_with_one_on_top(runtime: Runtime) {
    let builder = quiet("on-top").workers(1).queue(1).when_full_inside(Inside::RunInline);
    let threads = Threads::default();
    let pool = threads.counted(builder).build_async_on(runtime.handle()).unwrap();
    let own = pool.clone();
    let task = pool.try_submit(async move {
        own.spawn(async {}).await.unwrap(); // the queue is full
        own.spawn(pending()).await.unwrap(); // and this is on top
        let mut at_its_turn = Box::pin(own.submit(async {}));
        assert!(poll_once(at_its_turn.as_mut()).is_pending());
    });
    runtime.block_on(task.unwrap()).unwrap();
    runtime.shutdown_timeout(LONG);
    threads.end(&pool, 1);
}

#[test]
fn hazard_69_a_runtime_that_shuts_down_with_chores_in_flight() {
    for n in 0..50 {
        for (_, runtime) in runtimes() {
            cancelled_by_the_end(runtime, n % 2 == 0);
        }
        for (_, runtime) in runtimes() {
            torn_with_one_on_top(runtime);
        }
    }
}

/// The first worker is there by then, and may need the thread that builds.
#[test]
fn w2_a_pool_whose_watch_can_not_be_started_is_an_error() {
    on_each(|| async {
        let no_thread = |_, _| Err(std::io::ErrorKind::WouldBlock.into());
        let built = quiet("unwatched").workers(2).spawner(no_thread).build_async();
        assert!(built.is_err());
    });
}

// ---------------------------------------------------------------- threads that end

thread_local! {
    static KEPT: std::cell::RefCell<Vec<Box<dyn std::any::Any>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

/// What a thread keeps is dropped after tokio's own thread-locals, or before: as they were made.
fn a_thread_ends_with(keep: fn(AsyncPool, tidegate::CancelOnDrop<()>) -> Box<dyn std::any::Any>) {
    for is_made_first in [true, false] {
        let runtime = runtimes().into_iter().next().unwrap().1;
        let runtime = Arc::new(runtime);
        let (own, drops) = (Arc::clone(&runtime), Drops::default());
        let counted = drops.clone();
        let thread = thread::spawn(move || {
            if is_made_first {
                KEPT.with(|kept| kept.borrow_mut().clear());
            }
            let (pool, task) = own.block_on(async {
                let pool = quiet("kept").workers(1).queue(10).build_async().unwrap();
                let task = async move {
                    let _counted = counted;
                    pending().await
                };
                let task = pool.submit(task).await.unwrap().cancel_on_drop();
                while pool.snapshot().running == 0 {
                    tokio::task::yield_now().await;
                }
                (pool, task)
            });
            KEPT.with(|kept| kept.borrow_mut().push(keep(pool, task)));
        });
        thread.join().unwrap();
        drop(runtime);
        let began = Instant::now();
        while drops.0.load(SeqCst) == 0 {
            assert!(began.elapsed() < LONG, "its task is still there");
            thread::yield_now();
        }
    }
}

#[test]
fn a_pool_is_dropped_by_the_end_of_its_thread() {
    a_thread_ends_with(|pool, task| Box::new((pool, task.into_handle())));
}

#[test]
fn a_task_is_cancelled_by_the_end_of_its_thread() {
    a_thread_ends_with(|pool, task| Box::new((task, pool)));
}

// ---------------------------------------------------------------- panics of our own

/// Nothing of ours panics; if something does, that is not taken for the end of the runtime.
#[test]
fn a_panic_in_a_worker_costs_that_worker_and_not_the_pool() {
    static PANICS: AtomicUsize = AtomicUsize::new(1);
    fn blocking(code: &mut dyn FnMut()) {
        code();
        assert!(PANICS.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err(), "stray");
    }
    let [_, (_, runtime)] = runtimes();
    let builder = quiet("stray").workers(1).restart_backoff(Duration::ZERO..=Duration::ZERO);
    let pool = builder.on_runtime(runtime.handle(), Some(blocking)).build().unwrap();
    for number in 0..3 {
        assert_eq!(pool.submit(move || number).unwrap().wait().unwrap(), number);
    }
    let now = pool.snapshot();
    assert_eq!((PANICS.load(SeqCst), now.worker_restarts), (0, 1), "{now}");
    now.check().unwrap();
    let report = pool.shutdown(Shutdown::light()).unwrap();
    assert!(report.is_success(), "{report}");
}

//! How a future of a pool is stopped: where it is dropped, and when.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::Poll;
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate::{AsyncPool, Cx, Handle, Shutdown, StopWorker, TaskError, Token};
use tokio::task::{Id, try_id};

use crate::kit::*;

type Place = (Option<Id>, ThreadId);

fn here() -> Place {
    (try_id(), thread::current().id())
}

/// Where a future was polled, and where it was dropped.
#[derive(Clone, Default)]
struct Places {
    polled: Arc<OnceLock<Place>>,
    dropped: Arc<OnceLock<Place>>,
}

struct SaysWhere(Places);

impl Drop for SaysWhere {
    fn drop(&mut self) {
        self.0.dropped.set(here()).expect("dropped once");
    }
}

impl Places {
    fn endless(&self) -> impl Future<Output = ()> + Send + use<> {
        let places = self.clone();
        async move {
            let places = SaysWhere(places);
            places.0.polled.set(here()).expect("begun once");
            pending::<()>().await;
        }
    }

    async fn until_polled(&self) {
        while self.polled.get().is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// It is a task of tokio's, and the same one. A task may move to another thread.
    fn check(&self, how: &str, one_thread: bool) {
        let (polled, dropped) = (self.polled.get().unwrap(), self.dropped.get().unwrap());
        assert!(polled.0.is_some(), "{how}: it was polled outside of the runtime");
        assert_eq!(polled.0, dropped.0, "{how}: it was dropped by another than its worker");
        assert!(!one_thread || polled.1 == dropped.1, "{how}: on another thread");
    }
}

/// Whoever cancels is another task, or a thread that is none of the runtime's.
#[test]
fn what_a_stopped_future_drops_is_dropped_by_its_worker() {
    for (flavour, runtime) in runtimes() {
        let one_thread = flavour == "current-thread";
        let begin = async |pool: &AsyncPool, limit: Duration| {
            let places = Places::default();
            let future = places.endless();
            let task = pool.task("t").timeout(limit).submit(|_| future).await.unwrap();
            places.until_polled().await;
            (places, task)
        };
        runtime.block_on(async {
            let pool = quiet("places").workers(2).build_async().unwrap();
            let (places, task) = begin(&pool, Duration::MAX).await;
            task.cancel();
            assert!(task.await.unwrap_err().is_cancelled());
            places.check("cancelled by a task", one_thread);

            let (places, task) = begin(&pool, Duration::MAX).await;
            let task = thread::spawn(move || {
                task.cancel();
                task
            });
            let task = tokio::task::spawn_blocking(|| task.join().unwrap()).await.unwrap();
            assert!(task.await.unwrap_err().is_cancelled());
            places.check("cancelled by a thread", one_thread);

            let (places, task) = begin(&pool, Duration::from_millis(1)).await;
            assert!(matches!(task.await, Err(TaskError::TimedOut { .. })));
            places.check("timed out", one_thread);

            let (places, task) = begin(&pool, Duration::MAX).await;
            pool.shutdown(Shutdown::hard()).await.unwrap();
            assert!(task.await.unwrap_err().is_cancelled());
            places.check("shut down", one_thread);
        });
    }
}

/// Polls of a future that stops itself in its first, which wakes it again whatever it awaits.
struct SelfStop {
    polls: Arc<Mutex<u32>>,
}

impl SelfStop {
    fn new() -> SelfStop {
        SelfStop { polls: Arc::default() }
    }

    fn future<S: FnOnce() + Send>(&self, stop: S) -> impl Future<Output = ()> + Send + use<S> {
        let (polls, mut stop) = (Arc::clone(&self.polls), Some(stop));
        poll_fn(move |cx| {
            *polls.lock().unwrap() += 1;
            if let Some(stop) = stop.take() {
                stop();
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    fn check(&self, how: &str) {
        assert_eq!(*self.polls.lock().unwrap(), 1, "{how}: it went on after its first await");
    }
}

#[test]
fn a_parent_stops_a_future_whose_token_was_dropped() {
    on_each(|| async {
        let pool = quiet("orphans").workers(1).build_async().unwrap();
        for depth in 1..4 {
            let parent = Token::new();
            let child = || (0..depth).fold(parent.clone(), |token, _| token.child());
            let places = Places::default();
            let future = places.endless();
            let running = pool.task("t").cancel_with(&child()).submit(|_| future).await.unwrap();
            places.until_polled().await;
            let queued = pool.task("t").cancel_with(&child()).submit(|_| async {}).await.unwrap();
            parent.cancel();
            assert!(running.await.unwrap_err().is_cancelled());
            assert!(queued.await.unwrap_err().is_cancelled());
        }
    });
}

/// A worker of the other flavour may begin it before whoever offers it has come to its token.
#[test]
fn a_future_that_cancels_its_token_in_its_first_poll_ends_at_its_first_await() {
    on_each(|| async {
        let pool = quiet("itself").workers(1).build_async().unwrap();
        for _ in 0..10_000 {
            let (stops, token) = (SelfStop::new(), Token::new());
            let own = token.clone();
            let future = stops.future(move || own.cancel());
            let task = pool.task("t").cancel_with(&token).submit(|_| future).await.unwrap();
            assert!(task.await.unwrap_err().is_cancelled());
            stops.check("by its token");
        }
        pool.snapshot().check().unwrap();
    });
}

#[test]
fn a_future_that_cancels_itself_in_its_first_poll_ends_at_its_first_await() {
    on_each(|| async {
        let pool = quiet("itself").workers(1).build_async().unwrap();
        // It finds its handle when it begins.
        pool.pause();
        let stops = SelfStop::new();
        let handle: Arc<Mutex<Option<Handle<()>>>> = Arc::default();
        let own = Arc::clone(&handle);
        let future = stops.future(move || assert!(own.lock().unwrap().as_ref().unwrap().cancel()));
        *handle.lock().unwrap() = Some(pool.try_submit(future).unwrap());
        pool.resume();
        pool.wait_idle().await.unwrap();
        stops.check("by its handle");

        let stops = SelfStop::new();
        let group = pool.group().start::<()>();
        let own = group.token().clone();
        let future = stops.future(move || own.cancel());
        let member = async {
            future.await;
            Ok(())
        };
        group.submit(member).await.unwrap();
        group.wait().await.unwrap(); // who cancels it knows
        stops.check("by its group");
        pool.snapshot().check().unwrap();
    });
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future whose first poll goes on until it was told to stop. Nobody wakes it after that: the
/// stop itself must.
struct Deaf {
    polls: Arc<Mutex<u32>>,
    drops: Drops,
    begins: mpsc::Sender<()>,
}

impl Deaf {
    fn new() -> (Deaf, mpsc::Receiver<()>) {
        let (begins, begun) = mpsc::channel();
        (Deaf { polls: Arc::default(), drops: Drops::default(), begins }, begun)
    }

    /// `waits`: until it was told; else whoever stops it may come before or after its end.
    fn begins_with(&self, waits: bool) -> impl FnOnce(Cx) -> Boxed + Send + use<> {
        let (polls, counted) = (Arc::clone(&self.polls), self.drops.clone());
        let begins = self.begins.clone();
        move |cx| {
            Box::pin(poll_fn(move |_| {
                let _counted = &counted;
                *polls.lock().unwrap() += 1;
                begins.send(()).unwrap();
                while waits && !cx.stopping() {
                    thread::yield_now();
                }
                Poll::Pending
            }))
        }
    }

    fn check(&self, how: &str) {
        assert_eq!(*self.polls.lock().unwrap(), 1, "{how}: it went on after it was told");
        assert_eq!(self.drops.0.load(SeqCst), 1, "{how}: it is still there");
    }
}

/// Then it is in no nest yet, and its cell does not say who polls it.
#[test]
fn a_stop_in_the_first_poll_of_a_future_is_heard_at_its_end() {
    for (flavour, runtime) in runtimes() {
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let driver = thread::spawn(move || runtime.block_on(stopped));
        let own = quiet("first").workers(1).grace(LONG).build_async_on(&handle).unwrap();
        for how in ["cancel", "token", "timeout", "worker", "hard"] {
            println!("{flavour}: {how}");
            let ((deaf, begun), token) = (Deaf::new(), Token::new());
            let limit = if how == "timeout" { Duration::from_millis(5) } else { LONG };
            let task = own.task(how).cancel_with(&token).timeout(limit);
            let (future, twin) = (deaf.begins_with(true), own.clone());
            let task = task.submit_blocking(future).unwrap();
            begun.recv().unwrap();
            let shutdown = match how {
                "cancel" => {
                    assert!(task.cancel());
                    None
                }
                "token" => {
                    token.cancel();
                    None
                }
                "hard" => Some(thread::spawn(move || twin.shutdown_blocking(Shutdown::hard()))),
                "worker" => {
                    let worker = own.snapshot().roster[0].id;
                    own.recycle_worker(worker, StopWorker::Hard).unwrap();
                    None
                }
                _ => None,
            };
            let ended = task.wait().unwrap_err();
            deaf.check(how);
            assert_eq!(ended.to_string().contains("time"), how == "timeout", "{ended}");
            if let Some(shutdown) = shutdown {
                shutdown.join().unwrap().unwrap();
            }
        }
        assert_eq!(own.snapshot().abandoned, 0);
        drop(stop);
        let _ = driver.join().unwrap();
    }
}

/// Neither by its first poll nor by what comes after is the stop overheard.
#[test]
fn a_stop_at_the_end_of_the_first_poll_of_a_future_is_heard() {
    let [_, (_, runtime)] = runtimes();
    let pool = quiet("end").workers(2).grace(LONG).build_async_on(runtime.handle()).unwrap();
    // Not the first worker, which a cell that says nothing would name.
    let other = pool.submit_blocking(pending::<()>()).unwrap();
    while pool.snapshot().running == 0 {
        thread::yield_now();
    }
    for _ in 0..5_000 {
        let (deaf, begun) = Deaf::new();
        let mut task = pool.task("t").submit_blocking(deaf.begins_with(false)).unwrap();
        begun.recv().unwrap();
        task.cancel();
        match task.wait_timeout(LONG) {
            Some(Err(ended)) => assert!(ended.is_cancelled(), "{ended}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(deaf.drops.0.load(SeqCst), 1, "it is still there");
    }
    other.cancel();
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

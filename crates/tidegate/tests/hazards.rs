//! Known ways to fail that the conformance suite can't reach through its port: the
//! process, the scheduler, auto traits, and a few races. Numbers as in `docs/testing.md`.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tidegate::{Pool, PoolState, Reason, Report, Shutdown, StopWorker, Token};

/// What takes longer than this will not come any more.
const HANG: Duration = Duration::from_secs(30);

/// Polls `fact` until it holds; panics with `what` if it never does.
fn eventually(what: &str, mut fact: impl FnMut() -> bool) {
    let (_never, pause) = mpsc::channel::<()>();
    for _ in 0..HANG.as_millis() {
        if fact() {
            return;
        }
        let _ = pause.recv_timeout(Duration::from_millis(1));
    }
    panic!("never happened: {what}");
}

/// Keeps every worker of `pool` busy until the sender goes.
fn occupy(pool: &Pool, workers: usize) -> Sender<()> {
    let (open, opened) = mpsc::channel();
    let opened = Arc::new(std::sync::Mutex::new(opened));
    let inside = Arc::new(Barrier::new(workers + 1));
    for _ in 0..workers {
        let (opened, inside) = (Arc::clone(&opened), Arc::clone(&inside));
        pool.spawn(move || {
            inside.wait();
            let _: Result<(), _> = opened.lock().expect("nobody panics").recv();
        })
        .expect("there is room");
    }
    inside.wait();
    open
}

fn quiet_waker() -> Waker {
    struct Quiet;
    impl Wake for Quiet {
        fn wake(self: Arc<Self>) {}
    }
    Arc::new(Quiet).into()
}

/// A child made by `fork` has the memory of the pool and none of its threads.
#[cfg(target_os = "linux")]
#[test]
fn hazard_25_a_forked_child_is_told() {
    use tidegate::ShutdownError::Forked;
    let pool = Pool::builder("forked").workers(1).build().unwrap();
    // SAFETY: the child calls nothing that allocates or locks before `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let told = matches!(pool.wait_idle(), Err(Forked))
            && matches!(pool.shutdown(Shutdown::hard()), Err(Forked));
        // SAFETY: ends the child without running destructors or `atexit` handlers.
        unsafe { libc::_exit(if told { 0 } else { 1 }) };
    }
    assert!(child > 0, "fork failed");
    let mut status = 0;
    // SAFETY: waits for our own child; `status` is a live int.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child hung, crashed or was not told");
    assert!(pool.shutdown(Shutdown::default()).unwrap().is_success(), "the parent is unharmed");
}

/// What Linux says about the threads of one pool: `read` of that file of each.
#[cfg(target_os = "linux")]
fn per_thread(pool: &str, file: &str, read: impl Fn(&str) -> u64) -> Vec<u64> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten() {
        let text = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if text("comm").starts_with(pool) {
            found.push(read(&text(file)));
        }
    }
    found
}

#[cfg(target_os = "linux")]
#[test]
fn hazard_32_an_idle_pool_sleeps() {
    let pool = Pool::builder("hazard32").workers(8).build().unwrap();
    let first = |text: &str| text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let by_thread = || per_thread("hazard32", "schedstat", first);
    let cpu = || by_thread().iter().sum::<u64>();
    eventually("all workers idle", || pool.snapshot().idle_workers == 8);
    // A thread has its name once it has begun to run.
    eventually("eight workers and a supervisor", || by_thread().len() == 9);
    let at_first = cpu();
    let mut rounds = 0_u64;
    pool.submit(move || (0..3_000_000).for_each(|n| rounds = std::hint::black_box(rounds ^ n)))
        .unwrap()
        .wait()
        .unwrap();
    eventually("the instrument shows work", || cpu() > at_first + 500_000);
    // The best of three: the search before the sleep falls into the first.
    let mut used = Duration::MAX;
    for _ in 0..3 {
        let before = cpu();
        thread::park_timeout(Duration::from_millis(200));
        used = used.min(Duration::from_nanos(cpu() - before));
    }
    println!("eight idle workers used {used:?} of CPU in 200 ms");
    assert!(used < Duration::from_millis(20), "idle workers used {used:?} in 200 ms");
    pool.shutdown(Shutdown::default()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn hazard_35_one_task_wakes_no_stampede() {
    const WORKERS: usize = 64;
    let pool = Pool::builder("hazard35").workers(WORKERS).build().unwrap();
    let switches = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.and_then(|line| line.split('\t').nth(1)?.parse().ok()).unwrap_or(0)
    };
    // A thread that slept and slept again has moved. Seen at rest: twice the same.
    let at_rest = || {
        let mut seen = Vec::new();
        eventually("nobody moves any more", || {
            thread::park_timeout(Duration::from_millis(5));
            let then = std::mem::replace(&mut seen, per_thread("hazard35", "status", switches));
            then == seen
        });
        seen
    };
    eventually("all workers idle", || pool.snapshot().idle_workers == WORKERS as u64);
    let before = at_rest();
    assert_eq!(before.len(), WORKERS + 1, "the workers and a supervisor");
    pool.submit(|| ()).unwrap().wait().unwrap();
    let mut woken = 0;
    eventually("the worker that ran it sleeps again", || {
        woken = at_rest().iter().zip(&before).filter(|(now, then)| now != then).count();
        woken > 0
    });
    println!("one task moved {woken} of {WORKERS} workers");
    assert!(woken <= WORKERS / 4, "one task woke {woken} of {WORKERS} workers");
    pool.shutdown(Shutdown::default()).unwrap();
}

/// The part of 68 that exists without async pools: a shutdown, a wait or a stream that is
/// polled and then dropped.
#[test]
fn hazard_68_dropped_futures_leave_nothing_behind() {
    let pool = Pool::builder("dropped").workers(1).queue(1).build().unwrap();
    let open = occupy(&pool, 1);
    let waker = quiet_waker();
    let cx = &mut Context::from_waker(&waker);
    let mut polled = pool.submit(|| ()).unwrap();
    assert!(std::pin::Pin::new(&mut polled).poll(cx).is_pending());
    drop(polled);
    assert_eq!(pool.try_spawn(|| ()).unwrap_err().reason(), Reason::Full, "it detached only");

    let mut ending = Box::pin(pool.shutdown_async(Shutdown::light()));
    assert!(ending.as_mut().poll(cx).is_pending());
    drop(ending);
    assert_eq!(pool.state(), PoolState::Closing(tidegate::Mode::Light), "it goes on");
    drop(open);
    let report = pool.shutdown(Shutdown::default()).unwrap();
    assert!(report.is_success(), "{report}");
    assert_eq!(pool.snapshot().completed, 2, "the detached task ran");
}

/// Compiles only if `T` is not `Send`: otherwise two impls fit.
macro_rules! assert_not_send {
    ($t:ty) => {{
        trait AmbiguousIfSend<A> {
            fn here() {}
        }
        impl<T: ?Sized> AmbiguousIfSend<()> for T {}
        impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}
        <$t as AmbiguousIfSend<_>>::here();
    }};
}

#[test]
fn hazard_76_auto_traits_are_as_stated() {
    use std::cell::Cell;
    use std::rc::Rc;
    use tidegate::*;
    fn shared<T: Send + Sync + 'static>() {}
    fn unpin<T: Unpin>() {}
    shared::<Pool>();
    // A state stays on its worker, so it need not be `Send` for the pool to travel.
    shared::<Pool<Rc<u8>>>();
    shared::<Handle<Cell<u8>, Cell<u8>>>();
    shared::<CancelOnDrop<u8>>();
    shared::<WaitError<Cell<u8>, u8>>();
    shared::<Token>();
    shared::<ShutdownFuture>();
    shared::<Report>();
    shared::<Snapshot>();
    shared::<Summary>();
    shared::<Unobserved>();
    shared::<BuildError>();
    shared::<SettingError>();
    shared::<Settings>();
    shared::<Panic>();
    shared::<Refused<Cell<u8>>>();
    #[cfg(feature = "prometheus")]
    shared::<(Exporter, NameTaken)>();
    shared::<Completions<Cell<u8>, u8>>();
    unpin::<Handle<std::marker::PhantomPinned>>();
    unpin::<CancelOnDrop<u8>>();
    assert_not_send!(Handle<Rc<u8>>);
    assert_not_send!(Handle<u8, Rc<u8>>);
    assert_not_send!(Refused<Rc<u8>>);
    assert_not_send!(Completions<Rc<u8>, u8>);
}

/// The first in line goes away: whoever is next must get the room, not wait for it in vain.
#[test]
fn hazard_79_a_submitter_that_gives_up_passes_the_turn_on() {
    for _ in 0..50 {
        let pool = Pool::builder("turn").workers(1).queue(1).build().unwrap();
        let open = occupy(&pool, 1);
        pool.spawn(|| ()).expect("the one place");
        let token = Token::new();
        let waits = |token: Option<Token>| {
            let pool = pool.clone();
            let (tell, told) = mpsc::channel();
            thread::spawn(move || {
                let token = token.unwrap_or_default();
                let offered = pool.task("waits").cancel_with(&token).spawn(|_| ());
                let _ = tell.send(offered.map_err(|refused| refused.reason()));
            });
            told
        };
        let first = waits(Some(token.clone()));
        eventually("the first waits", || pool.snapshot().waiting_submitters == 1);
        let second = waits(None);
        eventually("the second waits", || pool.snapshot().waiting_submitters == 2);
        // Room and cancel at once: whichever the first notices, the second gets in.
        let (cancel, free) =
            (thread::spawn(move || token.cancel()), thread::spawn(move || drop(open)));
        let answer = |told: Receiver<_>| told.recv_timeout(HANG).expect("a submitter hangs");
        assert_eq!(answer(second), Ok(()), "the turn was not passed on");
        let first = answer(first);
        assert!(matches!(first, Ok(()) | Err(Reason::Cancelled)), "{first:?}");
        cancel.join().unwrap();
        free.join().unwrap();
        assert!(pool.shutdown(Shutdown::default()).unwrap().is_success());
    }
}

/// Workers come and go by order while the pool shuts down, with tasks in flight.
#[test]
fn hazard_87_stop_and_recycle_race_with_shutdown() {
    for round in 0..60 {
        let pool = Pool::builder("race").workers(4).queue(64).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (other, done) = (pool.clone(), Arc::clone(&stop));
        let steering = thread::spawn(move || {
            while !done.load(SeqCst) {
                for worker in other.roster() {
                    let how = if round % 2 == 0 { StopWorker::AfterTask } else { StopWorker::Hard };
                    let _ = other.recycle_worker(worker.id, how);
                    if worker.id.index() % 5 == 4 {
                        let _ = other.stop_worker(worker.id, how);
                    }
                }
            }
        });
        let other = pool.clone();
        let feeding = thread::spawn(move || {
            let mut handles = Vec::new();
            while let Ok(handle) = other.submit(thread::yield_now) {
                handles.push(handle);
            }
            handles
        });
        eventually("some work is done", || pool.snapshot().completed > 50);
        let how = [Shutdown::light(), Shutdown::soft(), Shutdown::hard()][round % 3];
        let (tell, told) = mpsc::channel();
        let other = pool.clone();
        thread::spawn(move || {
            let _ = tell.send(other.shutdown(how));
        });
        let report: Report = told.recv_timeout(HANG).expect("the shutdown hangs").unwrap();
        stop.store(true, SeqCst);
        steering.join().unwrap();
        assert!(report.complete, "{report}");
        for mut handle in feeding.join().unwrap() {
            assert!(handle.try_take().is_some(), "a task has no outcome");
        }
        let now = pool.snapshot();
        now.check().unwrap();
        assert_eq!((now.queued, now.running), (0, 0));
    }
}

/// A handle that is polled and then neither polled nor dropped holds nobody up.
#[test]
fn hazard_79_an_idle_future_blocks_nobody() {
    let pool = Pool::builder("idle").workers(1).build().unwrap();
    let open = occupy(&pool, 1);
    let waker = quiet_waker();
    let cx = &mut Context::from_waker(&waker);
    let mut asleep = pool.submit(|| 1).unwrap();
    assert!(std::pin::Pin::new(&mut asleep).poll(cx).is_pending());
    let other = pool.submit(|| 2).unwrap();
    drop(open);
    assert_eq!(other.wait().unwrap(), 2);
    assert!(matches!(std::pin::Pin::new(&mut asleep).poll(cx), Poll::Ready(Ok(1))));
    pool.shutdown(Shutdown::default()).unwrap();
}

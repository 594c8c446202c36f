//! Shutting down on signals. One test in this process, because signals belong to it.
#![cfg(all(unix, feature = "signal"))]

use std::sync::mpsc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::raise;
use tidegate::{Mode, Pool, Shutdown, Stop, TaskError, WaitError};

/// Hazard 20: the handler must not touch a lock. The signals come to the very thread that
/// is inside the pool's locks and the allocator most of the time.
#[test]
fn hazard_20_signals_shut_down_from_wherever_they_interrupt() {
    for _ in 0..50 {
        let pool = Pool::builder("signal").workers(2).queue(8).build().unwrap();
        let guard = pool.shutdown_on_signals(Shutdown::light()).unwrap();
        let mut accepted = 0_u64;
        for n in 0_u64.. {
            if n == 200 {
                raise(SIGTERM).unwrap();
            }
            // The name and the text make it lock and allocate.
            let text = format!("task {n}");
            match pool.task("t").external_id(text.clone()).submit(move |_| text.len()) {
                Ok(handle) => handle.detach(),
                Err(refused) => {
                    assert_eq!(refused.reason(), tidegate::Reason::Closed);
                    break;
                }
            }
            accepted += 1;
        }
        let report = pool.shutdown(Shutdown::default()).unwrap();
        assert!(report.is_success() && report.mode == Mode::Light, "{report}");
        assert_eq!(pool.snapshot().completed, accepted, "the first signal drains");
        drop(guard);
    }

    // A second signal turns it Hard: a task that ends only when told does end.
    let pool = Pool::builder("signal").workers(1).build().unwrap();
    let guard = pool.shutdown_on_signals(Shutdown::light()).unwrap();
    let (entered, inside) = mpsc::channel();
    let endless = pool
        .task("endless")
        .submit_result(move |cx| {
            entered.send(()).expect("the test waits for it");
            cx.token().wait();
            Err::<(), Stop>(cx.check().unwrap_err())
        })
        .unwrap();
    inside.recv_timeout(Duration::from_secs(30)).unwrap();
    raise(SIGINT).unwrap();
    while !matches!(pool.state(), tidegate::PoolState::Closing(Mode::Light)) {
        std::thread::yield_now();
    }
    raise(SIGINT).unwrap();
    let report = pool.shutdown(Shutdown::light()).unwrap();
    assert_eq!((report.mode, report.complete), (Mode::Hard, true), "{report}");
    assert!(matches!(endless.wait(), Err(WaitError::Task(TaskError::Cancelled { .. }))));
    drop(guard);

    #[cfg(feature = "tokio")]
    a_pool_of_futures_too();
}

#[cfg(feature = "tokio")]
fn a_pool_of_futures_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let pool = tidegate::AsyncPool::builder("signal").workers(1).build_async().unwrap();
        let _guard = pool.shutdown_on_signals(Shutdown::soft()).unwrap();
        let short = pool.submit(tokio::task::yield_now()).await.unwrap();
        tokio::task::yield_now().await; // it has begun
        raise(SIGTERM).unwrap();
        pool.closed().cancelled().await;
        short.await.unwrap();
        let report = pool.shutdown(Shutdown::light()).await.unwrap();
        assert!(report.is_success() && report.mode == Mode::Soft, "{report}");
    });
}

/// Played by a child process: drops its guard, or takes two signals, then one more.
#[test]
fn child_that_must_die_of_the_last_signal() {
    let Ok(scene) = std::env::var("TIDEGATE_SIGNAL_CHILD") else { return };
    let pool = Pool::builder("child").workers(1).build().unwrap();
    let guard = pool.shutdown_on_signals(Shutdown::light()).unwrap();
    if scene == "guard dropped" {
        let other = pool.shutdown_on_signals(Shutdown::light()).unwrap();
        drop(guard);
        raise(SIGTERM).unwrap(); // the other one listens still
        while pool.state() == tidegate::PoolState::Running {
            std::thread::yield_now();
        }
        drop(other);
    } else {
        let (_never, wait) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        pool.spawn(move || _ = started.send(()).map(|()| wait.recv())).unwrap();
        running.recv().unwrap(); // in the queue, Hard would cancel it and be done
        for mode in [Mode::Light, Mode::Hard] {
            raise(SIGTERM).unwrap();
            while !matches!(pool.state(), tidegate::PoolState::Closing(m) if m == mode) {
                std::thread::yield_now();
            }
        }
    }
    // The switch is turned right after the state has changed.
    for _ in 0..1_000_000 {
        raise(SIGTERM).unwrap();
    }
    std::process::exit(7);
}

#[test]
fn after_its_guard_and_at_the_third_a_signal_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    for scene in ["guard dropped", "third signal"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child_that_must_die_of_the_last_signal"]);
        let output = child.env("TIDEGATE_SIGNAL_CHILD", scene).output().unwrap();
        assert_eq!(output.status.signal(), Some(SIGTERM), "{scene}: {output:?}");
    }
}

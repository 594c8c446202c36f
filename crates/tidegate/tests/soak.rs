//! Long runs: the ledger stays exact, memory flat, threads and descriptors constant.
//!
//! `TIDEGATE_SOAK` sets the number of tasks, and of park/wake rounds a tenth of it; the
//! default is for CI, `scripts/prove soak` runs a hundred times that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Pool, Shutdown, StopWorker};

fn tasks() -> u64 {
    match std::env::var("TIDEGATE_SOAK") {
        Ok(text) => text.parse().expect("TIDEGATE_SOAK is a number of tasks"),
        Err(_) => 1_000_000,
    }
}

/// A line of `/proc/self/status`, as a number.
fn status(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn descriptors() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

/// Any spread will do, as long as it is the same each time.
fn scatter(n: u64) -> u64 {
    (n ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// One percent of panics, errors and cancels each, and now and then a worker that dies.
#[test]
fn the_ledger_is_exact_after_very_many_tasks() {
    const WINDOW: usize = 64;
    std::panic::set_hook(Box::new(|_| ()));
    let deaths = Arc::new(AtomicU64::new(0));
    let dying = Arc::clone(&deaths);
    let pool = Pool::builder("soak")
        .workers(3)
        .queue(500)
        .restart_backoff(Duration::ZERO..=Duration::ZERO)
        .on_unobserved(|_| ())
        .on_worker_start(move |_| {
            // Not the first ones, or the pool could not be built.
            if dying.fetch_add(1, Relaxed) % 8 == 5 {
                std::panic::panic_any("on purpose");
            }
        })
        .build()
        .unwrap();
    let total = tasks();
    let (mut flat, mut window) = (None, std::collections::VecDeque::new());
    let (mut values, mut failed, mut panicked, mut cancelled, mut spawned) = (0, 0, 0, 0, 0);
    let mut count = |outcome: Result<u64, tidegate::TaskError<u64>>| match outcome {
        Ok(_) => values += 1,
        Err(error) if error.is_failed() => failed += 1,
        Err(error) if error.is_panicked() => panicked += 1,
        Err(error) if error.is_cancelled() => cancelled += 1,
        Err(error) => panic!("nothing else can happen to a task here: {error}"),
    };
    for n in 0..total {
        let dice = scatter(n) % 1_000;
        if dice.is_multiple_of(2) && dice >= 40 {
            pool.spawn(move || _ = std::hint::black_box(n)).unwrap();
            spawned += 1;
        } else {
            let handle = pool
                .submit_result(move || match dice {
                    0..10 => Err(n),
                    10..20 => std::panic::panic_any(n),
                    _ => Ok(n),
                })
                .unwrap();
            if (20..30).contains(&dice) {
                handle.cancel();
            }
            window.push_back(handle);
        }
        if window.len() > WINDOW {
            let oldest = window.pop_front().expect("just looked");
            count(oldest.wait().map_err(|e| e.into_task().expect("we wait outside")));
        }
        if dice == 999 {
            let workers = pool.roster();
            let one = &workers[scatter(n + 1) as usize % workers.len()];
            let _ = pool.recycle_worker(one.id, StopWorker::AfterTask);
        }
        if n % (total / 10).max(1) == 0 && n > 0 {
            let now = pool.snapshot();
            let sum = now.queued + now.running + now.completed + now.failed + now.panicked;
            assert_eq!(now.accepted, sum + now.cancelled, "{now}");
            assert!(now.queued <= 500, "{now}");
            let here = (status("VmRSS"), status("Threads"), descriptors());
            let first = *flat.get_or_insert(here);
            let limit = first.0.map(|kib| kib + 32 * 1024);
            assert!(here.0 <= limit, "memory grows: {first:?}, then {here:?} at task {n}");
            // Three workers, a supervisor, and those that come and go.
            assert!(here.1 <= first.1.map(|n| n + 8), "threads: {first:?}, then {here:?}");
            assert!(here.2 <= first.2.map(|n| n + 8), "descriptors: {first:?}, then {here:?}");
        }
    }
    for handle in window {
        count(handle.wait().map_err(|e| e.into_task().expect("we wait outside")));
    }
    let report = pool.shutdown(Shutdown::default()).unwrap();
    assert!(report.is_success(), "{report}");
    let end = pool.snapshot();
    assert_eq!(end.accepted, total, "{end}");
    assert_eq!(end.completed, values + spawned, "{end}");
    assert_eq!((end.failed, end.panicked, end.cancelled), (failed, panicked, cancelled), "{end}");
    assert!(failed > 0 && panicked > 0 && cancelled > 0, "{end}");
    assert!(deaths.load(Relaxed) > 3, "no worker ever came back");
}

/// With an idle worker no accepted task stays unstarted, however the two fall asleep.
#[test]
fn no_wake_up_is_lost_in_very_many_rounds() {
    let pool = Pool::builder("rounds").workers(2).queue(4).build().unwrap();
    let hang = Duration::from_secs(60);
    for n in 0..tasks() / 10 {
        // From none to some hundred steps: workers search, fall asleep, or sleep.
        for _ in 0..scatter(n) % 4 * (scatter(n + 1) % 200) {
            std::hint::spin_loop();
        }
        let mut handle = pool.submit(move || n).unwrap();
        let outcome = handle
            .wait_timeout(hang)
            .unwrap_or_else(|| panic!("a task was left alone in round {n}: {}", pool.snapshot()));
        assert_eq!(outcome.unwrap(), n);
    }
    assert!(pool.shutdown(Shutdown::default()).unwrap().is_success());
}

//! Fails the N-th step of one sort, for rising N, until a run is over before the N-th comes:
//! every accepted task must still get its one outcome, and the pool must still end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tidegate::{Builder, Pool, Shutdown, StopWorker, Token};

const WORKERS: usize = 3;
const TASKS: usize = 40;

/// Counts steps; the N-th one fails, and the `width - 1` after it.
#[derive(Clone)]
struct Fault {
    steps: Arc<AtomicUsize>,
    nth: usize,
    width: usize,
}

impl Fault {
    fn strikes(&self) -> bool {
        let step = self.steps.fetch_add(1, SeqCst);
        step >= self.nth && step < self.nth + self.width
    }
}

/// Builds pools with rising N and puts each through the same day, until no fault strikes.
fn for_rising_n<S: 'static>(build: impl Fn(Fault) -> Builder<S>) {
    let mut refused_builds = 0;
    for width in [1, 5] {
        let mut nth = 0;
        loop {
            let fault = Fault { steps: Arc::default(), nth, width };
            match build(fault.clone()).build() {
                // Nothing runs yet: the caller hears of it.
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused_builds += 1;
                }
                Ok(pool) => a_day(&pool, || fault.steps.load(SeqCst) > WORKERS + 1),
            }
            if fault.steps.load(SeqCst) <= nth {
                break;
            }
            nth += 1;
            assert!(nth < 1_000, "the number of steps in a day has an end");
        }
        assert!(
            nth > WORKERS + 1,
            "faults struck while the pool was at work, not only at its start"
        );
    }
    assert!(refused_builds > 0, "a first worker that can't be had fails the build");
}

/// Work, panics, cancellations by token (which need the reaper), workers that are recycled
/// until the day is `long_enough`, the end.
fn a_day<S: 'static>(pool: &Pool<S>, long_enough: impl Fn() -> bool) {
    let token = Token::new();
    let submit = |n: usize| {
        let task = pool.task("chore");
        let task = if n.is_multiple_of(5) { task.cancel_with(&token) } else { task };
        let work = move |_: &tidegate::Cx| match n % 7 {
            3 => std::panic::panic_any("on purpose"),
            4 => Err("on purpose"),
            _ => Ok(n),
        };
        task.submit_result(work).expect("there is room")
    };
    let mut handles: Vec<_> = (0..TASKS).map(submit).collect();
    let hang = Instant::now() + Duration::from_secs(60);
    loop {
        for worker in pool.roster() {
            let _ = pool.recycle_worker(worker.id, StopWorker::AfterTask); // it may be down
        }
        if long_enough() {
            break;
        }
        assert!(Instant::now() < hang, "recycled workers do not come back: {}", pool.snapshot());
        std::thread::yield_now();
    }
    // More than the old workers can have before they hear of it: new ones must come.
    handles.extend((1..=4 * WORKERS).filter(|n| !n.is_multiple_of(5)).map(submit));
    token.cancel();
    let accepted = handles.len() as u64;
    let report = pool.shutdown(Shutdown::light().within(Duration::from_secs(60))).unwrap();
    let mut settled = 0;
    for mut handle in handles {
        assert!(handle.try_take().is_some(), "an accepted task has no outcome: {report}");
        settled += 1;
    }
    let end = pool.snapshot();
    assert_eq!((end.accepted, settled), (accepted, accepted), "{end}");
    assert_eq!(end.queued + end.running + end.abandoned, 0, "{end}");
    let sum = end.completed + end.failed + end.panicked + end.cancelled;
    assert_eq!(sum, accepted, "a task was lost or counted twice: {end}");
    assert!(report.in_time, "{report}");
}

fn builder() -> Builder {
    // Thousands of panics on purpose; one that is not must be seen.
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload_as_str() != Some("on purpose") {
            eprintln!("{panic}");
        }
    }));
    Pool::builder("faulty")
        .workers(WORKERS)
        .queue(TASKS)
        .restart_backoff(Duration::ZERO..=Duration::ZERO)
        .on_unobserved(|_| ())
}

#[test]
fn w2_the_nth_thread_cannot_be_started() {
    for_rising_n(|fault| {
        builder().spawner(move |thread, body| {
            if fault.strikes() {
                return Err(std::io::Error::from(std::io::ErrorKind::WouldBlock));
            }
            thread.spawn(body)
        })
    });
}

#[test]
fn w2_the_nth_worker_state_cannot_be_made() {
    for_rising_n(|fault| {
        builder().try_worker_state(move |_| if fault.strikes() { Err("no state") } else { Ok(7) })
    });
}

#[test]
fn w2_the_nth_start_hook_panics() {
    for_rising_n(|fault| {
        builder().on_worker_start(move |_| {
            if fault.strikes() {
                std::panic::panic_any("on purpose");
            }
        })
    });
}

#[test]
fn w2_the_nth_spawner_panics() {
    for_rising_n(|fault| {
        builder().spawner(move |thread, body| {
            if fault.strikes() {
                std::panic::panic_any("on purpose");
            }
            thread.spawn(body)
        })
    });
}

/// One for a worker and one for the supervisor, who comes for the rest.
#[test]
fn w2_two_threads_are_enough_to_begin() {
    let more = Arc::new(AtomicUsize::new(2));
    let left = Arc::clone(&more);
    let spawner = move |thread: std::thread::Builder, body| {
        let took = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        took.map_err(|_| std::io::Error::from(std::io::ErrorKind::WouldBlock))?;
        thread.spawn(body)
    };
    let pool = builder().spawner(spawner).build().expect("there are two");
    more.store(10 * WORKERS, SeqCst); // there is room for them now
    a_day(&pool, || true);
}

//! How a scenario is run, and what scenarios share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Condvar, Mutex};
use tidegate::*;

pub(crate) const ZERO: Duration = Duration::ZERO;
pub(crate) const SECOND: Duration = Duration::from_secs(1);

// ---------------------------------------------------------------- the frame

/// Runs the scenario under both schedulers, `SHUTTLE_EACH` times each.
pub(crate) fn explore(scenario: fn()) {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    };
    let schedules = number("SHUTTLE_EACH", 1_000) as usize;
    let seed = number("SHUTTLE_SEED", 1);
    let began = Instant::now();
    run(RandomScheduler::new_from_seed(seed, schedules), scenario);
    run(PctScheduler::new_from_seed(seed, 3, schedules), scenario);
    let name = thread_name();
    let (count, time) = (2 * schedules, began.elapsed().as_secs_f64());
    eprintln!("{name}: {count} schedules in {time:.1} s, seed {seed}");
}

pub(crate) fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = shuttle::Config::new();
    config.stack_size = 0x2_0000;
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config).run(scenario);
}

pub(crate) fn thread_name() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}

pub(crate) fn pool(workers: usize, queue: usize) -> Builder {
    let (clock, _hand) = Clock::manual();
    Pool::builder("shuttle").workers(workers).queue(queue).clock(clock).on_unobserved(|_| ())
}

/// Ends the pool and checks that its books are straight.
pub(crate) fn finish(pool: &Pool, how: Shutdown) -> Report {
    let report = pool.shutdown(how).unwrap();
    let books = pool.snapshot();
    books.check().unwrap();
    assert_eq!(books.accepted, books.settled(), "a task was lost or counted twice");
    assert!(report.complete, "{report}");
    report
}

/// As `finish`, for a pool that has given a task up: its thread may be gone or not.
pub(crate) fn finish_late(pool: &Pool) {
    pool.shutdown(Shutdown::light()).unwrap();
    let books = pool.snapshot();
    books.check().unwrap();
    assert_eq!(books.accepted, books.settled(), "a task was lost or counted twice");
}

/// Lets nobody through until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

/// A value that is dropped once.
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

macro_rules! scenarios {
    ($($(#[$doc:meta])* $name:ident $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            fn scenario() $body
            explore(scenario);
        }
    )*};
}
pub(crate) use scenarios;

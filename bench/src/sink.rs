//! Where fire-and-forget tasks leave their results.
//!
//! One cell per thread, written by that thread alone with plain loads and
//! stores: a shared counter would cost more than the task and would measure
//! the counter.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::body;

/// Workers, producers and the main thread of one run; far above any workload.
const MAX_THREADS: usize = 64;

/// Two cache lines wide, since neighbouring lines are fetched in pairs.
#[repr(align(128))]
struct SinkCell {
    tasks: AtomicU64,
    sum: AtomicU64,
}

static CELLS: [SinkCell; MAX_THREADS] =
    [const { SinkCell { tasks: AtomicU64::new(0), sum: AtomicU64::new(0) } }; MAX_THREADS];

static NEXT_FREE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<Option<&'static SinkCell>> = const { Cell::new(None) };
}

/// Adds one task's result to the calling thread's cell.
#[inline]
pub(crate) fn add(result: u64) {
    let cell = MINE.get().unwrap_or_else(claim);
    let sum = cell.sum.load(Ordering::Relaxed).wrapping_add(result);
    cell.sum.store(sum, Ordering::Relaxed);
    // Release, paired with the Acquire in `tasks_done`: who sees the task
    // counted sees its sum too.
    let tasks = cell.tasks.load(Ordering::Relaxed) + 1;
    cell.tasks.store(tasks, Ordering::Release);
}

#[cold]
fn claim() -> &'static SinkCell {
    let index = NEXT_FREE.fetch_add(1, Ordering::AcqRel);
    assert!(index < MAX_THREADS, "two threads would share a cell and lose tasks");
    MINE.set(Some(&CELLS[index]));
    &CELLS[index]
}

/// Waits until `tasks` tasks in all have run in this process.
pub(crate) fn wait_for(tasks: u64) {
    while tasks_done() < tasks {
        // Sleeping leaves the core to the workers. It overshoots by up to
        // 0.1 ms, which is 0.1 ns per task over a million tasks.
        thread::sleep(Duration::from_micros(20));
    }
}

/// The same, awake: for waits of microseconds, which a sleep would double.
pub(crate) fn wait_awake_for(tasks: u64) {
    let started = Instant::now();
    while tasks_done() < tasks {
        // Whoever takes this long is better left alone.
        if started.elapsed() > Duration::from_millis(1) {
            return wait_for(tasks);
        }
        // Not a spin: a worker that was woken on this core would have to
        // wait until the millisecond is over.
        thread::yield_now();
    }
}

/// Panics unless exactly the short tasks with inputs `0..tasks` ran, each once.
pub(crate) fn check(tasks: u64) {
    check_sum(tasks, body::expected_sum(tasks));
}

/// Panics unless `tasks` tasks ran whose results add up to `expected`.
pub(crate) fn check_sum(tasks: u64, expected: u64) {
    assert_eq!(tasks_done(), tasks, "a task was lost or ran twice");
    assert_eq!(sum(), expected, "a task gave a wrong result");
}

/// The results of all tasks that [`tasks_done`] has counted.
pub(crate) fn sum() -> u64 {
    CELLS.iter().fold(0, |sum: u64, cell| sum.wrapping_add(cell.sum.load(Ordering::Relaxed)))
}

/// How many tasks have run in this process.
pub(crate) fn tasks_done() -> u64 {
    // Cells beyond are nobody's: reading them all costs microseconds.
    let claimed = NEXT_FREE.load(Ordering::Acquire).min(MAX_THREADS);
    CELLS[..claimed].iter().map(|cell| cell.tasks.load(Ordering::Acquire)).sum()
}

//! W5: a short task for each item of a slice, the results in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::QUEUE;
use crate::body::ShortTask;
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::sink;

pub(crate) const WORKERS: usize = 2;
pub(crate) const ITEMS: u64 = 100_000;

pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool = C::new(WORKERS, QUEUE);
    let figures = timed(|items| pool.map_slice(items).unwrap_or_else(|| one_by_one(&pool, items)));
    pool.join();
    figures
}

/// Times a `map` over the items, on threads that have had time to start.
pub(crate) fn timed(map: impl FnOnce(&[u64]) -> Vec<u64>) -> Vec<Figure> {
    let items: Vec<u64> = (0..ITEMS).collect();
    thread::sleep(Duration::from_millis(5));

    let started = Instant::now();
    let results = map(&items);
    let elapsed = started.elapsed();

    check(&results);
    vec![Figure::ns_per_task(elapsed, ITEMS)]
}

/// Panics unless each result is that of the item in its place.
pub(crate) fn check(results: &[u64]) {
    assert_eq!(results.len() as u64, ITEMS, "not one result for each item");
    for (input, result) in (0..).zip(results) {
        assert_eq!(*result, ShortTask::new(input).run(), "item {input} has a wrong result");
    }
}

/// For pools that know tasks only.
fn one_by_one<C: Contender>(pool: &C, items: &[u64]) -> Vec<u64> {
    // Tasks can't borrow. Leaked, since the process ends soon anyway and a
    // reference count would cost as much as the task.
    let results: &'static [AtomicU64] =
        items.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    for (item, result) in items.iter().zip(results) {
        let task = ShortTask::new(*item);
        pool.spawn(move || {
            let value = task.run();
            result.store(value, Ordering::Relaxed);
            sink::add(value);
        });
    }
    sink::wait_for(items.len() as u64);
    // Relaxed is enough: the sink's counters order them before this.
    results.iter().map(|result| result.load(Ordering::Relaxed)).collect()
}

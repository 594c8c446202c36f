//! W6: what a pool loses against bare threads, with tasks of 5 µs.

use std::time::{Duration, Instant};

use super::idle_pool;
use crate::body::ShortTask;
use crate::contenders::{Contender, bare_threads};
use crate::figures::Figure;
use crate::{process, sink};

pub(crate) const WORKERS: u64 = 2;

/// A quarter of the workload's 100,000 when time is short.
pub(crate) fn tasks() -> u64 {
    if process::is_quick() { 25_000 } else { 100_000 }
}

/// Both in one process and right after each other: the speed of the machine
/// differs more between two processes than what is measured here.
pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let tasks = tasks();
    let ideal = bare_threads::divide(tasks, WORKERS, ShortTask::long);
    // Threads without a pool are right; a third run to check both takes long.
    let once = sink::sum();

    let pool: C = idle_pool(WORKERS as usize);
    let started = Instant::now();
    for input in 0..tasks {
        let task = ShortTask::long(input);
        pool.spawn(move || sink::add(task.run()));
    }
    sink::wait_for(2 * tasks);
    let actual = started.elapsed();

    sink::check_sum(2 * tasks, once.wrapping_mul(2));
    pool.join();
    loss(ideal, actual)
}

/// Percent of the time that went into something else than the tasks. Below 0
/// when the machine was slower for the bare threads.
pub(crate) fn loss(ideal: Duration, actual: Duration) -> Vec<Figure> {
    let efficiency = ideal.as_secs_f64() / actual.as_secs_f64();
    vec![Figure::new("loss", 100.0 * (1.0 - efficiency)), Figure::ns_per_task(actual, tasks())]
}

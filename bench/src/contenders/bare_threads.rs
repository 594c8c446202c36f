//! The floor, no peer: the same work divided in advance among threads that
//! need no pool, no queue and no wake-up.

use std::thread;
use std::time::{Duration, Instant};

use crate::body::ShortTask;
use crate::figures::Figure;
use crate::sink;
use crate::workloads::{Workload, efficiency, fire_and_forget, slice};

/// What can be divided in advance; `None` for all else.
pub(crate) fn run(workload: Workload) -> Option<Vec<Figure>> {
    match workload {
        Workload::FireAndForget { workers, .. } => {
            let tasks = fire_and_forget::TASKS;
            let elapsed = divide(tasks, workers as u64, ShortTask::new);
            sink::check(tasks);
            Some(vec![Figure::ns_per_task(elapsed, tasks)])
        }
        Workload::Slice => Some(vec![Figure::ns_per_task(chunks(slice::ITEMS), slice::ITEMS)]),
        Workload::Efficiency => {
            let tasks = efficiency::tasks();
            let first = divide(tasks, efficiency::WORKERS, ShortTask::long);
            let once = sink::sum();
            let second = divide(tasks, efficiency::WORKERS, ShortTask::long);
            sink::check_sum(2 * tasks, once.wrapping_mul(2));
            Some(efficiency::loss(first, second))
        }
        _ => None,
    }
}

/// How long `threads` threads take for the tasks with inputs `0..tasks`.
/// Their start is part of it: microseconds.
pub(crate) fn divide(tasks: u64, threads: u64, task: fn(u64) -> ShortTask) -> Duration {
    let share = tasks.div_ceil(threads);
    let started = Instant::now();
    thread::scope(|scope| {
        for k in 0..threads {
            scope.spawn(move || {
                (k * share..tasks.min((k + 1) * share))
                    .for_each(|input| sink::add(task(input).run()))
            });
        }
    });
    started.elapsed()
}

fn chunks(items: u64) -> Duration {
    let inputs: Vec<u64> = (0..items).collect();
    let mut results = vec![0; inputs.len()];
    let half = inputs.len() / 2;
    let started = Instant::now();
    thread::scope(|scope| {
        for (inputs, results) in inputs.chunks(half).zip(results.chunks_mut(half)) {
            scope.spawn(move || {
                for (input, result) in inputs.iter().zip(results) {
                    *result = ShortTask::new(*input).run();
                }
            });
        }
    });
    let elapsed = started.elapsed();
    slice::check(&results);
    elapsed
}

//! A: allocations per task, and the memory at the peak.

use super::{Body, QUEUE, TokenOf, handles, limits};
use crate::body::{self, ShortTask};
use crate::contenders::Contender;
use crate::counting::{allocations_during, peak_bytes_during};
use crate::figures::Figure;
use crate::sink;

const WORKERS: usize = 2;
const TASKS: u64 = 100_000;
/// First uses allocate what is kept afterwards (thread locals, recycled
/// cells, the wait lists of a full queue). That is no price per task.
const WARM_UP: u64 = 20_000;

pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let mut done = 0;
    let mut pool = None;
    // From before the pool: the memory of its queue counts.
    let peak = peak_bytes_during(|| {
        let pool = pool.insert(C::new(WORKERS, QUEUE));
        spawn_short(pool, &mut done, WARM_UP + TASKS);
        handles::sum_of_results(pool, WARM_UP);
    });
    let pool: C = pool.expect("it was made above");

    let spawned = allocations_during(|| spawn_short(&pool, &mut done, TASKS));
    let large = allocations_during(|| spawn_large(&pool, &mut done, TASKS));
    sink::check(done);

    let mut sum = 0;
    let by_handle = allocations_during(|| sum = handles::sum_of_results(&pool, TASKS));
    assert_eq!(sum, body::expected_sum(TASKS), "a handle gave a wrong result");

    let limited = limited(&pool);
    pool.join();

    let per_task = |allocations: u64| allocations as f64 / TASKS as f64;
    let mut figures = vec![
        Figure::new("spawn", per_task(spawned)),
        // One of these allocations is the workload's own list of handles.
        Figure::new("handle", per_task(by_handle)),
        Figure::new("large", per_task(large)),
        Figure::new("peak_kb", peak as f64 / 1024.0),
    ];
    figures.extend(limited.map(|allocations| Figure::new("limited", per_task(allocations))));
    figures
}

/// Spawns the next `tasks` short tasks and waits until they are done.
fn spawn_short<C: Contender>(pool: &C, done: &mut u64, tasks: u64) {
    for input in *done..*done + tasks {
        let task = ShortTask::new(input);
        pool.spawn(move || sink::add(task.run()));
    }
    *done += tasks;
    sink::wait_for(*done);
}

/// The same with captures that fit in no slot.
fn spawn_large<C: Contender>(pool: &C, done: &mut u64, tasks: u64) {
    for input in *done..*done + tasks {
        let copies = [ShortTask::new(input); 10];
        pool.spawn(move || {
            let one = copies[input as usize % copies.len()];
            sink::add(one.run());
        });
    }
    *done += tasks;
    sink::wait_for(*done);
}

/// With timeout and cancellation, where the contender has them.
fn limited<C: Contender>(pool: &C) -> Option<u64> {
    let sum = |tasks| limits::sum_of_results(pool, Body::Short, TokenOf::Each, tasks);
    sum(WARM_UP)?;
    Some(allocations_during(|| {
        sum(TASKS);
    }))
}

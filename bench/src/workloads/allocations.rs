//! A: allocations per short task, with and without a handle.

use super::{handles, idle_pool};
use crate::body::{self, ShortTask};
use crate::contenders::Contender;
use crate::counting::allocations_during;
use crate::figures::Figure;
use crate::sink;

const WORKERS: usize = 2;
const TASKS: u64 = 100_000;
/// First uses allocate what is kept afterwards (thread locals, recycled
/// cells, the wait lists of a full queue). That is no price per task.
const WARM_UP: u64 = 20_000;

pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);

    spawn_all(&pool, 0, WARM_UP);
    let spawned = allocations_during(|| spawn_all(&pool, WARM_UP, WARM_UP + TASKS));
    sink::check(WARM_UP + TASKS);

    handles::sum_of_results(&pool, WARM_UP);
    let mut sum = 0;
    let by_handle = allocations_during(|| sum = handles::sum_of_results(&pool, TASKS));
    assert_eq!(sum, body::expected_sum(TASKS), "a handle gave a wrong result");

    pool.join();
    vec![
        Figure::new("spawn", spawned as f64 / TASKS as f64),
        // One of these allocations is the workload's own list of handles.
        Figure::new("handle", by_handle as f64 / TASKS as f64),
    ]
}

/// Spawns the tasks with inputs `from..to` and waits until they are done.
fn spawn_all<C: Contender>(pool: &C, from: u64, to: u64) {
    for input in from..to {
        let task = ShortTask::new(input);
        pool.spawn(move || sink::add(task.run()));
    }
    sink::wait_for(to);
}

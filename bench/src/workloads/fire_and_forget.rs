//! W1: a million short tasks whose results nobody waits for one by one.

use std::ops::Range;
use std::thread;
use std::time::Instant;

use super::idle_pool;
use crate::body::ShortTask;
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::sink;

pub(crate) const TASKS: u64 = 1_000_000;

/// Time per task, from the first submit until the last task is done.
pub(super) fn run<C: Contender>(workers: usize, producers: u64) -> Vec<Figure> {
    let pool: C = idle_pool(workers);

    let started = match producers {
        1 => produce(&pool, 0..TASKS),
        _ => produce_in_parallel(&pool, producers),
    };
    sink::wait_for(TASKS);
    let elapsed = started.elapsed();

    sink::check(TASKS);
    pool.join();
    vec![Figure::ns_per_task(elapsed, TASKS)]
}

/// Spawns a task per input and tells when the first one was on its way.
pub(super) fn produce<C: Contender>(pool: &C, inputs: Range<u64>) -> Instant {
    let started = Instant::now();
    for input in inputs {
        let task = ShortTask::new(input);
        pool.spawn(move || sink::add(task.run()));
    }
    started
}

fn produce_in_parallel<C: Contender>(pool: &C, producers: u64) -> Instant {
    assert_eq!(TASKS % producers, 0, "the last tasks would have no producer");
    let share = TASKS / producers;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|k| scope.spawn(move || produce(pool, k * share..(k + 1) * share)))
            .collect();
        // The producers take the time themselves: with fewer cores than
        // threads, a clock read here could come long after the first submit.
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a producer does not panic"))
            .min()
            .expect("there is a producer")
    })
}

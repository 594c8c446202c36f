//! W4: an idle pool, one task submitted and waited for, again and again.

use std::hint;
use std::time::{Duration, Instant};

use super::idle_pool;
use crate::body::ShortTask;
use crate::contenders::Contender;
use crate::figures::{Figure, percentiles};

pub(super) const WORKERS: usize = 2;

/// `gap` passes between a result and the next submit: none keeps the workers
/// awake, 100 µs lets impatient ones fall asleep, 1 ms lets all of them.
pub(super) fn run<C: Contender>(gap: Duration, samples: u64) -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);
    let round_trips = (0..samples)
        .map(|input| {
            spin_for(gap);
            round_trip(&pool, input)
        })
        .collect();
    pool.join();
    percentiles(round_trips)
}

/// Nanoseconds from before the submit until the result is here and checked.
fn round_trip<C: Contender>(pool: &C, input: u64) -> u64 {
    let task = ShortTask::new(input);
    let started = Instant::now();
    let result = pool.wait(pool.submit(move || task.run()));
    let elapsed = started.elapsed();
    assert_eq!(result, task.run(), "a handle gave a wrong result");
    elapsed.as_nanos() as u64
}

/// Spins, because sleeping would add the cost of waking the caller.
pub(super) fn spin_for(gap: Duration) {
    let started = Instant::now();
    while started.elapsed() < gap {
        hint::spin_loop();
    }
}

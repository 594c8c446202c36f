//! What is measured. Each workload checks its answers before it returns its
//! figures.

mod allocations;
mod fire_and_forget;
mod handles;
mod latency;

use std::thread;
use std::time::Duration;

use crate::contenders::Contender;
use crate::figures::Figure;

/// Queue bound of every pool.
const QUEUE: usize = 1_000;

#[derive(Clone, Copy)]
pub(crate) enum Workload {
    FireAndForget { workers: usize, producers: u64 },
    Handles,
    Latency { gap: Duration, samples: u64 },
    Allocations,
}

use Workload::{Allocations, FireAndForget, Handles, Latency};

/// The names are those of the project's list of workloads; the part before
/// the dash is what `compare --only` selects by.
#[rustfmt::skip] // a table: one line each
pub(crate) const ALL: &[(&str, Workload)] = &[
    ("W1-2w1p", FireAndForget { workers: 2, producers: 1 }),
    ("W1-2w4p", FireAndForget { workers: 2, producers: 4 }),
    ("W1-8w1p", FireAndForget { workers: 8, producers: 1 }),
    ("W2", Handles),
    ("W4-back", Latency { gap: Duration::ZERO, samples: 20_000 }),
    ("W4-gap100", Latency { gap: Duration::from_micros(100), samples: 3_000 }),
    ("W4-gap1000", Latency { gap: Duration::from_micros(1_000), samples: 400 }),
    ("A", Allocations),
];

impl Workload {
    pub(crate) fn named(name: &str) -> Option<Workload> {
        let (_, workload) = ALL.iter().find(|(known, _)| *known == name)?;
        Some(*workload)
    }

    pub(crate) fn run<C: Contender>(self) -> Vec<Figure> {
        match self {
            FireAndForget { workers, producers } => fire_and_forget::run::<C>(workers, producers),
            Handles => handles::run::<C>(),
            Latency { gap, samples } => latency::run::<C>(gap, samples),
            Allocations => allocations::run::<C>(),
        }
    }
}

/// A pool whose threads have started and found nothing to do.
fn idle_pool<C: Contender>(workers: usize) -> C {
    let pool = C::new(workers, QUEUE);
    thread::sleep(Duration::from_millis(5));
    pool
}

//! What a run reports: named numbers, smaller is better.

use std::fmt;
use std::time::Duration;

pub(crate) struct Figure {
    name: &'static str,
    value: f64,
}

impl Figure {
    pub(crate) fn new(name: &'static str, value: f64) -> Self {
        Figure { name, value }
    }

    pub(crate) fn ns_per_task(elapsed: Duration, tasks: u64) -> Self {
        Figure::new("ns", elapsed.as_nanos() as f64 / tasks as f64)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.4}", self.name, self.value)
    }
}

/// Median, p99 and p99.9 of samples in nanoseconds.
pub(crate) fn percentiles(mut samples: Vec<u64>) -> Vec<Figure> {
    assert!(!samples.is_empty(), "a workload took no sample");
    samples.sort_unstable();
    let last = samples.len() - 1;
    [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
        .map(|(name, share)| Figure::new(name, samples[(last as f64 * share) as usize] as f64))
        .into()
}

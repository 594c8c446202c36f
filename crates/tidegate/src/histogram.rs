//! How long things took: counts in buckets, four to each doubling.
//!
//! A bucket is at most a quarter of its lower end wide, so a quantile is right to within 25 %,
//! from 64 ns to 137 s; below and above there is one bucket each.

use std::fmt;
use std::time::Duration;

use crate::ledger::bump_by;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};

/// The first bucket ends here, at a power of two.
const FIRST_END: u32 = 6;
/// The last but one ends here.
const LAST_END: u32 = 37;
const BUCKETS: usize = 2 + 4 * (LAST_END - FIRST_END) as usize;

fn bucket_of(nanos: u64) -> usize {
    let doubling = nanos.max(1).ilog2();
    match doubling {
        0..FIRST_END => 0,
        FIRST_END..LAST_END => {
            let quarter = (nanos >> (doubling - 2)) & 3;
            1 + 4 * (doubling - FIRST_END) as usize + quarter as usize
        }
        _ => BUCKETS - 1,
    }
}

/// Where the bucket ends; what is in it is below that.
fn end_of(bucket: usize) -> Duration {
    if bucket == 0 {
        return Duration::from_nanos(1 << FIRST_END);
    }
    if bucket >= BUCKETS - 1 {
        return Duration::MAX;
    }
    let (doubling, quarter) = (FIRST_END as usize + (bucket - 1) / 4, (bucket - 1) % 4);
    Duration::from_nanos((1 << doubling) + (quarter as u64 + 1) * (1 << (doubling - 2)))
}

// ---------------------------------------------------------------- recording

/// What threads write, and snapshots read at any time.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: [AtomicU64; BUCKETS],
    /// Of those in `counts`, how many were not measured but stood for.
    stood_for: AtomicU64,
    nanos: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            stood_for: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    /// One that was measured and stands for `weight`, by the one thread that owns this.
    pub(crate) fn record_own(&self, took: Duration, weight: u64) {
        let nanos = nanos_of(took);
        bump_by(&self.nanos, nanos.saturating_mul(weight));
        bump_by(&self.counts[bucket_of(nanos)], weight);
        if weight > 1 {
            bump_by(&self.stood_for, weight - 1);
        }
    }

    /// As `record_own`, by any thread.
    pub(crate) fn record(&self, took: Duration, weight: u64) {
        let nanos = nanos_of(took);
        self.nanos.fetch_add(nanos.saturating_mul(weight), Relaxed);
        self.counts[bucket_of(nanos)].fetch_add(weight, Relaxed);
        if weight > 1 {
            self.stood_for.fetch_add(weight - 1, Relaxed);
        }
    }

    pub(crate) fn add_to(&self, sum: &mut Histogram) {
        let stood_for = self.stood_for.load(Acquire);
        sum.nanos = sum.nanos.saturating_add(self.nanos.load(Acquire));
        let mut all = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = count.load(Acquire);
            sum.add(bucket, count);
            all += count;
        }
        // Counted before those that it stood for: never more samples than there are.
        sum.samples += all.saturating_sub(stood_for);
    }
}

fn nanos_of(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

// ---------------------------------------------------------------- reading

/// How long something took, how often.
///
/// Short things are measured now and then (A3): then a sample stands for many, and
/// [`samples`](Histogram::samples) is less than [`count`](Histogram::count).
///
/// Printed as its middle and its end: `p50 12µs, p90 40µs, p99 1.0ms, 5120 in all`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Up to the last that is not empty.
    counts: Vec<u64>,
    samples: u64,
    nanos: u64,
}

impl Histogram {
    /// How many there were, as far as they are measured or stood for by a sample.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many of them were measured; the others are taken to be alike.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// How long all of them took together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// The average; zero if there are none.
    #[must_use]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.nanos.checked_div(self.count()).unwrap_or(0))
    }

    /// A time that this share of all did not exceed: 0.5 is the middle, 0.99 leaves one in a
    /// hundred out. Right to within 25 %; `None` if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * share.clamp(0.0, 1.0)).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(end_of(at))
    }

    /// The buckets that are not empty: where each ends, and how many are in it. The last may
    /// have no end (`Duration::MAX`).
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(bucket, count)| (end_of(bucket), *count))
    }

    /// What has come since an earlier look at the same pool.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let before = |bucket| earlier.counts.get(bucket).copied().unwrap_or(0);
        let mut since = Histogram {
            counts: Vec::new(),
            samples: self.samples.saturating_sub(earlier.samples),
            nanos: self.nanos.saturating_sub(earlier.nanos),
        };
        for (bucket, count) in self.counts.iter().enumerate() {
            since.add(bucket, count.saturating_sub(before(bucket)));
        }
        since
    }

    /// How many took less than 2 to this power nanoseconds, where one of the buckets ends.
    #[cfg(feature = "prometheus")]
    pub(crate) fn below(&self, power: u32) -> u64 {
        debug_assert!((FIRST_END..=LAST_END).contains(&power), "no bucket ends at 2^{power}");
        self.counts.iter().take(1 + 4 * (power - FIRST_END) as usize).sum()
    }

    /// More of what took no time at all.
    pub(crate) fn add_none(&mut self, count: u64) {
        self.samples += count;
        self.add(0, count);
    }

    /// All of another.
    #[cfg(any(test, feature = "prometheus"))]
    pub(crate) fn add_all(&mut self, other: &Histogram) {
        self.samples += other.samples;
        self.nanos = self.nanos.saturating_add(other.nanos);
        for (bucket, count) in other.counts.iter().enumerate() {
            self.add(bucket, *count);
        }
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for share in [50, 90, 99] {
            match self.quantile(f64::from(share) / 100.0) {
                None => return f.write_str("none"),
                Some(Duration::MAX) => write!(f, "p{share} above 137s, ")?,
                Some(time) => write!(f, "p{share} {time:.0?}, ")?,
            }
        }
        write!(f, "{} in all", self.count())?;
        if self.samples < self.count() {
            write!(f, " ({} measured)", self.samples)?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let recorder = Recorder::default();
        for nanos in times {
            recorder.record_own(Duration::from_nanos(*nanos), 1);
        }
        let mut sum = Histogram::default();
        recorder.add_to(&mut sum);
        sum
    }

    #[test]
    fn a2_every_time_has_a_bucket_that_is_not_far_off() {
        for nanos in (0..2_000).chain((0..60).map(|n| 1 << n)).chain([u64::MAX]) {
            let bucket = bucket_of(nanos);
            assert!(bucket < BUCKETS && Duration::from_nanos(nanos) <= end_of(bucket), "{nanos}");
            if (64..1 << LAST_END).contains(&nanos) {
                assert!(end_of(bucket) <= Duration::from_nanos(nanos + nanos / 4 + 1), "{nanos}");
                assert!(end_of(bucket - 1) <= Duration::from_nanos(nanos), "{nanos}");
            }
        }
        let in_order: Vec<_> = (0..2_000).map(bucket_of).collect();
        assert!(in_order.is_sorted());
    }

    #[test]
    fn a2_quantiles_are_where_they_should_be() {
        let histogram = of(&(1..=1_000).map(|n| n * 1_000).collect::<Vec<_>>());
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = Duration::from_nanos((share * 1_000_000.0) as u64);
            let found = histogram.quantile(share).unwrap();
            assert!(found >= exact && found <= exact.mul_f64(1.26), "{share}: {found:?}");
        }
        assert_eq!(histogram.count(), 1_000);
        assert_eq!(histogram.mean(), Duration::from_nanos(500_500));
        assert_eq!(of(&[]).quantile(0.5), None);
        assert_eq!(of(&[7]).quantile(0.0), Some(Duration::from_nanos(64)));
    }

    #[cfg(feature = "prometheus")]
    #[test]
    fn v1_sums_up_to_a_power_of_two_are_exact() {
        let times: Vec<u64> =
            (0..60).flat_map(|n| [(1_u64 << n) - 1, 1 << n, (1 << n) + (1 << n) / 3]).collect();
        let histogram = of(&times);
        for power in FIRST_END..=LAST_END {
            let below = times.iter().filter(|nanos| **nanos < 1 << power).count();
            assert_eq!(histogram.below(power), below as u64, "2^{power}");
        }
        assert_eq!(of(&[]).below(LAST_END), 0);
    }

    #[test]
    fn a3_a_sample_stands_for_many_and_says_so() {
        let recorder = Recorder::default();
        recorder.record_own(Duration::from_micros(1), 32);
        recorder.record(Duration::from_millis(1), 1);
        let mut sum = Histogram::default();
        recorder.add_to(&mut sum);
        assert_eq!((sum.count(), sum.samples()), (33, 2));
        assert_eq!(sum.sum(), Duration::from_micros(1_032));
        assert!(sum.to_string().ends_with("33 in all (2 measured)"), "{sum}");
        sum.add_none(67);
        assert_eq!((sum.count(), sum.samples()), (100, 69));
        assert_eq!(sum.quantile(0.5), Some(Duration::from_nanos(64)));
    }

    #[test]
    fn a2_since_is_what_came_between() {
        let (early, late) = (of(&[100, 200]), of(&[100, 200, 300, 1 << 40]));
        let since = late.since(&early);
        assert_eq!((since.count(), since.samples()), (2, 2));
        assert_eq!(since.quantile(1.0), Some(Duration::MAX));
        assert_eq!(early.since(&late), Histogram { nanos: 0, ..Histogram::default() });
        let mut both = early.clone();
        both.add_all(&since);
        assert_eq!(both, late);
    }

    #[test]
    fn l5_extreme_times_do_not_overflow() {
        let recorder = Recorder::default();
        recorder.record_own(Duration::MAX, u64::MAX);
        let mut sum = Histogram::default();
        recorder.add_to(&mut sum);
        assert_eq!(sum.quantile(0.5), Some(Duration::MAX));
        assert!(sum.to_string().contains("above 137s"));
    }
}

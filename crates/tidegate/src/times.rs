//! How long tasks waited and ran, over the whole pool and by name (A2).
//!
//! Workers write to their own recorders (`line.rs`); what is here is written by whoever it
//! happens to, with read-modify-writes, and seldom on the path of a short task: waits for room,
//! and tasks with a name.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::histogram::{Histogram, Recorder};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64};

/// Of the short tasks that callers run, the time of one in so many is measured.
const CALLERS_SAMPLED: u64 = 16;
const LONG: Duration = Duration::from_micros(1);
/// So many names have a series of their own; the rest is `other`.
pub(crate) const MOST_NAMES: usize = 64;
pub(crate) const OTHER: &str = "other";

#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) submit_wait: Recorder,
    /// Of that the part for budgets, in nanoseconds.
    for_budgets: AtomicU64,
    /// Of tasks that callers ran.
    pub(crate) run_time: Recorder,
    /// The last of those that was timed, and whether it was worth it.
    callers_timed: AtomicU64,
    callers_long: AtomicBool,
    names: [OnceLock<(&'static str, Box<ByName>)>; MOST_NAMES],
    others: OnceLock<Box<ByName>>,
}

#[derive(Debug, Default)]
pub(crate) struct ByName {
    pub(crate) submit_wait: Recorder,
    pub(crate) queue_wait: Recorder,
    pub(crate) run_time: Recorder,
}

/// How long the tasks of one name waited and ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskTimes {
    /// The name given with [`Pool::task`](crate::Pool::task); beyond 64 names, `other`.
    pub name: Arc<str>,
    /// From the offer to the acceptance, of those that had to wait.
    pub submit_wait: Histogram,
    /// From the acceptance to the start, of those that were measured: while tasks take less
    /// than 20 µs, one in 64.
    pub queue_wait: Histogram,
    /// From the start to the return.
    pub run_time: Histogram,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            submit_wait: Recorder::default(),
            for_budgets: AtomicU64::new(0),
            run_time: Recorder::default(),
            callers_timed: AtomicU64::new(0),
            callers_long: AtomicBool::new(true),
            names: [const { OnceLock::new() }; MOST_NAMES],
            others: OnceLock::new(),
        }
    }
}

impl Times {
    /// The recorders for a name; None for the empty one.
    pub(crate) fn of(&self, name: &'static str) -> Option<&ByName> {
        if name.is_empty() {
            return None;
        }
        for place in &self.names {
            let (known, times) = place.get_or_init(|| (name, Box::default()));
            // Mostly the same literal, so mostly the same address.
            if std::ptr::eq(*known, name) || *known == name {
                return Some(times);
            }
        }
        Some(self.others.get_or_init(Box::default))
    }

    /// Whether the task that a caller runs as the `number`th of its kind is to be timed.
    pub(crate) fn is_caller_timed(&self, number: u64) -> bool {
        self.callers_long.load(Relaxed) || number % CALLERS_SAMPLED == 1
    }

    /// It took so long; it stands for those since the last that was timed.
    pub(crate) fn caller_ran(&self, number: u64, took: Duration) {
        let before = self.callers_timed.fetch_max(number, Relaxed);
        if let Some(weight @ 1..) = number.checked_sub(before) {
            self.run_time.record(took, weight);
        }
        self.callers_long.store(took > LONG, Relaxed);
    }

    /// Somebody was let in who had waited, for budgets first and then for room.
    pub(crate) fn submitted(&self, name: &'static str, for_budgets: Duration, for_room: Duration) {
        let waited = for_budgets.saturating_add(for_room);
        // Before the whole, and read after it: what is left for the room is rather too little.
        if !for_budgets.is_zero() {
            let nanos = u64::try_from(for_budgets.as_nanos()).unwrap_or(u64::MAX);
            self.for_budgets.fetch_add(nanos, Relaxed);
        }
        self.submit_wait.record(waited, 1);
        if let Some(times) = self.of(name) {
            times.submit_wait.record(waited, 1);
        }
    }

    /// How long those who were let in had waited for budgets, all together.
    pub(crate) fn budget_wait(&self) -> Duration {
        Duration::from_nanos(self.for_budgets.load(Relaxed))
    }

    pub(crate) fn by_name(&self) -> Vec<TaskTimes> {
        let named = self.names.iter().filter_map(OnceLock::get);
        let named = named.map(|(name, times)| (*name, times));
        let all = named.chain(self.others.get().map(|times| (OTHER, times)));
        all.map(|(name, times)| times.read(name)).collect()
    }
}

impl ByName {
    fn read(&self, name: &str) -> TaskTimes {
        let mut times = TaskTimes { name: name.into(), ..TaskTimes::default() };
        self.submit_wait.add_to(&mut times.submit_wait);
        self.queue_wait.add_to(&mut times.queue_wait);
        self.run_time.add_to(&mut times.run_time);
        times
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a2_names_are_bounded_and_the_rest_is_other() {
        let times = Times::default();
        static NAMES: OnceLock<Vec<String>> = OnceLock::new();
        let names = NAMES.get_or_init(|| (0..70).map(|n| format!("task {n}")).collect());
        for name in names.iter().chain(names) {
            times.of(name).unwrap().run_time.record(Duration::from_millis(1), 1);
        }
        assert!(times.of("").is_none());
        let read = times.by_name();
        assert_eq!(read.len(), MOST_NAMES + 1);
        assert_eq!((&*read[0].name, read[0].run_time.count()), ("task 0", 2));
        assert_eq!((&*read[64].name, read[64].run_time.count()), (OTHER, 12));
    }

    #[test]
    fn a3_callers_are_timed_one_by_one_while_it_pays() {
        let times = Times::default();
        let mut timed = Vec::new();
        for number in 1..=40 {
            if times.is_caller_timed(number) {
                let short = number > 3;
                times.caller_ran(number, Duration::from_nanos(if short { 100 } else { 5_000 }));
                timed.push(number);
            }
        }
        assert_eq!(timed, [1, 2, 3, 4, 17, 33]);
        let mut run_time = Histogram::default();
        times.run_time.add_to(&mut run_time);
        assert_eq!(run_time.count(), 33, "never more than there were");
    }

    #[test]
    fn a2_equal_names_are_one_wherever_they_lie() {
        let times = Times::default();
        let (name, copy) = ("resize", &"to resize"[3..]);
        assert_ne!(name.as_ptr(), copy.as_ptr());
        times.of(name).unwrap().run_time.record(Duration::ZERO, 1);
        times.of(copy).unwrap().run_time.record(Duration::ZERO, 1);
        assert_eq!(times.by_name().len(), 1);
    }
}

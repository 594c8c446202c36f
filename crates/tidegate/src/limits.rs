//! Time limits of tasks, watched without a timer per task.
//!
//! A limit is stored where the task is: in its cell, or on its worker's line. One word says
//! when the earliest of them may pass; then the supervisor looks at all of them.
//!
//! ```text
//!  task:        store the limit, then read `earliest`; if that is later, lower it and wake
//!  supervisor:  set `earliest` to never by RMW, then look at all limits      one of the two
//!               then lower it to the next one                              sees the other
//! ```
//!
//! Tasks with limits of about the same length come in the order of their ends, so hardly
//! any of them has to lower the word.

use std::time::Duration;

use crate::clock::Ticks;
use crate::sync::Padded;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};

/// How exactly limits are kept: two looks are at least this far apart.
const RESOLUTION: Duration = Duration::from_millis(1);
/// A look at a long queue takes a while: at most every so many times as long. But no longer
/// than this: it may have been held up by the scheduler, not by the queue.
const SHARE: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Limits {
    earliest: Padded<AtomicU64>,
    /// The supervisor's own: not before that time.
    next_look: AtomicU64,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Limits { earliest: Padded(AtomicU64::new(u64::MAX)), next_look: AtomicU64::new(0) }
    }

    /// A limit was stored. True: the supervisor must be woken.
    #[inline]
    pub(crate) fn note(&self, at: Ticks) -> bool {
        at.0 < self.earliest.load(SeqCst) && at.0 < self.earliest.fetch_min(at.0, SeqCst)
    }

    /// When to look.
    pub(crate) fn due(&self) -> Ticks {
        let earliest = self.earliest.load(SeqCst);
        if earliest == u64::MAX {
            return Ticks::NEVER;
        }
        Ticks(earliest.max(self.next_look.load(Relaxed)))
    }

    pub(crate) fn begin_look(&self) {
        self.earliest.swap(u64::MAX, SeqCst);
        // Pairs with that of `RunEnv::show`: a task that begins stores its limit before it.
        fence(SeqCst);
    }

    /// `next`: the earliest that has not passed. `took`: how long the look was; None by a clock
    /// that a test turns, which nobody may have to turn once more for the next look.
    pub(crate) fn end_look(&self, next: Ticks, now: Ticks, took: Option<Duration>) {
        let pause = |took: Duration| took.saturating_mul(SHARE).clamp(RESOLUTION, LONGEST_PAUSE);
        self.next_look.store(now.after(took.map_or(Duration::ZERO, pause)).0, Relaxed);
        self.earliest.fetch_min(next.0, SeqCst);
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::{Clock, Pool, Shutdown};

    const MS: u64 = 1_000_000;

    #[test]
    fn l3_only_an_earlier_limit_wakes() {
        let limits = Limits::new();
        assert_eq!(limits.due(), Ticks::NEVER);
        assert!(!limits.note(Ticks::NEVER));
        assert!(limits.note(Ticks(9 * MS)));
        assert!(!limits.note(Ticks(9 * MS)) && !limits.note(Ticks(20 * MS)));
        assert!(limits.note(Ticks(5 * MS)));
        assert_eq!(limits.due(), Ticks(5 * MS));
    }

    #[test]
    fn l3_looks_are_a_resolution_apart() {
        let limits = Limits::new();
        limits.note(Ticks(5 * MS));
        limits.begin_look();
        limits.end_look(Ticks(5 * MS + 10), Ticks(5 * MS), Some(Duration::ZERO));
        assert_eq!(limits.due(), Ticks(6 * MS));
        limits.begin_look();
        limits.end_look(Ticks(60 * MS), Ticks(6 * MS), Some(Duration::from_millis(2)));
        assert_eq!(limits.due(), Ticks(60 * MS), "far enough away");
        assert!(limits.note(Ticks(7 * MS)));
        assert_eq!(limits.due(), Ticks(26 * MS), "a long look is not repeated at once");
        limits.begin_look();
        limits.end_look(Ticks(30 * MS), Ticks(26 * MS), Some(Duration::from_secs(5)));
        assert_eq!(limits.due(), Ticks(126 * MS), "nor put off for ever");
    }

    #[test]
    fn l3_by_a_clock_that_a_test_turns_looks_do_not_wait_for_each_other() {
        let limits = Limits::new();
        limits.note(Ticks(5 * MS));
        limits.begin_look();
        limits.end_look(Ticks::NEVER, Ticks(5 * MS), None);
        assert!(limits.note(Ticks(5 * MS)), "of a task that was just about to begin");
        assert_eq!(limits.due(), Ticks(5 * MS));
    }

    /// Two limits that pass at one moment, the second noted after the look for the first.
    #[test]
    fn l3_a_clock_need_not_be_turned_twice_for_one_moment() -> Result<(), Box<dyn std::error::Error>>
    {
        let (clock, hand) = Clock::manual();
        let pool = Pool::builder("turned").workers(1).clock(clock).build()?;
        let begun = Arc::new(Barrier::new(2));
        let run = |limit| {
            let begun = Arc::clone(&begun);
            pool.task("").timeout(limit).submit(move |cx| {
                begun.wait();
                cx.token().wait();
            })
        };
        for limit in [5 * MS, 0] {
            let task = run(Duration::from_nanos(limit))?;
            begun.wait();
            hand.advance(Duration::from_nanos(limit));
            assert!(task.wait().unwrap_err().is_timed_out());
        }
        pool.shutdown(Shutdown::default())?;
        Ok(())
    }

    #[test]
    fn l3_what_comes_during_a_look_is_not_forgotten() {
        let limits = Limits::new();
        limits.note(Ticks(5 * MS));
        limits.begin_look();
        assert!(limits.note(Ticks(8 * MS)));
        limits.end_look(Ticks(30 * MS), Ticks(5 * MS), Some(Duration::ZERO));
        assert_eq!(limits.due(), Ticks(8 * MS));
    }
}

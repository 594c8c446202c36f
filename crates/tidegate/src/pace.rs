//! Short mode: while tasks are so short that one worker does best, the others sleep.
//!
//! A wake-up costs as much as a hundred short tasks, and a second worker makes ring and
//! cells travel between cores. So:
//!
//! ```text
//!  on    most of a worker's last WINDOW tasks were short, they came fast, no submitter waits
//!        → a submit wakes nobody as long as a worker is active,
//!          and whoever finds out that another one is active goes to sleep
//!  off   they were not, or one worker can't keep up (a submitter waits); or the
//!        supervisor, who looks every LOOK while the mode is on, finds the queue standing
//!        still behind a long task, or nothing to do
//! ```
//!
//! A machine that takes the core away for a moment makes any task look long, and who leaves the
//! mode for that pays with a wake-up, which takes cores away from others. So one long sample
//! decides nothing: two in a row do, and of a window the larger part.
//!
//! Only the supervisor's looks bound how long a task can stand behind a long one while a
//! worker sleeps (R7): two of them. It costs some CPU, which an idle pool does not pay.

use std::time::Duration;

use crate::clock::Ticks;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::{MODELLED, Padded};

/// Tasks that take less, on the average, overhead included, are short.
const SHORT: Duration = Duration::from_nanos(250);
/// Tasks that take more are not worth saving a look at the clock.
const LONG: Duration = Duration::from_nanos(1_000);
/// Otherwise it is read once for so many, after a rest for fewer: there may be others now.
const CLOCK_EVERY: u32 = 32;
const AFTER_REST: u32 = 4;
/// From here on two more looks at the clock for each task do not matter; below, after so many
/// readings in a row, they do.
const WATCH_EACH_FROM: Duration = Duration::from_micros(20);
const QUICK: u32 = 8;
/// Short tasks come fast if a worker gets one at least this often.
const FAST: Duration = Duration::from_nanos(2_000);
/// So many tasks decide.
const WINDOW: u32 = 256;
/// Of those, so many must be short, while all together keep the worker busy for no longer than
/// four short ones each.
const MOST: u32 = WINDOW / 4 * 3;
/// How often the supervisor looks.
const LOOK: Duration = Duration::from_micros(300);
/// After so many looks without any task the mode ends: the pool is idle.
const IDLE_LOOKS: u32 = 10;

#[derive(Debug)]
pub(crate) struct Pace {
    short: Padded<AtomicBool>,
    possible: bool,
}

/// What a worker remembers of its last tasks.
#[derive(Debug)]
pub(crate) struct Stride {
    /// The last tasks were not worth saving a look at the clock.
    long: bool,
    /// After how many tasks to read it again.
    every: u32,
    /// Tasks since a rest.
    going: u32,
    /// Readings in a row that found tasks too short to watch each.
    quick: u32,
    /// Tasks in the window, how many were short, since when, and how long they kept the
    /// worker busy.
    tasks: u32,
    short: u32,
    first: u64,
    busy_nanos: u64,
    /// Until when `busy` has been counted.
    last: u64,
}

/// What the supervisor remembers between two looks.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    last: u64,
    head: u64,
    idle: u32,
}

/// What a sample or a look leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Stay,
    On,
    Off,
}

impl Pace {
    /// Off for good where a nap of `LOOK` can't be had, and where time is a test's.
    pub(crate) fn new(real_time: bool) -> Self {
        let possible = real_time && cfg!(unix) && !MODELLED;
        Pace { short: Padded(AtomicBool::new(false)), possible }
    }

    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(SeqCst)
    }

    /// True if that changed something.
    pub(crate) fn turn(&self, turn: Turn) -> bool {
        match turn {
            Turn::Stay => false,
            Turn::On => self.possible && !self.short.swap(true, SeqCst),
            Turn::Off => self.is_short() && self.short.swap(false, SeqCst),
        }
    }
}

/// Nobody knows yet how long its tasks are.
impl Default for Stride {
    fn default() -> Self {
        let (tasks, short, first, busy_nanos, last) = (0, 0, 0, 0, 0);
        Stride { long: false, every: 1, going: 0, quick: 0, tasks, short, first, busy_nanos, last }
    }
}

impl Stride {
    /// The first task after a rest begins.
    pub(crate) fn begin(&mut self, now: Ticks) {
        self.last = now.0;
        self.going = 0;
        self.every = self.every.min(AFTER_REST);
    }

    /// Since the last rest there was more than a handful.
    pub(crate) fn is_going(&self) -> bool {
        self.going >= CLOCK_EVERY
    }

    /// After how many tasks to read the clock again. Beside a long one a reading costs
    /// nothing, and the roster gets its start; so it is saved only where tasks were short.
    pub(crate) fn every(&self) -> u32 {
        self.every
    }

    /// How long since the last reading.
    pub(crate) fn since_last(&self, now: Ticks) -> Duration {
        now.since(Ticks(self.last))
    }

    /// Whether the wait of each task is to be measured, not that of one in 64. One that is short
    /// among others decides nothing.
    pub(crate) fn pays_to_watch(&mut self, took: Duration, ran: u32) -> bool {
        let quick = took < WATCH_EACH_FROM * ran;
        self.quick = if quick { self.quick.saturating_add(1) } else { 0 };
        self.quick < QUICK
    }

    /// `ran` tasks since the last reading.
    pub(crate) fn sample(&mut self, now: Ticks, ran: u32, submitters_wait: bool) -> Turn {
        let took = now.since(Ticks(self.last));
        self.last = now.0;
        self.busy_nanos += took.as_nanos() as u64;
        self.tasks += ran;
        self.going = self.going.saturating_add(ran);
        let was_long = std::mem::replace(&mut self.long, took > LONG * ran);
        self.every = if self.long { 1 } else { (2 * self.every).min(CLOCK_EVERY) };
        if took <= SHORT * ran {
            self.short += ran;
        }
        if submitters_wait || was_long && self.long {
            self.start_over(now);
            return Turn::Off;
        }
        if self.tasks < WINDOW {
            return Turn::Stay;
        }
        let short =
            self.short >= MOST && Duration::from_nanos(self.busy_nanos) <= 4 * SHORT * self.tasks;
        let fast = now.since(Ticks(self.first)) <= FAST * self.tasks;
        self.start_over(now);
        if short && fast { Turn::On } else { Turn::Off }
    }

    fn start_over(&mut self, now: Ticks) {
        (self.first, self.tasks, self.short, self.busy_nanos) = (now.0, 0, 0, 0);
    }
}

impl Looks {
    /// When to look next. Being woken in between does not put it off.
    pub(crate) fn due(&mut self, now: Ticks) -> Ticks {
        if now.since(Ticks(self.last)) > 2 * LOOK {
            *self = Looks { last: now.0, ..Looks::default() }; // the mode was off meanwhile
        }
        Ticks(self.last).after(LOOK)
    }

    pub(crate) fn look(&mut self, now: Ticks, head: u64, waiting: bool) -> Turn {
        self.last = now.0;
        let moved = head != self.head;
        self.head = head;
        self.idle = if moved { 0 } else { self.idle + 1 };
        if !moved && (waiting || self.idle >= IDLE_LOOKS) { Turn::Off } else { Turn::Stay }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    fn after(us: u64) -> Ticks {
        Ticks(1_000 * us)
    }

    /// 32 more tasks have run.
    fn sample(stride: &mut Stride, us: u64) -> Turn {
        stride.sample(after(us), 32, false)
    }

    /// A window of eight samples, `us` each, after a rest of `rest`.
    fn window(stride: &mut Stride, from: u64, us: u64, rest: u64) -> (u64, Turn) {
        let mut now = from;
        for left in (0..8).rev() {
            now += rest;
            stride.begin(after(now));
            now += us;
            let turn = sample(stride, now);
            if left == 0 {
                return (now, turn);
            }
            assert_eq!(turn, Turn::Stay);
        }
        unreachable!()
    }

    #[test]
    fn short_tasks_that_come_fast_turn_it_on() {
        let mut stride = Stride::default();
        stride.start_over(after(0));
        let (now, turn) = window(&mut stride, 0, 8, 0);
        assert_eq!(turn, Turn::On, "250 ns each");
        let (now, turn) = window(&mut stride, now, 9, 0);
        assert_eq!(turn, Turn::Off, "280 ns each");
        let (now, turn) = window(&mut stride, now, 8, 56);
        assert_eq!(turn, Turn::On, "with rests, one each two microseconds");
        let (_, turn) = window(&mut stride, now, 8, 57);
        assert_eq!(turn, Turn::Off, "too seldom");
    }

    #[test]
    fn long_tasks_or_a_waiting_submitter_turn_it_off_at_once() {
        let mut stride = Stride::default();
        stride.begin(after(0));
        assert_eq!(sample(&mut stride, 32), Turn::Stay);
        assert_eq!(sample(&mut stride, 32 + 33), Turn::Stay, "the core may have been away");
        assert_eq!(stride.sample(after(65 + 2), 1, false), Turn::Off, "two in a row are long");
        assert_eq!(stride.sample(after(68), 32, true), Turn::Off);
    }

    #[test]
    fn a_core_that_is_taken_away_now_and_then_does_not_turn_it_off() {
        let windows = |away: u64| {
            let mut stride = Stride::default();
            stride.start_over(after(0));
            stride.begin(after(0));
            let mut now = 0;
            let mut turn = Turn::Stay;
            for number in 0..8 {
                now += if number % 4 == 1 { away } else { 8 };
                assert_eq!(turn, Turn::Stay);
                turn = sample(&mut stride, now);
            }
            turn
        };
        assert_eq!(windows(100), Turn::On, "a quarter was interrupted");
        assert_eq!(windows(105), Turn::Off, "there must be long tasks among them");
    }

    #[test]
    fn the_clock_is_read_beside_each_long_task() {
        let mut stride = Stride::default();
        let mut every = |us: u64| {
            let ran = stride.every();
            stride.sample(after(us), ran, false);
            stride.every()
        };
        assert_eq!(every(2), 1, "2 µs");
        assert_eq!([3, 4, 5, 6, 7, 8].map(&mut every), [2, 4, 8, 16, 32, 32], "half of one each");
        assert_eq!(every(1_000), 1);
        stride.begin(after(2_000));
        assert_eq!(stride.every(), 1, "a rest does not make it less");
        stride.every = CLOCK_EVERY;
        stride.begin(after(3_000));
        assert_eq!(stride.every(), AFTER_REST);
    }

    #[test]
    fn a_queue_that_stands_still_ends_it_at_the_second_look() {
        let mut looks = Looks::default();
        assert_eq!(looks.look(after(0), 7, true), Turn::Stay);
        assert_eq!(looks.look(after(0), 8, true), Turn::Stay, "it moves");
        assert_eq!(looks.look(after(0), 8, true), Turn::Off);
    }

    #[test]
    fn looks_come_at_their_time_also_if_somebody_wakes_us() {
        let mut looks = Looks::default();
        assert_eq!(looks.due(after(5_000)), after(5_300));
        assert_eq!(looks.due(after(5_200)), after(5_300));
        looks.look(after(5_310), 7, true);
        assert_eq!(looks.due(after(5_310)), after(5_610));
        assert_eq!(looks.due(after(9_000)), after(9_300), "it was off in between");
        assert_eq!(looks.look(after(9_300), 7, true), Turn::Stay, "and starts anew");
    }

    #[test]
    fn an_idle_pool_leaves_it_after_a_while() {
        let mut looks = Looks::default();
        looks.look(after(0), 7, false);
        for _ in 1..IDLE_LOOKS {
            assert_eq!(looks.look(after(0), 7, false), Turn::Stay);
        }
        assert_eq!(looks.look(after(0), 7, false), Turn::Off);
        assert_eq!(looks.look(after(0), 9, false), Turn::Stay);
    }

    #[test]
    fn where_time_is_a_tests_it_stays_off() {
        let pace = Pace::new(false);
        assert!(!pace.turn(Turn::On) && !pace.is_short());
        let pace = Pace::new(true);
        assert_eq!(pace.turn(Turn::On), cfg!(unix));
        assert!(!pace.turn(Turn::On), "once");
        assert_eq!(pace.turn(Turn::Off), cfg!(unix));
        assert!(!pace.turn(Turn::Off), "once");
    }
}

//! How long the head of the queue has waited, without a clock in any submit.
//!
//! Tasks are numbered in the order in which they came. The supervisor notes now and then how
//! many there were; a task whose number is below such a note was there at that time. So the
//! wait of the head is at least the age of the first note above it, and too short by no more
//! than the time between two notes.

use std::time::Duration;

use crate::clock::Ticks;

/// Notes that are kept. When they run out every second one goes, and new ones are made half as
/// often: the longer the wait, the less does its exact length matter.
const NOTES: usize = 8;
/// Whoever finds a full queue waits, too, but not for lack of workers if the queue moves as
/// fast as this: then one does best (`pace.rs`).
const FAST: Duration = Duration::from_micros(1);

/// What the supervisor sees of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// How many tasks ever came, and the number of the one at the head.
    pub(crate) issued: u64,
    pub(crate) head: u64,
    /// There is no room, or somebody waits for some.
    pub(crate) full: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// (when, how many had come), oldest first.
    notes: Vec<(Ticks, u64)>,
    /// How often they have run out since there were hardly any.
    thinned: u32,
    last: Option<(Ticks, Line)>,
    full_since: Option<Ticks>,
}

impl Gauge {
    /// True if something has come since the last reading.
    pub(crate) fn has_news(&self, line: Line) -> bool {
        self.last.map_or(0, |(_, last)| last.issued) != line.issued
    }

    /// At least how long the head has waited, or whoever would be next in a full queue.
    /// Notes are at least `spacing` apart, and no further while waits are short.
    pub(crate) fn read(&mut self, now: Ticks, line: Line, spacing: Duration) -> Duration {
        self.note(now, line.issued, spacing);
        self.notes.retain(|(_, issued)| *issued > line.head);
        if self.notes.len() < 2 {
            self.thinned = 0;
        }
        let fast = self.last.is_some_and(|(at, last)| {
            let moved = u32::try_from(line.head.saturating_sub(last.head)).unwrap_or(u32::MAX);
            now.since(at) < FAST.saturating_mul(moved)
        });
        self.full_since = if line.full && !fast { self.full_since.or(Some(now)) } else { None };
        self.last = Some((now, line));
        let first = self.notes.first().map(|(at, _)| *at);
        let since = first.unwrap_or(now).min(self.full_since.unwrap_or(now));
        now.since(since)
    }

    /// What was, says nothing about what is: the pool was paused.
    pub(crate) fn forget(&mut self) {
        *self = Gauge::default();
    }

    fn note(&mut self, now: Ticks, issued: u64, spacing: Duration) {
        let spacing = spacing.saturating_mul(1 << self.thinned.min(20));
        match self.notes.last_mut() {
            Some((at, _)) if *at > now || now.since(*at) < spacing && *at != now => return,
            Some((at, before)) if *at == now => *before = issued,
            Some((_, before)) if *before == issued => return,
            _ => self.notes.push((now, issued)),
        }
        if self.notes.len() > NOTES {
            self.thinned += 1;
            let mut number = 0;
            self.notes.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Ticks {
        Ticks(1_000_000 * ms)
    }

    fn waited(gauge: &mut Gauge, ms: u64, issued: u64, head: u64) -> u64 {
        let line = Line { issued, head, full: false };
        gauge.read(at(ms), line, 2 * MS).as_millis() as u64
    }

    #[test]
    fn w4_the_head_has_waited_since_it_was_first_seen() {
        let mut gauge = Gauge::default();
        assert_eq!(waited(&mut gauge, 0, 5, 5), 0, "nothing is queued");
        assert_eq!(waited(&mut gauge, 10, 6, 5), 0, "it came since the last look");
        assert_eq!(waited(&mut gauge, 13, 9, 5), 3);
        assert_eq!(waited(&mut gauge, 20, 9, 5), 10, "nothing new, but time goes by");
        assert_eq!(waited(&mut gauge, 21, 9, 6), 8, "those behind came later");
        assert_eq!(waited(&mut gauge, 22, 12, 9), 0, "the queue was empty for a moment");
    }

    #[test]
    fn w4_notes_are_apart_and_do_not_run_out() {
        let mut gauge = Gauge::default();
        for ms in 0..1_000 {
            let says = waited(&mut gauge, ms, 10 + ms, 0);
            assert_eq!(says, ms, "the head stands still");
            assert!(gauge.notes.len() <= NOTES);
        }
        // A thousand tasks and more have come, one a millisecond: it moves again.
        let says = waited(&mut gauge, 1_000, 1_010, 500);
        assert!((240..=509).contains(&says), "number 500 came at 491: {says}");
        assert_eq!(waited(&mut gauge, 1_001, 1_010, 1_010), 0);
    }

    #[test]
    fn w4_a_second_look_at_the_same_time_sees_more() {
        let mut gauge = Gauge::default();
        waited(&mut gauge, 7, 1, 0);
        waited(&mut gauge, 7, 2, 1);
        assert_eq!(waited(&mut gauge, 12, 2, 1), 5, "the second one came at 7, too");
    }

    #[test]
    fn w4_a_full_queue_waits_unless_it_moves_fast() {
        let mut gauge = Gauge::default();
        let mut read = |ms, head| {
            let line = Line { issued: head + 1, head, full: true };
            gauge.read(at(ms), line, MS).as_millis()
        };
        assert_eq!(read(0, 0), 0);
        assert_eq!(read(4, 3), 4, "one place, and somebody always waits for it");
        assert_eq!(read(8, 4_003), 8, "a microsecond each");
        assert_eq!(read(12, 8_005), 0, "faster: more workers would not help");
        let line = Line { issued: 8_010, head: 8_009, full: false };
        assert_eq!(gauge.read(at(20), line, MS), Duration::ZERO);
        assert!(!gauge.has_news(line) && gauge.has_news(Line { issued: 8_011, ..line }));
    }

    #[test]
    fn w4_what_was_before_a_pause_is_forgotten() {
        let mut gauge = Gauge::default();
        waited(&mut gauge, 0, 3, 0);
        gauge.forget();
        assert_eq!(waited(&mut gauge, 500, 3, 0), 0);
        assert_eq!(waited(&mut gauge, 510, 3, 0), 10);
    }
}

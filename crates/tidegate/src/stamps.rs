//! When tasks came into the queue, for as many as it pays to know.
//!
//! A producer that has published ticket `t` leaves the time under it, if it is one of those
//! that are watched: all of them while tasks are long, one in 64 while they are short. Whoever
//! takes the ticket looks there, and what it finds stands for all tickets since the last that
//! was found. It may come too early and find nothing: then the next one stands for it. Nobody
//! waits for anybody, and never are there more than there were tickets.

use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Of a longer queue not every ticket has a place of its own.
const MOST_PLACES: u64 = 1_024;
/// While tasks are short, one in so many is watched.
const SELDOM: u64 = 64;

#[derive(Debug)]
pub(crate) struct Stamps {
    clock: Clock,
    places: Box<[Place]>,
    /// A ticket with none of these bits is watched.
    skip: AtomicU64,
    /// The number of tickets that were stood for.
    counted: AtomicU64,
    /// The least of `skip`: with fewer bits two waiting tickets would share a place.
    finest: u64,
}

/// Tickets from 1 on, so that 0 is nobody's.
#[derive(Debug, Default)]
struct Place {
    ticket: AtomicU64,
    at: AtomicU64,
}

impl Stamps {
    /// For as many tickets as can wait at a time.
    pub(crate) fn new(clock: Clock, waiting: u64) -> Self {
        let waiting = waiting.max(1).next_power_of_two();
        let places = waiting.min(MOST_PLACES);
        let finest = waiting / places - 1;
        Stamps {
            clock,
            places: (0..places).map(|_| Place::default()).collect(),
            skip: AtomicU64::new(finest),
            counted: AtomicU64::new(0),
            finest,
        }
    }

    /// Ticket `t` was published.
    #[inline(always)]
    pub(crate) fn came(&self, t: u64) {
        if t & self.skip.load(Relaxed) == 0 {
            self.note(t);
        }
    }

    #[cold]
    fn note(&self, t: u64) {
        let place = self.place(t);
        place.ticket.store(0, Release); // a reader in between finds neither
        place.at.store(self.clock.now().0, Release);
        place.ticket.store(t + 1, Release);
    }

    /// Ticket `t` was taken: how long it has waited, and for how many it stands.
    #[inline(always)]
    pub(crate) fn went(&self, t: u64) -> Option<(Duration, u64)> {
        if t & self.skip.load(Relaxed) == 0 { self.look(t) } else { None }
    }

    #[cold]
    fn look(&self, t: u64) -> Option<(Duration, u64)> {
        let place = self.place(t);
        if place.ticket.load(Acquire) != t + 1 {
            return None;
        }
        let at = place.at.load(Acquire);
        if place.ticket.load(Acquire) != t + 1 {
            return None;
        }
        let before = self.counted.fetch_max(t + 1, Relaxed);
        // Those that nobody looked for; where everybody is, each stands for itself.
        let weight = match self.skip.load(Relaxed) {
            0 => 1,
            skip => (t + 1).saturating_sub(before).min(skip + 1),
        };
        (weight > 0).then(|| (self.clock.now().since(Ticks(at)), weight))
    }

    /// Whether tasks are so long that two looks at the clock for each do not matter.
    pub(crate) fn watch_all(&self, all: bool) {
        let skip = if all { self.finest } else { self.finest.max(SELDOM - 1) };
        if self.skip.load(Relaxed) != skip {
            self.skip.store(skip, Relaxed);
        }
    }

    fn place(&self, t: u64) -> &Place {
        let number = (t / (self.finest + 1)) as usize;
        &self.places[number & (self.places.len() - 1)]
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a2_each_ticket_is_watched_while_tasks_are_long() {
        let (clock, hand) = Clock::manual();
        let stamps = Stamps::new(clock, 10);
        for t in 0..100 {
            stamps.came(t);
            hand.advance(SECOND);
            assert_eq!(stamps.went(t), Some((SECOND, 1)), "{t}");
        }
        assert_eq!(stamps.went(100), None, "taken before it was noted");
    }

    #[test]
    fn a2_a_full_queue_has_a_place_for_each_that_is_watched() {
        for waiting in [1, 2, 1_000, 1_024, 1_025, 65_536] {
            let (clock, hand) = Clock::manual();
            let stamps = Stamps::new(clock, waiting);
            (0..waiting).for_each(|t| stamps.came(t));
            hand.advance(SECOND);
            let mut seen = 0;
            for t in 0..waiting {
                if let Some((waited, weight)) = stamps.went(t) {
                    assert_eq!(waited, SECOND);
                    seen += weight;
                }
            }
            assert!(seen <= waiting && seen + 64 > waiting, "{seen} of {waiting}");
        }
    }

    #[test]
    fn a3_short_tasks_are_watched_seldom() {
        let (clock, hand) = Clock::manual();
        let stamps = Stamps::new(clock, 1_000);
        stamps.watch_all(false);
        let mut samples = Vec::new();
        for t in 0..1_000 {
            stamps.came(t);
            hand.advance(SECOND);
            samples.extend(stamps.went(t));
        }
        assert_eq!(samples[0], (SECOND, 1));
        assert_eq!(samples[1..], vec![(SECOND, SELDOM); 15]);
        stamps.watch_all(true);
        stamps.came(1_000);
        assert_eq!(stamps.went(1_000), Some((Duration::ZERO, 1)), "each for itself again");
    }

    #[test]
    fn a_place_that_was_given_on_says_nothing() {
        let (clock, _hand) = Clock::manual();
        let stamps = Stamps::new(clock, 4);
        stamps.came(1);
        stamps.came(5); // the same place, one lap later
        assert_eq!((stamps.went(1), stamps.went(5)), (None, Some((Duration::ZERO, 1))));
    }
}

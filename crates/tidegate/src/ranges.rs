//! Items shared out between participants; who has none left takes from the others.
//!
//! ```text
//!  a range:   taken ──▶│ next ········· end │◀── the back half, by a thief
//!
//!  owner      next += 1, then reads end             one of the two
//!  thief      end := middle, then reads next        sees the other
//! ```
//!
//! The owner takes the front item with two plain instructions: between them is the frequent side
//! of a pair of fences (`fences.rs`), which is mostly free. A thief takes the back half, under the
//! range's lock, which keeps other thieves out; between its steps is the rare side. If it then
//! finds the owner at or before `middle`, what is behind that is its own: the owner has not taken
//! it, and will find `end` moved. Otherwise it puts `end` back, and nothing was taken. An owner that
//! finds `end` reached, perhaps only because a thief is there, looks again under the lock. So every
//! item that nobody has begun can be taken by whoever has nothing else, however long the one
//! before it takes. (This is the protocol of Cilk's deque, for ranges.)
//!
//! Only the owner writes `next`; `end` is written under the lock. Nothing is published through
//! these words, hence `Relaxed`.
//!
//! What a thief has taken is in no range for a moment. Who finds nothing while somebody moves
//! something looks again, a bounded number of times, and lets others have the core meanwhile:
//! the items may be long, and the thief may have lost its own.

use crate::fences::Fences;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Lock, MODELLED, Padded, snooze, steps};

/// How often to look again while a range is on its way.
const LOOKS: u32 = steps(200);
/// Who will be through its items within so many pauses of a thief (100 µs or so) is left alone, if
/// it was seen to get on. To take from it costs as much: the thief's fence stops the owner, and who
/// meets the other at the range's lock may have to be woken.
const NEARLY_DONE: u64 = 200;
/// For so many pauses a thief looks whether an owner gets on: short items wait for a page of the
/// results now and then.
const PAUSES: u64 = 8;

pub(crate) struct Ranges {
    ranges: Box<[Padded<Range>]>,
    fences: Fences,
    /// How many moves were begun, and how many are over.
    begun: AtomicU64,
    over: AtomicU64,
}

struct Range {
    next: AtomicU32,
    end: AtomicU32,
    thieves: Lock<()>,
}

/// What one participant takes its items with. Nothing of it is anywhere else, so that it stays
/// in registers.
pub(crate) struct Hand<'r> {
    ranges: &'r Ranges,
    own: &'r Range,
    fences: Fences,
    me: usize,
    /// As in its range.
    next: u32,
}

impl Ranges {
    /// So many items at most: the owner of an empty range counts one further.
    pub(crate) const MOST: u32 = u32::MAX - 1;

    /// The items `0..items`, in equal parts.
    pub(crate) fn new(items: u32, participants: usize, fences: Fences) -> Self {
        debug_assert!(items <= Ranges::MOST);
        let part = |n: usize| (u64::from(items) * n as u64 / participants as u64) as u32;
        let range = |n| {
            let (next, end) = (AtomicU32::new(part(n)), AtomicU32::new(part(n + 1)));
            Padded(Range { next, end, thieves: Lock::default() })
        };
        let ranges = (0..participants).map(range).collect();
        Ranges { ranges, fences, begun: AtomicU64::new(0), over: AtomicU64::new(0) }
    }

    /// For participant `me`, who has one at a time.
    #[inline(always)]
    pub(crate) fn hand(&self, me: usize) -> Hand<'_> {
        let own = &self.ranges[me].0;
        Hand { ranges: self, own, fences: self.fences, me, next: own.next.load(Relaxed) }
    }

    /// The item that participant `me` was given last, until it asks for another.
    pub(crate) fn last(&self, me: usize) -> u32 {
        self.ranges[me].next.load(Relaxed) - 1
    }
}

impl Hand<'_> {
    /// The item that comes next, unless somebody takes it or there is none.
    #[inline(always)]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// An item. None: all are taken.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u32> {
        let at = self.next;
        self.own.next.store(at + 1, Relaxed);
        self.fences.frequent();
        let at = if at < self.own.end.load(Relaxed) {
            at
        } else {
            self.ranges.take_slowly(self.me, at)?
        };
        self.next = at + 1;
        Some(at)
    }
}

impl Ranges {
    /// For participant `me`, who wanted `at`.
    #[cold]
    #[inline(never)]
    fn take_slowly(&self, me: usize, at: u32) -> Option<u32> {
        let own = &self.ranges[me].0;
        {
            let _no_thief = own.thieves.lock();
            if at < own.end.load(Relaxed) {
                return Some(at);
            }
            own.next.store(at, Relaxed);
        }
        self.steal(me)
    }

    fn steal(&self, me: usize) -> Option<u32> {
        let mut step = 0;
        loop {
            let over = self.over.load(SeqCst);
            let patient = step < LOOKS;
            match self.steal_once(me, patient) {
                Found::Items(middle, _) => return Some(middle),
                Found::Later => {}
                Found::Nothing if patient && self.begun.load(SeqCst) != over => {}
                Found::Nothing => return None,
            }
            snooze(step);
            step += 1;
        }
    }

    fn steal_once(&self, me: usize, patient: bool) -> Found {
        let mut best = Found::Nothing;
        let all = self.ranges.len();
        for victim in (1..all).map(|n| &self.ranges[(me + n) % all].0) {
            if victim.left() == 0 {
                continue;
            }
            if patient && victim.is_nearly_done() {
                best = Found::Later;
                continue;
            }
            self.begun.fetch_add(1, SeqCst);
            let found = victim.give_half(self.fences);
            if let Found::Items(middle, end) = found {
                let own = &self.ranges[me].0;
                let _no_thief = own.thieves.lock();
                own.next.store(middle + 1, Relaxed);
                own.end.store(end, Relaxed);
            }
            self.over.fetch_add(1, SeqCst);
            match found {
                Found::Items(..) => return found,
                Found::Later => best = found,
                Found::Nothing => {}
            }
        }
        best
    }
}

/// What a thief has found.
enum Found {
    /// From the first to before the second.
    Items(u32, u32),
    /// There may be some, if one looks again.
    Later,
    Nothing,
}

impl Range {
    fn left(&self) -> u32 {
        // The owner of an empty one may have counted one further.
        self.end.load(Relaxed).saturating_sub(self.next.load(Relaxed))
    }

    fn is_nearly_done(&self) -> bool {
        if MODELLED {
            return false;
        }
        let before = self.left();
        for pauses in 1..=PAUSES {
            snooze(4);
            let left = self.left();
            if left < before {
                return u64::from(left) * pauses < NEARLY_DONE * u64::from(before - left);
            }
        }
        false
    }

    /// The back half, for a thief.
    fn give_half(&self, fences: Fences) -> Found {
        let _no_other_thief = self.thieves.lock();
        let (next, end) = (self.next.load(Relaxed), self.end.load(Relaxed));
        if next >= end {
            return Found::Nothing;
        }
        let middle = next + (end - next) / 2;
        self.end.store(middle, Relaxed);
        let sees = fences.rare();
        if sees && self.next.load(Relaxed) <= middle {
            return Found::Items(middle, end);
        }
        // The owner was faster, so there is less now.
        self.end.store(end, Relaxed);
        if sees { Found::Later } else { Found::Nothing }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;
    use crate::fences::best_in_the_end;
    use crate::sync::thread;

    /// Three on real cores, over and over; every third item takes longer, so that there is
    /// always somebody who has none left.
    fn take_all(fences: Fences) {
        const ITEMS: u32 = 3_000;
        for round in 0..100 {
            let ranges = Ranges::new(ITEMS, 3, fences);
            let taken: Vec<_> = (0..ITEMS).map(|_| AtomicU32::new(0)).collect();
            let take = |me: usize| {
                let mut hand = ranges.hand(me);
                while let Some(at) = hand.take() {
                    assert_eq!(ranges.last(me), at);
                    taken[at as usize].fetch_add(1, Relaxed);
                    if (at + round) % 3 == 0 {
                        snooze(at % 4);
                    }
                }
            };
            thread::scope(|threads| {
                threads.spawn(|| take(1));
                threads.spawn(|| take(2));
                take(0);
            });
            let wrong = taken.iter().position(|count| count.load(Relaxed) != 1);
            assert_eq!(wrong, None, "lost or doubled in round {round}, {fences:?}");
        }
    }

    #[test]
    fn each_item_is_taken_once_whoever_pays_for_the_fence() {
        take_all(Fences::Even);
        take_all(best_in_the_end());
    }

    #[test]
    fn what_is_behind_an_item_that_has_begun_is_there_to_be_taken() {
        for fences in [Fences::Even, best_in_the_end()] {
            let ranges = Ranges::new(1_000, 2, fences);
            let (mut owner, mut thief) = (ranges.hand(0), ranges.hand(1));
            assert_eq!((0..7).map(|_| owner.take()).last(), Some(Some(6)));
            let mut rest: Vec<u32> = std::iter::from_fn(|| thief.take()).collect();
            rest.sort_unstable();
            assert!(rest.into_iter().eq(7..1_000), "all but what the owner has begun");
            assert_eq!(owner.take(), None);
        }
    }

    #[test]
    fn a_thief_whose_fence_fails_leaves_all_to_the_owner() {
        let ranges = Ranges::new(10, 2, Fences::Forbidden);
        let all = |me| {
            let mut hand = ranges.hand(me);
            std::iter::from_fn(move || hand.take())
        };
        assert!(all(1).eq(5..10), "its own, and nothing more");
        assert!(all(0).eq(0..5));
        assert_eq!((ranges.hand(0).take(), ranges.hand(1).take()), (None, None));
    }

    #[test]
    fn one_item_for_many_and_many_for_one() {
        let ranges = Ranges::new(1, 4, Fences::Even);
        let taken: Vec<_> = (0..4).filter_map(|me| ranges.hand(me).take()).collect();
        assert_eq!(taken, [0]);
        let ranges = Ranges::new(Ranges::MOST, 1, Fences::Even);
        assert_eq!(ranges.hand(0).take(), Some(0));
        ranges.ranges[0].next.store(Ranges::MOST - 1, Relaxed);
        let mut hand = ranges.hand(0);
        assert_eq!((hand.take(), hand.take(), hand.take()), (Some(Ranges::MOST - 1), None, None));
    }
}

//! Who stands in the lobby, and whose turn it is.
//!
//! Each step costs O(log n): very many futures may wait at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use crate::parker::Parker;

#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By number: in the order in which they came.
    waiting: BTreeMap<u64, Who>,
    /// Those who may take room although they are not the first. They stand in the same order,
    /// and in one of the two maps only.
    passed_on: BTreeMap<u64, Who>,
    next_number: u64,
    /// The first, if it was told by `tell_first` and has not come.
    told: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Who {
    Thread(Arc<Parker>),
    /// Counted: cloning a waker is user code, and the lobby is locked.
    Future(Arc<Waker>),
}

impl Who {
    pub(crate) fn is_future(&self) -> bool {
        matches!(self, Who::Future(_))
    }

    /// False if that panicked: a waker is user code (hazard 83).
    pub(crate) fn wake(self) -> bool {
        match self {
            Who::Thread(parker) => {
                parker.unpark();
                true
            }
            Who::Future(waker) => crate::panics::quietly(move || {
                waker.wake_by_ref();
                drop(waker);
            })
            .is_ok(),
        }
    }
}

/// Somebody who left.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) who: Who,
    pub(crate) was_first: bool,
    pub(crate) had_turn: bool,
}

impl Turns {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.passed_on.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Who> {
        self.passed_on.values().chain(self.waiting.values())
    }

    /// Whoever has waited longest.
    pub(crate) fn first(&self) -> Option<&Who> {
        let number = self.first_number()?;
        self.waiting.get(&number).or_else(|| self.passed_on.get(&number))
    }

    fn first_number(&self) -> Option<u64> {
        let ends = [self.waiting.first_key_value(), self.passed_on.first_key_value()];
        ends.into_iter().flatten().map(|(number, _)| *number).min()
    }

    pub(crate) fn join(&mut self, who: Who) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.waiting.insert(number, who);
        number
    }

    /// Gives who stood there before.
    pub(crate) fn replace(&mut self, number: u64, who: Who) -> Option<Who> {
        let place = self.waiting.get_mut(&number).or_else(|| self.passed_on.get_mut(&number));
        place.map(|place| std::mem::replace(place, who))
    }

    /// Whether it may take room.
    pub(crate) fn has_turn(&self, number: u64) -> bool {
        self.first_number() == Some(number) || self.passed_on.contains_key(&number)
    }

    /// The first, if it has to be told of room: once, and again when it has come. One that does not
    /// come is passed over however much room there is to tell it of.
    pub(crate) fn tell_first(&mut self) -> Option<Who> {
        let first = self.first_number()?;
        let is_told = self.told.replace(first) == Some(first);
        self.first().filter(|_| !is_told).cloned()
    }

    /// As `has_turn`; but if it is not the first, it may once.
    pub(crate) fn take_turn(&mut self, number: u64) -> bool {
        if self.told == Some(number) {
            self.told = None;
        }
        match self.passed_on.remove(&number) {
            Some(who) => {
                self.waiting.insert(number, who);
                true
            }
            None => self.first_number() == Some(number),
        }
    }

    /// One more may take room, the first of those who may not. True: there are others.
    pub(crate) fn pass_on(&mut self) -> Option<(Who, bool)> {
        let first = self.first_number()?;
        let mut others = self.waiting.keys().copied().filter(|number| *number != first);
        let (next, more) = (others.next()?, others.next().is_some());
        let who = self.waiting.remove(&next)?;
        self.passed_on.insert(next, who.clone());
        Some((who, more))
    }

    pub(crate) fn leave(&mut self, number: u64) -> Option<Gone> {
        let was_first = self.first_number() == Some(number);
        let passed_on = self.passed_on.remove(&number);
        let had_turn = was_first || passed_on.is_some();
        let who = passed_on.or_else(|| self.waiting.remove(&number))?;
        Some(Gone { who, was_first, had_turn })
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    fn future() -> Who {
        Who::Future(Arc::new(Waker::noop().clone()))
    }

    /// So many futures, numbered from 0.
    fn line(count: u64) -> Turns {
        let mut turns = Turns::default();
        assert!((0..count).all(|number| turns.join(future()) == number));
        turns
    }

    fn may(turns: &Turns) -> Vec<u64> {
        (0..10).filter(|number| turns.has_turn(*number)).collect()
    }

    #[test]
    fn the_first_may_and_whoever_it_is_passed_on_to() {
        let mut turns = line(4);
        assert_eq!(may(&turns), [0]);
        assert!(turns.pass_on().is_some_and(|(_, more)| more));
        assert!(turns.pass_on().is_some_and(|(_, more)| more));
        assert_eq!(may(&turns), [0, 1, 2]);
        assert!(turns.pass_on().is_some_and(|(_, more)| !more));
        assert!(turns.pass_on().is_none(), "all may");
        assert_eq!((turns.len(), turns.all().count()), (4, 4));
    }

    #[test]
    fn a_turn_that_is_taken_comes_again_and_keeps_its_place() {
        let mut turns = line(4);
        turns.pass_on();
        turns.pass_on();
        assert!(turns.take_turn(1) && !turns.take_turn(1));
        assert_eq!(may(&turns), [0, 2]);
        turns.pass_on();
        assert_eq!(may(&turns), [0, 1, 2], "it stands before those who came later");
    }

    #[test]
    fn whoever_leaves_says_what_it_was() {
        let mut turns = line(4);
        turns.pass_on();
        let leave = |turns: &mut Turns, number| {
            turns.leave(number).map(|gone| (gone.was_first, gone.had_turn))
        };
        assert_eq!(leave(&mut turns, 3), Some((false, false)));
        assert_eq!(leave(&mut turns, 0), Some((true, true)));
        // It was passed on to it, and now it is the first as well.
        assert!(turns.take_turn(1) && turns.take_turn(1));
        assert_eq!(leave(&mut turns, 2), Some((false, false)));
        assert_eq!(leave(&mut turns, 1), Some((true, true)));
        assert_eq!(leave(&mut turns, 1), None);
        assert!(turns.first().is_none());
    }
}

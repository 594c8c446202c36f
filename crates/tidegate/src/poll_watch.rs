//! Looks at polls of futures, so that they need no date while there are many.
//!
//! ```text
//!  worker:      watch off: dates each poll, and turns the watch on after many
//!               watch on:  counts (`PollWord`)
//!  supervisor:  watch on:  looks every LOOK at the count of each worker, and remembers since
//!                          when it has been what it is
//!               nothing has moved: turns it off, and looks once more, for a worker that had seen
//!               it on just before
//! ```
//!
//! So a date that is not the worker's own is that of a look, later than the poll began: a short
//! poll never seems to be a long one, and one that does not return is seen twice within two looks.

use std::time::Duration;

use crate::clock::Ticks;
use crate::line::{PollWord, SeenPoll};
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::{Lock, Padded};

const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct PollWatch {
    on: Padded<AtomicBool>,
    /// When the supervisor looks again, in real time.
    next: Lock<Option<Ticks>>,
}

#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
impl PollWatch {
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// True for the one who must wake the supervisor.
    #[cold]
    pub(crate) fn turn_on(&self) -> bool {
        !self.on.swap(true, SeqCst)
    }
}

impl PollWatch {
    /// Looks at all workers if that is due. When to look again, in real time.
    pub(crate) fn look<'a>(
        &self,
        real_now: Ticks,
        workers: impl Iterator<Item = (PollWord, &'a mut SeenPoll)>,
    ) -> Ticks {
        let is_on = self.on.load(SeqCst);
        let mut next = self.next.lock();
        if next.is_none() && is_on || next.is_some_and(|at| at <= real_now) {
            let (mut moved, mut undated) = (false, false);
            for (word, seen) in workers {
                moved |= seen.look(word, real_now);
                undated |= word.is_in_poll() && !word.is_dated();
            }
            let (stays_on, again) = after(is_on, moved, undated);
            self.on.store(stays_on, SeqCst);
            *next = again.then(|| real_now.after(LOOK));
        }
        next.unwrap_or(Ticks::NEVER)
    }
}

/// After a look: whether the watch is on, and whether there is another look.
fn after(is_on: bool, moved: bool, undated: bool) -> (bool, bool) {
    let stays_on = undated || is_on && moved;
    (stays_on, stays_on || is_on)
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    /// One worker, looked at `LOOK` after the last time.
    struct Watched {
        watch: PollWatch,
        seen: SeenPoll,
        now: Ticks,
    }

    impl Watched {
        fn look(&mut self, word: PollWord) -> bool {
            self.now = self.now.after(LOOK);
            self.watch.look(self.now, [(word, &mut self.seen)].into_iter()) != Ticks::NEVER
        }
    }

    fn in_poll(number: u64) -> PollWord {
        PollWord::new(number, true)
    }

    fn between(number: u64) -> PollWord {
        PollWord::new(number, false)
    }

    #[test]
    fn it_looks_as_long_as_polls_come_and_once_more() {
        let mut watched =
            Watched { watch: PollWatch::default(), seen: SeenPoll::default(), now: Ticks(1) };
        assert!(!watched.look(between(1)), "it is off");
        assert!(watched.watch.turn_on() && !watched.watch.turn_on(), "one wakes the supervisor");
        assert!(watched.look(between(2)) && watched.look(between(3)) && watched.watch.is_on());
        assert!(watched.look(between(3)) && !watched.watch.is_on(), "nothing has moved");
        assert!(!watched.look(between(3)), "and nobody came after that");
    }

    #[test]
    fn v3_it_stays_on_for_a_poll_that_does_not_return() {
        let mut watched =
            Watched { watch: PollWatch::default(), seen: SeenPoll::default(), now: Ticks(1) };
        watched.watch.turn_on();
        for _ in 0..10 {
            assert!(watched.look(in_poll(7)) && watched.watch.is_on());
        }
        assert!(watched.look(between(7)), "it has returned");
        assert!(watched.look(between(7)) && !watched.watch.is_on());
        // A worker had seen it on, and begins without a date.
        assert!(watched.look(in_poll(8)) && watched.watch.is_on());
    }
}

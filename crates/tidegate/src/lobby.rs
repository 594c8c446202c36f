//! Where submitters wait for room, in the order in which they came.
//!
//! Only the first in line may take room. It naps (0.2 to 1 ms) instead of sleeping
//! for good, so the hysteresis of the takers (`room_made`) can delay it by a
//! millisecond at most and never lose it; the others sleep until they are first.
//! Newcomers who find room do not queue up behind: that keeps submits fast. Once
//! `bound` tickets have gone by the first in line, room is reserved for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::parker::Parker;
use crate::queue::{NoRoom, Queue, Standing};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::{Lock, MODELLED, Padded, snooze, steps};

/// Below this bound every place that comes free is announced at once.
const HYSTERESIS_FROM: u64 = 64;
const NAPS: [Duration; 3] =
    [Duration::from_micros(200), Duration::from_micros(500), Duration::from_millis(1)];

/// Steps awake before a submitter queues up.
const AWAKE_STEPS: u32 = if cfg!(tidegate_loom) { 0 } else { steps(50) };

#[derive(Debug)]
pub(crate) struct Lobby {
    waiting: Padded<AtomicU32>,
    line: Lock<Line>,
    /// One submitter at a time waits awake for a moment before it queues up.
    awake: AtomicU32,
}

#[derive(Debug, Default)]
struct Line {
    waiters: VecDeque<(u64, Arc<Parker>)>,
    next_number: u64,
}

/// Why a wait for room ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Admitted,
    Closed,
    TimedOut,
    Cancelled,
}

impl Lobby {
    pub(crate) fn new() -> Self {
        Lobby {
            waiting: Padded(AtomicU32::new(0)),
            line: Lock::new(Line::default()),
            awake: AtomicU32::new(0),
        }
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    /// A taker made room. Cheap when nobody waits.
    #[inline(always)]
    pub(crate) fn room_made(&self, queue: &Queue) {
        // Pairs with the RMW in `join`: the taker moved `head` (or gave credit) before.
        if self.waiting.load(SeqCst) != 0 {
            self.announce(queue);
        }
    }

    #[cold]
    fn announce(&self, queue: &Queue) {
        let bound = queue.bound();
        if bound < HYSTERESIS_FROM || (queue.head() & 31 == 0 && queue.room() >= bound / 2) {
            self.wake_first();
        }
    }

    /// Regardless of hysteresis: the takers have nothing left to do.
    pub(crate) fn wake_first(&self) {
        if self.waiting.load(SeqCst) == 0 {
            return;
        }
        let first = self.line.lock().waiters.front().map(|(_, parker)| Arc::clone(parker));
        if let Some(parker) = first {
            parker.unpark();
        }
    }

    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = self.line.lock().waiters.iter().map(|w| Arc::clone(&w.1)).collect();
        for parker in all {
            parker.unpark();
        }
    }

    /// Waits until `push` is let in, at most until `deadline`. Another thread that
    /// wants the wait to end makes `cancelled` true and unparks `parker`.
    pub(crate) fn wait(
        &self,
        queue: &Queue,
        clock: &Clock,
        deadline: Ticks,
        parker: &Arc<Parker>,
        cancelled: impl Fn() -> bool,
        mut push: impl FnMut(Standing) -> Result<(), NoRoom>,
    ) -> Waited {
        if let Some(end) = self.wait_awake(queue, &mut push) {
            return end;
        }
        let number = self.join(parker);
        let mut first_since = None;
        // A model checker knows no real time.
        let naps = if MODELLED { clock.clone() } else { Clock::system() };
        let mut nap = 0;
        let end = loop {
            let first = self.line.lock().waiters.front().is_some_and(|w| w.0 == number);
            let standing = if first { Standing::FirstInLine } else { Standing::Newcomer };
            if queue.is_closed() {
                break Waited::Closed;
            }
            if cancelled() {
                break Waited::Cancelled;
            }
            // Only the first takes room.
            if first {
                let since = *first_since.get_or_insert_with(|| queue.tickets());
                if queue.tickets() - since >= queue.bound().max(1) {
                    queue.reserve(true);
                }
                match push(standing) {
                    Ok(()) => break Waited::Admitted,
                    Err(NoRoom::Closed) => break Waited::Closed,
                    Err(NoRoom::Full) => {}
                }
            }
            let Some(left) = clock.left_until(deadline) else { break Waited::TimedOut };
            if first {
                // In real time, whatever the pool's clock: hysteresis follows no clock.
                parker.park_until(&naps, naps.now().after(NAPS[nap].min(left)));
                nap = (nap + 1).min(NAPS.len() - 1);
            } else {
                parker.park_until(clock, deadline);
            }
        };
        self.leave(number, queue);
        end
    }

    /// Waits awake for half a queue of room: tasks so short that a wake-up costs more
    /// than all of them. Gives up at once when tasks are long: the core is theirs.
    fn wait_awake(
        &self,
        queue: &Queue,
        push: &mut impl FnMut(Standing) -> Result<(), NoRoom>,
    ) -> Option<Waited> {
        if self.waiting.load(SeqCst) != 0 || self.awake.swap(1, SeqCst) != 0 {
            return None;
        }
        let head = queue.head();
        let mut end = None;
        #[allow(clippy::reversed_empty_ranges, reason = "no steps at all under a model checker")]
        for step in 0..AWAKE_STEPS {
            snooze(5);
            if step == 3 && queue.head() - head < 16 {
                break;
            }
            if queue.is_closed() || queue.room() > queue.bound() / 2 || step > 40 {
                match push(Standing::Newcomer) {
                    Ok(()) => end = Some(Waited::Admitted),
                    Err(NoRoom::Closed) => end = Some(Waited::Closed),
                    Err(NoRoom::Full) => continue,
                }
                break;
            }
        }
        self.awake.store(0, SeqCst);
        end
    }

    fn join(&self, parker: &Arc<Parker>) -> u64 {
        let mut line = self.line.lock();
        let number = line.next_number;
        line.next_number += 1;
        line.waiters.push_back((number, Arc::clone(parker)));
        // Then the first look at the queue: see `room_made`.
        self.waiting.fetch_add(1, SeqCst);
        number
    }

    /// Leaves the line, and passes the turn on if it was ours.
    fn leave(&self, number: u64, queue: &Queue) {
        let next = {
            let mut line = self.line.lock();
            let was_first = line.waiters.front().is_some_and(|w| w.0 == number);
            line.waiters.retain(|w| w.0 != number);
            self.waiting.fetch_sub(1, SeqCst);
            if was_first {
                queue.reserve(false);
                line.waiters.front().map(|w| Arc::clone(&w.1))
            } else {
                None
            }
        };
        if let Some(parker) = next {
            parker.unpark();
        }
    }
}

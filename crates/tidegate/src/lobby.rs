//! Where submitters wait for room, in the order in which they came.
//!
//! Only the first in line may take room. It naps (0.2 to 1 ms) instead of sleeping
//! for good, so the hysteresis of the takers (`room_made`) can delay it by a
//! millisecond at most and never lose it; the others sleep until they are first.
//! Newcomers who find room do not queue up behind: that keeps submits fast. Once
//! `bound` tickets have gone by the first in line, room is reserved for it.
//!
//! Futures wait in the same line. They can't nap, so each place that comes free is announced
//! to them at once; and one that was told and is not polled must not hold up the rest (hazard
//! 79), so the supervisor lets the next one in as well (`pass_on`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::parker::Parker;
use crate::queue::{NoRoom, Queue, Standing};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};
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
    /// Of those who wait (O5).
    waker_panics: AtomicU64,
}

#[derive(Debug, Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    next_number: u64,
    /// How many of them are futures.
    futures: usize,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    who: Who,
    /// It may take room although it is not the first.
    has_turn: bool,
}

#[derive(Clone, Debug)]
enum Who {
    Thread(Arc<Parker>),
    /// Counted: cloning a waker is user code, and we hold the lock.
    Future(Arc<Waker>),
}

impl Who {
    /// False if that panicked: a waker is user code (hazard 83).
    fn wake(self) -> bool {
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
            waker_panics: AtomicU64::new(0),
        }
    }

    pub(crate) fn waker_panics(&self) -> u64 {
        self.waker_panics.load(Relaxed)
    }

    fn wake(&self, who: impl IntoIterator<Item = Who>) {
        for who in who {
            if !who.wake() {
                self.waker_panics.fetch_add(1, Relaxed);
            }
        }
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn has_futures(&self) -> bool {
        self.waiting() != 0 && self.line.lock().futures > 0
    }

    /// A taker made room. Cheap when nobody waits. True: as for `wake_first`.
    #[inline(always)]
    pub(crate) fn room_made(&self, queue: &Queue) -> bool {
        // Pairs with the RMW in `join`: the taker moved `head` (or gave credit) before.
        self.waiting.load(SeqCst) != 0 && self.announce(queue)
    }

    #[cold]
    fn announce(&self, queue: &Queue) -> bool {
        let bound = queue.bound();
        let worth_it = bound < HYSTERESIS_FROM
            || (queue.head() & 31 == 0 && queue.room() >= bound / 2)
            || self.line.lock().futures > 0;
        worth_it && self.wake_first(queue)
    }

    /// Regardless of hysteresis: the takers have nothing left to do. True: a future was woken,
    /// others wait behind it or are kept out for it, and nobody knows whether it will be polled.
    pub(crate) fn wake_first(&self, queue: &Queue) -> bool {
        if self.waiting.load(SeqCst) == 0 {
            return false;
        }
        let (first, alone) = {
            let line = self.line.lock();
            (line.waiters.front().map(|first| first.who.clone()), line.waiters.len() == 1)
        };
        let is_future = matches!(first, Some(Who::Future(_)));
        self.wake(first);
        is_future && (!alone || queue.is_reserved())
    }

    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = self.line.lock().waiters.iter().map(|w| w.who.clone()).collect();
        self.wake(all);
    }

    /// There is room, and whoever was told has not taken it: one more may. True: ask again.
    pub(crate) fn pass_on(&self, queue: &Queue) -> bool {
        if self.waiting.load(SeqCst) == 0 || queue.room() == 0 {
            return false;
        }
        let (next, more) = {
            let mut line = self.line.lock();
            let told = line.waiters.front().is_some_and(|w| matches!(w.who, Who::Future(_)));
            if told {
                queue.reserve(false); // nobody is kept out for one that does not come
            }
            let mut waiting = line.waiters.iter_mut().skip(1).filter(|w| !w.has_turn);
            let next = waiting.next().filter(|_| told).map(|waiter| {
                waiter.has_turn = true;
                waiter.who.clone()
            });
            (next, waiting.next().is_some())
        };
        let passed = next.is_some();
        self.wake(next);
        passed && more
    }

    /// Waits until `push` is let in, at most until `deadline`. Another thread that
    /// wants the wait to end makes `cancelled` true and unparks `parker`. Calls `joined` once
    /// it stands in line.
    pub(crate) fn wait(
        &self,
        queue: &Queue,
        (clock, deadline): (&Clock, Ticks),
        parker: &Arc<Parker>,
        cancelled: impl Fn() -> bool,
        joined: impl FnOnce(),
        mut push: impl FnMut(Standing) -> Result<(), NoRoom>,
    ) -> Waited {
        if let Some(end) = self.wait_awake(queue, &mut push) {
            return end;
        }
        let number = self.join(Who::Thread(Arc::clone(parker)));
        joined();
        let mut first_since = None;
        // A model checker knows no real time.
        let naps = if MODELLED { clock.clone() } else { Clock::system() };
        let mut nap = 0;
        let end = loop {
            let first = self.has_turn(number);
            let standing = if first { Standing::FirstInLine } else { Standing::Newcomer };
            if queue.is_closed() {
                break Waited::Closed;
            }
            if cancelled() {
                break Waited::Cancelled;
            }
            // Only the first takes room.
            if first {
                insist(queue, &mut first_since);
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

    /// A future queues up.
    pub(crate) fn join_future(&self, waker: &Waker) -> u64 {
        self.join(Who::Future(Arc::new(waker.clone())))
    }

    /// It is polled by somebody else.
    pub(crate) fn update(&self, number: u64, waker: &Waker) {
        let who = Who::Future(Arc::new(waker.clone()));
        let mut line = self.line.lock();
        let found = line.waiters.iter_mut().find(|waiter| waiter.number == number);
        let old = found.map(|waiter| std::mem::replace(&mut waiter.who, who));
        drop(line);
        drop(old);
    }

    /// As `has_turn`, for a future: if it is not the first, it may once. The next time that
    /// somebody before it does not come it is told again.
    pub(crate) fn take_turn(&self, number: u64) -> bool {
        let mut line = self.line.lock();
        let at = line.waiters.iter().position(|waiter| waiter.number == number);
        at.is_some_and(|at| std::mem::take(&mut line.waiters[at].has_turn) || at == 0)
    }

    /// Somebody joined who is not the first: is there room that was told to another?
    pub(crate) fn may_be_held_up(&self, queue: &Queue) -> bool {
        queue.room() > 0 && self.has_futures()
    }

    /// Whether it may take room.
    fn has_turn(&self, number: u64) -> bool {
        let line = self.line.lock();
        let at = line.waiters.iter().position(|waiter| waiter.number == number);
        at.is_some_and(|at| at == 0 || line.waiters[at].has_turn)
    }

    fn join(&self, who: Who) -> u64 {
        let mut line = self.line.lock();
        let number = line.next_number;
        line.next_number += 1;
        line.futures += usize::from(matches!(who, Who::Future(_)));
        line.waiters.push_back(Waiter { number, who, has_turn: false });
        // Then the first look at the queue: see `room_made`.
        self.waiting.fetch_add(1, SeqCst);
        number
    }

    /// Leaves the line, and passes the turn on if it was ours.
    pub(crate) fn leave(&self, number: u64, queue: &Queue) {
        let (next, gone) = {
            let mut line = self.line.lock();
            let at = line.waiters.iter().position(|waiter| waiter.number == number);
            let gone = at.and_then(|at| line.waiters.remove(at));
            self.waiting.fetch_sub(1, SeqCst);
            let future = gone.as_ref().is_some_and(|gone| matches!(gone.who, Who::Future(_)));
            line.futures -= usize::from(future);
            // A future may have had its turn, and have room kept for it.
            if at == Some(0) || future || gone.as_ref().is_some_and(|gone| gone.has_turn) {
                queue.reserve(false);
            }
            let next = if at == Some(0) {
                line.waiters.front().map(|next| next.who.clone())
            } else {
                None
            };
            (next, gone)
        };
        self.wake(next);
        drop(gone); // a waker is user code
    }
}

/// Keeps room for whoever has had its turn since so many tickets, if newcomers have gone by often
/// enough.
pub(crate) fn insist(queue: &Queue, since: &mut Option<u64>) {
    let since = *since.get_or_insert_with(|| queue.tickets());
    if queue.tickets() - since >= queue.bound().max(1) {
        queue.reserve(true);
    }
}

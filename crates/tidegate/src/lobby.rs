//! Where submitters wait for room, in the order in which they came.
//!
//! Only the first in line may take room. It naps (0.2 to 1 ms) instead of sleeping
//! for good, so the hysteresis of the takers (`room_made`) can delay it by a
//! millisecond at most and never lose it; the others sleep until they are first.
//! Newcomers who find room do not queue up behind: that keeps submits fast. Once
//! `bound` tickets have gone by the first in line, room is reserved for it.
//!
//! Futures wait in the same line. They can't nap: of room that hysteresis keeps from them the
//! supervisor tells them, two milliseconds later at most. One that was told and is not polled must
//! not hold up the rest (hazard 79), so the supervisor lets the next one in as well (`pass_on`).

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::panics::drop_quietly;
use crate::parker::Parker;
use crate::queue::{NoRoom, Queue, Standing};
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Lock, MODELLED, Padded, snooze, steps};
use crate::turns::{Turns, Who};

/// Below this bound every place that comes free is announced at once. Models have small queues.
const HYSTERESIS_FROM: u64 = if cfg!(tidegate_loom) { 2 } else { 64 };
const NAPS: [Duration; 3] =
    [Duration::from_micros(200), Duration::from_micros(500), Duration::from_millis(1)];

/// Steps awake before a submitter queues up.
const AWAKE_STEPS: u32 = if cfg!(tidegate_loom) { 0 } else { steps(50) };

/// In the upper half of the number of those who wait.
const A_FUTURE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Lobby {
    /// How many wait; each future counts as `A_FUTURE` beside. Written under the line's lock,
    /// read by takers without it: a look at each task would make the lock the dearest of all.
    waiting: Padded<AtomicU64>,
    line: Lock<Turns>,
    /// One submitter at a time waits awake for a moment before it queues up.
    awake: AtomicU32,
    /// How often a future was told of room.
    told_futures: AtomicU64,
    /// Of those who wait (O5).
    waker_panics: AtomicU64,
    /// There may be room that the first in line, a future, was not told of. Then the supervisor
    /// will look, or the reaper is about to tell it.
    untold: AtomicBool,
    /// When the supervisor looks whether somebody has to be told: by the pool's clock, and in real
    /// time in case that stands still.
    turn_at: [AtomicU64; 2],
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
            waiting: Padded(AtomicU64::new(0)),
            line: Lock::default(),
            awake: AtomicU32::new(0),
            told_futures: AtomicU64::new(0),
            waker_panics: AtomicU64::new(0),
            untold: AtomicBool::new(false),
            turn_at: [(); 2].map(|()| AtomicU64::new(u64::MAX)),
        }
    }

    pub(crate) fn told_futures(&self) -> u64 {
        self.told_futures.load(Relaxed)
    }

    pub(crate) fn waker_panics(&self) -> u64 {
        self.waker_panics.load(Relaxed)
    }

    fn wake(&self, who: impl IntoIterator<Item = Who>) {
        for who in who {
            if who.is_future() {
                self.told_futures.fetch_add(1, Relaxed);
            }
            if !who.wake() {
                self.waker_panics.fetch_add(1, Relaxed);
            }
        }
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed) as u32
    }

    pub(crate) fn has_futures(&self) -> bool {
        self.waiting.load(SeqCst) >= A_FUTURE
    }

    /// A taker made room. Cheap when nobody waits. True: as for `wake_first`; or nobody was told
    /// for now.
    #[inline(always)]
    pub(crate) fn room_made(&self, queue: &Queue) -> bool {
        // Pairs with the RMW in `join`: the taker moved `head` (or gave credit) before.
        self.waiting.load(SeqCst) != 0 && self.announce(queue)
    }

    #[cold]
    fn announce(&self, queue: &Queue) -> bool {
        let bound = queue.bound();
        let worth_it =
            bound < HYSTERESIS_FROM || (queue.head() & 31 == 0 && queue.room() >= bound / 2);
        if worth_it {
            return self.wake_first(queue);
        }
        // A future can't nap: if takers leave it at that, the supervisor tells it.
        !self.untold.load(SeqCst) && self.has_futures() && !self.untold.swap(true, SeqCst)
    }

    /// Regardless of hysteresis: the takers have nothing left to do. True: a future was woken,
    /// others wait behind it or are kept out for it, and nobody knows whether it will be polled.
    pub(crate) fn wake_first(&self, queue: &Queue) -> bool {
        if self.waiting.load(SeqCst) == 0 {
            return false;
        }
        if self.untold.load(SeqCst) {
            self.untold.store(false, SeqCst);
        }
        let (first, alone) = {
            let line = self.line.lock();
            (line.first().cloned(), line.len() == 1)
        };
        let is_future = first.as_ref().is_some_and(Who::is_future);
        self.wake(first);
        is_future && (!alone || queue.is_reserved())
    }

    /// As `wake_first`, for who must not run user code. True: the first is a future, and is to be
    /// woken by somebody else.
    #[cfg_attr(tidegate_loom, allow(dead_code))]
    pub(crate) fn wake_first_thread(&self) -> bool {
        if self.waiting.load(SeqCst) == 0 {
            return false;
        }
        // Not even cloned: to drop the last of a waker is user code.
        let parker = match self.line.lock().first() {
            Some(Who::Future(_)) => return true,
            Some(Who::Thread(parker)) => Some(Arc::clone(parker)),
            None => None,
        };
        self.wake(parker.map(Who::Thread));
        false
    }

    /// The supervisor is to look at one of these times. True: it must be woken for that.
    pub(crate) fn mind_the_turn(&self, times: [Ticks; 2]) -> bool {
        let is_sooner = |turn_at: &AtomicU64, at: Ticks| {
            at.0 < turn_at.load(SeqCst) && at.0 < turn_at.fetch_min(at.0, SeqCst)
        };
        is_sooner(&self.turn_at[0], times[0]) | is_sooner(&self.turn_at[1], times[1])
    }

    /// Whether somebody is to be told of room now (`pass_on`); if not yet, when to look.
    pub(crate) fn turn_is_due(&self, now: [Ticks; 2], queue: &Queue) -> Result<bool, [Ticks; 2]> {
        let at = [0, 1].map(|clock| Ticks(self.turn_at[clock].load(SeqCst)));
        if now[0] < at[0] && now[1] < at[1] {
            return Err(at);
        }
        // Then the look: who makes room later says so again.
        self.turn_at.iter().for_each(|at| at.store(u64::MAX, SeqCst));
        let is_due = || self.has_futures() && queue.room() > 0;
        if is_due() {
            return Ok(true); // `untold` stays until `pass_on`
        }
        let untold = self.untold.swap(false, SeqCst);
        let is_due = untold && is_due();
        if is_due {
            self.untold.store(true, SeqCst);
        }
        Ok(is_due)
    }

    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = self.line.lock().all().cloned().collect();
        self.wake(all);
    }

    /// There is room, and whoever was told has not taken it: one more may. True: ask again.
    pub(crate) fn pass_on(&self, queue: &Queue) -> bool {
        let untold = self.untold.swap(false, SeqCst); // then the look, as above
        if self.waiting.load(SeqCst) == 0 || queue.room() == 0 {
            return false;
        }
        let first = if untold { self.line.lock().tell_first() } else { None };
        if first.is_some() {
            self.wake(first);
            return true; // if it does not come, the next shall
        }
        let next = {
            let mut line = self.line.lock();
            // A thread takes it by itself.
            if !line.first().is_some_and(Who::is_future) {
                return false;
            }
            queue.reserve(false); // nobody is kept out for one that does not come
            line.pass_on()
        };
        let ask_again = next.as_ref().is_some_and(|(_, more)| *more);
        self.wake(next.map(|(who, _)| who));
        ask_again
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
    pub(crate) fn join_future(&self, waker: Arc<Waker>) -> u64 {
        self.join(Who::Future(waker))
    }

    /// It is polled by somebody else.
    pub(crate) fn update(&self, number: u64, waker: Arc<Waker>) {
        let old = self.line.lock().replace(number, Who::Future(waker));
        self.forget(old);
    }

    /// Drops a waker, or who has one: user code, which may panic (O5).
    pub(crate) fn forget<T>(&self, waker: T) {
        if drop_quietly(waker) {
            self.waker_panics.fetch_add(1, Relaxed);
        }
    }

    /// As `has_turn`, for a future: if it is not the first, it may once. The next time that
    /// somebody before it does not come it is told again.
    pub(crate) fn take_turn(&self, number: u64) -> bool {
        self.line.lock().take_turn(number)
    }

    /// Somebody joined who is not the first: is there room that was told to another?
    pub(crate) fn may_be_held_up(&self, queue: &Queue) -> bool {
        queue.room() > 0 && self.has_futures()
    }

    /// Whether it may take room.
    fn has_turn(&self, number: u64) -> bool {
        self.line.lock().has_turn(number)
    }

    fn join(&self, who: Who) -> u64 {
        let one = counted(&who);
        let mut line = self.line.lock();
        let number = line.join(who);
        // Then the first look at the queue: see `room_made`.
        self.waiting.fetch_add(one, SeqCst);
        number
    }

    /// Leaves the line, and passes the turn on if it was ours.
    pub(crate) fn leave(&self, number: u64, queue: &Queue) {
        let (next, gone) = {
            let mut line = self.line.lock();
            let gone = line.leave(number);
            if let Some(gone) = &gone {
                self.waiting.fetch_sub(counted(&gone.who), SeqCst);
            }
            // A future may have had its turn, and have room kept for it.
            if gone.as_ref().is_some_and(|gone| gone.had_turn || gone.who.is_future()) {
                queue.reserve(false);
            }
            let next = if gone.as_ref().is_some_and(|gone| gone.was_first) {
                line.first().cloned()
            } else {
                None
            };
            (next, gone)
        };
        self.wake(next);
        self.forget(gone);
    }
}

fn counted(who: &Who) -> u64 {
    if who.is_future() { 1 + A_FUTURE } else { 1 }
}

/// Keeps room for whoever has had its turn since so many tickets, if newcomers have gone by often
/// enough.
pub(crate) fn insist(queue: &Queue, since: &mut Option<u64>) {
    let since = *since.get_or_insert_with(|| queue.tickets());
    if queue.tickets() - since >= queue.bound().max(1) {
        queue.reserve(true);
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }

    #[test]
    fn a_future_that_is_first_is_left_to_somebody_else() {
        let (lobby, queue) = (Lobby::new(), Queue::new(1, 1));
        assert!(!lobby.wake_first_thread(), "nobody waits");
        let (woken, parker) = (Arc::new(Woken::default()), Parker::new());
        let first = lobby.join_future(Arc::new(Waker::from(Arc::clone(&woken))));
        lobby.join(Who::Thread(Arc::clone(&parker)));
        assert!(lobby.wake_first_thread(), "a future is first");
        assert!(!woken.0.load(SeqCst), "its waker was run");
        lobby.wake_first(&queue);
        assert!(woken.0.load(SeqCst));
        lobby.leave(first, &queue);
        let clock = Clock::system();
        assert!(parker.park_until(&clock, clock.now()), "it was told that it is the first");
        assert!(!lobby.wake_first_thread(), "a thread is first");
        assert!(parker.park_until(&clock, clock.now()), "it was told of room");
    }
}

//! The tasks of one group or scope: how many have not ended, and who waits for that.
//!
//! A waiter inside a task of the pool holds a worker up, so it runs what of its own is
//! still queued (R9, G1). Whoever adds such a task wakes it: the other workers may be busy.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::core::Core;
use crate::event::{drop_waker, wake_quietly};
use crate::frames;
use crate::life::CellRef;
use crate::parker::with_parker;
use crate::sync::Lock;
use crate::wait_error::WaitReason;
use crate::waiting::{Depth, run_queued};

#[derive(Default)]
pub(crate) struct Roll {
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// Accepted and not settled, or about to be accepted.
    tasks: usize,
    /// Those, and those that wait for room.
    slots: usize,
    /// Oldest first; some have started or ended meanwhile.
    queued: VecDeque<CellRef>,
    /// Wakers by seat.
    wait_for_room: BTreeMap<u64, Waker>,
    wait_for_the_end: BTreeMap<u64, Waker>,
    /// Inside the pool: they wait for the end, and for something to run.
    helpers: BTreeMap<u64, Waker>,
    next_seat: u64,
}

/// Whoever waits has one; dropped, it leaves no waker behind.
pub(crate) struct Seat<'r> {
    roll: &'r Roll,
    number: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let wakers = {
            let mut state = self.roll.state.lock();
            let State { wait_for_room, wait_for_the_end, helpers, .. } = &mut *state;
            [wait_for_room, wait_for_the_end, helpers].map(|map| map.remove(&self.number))
        };
        wakers.into_iter().flatten().for_each(drop_waker); // code of the user: after the lock
    }
}

impl Roll {
    /// For one wait.
    pub(crate) fn seat(&self) -> Seat<'_> {
        let mut state = self.state.lock();
        state.next_seat += 1;
        Seat { roll: self, number: state.next_seat }
    }

    /// All that have entered.
    pub(crate) fn slots(&self) -> usize {
        self.state.lock().slots
    }

    /// One more task, if there are fewer than `limit`.
    pub(crate) fn enter(&self, limit: usize) -> bool {
        let mut state = self.state.lock();
        let room = state.slots < limit;
        state.slots += usize::from(room);
        state.tasks += usize::from(room);
        room
    }

    /// One that has entered waits for room: those who wait for the end may go on without it.
    pub(crate) fn step_back(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.tasks -= 1;
            state.at_the_end()
        };
        wake_quietly(wakers);
    }

    pub(crate) fn step_in(&self) {
        self.state.lock().tasks += 1;
    }

    /// One task less: it has ended, or was refused. Whatever it leaves behind must be in
    /// place, since the waiters go on.
    pub(crate) fn leave(&self) {
        let (room, end) = {
            let mut state = self.state.lock();
            state.tasks -= 1;
            state.slots -= 1;
            (std::mem::take(&mut state.wait_for_room), state.at_the_end())
        };
        wake_quietly(room.into_values().chain(end));
    }

    /// A task was accepted, and may be queued.
    pub(crate) fn accepted(&self, cell: CellRef) {
        let helpers = {
            let mut state = self.state.lock();
            state.queued.push_back(cell);
            if state.queued.len() > 2 * state.tasks + 16 {
                state.queued.retain(|cell| cell.is_queued());
            }
            std::mem::take(&mut state.helpers)
        };
        wake_quietly(helpers.into_values());
    }

    /// The waker is woken when a task leaves.
    pub(crate) fn wait_for_room(&self, seat: &Seat<'_>, waker: &Waker) {
        let waker = waker.clone(); // may be user code: before the lock
        let old = self.state.lock().wait_for_room.insert(seat.number, waker);
        drop(old);
    }

    /// Returns when there is no task. Inside the pool it runs what is queued meanwhile; an
    /// error if it may not, because of worker state.
    pub(crate) fn wait(&self, core: &Arc<Core>) -> Result<(), WaitReason> {
        if frames::polls() {
            return Err(WaitReason::InPoll);
        }
        let seat = self.seat();
        with_parker(|parker, waker| {
            loop {
                match self.poll_end(core, &seat, waker) {
                    Poll::Ready(end) => return end,
                    Poll::Pending => parker.park(),
                }
            }
        })
    }

    /// As `wait`, without blocking: the waker is woken when there is news. What runs meanwhile,
    /// inside the pool, are closures; inside a poll of a pool of futures there is `poll_wait`.
    pub(crate) fn poll_end(
        &self,
        core: &Arc<Core>,
        seat: &Seat<'_>,
        waker: &Waker,
    ) -> Poll<Result<(), WaitReason>> {
        let inside = frames::depth(core.address()) > 0;
        loop {
            while inside && let Some(cell) = self.oldest_queued() {
                if let Err(reason) = run_queued(cell, core, Depth::Any) {
                    self.state.lock().queued.push_front(cell);
                    return Poll::Ready(Err(reason));
                }
            }
            match self.is_over_or_wakes(inside, seat, waker) {
                Some(true) => return Poll::Ready(Ok(())),
                Some(false) => {}
                None => return Poll::Pending,
            }
        }
    }

    /// Whether it is over; None: it is not, and `waker` is woken when there is news. `inside`:
    /// that includes something of its own to run; if there is some already, it says false.
    fn is_over_or_wakes(&self, inside: bool, seat: &Seat<'_>, waker: &Waker) -> Option<bool> {
        let waker = waker.clone(); // may be user code: before the lock
        let mut state = self.state.lock();
        let old = match () {
            () if state.tasks == 0 => return Some(true),
            () if !inside => state.wait_for_the_end.insert(seat.number, waker),
            () if state.queued.is_empty() => state.helpers.insert(seat.number, waker),
            () => return Some(false),
        };
        drop(state);
        drop(old);
        None
    }

    /// As `wait`, for a future. Inside a poll of the pool what is queued begins on top of it, one
    /// after the other.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn poll_wait(&self, core: &Arc<Core>, seat: &Seat<'_>, waker: &Waker) -> Poll<()> {
        frames::with_poll(core.address(), |poll| {
            loop {
                while let Some(poll) = poll
                    && poll.may_begin.get()
                    && let Some(cell) = self.oldest_queued()
                {
                    core.begin_on_top(cell, poll);
                }
                let helps = poll.is_some_and(|poll| {
                    poll.may_begin_or_wish(std::ptr::from_ref(seat).addr(), waker)
                });
                match self.is_over_or_wakes(helps, seat, waker) {
                    Some(true) => return Poll::Ready(()),
                    Some(false) => {}
                    None => return Poll::Pending,
                }
            }
        })
    }

    fn oldest_queued(&self) -> Option<CellRef> {
        let mut state = self.state.lock();
        loop {
            let cell = state.queued.pop_front()?;
            if cell.is_queued() {
                return Some(cell);
            }
        }
    }
}

impl State {
    /// Whom to wake if there is no task left.
    fn at_the_end(&mut self) -> Vec<Waker> {
        if self.tasks > 0 {
            return Vec::new();
        }
        let ends = std::mem::take(&mut self.wait_for_the_end).into_values();
        ends.chain(std::mem::take(&mut self.helpers).into_values()).collect()
    }
}

//! From an offer to a place in the queue, awaited: on any runtime, or on none.
//!
//! Closures of thread pools wait here, and futures of `on_tokio/`, in one line with threads
//! (`lobby.rs`).
//!
//! Dropping a submission that waits takes its work along: it was never accepted, holds no
//! place, no permit and no slot of a group. One that has been let in says so in the same poll,
//! so there is nothing between the two.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::admission::Slowly;
use crate::cell::Ops;
use crate::clock::Ticks;
use crate::core::Core;
use crate::job::{Run, Work, fits};
use crate::life::CellRef;
use crate::lobby;
use crate::panics::drop_quietly;
use crate::permits::Permits;
use crate::queue::{NoRoom, Standing};
use crate::refused::{Reason, Refused};
use crate::settle::OpsOf;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::Token;
use crate::wake_ups::WakeUps;

pub(crate) type Taken<W> = Result<CellRef, Refused<<W as Work>::Closure>>;

/// Offers a closure to a pool of threads. Ok: as for `Core::offer`.
pub(crate) async fn offer<W: Run + 'static>(
    core: Arc<Core>,
    work: W,
    handle: bool,
    offer: Offer<'_>,
) -> Taken<W> {
    let offer = Offer { awaited: true, ..offer };
    match offer.wants {
        None => place(core, work, handle, offer).await,
        Some(_) => {
            let (held, offer) = Permits::new(Arc::clone(&core), work, offer).await?;
            place(core, held, handle, offer).await
        }
    }
}

async fn place<W: Run + 'static>(
    core: Arc<Core>,
    work: W,
    handle: bool,
    offer: Offer<'_>,
) -> Taken<W> {
    // Large work is boxed here, as it is for those who block.
    if fits::<W>() {
        place_fitting(core, work, handle, offer).await
    } else {
        place_fitting(core, Box::new(work), handle, offer).await
    }
}

async fn place_fitting<W: Run + 'static>(
    core: Arc<Core>,
    work: W,
    handle: bool,
    offer: Offer<'_>,
) -> Taken<W> {
    // SAFETY: it borrows nothing, and they are its functions.
    let placed = unsafe { core.place(work, &OpsOf::<W>::OPS, handle, offer) };
    match placed {
        Placed::Accepted(cell) => Ok(cell),
        Placed::Refused(refused) => Err(refused),
        Placed::Waits(line) => line.await,
        // Only inside a task of the pool, which may block.
        Placed::Here(hand) => {
            let cell = hand.claim();
            core.run_here(cell);
            Ok(cell)
        }
    }
}

/// Where a submission stands after its first look.
#[allow(clippy::large_enum_variant, reason = "it lives for one match")]
pub(crate) enum Placed<'t, W: Work> {
    Accepted(CellRef),
    Refused(Refused<W::Closure>),
    Waits(InLobby<'t, W>),
    /// Whoever offers it runs it.
    Here(InHand<'t, W>),
}

impl Core {
    /// Takes a place if there is one, and does what the policy says if not, except to wait.
    ///
    /// # Safety
    /// As for `fill_cell`.
    pub(crate) unsafe fn place<'t, W: Work>(
        self: &Arc<Self>,
        work: W,
        ops: &'static Ops,
        handle: bool,
        mut offer: Offer<'t>,
    ) -> Placed<'t, W> {
        let name = offer.name;
        // SAFETY: by contract.
        let cell = match unsafe { self.fill_cell(work, ops, handle, &mut offer) } {
            Ok(cell) => cell,
            Err((reason, work)) => {
                return Placed::Refused(self.refuse(name, reason, work.into_closure()));
            }
        };
        let slowly = match self.first_push(cell, &offer) {
            Ok(()) => Ok(Slowly::Accepted),
            Err(why) => self.without_room(cell, why, &offer),
        };
        if let Ok(Slowly::Accepted) = slowly {
            self.let_in(cell, &offer);
            return Placed::Accepted(cell);
        }
        let mut hand = InHand::new(self, cell, offer);
        match slowly {
            Ok(Slowly::Wait(until)) => {
                hand.has_stepped_back = true;
                Placed::Waits(InLobby::new(hand, until))
            }
            Ok(_) => Placed::Here(hand),
            Err(reason) => Placed::Refused(hand.refuse(reason)),
        }
    }
}

/// Work that was not accepted yet: dropped, it takes the work along.
pub(crate) struct InHand<'t, W: Work> {
    core: Arc<Core>,
    offer: Offer<'t>,
    /// Holds a `W`, and nobody else has seen it. None once it was accepted or refused.
    cell: Option<CellRef>,
    /// As `Core::without_room` says.
    has_stepped_back: bool,
    work: PhantomData<fn() -> W>,
}

impl<'t, W: Work> InHand<'t, W> {
    fn new(core: &Arc<Core>, cell: CellRef, offer: Offer<'t>) -> Self {
        let (core, cell) = (Arc::clone(core), Some(cell));
        InHand { core, offer, cell, has_stepped_back: false, work: PhantomData }
    }

    /// Whoever has it will wait before it runs it.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn step_back(&mut self) {
        if !self.has_stepped_back {
            self.has_stepped_back = true;
            self.offer.step_back();
        }
    }

    /// It waits no longer.
    fn step_in(&mut self) {
        if std::mem::take(&mut self.has_stepped_back) {
            self.offer.step_in();
        }
    }

    /// Accepts it: whoever has it runs it.
    pub(crate) fn claim(mut self) -> CellRef {
        self.step_in();
        let cell = self.cell.take().expect("not accepted");
        self.core.claim_here(cell, &self.offer);
        cell
    }

    fn refuse(&mut self, reason: Reason) -> Refused<W::Closure> {
        let closure = self.take_back().expect("not accepted");
        self.core.refuse(self.offer.name, reason, closure)
    }

    fn take_back(&mut self) -> Option<W::Closure> {
        let cell = self.cell.take()?;
        self.step_in(); // whoever counted it takes it off
        // SAFETY: not accepted, so nobody else has seen the cell, which holds a `W`.
        let work = unsafe { self.core.take_back::<W>(cell) };
        Some(work.into_closure())
    }
}

impl<W: Work> Drop for InHand<'_, W> {
    fn drop(&mut self) {
        if drop_quietly(self.take_back()) {
            self.core.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }
}

/// A submission in line.
pub(crate) struct InLobby<'t, W: Work> {
    hand: InHand<'t, W>,
    until: Ticks,
    began: Ticks,
    /// Its place in the line, and who polled it last.
    number: Option<(u64, Waker)>,
    /// Tickets when it was first in line.
    first_since: Option<u64>,
    wake_ups: Option<WakeUps>,
}

impl<'t, W: Work> InLobby<'t, W> {
    fn new(hand: InHand<'t, W>, until: Ticks) -> Self {
        let began = hand.core.clock.now();
        InLobby { hand, until, began, number: None, first_since: None, wake_ups: None }
    }

    fn look(&mut self, waker: &Waker) -> Poll<Result<(), Reason>> {
        // In line before the looks: what changes after them wakes us.
        let number = self.stand_in_line(waker);
        let InHand { core, offer, cell, .. } = &self.hand;
        let cell = cell.expect("polled after it was ready");
        WakeUps::set(&mut self.wake_ups, core, offer.token, self.until, waker);
        if core.queue.is_closed() {
            return Poll::Ready(Err(Reason::Closed));
        }
        if offer.token.is_some_and(Token::is_cancelled) {
            return Poll::Ready(Err(Reason::Cancelled));
        }
        if core.lobby.take_turn(number) {
            lobby::insist(&core.queue, &mut self.first_since);
            offer.step_in();
            match core.push_cell(cell, Standing::FirstInLine, offer) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(NoRoom::Closed) => {
                    offer.step_back();
                    return Poll::Ready(Err(Reason::Closed));
                }
                Err(NoRoom::Full) => offer.step_back(),
            }
            core.turn_away();
        } else if core.lobby.may_be_held_up(&core.queue) {
            core.mind_the_turn();
        }
        if core.clock.now() >= self.until {
            return Poll::Ready(Err(Reason::TimedOut));
        }
        Poll::Pending
    }

    fn stand_in_line(&mut self, waker: &Waker) -> u64 {
        match &mut self.number {
            None => {
                let number = self.hand.core.lobby.join_future(waker);
                self.number = Some((number, waker.clone()));
                number
            }
            Some((number, last)) => {
                if !last.will_wake(waker) {
                    self.hand.core.lobby.update(*number, waker);
                    *last = waker.clone();
                }
                *number
            }
        }
    }

    fn leave(&mut self) {
        if let Some((number, _)) = self.number.take() {
            let core = &self.hand.core;
            core.lobby.leave(number, &core.queue);
        }
    }
}

impl<W: Work> Unpin for InLobby<'_, W> {}

impl<W: Work> Future for InLobby<'_, W> {
    type Output = Taken<W>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Taken<W>> {
        let this = &mut *self;
        match this.look(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                this.leave();
                this.hand.has_stepped_back = false; // `look` did it
                let cell = this.hand.cell.take().expect("just let in");
                let InHand { core, offer, .. } = &this.hand;
                core.task_added();
                let for_room = core.clock.now().since(this.began);
                core.times.submitted(offer.name, offer.waited, for_room);
                core.let_in(cell, offer);
                Poll::Ready(Ok(cell))
            }
            Poll::Ready(Err(reason)) => {
                this.leave();
                Poll::Ready(Err(this.hand.refuse(reason)))
            }
        }
    }
}

impl<W: Work> Drop for InLobby<'_, W> {
    fn drop(&mut self) {
        self.leave();
    }
}

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
use crate::frames;
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
use crate::waiting;
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
        Placed::Waits(line) => line.await.map(LetIn::cell),
        // Only inside a task of the pool, which may block.
        Placed::Here(cell) => {
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
    /// Accepted and claimed: whoever offers it runs it.
    Here(CellRef),
}

/// How a wait in line ended well.
pub(crate) enum LetIn {
    Queued(CellRef),
    /// As `Placed::Here`.
    Here(CellRef),
}

impl LetIn {
    fn cell(self) -> CellRef {
        match self {
            LetIn::Queued(cell) | LetIn::Here(cell) => cell,
        }
    }
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
        match self.first_push(cell, &offer) {
            Ok(()) => {
                self.let_in(cell, &offer);
                Placed::Accepted(cell)
            }
            // SAFETY: by contract.
            Err(why) => unsafe { self.place_slowly(cell, why, offer) },
        }
    }

    /// Does what the policy says for a cell that found no room, except to wait.
    ///
    /// # Safety
    /// It holds a `W`, and nobody else has seen it.
    #[cold]
    pub(crate) unsafe fn place_slowly<'t, W: Work>(
        self: &Arc<Self>,
        cell: CellRef,
        why: NoRoom,
        offer: Offer<'t>,
    ) -> Placed<'t, W> {
        let name = offer.name;
        match self.without_room(cell, why, &offer) {
            Ok(Slowly::Accepted) => {
                self.let_in(cell, &offer);
                Placed::Accepted(cell)
            }
            Ok(Slowly::Here) if waiting::may_begin_now(self) => {
                self.claim_here(cell, &offer);
                Placed::Here(cell)
            }
            // Until it may, or there is room.
            Ok(Slowly::Here) => {
                offer.step_back();
                let until = self.gives_up_at(&offer);
                let mut line = InLobby::new(self, cell, until, offer);
                line.or_here = true;
                Placed::Waits(line)
            }
            Ok(Slowly::Wait(until)) => Placed::Waits(InLobby::new(self, cell, until, offer)),
            Err(reason) => {
                // SAFETY: refused, so nobody else has seen the cell, which holds a `W`.
                let work = unsafe { self.take_back::<W>(cell) };
                Placed::Refused(self.refuse(name, reason, work.into_closure()))
            }
        }
    }
}

/// A submission in line.
pub(crate) struct InLobby<'t, W: Work> {
    core: Arc<Core>,
    offer: Offer<'t>,
    /// Holds a `W`. None once it has been let in or refused.
    cell: Option<CellRef>,
    /// Inside a future of the pool: it may also begin on top of that, when it may.
    or_here: bool,
    until: Ticks,
    began: Ticks,
    /// Its place in the line, and who polled it last: the lobby's own.
    number: Option<(u64, Arc<Waker>)>,
    /// Tickets when it was first in line.
    first_since: Option<u64>,
    wake_ups: Option<WakeUps>,
    work: PhantomData<fn() -> W>,
}

impl<'t, W: Work> InLobby<'t, W> {
    fn new(core: &Arc<Core>, cell: CellRef, until: Ticks, offer: Offer<'t>) -> Self {
        InLobby {
            core: Arc::clone(core),
            offer,
            cell: Some(cell),
            or_here: false,
            until,
            began: core.clock.now(),
            number: None,
            first_since: None,
            wake_ups: None,
            work: PhantomData,
        }
    }

    /// Whether it was let in, and if it has a place.
    fn look(&mut self, waker: &Waker) -> Poll<Result<bool, Reason>> {
        // In line before the looks: what changes after them wakes us.
        let number = self.stand_in_line(waker);
        let (core, cell) = (&self.core, self.cell.expect("polled after it was ready"));
        WakeUps::set(&mut self.wake_ups, core, self.offer.token, self.until, waker);
        let is_closed = core.queue.is_closed();
        let forks = || core.forks(self.offer.patience, frames::depth(core.address()));
        if is_closed && !(self.or_here && forks()) {
            return Poll::Ready(Err(Reason::Closed));
        }
        if self.offer.token.is_some_and(Token::is_cancelled) {
            return Poll::Ready(Err(Reason::Cancelled));
        }
        if self.or_here && waiting::may_begin_here(core, cell.address().addr(), waker) {
            self.offer.step_in();
            return Poll::Ready(Ok(false));
        }
        if !is_closed && core.lobby.take_turn(number) {
            lobby::insist(&core.queue, &mut self.first_since);
            self.offer.step_in();
            match core.push_cell(cell, Standing::FirstInLine, &self.offer) {
                Ok(()) => return Poll::Ready(Ok(true)),
                Err(NoRoom::Closed) => {
                    self.offer.step_back();
                    return Poll::Ready(Err(Reason::Closed));
                }
                Err(NoRoom::Full) => self.offer.step_back(),
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
                // A clone may panic: before it stands there.
                let waker = Arc::new(waker.clone());
                let number = self.core.lobby.join_future(Arc::clone(&waker));
                self.number = Some((number, waker));
                number
            }
            Some((number, last)) => {
                if !last.will_wake(waker) {
                    let waker = Arc::new(waker.clone());
                    self.core.lobby.update(*number, Arc::clone(&waker));
                    self.core.lobby.forget(std::mem::replace(last, waker));
                }
                *number
            }
        }
    }

    fn leave(&mut self) {
        if let Some((number, waker)) = self.number.take() {
            self.core.lobby.leave(number, &self.core.queue);
            self.core.lobby.forget(waker);
        }
    }

    /// Nobody has let it in: the work comes back.
    fn take_back(&mut self) -> Option<W::Closure> {
        let cell = self.cell.take()?;
        self.leave();
        self.offer.step_in(); // whoever counted it takes it off
        // SAFETY: not accepted, so nobody else has seen the cell, which holds a `W`.
        let work = unsafe { self.core.take_back::<W>(cell) };
        Some(work.into_closure())
    }
}

impl<W: Work> Unpin for InLobby<'_, W> {}

impl<W: Work> Future for InLobby<'_, W> {
    type Output = Result<LetIn, Refused<W::Closure>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.look(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(has_place)) => {
                // First of all: it is the pool's, and whatever unwinds must not take it back.
                let cell = this.cell.take().expect("just let in");
                this.leave();
                let (core, offer) = (&this.core, &this.offer);
                core.times.submitted(offer.name, offer.waited, core.clock.now().since(this.began));
                if !has_place {
                    core.claim_here(cell, offer);
                    return Poll::Ready(Ok(LetIn::Here(cell)));
                }
                core.task_added();
                core.let_in(cell, offer);
                Poll::Ready(Ok(LetIn::Queued(cell)))
            }
            Poll::Ready(Err(reason)) => {
                let closure = this.take_back().expect("not let in");
                Poll::Ready(Err(this.core.refuse(this.offer.name, reason, closure)))
            }
        }
    }
}

impl<W: Work> Drop for InLobby<'_, W> {
    fn drop(&mut self) {
        if drop_quietly(self.take_back()) {
            self.core.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }
}

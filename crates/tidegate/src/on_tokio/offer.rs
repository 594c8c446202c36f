//! From an offer to a place in the queue, awaited.
//!
//! Dropping a submission that waits takes its work along: it was never accepted, holds no
//! place, no permit and no slot of a group. One that has been let in says so in the same poll,
//! so there is nothing between the two.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::body::{Begin, FutureTask, Nest};
use super::permits::Permits;
use super::wake_ups::WakeUps;
use crate::admission::{Patience, Slowly};
use crate::clock::Ticks;
use crate::core::Core;
use crate::frames;
use crate::handle::Handle;
use crate::job::Work;
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::panics::drop_quietly;
use crate::queue::{NoRoom, Standing};
use crate::refused::{Reason, Refused};
use crate::settle::RunEnv;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::{Listener, Registration, Token};
use crate::worker::{no_state, run_claimed};

type Taken<B> = Result<CellRef, Refused<<B as Work>::Closure>>;

/// Where a submission stands after its first look.
#[allow(clippy::large_enum_variant, reason = "it lives for one match")]
enum Placed<'t, B: Begin> {
    Accepted(CellRef),
    Refused(Refused<B::Closure>),
    Waits(InLobby<'t, B>),
    /// The submission polls it itself.
    Here(Hosted, CellRef),
}

/// Offers a future; the handle if it was accepted.
pub(crate) async fn submit<B: Begin>(
    core: Arc<Core>,
    work: B,
    offer: Offer<'_>,
) -> Result<Handle<B::Value, B::Error>, Refused<B::Closure>> {
    Ok(Handle::new(offer_future(core, work, true, offer).await?, false))
}

/// Fire and forget.
pub(crate) async fn spawn<B: Begin>(
    core: Arc<Core>,
    work: B,
    offer: Offer<'_>,
) -> Result<(), Refused<B::Closure>> {
    offer_future(core, work, false, offer).await.map(drop)
}

async fn offer_future<B: Begin>(
    core: Arc<Core>,
    work: B,
    handle: bool,
    offer: Offer<'_>,
) -> Taken<B> {
    match offer.wants {
        None => place(core, work, handle, offer).await,
        Some(_) => {
            let (held, offer) = Permits::new(Arc::clone(&core), work, offer).await?;
            place(core, held, handle, offer).await
        }
    }
}

async fn place<B: Begin>(core: Arc<Core>, work: B, handle: bool, offer: Offer<'_>) -> Taken<B> {
    match core.place_future(work, handle, offer) {
        Placed::Accepted(cell) => Ok(cell),
        Placed::Refused(refused) => Err(refused),
        Placed::Waits(line) => line.await,
        Placed::Here(hosted, cell) => {
            hosted.await;
            Ok(cell)
        }
    }
}

impl Core {
    /// Offers a future without waiting for room, whatever the policy.
    pub(crate) fn try_future<B: Begin>(
        self: &Arc<Self>,
        work: B,
        handle: bool,
        mut offer: Offer<'_>,
    ) -> Taken<B> {
        offer.patience = Patience::Try;
        if offer.wants.is_some() {
            let held = self.hold(work, &mut offer)?;
            return self.offer_here(held, handle, offer);
        }
        self.offer_here(work, handle, offer)
    }

    /// Offers a future from a thread that may block.
    pub(crate) fn future_blocking<B: Begin>(
        self: &Arc<Self>,
        work: B,
        handle: bool,
        mut offer: Offer<'_>,
    ) -> Taken<B> {
        if offer.wants.is_some() {
            let held = self.hold(work, &mut offer)?;
            return self.offer_here(held, handle, offer);
        }
        self.offer_here(work, handle, offer)
    }

    /// As closures are offered: a wait for room blocks, and so does a task that runs here.
    fn offer_here<B: Begin>(self: &Arc<Self>, work: B, handle: bool, offer: Offer<'_>) -> Taken<B> {
        let (task, name) = (FutureTask::boxed(work), offer.name);
        // SAFETY: it borrows nothing, and the functions are those of this task.
        let offered = unsafe { self.offer_cell_of(task, &FutureTask::<B>::OPS, handle, offer) };
        offered.map_err(|(reason, task)| self.refuse(name, reason, task.into_closure()))
    }

    fn place_future<'t, B: Begin>(
        self: &Arc<Self>,
        work: B,
        handle: bool,
        mut offer: Offer<'t>,
    ) -> Placed<'t, B> {
        let (task, name) = (FutureTask::boxed(work), offer.name);
        // SAFETY: as above.
        let filled = unsafe { self.fill_cell(task, &FutureTask::<B>::OPS, handle, &mut offer) };
        let cell = match filled {
            Ok(cell) => cell,
            Err((reason, task)) => {
                return Placed::Refused(self.refuse(name, reason, task.into_closure()));
            }
        };
        let slowly = match self.first_push(cell, &offer) {
            Ok(()) => Ok(Slowly::Accepted),
            Err(why) => self.without_room(cell, why, &offer),
        };
        match slowly {
            Ok(Slowly::Accepted) => {
                self.let_in(cell, &offer);
                Placed::Accepted(cell)
            }
            Ok(Slowly::Here) => {
                self.claim_here(cell, &offer);
                match self.begin_here(cell) {
                    Some(hosted) => Placed::Here(hosted, cell),
                    None => Placed::Accepted(cell),
                }
            }
            Ok(Slowly::Wait(until)) => Placed::Waits(InLobby::new(self, cell, until, offer)),
            Err(reason) => {
                // SAFETY: refused, so nobody else has seen the cell, which holds this.
                let task = unsafe { self.take_back::<Box<FutureTask<B>>>(cell) };
                Placed::Refused(self.refuse(name, reason, task.into_closure()))
            }
        }
    }

    /// Begins a claimed task where it was offered: on top of the task that is polled here
    /// (None), or in the submission, which then polls it.
    fn begin_here(self: &Arc<Self>, cell: CellRef) -> Option<Hosted> {
        let on_top = frames::with_poll(self.address(), |poll| {
            let on_top = poll.is_some();
            poll.into_iter().for_each(|poll| self.begin_claimed_on_top(cell, poll));
            on_top
        });
        if on_top {
            return None;
        }
        self.ledger.on_caller.fetch_add(1, SeqCst);
        self.ledger.started.fetch_add(1, SeqCst);
        self.callers.lock().push((cell, frames::fresh_number()));
        let nest = Nest::default();
        let env = RunEnv { core: self, line: None, state: no_state(), nest: &nest };
        frames::enter(self.address(), None, || run_claimed(cell, &env));
        Some(Hosted { core: Arc::clone(self), cell, nest, told: None })
    }
}

// ---------------------------------------------------------------- waiting for room

/// A submission in line.
struct InLobby<'t, B: Begin> {
    core: Arc<Core>,
    offer: Offer<'t>,
    /// None once it has been let in or refused.
    cell: Option<CellRef>,
    until: Ticks,
    began: Ticks,
    /// Its place in the line.
    number: Option<u64>,
    wake_ups: Option<WakeUps>,
    work: PhantomData<fn() -> B>,
}

impl<'t, B: Begin> InLobby<'t, B> {
    fn new(core: &Arc<Core>, cell: CellRef, until: Ticks, offer: Offer<'t>) -> Self {
        let (core, began) = (Arc::clone(core), core.clock.now());
        let (cell, number, wake_ups) = (Some(cell), None, None);
        InLobby { core, offer, cell, until, began, number, wake_ups, work: PhantomData }
    }

    fn look(&mut self, waker: &Waker) -> Poll<Result<(), Reason>> {
        let (core, cell) = (&self.core, self.cell.expect("polled after it was ready"));
        // In line before the looks: what changes after them wakes us.
        let number = *self.number.get_or_insert_with(|| core.lobby.join_future(waker));
        core.lobby.update(number, waker);
        WakeUps::set(&mut self.wake_ups, core, self.offer.token, self.until, waker);
        if core.queue.is_closed() {
            return Poll::Ready(Err(Reason::Closed));
        }
        if self.offer.token.is_some_and(Token::is_cancelled) {
            return Poll::Ready(Err(Reason::Cancelled));
        }
        if core.lobby.has_turn(number) {
            self.offer.step_in();
            match core.push_cell(cell, Standing::FirstInLine, &self.offer) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(NoRoom::Closed) => {
                    self.offer.step_back();
                    return Poll::Ready(Err(Reason::Closed));
                }
                Err(NoRoom::Full) => self.offer.step_back(),
            }
            core.turn_away();
        }
        if core.clock.now() >= self.until {
            return Poll::Ready(Err(Reason::TimedOut));
        }
        Poll::Pending
    }

    fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            self.core.lobby.leave(number, &self.core.queue);
        }
    }

    /// Nobody has let it in: the work comes back.
    fn take_back(&mut self) -> Option<B::Closure> {
        let cell = self.cell.take()?;
        self.leave();
        self.offer.step_in(); // whoever counted it takes it off
        // SAFETY: not accepted, so nobody else has seen the cell, which holds this.
        let task = unsafe { self.core.take_back::<Box<FutureTask<B>>>(cell) };
        Some(task.into_closure())
    }
}

impl<B: Begin> Unpin for InLobby<'_, B> {}

impl<B: Begin> Future for InLobby<'_, B> {
    type Output = Taken<B>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Taken<B>> {
        let this = &mut *self;
        match this.look(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                this.leave();
                let cell = this.cell.take().expect("just let in");
                let core = &this.core;
                core.task_added();
                let waited = this.offer.waited + core.clock.now().since(this.began);
                core.times.submitted(this.offer.name, waited);
                core.let_in(cell, &this.offer);
                Poll::Ready(Ok(cell))
            }
            Poll::Ready(Err(reason)) => {
                let closure = this.take_back().expect("not let in");
                Poll::Ready(Err(this.core.refuse(this.offer.name, reason, closure)))
            }
        }
    }
}

impl<B: Begin> Drop for InLobby<'_, B> {
    fn drop(&mut self) {
        if drop_quietly(self.take_back()) {
            self.core.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }
}

// ---------------------------------------------------------------- CallerRuns

/// A task that its submission polls.
struct Hosted {
    core: Arc<Core>,
    cell: CellRef,
    nest: Nest,
    told: Option<(Waker, Option<Registration>)>,
}

impl Hosted {
    /// As a caller of the pool.
    fn inside<R>(&self, f: impl FnOnce(&RunEnv<'_>) -> R) -> R {
        let (core, nest) = (&self.core, &self.nest);
        let env = RunEnv { core, line: None, state: no_state(), nest };
        frames::enter(core.address(), None, || f(&env))
    }

    fn over(&mut self) {
        self.callers_leave();
        self.core.settled();
    }

    fn callers_leave(&self) {
        self.core.callers.lock().retain(|(other, _)| *other != self.cell);
    }
}

impl Future for Hosted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // A stop wakes nobody but a worker, unless its token does.
        if !this.told.as_ref().is_some_and(|(old, _)| old.will_wake(cx.waker()))
            && let Some(token) = this.nest.token()
        {
            let registered = token.register(Listener::Waker(cx.waker().clone()));
            this.told = Some((cx.waker().clone(), registered));
        }
        let polled = this.inside(|env| env.nest.poll(env, cx));
        if polled.is_ready() {
            this.over();
        }
        polled
    }
}

impl Drop for Hosted {
    /// The submission was dropped, and its task with it.
    fn drop(&mut self) {
        if !self.nest.is_empty() {
            self.inside(|env| env.nest.stop(env, Cause::Dropped));
            self.over();
        }
    }
}

//! Futures on their way to a place in the queue (`awaited.rs`), and those that their submission
//! polls itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::coop::consume_budget;

use super::body::FutureTask;
use super::driver::enter;
use super::nest::{Nest, StopWake};
use super::work::Begin;
use crate::admission::Patience;
use crate::awaited::{LetIn, Placed, Taken};
use crate::core::Core;
use crate::frames;
use crate::handle::Handle;
use crate::job::Work;
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::permits::Permits;
use crate::refused::{Reason, Refused};
use crate::settle::RunEnv;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::worker::{no_state, run_claimed};

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
    // A loop of submissions that never wait takes its share of tokio's budget, as one of sends does.
    consume_budget().await;
    match offer.wants {
        None => place(core, work, handle, offer).await,
        Some(_) => {
            let (held, offer) = Permits::new(Arc::clone(&core), work, offer).await?;
            place(core, held, handle, offer).await
        }
    }
}

async fn place<B: Begin>(core: Arc<Core>, work: B, handle: bool, offer: Offer<'_>) -> Taken<B> {
    let task = FutureTask::boxed(work);
    // SAFETY: it borrows nothing, and the functions are those of this task.
    let placed = unsafe { core.place(task, &FutureTask::<B>::OPS, handle, offer) };
    let cell = match placed {
        Placed::Accepted(cell) => return Ok(cell),
        Placed::Refused(refused) => return Err(refused),
        Placed::Waits(line) => match line.await? {
            LetIn::Queued(cell) => return Ok(cell),
            LetIn::Here(cell) => cell,
        },
        Placed::Here(cell) => cell,
    };
    // Dropped with the task in it, this must give back what the handle would.
    let own = handle.then(|| Handle::<B::Value, B::Error>::new(cell, false));
    if let Some(hosted) = core.begin_here(cell) {
        hosted.await;
    }
    std::mem::forget(own);
    Ok(cell)
}

impl Core {
    /// Offers a future without waiting for room, whatever the policy.
    pub(crate) fn try_future<B: Begin>(
        self: &Arc<Self>,
        work: B,
        handle: bool,
        offer: Offer<'_>,
    ) -> Taken<B> {
        self.future_blocking(work, handle, Offer { patience: Patience::Try, ..offer })
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

    /// Begins a claimed task where it was offered: on top of the task that is polled here
    /// (None), or in the submission, which then polls it.
    fn begin_here(self: &Arc<Self>, cell: CellRef) -> Option<Hosted> {
        if self.on_top(|| (), cell) {
            return None;
        }
        self.ledger.on_caller.fetch_add(1, SeqCst);
        self.ledger.started.fetch_add(1, SeqCst);
        self.callers.lock().push((cell, frames::fresh_number()));
        let nest = Nest::default();
        let env = RunEnv { core: self, line: None, state: no_state(), nest: &nest };
        enter(self, None, || run_claimed(cell, &env));
        Some(Hosted { core: Arc::clone(self), nest, told: StopWake::default() })
    }

    /// As `begin_here`, for an offer that does not wait and is made inside a poll. Refused if that
    /// is another pool's, where nobody would poll it, or has begun one that has not ended.
    pub(crate) fn begin_inside(
        self: &Arc<Self>,
        cell: CellRef,
        offer: &Offer<'_>,
    ) -> Result<(), Reason> {
        if self.on_top(|| self.claim_here(cell, offer), cell) {
            return Ok(());
        }
        Err(if offer.patience == Patience::Try { Reason::Full } else { Reason::WouldDeadlock })
    }

    /// Begins a task on top of the one that is polled here, if that is one of this pool and may.
    fn on_top(self: &Arc<Self>, claim: impl FnOnce(), cell: CellRef) -> bool {
        frames::with_poll(self.address(), |poll| {
            let Some(poll) = poll.filter(|poll| poll.may_begin.get()) else { return false };
            claim();
            self.begin_claimed_on_top(cell, poll);
            true
        })
    }
}

// ---------------------------------------------------------------- CallerRuns

/// A task that its submission polls.
struct Hosted {
    core: Arc<Core>,
    nest: Nest,
    told: StopWake,
}

impl Hosted {
    /// As a caller of the pool.
    fn inside<R>(&self, f: impl FnOnce(&RunEnv<'_>) -> R) -> R {
        let (core, nest) = (&self.core, &self.nest);
        let _runtime = core.driver.enter(); // it may be polled anywhere
        let env = RunEnv { core, line: None, state: no_state(), nest };
        enter(core, None, || f(&env))
    }
}

impl Future for Hosted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut told = std::mem::take(&mut this.told);
        let polled = this.inside(|env| env.nest.poll_hosted(env, cx, &mut told));
        this.told = told;
        if polled.is_ready() {
            this.core.settled();
        }
        polled
    }
}

impl Drop for Hosted {
    /// The submission was dropped, and its task with it.
    fn drop(&mut self) {
        if !self.nest.is_empty() {
            self.inside(|env| env.nest.stop(env, Cause::Dropped));
            self.core.settled();
        }
    }
}

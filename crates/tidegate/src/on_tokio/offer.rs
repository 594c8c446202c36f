//! Futures on their way to a place in the queue (`awaited.rs`), and those that their submission
//! polls itself.

use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop::poll_proceed;

use super::body::FutureTask;
use super::driver::enter;
use super::nest::{Nest, StopWake};
use super::work::Begin;
use crate::admission::Patience;
use crate::awaited::{LetIn, Placed, Taken};
use crate::cell::{Label, Ops};
use crate::core::Core;
use crate::depot;
use crate::frames;
use crate::handle::Handle;
use crate::job::{Work, fits, put};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::permits::Permits;
use crate::queue::{NoRoom, Standing};
use crate::refused::{Reason, Refused};
use crate::settle::RunEnv;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::worker::{no_state, run_claimed};

/// A future on its way into a pool, for a `HANDLE` or fire and forget.
pub(crate) struct Submission<'t, B: Begin, T, C, const HANDLE: bool> {
    core: C,
    stage: Stage<'t, B, T>,
}

enum Stage<'t, B: Begin, T> {
    Offered(B, T),
    Waits(Waits<'t, B>),
    Over,
}

/// A wait for permits or for room, or a task that its submission polls. In a box: few come to
/// that, and it is large.
type Waits<'t, B> = Pin<Box<dyn Future<Output = Taken<B>> + Send + 't>>;

// Its work is pinned only once it is in a box.
impl<B: Begin, T, C, const HANDLE: bool> Unpin for Submission<'_, B, T, C, HANDLE> {}

/// Offers a future; the handle if it was accepted. `core` may be borrowed or shared.
pub(crate) fn submit<'t, B: Begin, T: Terms<'t>, C: Borrow<Arc<Core>>>(
    core: C,
    work: B,
    terms: T,
) -> Submission<'t, B, T, C, true> {
    Submission { core, stage: Stage::Offered(work, terms) }
}

/// Fire and forget.
pub(crate) fn spawn<'t, B: Begin, T: Terms<'t>, C: Borrow<Arc<Core>>>(
    core: C,
    work: B,
    terms: T,
) -> Submission<'t, B, T, C, false> {
    Submission { core, stage: Stage::Offered(work, terms) }
}

impl<'t, B, T, C> Future for Submission<'t, B, T, C, true>
where
    B: Begin,
    T: Terms<'t>,
    C: Borrow<Arc<Core>>,
{
    type Output = Result<Handle<B::Value, B::Error>, Refused<B::Closure>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_taken(cx).map_ok(|cell| Handle::new(cell, false))
    }
}

impl<'t, B, T, C> Future for Submission<'t, B, T, C, false>
where
    B: Begin,
    T: Terms<'t>,
    C: Borrow<Arc<Core>>,
{
    type Output = Result<(), Refused<B::Closure>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_taken(cx).map_ok(drop)
    }
}

impl<'t, B, T, C, const HANDLE: bool> Submission<'t, B, T, C, HANDLE>
where
    B: Begin,
    T: Terms<'t>,
    C: Borrow<Arc<Core>>,
{
    #[inline]
    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Taken<B>> {
        if let Stage::Waits(waits) = &mut self.stage {
            return waits.as_mut().poll(cx);
        }
        // A loop of submissions that never wait takes its share of tokio's budget, as one of
        // sends does.
        ready!(poll_proceed(cx)).made_progress();
        let Stage::Offered(work, terms) = std::mem::replace(&mut self.stage, Stage::Over) else {
            panic!("a submission was polled after it was ready");
        };
        match terms.place(self.core.borrow(), work, HANDLE) {
            Ok(taken) => Poll::Ready(taken),
            Err(mut waits) => {
                let polled = waits.as_mut().poll(cx);
                self.stage = Stage::Waits(waits);
                polled
            }
        }
    }
}

/// On what terms a future is offered.
pub(crate) trait Terms<'t> {
    /// Takes a place if there is one, and does what else can be done at once.
    fn place<B: Begin>(
        self,
        core: &Arc<Core>,
        work: B,
        handle: bool,
    ) -> Result<Taken<B>, Waits<'t, B>>;
}

/// A place, and nothing else.
pub(crate) struct Plainly;

impl<'t> Terms<'t> for Plainly {
    #[inline(always)]
    fn place<B: Begin>(
        self,
        core: &Arc<Core>,
        work: B,
        handle: bool,
    ) -> Result<Taken<B>, Waits<'t, B>> {
        let (cell, why) = match core.place_future(work, handle) {
            Ok(cell) => return Ok(Ok(cell)),
            Err(no_room) => no_room,
        };
        // SAFETY: refused, so nobody else has seen the cell, which holds the one or the other.
        unsafe {
            if fits::<B>() {
                go_on::<B, _>(core, handle, core.place_slowly::<B>(cell, why, Offer::default()))
            } else {
                type Large<B> = Box<FutureTask<B>>;
                go_on::<B, _>(
                    core,
                    handle,
                    core.place_slowly::<Large<B>>(cell, why, Offer::default()),
                )
            }
        }
    }
}

impl<'t> Terms<'t> for Offer<'t> {
    fn place<B: Begin>(
        self,
        core: &Arc<Core>,
        work: B,
        handle: bool,
    ) -> Result<Taken<B>, Waits<'t, B>> {
        if self.wants.is_some() {
            let core = Arc::clone(core);
            return Err(Box::pin(async move {
                let (held, offer) = Permits::new(Arc::clone(&core), work, self).await?;
                match place(&core, held, handle, offer) {
                    Ok(taken) => taken,
                    Err(waits) => waits.await,
                }
            }));
        }
        place(core, work, handle, self)
    }
}

/// For an offer that holds what it wanted.
fn place<'t, B: Begin>(
    core: &Arc<Core>,
    work: B,
    handle: bool,
    offer: Offer<'t>,
) -> Result<Taken<B>, Waits<'t, B>> {
    // SAFETY: it borrows nothing, and the functions are those of what is offered.
    unsafe {
        if fits::<B>() {
            go_on::<B, _>(
                core,
                handle,
                core.place(work, &FutureTask::<B>::SMALL_OPS, handle, offer),
            )
        } else {
            let task = FutureTask::boxed(work);
            go_on::<B, _>(core, handle, core.place(task, &FutureTask::<B>::OPS, handle, offer))
        }
    }
}

/// `W` is the work as it lies in its cell.
#[inline]
fn go_on<'t, B, W>(
    core: &Arc<Core>,
    handle: bool,
    placed: Placed<'t, W>,
) -> Result<Taken<B>, Waits<'t, B>>
where
    B: Begin,
    W: Work<Value = B::Value, Error = B::Error, Closure = B::Closure> + 'static,
{
    match placed {
        Placed::Accepted(cell) => Ok(Ok(cell)),
        Placed::Refused(refused) => Ok(Err(refused)),
        placed => Err(Box::pin(let_in::<W>(Arc::clone(core), handle, placed))),
    }
}

async fn let_in<W: Work<Closure: Send>>(
    core: Arc<Core>,
    handle: bool,
    placed: Placed<'_, W>,
) -> Taken<W> {
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
    let own = handle.then(|| Handle::<W::Value, W::Error>::new(cell, false));
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

    /// As `future_blocking`, for an offer that asks for nothing but a place.
    #[inline]
    pub(crate) fn future_plainly<B: Begin>(self: &Arc<Self>, work: B, handle: bool) -> Taken<B> {
        let (cell, why) = match self.place_future(work, handle) {
            Ok(cell) => return Ok(cell),
            Err(no_room) => no_room,
        };
        if let Err(reason) = self.offer_slowly(cell, why, &Offer::default()) {
            // SAFETY: refused, so nobody else has seen the cell, which holds the one or the other.
            let closure = unsafe {
                match fits::<B>() {
                    true => self.take_back::<B>(cell).into_closure(),
                    false => self.take_back::<Box<FutureTask<B>>>(cell).into_closure(),
                }
            };
            return Err(self.refuse("", reason, closure));
        }
        Ok(cell)
    }

    /// A place for a future, if there is one, in its cell or in a box.
    #[inline(always)]
    fn place_future<B: Begin>(&self, work: B, handle: bool) -> Result<CellRef, (CellRef, NoRoom)> {
        // SAFETY: it borrows nothing, and the functions are those of what is offered.
        unsafe {
            if fits::<B>() {
                self.place_plain(work, &FutureTask::<B>::SMALL_OPS, handle)
            } else {
                self.place_plain(FutureTask::boxed(work), &FutureTask::<B>::OPS, handle)
            }
        }
    }

    /// As `Core::place`, for an offer that asks for a place and nothing else. Err: there was none, and
    /// `place_slowly` goes on from there.
    ///
    /// # Safety
    /// As for `fill_cell`.
    #[inline(always)]
    unsafe fn place_plain<W: Work>(
        &self,
        work: W,
        ops: &'static Ops,
        handle: bool,
    ) -> Result<CellRef, (CellRef, NoRoom)> {
        let cell = depot::take();
        let run_limit = self.config.task_timeout.filter(|limit| *limit != Duration::MAX);
        let label = Label { handle, run_limit, ..Label::default() };
        // SAFETY: a free cell's payload is empty.
        cell.fill(ops, self.address(), label, |words| unsafe { put(words, work) });
        match self.queue.push_cell(cell, Standing::Newcomer) {
            Ok(()) => {
                self.task_added();
                Ok(cell)
            }
            Err(why) => Err((cell, why)),
        }
    }

    /// As closures are offered: a wait for room blocks, and so does a task that runs here.
    fn offer_here<B: Begin>(self: &Arc<Self>, work: B, handle: bool, offer: Offer<'_>) -> Taken<B> {
        let name = offer.name;
        // SAFETY: it borrows nothing, and the functions are those of what is offered.
        let offered = unsafe {
            if fits::<B>() {
                self.offer_cell_of(work, &FutureTask::<B>::SMALL_OPS, handle, offer)
                    .map_err(|(reason, work)| (reason, work.into_closure()))
            } else {
                self.offer_cell_of(FutureTask::boxed(work), &FutureTask::<B>::OPS, handle, offer)
                    .map_err(|(reason, task)| (reason, task.into_closure()))
            }
        };
        offered.map_err(|(reason, closure)| self.refuse(name, reason, closure))
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

//! From an offer to a place in the queue, or to a refusal.
//!
//! Order of reasons: Closed, Cancelled, WouldDeadlock, then Full or TimedOut.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cell::{Kind, Label, Ops};
use crate::clock::Ticks;
use crate::config::{Inside, WhenFull};
use crate::core::{Core, HARD};
use crate::decide::{self, OnFull};
use crate::depot;
use crate::extras::{self, Callback};
use crate::frames::{self, MAX_DEPTH};
use crate::job::{InlineJob, Run, Words, Work, fits, put, take};
use crate::life::CellRef;
use crate::lobby::Waited;
use crate::nest::Nest;
use crate::outcome::Cause;
use crate::parker::with_parker;
use crate::queue::{NoRoom, Standing};
use crate::refused::{Reason, Refused};
use crate::settle::{self, OpsOf, RunEnv, Who};
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::snooze;
use crate::task::Offer;
use crate::token::{Listener, Token};
use crate::trace::TaskSpan;
use crate::worker::{no_state, run_claimed};

/// How long an offer may wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As the pool's policy says.
    Policy,
    /// Not at all.
    Try,
    /// As `Try`, by ourselves: nobody is refused anything if there is no room.
    Probe,
    /// As the policy says, but no longer than until then.
    Until(Instant),
    For(Duration),
    /// Fork and join: as the policy says, but inside a task of the pool it runs on top of
    /// that task rather than be refused for room, or for a Light or Soft closing (R8).
    Fork,
    /// A map, which asks for as much as there is room for: inside as `Fork`, outside it waits
    /// whatever the policy.
    Room,
    /// Inside a task of the pool: on top of it, although there may be room.
    Inline,
}

/// What is left to be done for an offer that found no room.
pub(crate) enum Slowly {
    Accepted,
    /// Wait for room, at most until then.
    Wait(Ticks),
    /// It runs on the thread, or in the future, that offers it.
    Here,
}

impl Core {
    /// Fire and forget, without a cell.
    #[inline(always)]
    pub(crate) fn spawn_plain<F: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        work: F,
        patience: Patience,
    ) -> Result<(), Refused<F>> {
        // SAFETY: made from this `F`.
        unsafe { self.spawn_job(InlineJob::new(work), patience) }
    }

    /// # Safety
    /// `job` was made from an `F`.
    #[inline(always)]
    pub(crate) unsafe fn spawn_job<F: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        job: InlineJob,
        patience: Patience,
    ) -> Result<(), Refused<F>> {
        match self.queue.push_inline(job, Standing::Newcomer) {
            Ok(()) => {
                self.task_added();
                Ok(())
            }
            // SAFETY: by contract; it is the same job that comes back.
            Err((why, job)) => unsafe { self.spawn_slowly(why, job, patience) },
        }
    }

    /// # Safety
    /// `job` was made from an `F`.
    #[cold]
    unsafe fn spawn_slowly<F: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        why: NoRoom,
        job: InlineJob,
        patience: Patience,
    ) -> Result<(), Refused<F>> {
        // SAFETY: by contract; each way below calls it once.
        let work = |job: InlineJob| unsafe { job.into_work::<F>() };
        if why == NoRoom::Closed {
            return Err(self.refuse("", Reason::Closed, work(job)));
        }
        self.turn_away();
        let depth = frames::depth(self.address());
        let (policy, inside) = (self.config.when_full, self.config.inside);
        match decide::on_full(policy, inside, patience != Patience::Try, depth, MAX_DEPTH) {
            // The one way that can use the slot: wait with the closure in hand.
            OnFull::Wait(limit) if !frames::polls() => {
                let mut job = Some(job);
                let own = self.own_deadline(patience);
                let until = self.clock.now().after(limit).min(own);
                let waited = self.wait_for_room(until, &Offer::default(), |standing| {
                    let offered = job.take().expect("a refused job is put back");
                    self.queue.push_inline(offered, standing).map_err(|(why, back)| {
                        job = Some(back);
                        why
                    })
                });
                waited.map_err(|reason| {
                    self.refuse("", reason, work(job.expect("a refused job is put back")))
                })
            }
            // Rare ways to end go through a cell, which knows them all.
            _ => {
                let offer = Offer { patience, ..Offer::default() };
                self.offer(crate::job::Plain(work(job)), false, offer)?;
                Ok(())
            }
        }
    }

    pub(crate) fn refuse<F>(&self, name: &'static str, reason: Reason, work: F) -> Refused<F> {
        self.ledger.refuse(reason);
        self.said.refused(self, name, reason);
        self.refused(reason, work)
    }

    /// `uncounted`: refused for this reason, it is nobody's refusal.
    pub(crate) fn refuse_counted_unless<F>(
        &self,
        uncounted: Option<Reason>,
        name: &'static str,
        reason: Reason,
        work: F,
    ) -> Refused<F> {
        if uncounted == Some(reason) {
            return self.refused(reason, work);
        }
        self.refuse(name, reason, work)
    }

    fn refused<F>(&self, reason: Reason, work: F) -> Refused<F> {
        // Outside the pool there is one thing that would deadlock: to block in a poll.
        let in_poll = reason == Reason::WouldDeadlock && frames::depth(self.address()) == 0;
        Refused::new(reason, Arc::clone(&self.name), work).in_poll(in_poll)
    }

    /// Offers work as a cell task. Ok: it is accepted, and this is its cell, which belongs
    /// to the caller only if `handle` is set.
    #[inline]
    pub(crate) fn offer<W: Run + 'static>(
        self: &Arc<Self>,
        work: W,
        handle: bool,
        offer: Offer<'_>,
    ) -> Result<CellRef, Refused<W::Closure>> {
        // SAFETY: it borrows nothing.
        unsafe { self.offer_borrowing(work, handle, offer) }
    }

    /// As `offer`, for work that may borrow.
    ///
    /// # Safety
    /// What `work` borrows lives until its callback has run, or it was refused.
    #[inline]
    pub(crate) unsafe fn offer_borrowing<W: Run>(
        self: &Arc<Self>,
        work: W,
        handle: bool,
        offer: Offer<'_>,
    ) -> Result<CellRef, Refused<W::Closure>> {
        // Each copy of large work needs its own place on the stack of a build without
        // optimisation, so it is boxed here.
        if fits::<W>() {
            // SAFETY: by contract.
            unsafe { self.offer_fitting(work, handle, offer) }
        } else {
            // SAFETY: by contract.
            unsafe { self.offer_fitting(Box::new(work), handle, offer) }
        }
    }

    /// As `offer_borrowing`, for work that fits into a cell.
    ///
    /// # Safety
    /// As there.
    #[inline]
    unsafe fn offer_fitting<W: Run>(
        self: &Arc<Self>,
        work: W,
        handle: bool,
        offer: Offer<'_>,
    ) -> Result<CellRef, Refused<W::Closure>> {
        let (uncounted, name) = (offer.uncounted_reason(), offer.name);
        // SAFETY: by contract.
        unsafe { self.offer_cell(work, handle, offer) }.map_err(|(reason, work)| {
            self.refuse_counted_unless(uncounted, name, reason, work.into_closure())
        })
    }

    /// Puts the work into a cell and the cell into the queue, or gives the work back.
    ///
    /// # Safety
    /// As for `offer_borrowing`.
    #[inline]
    unsafe fn offer_cell<W: Run>(
        self: &Arc<Self>,
        work: W,
        handle: bool,
        offer: Offer<'_>,
    ) -> Result<CellRef, (Reason, W)> {
        // SAFETY: by contract, and they are its functions.
        unsafe { self.offer_cell_of(work, &OpsOf::<W>::OPS, handle, offer) }
    }

    /// As `offer_cell`, for work with functions of its own.
    ///
    /// # Safety
    /// As for `fill_cell`.
    #[inline]
    pub(crate) unsafe fn offer_cell_of<W: Work>(
        self: &Arc<Self>,
        work: W,
        ops: &'static Ops,
        handle: bool,
        mut offer: Offer<'_>,
    ) -> Result<CellRef, (Reason, W)> {
        // SAFETY: by contract.
        let cell = unsafe { self.fill_cell(work, ops, handle, &mut offer) }?;
        if let Err(why) = self.first_push(cell, &offer)
            && let Err(reason) = self.offer_slowly(cell, why, &offer)
        {
            // SAFETY: refused, so nobody else has seen the cell; it holds a `W`.
            return Err((reason, unsafe { self.take_back::<W>(cell) }));
        }
        self.let_in(cell, &offer);
        Ok(cell)
    }

    /// Puts work into a cell that nobody has seen yet, unless it can't be taken at all.
    ///
    /// # Safety
    /// As for `offer_borrowing`; `ops` are made for a `W`.
    #[inline]
    pub(crate) unsafe fn fill_cell<W: Work>(
        self: &Arc<Self>,
        work: W,
        ops: &'static Ops,
        handle: bool,
        offer: &mut Offer<'_>,
    ) -> Result<CellRef, (Reason, W)> {
        if let Some(reason) = self.refusal_at_once(offer) {
            self.drop_callback(offer.on_outcome.take());
            return Err((reason, work));
        }
        offer.is_future = ops.is_future;
        let cell = depot::take();
        let span = TaskSpan::new(self, offer, settle::task_id(cell));
        let has_extras = offer.external_id.is_some()
            || span.is_some()
            || offer.on_outcome.is_some()
            || offer.token.is_some() && ops.is_future
            || offer.total_timeout.is_some()
            || offer.until.is_some()
            || offer.hold.strong_count() > 0;
        if has_extras {
            let mut extras = extras::of_or_new(cell).lock();
            extras.external_id = offer.external_id.take();
            extras.on_outcome = offer.on_outcome.take();
            extras.hold = std::mem::take(&mut offer.hold);
            if ops.is_future {
                extras.obeys = offer.token.map(|token| (token.clone(), offer.cause));
            }
            extras.span = span;
        }
        // SAFETY: a free cell's payload is empty.
        let write = |words: *mut Words| unsafe { put(words, work) };
        let run_limit = self.run_limit(offer);
        let borrows = offer.borrows;
        let label = Label { name: offer.name, handle, extras: has_extras, run_limit, borrows };
        cell.fill(ops, self.address(), label, write);
        Ok(cell)
    }

    /// Takes a place if there is one.
    #[inline]
    pub(crate) fn first_push(&self, cell: CellRef, offer: &Offer<'_>) -> Result<(), NoRoom> {
        if offer.patience == Patience::Inline {
            return Err(NoRoom::Full);
        }
        self.push_cell(cell, Standing::Newcomer, offer)?;
        if !offer.others_follow {
            self.task_added();
        }
        if !offer.waited.is_zero() {
            self.times.submitted(offer.name, offer.waited, Duration::ZERO);
        }
        Ok(())
    }

    /// Was accepted: from now on its token can cancel it.
    #[inline]
    pub(crate) fn let_in(self: &Arc<Self>, cell: CellRef, offer: &Offer<'_>) {
        if let Some(token) = offer.token {
            self.obey(token, cell, offer);
        }
    }

    fn obey(self: &Arc<Self>, token: &Token, cell: CellRef, offer: &Offer<'_>) {
        if offer.is_future {
            self.listen(cell, Who::Caller);
        } else if !token.cancels(cell, offer.cause) {
            settle::cancel(cell, offer.cause, Who::Caller);
        }
    }

    /// The work of a cell that was refused.
    ///
    /// # Safety
    /// Nobody else has seen the cell, which holds a `W`.
    pub(crate) unsafe fn take_back<W: Work>(&self, cell: CellRef) -> W {
        let extras = extras::take(cell);
        self.drop_callback(extras.on_outcome);
        extras.span.end(self, format_args!("refused"));
        // SAFETY: by contract.
        let work = cell.unfill(|words| unsafe { take::<W>(words) });
        depot::put(cell);
        work
    }

    /// A callback of work that was refused; its captures may panic.
    pub(crate) fn drop_callback(&self, callback: Option<Callback>) {
        if crate::panics::drop_quietly(callback) {
            self.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }

    /// Why an offer can't be taken whatever room there is.
    #[inline]
    fn refusal_at_once(&self, offer: &Offer<'_>) -> Option<Reason> {
        if offer.token.is_some_and(crate::token::Token::is_cancelled) {
            let closed = self.queue.is_closed();
            return Some(if closed { Reason::Closed } else { Reason::Cancelled });
        }
        // Nobody could run it while its worker waits for it (W1).
        let held_up = offer.patience == Patience::Room
            && self.config.worker_state.is_some()
            && frames::depth(self.address()) > 0;
        held_up.then(|| self.held_up())
    }

    /// Nobody could run it while a worker whose state is in use waits for it; or ever.
    pub(crate) fn held_up(&self) -> Reason {
        if self.queue.is_closed() { Reason::Closed } else { Reason::WouldDeadlock }
    }

    /// How long a task may run, if it has a limit of any sort.
    #[inline]
    fn run_limit(&self, offer: &Offer<'_>) -> Option<Duration> {
        let run = offer.timeout.or(self.config.task_timeout);
        let other = offer.queue_timeout.or(offer.total_timeout).is_some() || offer.until.is_some();
        let limited = run.is_some_and(|d| d != Duration::MAX) || other;
        limited.then(|| run.unwrap_or(Duration::MAX))
    }

    /// Pushes a filled cell; its time in the queue begins now.
    #[inline]
    pub(crate) fn push_cell(
        &self,
        cell: CellRef,
        standing: Standing,
        offer: &Offer<'_>,
    ) -> Result<(), NoRoom> {
        if offer.queue_timeout.is_none() && offer.total_timeout.is_none() && offer.until.is_none() {
            return self.queue.push_cell(cell, standing);
        }
        let now = self.clock.now();
        let run_until = self.run_until(offer, now);
        let at = offer.queue_timeout.map_or(Ticks::NEVER, |limit| now.after(limit)).min(run_until);
        cell.limit_queue(at);
        if run_until != Ticks::NEVER {
            extras::of_or_new(cell).lock().run_until = Some(run_until);
        }
        self.queue.push_cell(cell, standing)?;
        self.watch_limit(at);
        Ok(())
    }

    /// When queue and run together must be over, for a task that is accepted now.
    fn run_until(&self, offer: &Offer<'_>, now: Ticks) -> Ticks {
        let total = offer.total_timeout.map_or(Ticks::NEVER, |total| now.after(total));
        total.min(offer.until.unwrap_or(Ticks::NEVER))
    }

    /// The supervisor must look no later than `at`.
    #[inline]
    pub(crate) fn watch_limit(&self, at: Ticks) {
        if self.limits.note(at) {
            self.wake_supervisor();
        }
    }

    /// Lets its token cancel a future that was accepted, and may have ended already. Whoever
    /// comes first does this: who offered it, or a worker that is about to poll it.
    pub(crate) fn listen(self: &Arc<Self>, cell: CellRef, who: Who) {
        let Some(extras) = extras::of(cell) else { return };
        let mut extras = extras.lock();
        // Settling takes the extras after its claim: while it is open they are of this life.
        let Some((token, cause)) = extras.obeys.take_if(|_| cell.is_open()) else { return };
        // Under the lock: who finds it gone from there may rely on the token.
        let too_late = !token.cancels(cell, cause);
        drop(extras);
        if too_late {
            settle::cancel(cell, cause, who);
        }
    }

    #[cold]
    pub(crate) fn offer_slowly(
        self: &Arc<Self>,
        cell: CellRef,
        why: NoRoom,
        offer: &Offer<'_>,
    ) -> Result<(), Reason> {
        match self.without_room(cell, why, offer)? {
            Slowly::Accepted => Ok(()),
            #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
            Slowly::Here if cell.ops().is_future && frames::polls() => {
                self.begin_inside(cell, offer) // to its end it would hold up a runtime
            }
            Slowly::Here => {
                self.run_on_this_thread(cell, offer);
                Ok(())
            }
            Slowly::Wait(_) if frames::polls() => {
                offer.step_in();
                Err(Reason::WouldDeadlock) // it would hold up a runtime
            }
            Slowly::Wait(until) => {
                let waited = self.wait_for_room(until, offer, |standing| {
                    offer.step_in();
                    self.push_cell(cell, standing, offer).inspect_err(|_| offer.step_back())
                });
                waited.inspect_err(|_| offer.step_in())
            }
        }
    }

    /// What is left to be done for an offer that found no room. One that has to wait has
    /// stepped back from its group: who waits for that does not wait for those who wait to
    /// join it.
    pub(crate) fn without_room(
        self: &Arc<Self>,
        cell: CellRef,
        why: NoRoom,
        offer: &Offer<'_>,
    ) -> Result<Slowly, Reason> {
        let depth = frames::depth(self.address());
        let forks = self.forks(offer.patience, depth);
        if why == NoRoom::Closed && !forks {
            return Err(Reason::Closed);
        }
        if offer.patience != Patience::Inline {
            self.turn_away();
        }
        let (policy, inside) = match offer.patience {
            _ if forks => (WhenFull::CallerRuns, Inside::RunInline),
            Patience::Inline if self.config.worker_state.is_none() => return Err(Reason::Closed),
            Patience::Inline => return Err(self.held_up()),
            Patience::Room => (WhenFull::Wait, Inside::Refuse),
            _ if offer.awaited && depth == 0 && self.config.when_full == WhenFull::CallerRuns => {
                (WhenFull::Wait, Inside::Refuse)
            }
            _ => (self.config.when_full, self.config.inside),
        };
        let may_wait = !matches!(offer.patience, Patience::Try | Patience::Probe);
        let deepest = if forks { usize::MAX } else { MAX_DEPTH };
        match decide::on_full(policy, inside, may_wait, depth, deepest) {
            OnFull::Refuse(reason) => Err(reason),
            OnFull::Wait(limit) => {
                offer.step_back();
                Ok(Slowly::Wait(self.clock.now().after(limit).min(self.gives_up_at(offer))))
            }
            OnFull::EvictNew => {
                self.ledger.accepted.fetch_add(1, SeqCst);
                if cell.claim_queued(Cause::Shutdown).is_some() {
                    settle::settle_unstarted(cell, Kind::Evicted, None, self);
                }
                Ok(Slowly::Accepted)
            }
            OnFull::EvictOldest => self.evict_until_room(cell, offer).map(|()| Slowly::Accepted),
            OnFull::RunHere => Ok(Slowly::Here),
        }
    }

    /// DropOldest: takes the head as a worker would, settles it here, and tries again.
    fn evict_until_room(self: &Arc<Self>, cell: CellRef, offer: &Offer<'_>) -> Result<(), Reason> {
        let mut step = 0;
        loop {
            match self.push_cell(cell, Standing::Newcomer, offer) {
                Ok(()) => {
                    self.task_added();
                    return Ok(());
                }
                Err(NoRoom::Closed) => return Err(Reason::Closed),
                Err(NoRoom::Full) => {
                    let claim = |c: CellRef| c.claim_queued(Cause::Shutdown).is_some();
                    match self.queue.take(false, claim) {
                        Some(oldest) => settle::settle_item(oldest, Kind::Evicted, None, self),
                        // A worker has claimed it and is about to give its place back.
                        None => {
                            snooze(step);
                            step += 1;
                        }
                    }
                }
            }
        }
    }

    /// CallerRuns and RunInline: a task of the pool, on this thread.
    fn run_on_this_thread(self: &Arc<Self>, cell: CellRef, offer: &Offer<'_>) {
        self.claim_here(cell, offer);
        self.run_here(cell);
    }

    /// Accepts a task that the caller will run itself.
    pub(crate) fn claim_here(self: &Arc<Self>, cell: CellRef, offer: &Offer<'_>) {
        self.ledger.accepted.fetch_add(1, SeqCst);
        let run_until = self.run_until(offer, self.clock.now());
        if run_until != Ticks::NEVER {
            extras::of_or_new(cell).lock().run_until = Some(run_until);
        }
        // The cell was never offered to a queue, so nobody can be there first.
        let claimed = cell.claim_start();
        debug_assert!(claimed, "an unqueued cell was claimed by somebody else");
        if let Some(token) = offer.token {
            self.obey(token, cell, offer); // afterwards would be too late
        }
    }

    /// Runs a claimed task on this thread: on top of a worker's task, or for a caller.
    pub(crate) fn run_here(self: &Arc<Self>, cell: CellRef) {
        frames::with_line(self.address(), |line| {
            let mut timed = None;
            match line {
                Some(line) => {
                    self.ledger.nested.fetch_add(1, SeqCst);
                    line.count_nested();
                }
                None => {
                    let number = self.ledger.on_caller.fetch_add(1, SeqCst) + 1;
                    timed = self.times.is_caller_timed(number).then(|| (number, self.clock.now()));
                    self.ledger.started.fetch_add(1, SeqCst);
                    self.callers.lock().push((cell, frames::runner()));
                }
            }
            let nest = Nest::default();
            let env = RunEnv { core: self, line, state: no_state(), nest: &nest };
            frames::enter(self.address(), None, || run_claimed(cell, &env));
            nest.finish_here(&env);
            if let Some((number, began)) = timed {
                self.times.caller_ran(number, self.clock.now().since(began));
            }
            if line.is_none() {
                self.settled();
            }
        });
    }

    /// R8: it runs on top of the task that offers it rather than be refused.
    pub(crate) fn forks(&self, patience: Patience, depth: usize) -> bool {
        matches!(patience, Patience::Fork | Patience::Room | Patience::Inline)
            && depth > 0
            // A worker whose state is in use can't run a second task.
            && self.config.worker_state.is_none()
            && self.flags.load(SeqCst) & HARD == 0
    }

    /// As `own_deadline`, if it has not begun to wait before; and the group's.
    pub(crate) fn gives_up_at(&self, offer: &Offer<'_>) -> Ticks {
        let own = offer.give_up_at.unwrap_or_else(|| self.own_deadline(offer.patience));
        own.min(offer.until.unwrap_or(Ticks::NEVER))
    }

    /// Until when whoever offers is ready to wait.
    pub(crate) fn own_deadline(&self, patience: Patience) -> Ticks {
        let now = self.clock.now();
        match patience {
            Patience::Until(at) => now.after(at.saturating_duration_since(Instant::now())),
            Patience::For(d) => now.after(d),
            _ => Ticks::NEVER,
        }
    }

    fn wait_for_room(
        &self,
        deadline: Ticks,
        offer: &Offer<'_>,
        mut push: impl FnMut(Standing) -> Result<(), NoRoom>,
    ) -> Result<(), Reason> {
        // One that this one follows may fill the queue, and nobody be awake for it.
        self.task_added();
        let began = self.clock.now();
        let waited = with_parker(|parker, waker| {
            let token = offer.token;
            let _woken_by = token.map(|t| t.register(Listener::Waker(waker.clone())));
            let cancelled = || {
                token.is_some_and(crate::token::Token::is_cancelled)
                    || offer.unwanted.is_some_and(|unwanted| unwanted(waker))
            };
            let (queue, clock) = (&self.queue, &self.clock);
            // Once more from the line: the mark that was left before may have been read while an
            // idle worker was still there, which has gone meanwhile (W4).
            let push = |standing| push(standing).inspect_err(|_| self.turn_away());
            let joined = || {
                if self.lobby.may_be_held_up(queue) {
                    self.mind_the_turn();
                }
            };
            self.lobby.wait(queue, (clock, deadline), parker, cancelled, joined, push)
        });
        match waited {
            Waited::Admitted => {
                self.task_added();
                let for_room = self.clock.now().since(began);
                self.times.submitted(offer.name, offer.waited, for_room);
                Ok(())
            }
            Waited::Closed => Err(Reason::Closed),
            Waited::TimedOut => Err(Reason::TimedOut),
            Waited::Cancelled => Err(Reason::Cancelled),
        }
    }
}

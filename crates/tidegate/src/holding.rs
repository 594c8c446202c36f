//! Tasks that hold a share of budgets (B1): from the offer until their code is gone.
//!
//! The share lies beside the closure: whoever drops the closure, after its run or without one,
//! gives it back, before the outcome is told. So an abandoned task keeps it for as long as its
//! code runs; the cell only knows it weakly, to say so in the gauge.

use std::sync::{Arc, Weak};

use crate::admission::Patience;
use crate::budget::{Budget, Permit};
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::decide::{self, OnFull};
use crate::frames;
use crate::job::{Run, Work};
use crate::refused::{Reason, Refused};
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::Listener;

/// What a task asks for, in the order in which every task takes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wants(pub(crate) Vec<(Budget, u64)>);

impl Wants {
    /// One budget is taken once, however often it is named: a second wait for it would be a
    /// wait for ourselves.
    pub(crate) fn add(&mut self, budget: &Budget, weight: u64) {
        match self.0.binary_search_by_key(&budget.address(), |(budget, _)| budget.address()) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(weight),
            Err(at) => self.0.insert(at, (budget.clone(), weight)),
        }
    }
}

/// What a task holds.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    permits: Vec<Permit>,
    abandoned: AtomicBool,
}

impl Hold {
    /// Its task was given up, and its code runs on.
    pub(crate) fn abandon(&self) {
        if !self.abandoned.swap(true, SeqCst) {
            self.count(true);
        }
    }

    fn count(&self, held: bool) {
        for permit in &self.permits {
            permit.budget().pot().count_abandoned(permit.weight(), held);
        }
    }

    pub(crate) fn add(&mut self, budget: &Budget, weight: u64) {
        self.permits.push(Permit::new(budget, weight));
    }

    /// The work was refused.
    pub(crate) fn refund(mut self) {
        std::mem::take(&mut self.permits).into_iter().for_each(Permit::refund);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.abandoned.load(SeqCst) {
            self.count(false);
        }
    }
}

/// Work with its share.
pub(crate) struct Holding<W> {
    // In this order: whoever takes the share finds the captures gone.
    work: W,
    hold: Arc<Hold>,
}

impl<W: Work> Work for Holding<W> {
    type Value = W::Value;
    type Error = W::Error;
    type Closure = W::Closure;
    fn into_closure(self) -> W::Closure {
        if let Some(hold) = Arc::into_inner(self.hold) {
            hold.refund();
        }
        self.work.into_closure()
    }
    fn describe(error: &W::Error) -> String {
        W::describe(error)
    }
}

impl<W: Run> Run for Holding<W> {
    fn run(self, state: *mut (), cx: &Cx) -> Result<W::Value, W::Error> {
        let _until_it_returns = self.hold;
        self.work.run(state, cx)
    }
}

impl<W> Holding<W> {
    pub(crate) fn new(work: W, hold: Hold) -> Holding<W> {
        Holding { work, hold: Arc::new(hold) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn into_parts(self) -> (W, Arc<Hold>) {
        (self.work, self.hold)
    }
}

impl Core {
    /// Takes what `offer` wants, waiting for it as the policy says; what is wrapped then goes
    /// on to a place in the queue.
    pub(crate) fn hold<W: Work>(
        &self,
        work: W,
        offer: &mut Offer<'_>,
    ) -> Result<Holding<W>, Refused<W::Closure>> {
        let Wants(wants) = *offer.wants.take().unwrap_or_default();
        let mut hold = Hold::default();
        match self.take_permits(&wants, &mut hold, offer) {
            Ok(()) => {
                let held = Holding::new(work, hold);
                offer.hold = Arc::downgrade(held.hold());
                Ok(held)
            }
            Err(reason) => {
                hold.refund();
                self.drop_callback(offer.on_outcome.take());
                Err(self.refuse(offer.name, reason, work.into_closure()))
            }
        }
    }

    fn take_permits(
        &self,
        wants: &[(Budget, u64)],
        hold: &mut Hold,
        offer: &mut Offer<'_>,
    ) -> Result<(), Reason> {
        self.may_hold(wants, offer)?;
        let began = self.clock.now();
        for (budget, weight) in wants {
            match budget.pot().try_take(*weight) {
                Ok(()) => {}
                Err(Reason::OverBudget) => {
                    let until = self.permits_until(offer, began)?;
                    offer.step_back();
                    let waited = self.wait_for_permit(budget, *weight, until, offer.token);
                    offer.step_in();
                    waited?;
                    offer.waited = self.clock.now().since(began);
                }
                Err(reason) => return Err(reason),
            }
            hold.add(budget, *weight);
        }
        Ok(())
    }

    /// Whether it makes sense to take any.
    pub(crate) fn may_hold(
        &self,
        wants: &[(Budget, u64)],
        offer: &Offer<'_>,
    ) -> Result<(), Reason> {
        let depth = frames::depth(self.address());
        if self.queue.is_closed() && !self.forks(offer.patience, depth) {
            return Err(Reason::Closed);
        }
        if offer.token.is_some_and(crate::token::Token::is_cancelled) {
            return Err(Reason::Cancelled);
        }
        if wants.iter().any(|(budget, weight)| *weight > budget.capacity()) {
            return Err(Reason::TooHeavy);
        }
        Ok(())
    }

    /// Until when to wait for what is not there, if at all.
    pub(crate) fn permits_until(
        &self,
        offer: &mut Offer<'_>,
        began: Ticks,
    ) -> Result<Ticks, Reason> {
        let depth = frames::depth(self.address());
        let may_wait = offer.patience != Patience::Try;
        let limit = match decide::on_over_budget(self.config.when_full, may_wait, depth) {
            OnFull::Wait(limit) => limit,
            OnFull::Refuse(reason) => return Err(reason),
            _ => return Err(Reason::OverBudget),
        };
        // One limit for all that it waits for, the place included.
        let until = offer.until.unwrap_or(Ticks::NEVER);
        let own = *offer
            .give_up_at
            .get_or_insert_with(|| self.own_deadline(offer.patience).min(began.after(limit)));
        Ok(own.min(until))
    }

    fn wait_for_permit(
        &self,
        budget: &Budget,
        weight: u64,
        deadline: Ticks,
        token: Option<&crate::token::Token>,
    ) -> Result<(), Reason> {
        self.ledger.budget_waiters.fetch_add(1, SeqCst);
        let cancelled = || token.is_some_and(crate::token::Token::is_cancelled);
        let taken = budget.pot().wait_for(
            weight,
            &self.clock,
            deadline,
            |waker| {
                let register =
                    |token: &crate::token::Token| token.register(Listener::Waker(waker.clone()));
                (token.map(register), register(&self.closed))
            },
            || match self.queue.is_closed() {
                true => Some(Reason::Closed),
                false => cancelled().then_some(Reason::Cancelled),
            },
        );
        self.ledger.budget_waiters.fetch_sub(1, SeqCst);
        taken
    }
}

/// What an outcome needs to know: whether the task holds something.
pub(crate) fn abandoned(hold: &Weak<Hold>) {
    if let Some(hold) = hold.upgrade() {
        hold.abandon();
    }
}

//! Taking of budgets what a task wants, awaited (B1).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::clock::Ticks;
use crate::core::Core;
use crate::holding::{Hold, Holding, Wants};
use crate::job::Work;
use crate::panics::drop_quietly;
use crate::pot::InLine;
use crate::refused::{Reason, Refused};
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::Token;
use crate::wake_ups::WakeUps;

/// Ready with the work and its share. Dropped before that, it gives everything back.
pub(crate) struct Permits<'t, W: Work> {
    core: Arc<Core>,
    /// Both None once it is over.
    offer: Option<Offer<'t>>,
    work: Option<W>,
    wants: Wants,
    hold: Option<Hold>,
    taken: usize,
    began: Ticks,
    /// In line for the next one, until then.
    place: Option<(InLine, Ticks)>,
    wake_ups: Option<WakeUps>,
}

type Held<'t, W> = Result<(Holding<W>, Offer<'t>), Refused<<W as Work>::Closure>>;

impl<'t, W: Work> Permits<'t, W> {
    pub(crate) fn new(core: Arc<Core>, work: W, mut offer: Offer<'t>) -> Self {
        let wants = *offer.wants.take().unwrap_or_default();
        let (began, hold) = (core.clock.now(), Some(Hold::default()));
        let (offer, work) = (Some(offer), Some(work));
        let (taken, place, wake_ups) = (0, None, None);
        Permits { core, offer, work, wants, hold, taken, began, place, wake_ups }
    }

    fn look(&mut self, waker: &Waker) -> Poll<Result<(), Reason>> {
        let core = Arc::clone(&self.core);
        let offer = self.offer.as_mut().expect("polled after it was ready");
        if self.taken == 0 && self.place.is_none() {
            core.may_hold(&self.wants.0, offer)?;
        }
        while let Some((budget, weight)) = self.wants.0.get(self.taken) {
            if self.place.is_none()
                && let Some(line) = budget.pot().enter(*weight)?
            {
                let until = core.permits_until(offer, self.began)?;
                offer.step_back();
                core.ledger.budget_waiters.fetch_add(1, SeqCst);
                self.place = Some((line, until));
            }
            if let Some((line, until)) = &mut self.place {
                WakeUps::set(&mut self.wake_ups, &core, offer.token, *until, waker);
                let answer = match line.poll(waker) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending if core.queue.is_closed() => Err(Reason::Closed),
                    Poll::Pending if offer.token.is_some_and(Token::is_cancelled) => {
                        Err(Reason::Cancelled)
                    }
                    Poll::Pending if core.clock.now() >= *until => Err(Reason::TimedOut),
                    Poll::Pending => return Poll::Pending,
                };
                leave_line(&core, &mut self.place, offer);
                answer?;
                offer.waited = core.clock.now().since(self.began);
            }
            self.hold.as_mut().expect("not over").add(budget, *weight);
            self.taken += 1;
        }
        Poll::Ready(Ok(()))
    }

    /// What is left of it: the work, and what it asked for.
    fn give_back(&mut self) -> Option<(W, Offer<'t>)> {
        let mut offer = self.offer.take()?;
        leave_line(&self.core, &mut self.place, &offer);
        self.hold.take().into_iter().for_each(Hold::refund);
        self.core.drop_callback(offer.on_outcome.take());
        Some((self.work.take().expect("not over"), offer))
    }
}

fn leave_line(core: &Core, place: &mut Option<(InLine, Ticks)>, offer: &Offer<'_>) {
    if place.take().is_some() {
        core.ledger.budget_waiters.fetch_sub(1, SeqCst);
        offer.step_in();
    }
}

impl<W: Work> Unpin for Permits<'_, W> {}

impl<'t, W: Work> Future for Permits<'t, W> {
    type Output = Held<'t, W>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Held<'t, W>> {
        let this = &mut *self;
        match this.look(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => {
                let mut offer = this.offer.take().expect("just looked at");
                let hold = this.hold.take().expect("as above");
                let held = Holding::new(this.work.take().expect("as above"), hold);
                offer.hold = Arc::downgrade(held.hold());
                Poll::Ready(Ok((held, offer)))
            }
            Poll::Ready(Err(reason)) => {
                let (work, offer) = this.give_back().expect("not over");
                Poll::Ready(Err(this.core.refuse(offer.name, reason, work.into_closure())))
            }
        }
    }
}

impl<W: Work> Drop for Permits<'_, W> {
    fn drop(&mut self) {
        if drop_quietly(self.give_back()) {
            self.core.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }
}

//! A slot of a group: taken before anything else, by who blocks and by who awaits, and given back
//! unless its task was accepted.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::admission::Patience;
use crate::core::Core;
use crate::handle::Handle;
use crate::holding::Wants;
use crate::members::Members;
use crate::refused::Reason;
use crate::task::Offer;
use crate::waiting::may_begin_here;
use crate::wake_ups::WakeUps;

pub(crate) struct Slot<'m, E> {
    members: &'m Arc<Members<E>>,
    key: u64,
    patience: Patience,
    kept: bool,
}

impl<'m, E: Send + 'static> Slot<'m, E> {
    /// Waits for one on this thread, if the patience is one that waits.
    pub(crate) fn take(
        core: &Arc<Core>,
        members: &'m Arc<Members<E>>,
        patience: Patience,
    ) -> Result<Self, Reason> {
        members.enter(core, patience).map(|entered| Slot::new(members, entered))
    }

    /// Awaits one. Dropped before that it holds nothing.
    pub(crate) async fn awaited(
        core: &Arc<Core>,
        members: &'m Arc<Members<E>>,
    ) -> Result<Self, Reason> {
        let (mut wake_ups, seat) = (None, members.roll.seat());
        let own = (&raw const seat).addr();
        poll_fn(|cx| {
            // Before the look: what changes after it wakes us.
            let (token, until) = (Some(&members.token), members.deadline);
            WakeUps::set(&mut wake_ups, core, token, until, cx.waker());
            members.roll.wait_for_room(&seat, cx.waker());
            // Inside a future, beyond the limit, it begins on top of that: when it may.
            let forks = may_begin_here(core, own, cx.waker());
            let patience = if forks { Patience::Fork } else { Patience::Room };
            match members.try_enter(core, patience) {
                Ok(Some((key, Patience::Room))) => {
                    Poll::Ready(Ok(Slot::new(members, (key, Patience::Fork))))
                }
                Ok(Some(entered)) => Poll::Ready(Ok(Slot::new(members, entered))),
                Ok(None) => Poll::Pending,
                Err(reason) => Poll::Ready(Err(reason)),
            }
        })
        .await
    }

    /// What goes with the work that is to have it.
    pub(crate) fn offer(&self, wants: &Option<Box<Wants>>) -> Offer<'m> {
        self.members.offer(self.key, self.patience, wants)
    }

    /// It is its task's from now on.
    pub(crate) fn accepted(mut self, handle: Handle<(), E>) {
        self.kept = true;
        self.members.accepted(self.key, handle);
    }

    fn new(members: &'m Arc<Members<E>>, (key, patience): (u64, Patience)) -> Self {
        Slot { members, key, patience, kept: false }
    }
}

impl<E> Drop for Slot<'_, E> {
    fn drop(&mut self) {
        if !self.kept {
            self.members.forget(self.key);
        }
    }
}

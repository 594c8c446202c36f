//! The members of a group: their slots, their handles, their failures.

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admission::Patience;
use crate::clock::Ticks;
use crate::core::Core;
use crate::frames;
use crate::group_error::GroupError;
use crate::handle::Handle;
use crate::holding::Wants;
use crate::outcome::{Cause, TaskError};
use crate::panics::drop_quietly;
use crate::parker::with_parker;
use crate::refused::Reason;
use crate::roll::Roll;
use crate::sync::Lock;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::{Listener, Token};
use crate::unobserved::UnobservedKind;

pub(crate) struct Members<E> {
    /// No other group ever has it.
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) limit: usize,
    pub(crate) collect_all: bool,
    pub(crate) deadline: Ticks,
    pub(crate) token: Token,
    parent: Option<Token>,
    core: Arc<Core>,
    /// The token was cancelled by the group itself.
    by_us: AtomicBool,
    pub(crate) roll: Roll,
    open: Lock<Unsettled<E>>,
    /// None until something fails.
    failures: Lock<Option<Vec<TaskError<E>>>>,
}

/// The handles of the members that have not settled.
struct Unsettled<E> {
    next_key: u64,
    handles: BTreeMap<u64, Handle<(), E>>,
    /// Settled before the submitter could put the handle here.
    early: Vec<u64>,
}

impl<E> Members<E> {
    pub(crate) fn new(
        core: Arc<Core>,
        name: &'static str,
        limit: usize,
        collect_all: bool,
        deadline: Ticks,
        parent: Option<Token>,
    ) -> Self {
        let open = Unsettled { next_key: 0, handles: BTreeMap::new(), early: Vec::new() };
        Members {
            number: frames::fresh_number(),
            name,
            limit,
            collect_all,
            deadline,
            token: parent.as_ref().map_or_else(Token::new, Token::child),
            parent,
            core,
            by_us: AtomicBool::new(false),
            roll: Roll::default(),
            open: Lock::new(open),
            failures: Lock::new(None),
        }
    }

    /// Cancels the token and lets the tasks go. Failures that no wait has returned are told
    /// as unobserved (O6).
    pub(crate) fn let_go(&self) {
        self.by_us.store(true, SeqCst);
        self.token.cancel();
        let handles = std::mem::take(&mut self.open.lock().handles);
        drop(handles); // detaches
        for error in self.take_failures().into_iter().flatten() {
            self.tell(error);
        }
    }

    /// A failure that no wait will return (O6).
    pub(crate) fn tell(&self, error: TaskError<E>) {
        let told = match &error {
            TaskError::Panicked(panic) => {
                Some((UnobservedKind::Panicked, panic.message().to_owned()))
            }
            TaskError::Failed(_) => {
                let text = format!("an error of type {}", type_name::<E>());
                Some((UnobservedKind::Failed, text))
            }
            TaskError::TimedOut(_) => Some((UnobservedKind::TimedOut, String::new())),
            TaskError::Abandoned { .. } => Some((UnobservedKind::Abandoned, String::new())),
            _ => None,
        };
        if let Some((kind, text)) = told {
            self.core.unobserved(kind, self.name, None, text);
        }
        self.discard(error);
    }

    /// A member whose handle nobody will bring leaves its slot. Under CallerRuns it may have
    /// settled: then it was dropped with its submission.
    pub(crate) fn forget(&self, key: u64) {
        self.open.lock().early.retain(|early| *early != key);
        self.roll.leave();
    }

    /// All failures, once everything has settled: None if there were none, empty if somebody
    /// else was given them.
    pub(crate) fn take_failures(&self) -> Option<Vec<TaskError<E>>> {
        self.failures.lock().as_mut().map(std::mem::take)
    }

    /// Drops an error that nobody wants; its `Drop` may panic (hazard 37).
    fn discard(&self, error: TaskError<E>) {
        if drop_quietly(error) {
            self.core.ledger.drop_panics.fetch_add(1, SeqCst);
        }
    }
}

impl<E: Send + 'static> Members<E> {
    /// Takes a slot if there is one. Inside the pool there always is: beyond the limit the work
    /// runs inline, which is what the patience that comes back says.
    pub(crate) fn try_enter(
        &self,
        core: &Arc<Core>,
        patience: Patience,
    ) -> Result<Option<(u64, Patience)>, Reason> {
        let inside = frames::depth(core.address()) > 0;
        if core.queue.is_closed() && !inside {
            return Err(Reason::Closed);
        }
        if self.token.is_cancelled() {
            return Err(Reason::Cancelled);
        }
        if self.deadline != Ticks::NEVER && core.clock.now() >= self.deadline {
            return Err(Reason::TimedOut);
        }
        if self.roll.enter(self.limit) {
            return Ok(Some((self.next_key(), patience)));
        }
        if inside && patience == Patience::Fork {
            self.roll.enter(usize::MAX);
            return Ok(Some((self.next_key(), Patience::Inline)));
        }
        if patience == Patience::Try {
            return Err(Reason::Full);
        }
        Ok(None)
    }

    /// As `try_enter`, and waits for a slot.
    pub(crate) fn enter(
        &self,
        core: &Arc<Core>,
        patience: Patience,
    ) -> Result<(u64, Patience), Reason> {
        with_parker(|parker, waker| {
            let register = |token: &Token| token.register(Listener::Waker(waker.clone()));
            let (mut registered, seat) = (None, self.roll.seat());
            loop {
                if let Some(entered) = self.try_enter(core, patience)? {
                    return Ok(entered);
                }
                if frames::polls() {
                    return Err(Reason::WouldDeadlock); // it would hold up a runtime
                }
                // From now on somebody will wake us.
                if registered.is_some() && !parker.park_until(&core.clock, self.deadline) {
                    return Err(Reason::TimedOut);
                }
                registered = Some((register(&self.token), register(&core.closed)));
                self.roll.wait_for_room(&seat, waker);
            }
        })
    }

    /// What goes with the work of a member.
    pub(crate) fn offer<'m>(
        self: &'m Arc<Self>,
        key: u64,
        patience: Patience,
        wants: &Option<Box<Wants>>,
    ) -> Offer<'m> {
        let told = Arc::clone(self);
        Offer {
            name: self.name,
            token: Some(&self.token),
            cause: Cause::Group,
            on_outcome: Some(Box::new(move |_| told.settled(key))),
            until: Some(self.deadline).filter(|at| *at != Ticks::NEVER),
            patience,
            wants: wants.clone(),
            roll: Some(&self.roll),
            ..Offer::default()
        }
    }

    /// Everything has settled: ends the group.
    pub(crate) fn conclude(&self) -> Result<(), GroupError<E>> {
        self.cancel();
        let mut failures = match self.take_failures() {
            None => return Ok(()),
            Some(failures) if failures.is_empty() => return Err(GroupError::AlreadyTaken),
            Some(failures) => failures,
        };
        if !self.collect_all
            && let Some(at) = failures.iter().position(TaskError::is_panicked)
            && let TaskError::Panicked(panic) = failures.swap_remove(at)
        {
            // Before the unwinding: a second panic in it would end the process.
            failures.into_iter().for_each(|error| self.tell(error));
            panic.resume();
        }
        let first = failures.remove(0);
        Err(GroupError::Tasks { first, rest: failures })
    }

    fn next_key(&self) -> u64 {
        let mut open = self.open.lock();
        open.next_key += 1;
        open.next_key
    }

    pub(crate) fn accepted(&self, key: u64, handle: Handle<(), E>) {
        let cell = handle.cell();
        let settled = {
            let mut open = self.open.lock();
            match open.early.iter().position(|early| *early == key) {
                None => {
                    open.handles.insert(key, handle);
                    None
                }
                Some(at) => {
                    open.early.swap_remove(at);
                    Some(handle)
                }
            }
        };
        match (settled, cell) {
            (Some(handle), _) => self.collect(handle),
            (None, Some(cell)) => self.roll.accepted(cell),
            (None, None) => {}
        }
    }

    /// The callback of a member.
    pub(crate) fn settled(&self, key: u64) {
        let handle = {
            let mut open = self.open.lock();
            let handle = open.handles.remove(&key);
            if handle.is_none() {
                open.early.push(key);
            }
            handle
        };
        if let Some(handle) = handle {
            self.collect(handle);
        }
    }

    fn collect(&self, mut handle: Handle<(), E>) {
        let outcome = handle.try_take().expect("told only once it is settled");
        if let Err(error) = outcome {
            match self.is_our_doing(&error) {
                true => self.discard(error),
                false => self.failed(error),
            }
        }
        self.roll.leave(); // last: whoever waits finds everything
    }

    fn failed(&self, error: TaskError<E>) {
        let (first, unwanted) = {
            let mut failures = self.failures.lock();
            let first = failures.is_none();
            let failures = failures.get_or_insert_default();
            // Of the rest only a panic matters: it goes on in the waiter.
            if first || self.collect_all || error.is_panicked() {
                failures.push(error);
                (first, None)
            } else {
                (first, Some(error))
            }
        };
        unwanted.into_iter().for_each(|error| self.tell(error));
        if first && !self.collect_all {
            self.cancel();
        }
    }

    fn is_our_doing(&self, error: &TaskError<E>) -> bool {
        let by_token = matches!(error, TaskError::Cancelled { cause: Cause::Group, .. });
        let by_parent = self.parent.as_ref().is_some_and(Token::is_cancelled);
        by_token && (self.by_us.load(SeqCst) || !by_parent)
    }

    pub(crate) fn cancel(&self) {
        if !self.token.is_cancelled() {
            self.by_us.store(true, SeqCst);
            self.token.cancel();
        }
    }
}

#[cfg(all(test, not(tidegate_shuttle)))]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn a_member_that_is_forgotten_leaves_nothing_behind() {
        let pool = Pool::builder("members").workers(1).build().unwrap();
        let core = Arc::clone(pool.core());
        let members = Members::<()>::new(core, "", 1, false, Ticks::NEVER, None);
        assert!(members.roll.enter(1));
        members.settled(7);
        members.forget(7);
        assert_eq!((members.roll.slots(), members.open.lock().early.len()), (0, 0));
    }
}

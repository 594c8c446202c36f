//! The members of a group: their slots, their handles, their failures.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::admission::Patience;
use crate::clock::Ticks;
use crate::core::Core;
use crate::frames;
use crate::handle::Handle;
use crate::outcome::{Cause, TaskError};
use crate::parker::with_parker;
use crate::refused::Reason;
use crate::roll::Roll;
use crate::sync::Lock;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::token::{Listener, Token};

pub(crate) struct Members<E> {
    pub(crate) limit: usize,
    pub(crate) collect_all: bool,
    pub(crate) deadline: Ticks,
    pub(crate) token: Token,
    /// The token was cancelled by the group itself.
    by_us: AtomicBool,
    pub(crate) roll: Roll,
    open: Lock<Open<E>>,
    failures: Lock<Vec<TaskError<E>>>,
}

/// The handles of the members that have not settled.
struct Open<E> {
    next_key: u64,
    handles: BTreeMap<u64, Handle<(), E>>,
    /// Settled before the submitter could put the handle here.
    early: Vec<u64>,
}

impl<E> Members<E> {
    pub(crate) fn new(limit: usize, collect_all: bool, deadline: Ticks, token: Token) -> Self {
        let open = Open { next_key: 0, handles: BTreeMap::new(), early: Vec::new() };
        Members {
            limit,
            collect_all,
            deadline,
            token,
            by_us: AtomicBool::new(false),
            roll: Roll::default(),
            open: Lock::new(open),
            failures: Lock::new(Vec::new()),
        }
    }

    /// Cancels the token and lets the tasks go.
    pub(crate) fn let_go(&self) {
        self.by_us.store(true, SeqCst);
        self.token.cancel();
        let handles = std::mem::take(&mut self.open.lock().handles);
        drop(handles); // detaches
    }
}

impl<E: Send + 'static> Members<E> {
    /// Takes a slot.
    pub(crate) fn enter(&self, core: &Arc<Core>, patience: Patience) -> Result<u64, Reason> {
        let inside = frames::depth(core.address()) > 0;
        let forks = inside && patience == Patience::Fork;
        let limit = if forks { usize::MAX } else { self.limit };
        with_parker(|parker, waker| {
            let mut registered = None;
            let watching = core.watch.begin(); // a close wakes us
            loop {
                if core.queue.is_closed() && !inside {
                    return Err(Reason::Closed);
                }
                if self.token.is_cancelled() {
                    return Err(Reason::Cancelled);
                }
                if self.roll.enter(limit) {
                    let mut open = self.open.lock();
                    open.next_key += 1;
                    return Ok(open.next_key);
                }
                if patience == Patience::Try {
                    return Err(Reason::Full);
                }
                // From the second round on somebody will wake us.
                if registered.is_some() && !parker.park_until(&core.clock, self.deadline) {
                    return Err(Reason::TimedOut);
                }
                registered = Some(self.token.register(Listener::Waker(waker.clone())));
                watching.leave(waker);
                self.roll.wait_for_room(waker);
            }
        })
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
        let failure = outcome.err().filter(|error| !self.is_our_doing(error));
        if let Some(error) = failure {
            let stop = {
                let mut failures = self.failures.lock();
                let first = failures.is_empty();
                // Of the rest only a panic matters: it goes on in the waiter.
                if first || self.collect_all || error.is_panicked() {
                    failures.push(error);
                }
                first && !self.collect_all
            };
            if stop {
                self.cancel();
            }
        }
        self.roll.leave(); // last: whoever waits finds everything
    }

    fn is_our_doing(&self, error: &TaskError<E>) -> bool {
        let by_group = matches!(error, TaskError::Cancelled { cause: Cause::Group, .. });
        by_group && self.by_us.load(SeqCst)
    }

    pub(crate) fn cancel(&self) {
        if !self.token.is_cancelled() {
            self.by_us.store(true, SeqCst);
            self.token.cancel();
        }
    }

    /// All failures, once everything has settled.
    pub(crate) fn take_failures(&self) -> Vec<TaskError<E>> {
        std::mem::take(&mut *self.failures.lock())
    }

    /// Whoever calls this is one of the members.
    pub(crate) fn runs_on_this_thread(&self, core: &Core) -> bool {
        if frames::depth(core.address()) == 0 {
            return false;
        }
        let cells: Vec<_> = self.open.lock().handles.values().filter_map(Handle::cell).collect();
        let me = frames::runner();
        cells.into_iter().any(|cell| core.runner_of(cell) == Some(me))
    }
}

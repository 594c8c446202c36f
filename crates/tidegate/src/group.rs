//! Groups: tasks that belong together, and are waited for together.
//!
//! A member is a plain cell task with the group's token and a callback. Its handle is kept
//! here until it has settled, so that the outcome, error or panic, comes to the group.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::admission::Patience;
use crate::cell::CellRef;
use crate::clock::Ticks;
use crate::core::Core;
use crate::cx::Cx;
use crate::event::wake_quietly;
use crate::frames;
use crate::handle::{Handle, run_queued};
use crate::job::{FallibleWithCx, Work};
use crate::outcome::{Cause, TaskError};
use crate::parker::with_parker;
use crate::pool::Pool;
use crate::refused::{Reason, Refused};
use crate::sync::Lock;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::task::Offer;
use crate::token::{Listener, Token};

/// Settings of a [`Group`], from [`Pool::group`].
#[derive(Debug)]
#[must_use = "a group does nothing until it is started"]
pub struct GroupBuilder<'p, S = ()> {
    pool: &'p Pool<S>,
    name: &'static str,
    limit: usize,
    collect_all: bool,
    deadline: Option<Duration>,
    parent: Option<Token>,
}

/// Tasks that belong together: submit any number, then wait for all of them.
///
/// By default the first failure cancels the rest, and [`wait`](Group::wait) returns it; a
/// panic goes on in whoever waits. Failed, panicked, timed out, abandoned and evicted are
/// failures; cancelled is one unless the group itself did it.
///
/// Inside a task of the same pool submitting never waits and is never refused for want of
/// room: then the work runs at once, on top of the running task. A waiting task runs the
/// group's own queued tasks. So fork and join works on a pool of one worker.
///
/// Clones are the same group. Dropping the last one cancels its token and lets its tasks go.
///
/// ```
/// use tidegate::{Pool, Shutdown};
///
/// let pool = Pool::builder("fetch").workers(2).build()?;
/// let group = pool.group().limit(10).start();
/// for n in 0..20 {
///     group.submit(move |_| if n == 19 { Err("the last") } else { Ok(()) })?;
/// }
/// let error = group.wait().unwrap_err();
/// assert!(error.first().unwrap().is_failed());
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Group<E, S = ()> {
    owner: Arc<Owner<E, S>>,
}

struct Owner<E, S> {
    pool: Pool<S>,
    name: &'static str,
    members: Arc<Members<E>>,
}

/// What [`Group::wait`] returns when not all went well.
#[derive(Debug)]
pub enum GroupError<E> {
    /// Tasks failed: the first, and, if the group collects all, the others.
    Tasks {
        /// The first failure.
        first: TaskError<E>,
        /// The others, in the order in which they came.
        rest: Vec<TaskError<E>>,
    },
    /// The wait could never end: the waiter is a task of the group, or runs on a worker
    /// that would have to run the group's tasks and can't.
    WouldDeadlock,
}

struct Members<E> {
    limit: usize,
    collect_all: bool,
    deadline: Ticks,
    token: Token,
    /// The token was cancelled by the group itself.
    by_us: AtomicBool,
    state: Lock<State<E>>,
}

struct State<E> {
    next_key: u64,
    unsettled: usize,
    open: BTreeMap<u64, Handle<(), E>>,
    /// Settled before the submitter could put the handle into `open`.
    early: Vec<u64>,
    failures: Vec<TaskError<E>>,
    /// Waiters for the end, and for a slot.
    wakers: Vec<Waker>,
}

impl<S: 'static> Pool<S> {
    /// Tasks that belong together. See [`Group`].
    pub fn group(&self) -> GroupBuilder<'_, S> {
        GroupBuilder {
            pool: self,
            name: "",
            limit: usize::MAX,
            collect_all: false,
            deadline: None,
            parent: None,
        }
    }
}

impl<S: 'static> GroupBuilder<'_, S> {
    /// The name of its tasks.
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// How many of its tasks may be accepted and unsettled at a time; at least 1. Outside
    /// the pool a submit beyond that waits, inside the work runs at once.
    pub fn limit(mut self, tasks: usize) -> Self {
        self.limit = tasks.max(1);
        self
    }

    /// Goes on after a failure; `wait` returns all of them, panics included.
    pub fn collect_all(mut self) -> Self {
        self.collect_all = true;
        self
    }

    /// How long the whole group may take, from its start.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The group is cancelled when this token is.
    pub fn parent(mut self, token: &Token) -> Self {
        self.parent = Some(token.clone());
        self
    }

    /// Starts it. The error type is that of the closures.
    pub fn start<E: Send + 'static>(self) -> Group<E, S> {
        let now = self.pool.core().clock.now();
        let members = Members {
            limit: self.limit,
            collect_all: self.collect_all,
            deadline: self.deadline.map_or(Ticks::NEVER, |limit| now.after(limit)),
            token: self.parent.map_or_else(Token::new, |parent| parent.child()),
            by_us: AtomicBool::new(false),
            state: Lock::new(State {
                next_key: 0,
                unsettled: 0,
                open: BTreeMap::new(),
                early: Vec::new(),
                failures: Vec::new(),
                wakers: Vec::new(),
            }),
        };
        let (pool, name) = (self.pool.clone(), self.name);
        Group { owner: Arc::new(Owner { pool, name, members: Arc::new(members) }) }
    }
}

impl<E: Send + 'static, S: 'static> Group<E, S> {
    /// Submits a task. Waits for a slot of the group, then for room in the pool.
    pub fn submit<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        self.add(FallibleWithCx(f), Patience::Fork)
    }

    /// As [`submit`](Group::submit), and never waits.
    pub fn try_submit<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        self.add(FallibleWithCx(f), Patience::Try)
    }

    /// The group's token: cancelled by the first failure, by [`cancel`](Group::cancel), by
    /// its parent, or when `wait` returns.
    pub fn token(&self) -> &Token {
        &self.owner.members.token
    }

    /// Cancels what is queued and tells what runs to stop.
    pub fn cancel(&self) {
        self.owner.members.cancel();
    }

    /// How many of its tasks are accepted and not settled.
    pub fn unsettled(&self) -> usize {
        self.owner.members.state.lock().unsettled
    }

    fn add<W>(&self, work: W, patience: Patience) -> Result<(), Refused<W::Closure>>
    where
        W: Work<Value = (), Error = E> + 'static,
    {
        let Owner { pool, name, members } = &*self.owner;
        let core = pool.core();
        let key = match members.enter(core, patience) {
            Ok(key) => key,
            Err(reason) => return Err(core.refuse(reason, work.into_closure())),
        };
        let told = Arc::clone(members);
        let left = members.deadline.since(core.clock.now());
        let offer = Offer {
            name,
            token: Some(&members.token),
            cause: Cause::Group,
            on_outcome: Some(Box::new(move |_| told.settled(key))),
            total_timeout: (members.deadline != Ticks::NEVER).then_some(left),
            patience,
            ..Offer::default()
        };
        match pool.submit_work(work, offer) {
            Ok(handle) => {
                members.accepted(key, handle);
                Ok(())
            }
            Err(refused) => {
                members.leave();
                Err(refused)
            }
        }
    }

    /// Waits until every task of the group has settled, then ends the group: its token is
    /// cancelled, and nothing more can be submitted.
    ///
    /// # Panics
    /// If a task panicked, with its payload; not if the group collects all.
    pub fn wait(&self) -> Result<(), GroupError<E>> {
        let Owner { pool, members, .. } = &*self.owner;
        let core = pool.core();
        let inside = frames::depth(core.address()) > 0;
        if inside && members.runs_on_this_thread(core) {
            return Err(GroupError::WouldDeadlock);
        }
        loop {
            if inside && members.run_one(core)? {
                continue;
            }
            if members.sleep_until_settled(inside) {
                break;
            }
        }
        members.cancel();
        let mut failures = std::mem::take(&mut members.state.lock().failures);
        if !members.collect_all
            && let Some(at) = failures.iter().position(TaskError::is_panicked)
            && let TaskError::Panicked(panic) = failures.swap_remove(at)
        {
            panic.resume();
        }
        match failures.is_empty() {
            true => Ok(()),
            false => {
                let first = failures.remove(0);
                Err(GroupError::Tasks { first, rest: failures })
            }
        }
    }
}

impl<E: Send + 'static> Members<E> {
    /// Takes a slot.
    fn enter(&self, core: &Arc<Core>, patience: Patience) -> Result<u64, Reason> {
        let inside = frames::depth(core.address()) > 0;
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
                {
                    let mut state = self.state.lock();
                    if state.unsettled < self.limit || inside && patience == Patience::Fork {
                        state.unsettled += 1;
                        state.next_key += 1;
                        return Ok(state.next_key);
                    }
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
                self.leave_waker(waker);
            }
        })
    }

    fn leave_waker(&self, waker: &Waker) {
        let waker = waker.clone();
        let mut state = self.state.lock();
        if !state.wakers.iter().any(|other| other.will_wake(&waker)) {
            state.wakers.push(waker);
        }
    }

    /// Gives a slot back whose work was refused.
    fn leave(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.unsettled -= 1;
            std::mem::take(&mut state.wakers)
        };
        wake_quietly(wakers);
    }

    fn accepted(&self, key: u64, handle: Handle<(), E>) {
        let settled = {
            let mut state = self.state.lock();
            match state.early.iter().position(|early| *early == key) {
                None => {
                    state.open.insert(key, handle);
                    None
                }
                Some(at) => {
                    state.early.swap_remove(at);
                    Some(handle)
                }
            }
        };
        if let Some(handle) = settled {
            self.collect(handle);
        }
    }

    /// The callback of a member.
    fn settled(&self, key: u64) {
        let handle = {
            let mut state = self.state.lock();
            let handle = state.open.remove(&key);
            if handle.is_none() {
                state.early.push(key);
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
                let mut state = self.state.lock();
                let first = state.failures.is_empty();
                // Of the rest only a panic matters: it goes on in the waiter.
                if first || self.collect_all || error.is_panicked() {
                    state.failures.push(error);
                }
                first && !self.collect_all
            };
            if stop {
                self.cancel();
            }
        }
        self.leave(); // last: whoever waits finds everything
    }

    fn is_our_doing(&self, error: &TaskError<E>) -> bool {
        let by_group = matches!(error, TaskError::Cancelled { cause: Cause::Group, .. });
        by_group && self.by_us.load(SeqCst)
    }

    fn cancel(&self) {
        if !self.token.is_cancelled() {
            self.by_us.store(true, SeqCst);
            self.token.cancel();
        }
    }

    fn cells(&self) -> Vec<CellRef> {
        self.state.lock().open.values().filter_map(Handle::cell).collect()
    }

    fn runs_on_this_thread(&self, core: &Core) -> bool {
        let me = frames::runner();
        self.cells().into_iter().any(|cell| core.runner_of(cell) == Some(me))
    }

    /// Inside a task: runs one that is queued on top of it. False if none is.
    fn run_one(&self, core: &Arc<Core>) -> Result<bool, GroupError<E>> {
        for cell in self.cells() {
            if cell.is_queued() && run_queued(cell, core).map_err(|_| GroupError::WouldDeadlock)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if everything is settled; inside also false after a while, to look again.
    fn sleep_until_settled(&self, inside: bool) -> bool {
        with_parker(|parker, waker| {
            loop {
                self.leave_waker(waker);
                if self.state.lock().unsettled == 0 {
                    return true;
                }
                parker.park();
                if inside {
                    return self.state.lock().unsettled == 0;
                }
            }
        })
    }
}

impl<E, S> Drop for Owner<E, S> {
    fn drop(&mut self) {
        let members = &self.members;
        members.by_us.store(true, SeqCst);
        members.token.cancel();
        let open = std::mem::take(&mut members.state.lock().open);
        drop(open); // detaches
    }
}

impl<E, S> Clone for Group<E, S> {
    fn clone(&self) -> Self {
        Group { owner: Arc::clone(&self.owner) }
    }
}

impl<E, S> fmt::Debug for Group<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsettled = self.owner.members.state.lock().unsettled;
        f.debug_struct("Group")
            .field("pool", &self.owner.pool.name())
            .field("name", &self.owner.name)
            .field("unsettled", &unsettled)
            .finish_non_exhaustive()
    }
}

impl<E> GroupError<E> {
    /// The first failure; none if the wait could never end.
    pub fn first(&self) -> Option<&TaskError<E>> {
        match self {
            GroupError::Tasks { first, .. } => Some(first),
            GroupError::WouldDeadlock => None,
        }
    }

    /// All failures, in the order in which they came.
    pub fn into_failures(self) -> Vec<TaskError<E>> {
        match self {
            GroupError::Tasks { first, rest } => std::iter::once(first).chain(rest).collect(),
            GroupError::WouldDeadlock => Vec::new(),
        }
    }

    /// True if the wait could never end.
    pub fn is_would_deadlock(&self) -> bool {
        matches!(self, GroupError::WouldDeadlock)
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Tasks { first, rest } if rest.is_empty() => write!(f, "{first}"),
            GroupError::Tasks { first, rest } => write!(f, "{first}, and {} more", rest.len()),
            GroupError::WouldDeadlock => f.write_str(
                "waiting for the group could never end: the waiter is one of its tasks, or is \
                 on a worker that can't run them; wait outside the pool",
            ),
        }
    }
}

impl<E: fmt::Display + fmt::Debug> Error for GroupError<E> {}

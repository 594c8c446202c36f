//! Groups: tasks that belong together, and are waited for together.
//!
//! A member is a plain cell task with the group's token and a callback. Its handle is kept
//! with the group until it has settled, so that the outcome, error or panic, comes there.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::admission::Patience;
use crate::awaited;
use crate::budget::Budget;
use crate::clock::Ticks;
use crate::cx::Cx;
use crate::frames;
use crate::group_error::GroupError;
use crate::handle::Handle;
use crate::holding::Wants;
use crate::job::{Run, Work};
use crate::members::Members;
use crate::pool::Pool;
use crate::refused::Refused;
use crate::slot::Slot;
use crate::token::Token;
use crate::wait_error::WaitReason;

/// Settings of a [`Group`], from [`Pool::group`].
#[derive(Debug)]
#[must_use = "a group does nothing until it is started"]
pub struct GroupBuilder<'p, S = ()> {
    pool: &'p Pool<S>,
    settings: GroupSettings,
}

/// Tasks that belong together: submit any number, then wait for all of them.
///
/// By default the first failure cancels the rest, and [`wait`](Group::wait) returns it; a
/// panic goes on in whoever waits, and whatever else failed is told to `on_unobserved`. Failed, panicked, timed out, abandoned and evicted are
/// failures; cancelled is one unless the group itself did it.
///
/// Inside a task of the same pool [`submit`](Group::submit) never waits and is never refused
/// for want of room: then the work runs at once, on top of the running task (in a pool with
/// worker state it can't, and is refused with `WouldDeadlock`). A waiting task runs the
/// group's own queued tasks. So fork and join works on a pool of one worker, as deep as its
/// stack allows (`Builder::stack_size`).
///
/// Clones are the same group: one wait returns the failures, others that something failed.
/// Dropping the last one cancels its token and lets its tasks go; failures that no wait has
/// returned are told to `on_unobserved`. A wait from inside the group itself is refused; a
/// longer cycle (a task of one group waits for another, whose task waits for the first) is not
/// seen.
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
    started: Arc<Started<E, S>>,
}

pub(crate) struct Started<E, S> {
    pub(crate) pool: Pool<S>,
    pub(crate) members: Arc<Members<E>>,
    pub(crate) wants: Option<Box<Wants>>,
}

impl<S: 'static> Pool<S> {
    /// Tasks that belong together. See [`Group`].
    pub fn group(&self) -> GroupBuilder<'_, S> {
        GroupBuilder { pool: self, settings: GroupSettings::default() }
    }
}

/// What can be said of a group, whatever its tasks are: written once. Each has the fields.
macro_rules! group_settings {
    () => {
        /// The name of its tasks.
        pub fn name(mut self, name: &'static str) -> Self {
            self.settings.name = name;
            self
        }

        /// How many of its tasks may be accepted and unsettled at a time; at least 1. Outside
        /// the pool a submit beyond that waits, inside the work runs at once.
        pub fn limit(mut self, tasks: usize) -> Self {
            self.settings.limit = tasks.max(1);
            self
        }

        /// Goes on after a failure; `wait` returns all of them, panics included.
        pub fn collect_all(mut self) -> Self {
            self.settings.collect_all = true;
            self
        }

        /// How long the whole group may take, from its start.
        pub fn deadline(mut self, limit: Duration) -> Self {
            self.settings.deadline = Some(limit);
            self
        }

        /// Each of its tasks takes `weight` of `budget` first; see
        /// [`Task::budget`](crate::Task::budget).
        pub fn budget(mut self, budget: &Budget, weight: u64) -> Self {
            self.settings.wants.get_or_insert_default().add(budget, weight);
            self
        }

        /// The group is cancelled when this token is.
        pub fn parent(mut self, token: &Token) -> Self {
            self.settings.parent = Some(token.clone());
            self
        }
    };
}
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) use group_settings;

/// What a group is to be like.
#[derive(Debug)]
pub(crate) struct GroupSettings {
    pub(crate) name: &'static str,
    pub(crate) limit: usize,
    pub(crate) collect_all: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) parent: Option<Token>,
    pub(crate) wants: Option<Box<Wants>>,
}

impl Default for GroupSettings {
    fn default() -> Self {
        GroupSettings {
            name: "",
            limit: usize::MAX,
            collect_all: false,
            deadline: None,
            parent: None,
            wants: None,
        }
    }
}

impl GroupSettings {
    pub(crate) fn start<E, S>(self, pool: &Pool<S>) -> Started<E, S> {
        let core = Arc::clone(pool.core());
        let deadline = self.deadline.map_or(Ticks::NEVER, |limit| core.clock.now().after(limit));
        let members =
            Members::new(core, self.name, self.limit, self.collect_all, deadline, self.parent);
        Started { pool: pool.clone(), members: Arc::new(members), wants: self.wants }
    }
}

impl<S: 'static> GroupBuilder<'_, S> {
    group_settings!();

    /// Starts it. The error type is that of the closures.
    pub fn start<E: Send + 'static>(self) -> Group<E, S> {
        Group { started: Arc::new(self.settings.start(self.pool)) }
    }
}

impl<E: Send + 'static, S: 'static> Group<E, S> {
    /// Submits a task. Waits for a slot of the group, then, as the pool's policy says, for room.
    /// After the deadline it is refused with `TimedOut`.
    pub fn submit<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        self.add(f, Patience::Fork)
    }

    /// As [`submit`](Group::submit), and never waits: without a slot or a place it is refused with
    /// `Full`, also inside a task of the pool.
    pub fn try_submit<F>(&self, f: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        self.add(f, Patience::Try)
    }

    /// The group's token: cancelled by the first failure, by [`cancel`](Group::cancel), by
    /// its parent, or when `wait` returns.
    pub fn token(&self) -> &Token {
        &self.started.members.token
    }

    /// Cancels what is queued and tells what runs to stop.
    pub fn cancel(&self) {
        self.started.members.cancel();
    }

    /// How many of its tasks are accepted, or are just being submitted, and not settled.
    pub fn unsettled(&self) -> usize {
        self.started.members.roll.slots()
    }

    fn add<F>(&self, f: F, patience: Patience) -> Result<(), Refused<F>>
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        let Started { pool, members, wants } = &*self.started;
        let core = pool.core();
        let slot = match Slot::take(core, members, patience) {
            Ok(slot) => slot,
            Err(reason) => return Err(core.refuse(members.name, reason, f)),
        };
        let mut offer = slot.offer(wants);
        let member = Member { group: members.number, f };
        let handle = match wants {
            None => pool.submit_work(member, offer)?,
            Some(_) => pool.submit_work(core.hold(member, &mut offer)?, offer)?,
        };
        slot.accepted(handle);
        Ok(())
    }

    /// Waits until every task of the group has settled, then ends the group: its token is
    /// cancelled, and nothing more can be submitted.
    ///
    /// # Panics
    /// If a task panicked, with its payload; not if the group collects all.
    ///
    /// Inside a poll of an `AsyncPool`'s task it never blocks, and returns
    /// [`InPoll`](GroupError::InPoll): there is [`wait_async`](Group::wait_async).
    pub fn wait(&self) -> Result<(), GroupError<E>> {
        self.started.wait()
    }
}

impl<E: Send + 'static, S: 'static> Started<E, S> {
    pub(crate) fn wait(&self) -> Result<(), GroupError<E>> {
        if frames::is_member(self.members.number) {
            return Err(GroupError::WouldDeadlock);
        }
        self.members.roll.wait(self.pool.core()).map_err(GroupError::no_wait)?;
        self.members.conclude()
    }
}

/// From async code, on any runtime.
impl<E: Send + 'static, S: 'static> Group<E, S> {
    /// As [`submit`](Group::submit), for async code: where that would block, for a slot, a budget
    /// or room, this is awaited.
    ///
    /// Nothing happens before it is polled. Dropped while it waits it takes the closure along,
    /// which was not accepted, and holds no slot. The policy decides as it does for
    /// [`Pool::submit_async`]; inside a task of the pool it never waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("parse").workers(2).queue(1).build()?;
    /// let group = pool.group().limit(3).start();
    /// for text in ["1", "2", "three"] {
    ///     group.submit_async(move |_| text.parse::<u64>().map(drop)).await?;
    /// }
    /// assert!(group.wait_async().await.unwrap_err().first().unwrap().is_failed());
    /// pool.shutdown_async(Shutdown::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    pub fn submit_async<F>(&self, f: F) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        F: FnOnce(&Cx) -> Result<(), E> + Send + 'static,
    {
        async move {
            let Started { pool, members, wants } = &*self.started;
            let core = pool.core();
            let slot = match Slot::awaited(core, members).await {
                Ok(slot) => slot,
                Err(reason) => return Err(core.refuse(members.name, reason, f)),
            };
            let (member, offer) = (Member { group: members.number, f }, slot.offer(wants));
            let cell = awaited::offer(Arc::clone(core), member, true, offer).await?;
            slot.accepted(Handle::new(cell, false));
            Ok(())
        }
    }

    /// As [`wait`](Group::wait), for async code. Dropping it changes nothing.
    ///
    /// # Panics
    /// As `wait`.
    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    pub fn wait_async(&self) -> impl Future<Output = Result<(), GroupError<E>>> + Send {
        async move {
            let Started { pool, members, .. } = &*self.started;
            let seat = members.roll.seat();
            let waited = poll_fn(|cx| match frames::is_member(members.number) {
                true => Poll::Ready(Err(WaitReason::WouldDeadlock)),
                false => members.roll.poll_end(pool.core(), &seat, cx.waker()),
            });
            waited.await.map_err(GroupError::no_wait)?;
            members.conclude()
        }
    }
}

/// The work of a member, which knows that it is one.
struct Member<F> {
    group: u64,
    f: F,
}

impl<E: Send, F: FnOnce(&Cx) -> Result<(), E> + Send> Work for Member<F> {
    type Value = ();
    type Error = E;
    type Closure = F;
    fn into_closure(self) -> F {
        self.f
    }
}

impl<E: Send, F: FnOnce(&Cx) -> Result<(), E> + Send> Run for Member<F> {
    fn run(self, _: *mut (), cx: &Cx) -> Result<(), E> {
        frames::as_member(self.group, || (self.f)(cx))
    }
}

impl<E, S> Drop for Started<E, S> {
    fn drop(&mut self) {
        self.members.let_go();
    }
}

impl<E, S> Clone for Group<E, S> {
    fn clone(&self) -> Self {
        Group { started: Arc::clone(&self.started) }
    }
}

impl<E, S> fmt::Debug for Group<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsettled = self.started.members.roll.slots();
        f.debug_struct("Group")
            .field("pool", &self.started.pool.name())
            .field("name", &self.started.members.name)
            .field("unsettled", &unsettled)
            .finish_non_exhaustive()
    }
}

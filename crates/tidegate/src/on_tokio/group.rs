//! Groups of futures: tasks that belong together, and are awaited together.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::offer;
use super::pool::AsyncPool;
use super::work::{Member, Outcome};
use crate::admission::Patience;
use crate::budget::Budget;
use crate::frames;
use crate::group::{GroupSettings, Started, group_settings};
use crate::group_error::GroupError;
use crate::handle::Handle;
use crate::refused::Refused;
use crate::slot::Slot;
use crate::token::Token;

/// Settings of an [`AsyncGroup`], from [`AsyncPool::group`].
#[derive(Debug)]
#[must_use = "a group does nothing until it is started"]
pub struct AsyncGroupBuilder<'p> {
    pool: &'p AsyncPool,
    settings: GroupSettings,
}

/// Futures that belong together: [`Group`](crate::Group) for an [`AsyncPool`], by the same rules.
///
/// By default the first failure cancels the rest, which are dropped at their next await, and
/// [`wait`](AsyncGroup::wait) returns it; a panic goes on in whoever waits.
///
/// Inside a task of the same pool [`submit`](AsyncGroup::submit) is never refused for want of room:
/// it begins the future on top of that task, one at a time, and so does a task that waits for the
/// group with its queued ones: fork and join works on a pool of one worker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::{AsyncPool, Shutdown};
///
/// let pool = AsyncPool::builder("fetch").workers(10).build_async()?;
/// let group = pool.group().limit(5).start();
/// for n in 0..20 {
///     group.submit(async move { if n == 19 { Err("the last") } else { Ok(()) } }).await?;
/// }
/// let error = group.wait().await.unwrap_err();
/// assert!(error.first().unwrap().is_failed());
/// pool.shutdown(Shutdown::default()).await?;
/// # Ok(())
/// # }
/// ```
pub struct AsyncGroup<E> {
    started: Arc<Started<E, ()>>,
}

impl AsyncPool {
    /// Futures that belong together. See [`AsyncGroup`].
    pub fn group(&self) -> AsyncGroupBuilder<'_> {
        AsyncGroupBuilder { pool: self, settings: GroupSettings::default() }
    }
}

impl AsyncGroupBuilder<'_> {
    group_settings!();

    /// Starts it. The error type is that of the futures.
    pub fn start<E: Send + 'static>(self) -> AsyncGroup<E> {
        AsyncGroup { started: Arc::new(self.settings.start(self.pool.as_ref())) }
    }
}

impl<E: Send + 'static> AsyncGroup<E> {
    /// Submits a future. Waits for a slot of the group, then, as the pool's policy says, for
    /// room. Dropped while it waits, it takes the future along, and holds no slot.
    #[allow(clippy::manual_async_fn, reason = "that it is `Send` is said, not left to be found")]
    pub fn submit<F>(&self, future: F) -> impl Future<Output = Result<(), Refused<F>>> + Send
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        async move {
            let Started { pool, members, wants } = &*self.started;
            let core = pool.core();
            let slot = match Slot::awaited(core, members).await {
                Ok(slot) => slot,
                Err(reason) => return Err(core.refuse(members.name, reason, future)),
            };
            let work = Member { group: members.number, work: Outcome(future) };
            let handle = offer::submit(core, work, slot.offer(wants)).await?;
            slot.accepted(handle);
            Ok(())
        }
    }

    /// As [`submit`](AsyncGroup::submit), and never waits: without a slot or a place it is
    /// refused with `Full`.
    pub fn try_submit<F>(&self, future: F) -> Result<(), Refused<F>>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(future, Patience::Try)
    }

    /// As [`submit`](AsyncGroup::submit), for a thread that may block. Inside a poll that a pool
    /// runs it never waits: `WouldDeadlock`.
    pub fn submit_blocking<F>(&self, future: F) -> Result<(), Refused<F>>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.add(future, Patience::Fork)
    }

    fn add<F>(&self, future: F, patience: Patience) -> Result<(), Refused<F>>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let Started { pool, members, wants } = &*self.started;
        let core = pool.core();
        let slot = match Slot::take(core, members, patience) {
            Ok(slot) => slot,
            Err(reason) => return Err(core.refuse(members.name, reason, future)),
        };
        let work = Member { group: members.number, work: Outcome(future) };
        let cell = core.future_blocking(work, true, slot.offer(wants))?;
        slot.accepted(Handle::new(cell, false));
        Ok(())
    }

    /// The group's token: cancelled by the first failure, by [`cancel`](AsyncGroup::cancel), by
    /// its parent, or when `wait` returns.
    pub fn token(&self) -> &Token {
        &self.started.members.token
    }

    /// Cancels what is queued and drops what runs at its next await.
    pub fn cancel(&self) {
        self.started.members.cancel();
    }

    /// How many of its tasks are accepted, or are just being submitted, and not settled.
    pub fn unsettled(&self) -> usize {
        self.started.members.roll.slots()
    }

    /// Ready when every task of the group has settled; then the group ends: its token is
    /// cancelled, and nothing more can be submitted. Dropping this wait changes nothing.
    ///
    /// # Panics
    /// If a task panicked, with its payload; not if the group collects all.
    pub async fn wait(&self) -> Result<(), GroupError<E>> {
        let Started { pool, members, .. } = &*self.started;
        let is_member = poll_fn(|_| Poll::Ready(frames::is_member(members.number))).await;
        if is_member {
            return Err(GroupError::WouldDeadlock);
        }
        let seat = members.roll.seat();
        poll_fn(|cx| members.roll.poll_wait(pool.core(), &seat, cx.waker())).await;
        drop(seat);
        members.conclude()
    }

    /// As [`wait`](AsyncGroup::wait), for a thread that may block. Inside a poll that a pool runs
    /// it never waits: [`InPoll`](GroupError::InPoll).
    ///
    /// # Panics
    /// As `wait`.
    pub fn wait_blocking(&self) -> Result<(), GroupError<E>> {
        self.started.wait()
    }
}

impl<E> Clone for AsyncGroup<E> {
    fn clone(&self) -> Self {
        AsyncGroup { started: Arc::clone(&self.started) }
    }
}

impl<E> fmt::Debug for AsyncGroup<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = &self.started.members;
        f.debug_struct("AsyncGroup")
            .field("pool", &self.started.pool.name())
            .field("name", &members.name)
            .field("unsettled", &members.roll.slots())
            .finish_non_exhaustive()
    }
}

//! The port a pool plugs into: a [`Kind`] opens pools, a [`SuitePool`] takes
//! work, a [`SuiteHandle`] tells how it ended.
//!
//! It is deliberately smaller than tidegate's own interface. A kind that *is*
//! a tidegate pool also hands out its builder ([`Kind::tidegate`]), and the
//! tests about tokens, reports, rosters and the clock use that. An async pool
//! plugs in here too: it wraps the closure into a future.

use std::fmt;
use std::sync::Arc;

use tidegate::Reason;

use crate::ctx::Wish;
use crate::suite::TestInfo;

/// Tells a running task that it should stop.
pub trait StopSignal {
    /// True once the task was asked to stop.
    fn stopping(&self) -> bool;
}

/// One task of a portable test. `Err` means that the task failed.
pub type Work = Box<dyn FnOnce(&dyn StopSignal) -> Result<u64, String> + Send>;

/// What a test asks of a pool. A kind says which of these it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// The queue has a bound, and `try_submit` refuses `Full` beyond it.
    BoundedQueue,
    /// A refusal gives the work back.
    HandsBack,
    /// Tasks start in the order in which they were accepted.
    Fifo,
    /// `close` releases blocked submitters.
    ReleasesBlocked,
    /// Queued work can be thrown away while running work ends (`How::Soft`).
    SoftShutdown,
    /// Running tasks can be told to stop (`How::Hard`, `StopSignal`).
    HardShutdown,
    /// A single task can be cancelled by its handle, and frees its place at once.
    Cancel,
    /// Dropping the pool lets accepted work drain in the background.
    DrainsOnDrop,
    /// The pool counts what it does ([`SuitePool::counts`]).
    Counts,
    /// Worker threads are named `<pool>-<n>`, so that they can be counted.
    NamedThreads,
    /// A task may wait for a queued task of its own pool.
    WaitInside,
    /// Groups with fail-fast ([`SuitePool::group`]).
    Groups,
    /// tidegate's own interface ([`Kind::tidegate`]).
    Native,
    /// Nothing else runs in this process meanwhile. The runner sees to it.
    Alone,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::BoundedQueue => "a bounded queue",
            Need::HandsBack => "refusals that give the work back",
            Need::Fifo => "a queue in order of acceptance",
            Need::ReleasesBlocked => "close to release blocked submitters",
            Need::SoftShutdown => "soft shutdown",
            Need::HardShutdown => "hard shutdown",
            Need::Cancel => "cancel by handle",
            Need::DrainsOnDrop => "draining after drop",
            Need::Counts => "counters",
            Need::NamedThreads => "named threads",
            Need::WaitInside => "waiting inside a task",
            Need::Groups => "groups",
            Need::Native => "tidegate's own interface",
            Need::Alone => "the process to itself",
        })
    }
}

/// How a portable test shuts a pool down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Queued and running work ends by itself.
    Light,
    /// Queued work is cancelled, running work ends by itself.
    Soft,
    /// Queued work is cancelled, running work is told to stop.
    Hard,
}

/// How an accepted task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned this value.
    Value(u64),
    /// It returned this error.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
    /// It was cancelled, before or while it ran.
    Cancelled,
    /// A policy pushed it out of the queue.
    Evicted,
    /// Its time was up.
    TimedOut,
    /// It did not stop within the grace.
    Abandoned,
    /// There is no ending: waiting for it here would never return.
    WouldDeadlock,
}

/// Work that the pool did not take.
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The work, if the pool gives it back.
    pub work: Option<Work>,
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// What the pool says it did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub accepted: u64,
    pub refused: u64,
    pub queued: u64,
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    pub panicked: u64,
    pub cancelled: u64,
    /// Timed out, evicted and abandoned together.
    pub other: u64,
}

impl Counts {
    /// All tasks that have an outcome.
    pub fn settled(&self) -> u64 {
        self.completed + self.failed + self.panicked + self.cancelled + self.other
    }
}

/// The handle of one accepted task.
pub trait SuiteHandle: Send {
    /// Blocks until the task has ended.
    fn wait(self: Box<Self>) -> Ending;
    /// True once it has ended.
    fn is_settled(&self) -> bool;
    /// Asks the task to stop; true if that came in time. Only with [`Need::Cancel`].
    fn cancel(&self) -> bool {
        false
    }
}

/// Tasks that fail together. Only with [`Need::Groups`].
pub trait SuiteGroup {
    /// Adds a task.
    fn submit(&self, work: Work) -> Result<(), Refusal>;
    /// Waits for all of them; the first error, if there was one.
    fn wait(self: Box<Self>) -> Result<(), String>;
}

/// A pool under test. Dropping it must not lose accepted work if the kind
/// offers [`Need::DrainsOnDrop`].
pub trait SuitePool: Send + Sync {
    /// Offers work; what happens when the queue is full is the policy of the [`Wish`].
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal>;
    /// Offers work and never waits.
    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal>;
    /// Fire and forget.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason>;
    /// Stops accepting.
    fn close(&self);
    /// Closes, and returns when all accepted work has ended and the threads are gone.
    fn shutdown(&self, how: How);
    /// Counters. Only with [`Need::Counts`].
    fn counts(&self) -> Option<Counts> {
        None
    }
    /// A fail-fast group on this pool. Only with [`Need::Groups`].
    fn group(&self) -> Option<Box<dyn SuiteGroup>> {
        None
    }
}

/// A pool implementation in one configuration.
pub trait Kind: Send + Sync {
    /// What the runner prints: `tidegate-2w`.
    fn name(&self) -> &str;
    /// How many tasks run at once in a pool that [`Kind::open`] gives.
    fn workers(&self) -> usize;
    /// Whether tests that need this can run.
    fn offers(&self, need: Need) -> bool;
    /// Opens a pool as wished; an error is a sentence.
    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String>;
    /// tidegate's own builder with this kind's settings. Only with [`Need::Native`].
    fn tidegate(&self, _wish: &Wish) -> Option<tidegate::Builder> {
        None
    }
    /// Some(reason) if this kind leaves a test out for a reason that is not a [`Need`].
    fn leaves_out(&self, _test: &TestInfo) -> Option<&str> {
        None
    }
}

//! For the tests of those who use pools: one that runs inline, and a check that nothing is left.

use std::fmt;

use crate::builder::Builder;
use crate::config::{BuildError, WhenFull};
use crate::pool::Pool;
use crate::snapshot::Snapshot;

impl Builder<()> {
    /// Starts a pool for tests that runs each task on the thread that submits it, before the
    /// submit returns: no race, the same order each time, a debugger that steps into the task.
    ///
    /// Outcomes, counters, limits, tokens and panics are those of any pool; tasks count as
    /// [`on_caller`](Snapshot::on_caller). Workers, queue and policy that were set do not count:
    /// it is a `queue(0)` pool with [`WhenFull::CallerRuns`] and one worker, paused for good. So
    /// what never waits (`try_submit`) is refused as `Full`, and what waits for a worker, a
    /// [`map`](Pool::map) or a [`submit_async`](Pool::submit_async), would wait until a
    /// [`resume`](Pool::resume).
    ///
    /// ```
    /// use tidegate::Pool;
    ///
    /// let pool = Pool::builder("inline").build_inline()?;
    /// let here = std::thread::current().id();
    /// let ran_on = pool.submit(|| std::thread::current().id())?;
    /// assert_eq!(ran_on.wait()?, here);
    /// pool.assert_drained();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_inline(self) -> Result<Pool, BuildError> {
        let pool = self.workers(1).queue(0).when_full(WhenFull::CallerRuns).build()?;
        // Nobody else has it yet. A paused worker of a `queue(0)` pool is not idle, so every
        // offer finds the queue full.
        pool.pause();
        Ok(pool)
    }
}

impl Snapshot {
    /// Panics unless everything that was accepted has its outcome and nobody waits; the message
    /// names what is left. Meant for the end of a test.
    #[track_caller]
    pub fn assert_drained(&self) {
        let left = Left(self);
        assert!(!left.is_some(), "pool {:?} is not drained: {left}", self.pool);
    }
}

impl<S> Pool<S> {
    /// As [`Snapshot::assert_drained`], now. What was just told its outcome may still count as
    /// running for a moment: call [`wait_idle`](Pool::wait_idle) or
    /// [`shutdown`](Pool::shutdown) before.
    #[track_caller]
    pub fn assert_drained(&self) {
        self.snapshot().assert_drained();
    }
}

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl crate::on_tokio::AsyncPool {
    /// As [`Pool::assert_drained`].
    #[track_caller]
    pub fn assert_drained(&self) {
        self.snapshot().assert_drained();
    }
}

/// What a pool still has to do, in words.
struct Left<'s>(&'s Snapshot);

impl Left<'_> {
    fn counts(&self) -> [(&'static str, u64); 4] {
        [
            ("queued", self.0.queued),
            ("running", self.0.running),
            ("abandoned and still running", self.0.stuck),
            ("submitters waiting", self.0.waiting_submitters),
        ]
    }

    fn is_some(&self) -> bool {
        self.0.check().is_err() || self.counts().iter().any(|(_, count)| *count > 0)
    }
}

impl fmt::Display for Left<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (what, count) in self.counts().into_iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        if let Err(unbalanced) = self.0.check() {
            write!(f, "{separator}{unbalanced}")?;
        }
        Ok(())
    }
}

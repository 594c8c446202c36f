//! Shutting several pools down, producers before consumers, on one deadline.

use std::time::{Duration, Instant};

use crate::decide;
use crate::pool::Pool;
use crate::report::{Report, Shutdown, ShutdownError};

/// Something that can be drained within a time: a pool, or whatever wraps one.
pub trait Drain {
    /// Finishes what it has accepted, at most within `limit`, then stops: whatever does not
    /// end by itself is told to, and given up after `grace`.
    fn drain(&self, limit: Duration, grace: Duration) -> Result<Report, ShutdownError>;

    /// How long those that are told to stop have by its own configuration.
    fn grace(&self) -> Duration;
}

impl<S> Drain for Pool<S> {
    fn drain(&self, limit: Duration, grace: Duration) -> Result<Report, ShutdownError> {
        self.shutdown(Shutdown::light().within(limit).grace(grace))
    }

    fn grace(&self) -> Duration {
        self.core().config.grace
    }
}

/// As a pool of threads: the call blocks, so not on a thread that its runtime needs.
#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl Drain for crate::on_tokio::AsyncPool {
    fn drain(&self, limit: Duration, grace: Duration) -> Result<Report, ShutdownError> {
        self.as_ref().drain(limit, grace)
    }

    fn grace(&self) -> Duration {
        self.as_ref().grace()
    }
}

/// Drains each in turn, in the order given: producers first. All of them share `within`;
/// each gets the time left divided by the number left, so a slow first one can't leave the
/// last with none. A pool that overruns its share turns Hard and may take of the one grace
/// that all have on top of `within`: the longest of theirs. If one can't be drained (inside
/// one of its own tasks), those after it are left alone and get the same error.
///
/// It blocks. Pools of futures can be among them; on a runtime, call it in `spawn_blocking`.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Pool, shutdown_in_order};
///
/// let parse = Pool::builder("parse").workers(1).build()?;
/// let store = Pool::builder("store").workers(1).build()?;
/// for report in shutdown_in_order(&[&parse, &store], Duration::from_secs(10)) {
///     assert!(report?.is_success());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shutdown_in_order(
    pools: &[&dyn Drain],
    within: Duration,
) -> Vec<Result<Report, ShutdownError>> {
    let began = Instant::now();
    let grace = pools.iter().map(|pool| pool.grace()).max().unwrap_or_default();
    let mut refused = None;
    let each = pools.iter().enumerate().map(|(index, pool)| {
        if let Some(error) = refused {
            return Err(error); // a consumer must not go before its producer
        }
        let left = pools.len() - index;
        let (limit, grace) = decide::share(within, grace, began.elapsed(), left);
        let report = pool.drain(limit, grace);
        refused = report.as_ref().err().copied();
        report
    });
    each.collect()
}

//! The refusal: work handed back, and why.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a pool refused work.
///
/// When several hold at once the first of this order is given: Closed,
/// Cancelled, TooHeavy, WouldDeadlock, then OverBudget, Full or TimedOut.
/// Printed so that it fits after "refused the work:".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// There was no room, and the call or the pool's policy does not wait.
    Full,
    /// There was no room for as long as the call was willing to wait.
    TimedOut,
    /// The token given with the work was cancelled, before or during the wait.
    Cancelled,
    /// The pool was closed, is shutting down or has stopped.
    Closed,
    /// A task of the pool would have waited for the pool itself: for room, for a budget or, with
    /// worker state, for a task that only its own worker might run.
    WouldDeadlock,
    /// The budget had no room for its weight.
    OverBudget,
    /// It weighs more than the whole budget; it can never be let in.
    TooHeavy,
    /// The system would not start the thread that was to run it.
    SpawnFailed,
}

impl Reason {
    /// What the reader of the message can do about it.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Reason::Full => "try again later, shed load, or let the pool wait for room",
            Reason::TimedOut => "try again later, shed load, or allow more time",
            Reason::Cancelled => "whoever cancelled it wants no more work, so don't retry",
            Reason::Closed => "this pool takes no more work, so don't retry here",
            Reason::WouldDeadlock => {
                "do the work in the task itself, or submit it to a group (in a future: \
                 `group.submit(…).await`); Inside::RunInline runs it there, up to 64 closures deep"
            }
            Reason::OverBudget => "try again later, or let the pool wait for it",
            Reason::TooHeavy => "split the work or enlarge the budget",
            Reason::SpawnFailed => "try again later, and check the limits on threads and memory",
        }
    }
}

impl Error for Reason {}

/// Why what blocks is refused inside a poll, of whichever pool.
pub(crate) const HOLDS_UP_A_RUNTIME: &str =
    "a future is being polled on this thread, and a wait would hold up its runtime";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::Full => "its queue is full",
            Reason::TimedOut => "no room came free in time",
            Reason::Cancelled => "the token of the work is cancelled",
            Reason::Closed => "it is closed",
            Reason::WouldDeadlock => "a task of its own must not wait for it",
            Reason::OverBudget => "the budget has no room",
            Reason::TooHeavy => "the work is heavier than the whole budget",
            Reason::SpawnFailed => "no thread could be started",
        })
    }
}

/// Work that a pool did not take: the closure, untouched, and the [`Reason`].
///
/// Every submit that fails gives you one. It has not run and will not run; no
/// outcome follows and no counter but that of refusals knows of it. Take the
/// work back with [`into_work`](Refused::into_work) to retry it, run it here or
/// offer it elsewhere, or let `?` pass the refusal on: it is an [`Error`],
/// `Send + Sync` whenever the work is `Send`, and asks for no `Debug`. Dropping
/// it drops the work.
///
/// ```
/// use tidegate::{Reason, Refused};
///
/// fn or_later<F>(offered: Result<(), Refused<F>>, later: &mut Vec<F>) -> Result<(), Refused<F>> {
///     match offered {
///         Err(refused) if refused.reason() == Reason::Full => {
///             later.push(refused.into_work());
///             Ok(())
///         }
///         other => other,
///     }
/// }
/// ```
pub struct Refused<F> {
    // The work is only ever given by value; the mutex, never locked, says so to
    // the compiler: `Sync` for `F: Send`, without unsafe.
    work: Mutex<F>,
    pool: Arc<str>,
    reason: Reason,
    /// What would deadlock is not the pool, but the runtime whose thread would wait.
    in_poll: bool,
}

impl<F> Refused<F> {
    pub(crate) fn new(reason: Reason, pool: Arc<str>, work: F) -> Refused<F> {
        Refused { work: Mutex::new(work), pool, reason, in_poll: false }
    }

    pub(crate) fn in_poll(self, in_poll: bool) -> Refused<F> {
        Refused { in_poll, ..self }
    }

    /// Why it was refused.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The work, as it was offered.
    #[must_use]
    pub fn into_work(self) -> F {
        self.work.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same refusal of other work: takes our wrapper off the user's closure.
    pub(crate) fn map_work<G>(self, f: impl FnOnce(F) -> G) -> Refused<G> {
        let Refused { work, pool, reason, in_poll } = self;
        let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
        Refused::new(reason, pool, f(work)).in_poll(in_poll)
    }
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {:?} refused the work: ", self.pool)?;
        if self.in_poll {
            let instead = "`submit_async` (of an `AsyncPool`: `submit`)";
            return write!(f, "{HOLDS_UP_A_RUNTIME}; await {instead} instead");
        }
        write!(f, "{}; {}", self.reason, self.reason.advice())
    }
}

impl<F> Error for Refused<F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const REASONS: [Reason; 8] = [
        Reason::Full,
        Reason::TimedOut,
        Reason::Cancelled,
        Reason::Closed,
        Reason::WouldDeadlock,
        Reason::OverBudget,
        Reason::TooHeavy,
        Reason::SpawnFailed,
    ];

    fn refused<F>(reason: Reason, work: F) -> Refused<F> {
        Refused::new(reason, "images".into(), work)
    }

    #[test]
    fn the_work_comes_back_whole() {
        let text = String::from("captured");
        let refusal = refused(Reason::Full, move || text);
        assert_eq!(refusal.reason(), Reason::Full);
        assert_eq!(refusal.into_work()(), "captured");
    }

    #[test]
    fn map_work_keeps_reason_and_pool() {
        let refusal = refused(Reason::Closed, 1).map_work(|n| n + 1);
        assert_eq!(refusal.reason(), Reason::Closed);
        assert!(refusal.to_string().contains("\"images\""));
        assert_eq!(refusal.into_work(), 2);
    }

    #[test]
    fn a_refusal_of_send_work_is_send_sync_and_static() {
        fn travels<T: Error + Send + Sync + 'static>(error: T) -> Box<dyn Error + Send + Sync> {
            error.into()
        }
        let not_sync = Cell::new(7);
        let boxed = travels(refused(Reason::Full, move || not_sync.get()));
        assert!(boxed.to_string().starts_with("pool \"images\" refused the work"));
    }

    #[test]
    fn a_refusal_may_borrow() {
        let local = [1, 2, 3];
        let refusal = refused(Reason::WouldDeadlock, || local.len());
        assert_eq!(refusal.into_work()(), 3);
    }

    #[test]
    fn debug_asks_nothing_of_the_work() {
        struct Opaque;
        assert_eq!(
            format!("{:?}", refused(Reason::TimedOut, Opaque)),
            "Refused { reason: TimedOut, pool: \"images\", .. }"
        );
    }

    #[test]
    fn the_message_says_what_where_and_what_to_do() {
        assert_eq!(
            refused(Reason::Full, ()).to_string(),
            "pool \"images\" refused the work: its queue is full; \
             try again later, shed load, or let the pool wait for room"
        );
    }

    #[test]
    fn no_two_reasons_read_alike() {
        let texts = REASONS.map(|r| r.to_string());
        for (i, text) in texts.iter().enumerate() {
            assert!(!texts[..i].contains(text), "{text}");
        }
    }
}

//! How to shut a pool down, and what came of it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::ids::TaskInfo;
use crate::refused::HOLDS_UP_A_RUNTIME;

/// How firmly a pool shuts down. A later one is stronger: `Light < Soft < Hard`.
///
/// Exhaustive on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Drain: what is queued runs, what runs finishes.
    #[default]
    Light,
    /// What is queued is cancelled now, what runs finishes.
    Soft,
    /// What is queued is cancelled now; what runs is told to stop, and abandoned
    /// if it does not return within the grace.
    Hard,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Light => "light",
            Mode::Soft => "soft",
            Mode::Hard => "hard",
        })
    }
}

/// How to shut down: a [`Mode`], and how long before it turns Hard.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Mode, Shutdown};
///
/// let how = Shutdown::soft().within(Duration::from_secs(5));
/// assert_eq!(how.mode(), Mode::Soft);
/// assert_eq!(how.limit(), Some(Duration::from_secs(5)));
/// ```
///
/// The default is `Shutdown::light().within(30 s)`. With a limit `d`, shutdown
/// returns after at most `d` and the pool's grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shutdown {
    mode: Mode,
    limit: Option<Duration>,
    /// At most the pool's.
    grace: Duration,
}

impl Shutdown {
    const fn new(mode: Mode) -> Shutdown {
        Shutdown { mode, limit: None, grace: Duration::MAX }
    }

    /// Run what is queued, finish what runs; takes as long as it takes.
    #[must_use]
    pub const fn light() -> Shutdown {
        Shutdown::new(Mode::Light)
    }

    /// Cancel what is queued, finish what runs; takes as long as it takes.
    #[must_use]
    pub const fn soft() -> Shutdown {
        Shutdown::new(Mode::Soft)
    }

    /// Cancel what is queued and tell what runs to stop; takes at most the grace.
    #[must_use]
    pub const fn hard() -> Shutdown {
        Shutdown::new(Mode::Hard)
    }

    /// Turn Hard after `limit`. `Duration::MAX` means never.
    #[must_use]
    pub const fn within(self, limit: Duration) -> Shutdown {
        let never = limit.as_nanos() == Duration::MAX.as_nanos();
        Shutdown { limit: if never { None } else { Some(limit) }, ..self }
    }

    /// Once it is Hard, give up after this grace, if the pool's own is not shorter still.
    #[must_use]
    pub const fn grace(self, grace: Duration) -> Shutdown {
        Shutdown { grace, ..self }
    }

    /// The mode it begins with.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// How long before it turns Hard; `None` is never.
    #[must_use]
    pub const fn limit(&self) -> Option<Duration> {
        self.limit
    }

    pub(crate) const fn grace_limit(&self) -> Duration {
        self.grace
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::light().within(Duration::from_secs(30))
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "{} within {limit:?}", self.mode),
            None => write!(f, "{}", self.mode),
        }
    }
}

/// Why a call that waits for the whole pool did not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It was called inside a task or callback of that pool, which would have
    /// waited for itself. Nothing has happened. `close` works there; shut down
    /// or wait from outside.
    InsideTask,
    /// It was called inside a poll of a task of an `AsyncPool`, whose runtime it would have held
    /// up. Nothing has happened: await `shutdown_async` or `wait_idle_async`, of an `AsyncPool`
    /// `shutdown` or `wait_idle`.
    InPoll,
    /// It was called in a child process made by `fork`, which has the memory of
    /// the pool but none of its threads. Build pools after forking.
    Forked,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShutdownError::InsideTask => {
                "a task or callback of the pool cannot wait for the whole pool, which would \
                 include itself; call `close` there, and wait or shut down from outside"
            }
            ShutdownError::InPoll => {
                let instead = "`shutdown_async` or `wait_idle_async` (of an `AsyncPool`: \
                               `shutdown`, `wait_idle`)";
                return write!(f, "{HOLDS_UP_A_RUNTIME}; await {instead} instead");
            }
            ShutdownError::Forked => {
                "the pool's threads stayed behind in the parent process when this one was \
                 forked; build the pool after forking"
            }
        })
    }
}

impl Error for ShutdownError {}

/// What came of a shutdown. Every caller of the same shutdown gets the same one.
///
/// Ask [`is_success`](Report::is_success) first; if it is false, print the report:
/// it names what did not stop. The counts are of outcomes since the shutdown
/// began; for totals take a snapshot.
///
/// The default, for filling in, is not a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The strongest mode that was reached: Hard if the limit passed.
    pub mode: Mode,
    /// From the first call until everything that can end had ended.
    pub duration: Duration,
    /// It ended before the limit passed.
    pub in_time: bool,
    /// All tasks are settled, no code of theirs runs any more, and none was given up for want of
    /// a worker (`workers_lost`).
    pub complete: bool,
    /// Tasks that returned a value.
    pub completed: u64,
    /// Tasks that returned an error.
    pub failed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks whose time limit passed.
    pub timed_out: u64,
    /// Tasks that were cancelled.
    pub cancelled: u64,
    /// Tasks that were pushed out of a full queue.
    pub evicted: u64,
    /// Tasks that did not return within the grace.
    pub abandoned: u64,
    /// Which were cancelled: the first [`Report::MAX_LISTED`] of them.
    pub cancelled_tasks: Vec<TaskInfo>,
    /// Whose code still runs, although it was told to stop.
    pub still_running: Vec<TaskInfo>,
    /// Those that still run and borrow from a scope or run on a caller's thread:
    /// only that scope's or caller's own end waits for them.
    pub still_borrowing: Vec<TaskInfo>,
    /// No worker could be started any more (three failures in a row, none alive), or the runtime
    /// of a pool of futures has gone, so what was left has been cancelled.
    pub workers_lost: bool,
    /// Workers left behind, in code that has not returned.
    pub abandoned_workers: usize,
    /// Threads of the pool that ended and were joined. Of a pool of futures: its workers that
    /// ended, and threads of its own.
    pub threads_joined: usize,
}

impl Report {
    /// The most tasks that one list of a report names.
    pub const MAX_LISTED: usize = 64;

    /// Everything ended, and in time.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.complete && self.in_time
    }
}

/// A few lines for a log.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.complete { "complete" } else { "INCOMPLETE" };
        let time = if self.in_time { "in time" } else { "TOO LATE" };
        writeln!(f, "{} shutdown {end}, {time}, after {:.1?}", self.mode, self.duration)?;
        let counts = NonZero(&[
            ("completed", self.completed),
            ("failed", self.failed),
            ("panicked", self.panicked),
            ("timed out", self.timed_out),
            ("cancelled", self.cancelled),
            ("evicted", self.evicted),
            ("abandoned", self.abandoned),
        ]);
        writeln!(f, "  meanwhile  {counts}")?;
        let (joined, lost) = (self.threads_joined, self.abandoned_workers);
        write!(f, "  ended      {joined}, abandoned {lost}")?;
        if self.workers_lost {
            f.write_str("\n  no worker was left for what was cancelled")?;
        }
        write_tasks(f, "cancelled", &self.cancelled_tasks, self.cancelled)?;
        write_tasks(f, "running", &self.still_running, 0)?;
        write_tasks(f, "borrowing", &self.still_borrowing, 0)
    }
}

/// One line for a list of tasks: the first few, and how many more of `total`.
fn write_tasks(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    tasks: &[TaskInfo],
    total: u64,
) -> fmt::Result {
    const SHOWN: usize = 8;
    if tasks.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {label:<9}")?;
    for (i, task) in tasks.iter().take(SHOWN).enumerate() {
        write!(f, "{} {task}", if i == 0 { " " } else { "," })?;
    }
    match total.max(tasks.len() as u64) - tasks.len().min(SHOWN) as u64 {
        0 => Ok(()),
        more => write!(f, ", and {more} more"),
    }
}

/// Counts that are not zero, as `completed 3, failed 1`; `nothing` if all are.
pub(crate) struct NonZero<'a>(pub(crate) &'a [(&'a str, u64)]);

impl fmt::Display for NonZero<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, count) in self.0.iter().filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{name} {count}")?;
            separator = ", ";
        }
        if separator.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;

    fn tasks(count: u64) -> Vec<TaskInfo> {
        let task = |lo| TaskInfo { id: TaskId { hi: 1, lo }, name: "resize", external_id: None };
        (0..count).map(task).collect()
    }

    #[test]
    fn modes_are_ordered_by_strength() {
        assert!(Mode::Light < Mode::Soft && Mode::Soft < Mode::Hard);
    }

    #[test]
    fn the_default_drains_within_thirty_seconds() {
        let how = Shutdown::default();
        assert_eq!(how.mode(), Mode::Light);
        assert_eq!(how.limit(), Some(Duration::from_secs(30)));
        assert_eq!(how.to_string(), "light within 30s");
    }

    #[test]
    fn a_limit_of_duration_max_is_none() {
        assert_eq!(Shutdown::hard().within(Duration::MAX), Shutdown::hard());
        let nearly = Duration::MAX - Duration::from_nanos(1);
        assert_eq!(Shutdown::soft().within(nearly).limit(), Some(nearly));
        assert_eq!(Shutdown::soft().within(Duration::ZERO).limit(), Some(Duration::ZERO));
    }

    #[test]
    fn success_is_complete_and_in_time() {
        for (complete, in_time) in [(false, false), (false, true), (true, false), (true, true)] {
            let report = Report { complete, in_time, ..Report::default() };
            assert_eq!(report.is_success(), complete && in_time);
        }
    }

    #[test]
    fn a_good_report_is_three_lines() {
        let report = Report {
            complete: true,
            in_time: true,
            completed: 12,
            failed: 1,
            threads_joined: 5,
            duration: Duration::from_millis(1_240),
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "light shutdown complete, in time, after 1.2s\n\
             \x20 meanwhile  completed 12, failed 1\n\
             \x20 ended      5, abandoned 0"
        );
    }

    #[test]
    fn a_bad_report_names_what_did_not_stop() {
        let report = Report {
            mode: Mode::Hard,
            cancelled: 100,
            abandoned: 1,
            cancelled_tasks: tasks(64),
            still_running: tasks(1),
            still_borrowing: tasks(2),
            abandoned_workers: 1,
            threads_joined: 4,
            duration: Duration::from_secs(35),
            ..Report::default()
        };
        assert_eq!(
            report.to_string(),
            "hard shutdown INCOMPLETE, TOO LATE, after 35.0s\n\
             \x20 meanwhile  cancelled 100, abandoned 1\n\
             \x20 ended      4, abandoned 1\n\
             \x20 cancelled  resize t1-0, resize t1-1, resize t1-2, resize t1-3, resize t1-4, \
             resize t1-5, resize t1-6, resize t1-7, and 92 more\n\
             \x20 running    resize t1-0\n\
             \x20 borrowing  resize t1-0, resize t1-1"
        );
    }
}

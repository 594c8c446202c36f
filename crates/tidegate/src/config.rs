//! The settings of a pool: what each means, and which values are refused.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::ids::WorkerId;
use crate::lot::MAX_WORKERS;
use crate::report::Shutdown;
use crate::spawn::Spawner;
use crate::unobserved::Unobserved;

/// What a submit does when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Waits for room, in order of arrival.
    #[default]
    Wait,
    /// Waits at most this long, then refuses with `TimedOut`.
    WaitFor(Duration),
    /// Refuses with `Full`.
    Reject,
    /// Accepts the new task and settles it as evicted at once.
    DropNewest,
    /// Settles the oldest queued task as evicted and takes the new one.
    DropOldest,
    /// Runs it on the caller's thread, as a task of the pool.
    CallerRuns,
}

/// What a submit that would have to wait does inside a task of the same pool, where
/// waiting could never end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inside {
    /// Refuses with `WouldDeadlock`.
    #[default]
    Refuse,
    /// Runs the new task at once, on top of the running one.
    RunInline,
}

/// How many workers a pool has: a number, or a range within which it grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl From<std::num::NonZeroUsize> for Workers {
    fn from(count: std::num::NonZeroUsize) -> Workers {
        Workers::from(count.get())
    }
}

impl From<usize> for Workers {
    fn from(count: usize) -> Workers {
        Workers { min: count, max: count }
    }
}

impl From<RangeInclusive<usize>> for Workers {
    fn from(range: RangeInclusive<usize>) -> Workers {
        Workers { min: *range.start(), max: *range.end() }
    }
}

impl Workers {
    pub(crate) fn is_range(self) -> bool {
        self.min < self.max
    }

    /// What is wrong with it: key, value, and what would be right.
    pub(crate) fn complaint(self) -> Option<(&'static str, String, String)> {
        let Workers { min, max } = self;
        let wrong = max == 0 || max > MAX_WORKERS || min > max;
        let expected = || format!("1 to {MAX_WORKERS}, or a range MIN..=MAX from 0 to that");
        wrong.then(|| ("workers", self.to_string(), expected()))
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workers { min, max } = self;
        if min == max { write!(f, "{max}") } else { write!(f, "{min}..={max}") }
    }
}

/// Why a pool could not be built: the setting or the cause, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of range.
    Setting {
        /// The setting's name, as in the builder.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// The operating system refused a thread.
    Spawn(io::Error),
    /// The first worker's hook or state failed: its message.
    Worker(String),
}

/// What a setting that is out of range is told, by whichever error.
pub(crate) fn setting_text(key: &str, value: &str, expected: &str) -> String {
    format!("pool setting `{key}` is {value}; expected {expected}")
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Setting { key, value, expected } => {
                f.write_str(&setting_text(key, value, expected))
            }
            BuildError::Spawn(error) => write!(
                f,
                "a thread of the pool could not be started: {error}; \
                 lower `workers` or `stack_size`, or raise the process limit"
            ),
            BuildError::Worker(cause) => {
                write!(f, "the pool's first worker could not start: {cause}")
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Spawn(error) => Some(error),
            _ => None,
        }
    }
}

type WorkerHook = Arc<dyn Fn(WorkerId) + Send + Sync>;
type StateMaker = Arc<dyn Fn(WorkerId) -> Result<Box<dyn Any>, String> + Send + Sync>;

/// The validated settings of a running pool.
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) workers: Workers,
    /// W4, for a range: how long a task may wait before workers are added, how long workers may
    /// idle before they go, and how long to hold still after a change.
    pub(crate) grow_after: Duration,
    pub(crate) shrink_after: Duration,
    pub(crate) resize_cooldown: Duration,
    pub(crate) queue: usize,
    pub(crate) when_full: WhenFull,
    pub(crate) inside: Inside,
    pub(crate) callers_may_help: bool,
    pub(crate) task_timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) max_abandoned: usize,
    pub(crate) stack_size: Option<usize>,
    pub(crate) on_worker_start: Option<WorkerHook>,
    pub(crate) on_worker_stop: Option<WorkerHook>,
    pub(crate) worker_state: Option<StateMaker>,
    pub(crate) on_unobserved: Option<Arc<dyn Fn(&Unobserved) + Send + Sync>>,
    pub(crate) on_parent_cancel: Shutdown,
    pub(crate) restart_backoff: (Duration, Duration),
    pub(crate) clock: Clock,
    pub(crate) spawner: Option<Arc<Spawner>>,
}

impl Config {
    pub(crate) fn new(name: String) -> Config {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            name,
            workers: workers.into(),
            grow_after: Duration::from_millis(10),
            shrink_after: Duration::from_secs(10),
            resize_cooldown: Duration::from_secs(1),
            queue: 1_000,
            when_full: WhenFull::Wait,
            inside: Inside::Refuse,
            callers_may_help: false,
            task_timeout: None,
            grace: Duration::from_secs(5),
            max_abandoned: workers,
            stack_size: None,
            on_worker_start: None,
            on_worker_stop: None,
            worker_state: None,
            on_unobserved: None,
            on_parent_cancel: Shutdown::hard(),
            restart_backoff: (Duration::from_millis(10), Duration::from_secs(5)),
            clock: Clock::system(),
            spawner: None,
        }
    }

    /// Itself, if every setting makes sense alone and with the others.
    pub(crate) fn validated(self) -> Result<Config, BuildError> {
        let wrong = |key, value: String, expected: String| {
            Err(BuildError::Setting { key, value, expected })
        };
        let c = self;
        if c.name.is_empty() || c.name.contains('\0') {
            let expected = "a name that is not empty and has no NUL: it names threads";
            return wrong("name", format!("{:?}", c.name), expected.into());
        }
        if let Some((key, value, expected)) = c.workers.complaint() {
            return wrong(key, value, expected);
        }
        if c.queue as u64 > u64::from(u32::MAX) {
            return wrong("queue", c.queue.to_string(), format!("0 to {}", u32::MAX));
        }
        if c.queue == 0 && c.when_full == WhenFull::DropOldest {
            let expected = "another policy: a queue of 0 has no oldest task to drop";
            return wrong("when_full", "DropOldest with queue 0".into(), expected.into());
        }
        if c.restart_backoff.0 > c.restart_backoff.1 {
            let value = format!("{:?}..={:?}", c.restart_backoff.0, c.restart_backoff.1);
            return wrong("restart_backoff", value, "a range that is not empty".into());
        }
        if c.worker_state.is_some() {
            let needs =
                "another setting: with worker_state a task must run on the worker that owns it";
            if c.when_full == WhenFull::CallerRuns {
                return wrong("when_full", "CallerRuns".into(), needs.into());
            }
            if c.inside == Inside::RunInline {
                return wrong("when_full_inside", "RunInline".into(), needs.into());
            }
            if c.callers_may_help {
                return wrong("callers_may_help", "true".into(), needs.into());
            }
        }
        Ok(c)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("workers", &self.workers)
            .field("queue", &self.queue)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}

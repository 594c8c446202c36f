//! The settings of a pool: what each means, and which values are refused.

use std::any::Any;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::Driver;
use crate::ids::WorkerId;
use crate::report::Shutdown;
use crate::settings::{INSIDE, SettingError, Settings, WHEN_FULL};
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
    /// A setting is out of range, alone or with the others.
    Setting(SettingError),
    /// The operating system refused a thread.
    Spawn(io::Error),
    /// The first worker's hook or state failed: its message.
    Worker(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Setting(error) => error.fmt(f),
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

impl From<SettingError> for BuildError {
    fn from(error: SettingError) -> BuildError {
        BuildError::Setting(error)
    }
}

type WorkerHook = Arc<dyn Fn(WorkerId) + Send + Sync>;
type StateMaker = Arc<dyn Fn(WorkerId) -> Result<Box<dyn Any>, String> + Send + Sync>;

/// The validated settings of a running pool.
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) driver: Driver,
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
    /// As many as workers, unless somebody said otherwise.
    pub(crate) max_abandoned: Option<usize>,
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
            driver: Driver::default(),
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
            max_abandoned: None,
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

    pub(crate) fn max_abandoned(&self) -> usize {
        self.max_abandoned.unwrap_or(self.workers.max)
    }

    /// Takes over what is set, unchecked.
    pub(crate) fn apply(&mut self, set: &Settings) {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        put(&mut self.workers, set.workers);
        put(&mut self.grow_after, set.grow_after);
        put(&mut self.shrink_after, set.shrink_after);
        put(&mut self.resize_cooldown, set.resize_cooldown);
        put(&mut self.queue, set.queue);
        put(&mut self.when_full, set.when_full);
        put(&mut self.inside, set.when_full_inside);
        put(&mut self.callers_may_help, set.callers_may_help);
        put(&mut self.task_timeout, set.task_timeout.map(|d| (d != Duration::MAX).then_some(d)));
        put(&mut self.grace, set.grace);
        put(&mut self.max_abandoned, set.max_abandoned.map(Some));
        put(&mut self.stack_size, set.stack_size.map(Some));
        put(&mut self.restart_backoff, set.restart_backoff.clone().map(|r| r.into_inner()));
        put(&mut self.on_parent_cancel, set.on_parent_cancel);
    }

    /// As plain data. Only what is the platform's is not set.
    pub(crate) fn settings(&self) -> Settings {
        let (first, longest) = self.restart_backoff;
        Settings {
            workers: Some(self.workers),
            grow_after: Some(self.grow_after),
            shrink_after: Some(self.shrink_after),
            resize_cooldown: Some(self.resize_cooldown),
            queue: Some(self.queue),
            when_full: Some(self.when_full),
            when_full_inside: Some(self.inside),
            callers_may_help: Some(self.callers_may_help),
            task_timeout: Some(self.task_timeout.unwrap_or(Duration::MAX)),
            grace: Some(self.grace),
            max_abandoned: Some(self.max_abandoned()),
            stack_size: self.stack_size,
            restart_backoff: Some(first..=longest),
            on_parent_cancel: Some(self.on_parent_cancel),
        }
    }

    /// Itself, if every setting makes sense alone and with the others.
    pub(crate) fn validated(self) -> Result<Config, SettingError> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(error) => Err(error.of_pool(&self.name)),
        }
    }

    fn check(&self) -> Result<(), SettingError> {
        let wrong =
            |key, value: String, expected| Err(SettingError::refused(key, &value, expected));
        if self.name.is_empty() || self.name.contains('\0') {
            let expected = "a name that is not empty and has no NUL: it names threads";
            return wrong("name", self.name.clone(), expected);
        }
        self.settings().check()?;
        let (policy, inside) = ((WHEN_FULL.write)(&self.when_full), (INSIDE.write)(&self.inside));
        if self.queue == 0 && self.when_full == WhenFull::DropOldest {
            let expected = "another policy: a queue of 0 has no oldest task to drop";
            return wrong("when_full", policy, expected);
        }
        if self.driver.is_async() {
            let expected = "none: a pool of futures has no threads, and its tasks move between those of the runtime";
            let given = [
                ("worker_state", self.worker_state.as_ref().map(|_| "given".to_owned())),
                ("stack_size", self.stack_size.map(|bytes| bytes.to_string())),
                ("callers_may_help", self.callers_may_help.then(|| "true".to_owned())),
            ];
            for (key, value) in given {
                if let Some(value) = value {
                    return wrong(key, value, expected);
                }
            }
        }
        if self.worker_state.is_some() {
            let expected =
                "another value: with worker_state a task must run on the worker that owns it";
            if self.when_full == WhenFull::CallerRuns {
                return wrong("when_full", policy, expected);
            }
            if self.inside == Inside::RunInline {
                return wrong("when_full_inside", inside, expected);
            }
            if self.callers_may_help {
                return wrong("callers_may_help", "true".to_owned(), expected);
            }
        }
        Ok(())
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

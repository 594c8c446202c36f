//! How a pool is described and started.

use std::fmt::{self, Display};
use std::io;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::{BuildError, Config, Inside, WhenFull, Workers};
use crate::core::Core;
use crate::event::Event;
use crate::fences;
use crate::ids::WorkerId;
use crate::line::WorkerLine;
use crate::pool::Pool;
use crate::report::Shutdown;
use crate::roster::Phase;
use crate::settings::{SettingError, Settings};
use crate::spawn;
use crate::supervisor::supervise;
use crate::token::{Listener, Token};
use crate::unobserved::Unobserved;

/// Describes a pool; [`build`](Builder::build) starts it.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Pool, Shutdown, WhenFull};
///
/// let pool = Pool::builder("resize")
///     .workers(4)
///     .queue(100)
///     .when_full(WhenFull::WaitFor(Duration::from_millis(50)))
///     .grace(Duration::from_secs(1))
///     .build()?;
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<S = ()> {
    config: Config,
    parent: Option<Token>,
    state: PhantomData<fn(&mut S)>,
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.config).finish()
    }
}

impl Builder<()> {
    pub(crate) fn new(name: String) -> Builder<()> {
        Builder { config: Config::new(name), parent: None, state: PhantomData }
    }
}

impl<S: 'static> Builder<S> {
    /// Takes over what is set there, as if each method had been called; later calls override.
    pub fn settings(mut self, settings: &Settings) -> Self {
        self.config.apply(settings);
        self
    }

    /// Takes over what the environment says about this pool: `TIDEGATE_IMAGE_RESIZE_WORKERS`
    /// for `image-resize`. See [`Settings::from_env`], also for programs in which the name of
    /// one pool begins with that of another.
    pub fn env(self) -> Result<Self, SettingError> {
        let found = Settings::from_env(&[&self.config.name])?;
        let settings = &found[&self.config.name];
        Ok(self.settings(settings))
    }

    /// What the pool would be built with, unchecked: what was set, and the defaults. Only a
    /// `stack_size` that nobody set is `None`.
    #[must_use]
    pub fn effective(&self) -> Settings {
        self.config.settings()
    }

    /// How many threads run tasks: a number, or a range (`2..=16`) within which the pool grows
    /// and shrinks with its load. Default: the machine's parallelism.
    pub fn workers(mut self, workers: impl Into<Workers>) -> Self {
        self.config.workers = workers.into();
        self
    }

    /// With a range of workers: how long a task may wait in the queue, with nobody idle, before
    /// the pool grows by half. Default: 10 ms. The more tasks vary, the closer to their length
    /// should it be: a pool sizes itself for its busiest moments.
    pub fn grow_after(mut self, wait: Duration) -> Self {
        self.config.grow_after = wait;
        self
    }

    /// With a range of workers: how long workers may have nothing to do before the pool
    /// shrinks, half of the way to what it needs. Default: 10 s. A pool that had to grow again
    /// takes 32 times as long the next time, unless nobody has anything to do.
    pub fn shrink_after(mut self, idle: Duration) -> Self {
        self.config.shrink_after = idle;
        self
    }

    /// With a range of workers: how long the pool holds still after it has changed its size.
    /// Default: 1 s.
    pub fn resize_cooldown(mut self, pause: Duration) -> Self {
        self.config.resize_cooldown = pause;
        self
    }

    /// How many tasks may wait, at most 2³² − 1. 0: a task is accepted only if a worker is
    /// idle, which it is a moment after its last task has settled. Default: 1,000. There is no
    /// unbounded queue.
    ///
    /// With 0 and a range of workers, an offer that finds nobody idle starts a worker at once:
    /// a submit that waits gets it; one that does not is refused `Full`, and the next finds it.
    pub fn queue(mut self, places: usize) -> Self {
        self.config.queue = places;
        self
    }

    /// What a submit does when the queue is full. Default: it waits.
    pub fn when_full(mut self, policy: WhenFull) -> Self {
        self.config.when_full = policy;
        self
    }

    /// What a submit that would wait does inside a task of this pool. Default: refuse.
    pub fn when_full_inside(mut self, inside: Inside) -> Self {
        self.config.inside = inside;
        self
    }

    /// Lets a thread outside the pool that waits for a handle run that task itself, if it
    /// is the only queued one and a worker is idle, in that worker's place. Saves a
    /// wake-up; the task then runs on the caller's thread. Default: off.
    pub fn callers_may_help(mut self, yes: bool) -> Self {
        self.config.callers_may_help = yes;
        self
    }

    /// How long each task may run that does not say otherwise
    /// ([`Task::timeout`](crate::Task::timeout)). Default: as long as it takes. Costs two
    /// looks at the clock per task.
    pub fn task_timeout(mut self, limit: Duration) -> Self {
        self.config.task_timeout = (limit != Duration::MAX).then_some(limit);
        self
    }

    /// How long a running task has after it was told to stop, before it is abandoned.
    /// Default: 5 s; 0 is allowed.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// How many abandoned workers are replaced at a time. Default: as many as workers.
    pub fn max_abandoned(mut self, threads: usize) -> Self {
        self.config.max_abandoned = Some(threads);
        self
    }

    /// The stack of each worker, in bytes: 64 KiB or more, of which a panic with its backtrace may
    /// take half; the rest is for the tasks. Default: the platform's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_size = Some(bytes);
        self
    }

    /// Runs on each worker's thread before its first task. A panic here ends the worker,
    /// which is started again after a back-off; on the first worker it fails the build.
    pub fn on_worker_start(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.config.on_worker_start = Some(Arc::new(hook));
        self
    }

    /// Runs on each worker's thread after its last task.
    pub fn on_worker_stop(mut self, hook: impl Fn(WorkerId) + Send + Sync + 'static) -> Self {
        self.config.on_worker_stop = Some(Arc::new(hook));
        self
    }

    /// Gives each worker a state of its own, made on its thread; tasks submitted with
    /// [`submit_with`](Pool::submit_with) get it as `&mut`. It is made anew after a task
    /// panicked.
    ///
    /// While a task holds the state nothing else may run on that worker, so in such a pool
    /// CallerRuns, [`Inside::RunInline`] and helping are build errors, and waiting inside a
    /// task for a *queued* task of the same pool is refused.
    pub fn worker_state<S2: 'static>(
        self,
        make: impl Fn(WorkerId) -> S2 + Send + Sync + 'static,
    ) -> Builder<S2> {
        self.try_worker_state(move |id| Ok::<S2, std::convert::Infallible>(make(id)))
    }

    /// As [`worker_state`](Builder::worker_state), for a state that may fail to be made: the worker then is
    /// restarted with back-off, and the first one fails the build.
    pub fn try_worker_state<S2: 'static, E: Display>(
        self,
        make: impl Fn(WorkerId) -> Result<S2, E> + Send + Sync + 'static,
    ) -> Builder<S2> {
        let mut config = self.config;
        config.worker_state = Some(Arc::new(move |id| match make(id) {
            Ok(state) => Ok(Box::new(state) as Box<dyn std::any::Any>),
            Err(error) => Err(error.to_string()),
        }));
        Builder { config, parent: self.parent, state: PhantomData }
    }

    /// Told about errors and panics that nobody else will see: those of fire-and-forget
    /// tasks, of handles dropped unread, of callbacks and hooks. Default: a rate-limited
    /// line on stderr.
    pub fn on_unobserved(mut self, hook: impl Fn(&Unobserved) + Send + Sync + 'static) -> Self {
        self.config.on_unobserved = Some(Arc::new(hook));
        self
    }

    /// Shuts the pool down when `token` is cancelled; Hard, unless
    /// [`on_parent_cancel`](Builder::on_parent_cancel) says otherwise.
    pub fn parent(mut self, token: &Token) -> Self {
        self.parent = Some(token.clone());
        self
    }

    /// How the pool shuts down when its parent token is cancelled.
    pub fn on_parent_cancel(mut self, how: Shutdown) -> Self {
        self.config.on_parent_cancel = how;
        self
    }

    /// The first and the longest pause before a worker that died is started again.
    /// Default: 10 ms to 5 s.
    pub fn restart_backoff(mut self, range: RangeInclusive<Duration>) -> Self {
        self.config.restart_backoff = (*range.start(), *range.end());
        self
    }

    /// Where the pool takes its time from; for tests, [`Clock::manual`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.config.clock = clock;
        self
    }

    /// Starts threads in place of `std::thread::Builder::spawn`: to set priorities or
    /// affinities, or to make it fail in a test.
    pub fn spawner(
        mut self,
        spawner: impl Fn(
            std::thread::Builder,
            Box<dyn FnOnce() + Send>,
        ) -> io::Result<std::thread::JoinHandle<()>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.config.spawner = Some(Arc::new(spawner));
        self
    }

    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn run_on(
        &mut self,
        driver: crate::driver::Driver,
        time: impl FnOnce() -> crate::on_tokio::TokioTime,
    ) {
        self.config.driver = driver;
        if self.config.clock.is_real() {
            self.config.clock = Clock::tokio(time());
        }
    }

    /// Starts the pool. Returns once the first worker is ready to run a task; a failure of
    /// its thread, hook or state is an error here, later ones are restarted.
    pub fn build(self) -> Result<Pool<S>, BuildError> {
        let core = Core::new(self.config.validated()?);
        fences::prepare_if_alone();
        start(&core)?;
        if let Some(parent) = self.parent {
            let listener = Listener::Pool(Arc::downgrade(&core));
            let registration = parent.register(listener);
            if registration.is_none() {
                core.parent_cancelled();
            }
            return Ok(Pool::new(core, registration));
        }
        Ok(Pool::new(core, None))
    }
}

/// First worker, then supervisor, then the others: a build that fails leaves nothing.
fn start(core: &Arc<Core>) -> Result<(), BuildError> {
    // All on the roster before the supervisor looks at it: it fills what is missing.
    let lines: Vec<_> = (0..core.target()).map(|_| core.roster.lock().add()).collect();
    match core.driver.start_first(core, &lines[0]) {
        Some(started) => started.map_err(BuildError::Worker)?,
        None => start_first(core, &lines[0])?,
    }
    let spawned = core.driver.start_supervisor(core).unwrap_or_else(|| {
        let (own, name) = (Arc::clone(core), format!("{}-supervisor", core.name));
        spawn::spawn(name, None, core.config.spawner.as_ref(), move || supervise(own))
    });
    match spawned {
        Ok(thread) => *core.ending.supervisor.lock() = Some(thread),
        Err(error) => {
            undo(core);
            return Err(BuildError::Spawn(error));
        }
    }
    // It has to have announced itself: `queue(0)` hands over to idle workers only. A pool that
    // may be empty may have sent it home already.
    while core.queue.bound() == 0 && core.lot.idle() == 0 && core.live() > 0 {
        if core.driver.is_async() {
            break; // it announced itself when it was made
        }
        crate::sync::thread::yield_now();
    }
    for line in &lines[1..] {
        if let Err(error) = core.start_worker(line, None) {
            // The supervisor will: spawn failure after the first never fails the pool.
            let cause = format!("thread could not be started: {error}");
            if let Some(entry) = core.roster.lock().find(line.id) {
                entry.phase = Phase::Restarting { at: core.clock.now(), cause };
            }
            core.wake_supervisor();
        }
    }
    Ok(())
}

/// Waits until the first worker's thread, hook and state have gone well.
fn start_first(core: &Arc<Core>, line: &Arc<WorkerLine>) -> Result<(), BuildError> {
    let first = Event::new();
    core.start_worker(line, Some(Arc::clone(&first))).map_err(BuildError::Spawn)?;
    if let Err(cause) = first.wait() {
        let leaving = loop {
            let mut roster = core.roster.lock();
            if !roster.leaving.is_empty() {
                break std::mem::take(&mut roster.leaving);
            }
            drop(roster);
            crate::sync::thread::yield_now();
        };
        leaving.into_iter().for_each(spawn::Joiner::join);
        return Err(BuildError::Worker(cause));
    }
    Ok(())
}

/// Sends the first worker home.
fn undo(core: &Arc<Core>) {
    use crate::core::STOPPING;
    core.queue.close();
    core.flags.fetch_or(STOPPING, crate::sync::atomic::Ordering::SeqCst);
    core.lot.kick_all();
    if core.driver.is_async() {
        return; // it goes when it is polled or dropped, which may need this very thread
    }
    loop {
        let mut roster = core.roster.lock();
        if roster.entries.len() < core.target() {
            // The first has left; the others were never started.
            let leaving = std::mem::take(&mut roster.leaving);
            drop(roster);
            leaving.into_iter().for_each(spawn::Joiner::join);
            return;
        }
        drop(roster);
        crate::sync::thread::yield_now();
    }
}

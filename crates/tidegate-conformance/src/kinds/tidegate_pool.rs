//! tidegate on threads, in several configurations.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{
    Builder, Cx, Group, GroupError, Handle, Pool, Reason, Refused, Shutdown, Snapshot, TaskError,
    WaitError,
};

use crate::ctx::Wish;
use crate::port::{
    Counts, Ending, How, Kind, Need, Refusal, StopSignal, SuiteGroup, SuiteHandle, SuitePool, Work,
};
use crate::suite::TestInfo;

/// What is worth the time with a thousand threads on a few cores.
const A_FEW: &[&str] = &[
    "T1_drain_ordering",
    "T4_bounded_concurrency",
    "T5_panic_safety",
    "T8_result_for_every_job",
    "I7_exactly_one_end_for_every_job",
    "R6_bound_is_exact",
    "R6_queue_zero",
    "R7_start_order_in_waves",
    "S1_nothing_accepted_is_lost",
    "S6_shutdown_joins_for_real",
    "A1_identity_at_rest",
    "hazard_33_no_wake_up_is_lost",
];

/// What counts the workers of a pool that has had nothing to do.
const FIXED_ONLY: &[&str] = &[
    "L4_a_stuck_worker_that_returns_retires",
    "L4_max_abandoned_bounds_the_replacements",
    "S7_stop_one_worker_after_its_task",
    "S7_stop_one_worker_hard",
    "S7_stop_one_worker_hard_reaches_a_fire_and_forget_task",
    "T10_memory_stability",
    "W1_each_worker_has_its_own_state",
    "W3_the_roster_shows_idle_running_and_stopping",
    "W3_the_roster_shows_starting",
    "W3_the_roster_shows_restarting_with_its_cause",
    "hazard_29_a_task_comes_as_an_idle_worker_leaves",
    "hazard_29_a_task_comes_as_the_last_idle_worker_is_replaced",
];

/// tidegate in one configuration.
#[derive(Clone, Debug)]
pub struct TidegateKind {
    name: &'static str,
    workers: usize,
    queue: usize,
    help: bool,
    state: bool,
    few: bool,
    /// With one worker at first, and more as they are needed.
    growing: bool,
}

impl TidegateKind {
    /// Plain threads, a queue of 1,000.
    pub fn threads(name: &'static str, workers: usize) -> TidegateKind {
        let (queue, help, state, few, growing) = (1_000, false, false, false, false);
        TidegateKind { name, workers, queue, help, state, few, growing }
    }

    /// With `callers_may_help`.
    pub fn helping(self) -> TidegateKind {
        TidegateKind { help: true, ..self }
    }

    /// Each worker has a state of its own.
    pub fn with_state(self) -> TidegateKind {
        TidegateKind { state: true, ..self }
    }

    /// From one worker to as many as the kind has, as the load asks.
    pub fn growing(self) -> TidegateKind {
        TidegateKind { growing: true, ..self }
    }

    /// With a queue of this length unless a test wishes another.
    pub fn queue(self, queue: usize) -> TidegateKind {
        TidegateKind { queue, ..self }
    }

    /// Only the tests that say something about very many workers.
    pub fn a_few_tests(self) -> TidegateKind {
        TidegateKind { few: true, ..self }
    }

    fn builder(&self, wish: &Wish) -> Builder {
        let min = if self.growing { wish.workers.min(1) } else { wish.workers };
        builder(wish)
            .workers(min..=wish.workers)
            .queue(wish.queue.unwrap_or(self.queue))
            .callers_may_help(self.help)
    }
}

impl Kind for TidegateKind {
    fn name(&self) -> &str {
        self.name
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self, need: Need) -> bool {
        match need {
            // A task that holds the worker's state can't run another one (W1).
            Need::Native | Need::WaitInside => !self.state,
            _ => true,
        }
    }

    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        let builder = self.builder(wish);
        if self.state {
            let pool = builder.worker_state(|_| 0_u64).build().map_err(|e| e.to_string())?;
            return Ok(Arc::new(TidegatePool(pool)));
        }
        let pool = builder.build().map_err(|e| e.to_string())?;
        Ok(Arc::new(TidegatePool(pool)))
    }

    fn tidegate(&self, wish: &Wish) -> Option<Builder> {
        (!self.state).then(|| self.builder(wish))
    }

    fn leaves_out(&self, test: &TestInfo) -> Option<&str> {
        if self.growing && FIXED_ONLY.contains(&test.name) {
            return Some("counts on a fixed number of workers");
        }
        (self.few && !A_FEW.contains(&test.name)).then_some("runs on fewer workers")
    }
}

/// As the suite wants every pool of ours, on threads or not.
pub(super) fn builder(wish: &Wish) -> Builder {
    Pool::builder(wish.name.clone())
        .workers(wish.workers)
        .grow_after(Duration::ZERO)
        .resize_cooldown(Duration::ZERO)
        .queue(wish.queue.unwrap_or(1_000))
        .when_full(wish.when_full)
        // The default prints; tests of O6 set their own.
        .on_unobserved(|_| ())
}

struct TidegatePool<S>(Pool<S>);

impl StopSignal for Cx {
    fn stopping(&self) -> bool {
        Cx::stopping(self)
    }
}

impl<S: Send + 'static> SuitePool for TidegatePool<S> {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let offer = self.0.task("suite").submit_result(move |cx| carrier.unload()(cx));
        answer(offer, &way_back)
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let offer = self.0.task("suite").try_submit_result(move |cx| carrier.unload()(cx));
        answer(offer, &way_back)
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        self.0.spawn(work).map_err(|refused| refused.reason())
    }

    fn group(&self) -> Option<Box<dyn SuiteGroup>> {
        Some(Box::new(self.0.group().name("suite").start::<String>()))
    }

    fn close(&self) {
        self.0.close();
    }

    fn shutdown(&self, how: How) {
        self.0.shutdown(mode(how)).expect("the test is outside the pool");
    }

    fn counts(&self) -> Option<Counts> {
        Some(counts(&self.0.snapshot()))
    }
}

pub(super) fn counts(now: &Snapshot) -> Counts {
    Counts {
        accepted: now.accepted,
        refused: now.refused.total(),
        queued: now.queued,
        running: now.running,
        completed: now.completed,
        failed: now.failed,
        panicked: now.panicked,
        cancelled: now.cancelled,
        other: now.timed_out + now.evicted + now.abandoned,
    }
}

pub(super) fn mode(how: How) -> Shutdown {
    match how {
        How::Light => Shutdown::light(),
        How::Soft => Shutdown::soft(),
        How::Hard => Shutdown::hard(),
    }
}

impl<S: Send + 'static> SuiteGroup for Group<String, S> {
    fn submit(&self, work: Work) -> Result<(), Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let offer = Group::submit(self, move |cx| carrier.unload()(cx).map(drop));
        offer.map_err(|refused| take_back(refused, &way_back))
    }

    fn wait(self: Box<Self>) -> Result<(), String> {
        Group::wait(&self).map_err(first_error)
    }
}

pub(super) fn first_error(error: GroupError<String>) -> String {
    match error.into_failures().swap_remove(0) {
        TaskError::Failed(error) => error,
        other => other.to_string(),
    }
}

impl SuiteHandle for Handle<u64, String> {
    fn wait(self: Box<Self>) -> Ending {
        match Handle::wait(*self) {
            Ok(value) => Ending::Value(value),
            Err(WaitError::Task(error)) => ending(error),
            Err(_) => Ending::WouldDeadlock,
        }
    }

    fn is_settled(&self) -> bool {
        Handle::is_settled(self)
    }

    fn cancel(&self) -> bool {
        Handle::cancel(self)
    }
}

fn ending(error: TaskError<String>) -> Ending {
    match error {
        TaskError::Failed(error) => Ending::Failed(error),
        TaskError::Panicked(panic) => Ending::Panicked(panic.message().to_owned()),
        TaskError::TimedOut(_) => Ending::TimedOut,
        TaskError::Cancelled { .. } => Ending::Cancelled,
        TaskError::Evicted => Ending::Evicted,
        _ => Ending::Abandoned,
    }
}

pub(super) fn answer<F>(
    offer: Result<Handle<u64, String>, Refused<F>>,
    way_back: &WayBack,
) -> Result<Box<dyn SuiteHandle>, Refusal> {
    match offer {
        Ok(handle) => Ok(Box::new(handle)),
        Err(refused) => Err(take_back(refused, way_back)),
    }
}

pub(super) fn take_back<F>(refused: Refused<F>, way_back: &WayBack) -> Refusal {
    let reason = refused.reason();
    way_back.wanted.store(true, SeqCst);
    drop(refused.into_work());
    let work = way_back.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    Refusal { reason, work }
}

/// A refusal gives back a closure that nobody can name, not the [`Work`] in
/// it. The carrier puts the work on its way back when that closure is dropped
/// after a refusal, and only then: other drops drop the work at once.
pub(super) struct Carrier {
    work: Option<Work>,
    way_back: Arc<WayBack>,
}

#[derive(Default)]
pub(super) struct WayBack {
    wanted: AtomicBool,
    work: Mutex<Option<Work>>,
}

impl Carrier {
    pub(super) fn load(work: Work) -> (Carrier, Arc<WayBack>) {
        let way_back = Arc::new(WayBack::default());
        (Carrier { work: Some(work), way_back: Arc::clone(&way_back) }, way_back)
    }

    pub(super) fn unload(mut self) -> Work {
        self.work.take().expect("a carrier is unloaded once")
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if self.way_back.wanted.load(SeqCst) {
            *self.way_back.work.lock().unwrap_or_else(PoisonError::into_inner) = self.work.take();
        }
    }
}

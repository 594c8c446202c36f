//! With the feature: spans and events under the target `tidegate`.
//!
//! The level filter of `tracing` is one relaxed load and no user code: everything asks it first.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

use tracing::field::{Empty, debug};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span, event, span};

use super::News;
use crate::core::Core;
use crate::extras;
use crate::frames;
use crate::ids::{TaskId, WorkerId};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::panics::quietly;
use crate::refused::Reason;
use crate::report::Report;
use crate::second::{Admitted, Second};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Lock, per_thread};
use crate::task::Offer;
use crate::unobserved::{Unobserved, UnobservedKind};

const TARGET: &str = "tidegate";

per_thread! {
    /// No subscriber is called: one runs already, or this thread may not run user code.
    static SILENT: Cell<bool> = Cell::new(false);
}

/// Runs `f`, in which nothing is told on this thread.
pub(crate) fn silently<R>(f: impl FnOnce() -> R) -> R {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = SILENT.try_with(|silent| silent.set(self.0));
        }
    }
    let _leave = Leave(SILENT.try_with(|silent| silent.replace(true)).unwrap_or(true));
    f()
}

/// Runs `f`, which calls a subscriber. None: it panicked, or must not be called here.
fn call<R>(core: &Core, f: impl FnOnce() -> R) -> Option<R> {
    if SILENT.try_with(Cell::get).unwrap_or(true) {
        return None;
    }
    let called = quietly(|| silently(|| frames::enter(core.address(), None, f)));
    called.map_err(|panic| count_panic(core, panic)).ok()
}

fn count_panic(core: &Core, panic: crate::panics::Panic) {
    core.ledger.hook_panics.fetch_add(1, Relaxed);
    core.discard(panic);
}

#[inline]
fn is_heard(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// `TimedOut` is `timed_out`, as in the metrics.
fn word(name: impl Debug) -> String {
    let mut word = String::new();
    for c in format!("{name:?}").chars() {
        if c.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.push(c.to_ascii_lowercase());
    }
    word
}

// ---------------------------------------------------------------- spans

/// The span of a task that has a name; none if nobody wants it. Lies in the extras of its
/// cell, beside the closure and not around it, so that a refusal has nothing to take off and
/// an outcome finds it after the captures are gone.
///
/// Behind an `Arc`: copying it under the lock of the extras must not call the subscriber.
#[derive(Debug, Default)]
pub(crate) struct TaskSpan(Option<Arc<Span>>);

impl TaskSpan {
    /// Where the task is submitted: a child of the span that the submitter is in.
    #[inline]
    pub(crate) fn new(core: &Core, offer: &Offer<'_>, id: TaskId) -> TaskSpan {
        if offer.name.is_empty() || !is_heard(Level::INFO) {
            return TaskSpan(None);
        }
        TaskSpan::make(core, offer, id)
    }

    #[cold]
    fn make(core: &Core, offer: &Offer<'_>, id: TaskId) -> TaskSpan {
        let span = call(core, || {
            span!(
                target: TARGET,
                Level::INFO,
                "task",
                pool = &*core.name,
                task = offer.name,
                id = %id,
                external_id = offer.external_id.as_ref().map(display),
                outcome = Empty,
            )
        });
        TaskSpan(span.filter(|span| !span.is_disabled()).map(Arc::new))
    }

    /// That of a task which this thread is about to run, and which nobody can give up yet.
    #[inline]
    pub(crate) fn of(cell: CellRef, name: &str) -> TaskSpan {
        if name.is_empty() || !is_heard(Level::INFO) || !cell.has_extras() {
            return TaskSpan(None);
        }
        TaskSpan(extras::of(cell).and_then(|extras| extras.lock().span.0.clone()))
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// The same span, for one poll of its task.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    pub(crate) fn twin(&self) -> TaskSpan {
        TaskSpan(self.0.clone())
    }

    /// Runs `f`, which does not panic, inside the span. A subscriber that hangs here hangs as
    /// the task's own code would, and the task can be given up.
    #[inline]
    pub(crate) fn around<R>(self, core: &Core, f: impl FnOnce() -> R) -> R {
        let Some(span) = self.0 else { return f() };
        let enter = || span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        let entered = call(core, enter).is_some();
        let result = f();
        if entered {
            call(core, || span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        }
        close(core, span);
        result
    }

    /// The code of its task is over.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    #[inline]
    pub(crate) fn close(self, core: &Core) {
        self.0.into_iter().for_each(|span| close(core, span));
    }

    /// Its task has this outcome, and everybody knows.
    #[inline]
    pub(crate) fn end(self, core: &Core, outcome: impl Debug) {
        if let Some(span) = self.0 {
            call(core, || _ = span.record("outcome", word(outcome).as_str()));
            close(core, span);
        }
    }
}

/// The last one closes the span: of an abandoned task, when its code has returned.
fn close(core: &Core, span: Arc<Span>) {
    // Also where nothing is told: a span has to end. There it is as a capture of the task is.
    let closed = quietly(|| silently(|| frames::enter(core.address(), None, || drop(span))));
    if let Err(panic) = closed {
        count_panic(core, panic);
    }
}

// ---------------------------------------------------------------- events of tasks

pub(crate) fn abandoned(core: &Core, name: &'static str, id: TaskId, cause: Option<Cause>) {
    if is_heard(Level::WARN) {
        let (pool, cause) = (&*core.name, cause.map(word));
        call(core, || {
            event!(
                target: TARGET, Level::WARN, pool, task = name, id = %id, cause,
                "task abandoned: told to stop, it did not return within the grace"
            )
        });
    }
}

pub(crate) fn returned_late(core: &Core, name: &'static str, id: TaskId) {
    if is_heard(Level::INFO) {
        let pool = &*core.name;
        call(core, || {
            event!(
                target: TARGET, Level::INFO, pool, task = name, id = %id,
                "abandoned task returned"
            )
        });
    }
}

/// What comes in floods, and what of it was said in this second.
#[derive(Debug, Default)]
pub(crate) struct Said {
    refusals: Lock<Second>,
    failures: Lock<Second>,
}

/// Some: say it, and how many were left out before it, if any.
fn admit(core: &Core, said: &Lock<Second>) -> Option<Option<u64>> {
    let now = core.clock.now().0;
    match said.lock().admit(now) {
        Admitted::LeaveOut => None,
        Admitted::SayLast | Admitted::Say { left_out: 0 } => Some(None),
        Admitted::Say { left_out } => Some(Some(left_out)),
    }
}

impl Said {
    pub(crate) fn refused(&self, core: &Core, name: &'static str, reason: Reason) {
        if !is_heard(Level::WARN) {
            return;
        }
        let Some(left_out) = admit(core, &self.refusals) else { return };
        let (pool, task, reason) = (&*core.name, name, word(reason));
        call(core, || {
            event!(target: TARGET, Level::WARN, pool, task, reason, left_out, "work refused");
        });
    }

    /// O6, for a pool without a hook of its own. False: nobody wants it, so it must be told
    /// otherwise.
    pub(crate) fn unobserved(&self, core: &Core, what: &Unobserved) -> bool {
        use UnobservedKind as K;
        let is_error =
            matches!(what.kind, K::Failed | K::Panicked | K::CallbackPanicked | K::HookPanicked);
        if !is_heard(if is_error { Level::ERROR } else { Level::WARN }) {
            return false;
        }
        let is_wanted = || match is_error {
            true => tracing::enabled!(target: TARGET, Level::ERROR),
            false => tracing::enabled!(target: TARGET, Level::WARN),
        };
        if call(core, is_wanted) != Some(true) {
            return false;
        }
        // It has its own event, whoever sees it.
        if what.kind == K::Abandoned {
            return true;
        }
        let Some(left_out) = admit(core, &self.failures) else { return true };
        macro_rules! tell {
            ($level:expr) => {
                event!(
                    target: TARGET,
                    $level,
                    pool = &*what.pool,
                    task = what.name,
                    id = what.id.map(display),
                    error = what.message.as_str(),
                    left_out,
                    "unobserved: {}",
                    what.kind
                )
            };
        }
        let told = call(core, || if is_error { tell!(Level::ERROR) } else { tell!(Level::WARN) });
        told.is_some()
    }

    fn take_left_out(&self) -> [(&'static str, u64); 2] {
        let count = |said: &Lock<Second>| said.lock().take_left_out();
        [("refusals", count(&self.refusals)), ("failures", count(&self.failures))]
    }
}

// ---------------------------------------------------------------- events of the pool

/// True if somebody has heard it.
pub(crate) fn worker_failed(core: &Core, worker: WorkerId, cause: &str) -> bool {
    let tell = || {
        if !tracing::enabled!(target: TARGET, Level::WARN) {
            return false;
        }
        let (pool, worker) = (&*core.name, worker.index());
        event!(target: TARGET, Level::WARN, pool, worker, cause, "worker could not start");
        true
    };
    is_heard(Level::WARN) && call(core, tell) == Some(true)
}

/// Whether somebody may want to hear what goes wrong.
pub(crate) fn listens() -> bool {
    is_heard(Level::WARN)
}

/// Whether to bother the reaper with it.
pub(crate) fn listens_to(news: &News) -> bool {
    is_heard(match news {
        News::Resized { .. } => Level::DEBUG,
        _ => Level::WARN,
    })
}

pub(crate) fn tell(core: &Core, news: News) {
    let pool = &*core.name;
    call(core, || match news {
        News::WorkerRestarted(worker) => {
            let worker = worker.index();
            event!(target: TARGET, Level::WARN, pool, worker, "worker restarted");
        }
        News::Resized { from, to } => {
            event!(target: TARGET, Level::DEBUG, pool, from, to, "pool resized");
        }
        News::ShutdownBegun { mode, deadline } => {
            let deadline = deadline.map(debug);
            event!(target: TARGET, Level::INFO, pool, mode = %mode, deadline, "shutdown begun");
        }
        News::ShutdownEscalated { mode, deadline, late } => {
            let deadline = deadline.map(debug);
            event!(
                target: TARGET, Level::INFO, pool, mode = %mode, deadline, late,
                "shutdown escalated"
            );
        }
        News::ShutdownEnded(report) => tell_end(core, &report),
    });
}

fn tell_end(core: &Core, report: &Report) {
    let pool = &*core.name;
    for (what, left_out) in core.said.take_left_out().into_iter().filter(|(_, count)| *count > 0) {
        event!(target: TARGET, Level::WARN, pool, left_out, "more {what}, only counted");
    }
    macro_rules! tell {
        ($level:expr, $end:literal) => {
            event!(
                target: TARGET,
                $level,
                pool,
                mode = %report.mode,
                duration = ?report.duration,
                in_time = report.in_time,
                complete = report.complete,
                completed = report.completed,
                failed = report.failed,
                panicked = report.panicked,
                timed_out = report.timed_out,
                cancelled = report.cancelled,
                evicted = report.evicted,
                abandoned = report.abandoned,
                still_running = report.still_running.len(),
                still_borrowing = report.still_borrowing.len(),
                workers_lost = report.workers_lost,
                $end
            )
        };
    }
    match report.is_success() {
        true => tell!(Level::INFO, "shutdown finished"),
        false => tell!(Level::WARN, "shutdown finished, but not everything ended in time"),
    }
}

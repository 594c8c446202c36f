//! What is measured. Each workload checks its answers before it returns its
//! figures.

pub(crate) mod cancel_storm;
pub(crate) mod efficiency;
pub(crate) mod fire_and_forget;
pub(crate) mod raw;
pub(crate) mod slice;

mod allocations;
mod flatness;
mod futures;
mod handles;
mod idle;
mod latency;
mod limits;
mod stranding;

use std::thread;
use std::time::Duration;

use crate::contenders::Contender;
use crate::contenders::future_pool::FuturePool;
use crate::figures::Figure;
use crate::process;

/// Queue bound of every pool.
const QUEUE: usize = 1_000;

#[derive(Clone, Copy)]
pub(crate) enum Workload {
    FireAndForget { workers: usize, producers: u64 },
    Handles,
    Limits { body: Body, token: TokenOf },
    Latency { gap: Duration, samples: u64 },
    Slice,
    Iterator,
    Efficiency,
    IdleCpu,
    IdleMemory,
    Allocations,
    Stranding,
    Flatness,
    CancelStorm,
    FuturesForgotten(Shape),
    FuturesByHandle(Shape),
    FuturesWithLimits,
    Raw,
}

/// How long the tasks with limits are.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Short,
    Long,
}

/// Who can cancel the tasks with limits.
#[derive(Clone, Copy)]
pub(crate) enum TokenOf {
    Each,
    All,
}

/// What the futures do before they are ready.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Ready,
    YieldsOnce,
}

/// Where the producer of a pool of futures is.
#[derive(Clone, Copy)]
pub(crate) enum Position {
    /// A task of the runtime.
    Inside,
    /// A plain thread.
    Outside,
}

use Workload::*;

/// The names are those of the project's list of workloads; the part before
/// the dash is what `compare --only` selects by.
#[rustfmt::skip] // a table: one line each
pub(crate) const ALL: &[(&str, Workload)] = &[
    ("W1-2w1p", FireAndForget { workers: 2, producers: 1 }),
    ("W1-2w4p", FireAndForget { workers: 2, producers: 4 }),
    ("W1-8w1p", FireAndForget { workers: 8, producers: 1 }),
    ("W2", Handles),
    ("W3-short", Limits { body: Body::Short, token: TokenOf::Each }),
    ("W3-long", Limits { body: Body::Long, token: TokenOf::Each }),
    ("W3t", Limits { body: Body::Short, token: TokenOf::All }),
    ("W4-back", Latency { gap: Duration::ZERO, samples: 20_000 }),
    ("W4-gap100", Latency { gap: Duration::from_micros(100), samples: 3_000 }),
    ("W4-gap1000", Latency { gap: Duration::from_micros(1_000), samples: 400 }),
    ("W5", Slice),
    ("W5i", Iterator),
    ("W6", Efficiency),
    ("W7", IdleCpu),
    ("A", Allocations),
    ("M", IdleMemory),
    ("S", Stranding),
    ("F", Flatness),
    ("C", CancelStorm),
    ("W1a-ready", FuturesForgotten(Shape::Ready)),
    ("W1a-yield", FuturesForgotten(Shape::YieldsOnce)),
    ("W2a-ready", FuturesByHandle(Shape::Ready)),
    ("W2a-yield", FuturesByHandle(Shape::YieldsOnce)),
    ("W3a", FuturesWithLimits),
    ("raw", Raw),
];

impl Workload {
    pub(crate) fn named(name: &str) -> Option<Workload> {
        let (_, workload) = ALL.iter().find(|(known, _)| *known == name)?;
        Some(*workload)
    }

    pub(crate) fn is_about_futures(self) -> bool {
        matches!(self, FuturesForgotten(_) | FuturesByHandle(_) | FuturesWithLimits)
    }

    /// `None` if the contender does not offer what this asks for.
    pub(crate) fn on_threads<C: Contender>(self) -> Option<Vec<Figure>> {
        match self {
            FireAndForget { workers, producers } => {
                Some(fire_and_forget::run::<C>(workers, producers))
            }
            Handles => Some(handles::run::<C>()),
            Limits { body, token } => limits::run::<C>(body, token),
            Latency { gap, samples } => Some(latency::run::<C>(gap, in_time(gap, samples))),
            Slice => Some(slice::run::<C>()),
            Iterator => Some(handles::run_map::<C>()),
            Efficiency => Some(efficiency::run::<C>()),
            IdleCpu => Some(idle::cpu::<C>()),
            IdleMemory => Some(idle::memory::<C>()),
            Allocations => Some(allocations::run::<C>()),
            Stranding => Some(stranding::run::<C>()),
            Flatness => Some(flatness::run::<C>()),
            CancelStorm | Raw => None,
            FuturesForgotten(_) | FuturesByHandle(_) | FuturesWithLimits => None,
        }
    }

    /// The same with a pool of futures, for the workloads in which it makes a
    /// difference where the producer is: closures are futures that are ready.
    pub(crate) fn on_runtime<P: FuturePool>(self, position: Position) -> Option<Vec<Figure>> {
        match self {
            FireAndForget { workers, producers: 1 } => {
                Some(futures::fire_and_forget::<P>(position, workers, Shape::Ready))
            }
            Handles => Some(futures::by_handle::<P>(position, Shape::Ready)),
            Limits { body, token } => futures::with_limits::<P>(position, body, token),
            Latency { gap, samples } => {
                Some(futures::latency::<P>(position, gap, in_time(gap, samples)))
            }
            FuturesForgotten(shape) => Some(futures::fire_and_forget::<P>(position, 2, shape)),
            FuturesByHandle(shape) => Some(futures::by_handle::<P>(position, shape)),
            FuturesWithLimits => futures::with_limits::<P>(position, Body::Short, TokenOf::Each),
            _ => None,
        }
    }
}

/// Half of the samples, when time is short and most of it goes into gaps.
fn in_time(gap: Duration, samples: u64) -> u64 {
    if process::is_quick() && !gap.is_zero() { samples / 2 } else { samples }
}

/// A pool whose threads have started and found nothing to do.
fn idle_pool<C: Contender>(workers: usize) -> C {
    let pool = C::new(workers, QUEUE);
    thread::sleep(Duration::from_millis(5));
    pool
}

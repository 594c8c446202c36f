//! The pools that are measured, each behind a small trait: [`Contender`] for
//! pools that take closures from threads, [`FuturePool`] for those that live
//! on a runtime.

pub(crate) mod bare_threads;
pub(crate) mod future_pool;

mod async_channel;
mod book;
mod by_oneshot;
mod channel_pool;
mod crossbeam;
mod crossfire;
mod executors;
mod flume;
mod kanal;
mod machine;
mod no_alloc;
mod rayon;
mod rayon_one;
mod rusty_pool;
mod threadpool;
mod tidegate;
mod tidegate_async;
mod tidegate_helping;
mod tokio_blocking;
mod tokio_sem;
mod tokio_spawn;

use std::fmt;
use std::ops::Range;

use crate::body::HalvedTask;
use crate::figures::Figure;
use crate::workloads::{Position, Workload, cancel_storm};
use future_pool::{FuturePool, Outside};

/// A pool of a fixed number of threads with a bounded queue.
///
/// Generic methods, not trait objects: a contender that stores closures
/// inline must not be made to box them by the benchmark.
pub(crate) trait Contender: Send + Sync + Sized + 'static {
    type Handle<T: Send + 'static>;

    fn new(workers: usize, queue: usize) -> Self;

    /// Fire and forget. Waits while the queue is full.
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F);

    /// Result by handle. Waits while the queue is full.
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static;

    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T;

    /// With a timeout and a cancellation of its own, looked at between the
    /// halves; `None` without such limits.
    fn submit_limited(&self, _task: HalvedTask) -> Option<Self::Handle<u64>> {
        None
    }

    /// With a timeout and a token that all tasks share; `None` without such limits.
    fn submit_with_token(&self, _task: HalvedTask) -> Option<Self::Handle<u64>> {
        None
    }

    /// The short task for each item, in one call; `None` if each has to be a
    /// task that is spawned.
    fn map_slice(&self, _items: &[u64]) -> Option<Vec<u64>> {
        None
    }

    /// The sum of the short tasks for all items of an iterator, each a task;
    /// `None` if they have to be submitted one by one.
    fn map(&self, _items: Range<u64>) -> Option<u64> {
        None
    }

    /// Ends the pool once its tasks are done.
    fn join(self);
}

/// What a contender counts as when bars are judged.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Ours,
    /// What somebody would use instead.
    Peer,
    /// Shows what is possible; nobody would use it.
    Reference,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Ours => "ours",
            Role::Peer => "peer",
            Role::Reference => "reference",
        })
    }
}

/// Runs a workload; `None` if the contender does not offer what it asks for.
type Run = fn(Workload) -> Option<Vec<Figure>>;

/// A name that ends with `_inside` is fed by a task of its runtime.
#[rustfmt::skip] // a table: one line each
pub(crate) const ALL: &[(&str, Role, Run)] = &[
    ("tidegate", Role::Ours, tidegate),
    ("tidegate_helping", Role::Ours, threads::<tidegate_helping::TidegateHelping>),
    ("tidegate_async", Role::Ours, outside::<tidegate_async::TidegateAsyncBlocking>),
    ("tidegate_async_inside", Role::Ours, inside::<tidegate_async::TidegateAsync>),
    ("crossbeam", Role::Peer, threads::<crossbeam::Crossbeam>),
    ("kanal", Role::Peer, threads::<kanal::Kanal>),
    ("crossfire", Role::Peer, threads::<crossfire::Crossfire>),
    ("flume", Role::Peer, threads::<flume::Flume>),
    ("book", Role::Peer, threads::<book::Book>),
    ("rayon", Role::Peer, threads::<rayon::Rayon>),
    ("rayon_one", Role::Peer, rayon_one::run),
    ("threadpool", Role::Peer, threads::<threadpool::Threadpool>),
    ("rusty_pool", Role::Peer, threads::<rusty_pool::RustyPool>),
    ("executors", Role::Peer, threads::<executors::Executors>),
    ("tokio_spawn", Role::Peer, outside::<tokio_spawn::TokioSpawn>),
    ("tokio_spawn_inside", Role::Peer, inside::<tokio_spawn::TokioSpawn>),
    ("tokio_sem", Role::Peer, outside::<tokio_sem::TokioSem>),
    ("tokio_sem_inside", Role::Peer, inside::<tokio_sem::TokioSem>),
    ("tokio_blocking", Role::Peer, blocking_outside),
    ("tokio_blocking_inside", Role::Peer, blocking_inside),
    ("async_channel", Role::Peer, outside::<async_channel::AsyncChannel>),
    ("async_channel_inside", Role::Peer, inside::<async_channel::AsyncChannel>),
    ("no_alloc", Role::Reference, threads::<no_alloc::NoAlloc>),
    ("bare_threads", Role::Reference, bare_threads::run),
    ("machine", Role::Reference, machine::run),
];

pub(crate) fn named(name: &str) -> Option<Run> {
    let (.., run) = ALL.iter().find(|(known, ..)| *known == name)?;
    Some(*run)
}

fn tidegate(workload: Workload) -> Option<Vec<Figure>> {
    match workload {
        // It counts what only our pools can be asked: cancels by handle, and
        // the pool's own numbers.
        Workload::CancelStorm => Some(cancel_storm::run()),
        _ => workload.on_threads::<tidegate::Tidegate>(),
    }
}

fn threads<C: Contender>(workload: Workload) -> Option<Vec<Figure>> {
    workload.on_threads::<C>()
}

fn outside<P: FuturePool>(workload: Workload) -> Option<Vec<Figure>> {
    if workload.is_about_futures() {
        workload.on_runtime::<P>(Position::Outside)
    } else {
        workload.on_threads::<Outside<P>>()
    }
}

fn inside<P: FuturePool>(workload: Workload) -> Option<Vec<Figure>> {
    workload.on_runtime::<P>(Position::Inside)
}

fn blocking_outside(workload: Workload) -> Option<Vec<Figure>> {
    match workload {
        // Its threads come with the first tasks: there is nothing to weigh.
        Workload::IdleMemory => None,
        _ => workload.on_threads::<Outside<tokio_blocking::TokioBlocking>>(),
    }
}

fn blocking_inside(workload: Workload) -> Option<Vec<Figure>> {
    if workload.is_about_futures() {
        return None;
    }
    workload.on_runtime::<tokio_blocking::TokioBlocking>(Position::Inside)
}

//! The pools that are measured, each behind the same small trait.

mod channel_pool;
mod crossbeam;
mod crossfire;
mod kanal;
mod rayon;
mod tidegate;
mod tidegate_helping;

use crate::figures::Figure;
use crate::workloads::Workload;

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

    /// Ends the pool once its tasks are done.
    fn join(self);
}

/// One line per contender gives it a name on the command line. Names that
/// begin with `tidegate` are ours, all others count as peers.
macro_rules! contenders {
    ($($name:literal => $contender:ty,)*) => {
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        /// `None` when there is no contender of that name.
        pub(crate) fn run(name: &str, workload: Workload) -> Option<Vec<Figure>> {
            match name {
                $($name => Some(workload.run::<$contender>()),)*
                _ => None,
            }
        }
    };
}

contenders! {
    "tidegate" => tidegate::Tidegate,
    "tidegate_helping" => tidegate_helping::TidegateHelping,
    "crossbeam" => crossbeam::Crossbeam,
    "kanal" => kanal::Kanal,
    "crossfire" => crossfire::Crossfire,
    "rayon" => rayon::Rayon,
}

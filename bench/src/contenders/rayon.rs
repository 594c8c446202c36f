//! `rayon`'s own pool, fed through `spawn_fifo` from outside.
//!
//! It has no bounded queue: it never makes a producer wait, and pays with
//! memory instead.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::Contender;
use super::by_oneshot::results_by_oneshot;
use crate::body::ShortTask;

pub(crate) struct Rayon {
    pool: ThreadPool,
}

impl Contender for Rayon {
    results_by_oneshot!();

    fn new(workers: usize, _queue: usize) -> Self {
        let pool = ThreadPoolBuilder::new()
            .num_threads(workers)
            .build()
            .expect("the system has threads left");
        Rayon { pool }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.pool.spawn_fifo(task);
    }

    /// Its default splitting: pieces of many items, halved when somebody is idle.
    fn map_slice(&self, items: &[u64]) -> Option<Vec<u64>> {
        let results = items.par_iter().map(|item| ShortTask::new(*item).run());
        Some(self.pool.install(|| results.collect()))
    }

    fn join(self) {
        // Dropping a rayon pool asks its threads to end; there is no join.
        drop(self.pool);
    }
}

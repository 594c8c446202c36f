//! The `executors` crate: of its pools the one that it recommends for work
//! from outside, over a crossbeam channel without a bound.

use executors::Executor;
use executors::crossbeam_channel_pool::ThreadPool;

use super::Contender;
use super::by_oneshot::results_by_oneshot;

pub(crate) struct Executors {
    pool: ThreadPool,
}

impl Contender for Executors {
    results_by_oneshot!();

    fn new(workers: usize, _queue: usize) -> Self {
        Executors { pool: ThreadPool::new(workers) }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.pool.execute(task);
    }

    fn join(self) {
        self.pool.shutdown().expect("the pool was not shut down before");
    }
}

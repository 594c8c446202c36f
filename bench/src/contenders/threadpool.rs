//! The `threadpool` crate. Its queue has no bound.

use threadpool::ThreadPool;

use super::Contender;
use super::by_oneshot::results_by_oneshot;

pub(crate) struct Threadpool {
    pool: ThreadPool,
}

impl Contender for Threadpool {
    results_by_oneshot!();

    fn new(workers: usize, _queue: usize) -> Self {
        Threadpool { pool: ThreadPool::new(workers) }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.pool.execute(task);
    }

    fn join(self) {
        self.pool.join();
    }
}

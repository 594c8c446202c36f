//! The `executors` crate: of its pools the one that it recommends for work
//! from outside, over a crossbeam channel without a bound.

use executors::Executor;
use executors::crossbeam_channel_pool::ThreadPool;

use super::Contender;
use super::with_result::with_result;

pub(crate) struct Executors {
    pool: ThreadPool,
}

impl Contender for Executors {
    type Handle<T: Send + 'static> = oneshot::Receiver<T>;

    fn new(workers: usize, _queue: usize) -> Self {
        Executors { pool: ThreadPool::new(workers) }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.pool.execute(task);
    }

    #[inline]
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (task, handle) = with_result(task);
        self.pool.execute(task);
        handle
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.recv().expect("a benchmark task does not panic")
    }

    fn join(self) {
        self.pool.shutdown().expect("the pool was not shut down before");
    }
}

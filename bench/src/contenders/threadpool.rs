//! The `threadpool` crate. Its queue has no bound.

use threadpool::ThreadPool;

use super::Contender;
use super::with_result::with_result;

pub(crate) struct Threadpool {
    pool: ThreadPool,
}

impl Contender for Threadpool {
    type Handle<T: Send + 'static> = oneshot::Receiver<T>;

    fn new(workers: usize, _queue: usize) -> Self {
        Threadpool { pool: ThreadPool::new(workers) }
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
        self.pool.join();
    }
}

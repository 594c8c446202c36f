//! The `rusty_pool` crate, with its own handles. Its queue has no bound.

use rusty_pool::{Builder, JoinHandle, ThreadPool};

use super::Contender;

pub(crate) struct RustyPool {
    pool: ThreadPool,
}

impl Contender for RustyPool {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn new(workers: usize, _queue: usize) -> Self {
        let pool = Builder::new().core_size(workers).max_size(workers).build();
        // It would start them with the first tasks.
        pool.start_core_threads();
        RustyPool { pool }
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
        self.pool.evaluate(task)
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        handle.await_complete()
    }

    fn join(self) {
        self.pool.shutdown_join();
    }
}

//! The `threadpool` crate. Its queue has no bound.

use threadpool::ThreadPool;

use super::Contender;

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
        let (result, handle) = oneshot::channel();
        self.pool.execute(move || {
            // Fails when the handle was dropped: then nobody wants the result.
            let _ = result.send(task());
        });
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

//! tidegate with its defaults.

use tidegate::{Builder, Handle, Pool, Shutdown};

use super::Contender;

pub(crate) struct Tidegate {
    pool: Pool,
}

impl Tidegate {
    /// For contenders that switch something on.
    pub(super) fn from_builder(builder: Builder, workers: usize, queue: usize) -> Self {
        let pool = builder
            .workers(workers)
            .queue(queue)
            .build()
            .expect("the configuration is valid and the system has threads left");
        Tidegate { pool }
    }
}

impl Contender for Tidegate {
    type Handle<T: Send + 'static> = Handle<T>;

    fn new(workers: usize, queue: usize) -> Self {
        Tidegate::from_builder(Pool::builder("bench"), workers, queue)
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        if let Err(refused) = self.pool.spawn(task) {
            panic!("an open pool refused a task: {:?}", refused.reason());
        }
    }

    #[inline]
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match self.pool.submit(task) {
            Ok(handle) => handle,
            Err(refused) => panic!("an open pool refused a task: {:?}", refused.reason()),
        }
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        match handle.wait() {
            Ok(result) => result,
            Err(_) => panic!("a benchmark task neither panics nor is cancelled"),
        }
    }

    fn join(self) {
        let report = self
            .pool
            .shutdown(Shutdown::light())
            .expect("shutdown is called from outside the pool");
        assert!(report.complete, "a worker was left behind");
    }
}

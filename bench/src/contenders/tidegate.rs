//! tidegate with its defaults.

use std::ops::Range;

use tidegate::{Builder, Cx, Handle, Pool, Refused, Shutdown, Token};

use super::Contender;
use super::future_pool::TIMEOUT;
use crate::body::{HalvedTask, ShortTask};

pub(crate) struct Tidegate {
    pool: Pool,
    /// For the workload in which all tasks share one.
    token: Token,
}

impl Tidegate {
    /// For contenders that switch something on.
    pub(super) fn from_builder(builder: Builder, workers: usize, queue: usize) -> Self {
        let pool = builder
            .workers(workers)
            .queue(queue)
            .build()
            .expect("the configuration is valid and the system has threads left");
        Tidegate { pool, token: Token::new() }
    }
}

impl Contender for Tidegate {
    type Handle<T: Send + 'static> = Handle<T>;

    fn new(workers: usize, queue: usize) -> Self {
        Tidegate::from_builder(Pool::builder("bench"), workers, queue)
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        accepted(self.pool.spawn(task));
    }

    #[inline]
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        accepted(self.pool.submit(task))
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        match handle.wait() {
            Ok(result) => result,
            Err(error) => panic!("a benchmark task neither panics nor is cancelled: {error}"),
        }
    }

    #[inline]
    fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.pool.task("limited").timeout(TIMEOUT);
        Some(accepted(described.submit(move |cx| unless_stopped(task, cx))))
    }

    #[inline]
    fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        let described = self.pool.task("limited").timeout(TIMEOUT).cancel_with(&self.token);
        Some(accepted(described.submit(move |cx| unless_stopped(task, cx))))
    }

    fn map_slice(&self, items: &[u64]) -> Option<Vec<u64>> {
        let results = self.pool.map_slice(items, |item| ShortTask::new(*item).run());
        Some(results.expect("no item panics and the pool is open"))
    }

    fn map(&self, items: Range<u64>) -> Option<u64> {
        let results = self.pool.map(items, |item| ShortTask::new(item).run());
        let add = |sum: u64, result: Result<u64, _>| match result {
            Ok(result) => sum.wrapping_add(result),
            Err(_) => panic!("no item panics and the pool is open"),
        };
        Some(results.fold(0, add))
    }

    fn join(self) {
        let report = self
            .pool
            .shutdown(Shutdown::light())
            .expect("shutdown is called from outside the pool");
        assert!(report.complete, "a worker was left behind");
    }
}

#[inline(always)]
fn unless_stopped(task: HalvedTask, cx: &Cx) -> u64 {
    let half = task.first();
    if cx.stopping() { 0 } else { task.second(half) }
}

/// A pool that is open and waits for room takes everything.
pub(super) fn accepted<T, F>(offer: Result<T, Refused<F>>) -> T {
    match offer {
        Ok(accepted) => accepted,
        Err(refused) => panic!("an open pool refused a task: {:?}", refused.reason()),
    }
}

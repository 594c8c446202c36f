//! tidegate whose waiters may run their own task while it is still queued.

use std::ops::Range;

use tidegate::{Handle, Pool};

use super::Contender;
use super::tidegate::Tidegate;
use crate::body::HalvedTask;

pub(crate) struct TidegateHelping(Tidegate);

impl Contender for TidegateHelping {
    type Handle<T: Send + 'static> = Handle<T>;

    fn new(workers: usize, queue: usize) -> Self {
        let builder = Pool::builder("bench").callers_may_help(true);
        TidegateHelping(Tidegate::from_builder(builder, workers, queue))
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.spawn(task);
    }

    #[inline]
    fn submit<T, F>(&self, task: F) -> Self::Handle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.0.submit(task)
    }

    #[inline]
    fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
        self.0.wait(handle)
    }

    #[inline]
    fn submit_limited(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        self.0.submit_limited(task)
    }

    #[inline]
    fn submit_with_token(&self, task: HalvedTask) -> Option<Self::Handle<u64>> {
        self.0.submit_with_token(task)
    }

    fn map_slice(&self, items: &[u64]) -> Option<Vec<u64>> {
        self.0.map_slice(items)
    }

    fn map(&self, items: Range<u64>) -> Option<u64> {
        self.0.map(items)
    }

    fn join(self) {
        self.0.join();
    }
}

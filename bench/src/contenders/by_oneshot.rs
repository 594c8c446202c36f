//! Results for pools that know closures without results only: the part of a
//! [`Contender`](super::Contender) that is the same for all of them.

macro_rules! results_by_oneshot {
    () => {
        type Handle<T: Send + 'static> = oneshot::Receiver<T>;

        #[inline]
        fn submit<T, F>(&self, task: F) -> Self::Handle<T>
        where
            T: Send + 'static,
            F: FnOnce() -> T + Send + 'static,
        {
            let (result, handle) = oneshot::channel();
            self.spawn(move || {
                // Fails when the handle was dropped: then nobody wants the result.
                let _ = result.send(task());
            });
            handle
        }

        #[inline]
        fn wait<T: Send + 'static>(&self, handle: Self::Handle<T>) -> T {
            handle.recv().expect("a benchmark task does not panic")
        }
    };
}
pub(super) use results_by_oneshot;

//! Results for pools that know closures without results only.

/// The closure to run, and where its result will be.
#[inline]
pub(super) fn with_result<T, F>(task: F) -> (impl FnOnce() + Send + 'static, oneshot::Receiver<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (result, handle) = oneshot::channel();
    let run = move || {
        // Fails when the handle was dropped: then nobody wants the result.
        let _ = result.send(task());
    };
    (run, handle)
}

//! What the tests of pools of futures share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use tidegate::{AsyncPool, Builder};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// As a hang detector only.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn runtimes() -> [(&'static str, Runtime); 2] {
    let current = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let multi = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    [("current-thread", current), ("multi-thread", multi)]
}

/// On both flavours.
pub(crate) fn on_each<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        runtime.block_on(async { timeout(LONG, test()).await.expect("it hangs") });
    }
}

pub(crate) fn quiet(name: &str) -> Builder {
    AsyncPool::builder(name).on_unobserved(|_| ())
}

/// Counts its drops.
#[derive(Clone, Default)]
pub(crate) struct Drops(pub(crate) Arc<AtomicUsize>);
impl Drop for Drops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) async fn next<S: Stream + ?Sized>(mut stream: Pin<&mut S>) -> Option<S::Item> {
    std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

//! Futures of every size: small ones lie in their cell until they begin, larger ones in a box.
//! Whatever becomes of them, they are dropped once, and are where they were when they are polled.

use std::future::{Future, poll_fn};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};

use tidegate::{Reason, Shutdown, TaskError};
use tokio::sync::Notify;

use crate::kit::*;

/// Must not move once it was polled, and is ready at its second poll.
struct Stays<P> {
    payload: P,
    polled_at: usize,
    counted: Drops,
    _pinned: PhantomPinned,
}

impl<P: Send> Future for Stays<P> {
    type Output = usize;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let here = std::ptr::from_ref(&self.payload).addr();
        assert_eq!(here % align_of::<P>(), 0, "it lies where it can't be");
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.polled_at == 0 {
            this.polled_at = here;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        assert_eq!(this.polled_at, here, "it was moved after it was polled");
        Poll::Ready(size_of::<P>())
    }
}

fn stays<P>(payload: P) -> (Stays<P>, Drops) {
    let drops = Drops::default();
    let counted = drops.clone();
    (Stays { payload, polled_at: 0, counted, _pinned: PhantomPinned }, drops)
}

#[track_caller]
fn is_gone(drops: &Drops, how: &str) {
    assert_eq!(drops.0.load(SeqCst), 1, "{how}");
    assert_eq!(Arc::strong_count(&drops.0), 1, "{how}: it was copied");
}

async fn ends_every_way<P: Send + Copy + 'static>(payload: P) {
    let size = size_of::<P>();
    println!("{size} bytes, {} in all", size_of::<Stays<P>>());
    let pool = quiet("sizes").workers(1).queue(1).build_async().unwrap();
    let (future, drops) = stays(payload);
    assert_eq!(pool.submit(future).await.unwrap().await.unwrap(), size);
    is_gone(&drops, "completed");

    let (captured, drops) = stays(payload);
    let task = pool.task("t").submit(move |_| async move {
        let captured = captured;
        drop(captured.counted.clone()); // not this one
        captured.await
    });
    assert_eq!(task.await.unwrap().await.unwrap(), size);
    assert_eq!(drops.0.load(SeqCst), 2, "of a closure");

    let (captured, drops) = stays(payload);
    let task = pool.task("t").submit(move |_| {
        let _captured = captured;
        assert!(size == usize::MAX, "no future at all");
        async {}
    });
    assert!(matches!(task.await.unwrap().await, Err(TaskError::Panicked(_))));
    is_gone(&drops, "panicked before there was a future");

    let gate = Arc::new(Notify::new());
    let hold = Arc::clone(&gate);
    let running = pool.submit(async move { hold.notified().await }).await.unwrap();
    while pool.snapshot().running == 0 {
        tokio::task::yield_now().await;
    }
    let (future, drops) = stays(payload);
    let queued = pool.try_submit(future).unwrap();
    let (future, refused) = stays(payload);
    let back = pool.try_submit(future).unwrap_err();
    assert_eq!(back.reason(), Reason::Full);
    assert_eq!(back.into_work().await, size, "it comes back as it was");
    is_gone(&refused, "refused");
    let (future, waits) = stays(payload);
    {
        let mut submission = Box::pin(pool.submit(future));
        assert!(poll_once(submission.as_mut()).is_pending());
        assert_eq!(waits.0.load(SeqCst), 0);
    }
    is_gone(&waits, "dropped while it waits for room");
    queued.cancel();
    is_gone(&drops, "cancelled in the queue");
    assert!(queued.await.unwrap_err().is_cancelled());
    gate.notify_one();
    running.await.unwrap();

    let (future, drops) = stays(payload);
    let mut future = Some(Box::pin(future));
    let task = pool.submit(poll_fn(move |cx| {
        let _ = future.as_mut().unwrap().as_mut().poll(cx);
        future.take();
        assert!(size == usize::MAX, "in its first poll");
        Poll::<()>::Pending
    }));
    assert!(matches!(task.await.unwrap().await, Err(TaskError::Panicked(_))));
    is_gone(&drops, "panicked in its first poll");
    pool.shutdown(Shutdown::default()).await.unwrap();
    pool.assert_drained();
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned(#[allow(dead_code, reason = "for its place")] u8);

#[test]
fn futures_of_every_size_end_every_way_and_are_dropped_once() {
    on_each(|| async {
        ends_every_way(()).await;
        ends_every_way([1_u8; 23]).await;
        ends_every_way([1_u8; 24]).await; // 40 bytes in all: the last that fits
        ends_every_way([1_u8; 25]).await;
        ends_every_way([1_u64; 1_000]).await;
        ends_every_way(1_u128).await; // small, and aligned as no cell is
        ends_every_way(Aligned(1)).await;
    });
}

/// There is nothing to move.
#[test]
fn a_future_without_a_size_is_run() {
    on_each(|| async {
        let pool = quiet("nothing").workers(1).build_async().unwrap();
        let nothing = std::future::ready(());
        assert_eq!(pool.submit(async { 5 }).await.unwrap().await.unwrap(), 5);
        pool.submit(nothing).await.unwrap().await.unwrap();
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

//! Groups, maps and streams of futures.
#![cfg(feature = "tokio")]

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use tidegate::{AsyncPool, Reason, Shutdown, TaskError};
use tokio::sync::Notify;

mod async_kit;
use async_kit::*;

#[test]
fn the_first_failure_of_a_group_drops_the_rest() {
    on_each(|| async {
        let pool = quiet("group").workers(4).build_async().unwrap();
        let group = pool.group().limit(3).start::<&str>();
        let drops = Drops::default();
        for _ in 0..2 {
            let counted = drops.clone();
            let task = async move {
                let _counted = counted;
                pending().await
            };
            group.submit(task).await.unwrap();
        }
        group.submit(async { Err("first") }).await.unwrap();
        let error = group.wait().await.unwrap_err();
        assert!(matches!(error.first(), Some(TaskError::Failed("first"))));
        assert_eq!(drops.0.load(SeqCst), 2);
        let refused = group.submit(async { Ok(()) }).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::Cancelled, "the group is over");
    });
}

#[test]
fn hazard_68_a_submission_that_waits_for_a_slot_and_is_dropped_holds_none() {
    on_each(|| async {
        let pool = quiet("slots").workers(4).build_async().unwrap();
        let group = pool.group().limit(1).start::<()>();
        let gate = Arc::new(Notify::new());
        let hold = Arc::clone(&gate);
        let first = async move {
            hold.notified().await;
            Ok(())
        };
        group.submit(first).await.unwrap();
        assert_eq!(group.try_submit(async { Ok(()) }).unwrap_err().reason(), Reason::Full);
        {
            let mut waits = pin!(group.submit(async { Ok(()) }));
            assert!(poll_once(waits.as_mut()).is_pending());
        }
        assert_eq!(group.unsettled(), 1);
        {
            let mut wait = pin!(group.wait());
            assert!(poll_once(wait.as_mut()).is_pending());
        }
        gate.notify_one();
        group.submit(async { Ok(()) }).await.unwrap();
        group.wait().await.unwrap();
        assert_eq!(group.unsettled(), 0);
    });
}

/// Fork and join on one worker, deeper than the queue is long.
#[test]
fn groups_fork_and_join_inside_the_pool() {
    fn sum(
        pool: AsyncPool,
        from: u64,
        to: u64,
    ) -> std::pin::Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if to - from == 1 {
                return from;
            }
            let total = Arc::new(std::sync::atomic::AtomicU64::new(0));
            let group = pool.group().start::<()>();
            for (from, to) in [(from, (from + to) / 2), ((from + to) / 2, to)] {
                let (pool, total) = (pool.clone(), Arc::clone(&total));
                let half = async move {
                    total.fetch_add(sum(pool, from, to).await, SeqCst);
                    Ok(())
                };
                group.submit(half).await.unwrap();
            }
            group.wait().await.unwrap();
            total.load(SeqCst)
        })
    }
    on_each(|| async {
        for workers in [1, 8] {
            let pool = quiet("tree").workers(workers).queue(2).build_async().unwrap();
            let task = pool.submit(sum(pool.clone(), 0, 200)).await.unwrap();
            assert_eq!(task.await.unwrap(), 19_900);
            pool.shutdown(Shutdown::default()).await.unwrap();
            pool.snapshot().check().unwrap();
        }
    });
}

/// Counts what was pulled of it.
struct Numbers(Arc<AtomicUsize>, usize);
impl futures_core::Stream for Numbers {
    type Item = usize;
    fn poll_next(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<usize>> {
        let n = self.0.fetch_add(1, SeqCst);
        Poll::Ready((n < self.1).then_some(n))
    }
}

#[test]
fn a_map_keeps_its_order_and_holds_its_source_back() {
    on_each(|| async {
        let pool = quiet("map").workers(4).queue(2).build_async().unwrap();
        let pulled = Arc::new(AtomicUsize::new(0));
        let numbers = Numbers(Arc::clone(&pulled), 100);
        let mut squares = pin!(pool.map(numbers, 3, |n| async move {
            if n % 2 == 0 {
                tokio::task::yield_now().await;
            }
            Ok::<_, ()>(n * n)
        }));
        for n in 0..100 {
            assert_eq!(next(squares.as_mut()).await.unwrap().unwrap(), n * n);
            assert!(pulled.load(SeqCst) <= n + 5, "{} pulled at {n}", pulled.load(SeqCst));
        }
        assert!(next(squares.as_mut()).await.is_none());
        let mut fails = pin!(pool.map(Numbers(Arc::default(), 100), 4, |n| async move {
            if n == 3 { Err("three") } else { Ok(n) }
        }));
        for n in 0..3 {
            assert_eq!(next(fails.as_mut()).await.unwrap().unwrap(), n);
        }
        assert!(next(fails.as_mut()).await.unwrap().is_err());
        assert!(next(fails.as_mut()).await.is_none(), "the first error ends it");
        pool.wait_idle().await;
        pool.snapshot().check().unwrap();
    });
}

#[test]
fn a_stream_of_outcomes_has_a_window() {
    on_each(|| async {
        let pool = quiet("stream").workers(2).build_async().unwrap();
        let mut done = pool.stream::<u64, ()>(4);
        let mut sum = 0;
        for n in 0..50 {
            if done.in_flight() == 4 {
                let refused = done.submit(async { Ok(0) }).await.unwrap_err();
                assert_eq!(refused.reason(), Reason::Full);
                sum += next(pin!(&mut done)).await.unwrap().outcome.unwrap();
            }
            done.submit(async move { Ok(n) }).await.unwrap();
        }
        while let Some(completion) = next(pin!(&mut done)).await {
            sum += completion.outcome.unwrap();
        }
        assert_eq!(sum, 1225);
    });
}

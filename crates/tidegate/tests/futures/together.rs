//! Groups, maps and streams of futures.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use futures_core::Stream;
use tidegate::{AsyncPool, MapError, Reason, Shutdown, TaskError};
use tokio::sync::Notify;

use crate::kit::*;

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
        pool.wait_idle().await.unwrap();
        pool.snapshot().check().unwrap();
    });
}

/// Gates that are opened one by one: item `n` waits at the `n`th.
fn gates(count: usize) -> Vec<Arc<Notify>> {
    (0..count).map(|_| Arc::default()).collect()
}

#[test]
fn g3_a_map_as_completed_gives_what_is_ready_and_holds_its_source_back() {
    on_each(|| async {
        let pool = quiet("map").workers(4).queue(8).build_async().unwrap();
        let (pulled, gates) = (Arc::new(AtomicUsize::new(0)), gates(6));
        let numbers = Numbers(Arc::clone(&pulled), 6);
        let own = gates.clone();
        let map = pool.map(numbers, 3, move |n| {
            let gate = Arc::clone(&own[n]);
            async move {
                gate.notified().await;
                Ok::<_, ()>(n * n)
            }
        });
        let mut squares = pin!(map.as_completed());
        assert!(poll_once(pin!(next(squares.as_mut()))).is_pending());
        let mut given = Vec::new();
        for (at, n) in [2, 1, 4, 3, 0, 5].into_iter().enumerate() {
            assert_eq!(pulled.load(SeqCst), (at + 3).min(7), "the window holds the source back");
            gates[n].notify_one();
            let (number, square) = next(squares.as_mut()).await.unwrap();
            given.push((number, square.unwrap()));
            // It pulls when it is asked for more.
            assert!(at == 5 || poll_once(pin!(next(squares.as_mut()))).is_pending());
        }
        assert_eq!(given, [(2, 4), (1, 1), (4, 16), (3, 9), (0, 0), (5, 25)]);
        assert!(next(squares.as_mut()).await.is_none());
        assert!(next(squares.as_mut()).await.is_none(), "and stays over");
        pool.wait_idle().await.unwrap();
        pool.assert_drained();
    });
}

#[test]
fn g3_the_first_error_or_panic_ends_a_map_as_completed() {
    for panics in [false, true] {
        on_each(|| async {
            let pool = quiet("map").workers(2).queue(8).build_async().unwrap();
            let (pulled, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
            let numbers = Numbers(Arc::clone(&pulled), 100);
            let own = drops.clone();
            let map = pool.map(numbers, 4, move |n| {
                let captured = own.clone();
                async move {
                    if n != 1 {
                        pending::<()>().await;
                    }
                    drop(captured);
                    assert!(!panics, "on purpose");
                    Err::<(), _>("one")
                }
            });
            let mut fails = pin!(map.as_completed());
            let (number, outcome) = next(fails.as_mut()).await.unwrap();
            assert_eq!(number, 1);
            match outcome.unwrap_err() {
                MapError::Task(error) => {
                    assert!(if panics { error.is_panicked() } else { error.is_failed() })
                }
                other => panic!("{other:?}"),
            }
            assert!(next(fails.as_mut()).await.is_none());
            pool.wait_idle().await.unwrap(); // the others would wait for ever
            let now = pool.snapshot();
            let pulled = pulled.load(SeqCst);
            assert!((2..=4).contains(&pulled), "{pulled}: no more once it has failed");
            assert_eq!(now.cancelled, pulled as u64 - 1);
            assert_eq!(drops.0.load(SeqCst), pulled);
        });
    }
}

#[test]
fn g3_a_failure_stops_what_is_queued_behind_it_while_nobody_reads() {
    async fn stops<M: futures_core::Stream>(pool: &AsyncPool, map: M) {
        let mut map = pin!(map);
        pool.pause();
        assert!(poll_once(pin!(next(map.as_mut()))).is_pending());
        pool.resume();
        pool.wait_idle().await.unwrap();
        let now = pool.snapshot();
        assert_eq!((now.failed, now.cancelled, now.completed), (1, 3, 0));
        assert!(next(map.as_mut()).await.is_some(), "the failure");
        assert!(next(map.as_mut()).await.is_none());
    }
    on_each(|| async {
        let pool = || quiet("map").workers(1).queue(8).build_async().unwrap();
        let fail = |n| async move { if n == 0 { Err(n) } else { Ok(()) } };
        let numbers = || Numbers(Arc::default(), 100);
        let (one, other) = (pool(), pool());
        stops(&one, one.map(numbers(), 4, fail)).await;
        stops(&other, other.map(numbers(), 4, fail).as_completed()).await;
    });
}

#[test]
fn a_map_as_completed_that_is_dropped_cancels_what_is_in_flight() {
    on_each(|| async {
        let pool = quiet("map").workers(1).queue(1).build_async().unwrap();
        let drops = Drops::default();
        let own = drops.clone();
        let map = pool.map(Numbers(Arc::default(), 100), 5, move |_| {
            let captured = own.clone();
            async move {
                pending::<()>().await;
                drop(captured);
                Ok::<_, ()>(())
            }
        });
        {
            let mut stuck = Box::pin(map.as_completed());
            let now = || pool.snapshot();
            while now().running == 0 || now().queued == 0 || now().waiting_submitters == 0 {
                assert!(poll_once(pin!(next(stuck.as_mut()))).is_pending());
                tokio::task::yield_now().await;
            }
        }
        pool.wait_idle().await.unwrap();
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.cancelled, now.waiting_submitters), (2, 2, 0));
        assert_eq!(drops.0.load(SeqCst), 4, "running, queued, in line; and the map's own");
    });
}

/// A map that has begun in order goes on as completed, and one whose pool closes gives what was
/// accepted before it says so.
#[test]
fn a_map_changes_its_order_and_outlives_the_door() {
    on_each(|| async {
        let pool = quiet("map").workers(1).queue(4).build_async().unwrap();
        let map = pool.map(Numbers(Arc::default(), 100), 2, |n| async move { Ok::<_, ()>(n) });
        let mut in_order = map;
        assert_eq!(next(pin!(&mut in_order)).await.unwrap().unwrap(), 0);
        let mut any = in_order.as_completed();
        for n in 1..10 {
            assert_eq!(next(pin!(&mut any)).await.unwrap().1.unwrap(), n);
        }
        pool.close();
        let mut last = 9;
        let refused = loop {
            match next(pin!(&mut any)).await.unwrap() {
                (n, Ok(value)) => {
                    assert_eq!((n, value), (last + 1, last + 1));
                    last = n;
                }
                (n, Err(error)) => break (n, error),
            }
        };
        assert!(matches!(refused, (n, MapError::Refused(Reason::Closed)) if n == last + 1));
        assert!(next(pin!(&mut any)).await.is_none());
        assert_eq!(pool.snapshot().accepted, last as u64 + 1, "nothing accepted is lost");
    });
}

#[test]
fn r9_a_map_as_completed_inside_the_pool_needs_no_other_worker() {
    on_each(|| async {
        let pool = quiet("inside").workers(1).queue(1).build_async().unwrap();
        let own = pool.clone();
        let sum = pool.submit(async move {
            let map = own.map(Numbers(Arc::default(), 20), 4, |n| async move { Ok::<_, ()>(n) });
            let mut map = pin!(map.as_completed());
            let mut sum = 0;
            while let Some((_, value)) = next(map.as_mut()).await {
                sum += value.unwrap();
            }
            sum
        });
        assert_eq!(sum.await.unwrap().await.unwrap(), 190);
    });
}

/// Each future must be `Send` by itself, or the compiler can't see it for what it captures.
#[test]
fn futures_with_trait_objects_are_submitted_from_spawned_tasks() {
    type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
    type Answer = Result<usize, Box<dyn std::error::Error + Send + Sync>>;
    fn answer(f: &Arc<dyn Fn() -> usize + Send + Sync>) -> BoxFuture<Answer> {
        let f = Arc::clone(f);
        Box::pin(async move { Ok(f()) })
    }
    on_each(|| async {
        let pool = quiet("dyn").workers(2).build_async().unwrap();
        let f: Arc<dyn Fn() -> usize + Send + Sync> = Arc::new(|| 1);
        let own = pool.clone();
        let sum = tokio::spawn(async move {
            let pool = own;
            let mut sum = pool.submit(answer(&f)).await.unwrap().await.unwrap().unwrap();
            sum += pool.submit_result(answer(&f)).await.unwrap().await.unwrap();
            let g = Arc::clone(&f);
            let task = pool.task("dyn").submit(move |_| async move { g() });
            sum += task.await.unwrap().await.unwrap();
            let g = Arc::clone(&f);
            pool.spawn(async move { _ = g() }).await.unwrap();
            let group = pool.group().start();
            let member = answer(&f);
            group.submit(async move { member.await.map(drop) }).await.unwrap();
            group.wait().await.unwrap();
            let mut stream = pool.stream(1);
            stream.submit(answer(&f)).await.unwrap();
            let found = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await;
            sum + found.unwrap().outcome.unwrap()
        });
        assert_eq!(sum.await.unwrap(), 4);
        pool.shutdown(Shutdown::default()).await.unwrap();
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

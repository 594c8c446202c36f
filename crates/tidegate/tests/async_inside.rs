//! What a future may do to its own pool, and to others, while it is polled.
#![cfg(feature = "tokio")]

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{
    AsyncPool, Budget, Handle, Inside, Pool, Reason, Shutdown, ShutdownError, TaskError, Verdict,
    WaitError, WaitReason, WhenFull,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

mod async_kit;
use async_kit::*;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[test]
fn a_task_may_await_a_queued_task_of_its_own_pool() {
    on_each(|| async {
        let pool = quiet("inside").workers(1).queue(10).build_async().unwrap();
        let own = pool.clone();
        let outer = pool.submit(async move {
            let inner = own.submit(async { 20 }).await.unwrap();
            let other = own.submit(async { 1 }).await.unwrap();
            let (a, b) = tokio::join!(inner, other);
            a.unwrap() + b.unwrap()
        });
        assert_eq!(outer.await.unwrap().await.unwrap(), 21);
        assert_eq!(pool.snapshot().nested, 2);
    });
}

#[test]
fn inside_a_task_a_full_queue_refuses_rather_than_wait() {
    on_each(|| async {
        let pool = quiet("inside").workers(1).queue(1).build_async().unwrap();
        let own = pool.clone();
        let task = pool.submit(async move {
            own.submit(async {}).await.unwrap().detach();
            own.submit(async {}).await.unwrap_err().reason()
        });
        assert_eq!(task.await.unwrap().await.unwrap(), Reason::WouldDeadlock);
    });
}

#[test]
fn hazard_71_blocking_calls_inside_a_poll_are_errors_that_name_the_async_call() {
    on_each(|| async {
        let pool = quiet("polls").workers(2).build_async().unwrap();
        let threads = Pool::builder("threads").workers(1).queue(1).build().unwrap();
        let (own, other) = (pool.clone(), threads.clone());
        let task = pool.submit(async move {
            let handle = own.submit(pending::<()>()).await.unwrap();
            let Err(WaitError::NoOutcome { reason, handle }) = handle.wait() else { panic!() };
            assert_eq!(reason, WaitReason::InPoll);
            assert!(reason.to_string().contains("await the handle"));
            handle.cancel();
            assert_eq!(other.wait_idle(), Err(ShutdownError::InPoll));
            let held = Budget::new("one", 1);
            let _all = held.acquire(1).unwrap();
            assert!(held.acquire(1).is_err());
        });
        task.await.unwrap().await.unwrap();
        threads.shutdown_async(Shutdown::default()).await.unwrap();
    });
}

#[test]
fn r9_a_task_does_not_wait_until_its_own_pool_is_idle() {
    on_each(|| async {
        let pool = quiet("own").workers(1).build_async().unwrap();
        let own = pool.clone();
        let waited = pool.submit(async move { own.wait_idle().await }).await.unwrap();
        assert!(matches!(waited.await.unwrap(), Err(ShutdownError::InsideTask)));
        pool.wait_idle().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn r9_a_cycle_of_awaits_shows_as_stalled() {
    let pool = quiet("cycle").workers(2).build_async().unwrap();
    let (to_first, second) = oneshot::channel::<Handle<()>>();
    let (to_second, first) = oneshot::channel::<Handle<()>>();
    let waits = |other: oneshot::Receiver<Handle<()>>| async move {
        let _ = other.await.unwrap().await;
    };
    let tasks = [waits(second), waits(first)].map(|waits| pool.try_submit(waits).unwrap());
    while pool.snapshot().running < 2 {
        tokio::task::yield_now().await; // on a worker each
    }
    let [one, other] = tasks;
    to_first.send(other).unwrap();
    to_second.send(one).unwrap();
    pool.spawn(async {}).await.unwrap();
    sleep(9 * SECOND).await;
    assert_ne!(pool.diagnose().verdict, Verdict::Stalled, "while none has ended, 10 s are long");
    sleep(2 * SECOND).await;
    assert_eq!(pool.diagnose().verdict, Verdict::Stalled);
    let report = pool.shutdown(Shutdown::hard()).await.unwrap();
    assert!(report.is_success(), "{report}");
}

#[test]
fn hazard_71_what_has_no_error_to_give_panics_before_it_begins() {
    on_each(|| async {
        let pool = quiet("polls").workers(1).build_async().unwrap();
        let threads = Pool::builder("threads").workers(1).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (other, body) = (threads.clone(), Arc::clone(&ran));
        let scope = pool.submit(async move { other.scope(|_| body.fetch_add(1, SeqCst)) });
        let other = threads.clone();
        let stream = pool.submit(async move {
            let mut stream = other.stream::<(), &str>(1);
            stream.submit_result(|| Ok(())).unwrap();
            stream.next().is_some()
        });
        let batch = pool.submit(async {
            let tasks = [|| Ok::<_, &str>(())];
            Pool::builder("batch").workers(1).run_batch(tasks, Shutdown::light()).is_ok()
        });
        for message in [
            panic_of(scope.await.unwrap().await),
            panic_of(stream.await.unwrap().await),
            panic_of(batch.await.unwrap().await),
        ] {
            assert!(message.contains("blocks its thread"), "{message}");
        }
        assert_eq!(ran.load(SeqCst), 0, "before its body");
        // With an error to give there is no panic.
        let other = threads.clone();
        let slice = pool.submit(async move { other.map_slice(&[1, 2], |n| n + 1).unwrap_err() });
        assert_eq!(slice.await.unwrap().await.unwrap().refused, Some(Reason::WouldDeadlock));
        threads.shutdown_async(Shutdown::default()).await.unwrap();
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

fn panic_of<T: std::fmt::Debug>(outcome: Result<T, TaskError>) -> String {
    match outcome {
        Err(TaskError::Panicked(panic)) => panic.message().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// What waits for the runtime would hold up the thread that has to drive it.
#[test]
fn hazard_71_a_blocking_submit_inside_a_poll_does_not_run_its_future_to_the_end() {
    on_each(|| async {
        let caller_runs = |name| {
            let pool = quiet(name).workers(1).queue(1).when_full(WhenFull::CallerRuns);
            pool.build_async().unwrap()
        };
        let (own, other) = (caller_runs("own"), caller_runs("other"));
        let gate = Arc::new(Notify::new());
        let waits = |gate: &Arc<Notify>| {
            let gate = Arc::clone(gate);
            async move { gate.notified().await }
        };
        let running = other.submit(waits(&gate)).await.unwrap();
        while other.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        other.submit(waits(&gate)).await.unwrap().detach(); // and it is full
        let (inner, full) = (own.clone(), other.clone());
        let outer = own.submit(async move {
            let later = || async {
                sleep(Duration::from_millis(1)).await;
                7
            };
            inner.submit_blocking(later()).unwrap().detach(); // fills the one place
            let on_top = inner.submit_blocking(later()).unwrap();
            let refused = full.submit_blocking(later()).unwrap_err();
            assert_eq!(refused.reason(), Reason::WouldDeadlock);
            on_top.await.unwrap() + refused.into_work().await
        });
        assert_eq!(outer.await.unwrap().await.unwrap(), 14);
        gate.notify_one();
        running.await.unwrap();
        gate.notify_one();
        for pool in [own, other] {
            let report = pool.shutdown(Shutdown::default()).await.unwrap();
            assert!(report.is_success(), "{report}");
        }
    });
}

/// Futures that count how many of them are under way.
#[derive(Clone, Default)]
struct UnderWay(Arc<(AtomicUsize, AtomicUsize)>);

impl UnderWay {
    async fn one(self) -> Result<(), String> {
        let (now, most) = &*self.0;
        most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        now.fetch_sub(1, SeqCst);
        Ok(())
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

#[test]
fn r9_what_a_task_awaits_of_its_own_pool_runs_one_after_the_other() {
    for workers in [1, 3] {
        on_each(|| async move {
            let pool = quiet("joins").workers(workers).queue(200).build_async().unwrap();
            let (own, seen) = (pool.clone(), UnderWay::default());
            let counted = seen.clone();
            let task = pool.submit(async move {
                let mut handles = Vec::new();
                for _ in 0..100 {
                    handles.push(own.submit(counted.clone().one()).await.unwrap());
                }
                // One waker for all of them, and one for each.
                let (few, many) = handles.split_at_mut(20);
                futures_util::future::join_all(few).await;
                futures_util::future::join_all(many).await;
            });
            task.await.unwrap().await.unwrap();
            assert!(seen.most() <= workers, "{} on {workers}", seen.most());
            pool.wait_idle().await.unwrap();
            assert_eq!(pool.snapshot().completed, 101);
        });
    }
}

#[test]
fn g1_the_limit_of_a_group_holds_inside_a_future() {
    for workers in [1, 8] {
        on_each(|| async move {
            let pool = quiet("limits").workers(workers).queue(200).build_async().unwrap();
            let (own, seen) = (pool.clone(), UnderWay::default());
            let counted = seen.clone();
            let task = pool.submit(async move {
                let group = own.group().limit(2).start();
                for _ in 0..50 {
                    group.submit(counted.clone().one()).await.unwrap();
                    // Two that have slots, and one inline.
                    assert!(group.unsettled() <= 3, "{} unsettled", group.unsettled());
                }
                group.wait().await.unwrap();
            });
            task.await.unwrap().await.unwrap();
            assert!(seen.most() <= 3, "{} on {workers}", seen.most());
        });
    }
}

#[test]
fn r8_run_inline_begins_one_at_a_time() {
    on_each(|| async {
        let pool = quiet("inline").workers(1).queue(1).when_full_inside(Inside::RunInline);
        let pool = pool.build_async().unwrap();
        let (own, seen) = (pool.clone(), UnderWay::default());
        let counted = seen.clone();
        let task = pool.submit(async move {
            let all = (0..40).map(|_| own.submit(counted.clone().one()));
            let handles = futures_util::future::try_join_all(all).await.unwrap();
            futures_util::future::join_all(handles).await;
            // What can't wait is refused while one that it has begun is under way.
            own.spawn(pending()).await.unwrap();
            own.submit(pending::<()>()).await.unwrap().detach();
            let refused = own.submit_blocking(async {}).unwrap_err();
            assert_eq!(refused.reason(), Reason::WouldDeadlock);
        });
        task.await.unwrap().await.unwrap();
        assert_eq!(seen.most(), 1);
        let report = pool.shutdown(Shutdown::hard()).await.unwrap();
        assert_eq!(report.cancelled, 2);
    });
}

#[test]
fn a_deep_chain_of_awaits_is_polled_where_it_can_go_on() {
    const DEPTH: usize = 20_000;

    fn down(pool: AsyncPool, left: usize, polls: Arc<AtomicUsize>) -> BoxFuture<usize> {
        let counted = Arc::clone(&polls);
        let chain = async move {
            if left == 0 {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                return 0;
            }
            let next = pool.clone();
            let deeper = pool.submit(down(next, left - 1, polls)).await.unwrap();
            deeper.await.unwrap() + 1
        };
        let mut chain = Box::pin(chain);
        Box::pin(poll_fn(move |cx| {
            counted.fetch_add(1, SeqCst);
            chain.as_mut().poll(cx)
        }))
    }

    on_each(|| async {
        let pool = quiet("deep").workers(1).queue(10).build_async().unwrap();
        let polls = Arc::new(AtomicUsize::new(0));
        let chain = down(pool.clone(), DEPTH, Arc::clone(&polls));
        let found = pool.submit(chain).await.unwrap().await.unwrap();
        assert_eq!(found, DEPTH);
        // Each when it begins and when it goes on; the lowest and the top at each yield.
        let most = 2 * DEPTH + 300;
        assert!(polls.load(SeqCst) <= most, "{} polls", polls.load(SeqCst));
    });
}

#[test]
fn g1_a_submission_that_waits_for_its_turn_holds_up_no_wait_for_the_group() {
    on_each(|| async {
        let pool = quiet("turns").workers(1).queue(1).build_async().unwrap();
        let (own, group) = (pool.clone(), pool.group().start::<()>());
        let task = pool.submit(async move {
            let waited = group.clone();
            let mut waits = own.submit(async move { waited.wait().await }).await.unwrap();
            assert!(futures_util::poll!(&mut waits).is_pending(), "it is on top now");
            own.spawn(async {}).await.unwrap(); // the queue is full
            group.submit(async { Ok(()) }).await.unwrap();
            waits.await.unwrap().unwrap();
        });
        task.await.unwrap().await.unwrap();
        pool.wait_idle().await.unwrap();
    });
}

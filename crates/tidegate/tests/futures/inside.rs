//! What a future may do to its own pool, and to others, while it is polled.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tidegate::{
    AsyncPool, Budget, GroupError, Handle, Inside, Pool, Reason, Shutdown, ShutdownError,
    TaskError, Token, Verdict, WaitError, WaitReason, WhenFull, shutdown_in_order,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::kit::*;

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

/// What `calls` says inside a poll of a pool of two, beside a thread pool without room.
fn inside_a_poll<F>(calls: fn(AsyncPool, Pool) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_each(|| async {
        let pool = quiet("polls").workers(2).build_async().unwrap();
        let threads = Pool::builder("threads").workers(1).queue(1).on_unobserved(|_| ());
        let threads = threads.build().unwrap();
        let (go, word) = mpsc::channel::<()>();
        threads.spawn(move || _ = word.recv()).unwrap();
        while threads.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        threads.try_spawn(|| ()).unwrap();
        let task = pool.submit(calls(pool.clone(), threads.clone())).await.unwrap();
        task.await.unwrap();
        drop(go);
        pool.shutdown(Shutdown::default()).await.unwrap();
        threads.shutdown_async(Shutdown::default()).await.unwrap();
    });
}

/// What happened, to what, and what to call instead.
fn names(error: impl ToString, instead: &str) {
    let text = error.to_string();
    let why = "a future is being polled on this thread, and a wait would hold up its runtime";
    assert!(text.contains(why) && text.contains(instead), "{text}");
}

#[test]
fn hazard_71_a_wait_for_a_handle_names_the_await() {
    inside_a_poll(|own, threads| async move {
        let handle = own.submit(pending::<()>()).await.unwrap();
        let Err(WaitError::NoOutcome { reason, mut handle }) = handle.wait() else { panic!() };
        assert_eq!(reason, WaitReason::InPoll);
        names(reason, "await the handle");
        assert!(handle.wait_timeout(LONG).is_none(), "it does not wait");
        let Err(WaitError::NoOutcome { reason, handle }) = handle.cancel_on_drop().wait() else {
            panic!("of a future");
        };
        names(reason, "await the handle");
        handle.cancel();
        // A queued task of a pool on threads.
        threads.resize(2).unwrap();
        let (go, word) = mpsc::channel();
        let handle = threads.submit_async(move || word.recv().unwrap()).await.unwrap();
        let Err(WaitError::NoOutcome { reason, handle }) = handle.wait() else { panic!() };
        names(reason, "await the handle");
        go.send(7).unwrap();
        assert_eq!(handle.await.unwrap(), 7);
    });
}

#[test]
fn hazard_71_a_submit_to_a_full_pool_names_the_async_one() {
    inside_a_poll(|_, threads| async move {
        names(threads.submit(|| ()).unwrap_err(), "await `submit_async`");
        names(threads.submit_result(|| Ok::<_, ()>(())).unwrap_err(), "await `submit_async`");
        names(threads.submit_timeout(LONG, || ()).unwrap_err(), "await `submit_async`");
        names(threads.spawn(|| ()).unwrap_err(), "await `submit_async`");
        names(threads.spawn_all([|| ()]).unwrap_err(), "await `submit_async`");
        let task = threads.task("named").wait_at_most(LONG);
        names(task.submit(|_| ()).unwrap_err(), "await `submit_async`");
        let group = threads.group().start::<()>();
        names(group.submit(|_| Ok(())).unwrap_err(), "await `submit_async`");
        let mut stream = threads.stream::<(), ()>(1);
        names(stream.submit_result(|| Ok(())).unwrap_err(), "await `submit_async`");
        let none = Budget::new("none", 1);
        let _permit = none.try_acquire(1).unwrap();
        let task = threads.task("dear").budget(&none, 1);
        names(task.submit(|_| ()).unwrap_err(), "await `submit_async`");
        let other = quiet("other").workers(1).queue(1).build_async().unwrap();
        other.try_spawn(pending()).unwrap();
        while other.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        other.try_spawn(pending()).unwrap();
        let refused = other.submit_blocking(async { 7 }).unwrap_err();
        assert_eq!(refused.reason(), Reason::WouldDeadlock);
        names(&refused, "(of an `AsyncPool`: `submit`)");
        assert_eq!(refused.into_work().await, 7);
        other.shutdown(Shutdown::hard()).await.unwrap();
    });
}

/// The async one would be refused, too.
#[test]
fn r8_a_refusal_by_its_own_pool_does_not_name_the_async_call() {
    on_each(|| async {
        let pool = quiet("own").workers(1).queue(1).build_async().unwrap();
        let own = pool.clone();
        let task = pool.submit(async move {
            own.try_spawn(async {}).unwrap();
            own.submit_blocking(async {}).unwrap_err().to_string()
        });
        let text = task.await.unwrap().await.unwrap();
        assert!(text.contains("a task of its own must not wait for it"), "{text}");
    });
}

#[test]
fn hazard_71_a_wait_for_a_group_names_the_async_one() {
    inside_a_poll(|own, threads| async move {
        threads.resize(2).unwrap();
        let (go, word) = mpsc::channel::<()>();
        let group = threads.group().limit(1).start::<&str>();
        let waits = move |_: &_| {
            _ = word.recv();
            Ok(())
        };
        group.submit_async(waits).await.unwrap();
        assert!(matches!(group.wait(), Err(GroupError::InPoll)));
        names(group.wait().unwrap_err(), "await `wait_async`");
        names(group.submit(|_| Ok(())).unwrap_err(), "await `submit_async`");
        drop(go);
        group.wait_async().await.unwrap();

        let group = own.group().start::<&str>();
        group.submit(pending()).await.unwrap();
        names(group.wait_blocking().unwrap_err(), "(of an `AsyncGroup`: `wait`)");
        group.cancel();
        group.wait().await.unwrap();
    });
}

#[test]
fn hazard_71_a_wait_for_a_pool_names_the_async_one() {
    inside_a_poll(|_, threads| async move {
        let other = quiet("other").workers(1).build_async().unwrap();
        for error in [
            threads.wait_idle().unwrap_err(),
            threads.wait_idle_timeout(LONG).unwrap_err(),
            threads.shutdown(Shutdown::default()).unwrap_err(),
            other.wait_idle_blocking().unwrap_err(),
            other.shutdown_blocking(Shutdown::default()).unwrap_err(),
        ] {
            assert_eq!(error, ShutdownError::InPoll);
            names(error, "`shutdown_async` or `wait_idle_async`");
            names(error, "(of an `AsyncPool`: `shutdown`, `wait_idle`)");
        }
        let in_order = shutdown_in_order(&[&threads], LONG);
        names(in_order.into_iter().next().unwrap().unwrap_err(), "`shutdown_async`");
        other.shutdown(Shutdown::default()).await.unwrap();
    });
}

#[test]
fn hazard_71_an_acquire_names_the_async_one() {
    inside_a_poll(|_, _| async {
        let one = Budget::new("one", 1);
        let permit = one.acquire(1).expect("it need not wait");
        for error in [one.acquire(1).unwrap_err(), one.acquire_timeout(1, LONG).unwrap_err()] {
            assert_eq!(error.reason(), Reason::WouldDeadlock);
            names(error, "await `acquire_async`");
        }
        drop(permit);
        drop(one.acquire_async(1).await.unwrap());
    });
}

/// It runs where the worker is polled. (That of a task which never ran may come on a thread.)
#[test]
fn hazard_71_a_callback_of_a_pool_of_futures_does_not_block_either() {
    on_each(|| async {
        let pool = quiet("callbacks").workers(1).build_async().unwrap();
        let own = pool.clone();
        let callback = move |_: &_| {
            let handle = own.try_submit(sleep(Duration::from_millis(1))).unwrap();
            let Err(WaitError::NoOutcome { reason, .. }) = handle.wait() else { panic!() };
            names(reason, "await the handle");
            let group = own.group().start::<&str>();
            group.try_submit(pending()).unwrap();
            names(group.wait_blocking().unwrap_err(), "(of an `AsyncGroup`: `wait`)");
            let none = Budget::new("none", 1);
            let _permit = none.try_acquire(1).unwrap();
            names(none.acquire(1).unwrap_err(), "await `acquire_async`");
        };
        let task = pool.task("told").on_outcome(callback).submit(|_| async {});
        task.await.unwrap().await.unwrap();
        pool.wait_idle().await.unwrap();
        assert_eq!(pool.snapshot().callback_panics, 0);
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

#[test]
fn hazard_71_maps_and_slices_say_where_to_read_them() {
    inside_a_poll(|_, threads| async move {
        threads.resize(2).unwrap();
        names(threads.map_slice(&[1, 2], |n| n + 1).unwrap_err(), "`spawn_blocking`");
        let later = Token::new();
        let own = later.clone();
        let mut map = threads.map([1, 2, 3], move |n| {
            own.wait();
            n
        });
        let error = map.find_map(Result::err).expect("it is not there at once").to_string();
        assert!(error.contains("a poll of a future"), "{error}");
        assert!(error.contains("`AsyncPool::map`"), "{error}");
        later.cancel();
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
        let token = pool.submit(async { Token::new().wait() });
        for (message, instead) in [
            (panic_of(scope.await.unwrap().await), "call it in `spawn_blocking`"),
            (panic_of(stream.await.unwrap().await), "await `next_async`"),
            (panic_of(batch.await.unwrap().await), "call it in `spawn_blocking`"),
            (panic_of(token.await.unwrap().await), "await `cancelled`"),
        ] {
            assert!(message.contains("blocks its thread"), "{message}");
            assert!(message.contains(instead), "{message}");
        }
        let cancelled = pool.submit(async {
            let token = Token::new();
            token.cancel();
            token.wait(); // nothing to wait for
        });
        cancelled.await.unwrap().await.unwrap();
        assert_eq!(ran.load(SeqCst), 0, "before its body");
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
        // Each when it begins and when it goes on; the lowest each time that its worker yields.
        let most = 2 * DEPTH + DEPTH / 16 + 300;
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
            // It did not wait for who wants to join it; and that was its end.
            let refused = group.submit(async { Ok(()) }).await.unwrap_err();
            assert_eq!(refused.reason(), Reason::Cancelled);
            waits.await.unwrap().unwrap();
        });
        task.await.unwrap().await.unwrap();
        pool.wait_idle().await.unwrap();
    });
}

//! Groups, streams and idleness of thread pools, awaited: on tokio's current-thread runtime, and
//! on none. Submissions are in `submit_async.rs`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tidegate::{Clock, Group, GroupError, Pool, Reason, Shutdown, ShutdownError, WhenFull};

use crate::block_on::*;
use crate::gate::Gate;
use crate::sleeper::Sleeper;

/// As a hang detector only.
const LONG: Duration = Duration::from_secs(60);

fn pool(queue: usize) -> Pool {
    let pool = Pool::builder("awaited").workers(1).queue(queue).on_unobserved(|_| ());
    pool.build().unwrap()
}

/// On a bare executor, and on a runtime whose only thread must not be held up.
fn on_any_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    block_on(test());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, test()).await.expect("it hangs") });
}

fn is_send<T: Send>(future: T) -> T {
    future
}

// ---------------------------------------------------------------- groups

#[test]
fn g1_a_group_on_threads_is_awaited_on_any_runtime() {
    on_any_runtime(|| async {
        for (queue, limit) in [(0, 1), (1, 2), (100, 1), (1, 100)] {
            let pool = pool(queue);
            let group = pool.group().limit(limit).start::<Infallible>();
            let sum = Arc::new(AtomicU64::new(0));
            for n in 0..200 {
                let sum = Arc::clone(&sum);
                let member = group.submit_async(move |_| {
                    sum.fetch_add(n, SeqCst);
                    Ok(())
                });
                is_send(member).await.unwrap();
                assert!(group.unsettled() <= limit);
            }
            is_send(group.wait_async()).await.unwrap();
            assert_eq!((sum.load(SeqCst), group.unsettled()), (19_900, 0));
            let late = group.submit_async(|_| Ok(())).await.unwrap_err();
            assert_eq!(late.reason(), Reason::Cancelled, "it has ended");
            pool.shutdown_async(Shutdown::default()).await.unwrap();
        }
    });
}

#[test]
fn g1_an_awaited_wait_gives_what_a_wait_gives() {
    let pool = pool(10);
    let group = pool.group().start::<&str>();
    block_on(group.submit_async(|_| Err("first"))).unwrap();
    let error = block_on(group.wait_async()).unwrap_err();
    assert_eq!(error.to_string(), "the task failed: first");
    assert!(matches!(block_on(group.wait_async()), Err(GroupError::AlreadyTaken)));

    let group = pool.group().start::<&str>();
    block_on(group.submit_async(|_| panic!("loud"))).unwrap();
    let waits = thread::spawn(move || block_on(group.wait_async()));
    assert_eq!(waits.join().unwrap_err().downcast_ref(), Some(&"loud"), "it goes on here");
}

/// A pool whose worker is held, and a group of one slot, which is taken.
fn taken(builder: impl FnOnce(&Pool) -> Group<()>) -> (Pool, Gate, Group<()>) {
    let pool = pool(10);
    let gate = Gate::hold(&pool).unwrap();
    let group = builder(&pool);
    group.try_submit(|_| Ok(())).unwrap();
    (pool, gate, group)
}

#[test]
fn g1_a_cancel_a_deadline_and_the_end_of_the_pool_end_the_awaited_wait_for_a_slot() {
    let reason = |pool: &Pool, group: &Group<()>, end: &dyn Fn()| {
        let dropped = Arc::new(());
        let captured = Arc::clone(&dropped);
        let work = move |_: &_| {
            drop(captured);
            Ok(())
        };
        let mut waits = Sleeper::new(Box::pin(group.submit_async(work)));
        assert!(waits.poll().is_pending());
        end();
        wait_until(|| waits.is_woken());
        let Poll::Ready(Err(refused)) = waits.poll() else { panic!("it is woken for nothing") };
        assert_eq!(Arc::strong_count(&dropped), 2, "the closure comes back");
        wait_until(|| group.unsettled() as u64 == pool.snapshot().queued); // it holds no slot
        refused.reason()
    };
    let (pool, gate, group) = taken(|pool| pool.group().limit(1).start());
    assert_eq!(reason(&pool, &group, &|| group.cancel()), Reason::Cancelled);
    gate.open();

    let short = Duration::from_millis(2);
    let (pool, gate, group) = taken(|pool| {
        pool.group().limit(1).collect_all().deadline(short).start() // or that cancels it
    });
    assert_eq!(reason(&pool, &group, &|| ()), Reason::TimedOut);
    gate.open();

    let (pool, gate, group) = taken(|pool| pool.group().limit(1).start());
    assert_eq!(reason(&pool, &group, &|| pool.close()), Reason::Closed);
    gate.open();
}

/// §10: a closure that may block does not run inside a poll.
#[test]
fn g1_a_member_that_is_awaited_waits_for_room_under_caller_runs() {
    let pool = Pool::builder("full").workers(1).queue(1).when_full(WhenFull::CallerRuns);
    let pool = pool.build().unwrap();
    let gate = Gate::hold(&pool).unwrap();
    pool.try_spawn(|| ()).unwrap();
    let (group, here) = (pool.group().start::<()>(), thread::current().id());
    {
        let mut waits = pin!(group.submit_async(move |_| {
            assert_ne!(thread::current().id(), here);
            Ok(())
        }));
        assert!(poll_once(waits.as_mut()).is_pending());
        gate.open();
        block_on(waits).unwrap();
    }
    block_on(group.wait_async()).unwrap();
    assert_eq!(pool.snapshot().on_caller, 0);
}

/// The one worker that there is waits.
#[test]
fn r9_a_task_that_awaits_a_group_or_a_stream_of_its_pool_runs_it() {
    let pool = pool(10);
    let own = pool.clone();
    let outer = pool.submit(move || {
        let (group, ran) = (own.group().limit(2).start::<()>(), Arc::new(AtomicU64::new(0)));
        let mut stream = own.stream(10);
        block_on(async {
            for n in 0..5 {
                let counted = Arc::clone(&ran);
                let member = move |_: &_| {
                    counted.fetch_add(1, SeqCst);
                    Ok(())
                };
                group.submit_async(member).await.unwrap();
                stream.submit_async(move || n).await.unwrap();
            }
            group.wait_async().await.unwrap();
            let mut sum = ran.load(SeqCst);
            while let Some(done) = stream.next_async().await {
                sum += done.outcome.unwrap();
            }
            sum
        })
    });
    let mut outer = outer.unwrap();
    assert_eq!(outer.wait_timeout(LONG).expect("it hangs").unwrap(), 15);
}

#[test]
fn g1_awaiting_a_group_where_it_could_never_end_is_an_error() {
    let pool = pool(10);
    let group = pool.group().collect_all().start::<String>();
    let own = group.clone();
    let text = move |_: &_| Err(block_on(own.wait_async()).unwrap_err().to_string());
    group.submit(text).unwrap();
    let failures = group.wait().unwrap_err().into_failures();
    assert!(failures[0].to_string().contains("is one of its tasks"), "{failures:?}");

    let pool = Pool::builder("state").workers(1).worker_state(|_| ()).build().unwrap();
    let own = pool.clone();
    let inside = pool.submit(move || {
        let group = own.group().start::<()>();
        block_on(group.submit_async(|_| Ok(()))).unwrap();
        block_on(group.wait_async()).unwrap_err().is_would_deadlock()
    });
    assert!(inside.unwrap().wait().unwrap());
}

// ---------------------------------------------------------------- streams

#[test]
fn g4_a_stream_of_threads_is_awaited_on_any_runtime() {
    on_any_runtime(|| async {
        for queue in [0, 1, 100] {
            let pool = pool(queue);
            let (mut done, mut sum) = (pool.stream(4), 0);
            for n in 0..100_u64 {
                if done.in_flight() == 4 {
                    let refused = done.submit_async(|| 0).await.unwrap_err();
                    assert_eq!(refused.reason(), Reason::Full, "its window is");
                    sum += is_send(done.next_async()).await.unwrap().outcome.unwrap();
                }
                assert_eq!(is_send(done.submit_async(move || n)).await.unwrap(), n);
            }
            while let Some(completion) = done.next_async().await {
                sum += completion.outcome.unwrap();
            }
            assert_eq!(sum, 4_950);
            pool.shutdown_async(Shutdown::default()).await.unwrap();
        }
    });
}

#[cfg(feature = "tokio")]
#[test]
fn g4_a_stream_of_threads_is_a_stream() {
    use futures_util::StreamExt;

    on_any_runtime(|| async {
        let pool = pool(10);
        let mut done = pool.stream::<u64, &str>(10);
        for n in 0..5 {
            done.submit_result_async(move || if n == 4 { Err("four") } else { Ok(n) })
                .await
                .unwrap();
        }
        let outcomes = StreamExt::collect::<Vec<_>>(StreamExt::by_ref(&mut done)).await;
        let failed = outcomes.iter().filter(|done| done.outcome.is_err()).count();
        assert_eq!((outcomes.len(), failed), (5, 1));
        assert!(StreamExt::next(&mut done).await.is_none(), "nothing is in flight");
        pool.shutdown_async(Shutdown::default()).await.unwrap();
    });
}

// ---------------------------------------------------------------- idleness

#[test]
fn idleness_is_awaited_on_any_runtime() {
    on_any_runtime(|| async {
        let pool = pool(10);
        pool.wait_idle_async().await.unwrap();
        let gate = Gate::hold(&pool).unwrap();
        let mut idle = pin!(is_send(pool.wait_idle_async()));
        assert!(poll_once(idle.as_mut()).is_pending());
        pool.submit_async(|| ()).await.unwrap().detach();
        gate.open();
        idle.await.unwrap();
        assert_eq!(pool.snapshot().completed, 2);
        pool.shutdown_async(Shutdown::default()).await.unwrap();
    });
    let pool = pool(10);
    let own = pool.clone();
    let inside = pool.submit(move || block_on(own.wait_idle_async())).unwrap();
    assert_eq!(inside.wait().unwrap(), Err(ShutdownError::InsideTask));
}

/// A waker is user code, and may hang: the supervisor leaves it to somebody else.
#[test]
fn o5_who_awaits_idleness_is_not_woken_by_the_supervisor() {
    struct Names(Mutex<Vec<String>>);
    impl Wake for Names {
        fn wake(self: Arc<Self>) {
            let name = thread::current().name().unwrap_or_default().to_owned();
            self.0.lock().unwrap().push(name);
        }
    }
    let (clock, hands) = Clock::manual();
    let pool = Pool::builder("hard").workers(1).clock(clock).build().unwrap();
    let gate = Gate::hold(&pool).unwrap();
    let names = Arc::new(Names(Mutex::default()));
    let waker = Waker::from(Arc::clone(&names));
    let mut idle = pin!(pool.wait_idle_async());
    let closing = pool.shutdown_async(Shutdown::light().within(Duration::from_secs(1)));
    assert!(idle.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    hands.advance(Duration::from_secs(1));
    wait_until(|| !names.0.lock().unwrap().is_empty());
    let woken_by = names.0.lock().unwrap().remove(0);
    assert!(!woken_by.contains("supervisor"), "{woken_by}");
    gate.open();
    block_on(idle).unwrap();
    block_on(closing).unwrap();
}

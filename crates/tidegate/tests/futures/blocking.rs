//! Pools of futures from code that blocks: plain threads, `spawn_blocking`, `block_in_place`.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tidegate::{AsyncPool, GroupError, Reason, Shutdown, WhenFull};
use tokio::sync::Notify;
use tokio::task::{block_in_place, spawn_blocking};

use crate::kit::*;

fn pool() -> AsyncPool {
    quiet("blocking").workers(2).queue(1).build_async().unwrap()
}

/// All that a thread may do to a pool of futures, with more work than there is room for.
fn uses(pool: &AsyncPool) {
    let handle = pool.submit_blocking(async { 3 * 3 }).unwrap();
    assert_eq!(handle.wait().unwrap(), 9);
    let named = pool.task("named").wait_at_most(LONG).submit_blocking(|_| async { 7 });
    assert_eq!(named.unwrap().wait().unwrap(), 7);

    let (group, sum) = (pool.group().limit(2).start::<()>(), Arc::new(AtomicU64::new(0)));
    for n in 0..50 {
        let sum = Arc::clone(&sum);
        let member = async move {
            tokio::time::sleep(Duration::from_micros(1)).await; // it has the runtime
            sum.fetch_add(n, SeqCst);
            Ok(())
        };
        group.submit_blocking(member).unwrap();
        assert!(group.unsettled() <= 2);
    }
    group.wait_blocking().unwrap();
    assert_eq!(sum.load(SeqCst), 1_225);
    pool.wait_idle_blocking().unwrap();
    assert_eq!(pool.snapshot().completed, 52);
}

#[test]
fn a_pool_of_futures_is_used_from_a_plain_thread() {
    on_each(|| async {
        let pool = pool();
        let own = pool.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            uses(&own);
            tell.send(own.shutdown_blocking(Shutdown::default())).unwrap();
        });
        let report = told.await.unwrap().unwrap();
        assert!(report.is_success(), "{report}");
        thread.join().unwrap();
    });
}

#[test]
fn a_pool_of_futures_is_used_from_spawn_blocking() {
    on_each(|| async {
        let pool = pool();
        let own = pool.clone();
        let report = spawn_blocking(move || {
            uses(&own);
            own.shutdown_blocking(Shutdown::default())
        });
        let report = report.await.unwrap().unwrap();
        assert!(report.is_success(), "{report}");
    });
}

/// There is none on a current-thread runtime.
#[test]
fn a_pool_of_futures_is_used_from_block_in_place() {
    let [_, (_, runtime)] = runtimes();
    runtime.block_on(async {
        let pool = pool();
        let own = pool.clone();
        let report = tokio::spawn(async move {
            block_in_place(|| {
                uses(&own);
                own.shutdown_blocking(Shutdown::default())
            })
        });
        let report = tokio::time::timeout(LONG, report).await.expect("it hangs").unwrap().unwrap();
        assert!(report.is_success(), "{report}");
    });
}

#[test]
fn g1_a_blocking_wait_gives_what_an_awaited_one_gives() {
    on_each(|| async {
        let pool = pool();
        let failing = pool.group().start::<&str>();
        let own = failing.clone();
        let waited = spawn_blocking(move || {
            own.submit_blocking(async { Err("first") }).unwrap();
            own.wait_blocking()
        });
        assert_eq!(waited.await.unwrap().unwrap_err().to_string(), "the task failed: first");
        assert!(matches!(failing.wait_blocking(), Err(GroupError::AlreadyTaken)));
        let late = failing.submit_blocking(async { Ok(()) }).unwrap_err();
        assert_eq!(late.reason(), Reason::Cancelled, "it has ended");

        let panics = pool.group().start::<&str>();
        let waited = spawn_blocking(move || {
            panics.submit_blocking(async { panic!("loud") }).unwrap();
            panics.wait_blocking()
        });
        let payload = waited.await.unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"loud"), "it goes on here");
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

#[test]
fn g1_a_thread_that_waits_for_a_slot_or_for_a_group_is_released() {
    on_each(|| async {
        let pool = pool();
        let group = pool.group().limit(1).start::<()>();
        group.submit(pending()).await.unwrap();
        let (own, twin) = (group.clone(), group.clone());
        let slot =
            spawn_blocking(move || own.submit_blocking(async { Ok(()) }).map_err(|r| r.reason()));
        let end = spawn_blocking(move || twin.wait_blocking());
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        group.cancel();
        assert_eq!(slot.await.unwrap(), Err(Reason::Cancelled));
        end.await.unwrap().expect("to be cancelled is no failure");
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

/// The thread polls it, and the runtime is found all the same.
#[test]
fn a_member_runs_on_the_thread_that_submits_it_under_caller_runs() {
    on_each(|| async {
        let pool = quiet("full").workers(1).queue(1).when_full(WhenFull::CallerRuns);
        let pool = pool.build_async().unwrap();
        let gate = Arc::new(Notify::new());
        let waits = Arc::clone(&gate);
        pool.try_spawn(async move { waits.notified().await }).unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        pool.try_spawn(async {}).unwrap(); // and it is full
        let group = pool.group().limit(1).start::<()>();
        let own = group.clone();
        let here = spawn_blocking(move || {
            let member = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(())
            };
            own.submit_blocking(member).unwrap();
            own.unsettled()
        });
        assert_eq!(here.await.unwrap(), 0, "it has ended when it is submitted");
        assert_eq!(pool.snapshot().on_caller, 1);
        gate.notify_one();
        group.wait().await.unwrap();
        pool.shutdown(Shutdown::default()).await.unwrap();
    });
}

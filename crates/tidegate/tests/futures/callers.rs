//! Futures that run where they were submitted (CallerRuns), with what they begin themselves.

use std::collections::HashSet;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tidegate::{AsyncPool, Shutdown, WhenFull};

use crate::kit::*;

/// Whatever is submitted now runs with its caller.
async fn full() -> AsyncPool {
    let builder = quiet("full").workers(1).queue(1).when_full(WhenFull::CallerRuns);
    let pool = builder.build_async().unwrap();
    pool.spawn(pending()).await.unwrap();
    while pool.snapshot().running == 0 {
        tokio::task::yield_now().await;
    }
    pool.spawn(async {}).await.unwrap();
    pool
}

async fn end(pool: AsyncPool) {
    let report = pool.shutdown(Shutdown::hard()).await.unwrap();
    assert!(report.is_success(), "{report}");
    pool.snapshot().check().unwrap();
}

/// Seven, by a group of one.
async fn fork_and_join(pool: AsyncPool) -> u32 {
    let group = pool.group().start::<&str>();
    let seven = Arc::new(AtomicU32::new(0));
    let result = Arc::clone(&seven);
    let member = group.submit(async move {
        tokio::task::yield_now().await;
        result.store(7, SeqCst);
        Ok(())
    });
    member.await.unwrap();
    group.wait().await.unwrap();
    seven.load(SeqCst)
}

#[test]
fn a_future_with_its_caller_forks_and_joins() {
    on_each(|| async {
        let pool = full().await;
        let here = pool.submit(fork_and_join(pool.clone())).await.unwrap();
        assert!(here.is_settled());
        assert_eq!(here.await.unwrap(), 7);
        let own = pool.clone();
        let thread = tokio::task::spawn_blocking(move || {
            own.submit_blocking(fork_and_join(own.clone())).unwrap().wait().unwrap()
        });
        assert_eq!(thread.await.unwrap(), 7, "on a thread that blocks");
        assert_eq!(pool.snapshot().on_caller, 2);
        end(pool).await;
    });
}

#[test]
fn it_finds_the_runtime_of_the_pool_wherever_it_is_polled() {
    on_each(|| async {
        let pool = full().await;
        let own = pool.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut here = pin!(own.submit(tokio_sleep()));
            let handle = loop {
                if let Poll::Ready(handle) = poll_once(here.as_mut()) {
                    break handle.unwrap();
                }
                std::thread::yield_now();
            };
            tell.send(handle).unwrap();
        });
        told.await.unwrap().await.unwrap();
        end(pool).await;
    });
}

async fn tokio_sleep() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn what_it_began_can_be_cancelled_and_has_its_limits() {
    on_each(|| async {
        let pool = full().await;
        let outer = {
            let pool = pool.clone();
            async move {
                let in_time = pool.group().deadline(Duration::from_millis(20)).start::<&str>();
                in_time.submit(async { pending().await }).await.unwrap();
                assert!(in_time.wait().await.unwrap_err().first().unwrap().is_timed_out());

                let cancelled = Arc::new(pool.group().start::<&str>());
                cancelled.submit(async { pending().await }).await.unwrap();
                let other = Arc::clone(&cancelled);
                let thread = tokio::task::spawn_blocking(move || other.cancel());
                cancelled.wait().await.unwrap(); // to be cancelled is no failure of a group
                thread.await.unwrap();
            }
        };
        pool.submit(outer).await.unwrap().await.unwrap();
        end(pool).await;
    });
}

#[test]
fn hazard_68_a_caller_that_is_dropped_with_its_task_gives_the_cell_back() {
    const MANY: usize = 2_000;
    on_each(|| async {
        let pool = full().await;
        let cells = Arc::new(Mutex::new(HashSet::new()));
        for _ in 0..MANY {
            let seen = Arc::clone(&cells);
            let task = pool.task("dropped").submit(move |cx| {
                let id = cx.task_id().to_string(); // the cell, and its life
                seen.lock().unwrap().insert(id.split('-').next().unwrap().to_owned());
                pending::<()>()
            });
            assert!(poll_once(pin!(task)).is_pending());
            tokio::task::yield_now().await; // each submission takes of tokio's budget
        }
        let cells = cells.lock().unwrap().len();
        assert!(cells < MANY / 4, "{cells} cells for {MANY} tasks, one at a time");
        assert_eq!(pool.snapshot().cancelled, MANY as u64);
        end(pool).await;
    });
}

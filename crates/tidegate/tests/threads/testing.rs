//! What the library offers to the tests of its users.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate::{Clock, Pool, Reason, Shutdown, Snapshot};

const SECOND: Duration = Duration::from_secs(1);

fn inline() -> Pool {
    Pool::builder("inline").on_unobserved(|_| ()).build_inline().unwrap()
}

#[test]
fn an_inline_pool_runs_each_task_before_the_submit_returns() {
    let pool = inline();
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..100 {
        let order = Arc::clone(&order);
        let task = move || order.lock().unwrap().push((n, thread::current().id()));
        if n % 2 == 0 { pool.spawn(task).unwrap() } else { pool.submit(task).unwrap().detach() }
    }
    let here = thread::current().id();
    let expected: Vec<_> = (0..100).map(|n| (n, here)).collect();
    assert_eq!(*order.lock().unwrap(), expected);
    let now = pool.snapshot();
    assert_eq!((now.completed, now.on_caller), (100, 100));
    now.assert_drained();
    assert!(pool.shutdown(Shutdown::default()).unwrap().is_success());
}

#[test]
fn an_inline_pool_keeps_the_outcomes_of_any_pool() {
    let pool = inline();
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert!(pool.submit_result(|| Err::<(), _>("no")).unwrap().wait().unwrap_err().is_failed());
    assert!(pool.submit(|| panic!("boom")).unwrap().wait().unwrap_err().is_panicked());
    assert_eq!(pool.try_submit(|| ()).unwrap_err().reason(), Reason::Full);
    let now = pool.snapshot();
    assert_eq!((now.completed, now.failed, now.panicked, now.refused.full), (1, 1, 1, 1));
    pool.close();
    assert_eq!(pool.submit(|| ()).unwrap_err().reason(), Reason::Closed);
    pool.assert_drained();
}

#[test]
fn an_inline_pool_nests_groups_and_scopes() {
    let pool = inline();
    let own = pool.clone();
    let nested = pool.submit(move || own.submit(|| 3).unwrap().wait().unwrap() + 1).unwrap();
    assert_eq!(nested.wait().unwrap(), 4);
    let group = pool.group().start::<String>();
    group.submit(|_| Ok(())).unwrap();
    group.submit(|_| Err("second".to_owned())).unwrap();
    assert!(group.wait().unwrap_err().to_string().contains("second"));
    let mut sum = 0;
    pool.scope(|s| s.spawn(|| sum = 5).unwrap());
    assert_eq!(sum, 5);
    pool.assert_drained();
}

#[test]
fn a_limit_on_an_inline_pool_follows_the_hand_of_the_test() {
    let (clock, hand) = Clock::manual();
    let pool = Pool::builder("timed").clock(clock).build_inline().unwrap();
    let own = hand.clone();
    let slow = pool.task("slow").timeout(SECOND).submit(move |_| own.advance(2 * SECOND)).unwrap();
    assert!(slow.wait().unwrap_err().is_timed_out());
    let quick = pool.task("quick").timeout(SECOND).submit(move |_| hand.advance(SECOND / 2));
    quick.unwrap().wait().unwrap();
    pool.assert_drained();
}

#[test]
fn what_is_left_is_named() {
    let pool = Pool::builder("left").workers(1).build().unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let (entered, enters) = mpsc::channel();
    let running = pool
        .submit(move || {
            entered.send(()).unwrap();
            opened.recv().is_err()
        })
        .unwrap();
    enters.recv().unwrap();
    let queued = pool.submit(|| ()).unwrap();
    let own = pool.clone();
    let panic = thread::spawn(move || own.assert_drained()).join().unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert_eq!(message, "pool \"left\" is not drained: 1 queued, 1 running");
    drop(open);
    assert!(running.wait().unwrap());
    queued.wait().unwrap();
    pool.wait_idle().unwrap();
    pool.assert_drained();
}

#[test]
fn a_lost_task_and_a_waiting_submitter_are_named() {
    let mut lost = Snapshot::default();
    lost.assert_drained();
    (lost.accepted, lost.waiting_submitters) = (3, 2);
    let panic = thread::spawn(move || lost.assert_drained()).join().unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("2 submitters waiting, 3 of 3 accepted tasks lost"), "{message}");
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_pool_of_futures_follows_a_paused_clock_and_drains() {
    let pool = tidegate::AsyncPool::builder("paused").workers(2).build_async().unwrap();
    let hour = 3_600 * SECOND;
    let late = pool.task("late").timeout(hour).submit(|_| std::future::pending::<()>());
    let late = late.await.unwrap();
    let began = tokio::time::Instant::now();
    assert!(late.await.unwrap_err().is_timed_out());
    assert!(began.elapsed() >= hour);
    pool.wait_idle().await.unwrap();
    pool.assert_drained();
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_rate_goes_by_the_clock_of_its_budget() {
    let (clock, hand) = Clock::manual();
    let rate = tidegate::Budget::per_second("rate", 1).with_clock(clock);
    let pool = tidegate::AsyncPool::builder("paused").workers(2).build_async().unwrap();
    let first = pool.task("first").budget(&rate, 1).submit(|_| async {});
    first.await.unwrap().await.unwrap();
    let second = pool.task("second").budget(&rate, 1).submit(|_| async { 2 });
    let mut second = std::pin::pin!(second);
    let hour = 3_600 * SECOND;
    assert!(tokio::time::timeout(hour, second.as_mut()).await.is_err(), "tokio's time refills it");
    hand.advance(SECOND);
    assert_eq!(second.await.unwrap().await.unwrap(), 2);
}

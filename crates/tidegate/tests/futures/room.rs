//! How room reaches futures that wait for it where it is told in batches: in queues of 64 or more,
//! of pools of futures and of threads.

use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{AsyncPool, Clock, Pool};
use tokio::sync::Semaphore;

use crate::kit::*;
use crate::sleeper::Sleeper;

/// The smallest queue whose places are not told one by one.
const PLACES: usize = 64;

/// One task runs and the queue is full; each task stays until it is let go.
async fn full(places: usize) -> (AsyncPool, Arc<Semaphore>) {
    let pool = quiet("batches").workers(1).queue(places).build_async().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let stays = || {
        let gate = Arc::clone(&gate);
        async move { gate.acquire().await.unwrap().forget() }
    };
    pool.try_spawn(stays()).unwrap();
    until(|| pool.snapshot().running == 1).await;
    for _ in 0..places {
        pool.try_spawn(stays()).unwrap();
    }
    (pool, gate)
}

async fn until(fact: impl Fn() -> bool) {
    while !fact() {
        tokio::task::yield_now().await;
    }
}

/// One place is too little to be told at once, and its worker has work for long.
#[test]
fn a_future_is_told_of_one_place_while_the_worker_is_busy() {
    on_each(|| async {
        let (pool, gate) = full(PLACES).await;
        let mut waits = Sleeper::new(Box::pin(pool.submit(async { 5 })));
        assert!(waits.poll().is_pending());
        for _ in 0..3 {
            // Twice a newcomer takes it: what comes after that is told as well.
            gate.add_permits(1);
            until(|| waits.is_woken()).await;
            if pool.snapshot().completed < 3 {
                pool.try_spawn(async {}).unwrap();
                assert!(waits.poll().is_pending());
            }
        }
        let Poll::Ready(accepted) = waits.poll() else { panic!("there is room") };
        gate.add_permits(PLACES);
        assert_eq!(accepted.unwrap().await.unwrap(), 5);
    });
}

/// Room comes all the time, and each time there is somebody to be told.
#[test]
fn hazard_79_an_idle_submission_holds_up_nobody_while_places_come_one_by_one() {
    on_each(|| async {
        const MANY: usize = 2_000;
        let (pool, gate) = full(MANY).await;
        let mut idle = Sleeper::new(Box::pin(pool.submit(async {})));
        let mut behind = Sleeper::new(Box::pin(pool.submit(async { 5 })));
        assert!(idle.poll().is_pending() && behind.poll().is_pending());
        let mut taken = 0;
        while !behind.is_woken() {
            taken += 1;
            assert!(taken < MANY / 2, "one that is not polled holds up who comes behind it");
            gate.add_permits(1);
            until(|| pool.snapshot().completed == taken as u64).await;
            // The next one is let go before a turn, which is 2 ms, is over.
            let began = Instant::now();
            until(|| began.elapsed() > Duration::from_millis(1)).await;
        }
        assert!(idle.is_woken(), "it was told first");
        let Poll::Ready(accepted) = behind.poll() else { panic!("it may take room") };
        gate.add_permits(2 * MANY);
        assert_eq!(accepted.unwrap().await.unwrap(), 5);
        assert!(idle.poll().is_ready());
    });
}

/// Threads that wait nap in real time whatever the pool's clock is; a future is not worse off.
#[test]
fn a_future_is_told_of_one_place_although_a_manual_clock_stands_still() {
    let (clock, _hands) = Clock::manual();
    let pool = Pool::builder("stands").workers(1).queue(PLACES).clock(clock).build().unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let stays = || {
        let gate = Arc::clone(&gate);
        move || gate.lock().unwrap().recv().unwrap()
    };
    pool.try_spawn(stays()).unwrap();
    let wait_until = |fact: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !fact() {
            assert!(began.elapsed() < LONG, "it hangs");
            thread::yield_now();
        }
    };
    wait_until(&|| pool.snapshot().running == 1);
    for _ in 0..PLACES {
        pool.try_spawn(stays()).unwrap();
    }
    let mut waits = Sleeper::new(Box::pin(pool.submit_async(|| 5)));
    assert!(waits.poll().is_pending());
    release.send(()).unwrap();
    wait_until(&|| waits.is_woken());
    let Poll::Ready(accepted) = waits.poll() else { panic!("there is room") };
    for _ in 0..PLACES {
        release.send(()).unwrap();
    }
    assert_eq!(accepted.unwrap().wait().unwrap(), 5);
}

/// A runtime whose clock moves on when it has nothing to do: not while a thread of its works.
fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}

/// Submits, and waits for it on a thread of the runtime's, while the clock stands still.
async fn is_let_in_while_time_stands_still(pool: &AsyncPool, gate: &Semaphore) {
    let (tell, told) = mpsc::channel();
    let (own, waiting) = (pool.clone(), pool.snapshot().waiting_submitters);
    let submits = tokio::spawn(async move {
        own.spawn(async {}).await.unwrap();
        tell.send(()).unwrap();
    });
    until(|| pool.snapshot().waiting_submitters > waiting).await;
    let before = tokio::time::Instant::now();
    gate.add_permits(1);
    let waits = tokio::task::spawn_blocking(move || told.recv_timeout(LONG));
    waits.await.unwrap().expect("nobody told it of room");
    assert_eq!(before.elapsed(), Duration::ZERO, "time went on");
    submits.await.unwrap();
}

#[test]
fn a_future_is_told_of_one_place_although_a_paused_clock_stands_still() {
    paused().block_on(async {
        let (pool, gate) = full(PLACES).await;
        is_let_in_while_time_stands_still(&pool, &gate).await;
    });
}

#[test]
fn hazard_79_an_idle_submission_holds_up_nobody_although_a_paused_clock_stands_still() {
    paused().block_on(async {
        let (pool, gate) = full(1).await;
        let mut idle = Sleeper::new(Box::pin(pool.submit(async {})));
        assert!(idle.poll().is_pending());
        is_let_in_while_time_stands_still(&pool, &gate).await;
    });
}

#[test]
fn a_future_is_told_of_one_place_before_paused_time_has_moved_on_by_a_second() {
    paused().block_on(async {
        let (pool, gate) = full(PLACES).await;
        let own = pool.clone();
        let submits = async move { tokio::time::timeout(SECOND, own.spawn(async {})).await };
        let submits = tokio::spawn(submits);
        until(|| pool.snapshot().waiting_submitters == 1).await;
        gate.add_permits(1);
        submits.await.unwrap().expect("there was room").unwrap();
    });
}

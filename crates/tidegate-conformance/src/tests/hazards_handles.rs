//! Known ways to fail: handles and wakers in odd hands, and somebody else's park tokens.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tidegate::Shutdown;

use crate::Ctx;
use crate::kit::{Gate, block_on, in_background, value};

pub(crate) fn hazard_42_a_handle_dropped_on_a_worker_or_by_its_own_task(cx: &Ctx) {
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    for _ in 0..100 {
        let (give, own) = mpsc::channel::<tidegate::Handle<()>>();
        let handle = pool.submit(move || drop(own.recv())).expect("there is room");
        give.send(handle).expect("the task listens");
        let other = pool.submit(|| 1).expect("there is room");
        pool.spawn(move || drop(other)).expect("there is room");
    }
    pool.wait_idle().expect("outside the pool");
    pool.snapshot().check().expect("no task was lost");
}

pub(crate) fn hazard_43_a_handle_moves_between_pollers(cx: &Ctx) {
    let pool = cx.builder().build().expect("the pool starts");
    for n in 0..50 {
        let gate = Gate::new();
        let passage = gate.passage();
        let offer = pool.submit(move || {
            passage.enter();
            n
        });
        let mut handle = offer.expect("there is room");
        gate.wait_until_entered(1);
        // Two polls with two wakers: the last one counts.
        for _ in 0..2 {
            let (waker, _) = counting_waker();
            let pending =
                std::pin::Pin::new(&mut handle).poll(&mut std::task::Context::from_waker(&waker));
            assert!(pending.is_pending());
        }
        let elsewhere = in_background(move || block_on(handle).ok());
        gate.open();
        assert_eq!(elsewhere.join(), Some(n), "the waker of the last poll was not woken");
    }
}

fn counting_waker() -> (std::task::Waker, Arc<AtomicU64>) {
    struct Count(Arc<AtomicU64>);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let count = Arc::new(AtomicU64::new(0));
    (Arc::new(Count(Arc::clone(&count))).into(), count)
}

pub(crate) fn hazard_78_user_code_may_park_and_unpark(cx: &Ctx) {
    let pool = cx.builder().queue(10).build().expect("the pool starts");
    let done = Arc::new(AtomicBool::new(false));
    let waiter = thread::current();
    let pest = {
        let done = Arc::clone(&done);
        in_background(move || {
            while !done.load(SeqCst) {
                waiter.unpark();
                thread::yield_now();
            }
        })
    };
    for n in 0..500 {
        // The task eats and leaves park tokens on its worker; somebody else ours.
        let handle = pool.submit(move || {
            thread::current().unpark();
            thread::park();
            thread::current().unpark();
            n
        });
        assert_eq!(value(handle.expect("there is room")), n);
    }
    done.store(true, SeqCst);
    pest.join();
}

pub(crate) fn hazard_81_waiters_leave_while_being_told(cx: &Ctx) {
    // The waiter's stack frame is gone the moment it is told: whoever tells it
    // must not touch it any more. Meaningful under a sanitizer.
    let pool = cx.builder().queue(100).build().expect("the pool starts");
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            in_background(move || {
                for n in 0..500 {
                    let mut handle = pool.submit(move || n).expect("there is room");
                    match n % 3 {
                        0 => assert_eq!(value(handle), n),
                        1 => drop(handle.wait_timeout(Duration::from_nanos(n))),
                        _ => drop(handle.try_take()),
                    }
                }
            })
        })
        .collect();
    waiters.into_iter().for_each(|waiter| waiter.join());
    pool.shutdown(Shutdown::light()).expect("outside the pool");
    pool.snapshot().check().expect("no task was lost");
}

//! Thread pools from async code: room is awaited, on any runtime.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tidegate::{
    Budget, Builder, Clock, Inside, Pool, Reason, Refused, Shutdown, TaskError, Token, WhenFull,
};

use crate::block_on::*;
use crate::gate::Gate;

/// As a hang detector only.
const LONG: Duration = Duration::from_secs(60);

/// One worker that waits at the gate, and a full queue of one.
fn full(when_full: WhenFull) -> (Pool, Gate) {
    fill(Pool::builder("full").when_full(when_full))
}

fn fill(builder: Builder) -> (Pool, Gate) {
    let pool = builder.workers(1).queue(1).on_unobserved(|_| ()).build().unwrap();
    let gate = Gate::hold(&pool).unwrap();
    pool.try_spawn(|| ()).unwrap();
    (pool, gate)
}

/// Many more than there are places, each awaited; what they gave.
async fn squares(pool: &Pool) -> u64 {
    let mut handles = Vec::new();
    for n in 0..500_u64 {
        handles.push(pool.submit_async(move || n * n).await.unwrap());
    }
    let mut sum = 0;
    for handle in handles {
        sum += handle.await.unwrap();
    }
    sum
}

#[test]
fn room_is_awaited_on_any_runtime() {
    let expected = (0..500).map(|n| n * n).sum::<u64>();
    for queue in [0, 1, 100] {
        let pool = Pool::builder("any").workers(2).queue(queue).build().unwrap();
        assert_eq!(block_on(squares(&pool)), expected, "on a bare executor");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let squares = async { tokio::time::timeout(LONG, squares(&pool)).await.expect("it hangs") };
        assert_eq!(runtime.block_on(squares), expected, "on tokio");
        let report = block_on(pool.shutdown_async(Shutdown::default())).unwrap();
        assert!(report.is_success(), "{report}");
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.completed, now.refused.total()), (1_000, 1_000, 0));
    }
}

#[test]
fn the_future_may_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let (pool, gate) = full(WhenFull::Wait);
    let own = pool.clone();
    let mut waits = Box::pin(async move { own.submit_async(|| 7).await.unwrap().await.unwrap() });
    is_send(&waits);
    assert!(poll_once(waits.as_mut()).is_pending());
    let elsewhere = thread::spawn(move || block_on(waits));
    gate.open();
    assert_eq!(elsewhere.join().unwrap(), 7);
}

#[test]
fn r5_futures_and_blocked_threads_get_room_in_the_order_in_which_they_came() {
    // By a clock that stands still: a future that is not polled in time lets others pass.
    let (pool, gate) = fill(Pool::builder("full").clock(Clock::manual().0));
    let (tell, order) = mpsc::channel();
    let mut threads = Vec::new();
    for n in 0..6 {
        let (pool, tell) = (pool.clone(), tell.clone());
        let before = pool.snapshot().waiting_submitters;
        let body = move || tell.send(n).unwrap();
        let own = pool.clone();
        threads.push(thread::spawn(move || match n % 2 {
            0 => block_on(own.submit_async(body)).unwrap().detach(),
            _ => own.submit(body).unwrap().detach(),
        }));
        wait_until(|| pool.snapshot().waiting_submitters > before);
    }
    gate.open();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    pool.wait_idle().unwrap();
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn hazard_68_dropped_while_it_waits_it_holds_nothing_and_gives_its_turn_on() {
    let (pool, gate) = full(WhenFull::Wait);
    let dropped = Arc::new(());
    let captured = Arc::clone(&dropped);
    let mut waits = Box::pin(pool.submit_async(move || drop(captured)));
    assert!(poll_once(waits.as_mut()).is_pending());
    assert_eq!(Arc::strong_count(&dropped), 2);
    let own = pool.clone();
    let behind = thread::spawn(move || own.submit(|| 1).unwrap().wait().unwrap());
    wait_until(|| pool.snapshot().waiting_submitters == 2);
    gate.open();
    drop(waits);
    assert_eq!(Arc::strong_count(&dropped), 1, "its closure went with it");
    assert_eq!(behind.join().unwrap(), 1);
    pool.wait_idle().unwrap();
    let now = pool.snapshot();
    assert_eq!((now.accepted, now.waiting_submitters), (3, 0), "it was never accepted");
    assert_eq!(now.refused.total(), 0, "nor refused");
    now.check().unwrap();
}

#[test]
fn hazard_79_one_that_is_not_polled_holds_up_nobody() {
    let (pool, gate) = full(WhenFull::Wait);
    let mut idle = pin!(pool.submit_async(|| ()));
    assert!(poll_once(idle.as_mut()).is_pending());
    let own = pool.clone();
    let behind = thread::spawn(move || own.submit(|| 1).unwrap().wait().unwrap());
    wait_until(|| pool.snapshot().waiting_submitters == 2);
    gate.open();
    assert_eq!(behind.join().unwrap(), 1);
    for _ in 0..10 {
        pool.submit(|| ()).unwrap().wait().unwrap();
    }
    block_on(block_on(idle).unwrap()).unwrap();
}

/// Newcomers may pass by, but not for ever; and for one that is not polled nobody is kept out.
#[test]
fn room_is_kept_for_a_future_that_many_have_passed_by() {
    let (clock, hands) = Clock::manual();
    let pool = Pool::builder("kept").workers(1).queue(1).clock(clock).build().unwrap();
    let gate = Gate::hold(&pool).unwrap();
    pool.try_spawn(|| ()).unwrap();
    let mut waits = pin!(pool.submit_async(|| ()));
    assert!(poll_once(waits.as_mut()).is_pending());
    gate.open();
    pool.wait_idle().unwrap();
    let gate = Gate::hold(&pool).expect("it may pass by");
    pool.try_spawn(|| ()).expect("so may this one");
    assert!(poll_once(waits.as_mut()).is_pending(), "too late again");
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(reason(pool.try_spawn(|| ())), Some(Reason::Full), "room is kept");
    hands.advance(Duration::from_millis(5));
    wait_until(|| pool.try_spawn(|| ()).is_ok()); // it did not come for it
    pool.wait_idle().unwrap();
    pool.submit(|| ()).unwrap().wait().unwrap();
    block_on(block_on(waits).unwrap()).unwrap();
}

#[test]
fn a_shutdown_releases_it_and_the_closure_comes_back() {
    let (pool, gate) = full(WhenFull::Wait);
    let (own, twin) = (pool.clone(), pool.clone());
    let waits = thread::spawn(move || block_on(own.submit_async(|| 7)).map(drop));
    wait_until(|| pool.snapshot().waiting_submitters == 1);
    let closing = thread::spawn(move || twin.shutdown(Shutdown::light()).unwrap());
    let refused = waits.join().unwrap().unwrap_err();
    assert_eq!(refused.reason(), Reason::Closed);
    assert_eq!(refused.into_work()(), 7);
    gate.open();
    assert!(closing.join().unwrap().is_success());
    let late = block_on(pool.submit_async(|| ())).map(drop).unwrap_err();
    assert_eq!(late.reason(), Reason::Closed);
}

fn reason<F>(result: Result<impl Sized, Refused<F>>) -> Option<Reason> {
    result.map_err(|refused| refused.reason()).err()
}

#[test]
fn r5_policies_that_do_not_wait_decide_at_once() {
    let (pool, gate) = full(WhenFull::Reject);
    assert_eq!(reason(block_on(pool.submit_async(|| ()))), Some(Reason::Full));
    gate.open();

    let (pool, gate) = full(WhenFull::DropNewest);
    let newest = block_on(pool.submit_async(|| ())).unwrap();
    assert!(matches!(block_on(newest), Err(TaskError::Evicted)));
    gate.open();

    let (pool, gate) = full(WhenFull::DropOldest);
    let own = block_on(pool.submit_async(|| 1)).unwrap();
    gate.open();
    assert_eq!(block_on(own).unwrap(), 1);
    assert_eq!(pool.snapshot().evicted, 1);

    let short = Duration::from_millis(2);
    let (pool, gate) = full(WhenFull::WaitFor(short));
    assert_eq!(reason(block_on(pool.submit_async(|| ()))), Some(Reason::TimedOut));
    gate.open();
}

/// §10: a closure that may block does not run inside a poll.
#[test]
fn caller_runs_awaits_room_instead() {
    let (pool, gate) = full(WhenFull::CallerRuns);
    let here = thread::current().id();
    let mut waits = pin!(pool.submit_async(move || thread::current().id() != here));
    assert!(poll_once(waits.as_mut()).is_pending());
    gate.open();
    assert!(block_on(async { waits.await.unwrap().await.unwrap() }));
    assert_eq!(pool.snapshot().on_caller, 0);
}

#[test]
fn a_limit_a_deadline_and_a_token_end_the_wait() {
    let (pool, gate) = full(WhenFull::Wait);
    let short = Duration::from_millis(2);
    let limited = block_on(pool.task("t").wait_at_most(short).submit_async(|_| ()));
    assert_eq!(reason(limited), Some(Reason::TimedOut));
    let past = std::time::Instant::now();
    let late = block_on(pool.task("t").wait_until(past).submit_result_async(|_| Ok::<_, ()>(1)));
    assert_eq!(reason(late), Some(Reason::TimedOut));
    let (token, own) = (Token::new(), pool.clone());
    let twin = token.clone();
    let cancelled = thread::spawn(move || {
        reason(block_on(own.task("t").cancel_with(&twin).submit_async(|_| ())))
    });
    wait_until(|| pool.snapshot().waiting_submitters == 1);
    token.cancel();
    assert_eq!(cancelled.join().unwrap(), Some(Reason::Cancelled));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.snapshot().waiting_submitters, 0);
}

#[test]
fn b1_budgets_are_awaited_and_come_back() {
    let pool = Pool::builder("memory").workers(2).build().unwrap();
    let memory = Budget::new("memory", 4);
    let held = memory.try_acquire(3).unwrap();
    let mut waits = pin!(pool.task("big").budget(&memory, 2).submit_async(|_| 1));
    assert!(poll_once(waits.as_mut()).is_pending());
    {
        let mut gone = pin!(pool.task("big").budget(&memory, 1).submit_async(|_| 2));
        assert!(poll_once(gone.as_mut()).is_pending(), "behind the first");
    }
    drop(held);
    assert_eq!(block_on(async { waits.await.unwrap().await.unwrap() }), 1);
    pool.wait_idle().unwrap();
    assert_eq!(memory.available(), 4);
}

#[test]
fn r8_inside_a_task_of_the_pool_it_never_waits() {
    for (inside, expected) in
        [(Inside::Refuse, Err(Reason::WouldDeadlock)), (Inside::RunInline, Ok(7))]
    {
        let pool =
            Pool::builder("r8").workers(1).queue(1).when_full_inside(inside).build().unwrap();
        let own = pool.clone();
        let outer = pool.submit(move || {
            own.try_spawn(|| ()).unwrap();
            let inner = block_on(own.submit_async(|| 7)).map_err(|refused| refused.reason())?;
            Ok(block_on(inner).unwrap())
        });
        assert_eq!(outer.unwrap().wait().unwrap(), expected);
    }
}

/// With worker state, large captures, an error, and without a handle.
#[test]
fn all_forms_are_awaited() {
    let pool = Pool::builder("forms").workers(1).queue(1).worker_state(|_| 40_u64);
    let pool = pool.build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    block_on(async {
        for n in 0..20 {
            let large = [n; 100];
            let own = Arc::clone(&seen);
            pool.spawn_async(move || own.lock().unwrap().push(large[99])).await.unwrap();
            let failed = pool.submit_result_async(|| Err::<(), _>("no")).await.unwrap();
            let task = pool.task("state").submit_with_async(|state, _| *state + 2).await.unwrap();
            assert!(matches!(failed.await, Err(TaskError::Failed("no"))));
            assert_eq!(task.await.unwrap(), 42);
            ran.fetch_add(3, SeqCst);
        }
    });
    pool.wait_idle().unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert_eq!(pool.snapshot().accepted, ran.load(SeqCst) as u64);
}

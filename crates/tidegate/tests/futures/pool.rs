//! Pools of futures: what is special about them. The contract as a whole is the suite's.
#![allow(clippy::assertions_on_constants, reason = "to panic with a message")]

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use tidegate::{Budget, Cause, Reason, Shutdown, TaskError, Token, Verdict, WaitError, WhenFull};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

use crate::kit::*;
use crate::sleeper::Sleeper;

#[test]
fn a_future_gives_its_value_error_or_panic() {
    on_each(|| async {
        let pool = quiet("ends").workers(2).build_async().unwrap();
        let value = pool.submit(async { 7 }).await.unwrap();
        let error = pool.submit_result(async { Err::<(), _>("no") }).await.unwrap();
        let panic = pool.submit(async { assert!(false, "oh") }).await.unwrap();
        assert_eq!(value.await.unwrap(), 7);
        assert!(matches!(error.await, Err(TaskError::Failed("no"))));
        match panic.await {
            Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), "oh"),
            other => panic!("{other:?}"),
        }
        let report = pool.shutdown(Shutdown::default()).await.unwrap();
        assert!(report.is_success(), "{report}");
        let now = pool.snapshot();
        assert_eq!((now.completed, now.failed, now.panicked), (1, 1, 1));
        now.check().unwrap();
    });
}

#[test]
fn as_many_run_as_there_are_workers_and_as_many_wait_as_there_are_places() {
    on_each(|| async {
        let pool = quiet("bound").workers(3).queue(2).build_async().unwrap();
        let (running, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let task = || {
            let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
            async move {
                running.fetch_add(1, SeqCst);
                gate.notified().await;
            }
        };
        for n in 1..=3 {
            pool.submit(task()).await.unwrap().detach();
            while running.load(SeqCst) < n {
                tokio::task::yield_now().await;
            }
        }
        pool.try_submit(task()).unwrap().detach();
        pool.try_spawn(task()).unwrap();
        let refused = pool.try_submit(task()).unwrap_err();
        assert_eq!(refused.reason(), Reason::Full);
        drop(refused.into_work());
        let mut fourth = pin!(pool.submit(task()));
        assert!(poll_once(fourth.as_mut()).is_pending(), "there is no room");
        assert_eq!(pool.snapshot().waiting_submitters, 1);
        gate.notify_waiters();
        fourth.await.unwrap().detach();
        while pool.snapshot().running > 0 || pool.snapshot().queued > 0 {
            gate.notify_waiters();
            tokio::task::yield_now().await;
        }
        pool.wait_idle().await.unwrap();
        assert_eq!(pool.snapshot().completed, 6);
    });
}

#[test]
fn hazard_68_a_dropped_submission_holds_no_place_and_takes_its_future_along() {
    on_each(|| async {
        let pool = quiet("dropped").workers(1).queue(1).build_async().unwrap();
        let gate = Arc::new(Notify::new());
        let hold = Arc::clone(&gate);
        let first = pool.submit(async move { hold.notified().await }).await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        let second = pool.submit(async {}).await.unwrap();
        let drops = Drops::default();
        let counted = drops.clone();
        {
            let mut waits = pin!(pool.submit(async move { drop(counted) }));
            assert!(poll_once(waits.as_mut()).is_pending());
        }
        assert_eq!(drops.0.load(SeqCst), 1, "its future went with it");
        assert_eq!(pool.snapshot().waiting_submitters, 0);
        gate.notify_one();
        first.await.unwrap();
        second.await.unwrap();
        pool.submit(async {}).await.unwrap().await.unwrap();
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.completed), (3, 3), "the dropped one was never accepted");
    });
}

#[test]
fn hazard_79_an_idle_submission_holds_up_nobody_behind_it() {
    on_each(|| async {
        let pool = quiet("idle").workers(1).queue(1).build_async().unwrap();
        let gate = Arc::new(Notify::new());
        let hold = Arc::clone(&gate);
        let first = pool.submit(async move { hold.notified().await }).await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        pool.spawn(async {}).await.unwrap();
        let mut idle = pin!(pool.submit(async {}));
        assert!(poll_once(idle.as_mut()).is_pending());
        let own = pool.clone();
        let behind = tokio::spawn(async move { own.submit(async { 5 }).await.unwrap().await });
        while pool.snapshot().waiting_submitters < 2 {
            tokio::task::yield_now().await;
        }
        gate.notify_one();
        first.await.unwrap();
        // Nobody polls the first in line.
        assert_eq!(behind.await.unwrap().unwrap(), 5);
        idle.await.unwrap().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn limits_follow_the_paused_clock_of_tokio() {
    let pool = quiet("limits").workers(1).build_async().unwrap();
    let began = Instant::now();
    let drops = Drops::default();
    let counted = drops.clone();
    let task = pool.task("slow").timeout(SECOND).submit(|_| async move {
        let _counted = counted;
        pending::<()>().await;
    });
    let running = task.await.unwrap();
    let queued = pool.task("queued").queue_timeout(SECOND / 2).submit(|_| async {}).await.unwrap();
    assert!(queued.await.unwrap_err().is_timed_out());
    assert!(began.elapsed() >= SECOND / 2 && began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(running.await.unwrap_err().is_timed_out());
    assert!(began.elapsed() >= SECOND && began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    assert_eq!(drops.0.load(SeqCst), 1, "it was dropped, not abandoned");
    let now = pool.snapshot();
    assert_eq!((now.timed_out, now.abandoned), (2, 0));
    // An hour passes at once, and the pool is as it was.
    sleep(3600 * SECOND).await;
    assert_eq!(pool.submit(async { 3 }).await.unwrap().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_room_ends_in_time() {
    let policy = WhenFull::WaitFor(SECOND);
    let pool = quiet("patience").workers(1).queue(1).when_full(policy).build_async().unwrap();
    pool.spawn(pending()).await.unwrap();
    while pool.snapshot().running == 0 {
        tokio::task::yield_now().await;
    }
    pool.spawn(async {}).await.unwrap();
    let began = Instant::now();
    let refused = pool.submit(async {}).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::TimedOut);
    assert!(began.elapsed() >= SECOND && began.elapsed() < SECOND + SECOND / 10);
    let token = Token::new();
    let later = token.clone();
    tokio::spawn(async move {
        sleep(SECOND / 2).await;
        later.cancel();
    });
    let refused = pool.task("t").cancel_with(&token).submit(|_| async {}).await.unwrap_err();
    assert_eq!(refused.reason(), Reason::Cancelled);
    pool.shutdown(Shutdown::hard()).await.unwrap();
}

#[test]
fn a_cancelled_future_is_dropped_at_its_next_await() {
    on_each(|| async {
        let pool = quiet("cancel").workers(2).build_async().unwrap();
        let drops = Drops::default();
        let (counted, (begins, begun)) = (drops.clone(), oneshot::channel());
        let task = pool.submit(async move {
            let _counted = counted;
            begins.send(()).unwrap();
            pending::<()>().await;
        });
        let task = task.await.unwrap();
        begun.await.unwrap();
        assert!(task.cancel());
        match task.await {
            Err(TaskError::Cancelled { cause: Cause::Handle, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(drops.0.load(SeqCst), 1);
        let token = Token::new();
        let task = pool.task("t").cancel_with(&token).submit(|_| pending::<()>()).await.unwrap();
        token.cancel();
        assert!(task.await.unwrap_err().is_cancelled());
        pool.wait_idle().await.unwrap();
        pool.snapshot().check().unwrap();
    });
}

struct PanicsInDrop;
impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[test]
fn panics_in_polls_and_in_drops_are_outcomes() {
    on_each(|| async {
        let pool = quiet("panics").workers(1).build_async().unwrap();
        let bomb = PanicsInDrop;
        let ready = pool.submit(async move {
            let _bomb = bomb;
            1
        });
        assert!(ready.await.unwrap().await.unwrap_err().is_panicked());
        let bomb = PanicsInDrop;
        let (begins, begun) = oneshot::channel();
        let stopped = pool.submit(async move {
            let _bomb = bomb;
            begins.send(()).unwrap();
            pending::<()>().await;
        });
        let stopped = stopped.await.unwrap();
        begun.await.unwrap();
        stopped.cancel();
        assert!(stopped.await.unwrap_err().is_panicked());
        assert_eq!(pool.submit(async { 2 }).await.unwrap().await.unwrap(), 2, "the worker lives");
        assert_eq!(pool.snapshot().live_workers, 1);
    });
}

#[test]
fn hazard_79_who_was_passed_over_once_is_told_again() {
    on_each(|| async {
        let pool = quiet("again").workers(1).queue(1).build_async().unwrap();
        let gates = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let waits = |gate: &Arc<Notify>| {
            let gate = Arc::clone(gate);
            async move { gate.notified().await }
        };
        pool.spawn(waits(&gates[0])).await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        pool.spawn(waits(&gates[1])).await.unwrap();
        let mut idle = pin!(pool.submit(async {}));
        assert!(poll_once(idle.as_mut()).is_pending());
        let mut second = Sleeper::new(Box::pin(pool.submit(async { 5 })));
        assert!(second.poll().is_pending());
        // Room: the first is told and does not come, so the second is; a newcomer is faster.
        gates[0].notify_one();
        while !second.is_woken() {
            tokio::task::yield_now().await;
        }
        pool.try_spawn(async {}).unwrap();
        assert!(second.poll().is_pending());
        gates[1].notify_one();
        let accepted = loop {
            tokio::task::yield_now().await;
            if let Poll::Ready(accepted) = second.poll_if_woken() {
                break accepted.unwrap();
            }
        };
        assert_eq!(accepted.await.unwrap(), 5);
        idle.await.unwrap().await.unwrap();
    });
}

#[test]
fn caller_runs_polls_the_future_inside_the_submission() {
    on_each(|| async {
        let builder = quiet("callers").workers(1).queue(1).when_full(WhenFull::CallerRuns);
        let pool = builder.build_async().unwrap();
        pool.spawn(pending()).await.unwrap();
        while pool.snapshot().running == 0 {
            tokio::task::yield_now().await;
        }
        pool.spawn(async {}).await.unwrap();
        let here = pool.submit(async {
            tokio::task::yield_now().await;
            4
        });
        let handle = here.await.unwrap();
        assert!(handle.is_settled());
        assert_eq!(handle.await.unwrap(), 4);
        let drops = Drops::default();
        let counted = drops.clone();
        {
            let mut endless = pin!(pool.submit(async move {
                let _counted = counted;
                pending::<()>().await;
            }));
            assert!(poll_once(endless.as_mut()).is_pending());
        }
        assert_eq!(drops.0.load(SeqCst), 1);
        let now = pool.snapshot();
        assert_eq!((now.on_caller, now.cancelled), (2, 1), "{now}");
        pool.shutdown(Shutdown::hard()).await.unwrap();
        pool.snapshot().check().unwrap();
    });
}

#[test]
fn every_mode_of_shutdown() {
    on_each(|| async {
        for how in [Shutdown::light(), Shutdown::soft(), Shutdown::hard()] {
            let pool = quiet("modes").workers(1).queue(10).build_async().unwrap();
            let gate = Arc::new(Notify::new());
            let hold = Arc::clone(&gate);
            let running = pool.submit(async move { hold.notified().await }).await.unwrap();
            while pool.snapshot().running == 0 {
                tokio::task::yield_now().await;
            }
            let queued = pool.submit(async { 1 }).await.unwrap();
            let ended = pool.shutdown(how);
            assert_eq!(pool.submit(async {}).await.unwrap_err().reason(), Reason::Closed);
            if how.mode() != tidegate::Mode::Hard {
                gate.notify_one();
            }
            let (running, queued) = (running.await, queued.await);
            let report = ended.await.unwrap();
            assert!(report.is_success(), "{report}");
            match how.mode() {
                tidegate::Mode::Light => assert!(running.is_ok() && queued.is_ok()),
                tidegate::Mode::Soft => {
                    assert!(running.is_ok() && queued.unwrap_err().is_cancelled());
                }
                tidegate::Mode::Hard => {
                    assert!(running.unwrap_err().is_cancelled());
                    assert!(queued.unwrap_err().is_cancelled());
                }
            }
            pool.snapshot().check().unwrap();
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_drain_turns_hard_when_its_time_is_up() {
    let pool = quiet("within").workers(1).build_async().unwrap();
    let endless = pool.submit(pending::<()>()).await.unwrap();
    let began = Instant::now();
    let report = pool.shutdown(Shutdown::light().within(3 * SECOND)).await.unwrap();
    assert!(!report.is_success(), "the deadline was missed");
    assert!(began.elapsed() >= 3 * SECOND && began.elapsed() < 4 * SECOND);
    assert!(endless.await.unwrap_err().is_cancelled());
}

/// L4: what is stuck in one poll past the grace is given up, and dropped when its poll returns.
#[test]
fn hazard_73_a_poll_that_blocks_past_the_grace_is_abandoned() {
    for (_, runtime) in runtimes() {
        let handle = runtime.handle().clone();
        let driver = std::thread::spawn(move || {
            runtime.block_on(async { tokio::time::sleep(Duration::from_secs(3600)).await });
        });
        let pool = quiet("stuck").workers(1).grace(Duration::ZERO).build_async_on(&handle).unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (begins, begun) = std::sync::mpsc::channel();
        let drops = Drops::default();
        let counted = drops.clone();
        let stuck = pool.submit_blocking(async move {
            let _counted = counted;
            begins.send(()).unwrap();
            let _ = blocked.recv(); // blocks the thread
            pending::<()>().await;
        });
        let stuck = stuck.unwrap();
        begun.recv().unwrap();
        stuck.cancel();
        match stuck.wait() {
            Err(WaitError::Task(TaskError::Abandoned(Cause::Handle))) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(drops.0.load(SeqCst), 0, "its poll has not returned");
        drop(release);
        while pool.snapshot().late_returns == 0 {
            std::thread::yield_now();
        }
        assert_eq!(drops.0.load(SeqCst), 1, "it was dropped when its poll returned");
        let again = pool.submit_blocking(async { 9 }).unwrap();
        assert_eq!(again.wait().unwrap(), 9);
        pool.shutdown_blocking(Shutdown::default()).unwrap();
        drop(driver); // it sleeps on
    }
}

/// A future that awaits is no trouble, however long it does; one that blocks is, until it goes on.
#[test]
fn v3_blocked_reactor_when_a_poll_does_not_return() {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        let stop = Arc::new(Notify::new());
        let (handle, told) = (runtime.handle().clone(), Arc::clone(&stop));
        let driver = std::thread::spawn(move || runtime.block_on(told.notified()));
        let pool = quiet("blocks").workers(2).build_async_on(&handle).unwrap();
        while pool.snapshot().live_workers < 2 {
            std::thread::yield_now();
        }
        let waits = pool.submit_blocking(pending::<()>()).unwrap();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (begins, begun) = std::sync::mpsc::channel();
        let hash = pool.task("hash").submit_blocking(move |_| async move {
            tokio::task::yield_now().await; // not only the first poll counts
            begins.send(()).unwrap();
            let _ = blocked.recv(); // blocks the thread
        });
        let hash = hash.unwrap();
        begun.recv().unwrap();
        let began = pool.snapshot();
        while pool.snapshot().blocked_workers == 0 {
            std::thread::yield_now();
        }
        let now = pool.snapshot();
        assert_eq!(now.blocked_workers, 1, "who awaits is not blocked");
        let poll = now.longest_poll.unwrap();
        assert_eq!((poll.name, poll.id), ("hash", hash.id()));
        assert!(poll.lasts >= Duration::from_millis(100), "{poll}");
        let diagnosis = now.diagnose_since(&began);
        assert_eq!(diagnosis.verdict, Verdict::BlockedReactor, "{diagnosis}");
        assert_eq!(diagnosis.also, [], "{diagnosis}");
        let named = format!("the longest in hash {}, for ", hash.id());
        assert!(diagnosis.to_string().contains(&named), "{diagnosis}");
        drop(release);
        hash.wait().unwrap();
        let later = pool.snapshot();
        assert_eq!((later.blocked_workers, later.longest_poll), (0, None));
        let diagnosis = later.diagnose_since(&now);
        assert!(diagnosis.is_healthy(), "{diagnosis}");
        waits.cancel();
        pool.shutdown_blocking(Shutdown::default()).unwrap();
        stop.notify_one();
        driver.join().unwrap();
    }
}

/// Its outcome is known, and its poll keeps the runtime's thread all the same.
#[test]
fn v3_a_poll_that_was_given_up_still_blocks() {
    let [_, (_, runtime)] = runtimes();
    let handle = runtime.handle();
    let pool = quiet("both").workers(2).grace(Duration::ZERO).build_async_on(handle).unwrap();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (begins, begun) = std::sync::mpsc::channel();
    let deaf = pool.task("deaf").submit_blocking(move |_| async move {
        begins.send(()).unwrap();
        let _ = blocked.recv(); // blocks the thread
    });
    let deaf = deaf.unwrap();
    let id = deaf.id();
    begun.recv().unwrap();
    deaf.cancel();
    assert!(deaf.wait().is_err(), "it was given up");
    let is_replaced = || pool.snapshot().live_workers == 2;
    while pool.snapshot().blocked_workers == 0 || !is_replaced() {
        std::thread::yield_now();
    }
    let now = pool.snapshot();
    let poll = now.longest_poll.unwrap();
    assert_eq!((now.stuck, poll.name, poll.id), (1, "deaf", id));
    let diagnosis = pool.diagnose();
    assert_eq!(diagnosis.verdict, Verdict::BlockedReactor, "{diagnosis}");
    assert!(diagnosis.also.contains(&Verdict::Stuck), "{diagnosis}");
    drop(release);
    while pool.snapshot().stuck > 0 {
        std::thread::yield_now();
    }
    assert_eq!(pool.snapshot().blocked_workers, 0);
    pool.shutdown_blocking(Shutdown::default()).unwrap();
}

#[test]
fn a_pool_on_a_runtime_without_time_is_not_built() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = quiet("timeless").build_async_on(runtime.handle()).unwrap_err();
    assert!(error.to_string().contains("enable_time"), "{error}");
    let error = quiet("nowhere").build_async().unwrap_err();
    assert!(error.to_string().contains("build_async_on"), "{error}");
    let [(_, timed), _] = runtimes();
    let error = quiet("state").stack_size(1 << 20).build_async_on(timed.handle()).unwrap_err();
    assert!(error.to_string().contains("stack_size"), "{error}");
}

#[test]
fn budgets_are_awaited_and_come_back() {
    on_each(|| async {
        let pool = quiet("budget").workers(4).build_async().unwrap();
        let budget = Budget::new("two", 2);
        let gate = Arc::new(Notify::new());
        let hold = Arc::clone(&gate);
        let first = pool.task("a").budget(&budget, 2).submit(|_| async move {
            hold.notified().await;
        });
        let first = first.await.unwrap();
        let refused = pool.task("b").budget(&budget, 1).try_submit(|_| async {}).unwrap_err();
        assert_eq!(refused.reason(), Reason::OverBudget);
        {
            let mut waits = pin!(pool.task("c").budget(&budget, 1).submit(|_| async {}));
            assert!(poll_once(waits.as_mut()).is_pending());
        }
        let waits = pool.task("d").budget(&budget, 1).submit(|_| async { 8 });
        let mut waits = pin!(waits);
        assert!(poll_once(waits.as_mut()).is_pending());
        gate.notify_one();
        first.await.unwrap();
        assert_eq!(waits.await.unwrap().await.unwrap(), 8);
        assert_eq!(budget.available(), 2);
        let heavy = pool.task("e").budget(&budget, 3).submit(|_| async {}).await.unwrap_err();
        assert_eq!(heavy.reason(), Reason::TooHeavy);
    });
}

/// Nothing else would wake them: the budget stays taken.
#[test]
fn a_token_or_a_close_releases_who_waits_for_permits() {
    on_each(|| async {
        let pool = quiet("permits").workers(1).build_async().unwrap();
        let budget = Budget::new("one", 1);
        let _taken = budget.try_acquire(1).unwrap();
        let token = Token::new();
        let waits = |token: Token| {
            let (pool, budget) = (pool.clone(), budget.clone());
            tokio::spawn(async move {
                let task = pool.task("waits").budget(&budget, 1).cancel_with(&token);
                task.submit(|_| async {}).await.map(drop).unwrap_err().reason()
            })
        };
        let (told, closed_on) = (waits(token.clone()), waits(Token::new()));
        while budget.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        token.cancel();
        assert_eq!(told.await.unwrap(), Reason::Cancelled);
        pool.close();
        assert_eq!(closed_on.await.unwrap(), Reason::Closed);
        assert_eq!((budget.waiting(), pool.snapshot().waiting_submitters), (0, 0));
    });
}

#[test]
fn a_pool_of_many_workers_runs_many_at_once() {
    on_each(|| async {
        let pool = quiet("many").workers(5_000).queue(5_000).build_async().unwrap();
        let (running, gate) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
        let mut tasks = Vec::new();
        for _ in 0..5_000 {
            let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
            let task = async move {
                running.fetch_add(1, SeqCst);
                gate.acquire().await.unwrap().forget();
            };
            tasks.push(pool.submit(task).await.unwrap());
        }
        while running.load(SeqCst) < 5_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.snapshot().running, 5_000);
        gate.add_permits(5_000);
        for task in tasks {
            task.await.unwrap();
        }
        assert!(pool.shutdown(Shutdown::default()).await.unwrap().is_success());
    });
}

/// Hazard 72: a future that tokio makes yield (its budget is used up) is pending for a moment;
/// nobody takes that for an overload, and it is not lost.
#[test]
fn hazard_72_a_future_that_has_to_yield_goes_on() {
    on_each(|| async {
        let pool = quiet("coop").workers(1).queue(2).build_async().unwrap();
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        (0..10_000).for_each(|n| send.send(n).unwrap());
        drop(send);
        let busy = pool.submit(async move {
            let mut sum = 0;
            while let Some(n) = receive.recv().await {
                sum += n;
            }
            sum
        });
        let busy = busy.await.unwrap();
        for n in 0..200 {
            assert_eq!(pool.submit(async move { n }).await.unwrap().await.unwrap(), n);
        }
        assert_eq!(busy.await.unwrap(), 49_995_000);
        assert_eq!(pool.snapshot().refused.total(), 0);
    });
}

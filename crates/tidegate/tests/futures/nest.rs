//! Futures that are begun on top of each other: whose turn it is to begin one, what ends the wait
//! for a turn, and what is left of those who no longer wait. Whole trees of them, at random, are
//! in `trees.rs`.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use futures_util::poll;
use tidegate::{AsyncPool, Budget, Clock, Inside, ManualClock, Reason, Shutdown, Token, WhenFull};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

use crate::cut::until;
use crate::kit::*;
use crate::world::*;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// It stops at once, and nothing of it is left.
async fn ends_whole(pool: &AsyncPool) {
    let report = pool.shutdown(Shutdown::hard()).await.unwrap();
    let now = pool.snapshot();
    now.check().unwrap();
    assert_eq!((now.queued, now.running), (0, 0), "{now}");
    assert!(report.is_success(), "{report}");
}

// ---------------------------------------------------------------- whose turn it is

/// A task awaits one whose time in the queue is over before anybody has looked, and another.
fn beside_one_whose_time_is_over<F>(other: fn(AsyncPool) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_each(|| async move {
        let (clock, hands) = Clock::manual();
        let pool = quiet("over").workers(1).queue(10).clock(clock).build_async().unwrap();
        let own = pool.clone();
        let task = pool.submit(async move {
            let late = own.task("late").queue_timeout(SECOND).submit(|_| async {});
            let late = late.await.unwrap();
            hands.advance(2 * SECOND);
            let (late, ()) = tokio::join!(late, other(own));
            assert!(late.unwrap_err().is_timed_out());
        });
        task.await.unwrap().await.unwrap();
        ends_whole(&pool).await;
    });
}

#[test]
fn r9_a_target_whose_time_is_over_uses_up_no_turn() {
    beside_one_whose_time_is_over(|own| async move {
        let other = own.submit(async { 2 }).await.unwrap();
        assert_eq!(other.await.unwrap(), 2);
    });
}

#[test]
fn r9_a_target_whose_time_is_over_holds_up_no_wait_for_a_group() {
    beside_one_whose_time_is_over(|own| async move {
        let group = own.group().start::<()>();
        group.submit(async { Ok(()) }).await.unwrap();
        group.wait().await.unwrap();
    });
}

/// There is one thread: whoever does not let go of it is alone.
#[tokio::test]
async fn r9_a_task_that_awaits_its_own_pool_in_a_loop_lets_others_go_on() {
    const ENDLESS: usize = 100_000;
    let pool = quiet("loops").workers(1).queue(10).build_async().unwrap();
    let (own, others_have) = (pool.clone(), Arc::new(AtomicBool::new(false)));
    let (begins, begun) = oneshot::channel();
    let enough = Arc::clone(&others_have);
    tokio::spawn(async move {
        begun.await.unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        enough.store(true, SeqCst);
    });
    let task = pool.submit(async move {
        begins.send(()).unwrap();
        let mut rounds = 0;
        while !others_have.load(SeqCst) && rounds < ENDLESS {
            own.submit(async {}).await.unwrap().await.unwrap();
            rounds += 1;
        }
        rounds
    });
    let rounds = task.await.unwrap().await.unwrap();
    assert!(rounds < ENDLESS, "no other task went on");
    assert!(rounds > 0, "there was no loop");
    ends_whole(&pool).await;
}

// ---------------------------------------------------------------- what ends the wait for a turn

/// What a submission is told that waits for its turn: its task has begun one that does not end,
/// and there is no room. `then` happens once it waits; no time passes by itself.
async fn told_at_its_turn<F>(
    offers: impl FnOnce(AsyncPool) -> F + Send + 'static,
    then: impl FnOnce(&AsyncPool, &ManualClock),
) -> Result<(), Reason>
where
    F: Future<Output = Result<(), Reason>> + Send,
{
    let (clock, hands) = Clock::manual();
    let pool = quiet("turns").workers(1).queue(1).when_full_inside(Inside::RunInline);
    let pool = pool.clock(clock).build_async().unwrap();
    let (own, waits) = (pool.clone(), Arc::new(Notify::new()));
    let says_so = Arc::clone(&waits);
    let task = pool.submit(async move {
        own.spawn(async {}).await.unwrap(); // the queue is full
        own.spawn(pending()).await.unwrap(); // and this is on top
        let mut offered = pin!(offers(own));
        poll_fn(|cx| {
            let polled = offered.as_mut().poll(cx);
            if polled.is_pending() {
                says_so.notify_one();
            }
            polled
        })
        .await
    });
    let task = task.await.unwrap();
    waits.notified().await;
    then(&pool, &hands);
    let told = task.await.unwrap();
    ends_whole(&pool).await;
    told
}

#[test]
fn r4_a_token_ends_the_wait_for_a_turn() {
    on_each(|| async {
        let token = Token::new();
        let own = token.clone();
        let offers = |pool: AsyncPool| async move {
            let offered = pool.task("told").cancel_with(&own).submit(|_| async {}).await;
            offered.map(drop).map_err(|refused| refused.reason())
        };
        let told = told_at_its_turn(offers, |_, _| token.cancel()).await;
        assert_eq!(told, Err(Reason::Cancelled));
    });
}

#[test]
fn r4_a_limit_ends_the_wait_for_a_turn() {
    on_each(|| async {
        let offers = |pool: AsyncPool| async move {
            let task = pool.task("limited").wait_at_most(SECOND);
            let offered = task.submit(|_| async {}).await;
            offered.map(drop).map_err(|refused| refused.reason())
        };
        let told = told_at_its_turn(offers, |_, hands| hands.advance(SECOND)).await;
        assert_eq!(told, Err(Reason::TimedOut));
    });
}

#[test]
fn g1_the_deadline_of_a_group_ends_the_wait_for_a_turn() {
    on_each(|| async {
        let offers = |pool: AsyncPool| async move {
            let group = pool.group().deadline(SECOND).start::<()>();
            let offered = group.submit(async { Ok(()) }).await;
            offered.map_err(|refused| refused.reason())
        };
        let told = told_at_its_turn(offers, |_, hands| hands.advance(SECOND)).await;
        assert_eq!(told, Err(Reason::TimedOut));
    });
}

#[test]
fn g1_a_cancel_of_a_group_ends_the_wait_for_a_turn() {
    on_each(|| async {
        let parent = Token::new();
        let cancels = parent.clone();
        let offers = |pool: AsyncPool| async move {
            let group = pool.group().parent(&parent).start::<()>();
            let offered = group.submit(async { Ok(()) }).await;
            offered.map_err(|refused| refused.reason())
        };
        let told = told_at_its_turn(offers, |_, _| cancels.cancel()).await;
        assert_eq!(told, Err(Reason::Cancelled));
    });
}

#[test]
fn s1_a_close_ends_the_wait_for_a_turn() {
    on_each(|| async {
        let offers = |pool: AsyncPool| async move {
            let offered = pool.submit(async {}).await;
            offered.map(drop).map_err(|refused| refused.reason())
        };
        assert_eq!(told_at_its_turn(offers, |pool, _| pool.close()).await, Err(Reason::Closed));
    });
}

/// Neither slot nor permit stays with it.
#[test]
fn hazard_68_a_submission_that_waits_for_its_turn_is_dropped() {
    on_each(|| async {
        let pool = quiet("turns").workers(1).queue(1).build_async().unwrap();
        let own = pool.clone();
        let task = pool.submit(async move {
            own.spawn(async {}).await.unwrap(); // the queue is full
            let endless = own.group().start::<()>();
            endless.submit(pending()).await.unwrap(); // and this is on top
            let budget = Budget::new("five", 5);
            let group = own.group().limit(2).budget(&budget, 1).start::<()>();
            for _ in 0..3 {
                let mut all: Vec<_> =
                    (0..4).map(|_| Box::pin(group.submit(async { Ok(()) }))).collect();
                for submission in &mut all {
                    assert!(poll!(submission).is_pending(), "it is not its turn");
                }
                drop(all);
                assert_eq!(group.unsettled(), 0, "a slot is lost");
                assert_eq!((budget.in_use(), budget.waiting()), (0, 0), "a permit is lost");
            }
            group.wait().await.unwrap();
            endless.cancel();
            endless.wait().await.unwrap();
        });
        task.await.unwrap().await.unwrap();
        pool.snapshot().check().unwrap();
        let report = pool.shutdown(Shutdown::default()).await.unwrap();
        assert!(report.is_success(), "{report}");
    });
}

// ---------------------------------------------------------------- odd wakers

/// No two clones of it are alike, and each clone is told.
fn odd_waker(cloned: impl Fn() + Send + Sync + 'static) -> Waker {
    type Told = Arc<dyn Fn() + Send + Sync>;
    const TABLE: RawWakerVTable = RawWakerVTable::new(clone, forget, |_| (), forget);
    fn raw(told: Told) -> RawWaker {
        RawWaker::new(Box::into_raw(Box::new(told)).cast_const().cast(), &TABLE)
    }
    fn clone(data: *const ()) -> RawWaker {
        // SAFETY: `raw` has made it, and it is freed with its waker.
        let told = unsafe { &*data.cast::<Told>() };
        told();
        raw(Arc::clone(told))
    }
    fn forget(data: *const ()) {
        // SAFETY: `raw` has made it, and a waker is woken by value or dropped once.
        drop(unsafe { Box::from_raw(data.cast_mut().cast::<Told>()) });
    }
    // SAFETY: the functions are those of what `raw` makes, which may be sent and shared.
    unsafe { Waker::from_raw(raw(Arc::new(cloned))) }
}

/// A submission that polls its own task is polled by this waker, once.
async fn hosted_by(waker: Waker) {
    let world = World::full_with(1, WhenFull::CallerRuns).await;
    let mut submission = Box::pin(world.pool.submit(pending::<()>()));
    let mut cx = Context::from_waker(&waker);
    let polled = catch_unwind(AssertUnwindSafe(|| submission.as_mut().poll(&mut cx)));
    assert!(!matches!(polled, Ok(Poll::Ready(_))), "it does not end");
    assert_eq!(world.pool.snapshot().on_caller, 1, "the caller runs it");
    drop(submission);
    world.pool.snapshot().check().unwrap();
    ends_whole(&world.pool).await;
}

#[test]
fn a_caller_that_runs_its_task_is_polled_by_a_waker_whose_clones_are_not_alike() {
    on_each(|| async {
        let clones = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&clones);
        hosted_by(odd_waker(move || {
            assert!(counted.fetch_add(1, SeqCst) < 1000, "no clone is good enough");
        }))
        .await;
        assert!(clones.load(SeqCst) < 10, "{} clones in one poll", clones.load(SeqCst));
    });
}

#[test]
fn o5_a_caller_that_runs_its_task_is_polled_by_a_waker_that_panics_when_cloned() {
    on_each(|| hosted_by(odd_waker(|| panic!("the clone of a waker"))));
}

/// Its drop panics once it may.
struct Sour(Arc<AtomicBool>);

impl Drop for Sour {
    fn drop(&mut self) {
        if self.0.load(SeqCst) && !std::thread::panicking() {
            panic!("the drop of a waker");
        }
    }
}

impl Wake for Sour {
    fn wake(self: Arc<Self>) {}
}

/// A task waits for a turn by a sour waker, and ends after the one on top or before it.
fn waits_by_a_sour_waker(ends_last: bool) {
    on_each(|| async move {
        let pool = quiet("sour").workers(2).queue(10).build_async().unwrap();
        let (own, gate, sour) = (pool.clone(), Gate::new(), Arc::new(AtomicBool::new(false)));
        let bystander = pool.submit(gate.pass()).await.unwrap();
        until("it runs", || pool.snapshot().running == 1).await;
        let (on_top, may_panic) = (Gate::new(), Arc::clone(&sour));
        let opens = on_top.clone();
        let task = pool.submit(async move {
            let mut top = own.submit(on_top.pass()).await.unwrap();
            let mut next = own.submit(async {}).await.unwrap();
            assert!(poll!(&mut top).is_pending(), "it is on top now");
            let waker = Waker::from(Arc::new(Sour(Arc::clone(&may_panic))));
            assert!(Pin::new(&mut next).poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            assert!(poll!(&mut next).is_pending(), "its handle has another waker now");
            may_panic.store(true, SeqCst);
            if ends_last {
                on_top.0.add_permits(1);
                top.await.unwrap();
            }
            7
        });
        assert_eq!(task.await.unwrap().await.unwrap(), 7);
        opens.0.add_permits(1);
        gate.0.add_permits(1);
        bystander.await.unwrap();
        pool.submit(async {}).await.unwrap().await.unwrap();
        pool.wait_idle().await.unwrap();
        let now = pool.snapshot();
        assert_eq!((now.completed, now.cancelled), (5, 0), "{now}");
        sour.store(false, SeqCst);
        ends_whole(&pool).await;
    });
}

#[test]
fn o5_a_waker_that_panics_when_dropped_waits_for_a_turn_that_comes() {
    waits_by_a_sour_waker(true);
}

#[test]
fn o5_a_waker_that_panics_when_dropped_waits_for_a_turn_that_its_task_does_not_await() {
    waits_by_a_sour_waker(false);
}

// ---------------------------------------------------------------- what is left behind

/// So many may be kept for a while, of the thousand that there were.
const A_HANDFUL: usize = 16;

/// Wakers that somebody keeps.
#[derive(Default)]
struct Kept(Arc<()>);

impl Kept {
    fn waker(&self) -> Waker {
        struct Counted {
            _one: Arc<()>,
        }
        impl Wake for Counted {
            fn wake(self: Arc<Self>) {}
        }
        Waker::from(Arc::new(Counted { _one: Arc::clone(&self.0) }))
    }

    /// By a waker of its own.
    fn is_pending<F: Future>(&self, future: Pin<&mut F>) -> bool {
        future.poll(&mut Context::from_waker(&self.waker())).is_pending()
    }

    fn check(&self, of: &str) {
        let kept = Arc::strong_count(&self.0) - 1;
        assert!(kept <= A_HANDFUL, "{kept} wakers of {of} are kept");
    }
}

#[test]
fn r9_wakers_of_those_who_no_longer_wait_for_a_turn_are_not_kept() {
    on_each(|| async {
        let pool = quiet("wishes").workers(1).queue(1).when_full_inside(Inside::RunInline);
        let pool = pool.build_async().unwrap();
        let own = pool.clone();
        let task = pool.submit(async move {
            let mut next = own.submit(async {}).await.unwrap(); // the queue is full
            own.spawn(pending()).await.unwrap(); // and this is on top
            let (handles, submissions) = (Kept::default(), Kept::default());
            for _ in 0..1000 {
                assert!(handles.is_pending(Pin::new(&mut next)));
                assert!(submissions.is_pending(pin!(own.submit(async {}))));
                yield_now().await;
            }
            handles.check("one handle");
            submissions.check("dropped submissions");
        });
        task.await.unwrap().await.unwrap();
        ends_whole(&pool).await;
    });
}

#[test]
fn g1_wakers_of_dropped_waits_for_a_group_are_not_kept() {
    on_each(|| async {
        let pool = quiet("waits").workers(1).queue(10).build_async().unwrap();
        let group = pool.group().limit(1).start::<()>();
        group.submit(pending()).await.unwrap();
        let (submissions, waits) = (Kept::default(), Kept::default());
        for _ in 0..1000 {
            assert!(submissions.is_pending(pin!(group.submit(async { Ok(()) }))));
            assert!(waits.is_pending(pin!(group.wait())));
        }
        submissions.check("dropped submissions");
        waits.check("dropped waits");
        group.cancel();
        ends_whole(&pool).await;
    });
}

/// It begins in a submission outside, and what it awaits inside a task.
#[test]
fn r9_a_caller_that_runs_its_task_moves_into_a_task_of_the_same_pool() {
    on_each(|| async {
        let pool = quiet("moves").workers(1).queue(1).when_full(WhenFull::CallerRuns);
        let pool = pool.build_async().unwrap();
        let (moves, moved) = oneshot::channel::<BoxFuture<u32>>();
        let (own, gate) = (pool.clone(), Gate::new());
        let (opens, pass) = (gate.clone(), gate.pass());
        let task = pool.submit(async move {
            let mut inside = moved.await.unwrap();
            assert!(poll!(&mut inside).is_pending());
            opens.0.add_permits(1);
            inside.await
        });
        let task = task.await.unwrap();
        until("it runs", || pool.snapshot().running == 1).await;
        let queued = pool.submit(async {
            yield_now().await;
            3
        });
        let queued = queued.await.unwrap();
        let mut submission: BoxFuture<u32> = Box::pin(async move {
            let hosted = own.submit(async move {
                pass.await;
                queued.await.unwrap()
            });
            hosted.await.unwrap().await.unwrap()
        });
        assert!(poll!(&mut submission).is_pending());
        assert_eq!(pool.snapshot().on_caller, 1, "the caller runs it");
        assert!(moves.send(submission).is_ok(), "the task waits for it");
        assert_eq!(task.await.unwrap(), 3);
        pool.wait_idle().await.unwrap();
        assert_eq!(pool.snapshot().completed, 3);
        ends_whole(&pool).await;
    });
}

//! Services behind pools and budgets: what becomes of a request, told apart.
#![cfg(feature = "tower")]
#![allow(clippy::assertions_on_constants, reason = "to panic with a message")]

use std::error::Error;
use std::fmt;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    AsyncPool, Budget, BudgetLayer, BudgetService, Cause, PoolLayer, PoolService, Reason,
    ServiceError, ServiceFuture, Shutdown, TimedOut, WhenFull,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tower_layer::Layer;
use tower_service::Service;

use crate::kit::*;

const SHORT: Duration = Duration::from_millis(1);

/// One worker and one place.
fn tiny(name: &str, policy: WhenFull) -> AsyncPool {
    quiet(name).workers(1).queue(1).when_full(policy).build_async().unwrap()
}

// ---------------------------------------------------------------- services

#[derive(Debug, PartialEq)]
struct Broken;
impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

/// What a request asks for.
#[derive(Debug)]
enum Ask {
    Double(u32),
    Fail,
    Panic,
    /// Says that it runs, and does so until it is dropped, which it says as well.
    Hang(oneshot::Sender<()>, Arc<AtomicUsize>),
    /// Says that it runs, and waits to be let go.
    Wait(oneshot::Sender<()>, Arc<Notify>),
    /// Says that it runs, and blocks the thread until the other end is dropped.
    Block(mpsc::Sender<()>, mpsc::Receiver<()>),
}

struct CountsDrop(Arc<AtomicUsize>);
impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Counts its calls, and panics when it is called without having been polled ready.
#[derive(Default)]
struct Worker {
    ready: bool,
    /// Polls until it is ready.
    slow: u32,
    calls: Arc<AtomicUsize>,
}

impl Clone for Worker {
    /// Not ready, whatever the original: as with a service that reserves something.
    fn clone(&self) -> Self {
        Worker { ready: false, slow: self.slow, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Ask> for Worker {
    type Response = u32;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<u32, Broken>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.slow > 0 {
            self.slow -= 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Ask) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been ready");
        self.calls.fetch_add(1, SeqCst);
        match request {
            Ask::Double(n) => Box::pin(ready(Ok(2 * n))),
            Ask::Fail => Box::pin(ready(Err(Broken))),
            Ask::Panic => Box::pin(async { panic!("no ink") }),
            Ask::Hang(begins, drops) => Box::pin(async move {
                let _counted = CountsDrop(drops);
                let _ = begins.send(());
                pending().await
            }),
            Ask::Wait(begins, gate) => Box::pin(async move {
                let _ = begins.send(());
                gate.notified().await;
                Ok(0)
            }),
            Ask::Block(begins, blocked) => Box::pin(async move {
                let _ = begins.send(());
                let _ = blocked.recv();
                pending().await
            }),
        }
    }
}

/// Ready first, then called: as every caller has to.
async fn call<S: Service<Ask>>(service: &mut S, request: Ask) -> Result<S::Future, S::Error> {
    poll_fn(|cx| service.poll_ready(cx)).await?;
    Ok(service.call(request))
}

async fn ask<S: Service<Ask>>(service: &mut S, request: Ask) -> Result<S::Response, S::Error> {
    call(service, request).await?.await
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes the one worker of a pool, until the gate is opened.
async fn occupy(service: &mut PoolService<Worker>) -> (ServiceFuture<u32, Broken>, Arc<Notify>) {
    let (begins, begun) = oneshot::channel();
    let gate = Arc::new(Notify::new());
    let mut answer = call(service, Ask::Wait(begins, Arc::clone(&gate))).await.unwrap();
    assert!(poll_once(&mut answer).is_pending());
    begun.await.unwrap();
    (answer, gate)
}

/// Takes the one place of a pool whose worker is taken.
async fn queue_up(service: &mut PoolService<Worker>) -> ServiceFuture<u32, Broken> {
    let mut answer = call(service, Ask::Double(1)).await.unwrap();
    assert!(poll_once(&mut answer).is_pending());
    answer
}

// ---------------------------------------------------------------- the service's own ends

#[test]
fn answers_errors_and_panics_of_the_service_are_told_apart() {
    on_each(|| async {
        let pool = quiet("own").workers(2).build_async().unwrap();
        let mut service = PoolLayer::new(pool.clone()).name("ask").layer(Worker::default());
        assert_eq!(ask(&mut service, Ask::Double(21)).await.unwrap(), 42);
        assert!(matches!(ask(&mut service, Ask::Fail).await, Err(ServiceError::Service(Broken))));
        match ask(&mut service, Ask::Panic).await {
            Err(ServiceError::Panicked(panic)) => assert_eq!(panic.message(), "no ink"),
            other => panic!("{other:?}"),
        }
        // A panic in `call` itself: it was never ready.
        match service.call(Ask::Double(1)).await {
            Err(ServiceError::Panicked(panic)) => {
                assert!(panic.message().contains("ready"), "{panic}");
            }
            other => panic!("{other:?}"),
        }
        let now = pool.snapshot();
        assert_eq!((now.completed, now.failed, now.panicked), (1, 1, 2));
        assert!(now.tasks.iter().any(|times| &*times.name == "ask"), "{:?}", now.tasks);
    });
}

/// Its clones are never ready, so a layer that calls the clone would panic.
#[test]
fn the_service_that_was_polled_ready_is_the_one_that_is_called() {
    on_each(|| async {
        let pool = quiet("ready").workers(1).build_async().unwrap();
        let slow = || Worker { slow: 3, ..Worker::default() };
        let mut pooled = PoolLayer::new(pool).layer(slow());
        let mut budgeted = BudgetLayer::new(Budget::new("one", 1), 1).layer(slow());
        for n in 0..3 {
            assert_eq!(ask(&mut pooled, Ask::Double(n)).await.unwrap(), 2 * n);
            assert_eq!(ask(&mut budgeted, Ask::Double(n)).await.unwrap(), 2 * n);
        }
        let mut fresh = pooled.clone();
        assert_eq!(ask(&mut fresh, Ask::Double(4)).await.unwrap(), 8);
    });
}

#[derive(Clone)]
struct NeverReady;
impl Service<Ask> for NeverReady {
    type Response = u32;
    type Error = Broken;
    type Future = std::future::Ready<Result<u32, Broken>>;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Err(Broken))
    }
    fn call(&mut self, _: Ask) -> Self::Future {
        unreachable!("it was not ready")
    }
}

#[test]
fn a_service_that_cannot_be_ready_says_so_through_the_layer() {
    on_each(|| async {
        let pool = quiet("unready").workers(1).build_async().unwrap();
        let pooled = ask(&mut PoolLayer::new(pool.clone()).layer(NeverReady), Ask::Fail).await;
        assert!(matches!(pooled, Err(ServiceError::Service(Broken))));
        let budgeted = BudgetLayer::new(Budget::new("one", 1), 1);
        let budgeted = ask(&mut budgeted.layer(NeverReady), Ask::Fail).await;
        assert!(matches!(budgeted, Err(ServiceError::Service(Broken))));
        assert_eq!(pool.snapshot().offered(), 0);
    });
}

// ---------------------------------------------------------------- refusals

#[test]
fn reject_sheds_at_the_first_poll_and_the_service_sees_nothing() {
    on_each(|| async {
        let pool = tiny("reject", WhenFull::Reject);
        let worker = Worker::default();
        let calls = Arc::clone(&worker.calls);
        let mut service = PoolLayer::new(pool.clone()).layer(worker);
        let (first, gate) = occupy(&mut service).await;
        let second = queue_up(&mut service).await;
        // Being ready has nothing to do with room.
        let mut shed = call(&mut service, Ask::Double(1)).await.unwrap();
        match poll_once(&mut shed) {
            Poll::Ready(Err(error @ ServiceError::Refused { reason: Reason::Full, .. })) => {
                let text = error.to_string();
                assert!(text.starts_with("pool \"reject\" refused the request: "), "{text}");
                assert!(text.contains("try again later"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        gate.notify_one();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 2));
        assert_eq!(calls.load(SeqCst), 2, "the refused one reached the service");
        assert_eq!(pool.snapshot().refused.full, 1);
    });
}

#[test]
fn wait_lets_the_answer_wait_and_dropped_there_it_was_never_accepted() {
    on_each(|| async {
        let pool = tiny("wait", WhenFull::Wait);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let second = queue_up(&mut service).await;
        let mut gives_up = call(&mut service, Ask::Double(8)).await.unwrap();
        let mut stays = call(&mut service, Ask::Double(9)).await.unwrap();
        assert!(poll_once(&mut gives_up).is_pending() && poll_once(&mut stays).is_pending());
        assert_eq!(pool.snapshot().waiting_submitters, 2);
        drop(gives_up);
        assert_eq!(pool.snapshot().waiting_submitters, 1);
        gate.notify_one();
        assert_eq!((first.await.unwrap(), second.await.unwrap(), stays.await.unwrap()), (0, 2, 18));
        pool.wait_idle().await.unwrap();
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.completed, now.refused.total()), (3, 3, 0));
    });
}

#[test]
fn wait_for_ends_as_a_refusal_that_is_no_time_limit_of_the_task() {
    on_each(|| async {
        let pool = tiny("patience", WhenFull::WaitFor(SHORT));
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (_first, _gate) = occupy(&mut service).await;
        let _second = queue_up(&mut service).await;
        let error = ask(&mut service, Ask::Double(1)).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::TimedOut), "{error}");
        assert_eq!(pool.snapshot().timed_out, 0);
        pool.shutdown(Shutdown::hard()).await.unwrap();
    });
}

#[test]
fn a_closed_pool_refuses_what_comes_and_answers_what_it_has() {
    on_each(|| async {
        let pool = tiny("closed", WhenFull::Wait);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let second = queue_up(&mut service).await;
        let mut waits = call(&mut service, Ask::Double(1)).await.unwrap();
        assert!(poll_once(&mut waits).is_pending());
        let ended = pool.shutdown(Shutdown::light());
        assert_eq!(waits.await.unwrap_err().reason(), Some(Reason::Closed));
        let late = ask(&mut service, Ask::Double(1)).await.unwrap_err();
        assert_eq!(late.reason(), Some(Reason::Closed));
        gate.notify_one();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 2));
        assert!(ended.await.unwrap().is_success());
    });
}

#[test]
fn inside_a_task_of_its_own_pool_a_full_one_refuses_rather_than_wait() {
    on_each(|| async {
        let pool = tiny("inside", WhenFull::Wait);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let own = pool.clone();
        let outer = pool.submit(async move {
            own.spawn(async {}).await.unwrap(); // the one place
            ask(&mut service, Ask::Double(1)).await.unwrap_err().reason()
        });
        let reason = outer.await.unwrap().await.unwrap();
        assert_eq!(reason, Some(Reason::WouldDeadlock));
    });
}

#[test]
fn a_budget_refuses_for_its_own_reasons() {
    on_each(|| async {
        let budget = Budget::new("bytes", 10);
        let held = budget.try_acquire(8).unwrap();
        let layer = BudgetLayer::new(budget.clone(), 4);
        let mut sheds = layer.clone().wait_at_most(Duration::ZERO).layer(Worker::default());
        let error = ask(&mut sheds, Ask::Double(1)).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::OverBudget));
        assert!(error.to_string().starts_with("budget \"bytes\" refused the request: "), "{error}");

        let mut gives_up = layer.clone().wait_at_most(SHORT).layer(Worker::default());
        let error = ask(&mut gives_up, Ask::Double(1)).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::TimedOut));

        let mut heavy = BudgetLayer::new(budget.clone(), 11).layer(Worker::default());
        let error = ask(&mut heavy, Ask::Double(1)).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::TooHeavy));

        let mut waits = layer.layer(Worker::default());
        let mut answer = call(&mut waits, Ask::Double(1)).await.unwrap();
        assert!(poll_once(&mut answer).is_pending());
        assert_eq!(budget.waiting(), 1);
        drop(held);
        assert_eq!(answer.await.unwrap(), 2);
        assert_eq!((budget.available(), budget.waiting()), (10, 0));
    });
}

#[test]
fn the_budget_of_a_pooled_request_refuses_by_the_policy_of_the_pool() {
    on_each(|| async {
        for (policy, reason) in
            [(WhenFull::Reject, Reason::OverBudget), (WhenFull::WaitFor(SHORT), Reason::TimedOut)]
        {
            let budget = Budget::new("bytes", 10);
            let held = budget.try_acquire(8).unwrap();
            let pool = quiet("weighs").workers(1).when_full(policy).build_async().unwrap();
            let layer = PoolLayer::new(pool.clone());
            let mut service = layer.clone().budget(&budget, 4).layer(Worker::default());
            let error = ask(&mut service, Ask::Double(1)).await.unwrap_err();
            assert_eq!(error.reason(), Some(reason));
            drop(held);
            assert_eq!(ask(&mut service, Ask::Double(1)).await.unwrap(), 2);
            let mut heavy = layer.budget(&budget, 11).layer(Worker::default());
            let error = ask(&mut heavy, Ask::Double(1)).await.unwrap_err();
            assert_eq!(error.reason(), Some(Reason::TooHeavy));
        }
    });
}

// ---------------------------------------------------------------- other ends

#[test]
fn a_request_that_runs_too_long_is_dropped_and_says_where_it_was() {
    on_each(|| async {
        let pool = tiny("limits", WhenFull::Wait);
        let layer = PoolLayer::new(pool.clone());
        let (drops, (begins, begun)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
        let mut limited = layer.clone().timeout(SHORT).layer(Worker::default());
        let error = ask(&mut limited, Ask::Hang(begins, Arc::clone(&drops))).await.unwrap_err();
        assert!(matches!(error, ServiceError::TimedOut(TimedOut::Running)), "{error}");
        begun.await.unwrap();
        assert_eq!(drops.load(SeqCst), 1);

        let mut service = layer.clone().layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let mut limited = layer.total_timeout(SHORT).layer(Worker::default());
        let error = ask(&mut limited, Ask::Double(1)).await.unwrap_err();
        assert!(matches!(error, ServiceError::TimedOut(TimedOut::InQueue)), "{error}");
        gate.notify_one();
        first.await.unwrap();
    });
}

#[test]
fn a_shutdown_cancels_what_runs_and_what_waits() {
    on_each(|| async {
        let pool = tiny("cancel", WhenFull::Wait);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (running, _gate) = occupy(&mut service).await;
        let queued = queue_up(&mut service).await;
        pool.shutdown(Shutdown::hard()).await.unwrap();
        for answer in [running, queued] {
            match answer.await {
                Err(ServiceError::Cancelled { cause: Cause::Shutdown, error: None }) => {}
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn an_evicted_request_is_no_refused_one() {
    on_each(|| async {
        let pool = tiny("newest", WhenFull::DropNewest);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let second = queue_up(&mut service).await;
        let newest = ask(&mut service, Ask::Double(1)).await.unwrap_err();
        assert!(matches!(newest, ServiceError::Evicted), "{newest}");
        gate.notify_one();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 2));

        let pool = tiny("oldest", WhenFull::DropOldest);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let oldest = queue_up(&mut service).await;
        let newest = queue_up(&mut service).await;
        let oldest = oldest.await.unwrap_err();
        assert!(matches!(oldest, ServiceError::Evicted), "{oldest}");
        gate.notify_one();
        assert_eq!((first.await.unwrap(), newest.await.unwrap()), (0, 2));
    });
}

#[test]
fn caller_runs_polls_the_request_in_the_future_of_its_answer() {
    on_each(|| async {
        let pool = tiny("callers", WhenFull::CallerRuns);
        let mut service = PoolLayer::new(pool.clone()).layer(Worker::default());
        let (first, gate) = occupy(&mut service).await;
        let second = queue_up(&mut service).await;
        assert_eq!(ask(&mut service, Ask::Double(5)).await.unwrap(), 10);
        assert_eq!(pool.snapshot().on_caller, 1);
        gate.notify_one();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (0, 2));
    });
}

/// The runtime of the pool is blocked, so another one waits for the answer.
#[test]
fn a_request_that_blocks_past_the_grace_is_abandoned_and_keeps_its_budget_until_it_returns() {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        let handle = runtime.handle().clone();
        let (over, wait) = oneshot::channel::<()>();
        let driver = std::thread::spawn(move || drop(runtime.block_on(wait)));
        let pool = quiet("stuck").workers(1).grace(Duration::ZERO).build_async_on(&handle).unwrap();
        let budget = Budget::new("bytes", 10);
        let layer = PoolLayer::new(pool.clone()).timeout(SHORT).budget(&budget, 4);
        let (begins, _begun) = mpsc::channel();
        let (release, blocked) = mpsc::channel();
        let [(_, other), _] = runtimes();
        other.block_on(async {
            let mut service = layer.layer(Worker::default());
            match timeout(LONG, ask(&mut service, Ask::Block(begins, blocked))).await.unwrap() {
                Err(ServiceError::Abandoned(Cause::Timeout)) => {}
                end => panic!("{end:?}"),
            }
            assert_eq!(budget.available(), 6, "its code runs still");
            drop(release);
            let all = timeout(LONG, budget.acquire_async(10)).await.unwrap();
            drop(all.unwrap());
            timeout(LONG, pool.shutdown(Shutdown::default())).await.unwrap().unwrap();
        });
        drop(over);
        driver.join().unwrap();
    }
}

// ---------------------------------------------------------------- who hangs up

#[test]
fn a_dropped_answer_cancels_its_request_wherever_that_is() {
    on_each(|| async {
        let pool = tiny("dropped", WhenFull::Wait);
        let worker = Worker::default();
        let calls = Arc::clone(&worker.calls);
        let mut service = PoolLayer::new(pool.clone()).layer(worker);
        let (drops, (begins, begun)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
        let mut running = call(&mut service, Ask::Hang(begins, Arc::clone(&drops))).await.unwrap();
        assert!(poll_once(&mut running).is_pending());
        begun.await.unwrap();
        let queued = queue_up(&mut service).await;
        let unpolled = call(&mut service, Ask::Double(1)).await.unwrap();
        drop((queued, unpolled));
        assert_eq!(pool.snapshot().cancelled, 1, "at once, and its place is free");
        drop(running);
        pool.wait_idle().await.unwrap();
        assert_eq!((drops.load(SeqCst), calls.load(SeqCst)), (1, 1));
        let now = pool.snapshot();
        assert_eq!((now.accepted, now.cancelled, now.queued), (2, 2, 0));
        assert_eq!(ask(&mut service, Ask::Double(3)).await.unwrap(), 6, "the worker is free");
    });
}

// ---------------------------------------------------------------- budgets come back

/// Every end of a request that holds 4 of 10, whatever is around the service. The budget is
/// whole before the answer is there, except where its caller holds it.
async fn end_in_every_way<S, E>(service: &mut S, budget: &Budget, pool: &AsyncPool)
where
    E: fmt::Debug,
    S: Service<Ask, Response = u32, Error = E, Future: Unpin>,
{
    assert_eq!(ask(service, Ask::Double(2)).await.unwrap(), 4);
    assert_eq!(budget.in_use(), 0, "after an answer");
    ask(service, Ask::Fail).await.unwrap_err();
    assert_eq!(budget.in_use(), 0, "after an error");
    ask(service, Ask::Panic).await.unwrap_err();
    assert_eq!(budget.in_use(), 0, "after a panic");

    let (dropped, drops) = hang(service, budget).await;
    drop(dropped);
    drop(budget.acquire_async(10).await.unwrap());
    pool.wait_idle().await.unwrap();
    assert_eq!((drops.load(SeqCst), budget.in_use()), (1, 0), "after its drop");

    let (cancelled, drops) = hang(service, budget).await;
    pool.shutdown(Shutdown::hard()).await.unwrap();
    cancelled.await.unwrap_err();
    assert_eq!((drops.load(SeqCst), budget.in_use()), (1, 0), "after the shutdown");
    ask(service, Ask::Double(1)).await.unwrap_err();
    assert_eq!(budget.in_use(), 0, "after a refusal");
}

/// A request that runs and does not end, and the count of its drops.
async fn hang<S, E>(service: &mut S, budget: &Budget) -> (S::Future, Arc<AtomicUsize>)
where
    E: fmt::Debug,
    S: Service<Ask, Response = u32, Error = E, Future: Unpin>,
{
    let (drops, (begins, begun)) = (Arc::new(AtomicUsize::new(0)), oneshot::channel());
    let mut hangs = call(service, Ask::Hang(begins, Arc::clone(&drops))).await.unwrap();
    assert_eq!(budget.in_use(), 0, "before it is polled");
    assert!(poll_once(&mut hangs).is_pending());
    begun.await.unwrap();
    assert_eq!(budget.in_use(), 4, "while it runs");
    (hangs, drops)
}

#[test]
fn the_budget_comes_back_at_every_end() {
    on_each(|| async {
        let budget = Budget::new("bytes", 10);
        let pool = || quiet("ends").workers(2).build_async().unwrap();
        let limited = BudgetLayer::new(budget.clone(), 4);

        println!("taken by the task");
        let (own, worker) = (pool(), Worker::default());
        let mut service = PoolLayer::new(own.clone()).budget(&budget, 4).layer(worker);
        end_in_every_way(&mut service, &budget, &own).await;

        println!("around the pool");
        let (own, worker) = (pool(), Worker::default());
        let mut service = limited.layer(PoolLayer::new(own.clone()).layer(worker));
        end_in_every_way(&mut service, &budget, &own).await;

        println!("inside the task");
        let (own, worker) = (pool(), Worker::default());
        let mut service = PoolLayer::new(own.clone()).layer(limited.layer(worker));
        end_in_every_way(&mut service, &budget, &own).await;
    });
}

#[test]
fn without_a_pool_the_budget_comes_back_as_well() {
    on_each(|| async {
        let budget = Budget::new("bytes", 10);
        let mut service = BudgetLayer::new(budget.clone(), 4).layer(Worker::default());
        assert_eq!(ask(&mut service, Ask::Double(2)).await.unwrap(), 4);
        assert_eq!(budget.in_use(), 0, "after an answer");
        assert!(matches!(ask(&mut service, Ask::Fail).await, Err(ServiceError::Service(Broken))));
        assert_eq!(budget.in_use(), 0, "after an error");
        let panics = call(&mut service, Ask::Panic).await.unwrap();
        assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
        assert_eq!(budget.in_use(), 0, "after a panic");
        let (dropped, drops) = hang(&mut service, &budget).await;
        drop(dropped);
        assert_eq!((drops.load(SeqCst), budget.in_use()), (1, 0), "after its drop");
        // Two fit, the third waits, and leaves the line when it is dropped.
        let (first, second) = (budget.try_acquire(4).unwrap(), budget.try_acquire(4).unwrap());
        let mut waits = call(&mut service, Ask::Double(1)).await.unwrap();
        assert!(poll_once(&mut waits).is_pending());
        drop(waits);
        assert_eq!((budget.waiting(), budget.in_use()), (0, 8));
        drop((first, second));
        assert_eq!(budget.available(), 10);
    });
}

// ---------------------------------------------------------------- the error as a value

#[test]
fn no_two_endings_read_alike_and_each_says_what_to_do() {
    let refused = |reason| ServiceError::Refused { reason, by: "pool \"p\"".to_owned() };
    let errors: Vec<ServiceError<Broken>> = vec![
        ServiceError::Service(Broken),
        refused(Reason::Full),
        refused(Reason::TimedOut),
        refused(Reason::Closed),
        refused(Reason::OverBudget),
        refused(Reason::TooHeavy),
        ServiceError::TimedOut(TimedOut::InQueue),
        ServiceError::TimedOut(TimedOut::Running),
        ServiceError::Cancelled { cause: Cause::Shutdown, error: None },
        ServiceError::Cancelled { cause: Cause::Shutdown, error: Some(Broken) },
        ServiceError::Evicted,
        ServiceError::Abandoned(Cause::Timeout),
    ];
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for (i, text) in texts.iter().enumerate() {
        assert!(!texts[..i].contains(text), "{text}");
        assert!(text.contains("; ") || i == 0, "no advice: {text}");
    }
    assert_eq!(texts[0], "the service failed: broken");
    assert!(texts[9].contains("the service gave: broken"), "{}", texts[9]);
}

#[test]
fn layers_services_and_errors_travel() {
    fn travels<T: Send + Sync + 'static>() {}
    fn is_error<T: Error + Send + Sync + 'static>() {}
    travels::<PoolLayer>();
    travels::<BudgetLayer>();
    travels::<PoolService<Worker>>();
    travels::<BudgetService<Worker>>();
    is_error::<ServiceError<Broken>>();
    is_error::<ServiceError<Box<dyn Error + Send + Sync>>>();
    is_error::<ServiceError<std::convert::Infallible>>();
    fn moves<T: Send + Unpin>() {}
    moves::<ServiceFuture<u32, Broken>>();
}

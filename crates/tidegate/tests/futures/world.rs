//! A pool without room, and what has to be whole when a future of it was dropped.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tidegate::{AsyncGroup, AsyncPool, Budget, Reason, Shutdown, WhenFull};
use tokio::sync::Semaphore;

use crate::cut::*;
use crate::kit::{Drops, quiet};

/// Tasks stay until it is opened.
#[derive(Clone)]
pub(crate) struct Gate(pub(crate) Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn pass(&self) -> impl Future<Output = ()> + Send + use<> {
        let gate = Arc::clone(&self.0);
        async move { gate.acquire().await.unwrap().forget() }
    }

    pub(crate) fn opens(&self) -> Event {
        let gate = Arc::clone(&self.0);
        event(move || gate.add_permits(100))
    }
}

/// A pool without room: one task runs, one is queued, both until the gate opens.
pub(crate) struct World {
    pub(crate) pool: AsyncPool,
    pub(crate) gate: Gate,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) group: Option<AsyncGroup<()>>,
    /// Counts the drops of the work that the scene is about.
    pub(crate) work: Drops,
    /// Others that do the same.
    pub(crate) behind: Rc<RefCell<Vec<tokio::task::JoinHandle<()>>>>,
}

impl World {
    pub(crate) async fn full() -> World {
        World::full_with(1, WhenFull::Wait).await
    }

    pub(crate) async fn full_with(workers: usize, policy: WhenFull) -> World {
        let builder = quiet("cut").workers(workers).queue(1).when_full(policy);
        let pool = builder.build_async().unwrap();
        let gate = Gate::new();
        for running in 1..=workers as u64 {
            pool.try_spawn(gate.pass()).unwrap();
            until("it runs", || pool.snapshot().running == running).await;
        }
        pool.try_spawn(gate.pass()).unwrap();
        let (budgets, group) = (Vec::new(), None);
        World { pool, gate, budgets, group, work: Drops::default(), behind: Rc::default() }
    }

    /// With so many workers, what is queued runs as well.
    pub(crate) async fn grow(&self, workers: usize) {
        self.pool.resize(workers).unwrap();
        until("the queue is empty", || self.pool.snapshot().queued == 0).await;
    }

    /// Work that is counted when it is dropped.
    pub(crate) fn work(&self) -> impl Future<Output = u32> + Send + use<> {
        let counted = self.work.clone();
        async move {
            let _counted = counted;
            tokio::task::yield_now().await;
            7
        }
    }

    pub(crate) fn member(&self) -> impl Future<Output = Result<(), ()>> + Send + use<> {
        let work = self.work();
        async move {
            work.await;
            Ok(())
        }
    }

    /// A budget of one that is in use, and what frees it.
    pub(crate) fn taken_budget(&mut self) -> (Budget, Event) {
        let budget = Budget::new("one", 1);
        let permit = budget.try_acquire(1).unwrap();
        self.budgets.push(budget.clone());
        (budget, event(move || drop(permit)))
    }

    /// Somebody else starts to wait, and must come to an end whoever leaves the line.
    pub(crate) fn comes_behind<F: Future<Output = ()> + Send + 'static>(
        &self,
        other: impl FnOnce() -> F + 'static,
    ) -> Event {
        let behind = Rc::clone(&self.behind);
        event(move || behind.borrow_mut().push(tokio::spawn(other())))
    }

    /// Another submission to the same pool.
    pub(crate) fn submits_behind(&self) -> Event {
        let pool = self.pool.clone();
        self.comes_behind(move || async move {
            pool.submit(async {}).await.unwrap().await.unwrap();
        })
    }

    pub(crate) fn drops(&self) -> usize {
        self.work.0.load(SeqCst)
    }

    /// Those who wait are those behind.
    pub(crate) fn nobody_waits(&self) {
        let (now, behind) = (self.pool.snapshot(), self.behind.borrow().len() as u64);
        now.check().unwrap();
        assert!(now.waiting_submitters <= behind, "who was dropped still waits\n{now}");
        for budget in &self.budgets {
            assert!(budget.waiting() as u64 <= behind, "who was dropped still waits");
            assert!(budget.in_use() <= budget.capacity());
        }
    }

    /// As `nobody_waits`, and a submission that was dropped took its work along.
    pub(crate) fn left(&self, ready: bool) {
        self.nobody_waits();
        assert!(ready || self.drops() == 1, "its work is still there");
    }

    /// What is left when all is over is a pool that works.
    pub(crate) async fn check_whole(self) {
        let World { pool, gate, budgets, group, work, behind } = self;
        let behind = Rc::into_inner(behind).expect("the events are over").into_inner();
        for other in behind {
            finish(other).await.unwrap();
        }
        finish(pool.wait_idle()).await.unwrap();
        pool.assert_drained();
        for budget in &budgets {
            assert_eq!((budget.in_use(), budget.waiting()), (0, 0), "permits are lost");
        }
        if let Some(group) = &group {
            assert_eq!(group.unsettled(), 0, "a slot is lost");
            finish(group.wait()).await.unwrap();
        }
        // As many as there are places, and one at a time.
        let gate_again = Gate::new();
        let now = pool.snapshot();
        for running in 1..=now.workers {
            pool.try_spawn(gate_again.pass()).expect("there is room");
            until("it runs", || pool.snapshot().running == running).await;
        }
        for _ in 0..now.queue_capacity {
            pool.try_spawn(async {}).expect("there is room");
        }
        assert_eq!(pool.try_submit(async {}).map(drop).unwrap_err().reason(), Reason::Full);
        happens(gate_again.opens()).await;
        finish(pool.wait_idle()).await.unwrap();
        let report = finish(pool.shutdown(Shutdown::light())).await.unwrap();
        assert!(report.is_success(), "{report}");
        assert!(work.0.load(SeqCst) <= 1, "dropped twice");
        drop((group, budgets, pool));
        assert_eq!(Arc::strong_count(&work.0), 1, "somebody still has the work");
        assert_eq!(Arc::strong_count(&gate.0), 1, "a task was never dropped");
    }

    /// Of a submission: it was accepted if it was ready, and only then.
    pub(crate) async fn accepted_if<T>(self, ready: Option<T>, others: u64) {
        let ready = u64::from(ready.is_some());
        until("it was run", || self.drops() == 1).await;
        for other in self.behind.take() {
            finish(other).await.unwrap();
        }
        finish(self.pool.wait_idle()).await.unwrap();
        let now = self.pool.snapshot();
        assert_eq!(now.accepted, others + ready, "accepted, or not?\n{now}");
        assert_eq!(now.completed, now.accepted, "{now}");
        assert_eq!(now.refused.total(), 0, "{now}");
        self.check_whole().await;
    }
}

pub(crate) fn nothing() -> Event {
    event(|| ())
}

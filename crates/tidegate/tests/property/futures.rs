//! The same interleavings on pools of futures, and what only futures can do: a submission that
//! waits, or does what another policy says, and is dropped meanwhile; a limit that drops a task, a
//! cancel that does.
#![cfg(feature = "tokio")]

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate::{
    AsyncGroup, AsyncPool, Builder, Clock, Handle, ManualClock, Pool, Reason, Report, Shutdown,
    ShutdownFuture,
};
use tokio::runtime::{self, Runtime};

use crate::cases;
use crate::model::*;
use crate::sleeper::Sleeper;

/// A runtime, and how its time passes.
trait Flavour {
    fn new() -> (Self, Option<Clock>)
    where
        Self: Sized;
    fn runtime(&self) -> &Runtime;
    fn advance(&self, by: Duration);
}

/// Everything happens on the thread of the test, in tokio's paused time.
struct Paused(Runtime);

impl Flavour for Paused {
    fn new() -> (Self, Option<Clock>) {
        let mut runtime = runtime::Builder::new_current_thread();
        (Paused(runtime.enable_time().start_paused(true).build().unwrap()), None)
    }

    fn runtime(&self) -> &Runtime {
        &self.0
    }

    fn advance(&self, by: Duration) {
        self.0.block_on(tokio::time::advance(by));
    }
}

/// Such a runtime can't be paused, so the pool goes by a clock of ours.
struct Multi(Runtime, ManualClock);

impl Flavour for Multi {
    fn new() -> (Self, Option<Clock>) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build();
        let (clock, hands) = Clock::manual();
        (Multi(runtime.unwrap(), hands), Some(clock))
    }

    fn runtime(&self) -> &Runtime {
        &self.0
    }

    fn advance(&self, by: Duration) {
        self.1.advance(by);
    }
}

struct Futures<F>(F);

impl<F: Flavour> Futures<F> {
    /// Never parks: a paused clock would take that for a reason to move on.
    fn drive<T: Future>(&self, future: T) -> T::Output {
        let future = pin!(future);
        let mut future = Sleeper::new(future);
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Poll::Ready(value) = future.poll_if_woken() {
                return value;
            }
            assert!(Instant::now() < deadline, "it is never woken");
            self.go_on();
        }
    }
}

impl<F: Flavour> Ground for Futures<F> {
    type Pool = AsyncPool;
    type Group = AsyncGroup<&'static str>;
    type Closing = ShutdownFuture;
    const DROPS: bool = true;

    fn build(builder: Builder) -> (Self, AsyncPool) {
        let (flavour, clock) = F::new();
        let builder = clock.into_iter().fold(builder, Builder::clock);
        let pool = builder.build_async_on(flavour.runtime().handle()).unwrap();
        (Futures(flavour), pool)
    }

    fn pool(pool: &AsyncPool) -> &Pool {
        pool.as_ref()
    }

    fn go_on(&self) {
        self.0.runtime().block_on(tokio::task::yield_now());
    }

    fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    fn try_submit(
        pool: &AsyncPool,
        script: Script,
        terms: &Terms,
    ) -> Result<Handle<u32, &'static str>, Reason> {
        let fate = script.fate();
        let task = on_terms!(pool.task("tried"), terms);
        let offered = task.try_submit_result(move |_| script.wait());
        offered.map_err(|refused| fate.given_back(refused))
    }

    fn outcome(&self, handle: Handle<u32, &'static str>) -> Outcome {
        self.drive(handle)
    }

    fn line_up(pool: &AsyncPool, script: Script, terms: Terms) -> Option<Submission> {
        let (pool, fate) = (pool.clone(), script.fate());
        Some(Box::pin(async move {
            let task = on_terms!(pool.task("lines up").cancel_with(&terms.token), terms);
            let task = match terms.patience {
                None => task,
                Some(patience) => task.wait_at_most(patience),
            };
            let offered = task.submit_result(move |_| script.wait()).await;
            offered.map(Some).map_err(|refused| fate.given_back(refused))
        }))
    }

    fn group(pool: &AsyncPool, limit: usize) -> Self::Group {
        pool.group().limit(limit).collect_all().start()
    }

    fn try_member(group: &Self::Group, script: Script) -> Result<(), Reason> {
        let fate = script.fate();
        let offered = group.try_submit(async move { script.wait().await.map(drop) });
        offered.map_err(|refused| fate.given_back(refused))
    }

    fn line_up_member(group: &Self::Group, script: Script) -> Option<Submission> {
        let (group, fate) = (group.clone(), script.fate());
        Some(Box::pin(async move {
            let offered = group.submit(async move { script.wait().await.map(drop) }).await;
            offered.map(|()| None).map_err(|refused| fate.given_back(refused))
        }))
    }

    fn cancel_group(group: &Self::Group) {
        group.cancel();
    }

    fn unsettled(group: &Self::Group) -> usize {
        group.unsettled()
    }

    fn conclude(&self, group: &Self::Group) -> usize {
        self.drive(group.wait()).map_or_else(|error| error.into_failures().len(), |()| 0)
    }

    fn shut_down(pool: &AsyncPool, how: Shutdown) -> ShutdownFuture {
        pool.shutdown(how)
    }

    fn report(&self, closing: ShutdownFuture) -> Report {
        self.drive(closing).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a1_any_interleaving_of_futures_comes_to_rest_where_the_model_does(
        workers in 1..4usize,
        queue in 1..6usize,
        policy in policy(),
        steps in prop::collection::vec(step(), 0..32),
        ending in ending(),
    ) {
        play::<Futures<Paused>>((workers, queue, policy), steps, ending);
    }
}

proptest! {
    // Each has threads to start, and to wait for.
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(5), ..ProptestConfig::default() })]

    #[test]
    fn a1_the_same_on_a_runtime_of_several_threads(
        workers in 1..4usize,
        queue in 1..6usize,
        policy in policy(),
        steps in prop::collection::vec(step(), 0..32),
        ending in ending(),
    ) {
        play::<Futures<Multi>>((workers, queue, policy), steps, ending);
    }
}

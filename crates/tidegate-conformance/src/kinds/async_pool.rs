//! tidegate on tokio, on both flavours of its runtime.
//!
//! Portable tests run as futures of an `AsyncPool`. Those over tidegate's own interface use the
//! pool that an `AsyncPool` is made of, whose closures run on the runtime too: the same workers,
//! supervisor and settling.

use std::sync::Arc;

use tidegate::{AsyncGroup, AsyncPool, Builder, Reason, Token};
use tokio::runtime::{Builder as RuntimeBuilder, Handle};
use tokio::task::block_in_place;

use super::tidegate_pool::{Carrier, answer, builder, counts, first_error, mode, take_back};
use crate::ctx::Wish;
use crate::port::{
    Counts, How, Kind, Need, Refusal, StopSignal, SuiteGroup, SuiteHandle, SuitePool, Work,
};
use crate::suite::TestInfo;

/// A pool of futures in one configuration.
#[derive(Debug)]
pub struct AsyncKind {
    name: &'static str,
    workers: usize,
    runtime: Handle,
    multi_thread: bool,
}

impl AsyncKind {
    /// On a runtime with threads to spare.
    pub fn multi_thread(name: &'static str, workers: usize) -> AsyncKind {
        let runtime = drive(RuntimeBuilder::new_multi_thread().worker_threads(2));
        AsyncKind { name, workers, runtime, multi_thread: true }
    }

    /// On one thread. The tests' closures block, so there is one worker.
    pub fn current_thread(name: &'static str) -> AsyncKind {
        let runtime = drive(&mut RuntimeBuilder::new_current_thread());
        AsyncKind { name, workers: 1, runtime, multi_thread: false }
    }

    fn lacks(&self, test: &TestInfo) -> bool {
        let about = ["state", "stack", "threads_are_named"];
        about.iter().any(|word| test.name.contains(word))
    }
}

/// A runtime that a thread drives for as long as the process lives.
fn drive(builder: &mut RuntimeBuilder) -> Handle {
    let runtime = builder.enable_time().build().expect("the runtime starts");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

impl Kind for AsyncKind {
    fn name(&self) -> &str {
        self.name
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn offers(&self, need: Need) -> bool {
        match need {
            // The portable closures wait by blocking, which a future must not.
            Need::WaitInside => false,
            // Its closures would block the one thread.
            Need::Native => self.multi_thread,
            _ => true,
        }
    }

    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        let built = builder(wish).build_async_on(&self.runtime);
        let pool = built.map_err(|error| error.to_string())?;
        let runtime = self.runtime.clone();
        Ok(Arc::new(Futures { pool, runtime, multi_thread: self.multi_thread }))
    }

    fn tidegate(&self, wish: &Wish) -> Option<Builder> {
        let blocking: fn(&mut dyn FnMut()) = |f| block_in_place(f);
        Some(builder(wish).on_runtime(&self.runtime, self.multi_thread.then_some(blocking)))
    }

    fn leaves_out(&self, test: &TestInfo) -> Option<&str> {
        const ABOUT_THREADS: &[&str] = &[
            "C_unit_worker_recovers_from_panic",
            "G1_groups_nest_deeply",
            "G3_a_map_inside_a_pool_with_state_is_refused",
            "G3_maps_nest_deeply_inside_the_pool",
            "S9_no_worker_can_be_made_while_closing",
            "V3_short_handed_when_no_thread_can_be_started",
            "W2_a_first_worker_that_fails_is_a_build_error",
            "W2_spawn_failure_later_loses_no_task",
            "W2_state_that_cannot_be_made",
            "W4_a_thread_that_cannot_be_started_comes_later",
            "hazard_27_nobody_is_started_while_unwinding",
            "hazard_34_a_burst_leaves_no_threads_behind",
            "hazard_75_closures_of_every_size",
        ];
        match test.clause {
            "G2" => Some("impossible: a future can be forgotten, so it can't borrow"),
            "R10" => Some("a caller outside can't poll for a worker"),
            "W1" if self.lacks(test) => Some("about threads, their stacks and their state"),
            _ if ABOUT_THREADS.contains(&test.name) => {
                Some("about threads, their stacks and their state")
            }
            _ => None,
        }
    }
}

struct Futures {
    pool: AsyncPool,
    runtime: Handle,
    multi_thread: bool,
}

impl Futures {
    /// A future that does what a portable closure does: it may block.
    fn run<R>(multi_thread: bool, f: impl FnOnce() -> R) -> R {
        if multi_thread { block_in_place(f) } else { f() }
    }
}

struct FutureGroup {
    group: AsyncGroup<String>,
    runtime: Handle,
    multi_thread: bool,
}

impl SuiteGroup for FutureGroup {
    fn submit(&self, work: Work) -> Result<(), Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let (token, multi_thread) = (self.group.token().clone(), self.multi_thread);
        let task = async move {
            Futures::run(multi_thread, || carrier.unload()(&Cancelled(token))).map(drop)
        };
        self.runtime.block_on(self.group.submit(task)).map_err(|r| take_back(r, &way_back))
    }

    fn wait(self: Box<Self>) -> Result<(), String> {
        self.runtime.block_on(self.group.wait()).map_err(first_error)
    }
}

/// The stop of a group's task is that of the group.
struct Cancelled(Token);

impl StopSignal for Cancelled {
    fn stopping(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl SuitePool for Futures {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let multi_thread = self.multi_thread;
        let offer = self.pool.task("suite").submit_result_blocking(move |cx| async move {
            Futures::run(multi_thread, || carrier.unload()(&cx))
        });
        answer(offer, &way_back)
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (carrier, way_back) = Carrier::load(work);
        let multi_thread = self.multi_thread;
        let offer = self.pool.task("suite").try_submit_result(move |cx| async move {
            Futures::run(multi_thread, || carrier.unload()(&cx))
        });
        answer(offer, &way_back)
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        let multi_thread = self.multi_thread;
        let task = async move { Futures::run(multi_thread, work) };
        self.pool.submit_blocking(task).map(|handle| handle.detach()).map_err(|r| r.reason())
    }

    fn group(&self) -> Option<Box<dyn SuiteGroup>> {
        let group = self.pool.group().name("suite").start();
        let (runtime, multi_thread) = (self.runtime.clone(), self.multi_thread);
        Some(Box::new(FutureGroup { group, runtime, multi_thread }))
    }

    fn close(&self) {
        self.pool.close();
    }

    fn shutdown(&self, how: How) {
        self.pool.shutdown_blocking(mode(how)).expect("the test is outside the pool");
    }

    fn counts(&self) -> Option<Counts> {
        Some(counts(&self.pool.snapshot()))
    }
}

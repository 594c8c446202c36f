//! Random interleavings against a model that a child could check by hand, on threads.

use std::thread::JoinHandle;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    Builder, Clock, Group, Handle, ManualClock, Pool, Reason, Report, Shutdown, WaitError,
};

use crate::cases;
use crate::model::*;

struct Threads {
    clock: ManualClock,
}

impl Ground for Threads {
    type Pool = Pool;
    type Group = Group<&'static str>;
    type Closing = JoinHandle<Report>;
    const DROPS: bool = false;

    fn build(builder: Builder) -> (Self, Pool) {
        let (clock, hands) = Clock::manual();
        (Threads { clock: hands }, builder.clock(clock).build().unwrap())
    }

    fn pool(pool: &Pool) -> &Pool {
        pool
    }

    fn go_on(&self) {
        std::thread::yield_now();
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn try_submit(
        pool: &Pool,
        script: Script,
        terms: &Terms,
    ) -> Result<Handle<u32, &'static str>, Reason> {
        let fate = script.fate();
        if terms.limits.is_none() && terms.budget.is_none() {
            let offered = pool.try_submit_result(move || script.block());
            return offered.map_err(|refused| fate.given_back(refused));
        }
        let task = on_terms!(pool.task("on terms"), terms);
        let offered = task.try_submit_result(move |_| script.block());
        offered.map_err(|refused| fate.given_back(refused))
    }

    fn outcome(&self, handle: Handle<u32, &'static str>) -> Outcome {
        handle.wait().map_err(|error| match error {
            WaitError::Task(error) => error,
            other => panic!("{other:?}"),
        })
    }

    fn group(pool: &Pool, limit: usize) -> Self::Group {
        pool.group().limit(limit).collect_all().start()
    }

    fn try_member(group: &Self::Group, script: Script) -> Result<(), Reason> {
        let fate = script.fate();
        let offered = group.try_submit(move |_| script.block().map(drop));
        offered.map_err(|refused| fate.given_back(refused))
    }

    fn cancel_group(group: &Self::Group) {
        group.cancel();
    }

    fn unsettled(group: &Self::Group) -> usize {
        group.unsettled()
    }

    fn conclude(&self, group: &Self::Group) -> usize {
        group.wait().map_or_else(|error| error.into_failures().len(), |()| 0)
    }

    fn shut_down(pool: &Pool, how: Shutdown) -> JoinHandle<Report> {
        let pool = pool.clone();
        std::thread::spawn(move || pool.shutdown(how).unwrap())
    }

    fn report(&self, closing: JoinHandle<Report>) -> Report {
        closing.join().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a1_any_interleaving_comes_to_rest_where_the_model_does(
        workers in 1..4usize,
        queue in 1..6usize,
        policy in policy(),
        steps in prop::collection::vec(step(), 0..24),
        ending in ending(),
    ) {
        // It changes nothing: nobody waits here, and `try_submit` asks no policy.
        play::<Threads>((workers, queue, policy), steps, ending);
    }
}

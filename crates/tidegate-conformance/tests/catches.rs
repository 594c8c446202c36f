//! The suite is worth something only if it fails on a broken pool: each fault
//! below is put into the peer, and the tests that must notice are named.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use tidegate::Reason;
use tidegate_conformance::kinds::HandMadeKind;
use tidegate_conformance::runner::{Verdict, run_one};
use tidegate_conformance::{
    Ending, How, Kind, Need, Refusal, SuiteHandle, SuitePool, Wish, Work, all_tests,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    OnePlaceTooMany,
    OneWorkerTooMany,
    KeepsRefusedWork,
    FullIsCalledClosed,
    DrainDiscards,
    SettledTooEarly,
    PanicIsSuccess,
    ErrorIsSuccess,
    OpenAfterClose,
}

struct FaultyKind(HandMadeKind, Fault);

struct FaultyPool(Arc<dyn SuitePool>, Fault);

struct FaultyHandle(Box<dyn SuiteHandle>, Fault);

impl Kind for FaultyKind {
    fn name(&self) -> &str {
        "faulty"
    }
    fn workers(&self) -> usize {
        self.0.workers()
    }
    fn offers(&self, need: Need) -> bool {
        self.0.offers(need)
    }
    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        let mut wish = wish.clone();
        wish.workers += usize::from(self.1 == Fault::OneWorkerTooMany);
        wish.queue = wish.queue.map(|n| n + usize::from(self.1 == Fault::OnePlaceTooMany));
        Ok(Arc::new(FaultyPool(self.0.open(&wish)?, self.1)))
    }
}

impl FaultyPool {
    fn spoil(
        &self,
        offer: Result<Box<dyn SuiteHandle>, Refusal>,
    ) -> Result<Box<dyn SuiteHandle>, Refusal> {
        match offer {
            Ok(handle) => Ok(Box::new(FaultyHandle(handle, self.1))),
            Err(mut refusal) => {
                if self.1 == Fault::KeepsRefusedWork {
                    refusal.work = None;
                }
                if self.1 == Fault::FullIsCalledClosed && refusal.reason == Reason::Full {
                    refusal.reason = Reason::Closed;
                }
                Err(refusal)
            }
        }
    }
}

impl SuitePool for FaultyPool {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.spoil(self.0.submit(work))
    }
    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.spoil(self.0.try_submit(work))
    }
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        self.0.spawn(work)
    }
    fn close(&self) {
        if self.1 != Fault::OpenAfterClose {
            self.0.close();
        }
    }
    fn shutdown(&self, how: How) {
        let drains = self.1 == Fault::DrainDiscards && how == How::Light;
        self.0.shutdown(if drains { How::Soft } else { how });
    }
}

impl SuiteHandle for FaultyHandle {
    fn wait(self: Box<Self>) -> Ending {
        match (self.1, self.0.wait()) {
            (Fault::PanicIsSuccess, Ending::Panicked(_)) => Ending::Value(0),
            (Fault::ErrorIsSuccess, Ending::Failed(_)) => Ending::Value(0),
            (_, ending) => ending,
        }
    }
    fn is_settled(&self) -> bool {
        self.1 == Fault::SettledTooEarly || self.0.is_settled()
    }
}

/// Runs the test of this name on the peer with this fault.
fn verdict(fault: Fault, name: &str) -> Verdict {
    let kind: Arc<dyn Kind> = Arc::new(FaultyKind(HandMadeKind::new("faulty", 2), fault));
    let test = all_tests().iter().find(|test| test.name == name).expect("a test of the suite");
    run_one(&kind, test, Duration::from_secs(60))
}

fn notices(fault: Fault, tests: &[&str]) {
    for name in tests {
        let without = verdict(Fault::None, name);
        assert!(matches!(without, Verdict::Passed(_)), "{name} on a sound pool: {without:?}");
        // Some faults show only if a thread gets its chance in time.
        let noticed = (0..20).any(|_| matches!(verdict(fault, name), Verdict::Failed(_)));
        assert!(noticed, "{name} does not notice {fault:?}");
    }
}

#[test]
fn a_bound_that_is_off_by_one() {
    notices(Fault::OnePlaceTooMany, &["R6_bound_is_exact"]);
}

#[test]
fn a_worker_too_many() {
    let test = "C_unit_pool_creates_the_specified_number_of_workers";
    notices(Fault::OneWorkerTooMany, &[test]);
}

#[test]
fn refusals_that_keep_the_work_or_lie() {
    notices(Fault::KeepsRefusedWork, &["R3_refusal_hands_the_work_back"]);
    notices(Fault::FullIsCalledClosed, &["R6_bound_is_exact", "R3_refusal_hands_the_work_back"]);
}

#[test]
fn a_drain_that_discards() {
    // T1 notices only if something is still queued by then; I1 makes sure of it.
    notices(Fault::DrainDiscards, &["I1_many_closers_close_once"]);
}

#[test]
fn outcomes_that_lie() {
    notices(Fault::PanicIsSuccess, &["T5_panic_safety", "I4_done_on_every_exit"]);
    notices(Fault::ErrorIsSuccess, &["C_unit_wait_returns_all_errors", "I4_done_on_every_exit"]);
    notices(Fault::SettledTooEarly, &["S6_drop_drains_in_the_background"]);
}

#[test]
fn a_pool_that_stays_open() {
    notices(Fault::OpenAfterClose, &["C_unit_submit_returns_an_error_when_closed"]);
}

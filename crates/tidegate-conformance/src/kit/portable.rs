//! Short words for tests over the port.

use tidegate::Reason;

use super::facts::eventually;
use super::gate::{Gate, Passage};
use crate::port::{Refusal, SuiteHandle, SuitePool, Work};

/// Work that returns what `f` returns and does not look at the stop signal.
pub fn job(f: impl FnOnce() -> u64 + Send + 'static) -> Work {
    Box::new(move |_| Ok(f()))
}

/// Work that waits at the gate and gives up with an error when told to stop.
pub fn until_stopped(passage: Passage) -> Work {
    Box::new(move |task| match passage.enter_unless(|| task.stopping()) {
        true => Ok(1),
        false => Err("told to stop".to_owned()),
    })
}

/// The handle of work that must have been accepted.
#[track_caller]
pub fn taken(offer: Result<Box<dyn SuiteHandle>, Refusal>) -> Box<dyn SuiteHandle> {
    match offer {
        Ok(handle) => handle,
        Err(refusal) => panic!("work was refused: {:?}", refusal.reason),
    }
}

/// The reason of work that must have been refused.
#[track_caller]
pub fn why_refused(offer: Result<Box<dyn SuiteHandle>, Refusal>) -> Reason {
    match offer {
        Ok(_) => panic!("work was accepted that had to be refused"),
        Err(refusal) => refusal.reason,
    }
}

/// Keeps `workers` workers busy at the gate that is returned.
#[track_caller]
pub fn occupy_port(pool: &dyn SuitePool, workers: usize) -> Gate {
    let gate = Gate::new();
    for n in 1..=workers {
        eventually("a worker takes a task", || pool.spawn(Box::new(gate.waiter())).is_ok());
        gate.wait_until_entered(n);
    }
    gate
}

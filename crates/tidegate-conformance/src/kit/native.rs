//! Short words for tests over tidegate's own interface.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate::{Handle, Pool, Reason, Refused, Snapshot, TaskError, WaitError, WaitReason};

use super::facts::eventually;
use super::gate::Gate;

/// Keeps `workers` workers of `pool` busy at the gate that is returned.
#[track_caller]
pub fn occupy<S: 'static>(pool: &Pool<S>, workers: usize) -> Gate {
    let gate = Gate::new();
    for n in 1..=workers {
        eventually("a worker takes a task", || pool.try_spawn(gate.waiter()).is_ok());
        gate.wait_until_entered(n);
    }
    gate
}

/// As `occupy`, with tasks that end when they are told to stop: false is their value then.
pub fn occupy_obediently(pool: &Pool, workers: usize) -> (Gate, Vec<Handle<bool>>) {
    let gate = Gate::new();
    let obedient = || {
        let passage = gate.passage();
        let task = pool.task("").submit(move |task| passage.enter_unless(|| task.stopping()));
        task.expect("there is room")
    };
    let tasks = (0..workers).map(|_| obedient()).collect();
    gate.wait_until_entered(workers);
    (gate, tasks)
}

/// The value of a task that must have completed.
#[track_caller]
pub fn value<T, E: std::fmt::Debug>(handle: Handle<T, E>) -> T {
    match handle.wait() {
        Ok(value) => value,
        Err(WaitError::Task(error)) => panic!("the task did not complete: {error:?}"),
        Err(_) => panic!("there was no outcome to wait for"),
    }
}

/// The error of a task that must not have completed.
#[track_caller]
pub fn task_error<T, E>(handle: Handle<T, E>) -> TaskError<E> {
    match handle.wait() {
        Ok(_) => panic!("the task completed"),
        Err(WaitError::Task(error)) => error,
        Err(_) => panic!("there was no outcome to wait for"),
    }
}

/// Why a wait had to fail without an outcome, and the handle that it gave back.
#[track_caller]
pub fn no_outcome<T, E>(result: Result<T, WaitError<T, E>>) -> (WaitReason, Handle<T, E>) {
    match result {
        Err(WaitError::NoOutcome { reason, handle }) => (reason, handle),
        Err(WaitError::Task(_)) => panic!("the wait gave the task's error"),
        Ok(_) => panic!("the wait gave a value"),
    }
}

/// The reason of an offer that must have been refused.
#[track_caller]
pub fn refusal<H, F>(offer: Result<H, Refused<F>>) -> Reason {
    refused(offer).reason()
}

/// The refusal of an offer that must have been refused.
#[track_caller]
pub fn refused<H, F>(offer: Result<H, Refused<F>>) -> Refused<F> {
    match offer {
        Ok(_) => panic!("work was accepted that had to be refused"),
        Err(refused) => refused,
    }
}

/// Waits until nothing is queued, running or waiting to be called back.
#[track_caller]
pub fn idle<S>(pool: &Pool<S>) {
    pool.wait_idle().expect("the test is outside the pool");
}

/// What accepted must equal: everything that waits, runs or has an outcome.
pub fn sum_of_outcomes(now: &Snapshot) -> u64 {
    now.queued + now.running + now.settled()
}

/// Who ran, in order.
#[derive(Clone, Debug, Default)]
pub struct Ran(Arc<Mutex<Vec<u64>>>);

impl Ran {
    /// Nobody yet.
    pub fn new() -> Ran {
        Ran::default()
    }

    /// Writes down that `who` runs.
    pub fn note(&self, who: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(who);
    }

    /// A closure that writes `who` down.
    pub fn noting(&self, who: u64) -> impl FnOnce() + Send + 'static + use<> {
        let ran = self.clone();
        move || ran.note(who)
    }

    /// All of them, in order.
    pub fn order(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

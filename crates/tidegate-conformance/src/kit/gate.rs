//! A door that tasks stop at until the test lets them through.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::facts::HANG;

/// Holds tasks back, and knows how many have arrived.
///
/// Dropping it opens it: a failing test leaves no worker stuck behind.
#[derive(Debug, Default)]
pub struct Gate {
    door: Arc<Door>,
}

/// The tasks' side of a [`Gate`].
#[derive(Clone, Debug)]
pub struct Passage {
    door: Arc<Door>,
}

#[derive(Debug, Default)]
struct Door {
    state: Mutex<DoorState>,
    /// Two, so that an arrival does not wake everybody who waits: there may be a thousand.
    arrived: Condvar,
    passable: Condvar,
}

#[derive(Debug, Default)]
struct DoorState {
    entered: usize,
    permits: usize,
    open: bool,
}

impl Gate {
    /// Closed, nobody in front of it.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// A closure that arrives at the gate and waits to be let through.
    pub fn waiter(&self) -> impl FnOnce() + Send + 'static + use<> {
        let passage = self.passage();
        move || passage.enter()
    }

    /// The side that a task holds.
    pub fn passage(&self) -> Passage {
        Passage { door: Arc::clone(&self.door) }
    }

    /// How many have arrived so far, also those who went through.
    pub fn entered(&self) -> usize {
        self.door.lock().entered
    }

    /// Blocks until `n` have arrived.
    #[track_caller]
    pub fn wait_until_entered(&self, n: usize) {
        let deadline = Instant::now() + HANG;
        let mut state = self.door.lock();
        while state.entered < n {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {} of {n} arrived at the gate", state.entered);
            state = wait_at_most(left, &self.door.arrived, state);
        }
    }

    /// Lets `n` through, those who wait now or those who come.
    pub fn let_through(&self, n: usize) {
        self.door.lock().permits += n;
        self.door.passable.notify_all();
    }

    /// Lets everybody through from now on.
    pub fn open(&self) {
        self.door.lock().open = true;
        self.door.passable.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Passage {
    /// Arrives, and blocks until let through.
    pub fn enter(&self) {
        let mut state = self.door.lock();
        state.entered += 1;
        self.door.arrived.notify_all();
        while !state.pass() {
            state = self.door.passable.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Arrives, and waits until let through (true) or until `give_up` says so (false).
    pub fn enter_unless(&self, give_up: impl Fn() -> bool) -> bool {
        const LOOK_AGAIN: Duration = Duration::from_micros(500);
        let mut state = self.door.lock();
        state.entered += 1;
        self.door.arrived.notify_all();
        while !state.pass() {
            if give_up() {
                return false;
            }
            state = wait_at_most(LOOK_AGAIN, &self.door.passable, state);
        }
        true
    }
}

impl Door {
    fn lock(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DoorState {
    fn pass(&mut self) -> bool {
        if self.open {
            return true;
        }
        let through = self.permits > 0;
        self.permits -= usize::from(through);
        through
    }
}

fn wait_at_most<'d, T>(
    limit: Duration,
    news: &Condvar,
    state: MutexGuard<'d, T>,
) -> MutexGuard<'d, T> {
    news.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
}

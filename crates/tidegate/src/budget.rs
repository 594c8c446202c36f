//! Budgets: a shared amount of something, taken in order of arrival.
//!
//! Whoever finds too little left queues up, and nobody goes by: a heavy one at the head is
//! not starved by light ones behind it. Whoever gives something back, makes the budget larger
//! or leaves the line *serves* it: takes for the first, and the next, while there is enough.
//! A place in the line knows whether it was served; leaving it gives back what it was given.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::event::wake_quietly;
use crate::parker::{Parker, with_parker};
use crate::refused::Reason;
use crate::spawn;
use crate::supply::{Rate, Supply};
use crate::sync::Lock;

/// An amount of something scarce, which tasks of any number of pools and groups share: bytes
/// of memory, connections, requests per second.
///
/// A task with a [`budget`](crate::Task::budget) takes its weight *before* it gets a place in
/// the queue, so that what waits is paid for and no worker waits for it, and gives it back when
/// its code has returned or was dropped, however it ends. [`acquire`](Budget::acquire) takes by
/// hand.
///
/// First come, first served: nobody goes by a heavy one at the head of the line. A weight of 0
/// is free; more than the whole is refused at once, as `TooHeavy`. Clones are the same budget.
///
/// Price: a short lock to take and one to give back; four small allocations for a task.
///
/// ```
/// use tidegate::{Budget, Pool, Reason, Shutdown};
///
/// let pool = Pool::builder("thumbs").workers(4).build()?;
/// let megabytes = Budget::new("memory", 512);
/// let task = pool.task("resize").budget(&megabytes, 300).submit(|_| "done")?;
/// assert_eq!(task.wait()?, "done");
/// let refused = pool.task("panorama").budget(&megabytes, 513).submit(|_| ()).unwrap_err();
/// assert_eq!(refused.reason(), Reason::TooHeavy);
///
/// let by_hand = megabytes.acquire(512)?;
/// assert!(megabytes.try_acquire(1).is_err());
/// drop(by_hand);
/// assert_eq!(megabytes.available(), 512);
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Pot>,
}

struct Pot {
    name: Arc<str>,
    state: Lock<State>,
}

struct State {
    supply: Supply,
    clock: Clock,
    line: VecDeque<Waiter>,
    /// Those that have left the line and do not know yet: true if it was taken for them.
    served: BTreeMap<u64, bool>,
    next_number: u64,
    /// Of a rate: who was last told that it is first, and has to mind the time.
    told_first: Option<u64>,
    /// The thread that minds the time for futures, while there is one.
    minder: Option<Arc<Parker>>,
    held_by_abandoned: u64,
}

struct Waiter {
    number: u64,
    weight: u64,
    /// None until it has looked, and after it was woken to mind the time.
    waker: Option<Waker>,
}

impl Budget {
    /// An amount that comes back when its holders are done.
    pub fn new(name: impl Into<String>, capacity: u64) -> Budget {
        Budget::with(name.into(), Supply::held(capacity), Clock::system())
    }

    /// An amount that time refills (B2): `permits` a second, as many at once. What was taken
    /// does not come back, except from work that was refused.
    ///
    /// ```
    /// use tidegate::Budget;
    ///
    /// let requests = Budget::per_second("api", 50).burst(10);
    /// for _ in 0..10 {
    ///     requests.try_acquire(1)?; // ten at once
    /// }
    /// requests.acquire(1)?; // after 20 ms
    /// # Ok::<(), tidegate::BudgetError>(())
    /// ```
    pub fn per_second(name: impl Into<String>, permits: u64) -> Budget {
        Budget::per(Duration::from_secs(1), name, permits)
    }

    /// As [`per_second`](Budget::per_second), in another period: 10 per minute, say.
    pub fn per(period: Duration, name: impl Into<String>, permits: u64) -> Budget {
        let clock = Clock::system();
        let supply = Supply::refilled(Rate::new(permits, period), permits.max(1), clock.now());
        Budget::with(name.into(), supply, clock)
    }

    /// How many permits of a rate can be taken at once, after a rest.
    #[must_use]
    pub fn burst(self, permits: u64) -> Budget {
        self.resize(permits);
        self
    }

    /// Where a rate takes its time from; for tests, [`Clock::manual`].
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Budget {
        {
            let mut state = self.inner.state.lock();
            state.supply.restart(clock.now());
            state.clock = clock;
        }
        self
    }

    fn with(name: String, supply: Supply, clock: Clock) -> Budget {
        let state = State {
            supply,
            clock,
            line: VecDeque::new(),
            served: BTreeMap::new(),
            next_number: 0,
            told_first: None,
            minder: None,
            held_by_abandoned: 0,
        };
        Budget { inner: Arc::new(Pot { name: name.into(), state: Lock::new(state) }) }
    }
}

/// Taking by hand.
impl Budget {
    /// Takes `weight`, and waits for it. Inside a task it holds the worker up meanwhile: give
    /// the weight with the task instead.
    pub fn acquire(&self, weight: u64) -> Result<Permit, BudgetError> {
        self.acquire_timeout(weight, Duration::MAX)
    }

    /// As [`acquire`](Budget::acquire), for at most `limit`.
    pub fn acquire_timeout(&self, weight: u64, limit: Duration) -> Result<Permit, BudgetError> {
        let clock = self.clock();
        let deadline = clock.now().after(limit);
        let Some(mut place) = self.enter(weight).map_err(|reason| self.error(weight, reason))?
        else {
            return Ok(Permit::new(self, weight));
        };
        with_parker(|parker, waker| {
            loop {
                let due = match place.look(waker) {
                    Look::Served => return Ok(Permit::new(self, weight)),
                    Look::TooHeavy => return Err(self.error(weight, Reason::TooHeavy)),
                    Look::Waiting(due) => due,
                };
                let now = clock.now();
                if now >= deadline {
                    return Err(self.error(weight, Reason::TimedOut));
                }
                self.park(parker, &clock, deadline, due);
            }
        })
    }

    /// Takes `weight` if it is there and nobody waits.
    pub fn try_acquire(&self, weight: u64) -> Result<Permit, BudgetError> {
        match self.try_take(weight) {
            Ok(()) => Ok(Permit::new(self, weight)),
            Err(reason) => Err(self.error(weight, reason)),
        }
    }

    /// As [`acquire`](Budget::acquire), for async code on any runtime. It queues up at its
    /// first poll; dropping it leaves the line. While a future waits for a *rate*, one thread
    /// minds the time.
    pub fn acquire_async(&self, weight: u64) -> Acquire {
        Acquire { budget: self.clone(), weight, place: None }
    }

    /// Makes it larger or smaller, at once. Smaller than what is held: nothing is given until
    /// enough has come back. Those who wait for more than there is now are refused.
    pub fn resize(&self, capacity: u64) {
        let wakers = {
            let mut state = self.inner.state.lock();
            let now = state.clock.now();
            state.supply.resize(capacity, now);
            let mut wakers = state.serve();
            let (too_heavy, line) =
                std::mem::take(&mut state.line).into_iter().partition(|w| w.weight > capacity);
            state.line = line;
            for waiter in Vec::from(too_heavy) {
                state.served.insert(waiter.number, false);
                wakers.extend(waiter.waker);
            }
            wakers.extend(state.serve());
            wakers
        };
        wake_quietly(wakers);
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The whole: of a rate, the burst.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.state.lock().supply.capacity()
    }

    /// What can be taken now, if nobody waits.
    #[must_use]
    pub fn available(&self) -> u64 {
        let mut state = self.inner.state.lock();
        let now = state.clock.now();
        state.supply.available(now)
    }

    /// What is held; 0 of a rate.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.inner.state.lock().supply.used()
    }

    /// How many wait for it.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.state.lock().line.len()
    }

    /// What is held by abandoned tasks whose code still runs.
    #[must_use]
    pub fn held_by_abandoned(&self) -> u64 {
        self.inner.state.lock().held_by_abandoned
    }
}

/// What an exporter reads.
#[cfg(feature = "prometheus")]
#[derive(Debug)]
pub(crate) struct BudgetReading {
    pub(crate) capacity: u64,
    pub(crate) in_use: u64,
    pub(crate) available: u64,
    pub(crate) waiting: u64,
    pub(crate) held_by_abandoned: u64,
}

/// A budget that is there as long as others hold it.
#[cfg(feature = "prometheus")]
pub(crate) struct WeakBudget(std::sync::Weak<Pot>);

#[cfg(feature = "prometheus")]
impl WeakBudget {
    pub(crate) fn upgrade(&self) -> Option<Budget> {
        self.0.upgrade().map(|inner| Budget { inner })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn is(&self, budget: &Budget) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&budget.inner))
    }
}

#[cfg(feature = "prometheus")]
impl Budget {
    pub(crate) fn downgrade(&self) -> WeakBudget {
        WeakBudget(Arc::downgrade(&self.inner))
    }

    /// All of it at one moment.
    pub(crate) fn reading(&self) -> BudgetReading {
        let mut state = self.inner.state.lock();
        let now = state.clock.now();
        BudgetReading {
            capacity: state.supply.capacity(),
            in_use: state.supply.used(),
            available: state.supply.available(now),
            waiting: state.line.len() as u64,
            held_by_abandoned: state.held_by_abandoned,
        }
    }
}

/// What a pool does with it.
impl Budget {
    /// In this order one task takes several: the same for all, or they might wait for each
    /// other.
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.inner).cast()
    }

    fn clock(&self) -> Clock {
        self.inner.state.lock().clock.clone()
    }

    /// Sleeps until it is woken, until `deadline` of `clock`, or until time has made room.
    pub(crate) fn park(&self, parker: &Arc<Parker>, clock: &Clock, deadline: Ticks, due: Duration) {
        let own = self.clock();
        if due == Duration::MAX || own.is_real() == clock.is_real() {
            parker.park_until(clock, clock.now().after(due).min(deadline));
        } else {
            // A test's clock beside a real one: both have to be watched.
            const NAP: Duration = Duration::from_millis(1);
            let real = if own.is_real() { &own } else { clock };
            parker.park_until(real, real.now().after(NAP));
        }
    }

    /// Without a wait: TooHeavy or OverBudget.
    pub(crate) fn try_take(&self, weight: u64) -> Result<(), Reason> {
        self.inner.state.lock().try_take(weight)
    }

    /// None: taken. Some: a place in the line.
    pub(crate) fn enter(&self, weight: u64) -> Result<Option<Place>, Reason> {
        let mut state = self.inner.state.lock();
        match state.try_take(weight) {
            Ok(()) => Ok(None),
            Err(Reason::OverBudget) => {
                let number = state.next_number;
                state.next_number += 1;
                state.line.push_back(Waiter { number, weight, waker: None });
                Ok(Some(Place { budget: self.clone(), number, weight, left: false }))
            }
            Err(reason) => Err(reason),
        }
    }

    fn refund(&self, weight: u64) {
        let wakers = {
            let mut state = self.inner.state.lock();
            let now = state.clock.now();
            state.supply.refund(weight, now);
            state.serve()
        };
        wake_quietly(wakers);
    }

    pub(crate) fn count_abandoned(&self, weight: u64, held: bool) {
        let mut state = self.inner.state.lock();
        let before = state.held_by_abandoned;
        state.held_by_abandoned = if held { before + weight } else { before - weight };
    }

    fn error(&self, weight: u64, reason: Reason) -> BudgetError {
        BudgetError {
            budget: Arc::clone(&self.inner.name),
            weight,
            capacity: self.capacity(),
            reason,
        }
    }

    /// Starts the thread that minds the time, unless there is one.
    fn mind_the_time(&self) -> Result<(), Reason> {
        let parker = {
            let mut state = self.inner.state.lock();
            if state.minder.is_some() {
                return Ok(());
            }
            Arc::clone(state.minder.insert(Parker::new()))
        };
        let (budget, name) = (self.clone(), format!("{}-refill", self.inner.name));
        let name = name.replace('\0', "");
        match spawn::spawn(name, None, None, move || budget.mind(&parker)) {
            Ok(_) => Ok(()), // it ends by itself
            Err(_) => {
                self.inner.state.lock().minder = None;
                Err(Reason::SpawnFailed)
            }
        }
    }

    /// Serves the line whenever time has made room, until it is empty.
    fn mind(&self, parker: &Arc<Parker>) {
        loop {
            let (wakers, sleep) = {
                let mut state = self.inner.state.lock();
                let wakers = state.serve();
                let sleep = state.due_in().map(|due| (state.clock.clone(), due));
                if sleep.is_none() {
                    state.minder = None;
                }
                (wakers, sleep)
            };
            wake_quietly(wakers);
            let Some((clock, due)) = sleep else { return };
            parker.park_until(&clock, clock.now().after(due));
        }
    }
}

impl State {
    fn try_take(&mut self, weight: u64) -> Result<(), Reason> {
        if weight > self.supply.capacity() {
            return Err(Reason::TooHeavy);
        }
        let now = self.clock.now();
        if weight == 0 || (self.line.is_empty() && self.supply.take(weight, now)) {
            return Ok(());
        }
        Err(Reason::OverBudget)
    }

    /// Takes for the first in line while there is enough; whom to wake.
    fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let now = self.clock.now();
        while let Some(first) = self.line.front() {
            let fits = first.weight <= self.supply.capacity();
            if fits && !self.supply.take(first.weight, now) {
                break;
            }
            if let Some(first) = self.line.pop_front() {
                self.served.insert(first.number, fits);
                wakers.extend(first.waker);
            }
        }
        if self.due_in().is_some()
            && let Some(first) = self.line.front_mut()
            && self.told_first != Some(first.number)
        {
            // A new one is first, and its time comes without anybody giving something back.
            self.told_first = Some(first.number);
            match &self.minder {
                Some(minder) => minder.unpark(),
                None => wakers.extend(first.waker.take()),
            }
        }
        wakers
    }

    /// The line is in the order of the numbers.
    fn find(&self, number: u64) -> Option<usize> {
        self.line.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    /// How long until time makes room for the first in line.
    fn due_in(&self) -> Option<Duration> {
        self.line.front().and_then(|first| self.supply.due_in(first.weight))
    }
}

// ---------------------------------------------------------------- in line

/// A place in the line; dropping it leaves.
pub(crate) struct Place {
    budget: Budget,
    number: u64,
    weight: u64,
    left: bool,
}

pub(crate) enum Look {
    /// It is taken, and belongs to whoever looked.
    Served,
    /// The budget was made too small for it.
    TooHeavy,
    /// Look again when woken, or after that time.
    Waiting(Duration),
}

impl Place {
    pub(crate) fn look(&mut self, waker: &Waker) -> Look {
        let waker = waker.clone(); // user code: before the lock
        let (look, wakers, old) = {
            let mut state = self.budget.inner.state.lock();
            // Time may have made room.
            let wakers = state.serve();
            match state.served.remove(&self.number) {
                Some(taken) => {
                    self.left = true;
                    (if taken { Look::Served } else { Look::TooHeavy }, wakers, None)
                }
                None => {
                    let first = state.line.front().is_some_and(|w| w.number == self.number);
                    let due = if first { state.due_in() } else { None };
                    let mine = state.find(self.number).and_then(|at| state.line.get_mut(at));
                    let old = mine.and_then(|mine| mine.waker.replace(waker));
                    (Look::Waiting(due.unwrap_or(Duration::MAX)), wakers, old)
                }
            }
        };
        drop(old);
        wake_quietly(wakers);
        look
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (wakers, old) = {
            let mut state = self.budget.inner.state.lock();
            let now = state.clock.now();
            if state.served.remove(&self.number) == Some(true) {
                state.supply.refund(self.weight, now);
            }
            let old = state.find(self.number).and_then(|at| state.line.remove(at));
            // If it was first, the turn passes on.
            (state.serve(), old)
        };
        drop(old);
        wake_quietly(wakers);
    }
}

/// Waits for its share of a budget; made by [`Budget::acquire_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct Acquire {
    budget: Budget,
    weight: u64,
    place: Option<Place>,
}

impl Future for Acquire {
    type Output = Result<Permit, BudgetError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let error = |reason| Poll::Ready(Err(this.budget.error(this.weight, reason)));
        if this.place.is_none() {
            match this.budget.enter(this.weight) {
                Ok(None) => return Poll::Ready(Ok(Permit::new(&this.budget, this.weight))),
                Ok(place) => this.place = place,
                Err(reason) => return error(reason),
            }
        }
        let Some(place) = &mut this.place else { return Poll::Pending };
        let look = place.look(cx.waker());
        match look {
            Look::Served => {
                this.place = None;
                Poll::Ready(Ok(Permit::new(&this.budget, this.weight)))
            }
            Look::TooHeavy => {
                this.place = None;
                error(Reason::TooHeavy)
            }
            Look::Waiting(Duration::MAX) => Poll::Pending,
            Look::Waiting(_) => match this.budget.mind_the_time() {
                Ok(()) => Poll::Pending,
                Err(reason) => {
                    this.place = None;
                    error(reason)
                }
            },
        }
    }
}

// ---------------------------------------------------------------- held

/// A share of a budget, given back when it is dropped. (Of a rate: used up.)
#[must_use = "dropping a permit gives it back at once"]
pub struct Permit {
    budget: Budget,
    weight: u64,
}

impl Permit {
    pub(crate) fn new(budget: &Budget, weight: u64) -> Permit {
        Permit { budget: budget.clone(), weight }
    }

    /// How much it is.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Whose it is.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// It was taken for nothing: also a rate gets it back.
    pub(crate) fn refund(mut self) {
        let weight = std::mem::take(&mut self.weight);
        self.budget.refund(weight);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.weight == 0 {
            return;
        }
        let wakers = {
            let mut state = self.budget.inner.state.lock();
            state.supply.give_back(self.weight);
            state.serve()
        };
        wake_quietly(wakers);
    }
}

/// Why a share of a budget could not be had: which, how much, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetError {
    budget: Arc<str>,
    weight: u64,
    capacity: u64,
    reason: Reason,
}

impl BudgetError {
    /// OverBudget, TimedOut, TooHeavy or SpawnFailed.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BudgetError { budget, weight, capacity, reason } = self;
        let advice = reason.advice();
        write!(f, "{weight} of {capacity} of budget {budget:?} refused: {reason}; {advice}")
    }
}

impl std::error::Error for BudgetError {}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.name())
            .field("capacity", &self.capacity())
            .field("in_use", &self.in_use())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("budget", &self.budget.name())
            .field("weight", &self.weight)
            .finish()
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("budget", &self.budget.name())
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

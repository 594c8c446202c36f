//! Budgets as their users see them. How they are waited for is in `pot.rs`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::Clock;
use crate::pot::{InLine, Pot};
use crate::refused::{HOLDS_UP_A_RUNTIME, Reason};
use crate::supply::{Rate, Supply};

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
    pot: Arc<Pot>,
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
    ///     drop(requests.try_acquire(1)?); // ten at once, and no rate gets them back
    /// }
    /// drop(requests.acquire(1)?); // after 20 ms
    /// # Ok::<(), tidegate::BudgetError>(())
    /// ```
    pub fn per_second(name: impl Into<String>, permits: u64) -> Budget {
        Budget::per(Duration::from_secs(1), name, permits)
    }

    /// As [`per_second`](Budget::per_second), in another period: 10 per minute, say. A rate of
    /// 0 refuses everything as `TooHeavy`, one in no time at all is no limit but on what is
    /// taken at once.
    pub fn per(period: Duration, name: impl Into<String>, permits: u64) -> Budget {
        let clock = Clock::system();
        let supply = Supply::refilled(Rate::new(permits, period), permits, clock.now());
        Budget::with(name.into(), supply, clock)
    }

    /// How many permits of a rate can be taken at once, at first and after a rest. (Of a plain
    /// budget: how many there are.)
    #[must_use]
    pub fn burst(self, permits: u64) -> Budget {
        self.pot.change(|supply, now| {
            supply.resize(permits, now);
            supply.fill();
        });
        self
    }

    /// Where a rate takes its time from; for tests, [`Clock::manual`].
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Budget {
        self.pot.set_clock(clock);
        self
    }

    fn with(name: String, supply: Supply, clock: Clock) -> Budget {
        Budget { pot: Pot::new(name, supply, clock) }
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
        let clock = self.pot.clock();
        let deadline = clock.now().after(limit);
        let taken = self.pot.wait_for(weight, &clock, deadline, |_| (), || None);
        taken.map(|()| Permit::new(self, weight)).map_err(|reason| self.error(weight, reason))
    }

    /// Takes `weight` if it is there and nobody waits.
    pub fn try_acquire(&self, weight: u64) -> Result<Permit, BudgetError> {
        let taken = self.pot.try_take(weight);
        taken.map(|()| Permit::new(self, weight)).map_err(|reason| self.error(weight, reason))
    }

    /// As [`acquire`](Budget::acquire), for async code on any runtime. It queues up at its
    /// first poll; dropping it leaves the line. While a future waits for a *rate*, one thread
    /// minds the time.
    pub fn acquire_async(&self, weight: u64) -> Acquire {
        Acquire { budget: self.clone(), weight, place: None }
    }

    /// Makes it larger or smaller, at once; of a rate, the burst: how fast it refills stays.
    /// Smaller than what is held: nothing is given until enough has come back. Those who wait
    /// for more than there is now are refused.
    pub fn resize(&self, capacity: u64) {
        self.pot.resize(capacity);
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.pot.name()
    }

    /// The whole: of a rate, the burst.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.pot.reading().capacity
    }

    /// What can be taken now, if nobody waits.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.pot.reading().available
    }

    /// What is held; 0 of a rate.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.pot.reading().in_use
    }

    /// How many wait for it.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pot.reading().waiting as usize
    }

    /// What is held by abandoned tasks whose code still runs.
    #[must_use]
    pub fn held_by_abandoned(&self) -> u64 {
        self.pot.reading().held_by_abandoned
    }
}

#[cfg(feature = "prometheus")]
pub(crate) use crate::pot::BudgetReading;

/// A budget that is there as long as others hold it.
#[cfg(feature = "prometheus")]
pub(crate) struct WeakBudget(std::sync::Weak<Pot>);

#[cfg(feature = "prometheus")]
impl WeakBudget {
    pub(crate) fn upgrade(&self) -> Option<Budget> {
        self.0.upgrade().map(|pot| Budget { pot })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(crate) fn is(&self, budget: &Budget) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&budget.pot))
    }
}

#[cfg(feature = "prometheus")]
impl Budget {
    pub(crate) fn downgrade(&self) -> WeakBudget {
        WeakBudget(Arc::downgrade(&self.pot))
    }

    pub(crate) fn reading(&self) -> BudgetReading {
        self.pot.reading()
    }
}

/// What a pool does with it.
impl Budget {
    /// In this order one task takes several: the same for all, or they might wait for each
    /// other.
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.pot).cast()
    }

    pub(crate) fn pot(&self) -> &Arc<Pot> {
        &self.pot
    }

    fn error(&self, weight: u64, reason: Reason) -> BudgetError {
        let (budget, capacity) = (Arc::clone(self.pot.shared_name()), self.capacity());
        BudgetError { budget, weight, capacity, reason }
    }
}

/// Waits for its share of a budget; made by [`Budget::acquire_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct Acquire {
    budget: Budget,
    weight: u64,
    place: Option<InLine>,
}

impl Future for Acquire {
    type Output = Result<Permit, BudgetError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.place.is_none() {
            match this.budget.pot.enter(this.weight) {
                Ok(None) => return Poll::Ready(Ok(Permit::new(&this.budget, this.weight))),
                Ok(place) => this.place = place,
                Err(reason) => return Poll::Ready(Err(this.budget.error(this.weight, reason))),
            }
        }
        let Some(place) = &mut this.place else { return Poll::Pending };
        let Poll::Ready(taken) = place.poll(cx.waker()) else { return Poll::Pending };
        this.place = None;
        let permit = taken.map(|()| Permit::new(&this.budget, this.weight));
        Poll::Ready(permit.map_err(|reason| this.budget.error(this.weight, reason)))
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
        self.budget.pot.change(|supply, now| supply.refund(weight, now));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.weight > 0 {
            self.budget.pot.change(|supply, _| supply.give_back(self.weight));
        }
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
    /// OverBudget, TimedOut, TooHeavy, SpawnFailed, or WouldDeadlock inside a poll of an
    /// `AsyncPool`'s task, where [`acquire`](Budget::acquire) never blocks.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BudgetError { budget, weight, capacity, reason } = self;
        write!(f, "{weight} of {capacity} of budget {budget:?} refused: ")?;
        match reason {
            Reason::WouldDeadlock => {
                write!(f, "{HOLDS_UP_A_RUNTIME}; await `acquire_async` instead")
            }
            reason => write!(f, "{reason}; {}", reason.advice()),
        }
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

//! How much of a budget there is: what its holders give back, or what time refills.
//!
//! Pure: `now` is an argument.

use std::time::Duration;

use crate::clock::Ticks;

#[derive(Debug)]
pub(crate) enum Supply {
    /// `used` may exceed `capacity` after it was made smaller: nothing is given until enough
    /// has come back.
    Held { capacity: u64, used: u64 },
    /// `credit` is what there was at `at`, in permits times `period`: so it is exact.
    Refilled { burst: u64, rate: Rate, credit: u128, at: Ticks },
}

/// So many permits in so many nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    permits: u64,
    period: u64,
}

impl Rate {
    /// Neither is zero: a rate of nothing would never let anybody in.
    pub(crate) fn new(permits: u64, period: Duration) -> Rate {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        Rate { permits: permits.max(1), period: period.max(1) }
    }

    fn cost(self, weight: u64) -> u128 {
        u128::from(weight) * u128::from(self.period)
    }
}

impl Supply {
    pub(crate) fn held(capacity: u64) -> Supply {
        Supply::Held { capacity, used: 0 }
    }

    /// Full at first.
    pub(crate) fn refilled(rate: Rate, burst: u64, now: Ticks) -> Supply {
        Supply::Refilled { burst, rate, credit: rate.cost(burst), at: now }
    }

    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Supply::Held { capacity, .. } => *capacity,
            Supply::Refilled { burst, .. } => *burst,
        }
    }

    pub(crate) fn used(&self) -> u64 {
        match self {
            Supply::Held { used, .. } => *used,
            Supply::Refilled { .. } => 0,
        }
    }

    pub(crate) fn available(&mut self, now: Ticks) -> u64 {
        self.refill(now);
        match self {
            Supply::Held { capacity, used } => capacity.saturating_sub(*used),
            Supply::Refilled { burst, rate, credit, .. } => {
                let whole = *credit / u128::from(rate.period);
                u64::try_from(whole).map_or(*burst, |whole| whole.min(*burst))
            }
        }
    }

    /// True if there was enough, and it is taken.
    pub(crate) fn take(&mut self, weight: u64, now: Ticks) -> bool {
        let enough = weight <= self.available(now);
        match self {
            Supply::Held { used, .. } if enough => *used += weight,
            Supply::Refilled { rate, credit, .. } if enough => *credit -= rate.cost(weight),
            _ => {}
        }
        enough
    }

    /// Its holder is done. What time refills was used up when it was taken.
    pub(crate) fn give_back(&mut self, weight: u64) {
        if let Supply::Held { used, .. } = self {
            *used -= weight;
        }
    }

    /// It was taken for nothing.
    pub(crate) fn refund(&mut self, weight: u64, now: Ticks) {
        self.refill(now);
        match self {
            Supply::Held { used, .. } => *used -= weight,
            Supply::Refilled { burst, rate, credit, .. } => {
                *credit = credit.saturating_add(rate.cost(weight)).min(rate.cost(*burst));
            }
        }
    }

    /// As much as it can hold, if time would make it so anyway.
    pub(crate) fn fill(&mut self) {
        if let Supply::Refilled { burst, rate, credit, .. } = self {
            *credit = rate.cost(*burst);
        }
    }

    pub(crate) fn resize(&mut self, to: u64, now: Ticks) {
        self.refill(now);
        match self {
            Supply::Held { capacity, .. } => *capacity = to,
            Supply::Refilled { burst, rate, credit, .. } => {
                *burst = to;
                *credit = (*credit).min(rate.cost(to));
            }
        }
    }

    /// The clock is another one from now on.
    pub(crate) fn restart(&mut self, now: Ticks) {
        if let Supply::Refilled { at, .. } = self {
            *at = now;
        }
    }

    /// When time alone has made room; None: time makes none.
    pub(crate) fn due_at(&self, weight: u64) -> Option<Ticks> {
        match self {
            Supply::Held { .. } => None,
            Supply::Refilled { rate, credit, at, .. } => {
                let missing = rate.cost(weight).saturating_sub(*credit);
                let nanos = missing.div_ceil(u128::from(rate.permits));
                let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                Some(at.after(Duration::from_nanos(nanos)))
            }
        }
    }

    fn refill(&mut self, now: Ticks) {
        if let Supply::Refilled { burst, rate, credit, at } = self {
            let more = now.since(*at).as_nanos() * u128::from(rate.permits);
            *credit = credit.saturating_add(more).min(rate.cost(*burst));
            *at = (*at).max(now);
        }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    const NOW: Ticks = Ticks(1_000);

    fn later(millis: u64) -> Ticks {
        NOW.after(Duration::from_millis(millis))
    }

    #[test]
    fn b1_what_is_held_comes_back() {
        let mut supply = Supply::held(10);
        assert!(supply.take(7, NOW) && !supply.take(4, NOW) && supply.take(3, NOW));
        assert_eq!((supply.available(NOW), supply.used()), (0, 10));
        assert_eq!(supply.due_at(1), None, "time makes no room");
        supply.give_back(7);
        assert_eq!(supply.available(later(1)), 7);
        supply.refund(3, NOW);
        assert_eq!(supply.used(), 0);
    }

    #[test]
    fn b1_a_smaller_budget_waits_for_its_debt() {
        let mut supply = Supply::held(10);
        assert!(supply.take(8, NOW));
        supply.resize(5, NOW);
        assert_eq!((supply.available(NOW), supply.used()), (0, 8));
        supply.give_back(4);
        assert!(!supply.take(2, NOW) && supply.take(1, NOW));
        supply.resize(u64::MAX, NOW);
        assert!(supply.take(u64::MAX - 5, NOW) && !supply.take(1, NOW), "no overflow");
    }

    #[test]
    fn b2_time_refills_up_to_the_burst() {
        let mut supply = Supply::refilled(Rate::new(50, Duration::from_secs(1)), 10, NOW);
        assert!(supply.take(10, NOW) && !supply.take(1, NOW));
        assert_eq!(supply.due_at(1), Some(later(20)));
        assert_eq!(supply.due_at(3), Some(later(60)));
        assert!(
            !supply.take(1, later(19)) && supply.take(1, later(20)) && !supply.take(1, later(20))
        );
        supply.give_back(1);
        assert!(!supply.take(1, later(21)), "what was used is used");
        assert_eq!(supply.available(later(3_600_000)), 10, "no more than the burst");
    }

    #[test]
    fn b2_fractions_are_kept() {
        let mut supply = Supply::refilled(Rate::new(3, Duration::from_secs(1)), 1, NOW);
        let mut let_in = 0;
        for at in 0..10_000 {
            let_in += u64::from(supply.take(1, later(at)));
        }
        assert_eq!(let_in, 30, "one at once, 29 in 9.999 s");
    }

    #[test]
    fn b2_what_was_taken_for_nothing_is_refunded_once() {
        let mut supply = Supply::refilled(Rate::new(1, Duration::from_secs(60)), 5, NOW);
        assert!(supply.take(5, NOW));
        supply.refund(2, NOW);
        assert_eq!(supply.available(NOW), 2);
        supply.refund(5, NOW);
        assert_eq!(supply.available(NOW), 5, "never above the burst");
        supply.resize(3, NOW);
        assert_eq!(supply.available(NOW), 3);
    }

    #[test]
    fn l5_extreme_rates_do_not_overflow() {
        let most = || Supply::refilled(Rate::new(u64::MAX, Duration::MAX), u64::MAX, NOW);
        assert_eq!(most().available(Ticks::NEVER), u64::MAX, "what is full stays full");
        let mut supply = most();
        assert!(supply.take(u64::MAX, NOW));
        assert!(supply.available(Ticks::NEVER) > 0);
        supply.refund(u64::MAX, Ticks::NEVER);
        assert_eq!(supply.available(Ticks::NEVER), u64::MAX);
        let mut slow = Supply::refilled(Rate::new(0, Duration::ZERO), 1, NOW);
        assert!(slow.take(1, NOW) && slow.take(1, later(1)), "one per nanosecond at the least");
    }

    #[test]
    fn a_clock_that_steps_back_refills_nothing() {
        let mut supply = Supply::refilled(Rate::new(1, Duration::from_secs(1)), 1, later(500));
        assert!(
            supply.take(1, later(500)) && !supply.take(1, NOW) && !supply.take(1, later(1_000))
        );
        assert!(supply.take(1, later(1_500)));
    }
}

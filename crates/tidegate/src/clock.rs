//! Time as the pool sees it: nanoseconds since the clock's origin, never an
//! overflow, and a hand to turn in tests.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::counter;
use crate::parker::Parker;

/// A point in time, in nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(pub(crate) u64);

impl Ticks {
    /// Later than everything: what `Duration::MAX` from now comes to (L5).
    pub(crate) const NEVER: Ticks = Ticks(u64::MAX);

    /// Saturates at [`Ticks::NEVER`].
    pub(crate) fn after(self, d: Duration) -> Ticks {
        Ticks(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(crate) fn since(self, earlier: Ticks) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where a pool takes its time from.
///
/// Every deadline of a pool (grace, shutdown limits, waits for room, restart
/// back-off) follows its clock. [`Clock::manual`] gives one that only moves
/// when a test moves it:
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Clock, Pool, Shutdown};
///
/// let (clock, hand) = Clock::manual();
/// let pool = Pool::builder("timed").workers(1).clock(clock).build()?;
/// hand.advance(Duration::from_secs(3600)); // an hour passes at once
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Its origin, in nanoseconds of `real`.
    System(u64),
    Manual(Arc<Hand>),
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    Tokio(crate::on_tokio::TokioTime),
}

/// What a clock shows at first. Not 0, which elsewhere means "no time yet".
const ORIGIN: u64 = 1_000_000_000;

/// The system's monotonic time, in nanoseconds since the first call: 584 years fit.
fn real() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A moment of real time, whatever clock a pool has, to within 100 ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn after(d: Duration) -> Moment {
        Moment(Ticks(counter::about(real)).after(d).0)
    }

    pub(crate) fn has_come(self) -> bool {
        counter::about(real) >= self.0
    }
}

#[derive(Debug)]
struct Hand {
    // One lock for both: an alarm set while the hand moves is either seen or late.
    state: Mutex<(u64, Vec<(Ticks, Weak<Parker>)>)>,
}

/// Moves the clock that it was made with; see [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Hand>);

impl Clock {
    /// The operating system's monotonic clock: the default.
    pub fn system() -> Clock {
        Clock(Source::System(real()))
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.0, Source::System(_))
    }

    /// A test turns it by hand.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Whoever waits for a time of this one can wait for it by the other.
    pub(crate) fn goes_with(&self, other: &Clock) -> bool {
        match (&self.0, &other.0) {
            (Source::Manual(one), Source::Manual(two)) => Arc::ptr_eq(one, two),
            (Source::Manual(_), _) | (_, Source::Manual(_)) => false,
            _ => true,
        }
    }

    /// The time of a tokio runtime, which its user may have paused.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn tokio(time: crate::on_tokio::TokioTime) -> Clock {
        Clock(Source::Tokio(time))
    }

    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn tokio_time(&self) -> Option<&crate::on_tokio::TokioTime> {
        if let Source::Tokio(time) = &self.0 { Some(time) } else { None }
    }

    /// A clock that stands still until [`ManualClock::advance`] moves it.
    pub fn manual() -> (Clock, ManualClock) {
        let hand = Arc::new(Hand { state: Mutex::new((ORIGIN, Vec::new())) });
        (Clock(Source::Manual(Arc::clone(&hand))), ManualClock(hand))
    }

    pub(crate) fn now(&self) -> Ticks {
        match &self.0 {
            Source::System(origin) => Ticks(ORIGIN + real().saturating_sub(*origin)),
            Source::Manual(hand) => {
                Ticks(hand.state.lock().unwrap_or_else(PoisonError::into_inner).0)
            }
            #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
            Source::Tokio(time) => Ticks(ORIGIN + time.elapsed().as_nanos() as u64),
        }
    }

    /// As `now`, to within 100 ns where that is cheaper: for how long tasks take.
    #[inline]
    pub(crate) fn about_now(&self) -> Ticks {
        match &self.0 {
            Source::System(origin) => Ticks(ORIGIN + counter::about(real).saturating_sub(*origin)),
            _ => self.now(),
        }
    }

    /// None once `deadline` is reached.
    pub(crate) fn left_until(&self, deadline: Ticks) -> Option<Duration> {
        let now = self.now();
        (now < deadline).then(|| deadline.since(now))
    }

    /// Makes sure that `sleeper` wakes at `deadline` even if this clock is not the system's.
    pub(crate) fn alarm(&self, deadline: Ticks, sleeper: &Arc<Parker>) -> Alarm<'_> {
        if let Source::Manual(hand) = &self.0 {
            let mut state = hand.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.1.push((deadline, Arc::downgrade(sleeper)));
            return Alarm(Some((hand, Arc::as_ptr(sleeper))));
        }
        Alarm(None)
    }
}

impl ManualClock {
    /// Moves time forward and wakes whoever waited for a moment that has come.
    pub fn advance(&self, d: Duration) {
        let due: Vec<(Ticks, Weak<Parker>)> = {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = Ticks(state.0).after(d).0;
            let now = Ticks(state.0);
            let (due, later) =
                std::mem::take(&mut state.1).into_iter().partition(|(at, _)| *at <= now);
            state.1 = later;
            due
        };
        for (_, sleeper) in due {
            if let Some(parker) = sleeper.upgrade() {
                parker.unpark();
            }
        }
    }

    /// How many threads sleep until a moment of this clock. A test asks this to know that
    /// somebody has gone to sleep before it moves the hand. Submitters that wait for room
    /// look at the clock by themselves: ask `snapshot().waiting_submitters` for those.
    pub fn sleepers(&self) -> usize {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).1.len()
    }
}

/// Unregisters on drop.
pub(crate) struct Alarm<'c>(Option<(&'c Arc<Hand>, *const Parker)>);

impl Alarm<'_> {
    /// How long a real sleep may last: a manual clock wakes by itself.
    pub(crate) fn real_limit(&self, left: Duration) -> Option<Duration> {
        self.0.is_none().then_some(left)
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if let Some((hand, sleeper)) = &self.0 {
            let mut state = hand.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.1.retain(|(_, other)| other.as_ptr() != *sleeper);
        }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn l5_time_saturates_at_never() {
        assert_eq!(Ticks(5).after(Duration::MAX), Ticks::NEVER);
        assert_eq!(Ticks::NEVER.after(Duration::from_secs(1)), Ticks::NEVER);
        assert_eq!(Ticks(5).since(Ticks(9)), Duration::ZERO);
    }

    #[test]
    fn a_manual_clock_wakes_only_what_is_due() {
        let (clock, hand) = Clock::manual();
        let parker = Parker::new();
        let _early = clock.alarm(Ticks(ORIGIN + 10), &parker);
        hand.advance(Duration::from_nanos(9));
        assert_eq!(hand.sleepers(), 1);
        hand.advance(Duration::from_nanos(1));
        assert_eq!(hand.sleepers(), 0);
        parker.park();
    }
}

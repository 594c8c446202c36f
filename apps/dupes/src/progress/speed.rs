//! How fast it reads, of late.

use std::collections::VecDeque;
use std::time::Duration;

/// What is longer ago does not count.
const WINDOW: Duration = Duration::from_secs(5);

/// A shorter time says nothing.
const SHORTEST: Duration = Duration::from_secs(1);

/// Sums and when they were noted, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Speed {
    noted: VecDeque<(Duration, u64)>,
}

impl Speed {
    /// Time and sum never go back.
    pub(super) fn note(&mut self, at: Duration, sum: u64) {
        // One that is older than the window stays: it is where the window begins.
        while self.noted.get(1).is_some_and(|(second, _)| *second + WINDOW <= at) {
            self.noted.pop_front();
        }
        self.noted.push_back((at, sum));
    }

    /// None until it has been noted for a second.
    pub(super) fn per_second(&self) -> Option<u64> {
        let (from, least) = self.noted.front()?;
        let (to, most) = self.noted.back()?;
        let time = to.saturating_sub(*from);
        let per_second = most.saturating_sub(*least) as f64 / time.as_secs_f64();
        (time >= SHORTEST).then_some(per_second as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(notes: impl IntoIterator<Item = (u64, u64)>) -> Speed {
        let mut speed = Speed::default();
        notes.into_iter().for_each(|(ms, sum)| speed.note(Duration::from_millis(ms), sum));
        speed
    }

    #[test]
    fn it_takes_a_second_to_tell() {
        assert_eq!(after([]).per_second(), None);
        assert_eq!(after([(0, 0)]).per_second(), None);
        assert_eq!(after([(0, 0), (0, 9)]).per_second(), None, "no time at all");
        assert_eq!(after([(0, 0), (999, 500)]).per_second(), None);
        assert_eq!(after([(0, 0), (1_000, 500)]).per_second(), Some(500));
        assert_eq!(after([(0, u64::MAX), (1_000, 0)]).per_second(), Some(0), "never below");
        assert_eq!(after([(0, 0), (1_000, u64::MAX)]).per_second(), Some(u64::MAX));
    }

    #[test]
    fn only_the_last_seconds_count() {
        let fast_then_slow = (0..=100).map(|n| (n * 200, if n < 50 { n * 1_000 } else { 50_000 }));
        let speed = after(fast_then_slow);
        assert_eq!(speed.per_second(), Some(0), "it stands still");
        assert!(speed.noted.len() <= 27, "{}", speed.noted.len());
        let rare = after([(0, 0), (60_000, 600), (120_000, 1_800)]);
        assert_eq!(rare.per_second(), Some(20), "over a pause, since the one before");
    }
}

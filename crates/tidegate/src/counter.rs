//! The time between two readings of the clock, by the counter of the CPU.
//!
//! A reading costs about 30 ns, as much as a short task; the counter a third of it. A thread
//! remembers its last reading and what the counter showed then, and counts on from there, for
//! some tens of microseconds at most. So whatever the counter does, a time is wrong by less than
//! that, and by less than 100 ns while it runs evenly. That it does is the kernel's word: only
//! where its own clock is that counter is it used at all. On one thread time never goes back.

/// Nanoseconds as `real` gives them, to within 100.
#[inline]
pub(crate) fn about(real: impl Fn() -> u64) -> u64 {
    #[cfg(all(
        target_os = "linux",
        target_arch = "x86_64",
        not(any(miri, tidegate_portable, tidegate_loom, tidegate_shuttle))
    ))]
    return counted::about(real);
    #[allow(unreachable_code, reason = "elsewhere there is only the clock")]
    real()
}

#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(miri, tidegate_portable, tidegate_loom, tidegate_shuttle))
))]
mod counted {
    use std::cell::Cell;
    use std::ops::RangeInclusive;
    use std::sync::{Mutex, OnceLock};

    use crate::sync::atomic::AtomicU64;
    use crate::sync::atomic::Ordering::Relaxed;

    /// So far, in counts, a thread goes on from a reading: 20 to 100 µs.
    const FAR: u64 = 100_000;
    /// A reading that took more counts was interrupted, and says too little about the counter:
    /// it may be wrong by half of that.
    const QUICK: u64 = 400;
    /// Two readings that are so far apart, in nanoseconds, say how fast the counter is. Further,
    /// and the machine may have slept in between, which the clock does not count.
    const BASELINE: RangeInclusive<u64> = 2_000_000..=1_000_000_000;

    /// What the clock said, and the counter at that moment.
    #[derive(Clone, Copy)]
    pub(super) struct Pair {
        pub(super) nanos: u64,
        pub(super) count: u64,
    }

    /// What a thread remembers.
    #[derive(Clone, Copy)]
    pub(super) struct Last {
        pub(super) reading: Pair,
        /// No time that it was told is later.
        pub(super) told: u64,
    }

    const NO_READING: Pair = Pair { nanos: 0, count: 0 };

    thread_local! {
        static LAST: Cell<Last> = const { Cell::new(Last { reading: NO_READING, told: 0 }) };
    }

    /// Nanoseconds per count, times 2³²; 0 while nobody knows, or for good.
    static RATE: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(super) fn about(real: impl Fn() -> u64) -> u64 {
        let rate = RATE.load(Relaxed);
        if rate == 0 {
            return learn(real);
        }
        let last = LAST.get();
        let counts = count().wrapping_sub(last.reading.count);
        if counts < FAR {
            return last.counted(counts, rate);
        }
        let (nanos, reading) = read(real);
        let last = last.then(reading, rate);
        LAST.set(last);
        nanos.max(last.told)
    }

    impl Last {
        /// The time so many counts after the reading.
        #[inline(always)]
        pub(super) fn counted(self, counts: u64, rate: u64) -> u64 {
            self.told.max(self.reading.nanos + ((counts * rate) >> 32))
        }

        /// After the next reading. If that was no good, the next one reads again.
        pub(super) fn then(self, reading: Option<Pair>, rate: u64) -> Last {
            Last { reading: reading.unwrap_or(NO_READING), told: self.counted(FAR, rate) }
        }
    }

    #[cold]
    fn read(real: impl Fn() -> u64) -> (u64, Option<Pair>) {
        let before = count();
        let nanos = real();
        let took = count().wrapping_sub(before);
        (nanos, (took < QUICK).then_some(Pair { nanos, count: before + took / 2 }))
    }

    /// As `about` while nobody knows how fast the counter is; without a look at it where it is
    /// not to be used.
    #[cold]
    fn learn(real: impl Fn() -> u64) -> u64 {
        static TRUSTED: OnceLock<bool> = OnceLock::new();
        static FIRST: Mutex<First> = Mutex::new(First(None));
        if !*TRUSTED.get_or_init(is_trusted) {
            return real();
        }
        let (nanos, pair) = read(real);
        if let Some(pair) = pair
            && let Ok(mut first) = FIRST.try_lock()
        {
            RATE.store(first.rate_until(pair), Relaxed);
        }
        nanos
    }

    /// A reading to compare a later one with.
    pub(super) struct First(pub(super) Option<Pair>);

    impl First {
        /// The rate, or 0 if `now` does not say it.
        pub(super) fn rate_until(&mut self, now: Pair) -> u64 {
            let first = *self.0.get_or_insert(now);
            let nanos = now.nanos.saturating_sub(first.nanos);
            if nanos > *BASELINE.end() {
                self.0 = Some(now);
            }
            if BASELINE.contains(&nanos) {
                rate(nanos, now.count.wrapping_sub(first.count))
            } else {
                0
            }
        }
    }

    /// 0 unless it is that of a CPU: 0.5 to 10 GHz.
    pub(super) fn rate(nanos: u64, counts: u64) -> u64 {
        let rate = (u128::from(nanos) << 32) / u128::from(counts.max(1));
        let sane = (1 << 32) / 10..=2 << 32;
        if sane.contains(&rate) { rate as u64 } else { 0 }
    }

    /// The kernel has made sure that it is even, never stops, and is the same on every core.
    fn is_trusted() -> bool {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
    }

    #[inline(always)]
    fn count() -> u64 {
        // SAFETY: every x86-64 has the instruction. A process can be forbidden it; but where it is
        // the kernel's clock, and only there we come here, the C library uses it as well.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use crate::clock::Clock;
    use std::time::Duration;

    /// A hundred times what is promised: what it must not be is another clock.
    const NEAR: Duration = Duration::from_micros(10);

    #[test]
    fn about_now_lies_between_two_readings() {
        let clock = Clock::system();
        let began = clock.now();
        let mut rounds = 0;
        while clock.now().since(began) < Duration::from_millis(50) || rounds < 1_000 {
            let before = clock.now();
            let about = clock.about_now();
            let after = clock.now();
            assert!(about.after(NEAR) >= before, "{about:?} is long before {before:?}");
            assert!(after.after(NEAR) >= about, "{about:?} is long after {after:?}");
            rounds += 1;
        }
    }

    #[test]
    fn on_one_thread_it_never_goes_back() {
        let clock = Clock::system();
        let (began, mut last) = (clock.now(), clock.about_now());
        while clock.now().since(began) < Duration::from_millis(100) {
            for _ in 0..1_000 {
                let now = clock.about_now();
                assert!(now >= last, "{} ns back", last.0 - now.0);
                last = now;
            }
        }
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, tidegate_portable))))]
    #[test]
    fn who_counted_too_fast_stands_still_until_time_has_come_up() {
        use super::counted::{Last, Pair};
        let two_ghz = 1 << 31;
        let last = Last { reading: Pair { nanos: 1_000, count: 0 }, told: 0 };
        let told = last.counted(99_999, two_ghz);
        assert_eq!(told, 50_999);
        let last = last.then(Some(Pair { nanos: 50_000, count: 100_000 }), two_ghz);
        assert!(last.counted(0, two_ghz) >= told, "it is only 50,000");
        assert!((told..=told + 1).contains(&last.counted(2_000, two_ghz)), "as far as it was");
        assert_eq!(last.counted(3_000, two_ghz), 51_500, "and goes on with the clock");
        assert!(last.then(None, two_ghz).told >= 51_500, "also after a reading that was no good");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, tidegate_portable))))]
    #[test]
    fn only_what_could_be_a_cpu_is_believed() {
        let rate = super::counted::rate;
        assert_eq!(rate(1_000_000, 2_000_000), 1 << 31, "2 GHz");
        assert_ne!(rate(1_000_000, 500_000), 0, "0.5 GHz");
        assert_eq!(rate(1_000_000, 499_999), 0);
        assert_ne!(rate(1_000_000, 10_000_000), 0, "10 GHz");
        assert_eq!(rate(1_000_000, 10_000_100), 0);
        assert_eq!((rate(0, 0), rate(u64::MAX, 1)), (0, 0));
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(miri, tidegate_portable))))]
    #[test]
    fn a_machine_that_slept_in_between_does_not_make_the_counter_slow() {
        use super::counted::{First, Pair};
        const SECOND: u64 = 1_000_000_000;
        let mut first = First(None);
        // 2 GHz, and the counter went on while the clock stood still.
        assert_eq!(first.rate_until(Pair { nanos: SECOND, count: 0 }), 0);
        assert_eq!(first.rate_until(Pair { nanos: SECOND + 1_000, count: 2_000 }), 0, "too near");
        let mut now = Pair { nanos: 9 * SECOND, count: 32 * SECOND };
        assert_eq!(first.rate_until(now), 0, "half as fast as it is");
        now = Pair { nanos: now.nanos + SECOND / 100, count: now.count + SECOND / 50 };
        assert_eq!(first.rate_until(now), 1 << 31);
    }
}

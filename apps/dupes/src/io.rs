//! How many workers pay for reading: as many as there are cores while everything is in memory, and
//! more the more of their time they are blocked.
//!
//! The kernel's own word on a device is often wrong (a virtual disk calls itself a rotating one). So
//! it is measured: what a thread neither spent on a core nor waiting for one, it was blocked.

use std::cell::RefCell;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate::Pool;

/// More never helped, on the disks we have.
pub const MOST: usize = 32;
/// So much time of workers is a sample worth deciding by.
const ENOUGH: Duration = Duration::from_millis(4);
/// One in so many pieces of work is measured, once a few have been.
const SELDOM: u32 = 4;
const FIRST: u32 = 32;

/// Watches over the workers of one pool.
#[derive(Debug)]
pub struct Gauge {
    cores: usize,
    most: usize,
    is_fixed: bool,
    workers: AtomicUsize,
    pieces: AtomicU32,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    all: Duration,
    blocked: Duration,
}

/// The beginning of a piece of work.
#[derive(Debug)]
pub struct Begun {
    at: Instant,
    busy: Duration,
}

impl Gauge {
    /// `fixed`: what somebody has asked for; else from `cores` to `most`.
    pub fn new(cores: usize, fixed: Option<NonZeroUsize>, most: usize) -> Gauge {
        Gauge {
            cores: cores.min(most),
            most: most.min(MOST),
            is_fixed: fixed.is_some(),
            workers: AtomicUsize::new(fixed.map_or(cores, NonZeroUsize::get).min(most)),
            pieces: AtomicU32::new(0),
            sums: Mutex::default(),
        }
    }

    /// How many there should be.
    pub fn workers(&self) -> usize {
        self.workers.load(Relaxed)
    }

    /// A worker begins with a piece of work.
    pub fn begin(&self) -> Option<Begun> {
        if self.is_fixed {
            return None;
        }
        let piece = self.pieces.fetch_add(1, Relaxed);
        if piece >= FIRST && !piece.is_multiple_of(SELDOM) {
            return None;
        }
        Some(Begun { busy: busy()?, at: Instant::now() })
    }

    /// And has done it.
    pub fn end(&self, pool: &Pool, begun: Option<Begun>) {
        let Some(begun) = begun else { return };
        let (all, Some(busy)) = (begun.at.elapsed(), busy()) else { return };
        let blocked = all.saturating_sub(busy.saturating_sub(begun.busy));
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.all += all;
        sums.blocked += blocked;
        if sums.all < ENOUGH {
            return;
        }
        let share = sums.blocked.as_secs_f64() / sums.all.as_secs_f64();
        *sums = Sums::default();
        drop(sums);
        let now = self.workers();
        let wanted = wanted(now, self.cores, self.most, share);
        // A pool that is about to end has the size it has.
        if wanted != now && pool.resize(wanted).is_ok() {
            self.workers.store(wanted, Relaxed);
        }
    }
}

/// How many workers keep `cores` busy if each is blocked for that share of its time. Fewer than now
/// only if they are far too many: a burst from memory says little of what comes next.
fn wanted(now: usize, cores: usize, most: usize, blocked: f64) -> usize {
    let running = (1.0 - blocked).max(1.0 / 1024.0);
    let wanted = ((cores as f64 / running) as usize).clamp(cores, most.max(cores));
    if wanted > now || wanted * 4 <= now { wanted } else { now }
}

thread_local! {
    static STATISTICS: RefCell<Option<File>> =
        RefCell::new(File::open("/proc/thread-self/schedstat").ok());
}

/// How long this thread has run, or waited for a core. None where the kernel does not say.
fn busy() -> Option<Duration> {
    STATISTICS.with_borrow(|file| {
        let mut text = [0; 64];
        let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
        parse(&text[..len])
    })
}

/// Nanoseconds on a core, and those of waiting for one.
fn parse(statistics: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(statistics).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    // A kernel that does not count says so by zeros.
    (ran > 0).then(|| Duration::from_nanos(ran.saturating_add(waited)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_keep_the_cores_busy() {
        let rows = [
            // now, cores, blocked → wanted
            (2, 2, 0.0, 2),
            (2, 2, 0.3, 2),
            (2, 2, 0.5, 4),
            (2, 2, 0.75, 8),
            (2, 2, 1.0, MOST),
            (19, 2, 0.5, 4),
            (8, 2, 0.5, 8),
            (8, 2, 0.0, 2),
            (64, 64, 0.9, 64),
        ];
        assert_eq!(wanted(2, 2, 5, 1.0), 5);
        for (now, cores, blocked, expected) in rows {
            assert_eq!(wanted(now, cores, MOST, blocked), expected, "{now} of {cores}, {blocked}");
        }
    }

    #[test]
    fn what_was_asked_for_is_not_measured() {
        let gauge = Gauge::new(2, NonZeroUsize::new(5), MOST);
        assert_eq!(gauge.workers(), 5);
        assert!(gauge.begin().is_none());
    }

    #[test]
    fn a_kernel_that_does_not_count_says_nothing() {
        assert_eq!(parse(b"7 3 1\n"), Some(Duration::from_nanos(10)));
        assert_eq!(parse(b"18446744073709551615 1 1\n"), Some(Duration::from_nanos(u64::MAX)));
        let nothing: [&[u8]; 8] =
            [b"0 0 0\n", b"0 5 1\n", b"", b"\n", b"7\n", b"7 x\n", b"-7 3\n", b"\xff 1"];
        for statistics in nothing {
            assert_eq!(parse(statistics), None, "{}", statistics.escape_ascii());
        }
    }

    /// What can't be measured is no reason to have more of them, or fewer.
    #[test]
    fn without_statistics_there_are_as_many_as_cores() {
        let pool = Pool::builder("io").workers(2).build().unwrap();
        let gauge = Gauge::new(2, None, MOST);
        for _ in 0..100 {
            gauge.end(&pool, None);
        }
        assert_eq!(gauge.workers(), 2);
        // With them: ten seconds that were spent on nothing. The kernel counts from its next tick on.
        let since = Instant::now();
        while busy().is_none() && since.elapsed() < Duration::from_secs(1) {}
        let Some(busy) = busy() else {
            eprintln!("skipped: this kernel does not count");
            return;
        };
        let at = since.checked_sub(Duration::from_secs(10)).unwrap();
        gauge.end(&pool, Some(Begun { at, busy }));
        assert_eq!(gauge.workers(), MOST);
    }
}

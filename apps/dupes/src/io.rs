//! How many workers pay for reading: as many as there are cores while everything is in memory, and
//! twice as many, again and again, while they are blocked.
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

use rustix::time::{ClockId, clock_gettime};
use tidegate::Pool;

/// More never helped, on the disks we have.
pub const MOST: usize = 32;
/// So much time of workers is a sample worth deciding by: much more than one waits for another that
/// holds a lock and has lost its core.
const ENOUGH: Duration = Duration::from_millis(32);
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
    busy: Duration,
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
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.all += all;
        sums.busy += busy.saturating_sub(begun.busy);
        if sums.all < ENOUGH {
            return;
        }
        let share = 1.0 - (sums.busy.as_secs_f64() / sums.all.as_secs_f64()).min(1.0);
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

/// Who is blocked for a good part of the time waits for the disk, and a disk that is asked for more at a time
/// gives more: twice as many, step by step. Half as many when next to nobody is blocked: a burst from memory
/// says little of what comes next, and too many from memory do no harm for a while.
fn wanted(now: usize, cores: usize, most: usize, blocked: f64) -> usize {
    let wanted = match blocked {
        0.25.. => now * 2,
        ..0.05 => now / 2,
        _ => now,
    };
    wanted.clamp(cores, most.max(cores))
}

thread_local! {
    static STATISTICS: RefCell<Option<File>> =
        RefCell::new(File::open("/proc/thread-self/schedstat").ok());
}

/// How long this thread has run, or waited for a core. None where the kernel does not say.
fn busy() -> Option<Duration> {
    let waited = STATISTICS.with_borrow(|file| {
        let mut text = [0; 64];
        let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
        waited(&text[..len])
    })?;
    // The statistics say that as well, as of the last tick: up to 10 ms ago.
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    Some(waited + Duration::try_from(ran).ok()?)
}

/// What the kernel says of a thread: how long it has run, and waited for a core, in ns, and how often it was
/// given one.
fn waited(statistics: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(statistics).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    // A kernel that does not count says so by zeros.
    (ran > 0).then(|| Duration::from_nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_while_they_wait_for_the_disk_and_fewer_when_nobody_does() {
        let rows = [
            // now, cores, blocked → wanted
            (2, 2, 0.0, 2),
            (2, 2, 0.2, 2),
            (2, 2, 0.25, 4),
            (2, 2, 1.0, 4),
            (19, 2, 0.5, MOST),
            (MOST, 2, 1.0, MOST),
            (MOST, 2, 0.1, MOST),
            (MOST, 2, 0.0, MOST / 2),
            (3, 2, 0.0, 2),
            (64, 64, 0.9, 64),
        ];
        assert_eq!(wanted(4, 2, 5, 1.0), 5);
        for (now, cores, blocked, expected) in rows {
            assert_eq!(wanted(now, cores, MOST, blocked), expected, "{now} of {cores}, {blocked}");
        }
    }

    /// The kernel counts from its next tick on, or not at all.
    fn first_busy() -> Option<Duration> {
        let since = Instant::now();
        while busy().is_none() && since.elapsed() < Duration::from_secs(1) {}
        busy().or_else(|| {
            eprintln!("skipped: this kernel does not count");
            None
        })
    }

    /// To the ms, not to the tick: a piece of work is often shorter than one.
    #[test]
    fn what_a_thread_computes_is_no_wait() {
        if first_busy().is_none() {
            return;
        }
        // A machine that is itself a guest may lose time that nobody counts.
        let is_exact = (0..50).any(|_| {
            let (begun, before) = (Instant::now(), busy().unwrap());
            while begun.elapsed() < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
            let (all, counted) = (begun.elapsed(), busy().unwrap() - before);
            counted + Duration::from_micros(200) >= all
                && counted <= all + Duration::from_micros(200)
        });
        assert!(is_exact);
    }

    #[test]
    fn what_was_asked_for_is_not_measured() {
        let gauge = Gauge::new(2, NonZeroUsize::new(5), MOST);
        assert_eq!(gauge.workers(), 5);
        assert!(gauge.begin().is_none());
    }

    #[test]
    fn a_kernel_that_does_not_count_says_nothing() {
        assert_eq!(waited(b"7 3 1\n"), Some(Duration::from_nanos(3)));
        let nothing: [&[u8]; 8] =
            [b"0 0 0\n", b"0 5 1\n", b"", b"\n", b"7\n", b"7 x\n", b"-7 3\n", b"\xff 1"];
        for statistics in nothing {
            assert_eq!(waited(statistics), None, "{}", statistics.escape_ascii());
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
        // With them: ten seconds that were spent on nothing.
        let Some(busy) = first_busy() else { return };
        let at = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        gauge.end(&pool, Some(Begun { at, busy }));
        assert_eq!(gauge.workers(), 4);
    }
}

//! The task cell: one word that decides every race about one task.
//!
//! ```text
//!  bits 20..64  generation: a reference that names an older life finds nothing
//!  bit  19      BORROWS  a scoped task: never abandoned
//!  bit  18      LIMITED  the second line holds its time limits
//!  bit  17      EXTRAS   the second line holds extras of this life
//!  bit  16      NAMED    the second line holds its name
//!  bits 12..16  outcome kind, once Settled
//!  bits  8..12  cause of the stop or of the cancellation (the first one stays)
//!  bit   7      TAKING   the publisher is moving the waker out
//!  bit   6      TOKEN    `cx.token()` was called: a stop must reach that token
//!  bit   5      STOP     told to stop while running
//!  bit   4      WAKER    `waker` is filled, by the handle
//!  bit   3      HANDLE   a handle will collect the outcome
//!  bits  0..3   phase
//!
//!  Free ─ fill ▶ Queued ─ claim ▶ Running ─ claim ▶ Settling ─ publish ▶ Settled ▶ Free
//!                    └─────────── claim ────────────────▲
//! ```
//!
//! Who may touch what:
//! - `payload`: the filler until Queued; then the winner of each claim; the handle
//!   once Settled. While Running it is empty (the closure is on a stack).
//! - `waker`: the handle while WAKER and TAKING are off and the task is unsettled;
//!   the publisher while TAKING.
//! - everything else is atomic, because scans read it at any time and check the
//!   generation afterwards.
//!
//! The life of a plain task touches the first cache line only: submitter, worker and
//! waiter hand it to each other, and each line that travels costs as much as the task.
//!
//! A cell is freed by whoever comes second: the handle (collects or drops after
//! Settled) or the publisher (finds HANDLE gone).

use std::mem::MaybeUninit;
use std::task::Waker;
use std::time::Duration;

use crate::job::Words;
use crate::sync::RaceCell;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

pub(crate) const PHASE: u64 = 0b111;
pub(crate) const FREE: u64 = 0;
pub(crate) const QUEUED: u64 = 1;
pub(crate) const RUNNING: u64 = 2;
pub(crate) const SETTLING: u64 = 3;
pub(crate) const SETTLED: u64 = 4;

pub(crate) const HANDLE: u64 = 1 << 3;
pub(crate) const WAKER: u64 = 1 << 4;
pub(crate) const STOP: u64 = 1 << 5;
pub(crate) const TOKEN: u64 = 1 << 6;
pub(crate) const TAKING: u64 = 1 << 7;
pub(crate) const CAUSE_SHIFT: u32 = 8;
pub(crate) const KIND_SHIFT: u32 = 12;
pub(crate) const NAMED: u64 = 1 << 16;
pub(crate) const EXTRAS: u64 = 1 << 17;
pub(crate) const LIMITED: u64 = 1 << 18;
pub(crate) const BORROWS: u64 = 1 << 19;
pub(crate) const GENERATION_SHIFT: u32 = 20;

/// 55 bits of microseconds hold whatever 64 bits of nanoseconds can say.
pub(crate) const STAMP_SHIFT: u32 = 9;
pub(crate) const STAMP_TAG: u64 = (1 << STAMP_SHIFT) - 1;

/// How a settled cell's payload is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// payload: the value
    Completed = 1,
    /// payload: the error
    Failed,
    /// payload: a boxed `Panic`
    Panicked,
    TimedOutInQueue,
    TimedOutRunning,
    Cancelled,
    /// payload: the error that the task returned when it was told to stop
    CancelledWithError,
    Evicted,
    Abandoned,
}

impl Kind {
    pub(crate) fn from_word(word: u64) -> Kind {
        match (word >> KIND_SHIFT) & 0xf {
            1 => Kind::Completed,
            2 => Kind::Failed,
            3 => Kind::Panicked,
            4 => Kind::TimedOutInQueue,
            5 => Kind::TimedOutRunning,
            6 => Kind::Cancelled,
            7 => Kind::CancelledWithError,
            8 => Kind::Evicted,
            _ => Kind::Abandoned,
        }
    }
}

/// Functions that know the types of one task.
pub(crate) struct Ops {
    /// It is polled until it is ready; a closure ends where it begins.
    pub(crate) is_future: bool,
    /// Runs the work in `payload` and settles the cell; true if it panicked.
    #[cfg(not(tidegate_loom))]
    pub(crate) run: unsafe fn(crate::life::CellRef, &crate::settle::RunEnv<'_>) -> bool,
    /// Drops work that never ran.
    pub(crate) drop_work: unsafe fn(*mut Words),
    /// Drops a settled payload.
    pub(crate) drop_output: unsafe fn(*mut Words, Kind),
    /// The message of a settled error or panic, for `on_unobserved` and callbacks.
    pub(crate) describe: unsafe fn(*const Words, Kind) -> Option<String>,
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ops")
    }
}

#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct TaskCell {
    pub(crate) word: AtomicU64,
    pub(crate) ops: AtomicPtr<Ops>,
    /// The pool's core; only the winner of a claim may follow it. In a free cell, the next
    /// free one.
    pub(crate) core: AtomicPtr<()>,
    pub(crate) payload: RaceCell<Words>,
    // second line
    /// When its time is up, in ticks; the lowest bit says whether it is the time in the
    /// queue (0) or of the run (1).
    pub(crate) limit_at: AtomicU64,
    /// How long it may run, in nanoseconds; of a future that runs, which worker polls it.
    pub(crate) run_limit: AtomicU64,
    /// When it was told to stop (`stamp`); 0 = not yet.
    pub(crate) stopped_at: AtomicU64,
    pub(crate) name: AtomicPtr<u8>,
    pub(crate) name_len: AtomicU32,
    /// Which cell this is, for ids.
    pub(crate) number: u32,
    /// Lazily made, kept for the cell's next lives (`extras.rs`).
    pub(crate) extras: AtomicPtr<()>,
    pub(crate) waker: RaceCell<Option<Waker>>,
}

// SAFETY: the table at the top of this file says who may touch the two `RaceCell`s
// when; the payload itself is `Send` by the bounds of `Work`.
unsafe impl Send for TaskCell {}
// SAFETY: as above.
unsafe impl Sync for TaskCell {}

impl TaskCell {
    pub(crate) fn new(number: u32) -> Self {
        TaskCell {
            word: AtomicU64::new(1 << GENERATION_SHIFT | FREE),
            ops: AtomicPtr::new(std::ptr::null_mut()),
            core: AtomicPtr::new(std::ptr::null_mut()),
            payload: RaceCell::new([MaybeUninit::uninit(); crate::ring::INLINE_WORDS]),
            limit_at: AtomicU64::new(0),
            run_limit: AtomicU64::new(0),
            stopped_at: AtomicU64::new(0),
            name: AtomicPtr::new(std::ptr::null_mut()),
            name_len: AtomicU32::new(0),
            number,
            extras: AtomicPtr::new(std::ptr::null_mut()),
            waker: RaceCell::new(None),
        }
    }
}

/// What a new life of a cell is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    /// A handle will collect the outcome.
    pub(crate) handle: bool,
    /// The extras are filled already, or will be right after.
    pub(crate) extras: bool,
    /// Some if it has a time limit of whatever sort; this one counts from the start.
    pub(crate) run_limit: Option<Duration>,
    /// It must not be abandoned.
    pub(crate) borrows: bool,
}

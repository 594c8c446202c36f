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
use std::ptr::NonNull;
use std::task::Waker;
use std::time::Duration;

use crate::clock::Ticks;
use crate::job::Words;
use crate::outcome::Cause;
use crate::sync::RaceCell;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

pub(crate) const PHASE: u64 = 0b111;
const FREE: u64 = 0;
const QUEUED: u64 = 1;
const RUNNING: u64 = 2;
pub(crate) const SETTLING: u64 = 3;
pub(crate) const SETTLED: u64 = 4;

pub(crate) const HANDLE: u64 = 1 << 3;
pub(crate) const WAKER: u64 = 1 << 4;
const STOP: u64 = 1 << 5;
const TOKEN: u64 = 1 << 6;
pub(crate) const TAKING: u64 = 1 << 7;
const CAUSE_SHIFT: u32 = 8;
pub(crate) const KIND_SHIFT: u32 = 12;
const NAMED: u64 = 1 << 16;
const EXTRAS: u64 = 1 << 17;
const LIMITED: u64 = 1 << 18;
const BORROWS: u64 = 1 << 19;
const GENERATION_SHIFT: u32 = 20;

/// 55 bits of microseconds hold whatever 64 bits of nanoseconds can say.
const STAMP_SHIFT: u32 = 9;
const STAMP_TAG: u64 = (1 << STAMP_SHIFT) - 1;

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
    fn from_word(word: u64) -> Kind {
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
    /// Runs the work in `payload` and settles the cell; true if it panicked.
    #[cfg(not(tidegate_loom))]
    pub(crate) run: unsafe fn(CellRef, &crate::settle::RunEnv<'_>) -> bool,
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
    ops: AtomicPtr<Ops>,
    /// The pool's core; only the winner of a claim may follow it. In a free cell, the next
    /// free one.
    pub(crate) core: AtomicPtr<()>,
    payload: RaceCell<Words>,
    // second line
    /// When its time is up, in ticks; the lowest bit says whether it is the time in the
    /// queue (0) or of the run (1).
    limit_at: AtomicU64,
    /// How long it may run, in nanoseconds.
    run_limit: AtomicU64,
    /// When it was told to stop (`stamp`); 0 = not yet.
    stopped_at: AtomicU64,
    name: AtomicPtr<u8>,
    name_len: AtomicU32,
    /// Which cell this is, for ids.
    number: u32,
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

/// Names one life of one cell. Cells are never given back to the allocator, so a
/// stale reference is harmless: its generation no longer matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRef {
    cell: NonNull<TaskCell>,
    generation: u64,
}

// SAFETY: a `CellRef` is an address of a `Sync` object that lives for ever.
unsafe impl Send for CellRef {}
// SAFETY: as above.
unsafe impl Sync for CellRef {}

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

/// The claim was won: the state before it, for flags and cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Won(u64);

impl Won {
    /// The cause of a stop request, if there was one before the claim.
    pub(crate) fn stop_cause(self) -> Option<Cause> {
        (self.0 & STOP != 0).then(|| cause_of(self.0))
    }
}

/// The cause in the word. Without one (0) any will do: only outcomes that have a cause
/// show it.
fn cause_of(word: u64) -> Cause {
    match ((word >> CAUSE_SHIFT) & 0xf) as u8 {
        0 => Cause::Shutdown,
        bits => Cause::from_bits(bits),
    }
}

/// What a handle found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Queued,
    Running,
    Settling,
    Settled(Kind, Cause),
}

impl CellRef {
    /// # Safety contract of the crate
    /// `cell` came from the depot (or, in models, was leaked) and is Free; the caller
    /// owns it.
    pub(crate) fn of_free(cell: NonNull<TaskCell>) -> CellRef {
        // SAFETY: cells live for ever.
        let generation = unsafe { cell.as_ref() }.word.load(Acquire) >> GENERATION_SHIFT;
        CellRef { cell, generation }
    }

    pub(crate) fn from_parts(address: *mut (), generation: u64) -> CellRef {
        let cell = NonNull::new(address.cast()).expect("a published cell slot holds an address");
        CellRef { cell, generation }
    }

    pub(crate) fn address(self) -> *mut () {
        self.cell.as_ptr().cast()
    }

    pub(crate) fn number(self) -> u32 {
        self.cell().number
    }

    pub(crate) fn generation(self) -> u64 {
        self.generation
    }

    #[inline(always)]
    pub(crate) fn cell(self) -> &'static TaskCell {
        // SAFETY: cells are never deallocated, and shared access is through atomics or
        // by the table at the top.
        unsafe { self.cell.as_ref() }
    }

    fn is_mine(self, word: u64) -> bool {
        word >> GENERATION_SHIFT == self.generation
    }

    // ------------------------------------------------------------ filling

    /// Makes a free cell a queued task. The word is stored last; the queue publishes it.
    #[inline(always)]
    pub(crate) fn fill(
        self,
        ops: &'static Ops,
        core: *const (),
        label: Label,
        write: impl FnOnce(*mut Words),
    ) {
        let cell = self.cell();
        debug_assert_eq!(cell.word.load(Relaxed) & PHASE, FREE, "a cell was filled twice");
        cell.ops.store(std::ptr::from_ref(ops).cast_mut(), Relaxed);
        cell.core.store(core.cast_mut(), Relaxed);
        let Label { name, handle, extras, run_limit, borrows } = label;
        let mut flags = if handle { HANDLE } else { 0 };
        if extras {
            flags |= EXTRAS;
        }
        if borrows {
            flags |= BORROWS;
        }
        if !name.is_empty() {
            flags |= NAMED;
            // Release: a scan that reads these also sees that the former life is over.
            cell.name.store(name.as_ptr().cast_mut(), Release);
            cell.name_len.store(name.len() as u32, Release);
        }
        if let Some(limit) = run_limit {
            flags |= LIMITED;
            cell.limit_at.store(u64::MAX - 1, Relaxed); // until `limit_queue`
            let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            cell.run_limit.store(limit, Relaxed);
        }
        cell.payload.with_mut(write);
        cell.word.store(self.generation << GENERATION_SHIFT | flags | QUEUED, Release);
    }

    /// Takes a cell back that the queue refused: nobody else has seen it.
    pub(crate) fn unfill<R>(self, read: impl FnOnce(*mut Words) -> R) -> R {
        self.cell().payload.with_mut(read)
    }

    /// Ends this life. The caller owns the cell and has emptied the payload.
    pub(crate) fn retire(self) -> NonNull<TaskCell> {
        if self.cell().word.load(Relaxed) & STOP != 0 {
            self.cell().stopped_at.store(0, Relaxed);
        }
        let next = (self.generation + 1) & (u64::MAX >> GENERATION_SHIFT);
        self.cell().word.store(next << GENERATION_SHIFT | FREE, Release);
        self.cell
    }

    // ------------------------------------------------------------ claims

    /// Moves from `from` to `to` if this life still is in that phase.
    #[inline(always)]
    fn claim(self, from: u64, to: u64, set: u64) -> Option<Won> {
        let word = &self.cell().word;
        let mut seen = word.load(Relaxed);
        loop {
            if !self.is_mine(seen) || seen & PHASE != from {
                return None;
            }
            let next = seen & !PHASE | to | set;
            match word.compare_exchange_weak(seen, next, SeqCst, Acquire) {
                Ok(_) => return Some(Won(seen)),
                Err(now) => seen = now,
            }
        }
    }

    /// Queued → Running.
    #[inline(always)]
    pub(crate) fn claim_start(self) -> bool {
        self.claim(QUEUED, RUNNING, 0).is_some()
    }

    /// Queued → Settling: cancelled, evicted or timed out before it ran.
    pub(crate) fn claim_queued(self, cause: Cause) -> Option<Won> {
        self.claim(QUEUED, SETTLING, u64::from(cause.to_bits()) << CAUSE_SHIFT)
    }

    /// Running → Settling: the closure returned, or the supervisor gives it up.
    #[inline(always)]
    pub(crate) fn claim_running(self) -> Option<Won> {
        self.claim(RUNNING, SETTLING, 0)
    }

    /// Running → Settling, only if it was told to stop, and does not borrow.
    pub(crate) fn claim_stopped(self) -> Option<Won> {
        let seen = self.cell().word.load(SeqCst);
        if seen & STOP == 0 || seen & BORROWS != 0 {
            return None;
        }
        self.claim_running()
    }

    /// Sets the cause that a settled outcome will carry; only the claim's winner calls it.
    pub(crate) fn set_cause(self, cause: Cause) {
        let word = &self.cell().word;
        // Two steps are fine: in Settling only flags of the handle change beside us.
        word.fetch_and(!(0xf << CAUSE_SHIFT), SeqCst);
        word.fetch_or(u64::from(cause.to_bits()) << CAUSE_SHIFT, SeqCst);
    }

    /// Tells a running task to stop. Some(true): its own token must be told, too.
    /// None: not running, or told already.
    pub(crate) fn request_stop(self, cause: Cause, now: u64) -> Option<bool> {
        let cell = self.cell();
        let mut seen = cell.word.load(SeqCst);
        loop {
            if !self.is_mine(seen) || seen & PHASE != RUNNING || seen & STOP != 0 {
                return None;
            }
            // Before STOP is visible, so that whoever sees STOP finds a time. A requester
            // that comes too late for its life leaves a stamp that the next one replaces.
            let found = cell.stopped_at.load(SeqCst);
            if found & STAMP_TAG != self.generation & STAMP_TAG || found == 0 {
                let _ = cell.stopped_at.compare_exchange(found, self.stamp(now), SeqCst, SeqCst);
            }
            let next = seen | STOP | u64::from(cause.to_bits()) << CAUSE_SHIFT;
            match cell.word.compare_exchange(seen, next, SeqCst, Acquire) {
                Ok(_) => return Some(seen & TOKEN != 0),
                Err(now) => seen = now,
            }
        }
    }

    /// Microseconds, rounded up, and the end of the generation: a stamp names its life.
    fn stamp(self, now: u64) -> u64 {
        now.div_ceil(1_000) << STAMP_SHIFT | self.generation & STAMP_TAG
    }

    /// When this life, which was told to stop, was told: in ticks.
    pub(crate) fn told_at(self) -> u64 {
        (self.cell().stopped_at.load(SeqCst) >> STAMP_SHIFT).saturating_mul(1_000)
    }

    /// Notes that the running task has made a token; false if it was told to stop before,
    /// or is no longer running.
    pub(crate) fn note_token(self) -> bool {
        let word = &self.cell().word;
        let mut seen = word.load(SeqCst);
        while self.is_mine(seen) && seen & PHASE == RUNNING && seen & STOP == 0 {
            match word.compare_exchange(seen, seen | TOKEN, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    // ------------------------------------------------------------ looking

    /// The cause, if this life was told to stop or is over. One load: cheap enough for
    /// an inner loop.
    #[inline(always)]
    pub(crate) fn stop_requested(self) -> Option<Cause> {
        let seen = self.cell().word.load(Relaxed);
        if self.is_mine(seen) && seen & STOP == 0 && seen & PHASE == RUNNING {
            return None;
        }
        Some(self.late_cause(seen))
    }

    #[cold]
    fn late_cause(self, seen: u64) -> Cause {
        if self.is_mine(seen) { cause_of(seen) } else { Cause::Shutdown }
    }

    pub(crate) fn is_queued(self) -> bool {
        let seen = self.cell().word.load(SeqCst);
        self.is_mine(seen) && seen & PHASE == QUEUED
    }

    pub(crate) fn is_running(self) -> bool {
        let seen = self.cell().word.load(SeqCst);
        self.is_mine(seen) && seen & PHASE == RUNNING
    }

    /// Queued or running: the outcome is open.
    pub(crate) fn is_open(self) -> bool {
        let seen = self.cell().word.load(SeqCst);
        self.is_mine(seen) && matches!(seen & PHASE, QUEUED | RUNNING)
    }

    /// A scoped task.
    pub(crate) fn borrows(self) -> bool {
        let seen = self.cell().word.load(SeqCst);
        self.is_mine(seen) && seen & BORROWS != 0
    }

    pub(crate) fn was_told(self) -> bool {
        let seen = self.cell().word.load(SeqCst);
        self.is_mine(seen) && seen & STOP != 0
    }

    /// For the handle, whose life this is.
    #[inline(always)]
    pub(crate) fn look(self) -> Look {
        let seen = self.cell().word.load(Acquire);
        match seen & PHASE {
            QUEUED => Look::Queued,
            RUNNING => Look::Running,
            SETTLED => Look::Settled(Kind::from_word(seen), cause_of(seen)),
            _ => Look::Settling,
        }
    }

    // ------------------------------------------------------------ limits

    #[inline(always)]
    pub(crate) fn is_limited(self) -> bool {
        self.cell().word.load(Relaxed) & LIMITED != 0
    }

    /// Sets the limit in the queue; by whoever is about to push it.
    pub(crate) fn limit_queue(self, at: Ticks) {
        self.cell().limit_at.store(at.0 & !1, SeqCst);
    }

    /// Begins the time of the run, unless the time in the queue is over. The caller has
    /// claimed the start and knows that it is limited.
    pub(crate) fn limit_run(self, now: Ticks, at_most: Ticks) -> Option<Ticks> {
        let cell = self.cell();
        if now.0 >= cell.limit_at.load(SeqCst) {
            return None;
        }
        let limit = Duration::from_nanos(cell.run_limit.load(Relaxed));
        let at = now.after(limit).min(at_most);
        cell.limit_at.store(at.0.saturating_sub(1) | 1, SeqCst); // at most 1 ns early
        Some(at)
    }

    /// The limit that this life is under now, in the queue or running.
    pub(crate) fn limit(self) -> Option<Ticks> {
        let at = self.cell().limit_at.load(SeqCst);
        let word = self.cell().word.load(SeqCst);
        // Between the claim and `limit_run` a running task still has the queue's.
        let fits = match word & PHASE {
            QUEUED => at & 1 == 0,
            RUNNING => at & 1 == 1,
            _ => false,
        };
        let limited = word & LIMITED != 0 && at < u64::MAX - 1;
        (self.is_mine(word) && limited && fits).then_some(Ticks(at))
    }

    /// Whether the extras hold something of this life: a task that was told to stop may
    /// have made its token too late to say so.
    pub(crate) fn has_extras(self) -> bool {
        self.cell().word.load(Relaxed) & (EXTRAS | TOKEN | STOP) != 0
    }

    /// The name, if this life still goes on after it was read.
    pub(crate) fn name(self) -> Option<&'static str> {
        let cell = self.cell();
        let word = cell.word.load(Acquire);
        if word & NAMED == 0 {
            return self.is_mine(word).then_some("");
        }
        let (name, len) = (cell.name.load(Acquire), cell.name_len.load(Acquire) as usize);
        if !self.is_mine(cell.word.load(Acquire)) || name.is_null() {
            return None;
        }
        // SAFETY: both words were stored from one `&'static str` by `fill` of this
        // generation: a later life stores them only after the generation has moved on,
        // and the load above came after the two.
        Some(unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, len)) })
    }

    /// The functions for this task's types. Valid for the winner of a claim, or the handle.
    #[inline(always)]
    pub(crate) fn ops(self) -> &'static Ops {
        // SAFETY: stored from a `&'static Ops` by `fill`; the caller holds this life.
        unsafe { &*self.cell().ops.load(Relaxed) }
    }

    /// The payload, for whoever owns it by the table at the top.
    #[inline(always)]
    pub(crate) fn payload<R>(self, f: impl FnOnce(*mut Words) -> R) -> R {
        self.cell().payload.with_mut(f)
    }
}

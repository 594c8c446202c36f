//! One life of a cell: the claims and hand-overs that the word decides.

use std::ptr::NonNull;
use std::time::Duration;

use crate::cell::{
    BORROWS, CAUSE_SHIFT, EXTRAS, FREE, GENERATION_SHIFT, HANDLE, KIND_SHIFT, Kind, LIMITED, Label,
    NAMED, Ops, PHASE, QUEUED, RUNNING, SETTLED, SETTLING, STAMP_SHIFT, STAMP_TAG, STOP, TOKEN,
    TaskCell,
};
use crate::clock::Ticks;
use crate::job::Words;
use crate::outcome::Cause;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

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

/// The claim was won: the state before it, for flags and cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Won(u64);

impl Won {
    /// The cause of a stop request, if there was one before the claim.
    pub(crate) fn stop_cause(self) -> Option<Cause> {
        (self.0 & STOP != 0).then(|| cause_of(self.0))
    }

    /// As `CellRef::has_extras`, when the claim was won.
    #[inline(always)]
    pub(crate) fn has_extras(self) -> bool {
        self.0 & (EXTRAS | TOKEN | STOP) != 0
    }

    /// The word that the claim of a running task left.
    #[inline(always)]
    pub(crate) fn settling(self) -> u64 {
        self.0 & !PHASE | SETTLING
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
        // by the table at the top of `cell.rs`.
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
        let mut stamped = false;
        loop {
            // Before the word: as long as this life goes on, the stamp is not of a later one.
            let found = cell.stopped_at.load(SeqCst);
            let seen = cell.word.load(SeqCst);
            if !self.is_mine(seen) || seen & PHASE != RUNNING || seen & STOP != 0 {
                // Unless another request relies on it: a life to come would take it for its own.
                if stamped && !(self.is_mine(seen) && seen & STOP != 0) {
                    let _ = cell.stopped_at.compare_exchange(self.stamp(now), 0, SeqCst, Relaxed);
                }
                return None;
            }
            // Before STOP is visible, so that whoever sees STOP finds a time. A request that
            // comes too late for its life may leave its own there in passing: not for long.
            if found == 0 || found & STAMP_TAG != self.generation & STAMP_TAG {
                let swap = cell.stopped_at.compare_exchange(found, self.stamp(now), SeqCst, SeqCst);
                if swap.is_err() {
                    continue;
                }
                stamped = true;
            }
            let next = seen | STOP | u64::from(cause.to_bits()) << CAUSE_SHIFT;
            if cell.word.compare_exchange(seen, next, SeqCst, Acquire).is_ok() {
                return Some(seen & TOKEN != 0);
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

    /// For the handle, whose life this is: settled with a value?
    #[inline(always)]
    pub(crate) fn is_completed(self) -> bool {
        const COMPLETED: u64 = SETTLED | (Kind::Completed as u64) << KIND_SHIFT;
        self.cell().word.load(Acquire) & (PHASE | 0xf << KIND_SHIFT) == COMPLETED
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
        // At most 1 ns early. `RunEnv::show` has the fence between this and `earliest`.
        cell.limit_at.store(at.0.saturating_sub(1) | 1, Release);
        Some(at)
    }

    /// Which worker polls it; by that worker, which has claimed the start. From then on nobody
    /// asks how long it may run.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn set_runner(self, worker: crate::ids::WorkerId) {
        self.cell().run_limit.store(u64::from(worker.0), SeqCst);
    }

    /// What `set_runner` said, or nonsense: good for a wake-up only.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn runner(self) -> crate::ids::WorkerId {
        crate::ids::WorkerId(self.cell().run_limit.load(SeqCst) as u32)
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

    /// Its run is timed: it has a name or a limit.
    #[inline(always)]
    pub(crate) fn is_timed(self) -> bool {
        self.cell().word.load(Relaxed) & (NAMED | LIMITED) != 0
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

    /// The payload, for whoever owns it by the table at the top of `cell.rs`.
    #[inline(always)]
    pub(crate) fn payload<R>(self, f: impl FnOnce(*mut Words) -> R) -> R {
        self.cell().payload.with_mut(f)
    }
}

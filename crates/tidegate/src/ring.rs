//! The ring: slots, tickets, and nothing else.
//!
//! ```text
//!  tail ──▶ tickets handed to producers        bit 63 CLOSED, bit 62 SPILLING
//!  head ──▶ tickets taken by workers           moving it by CAS is taking
//!
//!  sequence word of the slot for ticket t (size = number of slots)
//!     t             free for the producer that gets ticket t
//!     t + 1         published, holds an inline job
//!     t + 1 | CELL  published, names a task cell
//!     t + size      freed by the taker: the same as "free" one lap later
//! ```
//!
//! A producer looks at the slot before it takes the ticket, so between ticket
//! and publication it only copies into the slot and swaps the sequence word.
//! Publication is a SeqCst swap: it is one half of the pair that keeps a
//! sleeping worker from missing a task (the other half is in `lot.rs`).
//!
//! A slot can be *peeked* before it is taken. `first` and `second` are atomics
//! for that reason: a peeker may be late and look into a slot that is being
//! refilled. It reads the sequence word again afterwards, as with a seqlock.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::job::InlineJob;
use crate::life::CellRef;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicPtr, AtomicU64};
use crate::sync::{Padded, RaceCell};

/// Words of captures that fit into a slot: 40 bytes.
pub(crate) const INLINE_WORDS: usize = 5;
/// A queue may be larger; what does not fit spills.
pub(crate) const MAX_SLOTS: u64 = 65_536;

pub(crate) const CLOSED: u64 = 1 << 63;
pub(crate) const SPILLING: u64 = 1 << 62;
const CELL: u64 = 1 << 63;

/// The ticket number without the two flags.
pub(crate) fn ticket(tail: u64) -> u64 {
    tail & !(CLOSED | SPILLING)
}

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    sequence: AtomicU64,
    /// The job's call pointer, or the cell.
    first: AtomicPtr<()>,
    /// The cell's generation.
    second: AtomicU64,
    captures: RaceCell<[MaybeUninit<u64>; INLINE_WORDS]>,
}

/// What producers write: the next ticket, and how far they may go by the last
/// computation (`queue.rs` keeps `limit`).
#[derive(Debug)]
pub(crate) struct ProducerLine {
    pub(crate) tail: AtomicU64,
    pub(crate) limit: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) producers: Padded<ProducerLine>,
    pub(crate) head: Padded<AtomicU64>,
    slots: Box<[Slot]>,
    mask: u64,
}

// SAFETY: slots are handed from thread to thread by the sequence protocol; what they
// carry (`InlineJob`, `CellRef`) is made of `Send` work only.
unsafe impl Send for Ring {}
// SAFETY: as above; shared access goes through atomics, and `captures` is touched only
// by the holder of the ticket (producer) or the winner of `head` (taker).
unsafe impl Sync for Ring {}

/// What a look at the head of the ring found.
pub(crate) enum Peek {
    /// The slot is not published yet.
    Nothing,
    /// Somebody else took it meanwhile: look again.
    Late,
    Inline,
    Cell(CellRef),
}

/// What came of asking for a ticket below a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    Granted(u64),
    AtLimit(u64),
    /// Below the limit, but the slot is still occupied.
    NoSlot,
    Spilling,
    Closed,
}

impl Ring {
    /// At least `wanted` slots, a power of two.
    pub(crate) fn new(wanted: u64) -> Self {
        Ring::starting_at(wanted, 0)
    }

    /// As `new`; the first ticket is `first`, a multiple of the size (models begin late).
    pub(crate) fn starting_at(wanted: u64, first: u64) -> Self {
        let size = wanted.clamp(2, MAX_SLOTS).next_power_of_two();
        debug_assert!(first.is_multiple_of(size), "slots are made in the order of their tickets");
        Ring {
            producers: Padded(ProducerLine {
                tail: AtomicU64::new(first),
                limit: AtomicU64::new(0),
            }),
            head: Padded(AtomicU64::new(first)),
            slots: (first..first + size)
                .map(|t| Slot {
                    sequence: AtomicU64::new(t),
                    first: AtomicPtr::new(std::ptr::null_mut()),
                    second: AtomicU64::new(0),
                    captures: RaceCell::new([MaybeUninit::uninit(); INLINE_WORDS]),
                })
                .collect(),
            mask: size - 1,
        }
    }

    #[inline(always)]
    fn slot(&self, t: u64) -> &Slot {
        // The mask keeps the index below the length, so this check never fails.
        &self.slots[(t & self.mask) as usize]
    }

    // ------------------------------------------------------------ producers

    /// Takes the next ticket if it is below `limit`.
    #[inline(always)]
    pub(crate) fn take_ticket(&self, limit: u64) -> Ticket {
        let mut tail = self.producers.tail.load(Relaxed);
        loop {
            // Flags are the top bits, so a flagged tail is never below a limit.
            if tail >= limit {
                return match tail {
                    t if t & CLOSED != 0 => Ticket::Closed,
                    t if t & SPILLING != 0 => Ticket::Spilling,
                    t => Ticket::AtLimit(t),
                };
            }
            let found = self.slot(tail).sequence.load(Acquire);
            if found != tail {
                let now = self.producers.tail.load(Relaxed);
                if now == tail {
                    return Ticket::NoSlot;
                }
                tail = now;
                continue;
            }
            match self.producers.tail.compare_exchange_weak(tail, tail + 1, SeqCst, Relaxed) {
                Ok(_) => return Ticket::Granted(tail),
                Err(now) => tail = now,
            }
        }
    }

    /// Takes as many of the next `wanted` tickets as are below `limit` and have their slots
    /// free, with one step.
    pub(crate) fn take_tickets(&self, wanted: u64, limit: u64) -> Range<u64> {
        let mut tail = self.producers.tail.load(Relaxed);
        loop {
            if tail >= limit {
                return 0..0;
            }
            let most = (tail + wanted).min(limit);
            // Free for a ticket that nobody has yet: it stays so until the CAS says whose.
            let free = |t: &u64| self.slot(*t).sequence.load(Acquire) == *t;
            let end = tail + (tail..most).take_while(free).count() as u64;
            if end == tail {
                return 0..0; // or somebody was faster: the caller goes one by one
            }
            match self.producers.tail.compare_exchange_weak(tail, end, SeqCst, Relaxed) {
                Ok(_) => return tail..end,
                Err(now) => tail = now,
            }
        }
    }

    /// True if ticket `t` would find its slot occupied.
    pub(crate) fn slot_is_busy(&self, t: u64) -> bool {
        self.slot(t).sequence.load(Acquire) != t
    }

    #[inline(always)]
    pub(crate) fn publish_inline(&self, t: u64, job: InlineJob) {
        let slot = self.slot(t);
        slot.first.store(job.call as *mut (), Release);
        // SAFETY: we hold ticket `t` and the sequence word said "free": nobody else
        // touches `captures` until the swap below.
        slot.captures.with_mut(|p| unsafe { p.write(job.captures) });
        slot.sequence.swap(t + 1, SeqCst);
    }

    #[inline(always)]
    pub(crate) fn publish_cell(&self, t: u64, cell: CellRef) {
        let slot = self.slot(t);
        slot.first.store(cell.address(), Release);
        slot.second.store(cell.generation(), Release);
        slot.sequence.swap((t + 1) | CELL, SeqCst);
    }

    // ------------------------------------------------------------ takers

    /// Looks at the slot of ticket `h`, which the caller read from `head`.
    #[inline(always)]
    pub(crate) fn peek(&self, h: u64) -> Peek {
        let slot = self.slot(h);
        let found = slot.sequence.load(SeqCst);
        if found == h + 1 {
            return Peek::Inline;
        }
        if found == (h + 1) | CELL {
            // Acquire on both: a value of the slot's next life makes the last look fail.
            let address = slot.first.load(Acquire);
            let generation = slot.second.load(Acquire);
            if slot.sequence.load(Relaxed) != found {
                return Peek::Late;
            }
            return Peek::Cell(CellRef::from_parts(address, generation));
        }
        if found & !CELL <= h { Peek::Nothing } else { Peek::Late }
    }

    /// Moves `head` over ticket `h`; true if this thread did it.
    #[inline(always)]
    pub(crate) fn advance(&self, h: u64) -> bool {
        self.head.compare_exchange(h, h + 1, SeqCst, Relaxed).is_ok()
    }

    /// Copies an inline job out and frees the slot.
    ///
    /// # Safety
    /// `peek(h)` said Inline and this thread's `advance(h)` succeeded.
    #[inline(always)]
    pub(crate) unsafe fn take_inline(&self, h: u64) -> InlineJob {
        let slot = self.slot(h);
        let call = slot.first.load(Relaxed);
        // SAFETY: the winner of `head` is the only one who reads this slot's captures,
        // and the producer's swap happened before our Acquire load of the sequence.
        let captures = slot.captures.with_mut(|p| unsafe { p.read() });
        self.free(h);
        // SAFETY: `first` of a published inline slot was stored from an `InlineCall`.
        let call = unsafe { std::mem::transmute::<*mut (), crate::job::InlineCall>(call) };
        InlineJob { call, captures }
    }

    /// Gives the slot of ticket `h` to the producers' next lap. Only the one whose
    /// `advance(h)` succeeded calls this.
    #[inline(always)]
    pub(crate) fn free(&self, h: u64) {
        self.slot(h).sequence.store(h + self.mask + 1, Release);
    }

    // ------------------------------------------------------------ both

    /// True if the slot at `head` is published.
    #[inline(always)]
    pub(crate) fn has_published(&self) -> bool {
        let mut h = self.head.load(SeqCst);
        loop {
            if self.slot(h).sequence.load(SeqCst) & !CELL == h + 1 {
                return true;
            }
            // Somebody may have taken that slot since: then the next one counts.
            let now = self.head.load(SeqCst);
            if now == h {
                return false;
            }
            h = now;
        }
    }

    #[cfg(not(tidegate_loom))]
    pub(crate) fn slots(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn tail(&self) -> u64 {
        self.producers.tail.load(SeqCst)
    }

    pub(crate) fn close(&self) -> bool {
        self.producers.tail.fetch_or(CLOSED, SeqCst) & CLOSED == 0
    }

    /// Sets the spill bit if `tail` still is what the caller saw. SeqCst: for a task in the
    /// spill this is the publication that a sleeping worker must not miss.
    pub(crate) fn start_spilling(&self, seen: u64) -> Result<(), u64> {
        self.producers.tail.compare_exchange(seen, seen | SPILLING, SeqCst, Acquire).map(|_| ())
    }

    pub(crate) fn stop_spilling(&self) {
        self.producers.tail.fetch_and(!SPILLING, SeqCst);
    }
}

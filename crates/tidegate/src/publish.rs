//! The last step of a task, Settling → Settled, and the waker that the handle leaves for it.
//!
//! ```text
//!  handle:     clear WAKER, fill the slot, set WAKER        sleeps only if WAKER went in
//!  publisher:  WAKER → TAKING, empty the slot, → Settled    wakes after the flip
//! ```

use std::task::Waker;

use crate::cell::{HANDLE, KIND_SHIFT, Kind, PHASE, SETTLED, SETTLING, TAKING, WAKER};
use crate::life::{CellRef, Won};
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::snooze;

/// What the publisher has to do after the flip.
#[derive(Debug)]
pub(crate) enum Published {
    /// The handle will free the cell; wake this waiter, if any.
    ToHandle(Option<Waker>),
    /// Nobody will collect: the publisher drops the payload and frees the cell.
    Unclaimed,
}

impl CellRef {
    /// Settling → Settled. The payload is stored; after this the cell is not ours.
    pub(crate) fn publish(self, kind: Kind) -> Published {
        let cell = self.cell();
        let mut taken = None;
        let mut seen = cell.word.load(Acquire);
        loop {
            debug_assert_eq!(seen & PHASE, SETTLING, "published without a claim");
            if seen & HANDLE == 0 {
                return Published::Unclaimed;
            }
            let settled = (seen & !(PHASE | TAKING)) | SETTLED | (kind as u64) << KIND_SHIFT;
            let next = if seen & WAKER != 0 { (seen & !WAKER) | TAKING } else { settled };
            match cell.word.compare_exchange(seen, next, AcqRel, Acquire) {
                Ok(_) if next == settled => return Published::ToHandle(taken),
                Ok(_) => {
                    // SAFETY: TAKING gives the slot to us; the handle waits it out.
                    taken = cell.waker.with_mut(|w| unsafe { (*w).take() });
                    seen = next;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// As `publish`, right after the claim `won`: mostly nobody was there in between.
    #[inline(always)]
    pub(crate) fn publish_after(self, won: Won, kind: Kind) -> Published {
        let seen = won.settling();
        if seen & (HANDLE | WAKER) == HANDLE {
            let settled = seen & !PHASE | SETTLED | (kind as u64) << KIND_SHIFT;
            if self.cell().word.compare_exchange(seen, settled, AcqRel, Relaxed).is_ok() {
                return Published::ToHandle(None);
            }
        }
        self.publish(kind)
    }

    /// Leaves a waker for the publisher; true once it is settled instead.
    ///
    /// May run the user's `Waker::clone` and `drop`: call it with no lock held.
    pub(crate) fn register(self, waker: &Waker) -> bool {
        if self.withdraw_waker() {
            return true;
        }
        let cell = self.cell();
        // SAFETY: WAKER and TAKING are off and the task was unsettled when we last
        // looked; only a set WAKER lets the publisher at the slot.
        cell.waker.with_mut(|w| unsafe { *w = Some(waker.clone()) });
        let mut seen = cell.word.load(Acquire);
        loop {
            if seen & PHASE == SETTLED {
                // SAFETY: settled without WAKER: the publisher never came near the slot.
                let unused = cell.waker.with_mut(|w| unsafe { (*w).take() });
                crate::panics::drop_quietly(unused);
                return true;
            }
            match cell.word.compare_exchange(seen, seen | WAKER, AcqRel, Acquire) {
                Ok(_) => return false,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a registered waker back and drops it; true if the task is settled.
    pub(crate) fn withdraw_waker(self) -> bool {
        let cell = self.cell();
        let mut step = 0;
        let mut seen = cell.word.load(Acquire);
        loop {
            if seen & PHASE == SETTLED {
                return true;
            }
            if seen & TAKING != 0 {
                // The publisher is between two stores.
                snooze(step);
                step += 1;
                seen = cell.word.load(Acquire);
                continue;
            }
            if seen & WAKER == 0 {
                return false;
            }
            match cell.word.compare_exchange(seen, seen & !WAKER, AcqRel, Acquire) {
                Ok(_) => {
                    // SAFETY: we took WAKER off, so the slot is ours.
                    let old = cell.waker.with_mut(|w| unsafe { (*w).take() });
                    crate::panics::drop_quietly(old); // user code (hazard 83)
                    return false;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Gives up the handle. True: it was settled, so the caller drops the payload and
    /// retires the cell. False: the publisher will.
    pub(crate) fn detach(self) -> bool {
        if self.withdraw_waker() {
            return true;
        }
        let word = &self.cell().word;
        let mut seen = word.load(Acquire);
        loop {
            if seen & PHASE == SETTLED {
                return true;
            }
            match word.compare_exchange(seen, seen & !HANDLE, AcqRel, Acquire) {
                Ok(_) => return false,
                Err(now) => seen = now,
            }
        }
    }
}

//! What only some tasks carry, beside their cell: an external id, a callback, tokens.
//!
//! Made when a cell first needs it and kept for the cell's later lives, so that it
//! costs no allocation once warm.

use std::sync::Weak;

use crate::clock::Ticks;
use crate::holding::Hold;
use crate::ids::ExternalId;
use crate::life::CellRef;
use crate::outcome::{Cause, Summary};
use crate::sync::Lock;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};
use crate::token::Token;
use crate::trace::TaskSpan;

pub(crate) type Callback = Box<dyn FnOnce(&Summary) + Send>;

#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) external_id: Option<ExternalId>,
    pub(crate) on_outcome: Option<Callback>,
    /// The end of a total limit, once it is accepted.
    pub(crate) run_until: Option<Ticks>,
    /// The token that shall cancel this task, which is a future, until it is registered there.
    pub(crate) obeys: Option<(Token, Cause)>,
    /// The token that the task itself asked for.
    pub(crate) own_token: Option<Token>,
    /// What it holds of budgets.
    pub(crate) hold: Weak<Hold>,
    pub(crate) span: TaskSpan,
}

/// The extras of this cell, if it ever had any.
pub(crate) fn of(cell: CellRef) -> Option<&'static Lock<Extras>> {
    let extras = cell.cell().extras.load(Acquire).cast::<Lock<Extras>>();
    // SAFETY: null, or a leaked box that stays with the cell for ever.
    unsafe { extras.as_ref() }
}

/// The extras of this cell, made if need be.
pub(crate) fn of_or_new(cell: CellRef) -> &'static Lock<Extras> {
    if let Some(extras) = of(cell) {
        return extras;
    }
    let fresh = Box::into_raw(Box::new(Lock::new(Extras::default())));
    let slot = &cell.cell().extras;
    match slot.compare_exchange(std::ptr::null_mut(), fresh.cast(), AcqRel, Acquire) {
        // SAFETY: leaked above, now owned by the cell, which lives for ever.
        Ok(_) => unsafe { &*fresh },
        Err(theirs) => {
            // SAFETY: ours was not published; theirs is a leaked box as above.
            unsafe {
                drop(Box::from_raw(fresh));
                &*theirs.cast::<Lock<Extras>>()
            }
        }
    }
}

/// Takes everything out, for a cell that is being settled or was refused.
pub(crate) fn take(cell: CellRef) -> Extras {
    of(cell).map(|extras| std::mem::take(&mut *extras.lock())).unwrap_or_default()
}

impl std::fmt::Debug for Extras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extras").field("external_id", &self.external_id).finish_non_exhaustive()
    }
}

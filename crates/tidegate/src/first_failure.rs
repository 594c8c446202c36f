//! Where a map ends early.

use std::collections::VecDeque;

use crate::life::CellRef;
use crate::outcome::Cause;
use crate::settle::{self, Who};
use crate::sync::Lock;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::Relaxed;

/// Stops the items behind the first that fails.
#[derive(Default)]
pub(crate) struct FirstFailure {
    has_come: AtomicBool,
    state: Lock<Behind>,
}

#[derive(Default)]
struct Behind {
    failed: Option<u64>,
    /// Those that may be queued, oldest first.
    cells: VecDeque<(u64, CellRef)>,
}

impl FirstFailure {
    pub(crate) fn has_come(&self) -> bool {
        self.has_come.load(Relaxed)
    }

    pub(crate) fn is_before(&self, key: u64) -> bool {
        self.state.lock().failed.is_some_and(|failed| failed < key)
    }

    /// An item was accepted. All before `oldest` have settled; the cells of others are left alone,
    /// since a look at one makes its line travel.
    pub(crate) fn watch(&self, key: u64, cell: CellRef, oldest: u64, window: usize) {
        let too_late = {
            let mut behind = self.state.lock();
            while behind.cells.front().is_some_and(|(key, _)| *key < oldest) {
                behind.cells.pop_front();
            }
            // One that takes long, while results are given as they come.
            if behind.cells.len() / 2 > window.saturating_add(8) {
                behind.cells.retain(|(_, cell)| cell.is_queued());
            }
            behind.cells.push_back((key, cell));
            behind.failed.is_some_and(|failed| failed < key)
        };
        if too_late {
            settle::cancel_queued(cell, Cause::Group, Who::Caller);
        }
    }

    /// This item has failed.
    pub(crate) fn at(&self, key: u64) {
        self.has_come.store(true, Relaxed);
        let cells = {
            let mut behind = self.state.lock();
            behind.failed = Some(behind.failed.map_or(key, |failed| failed.min(key)));
            std::mem::take(&mut behind.cells)
        };
        for (_, cell) in cells.into_iter().filter(|(later, _)| *later > key) {
            settle::cancel_queued(cell, Cause::Group, Who::Caller);
        }
    }
}

//! Where cells come from and go to: slabs that live for ever, a small stock per
//! thread, and a shared stack of batches between threads.
//!
//! Cells are made on one thread and freed on another all the time, so a stock per
//! thread alone would allocate without end. A thread keeps at most two batches and
//! passes whole ones on: one lock per 32 cells.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::cell::TaskCell;
use crate::life::CellRef;
use crate::sync::atomic::Ordering::Relaxed;

const BATCH: usize = 32;

/// A list of cells linked through `core`, which a free cell does not need.
struct Chain {
    first: *mut TaskCell,
    len: usize,
}

impl Chain {
    const fn new() -> Self {
        Chain { first: std::ptr::null_mut(), len: 0 }
    }

    fn push(&mut self, cell: NonNull<TaskCell>) {
        // SAFETY: cells live for ever; a free cell's words belong to its owner, us.
        unsafe { cell.as_ref() }.core.store(self.first.cast(), Relaxed);
        self.first = cell.as_ptr();
        self.len += 1;
    }

    fn pop(&mut self) -> Option<NonNull<TaskCell>> {
        let cell = NonNull::new(self.first)?;
        // SAFETY: as in `push`.
        self.first = unsafe { cell.as_ref() }.core.load(Relaxed).cast();
        self.len -= 1;
        Some(cell)
    }

    /// The upper half, or all if it is no more than a batch.
    fn split_off(&mut self) -> Chain {
        let mut batch = Chain::new();
        while batch.len < BATCH
            && let Some(cell) = self.pop()
        {
            batch.push(cell);
        }
        batch
    }
}

/// Batches that no thread holds.
struct Store {
    batches: Vec<Chain>,
    /// All cells there are, by number.
    slabs: Vec<&'static [TaskCell]>,
}

// SAFETY: the chains own free cells, which any thread may own.
unsafe impl Send for Store {}

static STORE: Mutex<Store> = Mutex::new(Store { batches: Vec::new(), slabs: Vec::new() });

fn store() -> std::sync::MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's stock; goes back to the store when the thread ends.
struct Stock {
    first: Cell<*mut TaskCell>,
    len: Cell<usize>,
}

impl Stock {
    #[inline(always)]
    fn take(&self) -> Option<NonNull<TaskCell>> {
        let mut chain = self.chain();
        let cell = chain.pop();
        self.keep(chain);
        cell
    }

    /// What is in it, which is `keep`'s to put back.
    #[inline(always)]
    fn chain(&self) -> Chain {
        let chain = Chain { first: self.first.get(), len: self.len.get() };
        if cfg!(tidegate_shuttle) {
            self.keep(Chain::new()); // somebody else's turn may come before it is back
        }
        chain
    }

    #[inline(always)]
    fn keep(&self, chain: Chain) {
        self.first.set(chain.first);
        self.len.set(chain.len);
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        if cfg!(tidegate_shuttle) {
            return; // the test's thread ends, and shuttle's atomics work only inside a run
        }
        let mut chain = self.chain();
        self.keep(Chain::new());
        while chain.len > 0 {
            let batch = chain.split_off();
            store().batches.push(batch);
        }
    }
}

// Under shuttle all threads share one stock. They take turns, at each atomic access: so nobody may
// find cells there that another one is just taking.
std::thread_local! {
    static STOCK: Stock =
        const { Stock { first: Cell::new(std::ptr::null_mut()), len: Cell::new(0) } };
}

/// A free cell. Allocates only when every cell ever made is in use.
#[inline(always)]
pub(crate) fn take() -> CellRef {
    let cell = STOCK.try_with(Stock::take);
    CellRef::of_free(cell.ok().flatten().unwrap_or_else(take_stored))
}

/// The thread has none, or is ending and has no stock of its own.
#[cold]
fn take_stored() -> NonNull<TaskCell> {
    let mut chain = refill();
    let cell = chain.pop().expect("a batch is never empty");
    let mut chain = Some(chain);
    let _ = STOCK.try_with(|stock| chain.take().map(|chain| stock.keep(chain)));
    if let Some(chain) = chain {
        store().batches.push(chain);
    }
    cell
}

/// Ends the life of a cell whose payload is empty.
#[inline(always)]
pub(crate) fn put(cell: CellRef) {
    let cell = cell.retire();
    let many = STOCK.try_with(|stock| {
        let mut chain = stock.chain();
        chain.push(cell);
        let many = chain.len >= 2 * BATCH;
        stock.keep(chain);
        many
    });
    if many != Ok(false) {
        store_some(cell, many.is_ok());
    }
}

/// The thread has too many; or it is ending, and has only this one.
#[cold]
fn store_some(cell: NonNull<TaskCell>, has_stock: bool) {
    let mut chain = Chain::new();
    if !has_stock {
        chain.push(cell);
    }
    let _ = STOCK.try_with(|stock| {
        let mut all = stock.chain();
        chain = all.split_off();
        stock.keep(all);
    });
    store().batches.push(chain);
}

#[cold]
fn refill() -> Chain {
    let mut store = store();
    while let Some(batch) = store.batches.pop() {
        if batch.len > 0 {
            return batch;
        }
    }
    let first = (store.slabs.len() * BATCH) as u32;
    let slab: Vec<TaskCell> = (first..first + BATCH as u32).map(TaskCell::new).collect();
    let slab: &'static [TaskCell] = Box::leak(slab.into_boxed_slice());
    store.slabs.push(slab);
    drop(store);
    let mut chain = Chain::new();
    for cell in slab {
        chain.push(NonNull::from(cell));
    }
    chain
}

/// The life that an id names, over or not.
pub(crate) fn find(number: u32, generation: u64) -> Option<CellRef> {
    let slab = store().slabs.get(number as usize / BATCH).copied()?;
    let cell = NonNull::from(&slab[number as usize % BATCH]);
    Some(CellRef::from_parts(cell.as_ptr().cast(), generation))
}

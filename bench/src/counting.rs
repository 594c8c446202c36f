//! An allocator that can count, for the workload about allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

// Off in timed runs: there the price is one load of a line nobody writes.
static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes taken less bytes given back since counting began: below 0 when
/// memory from before is freed.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

/// The number of allocations that all threads make during `section`.
pub(crate) fn allocations_during(section: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    count(section);
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

/// By how many bytes the heap has grown when it is largest during `section`.
pub(crate) fn peak_bytes_during(section: impl FnOnce()) -> i64 {
    LIVE_BYTES.store(0, Ordering::SeqCst);
    PEAK_BYTES.store(0, Ordering::SeqCst);
    count(section);
    PEAK_BYTES.load(Ordering::SeqCst)
}

fn count(section: impl FnOnce()) {
    COUNTING.store(true, Ordering::SeqCst);
    section();
    COUNTING.store(false, Ordering::SeqCst);
}

#[inline]
fn note(allocations: u64, grown_by: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        let live = LIVE_BYTES.fetch_add(grown_by, Ordering::Relaxed) + grown_by;
        PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
    }
}

// SAFETY: every call goes unchanged to `System`, which keeps the contract;
// counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps `alloc`'s contract, `System` has the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, new_size as i64 - layout.size() as i64);
        // SAFETY: `block` came from `System` through this allocator.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: `block` came from `System` through this allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

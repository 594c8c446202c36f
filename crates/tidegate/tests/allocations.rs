//! What a task costs in allocations, once the pool is warm: nothing.
#![cfg(not(any(tidegate_loom, tidegate_shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Pool, Shutdown, Token};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: by contract of the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: u64 = 2_000;
/// For a slab of cells now and then, when threads hand free ones to each other.
const A_FEW: u64 = TASKS / 100;

/// How many allocations `TASKS` tasks take, once as many have run before.
fn allocations(mut task: impl FnMut(u64)) -> u64 {
    (0..TASKS).for_each(&mut task);
    let before = ALLOCATIONS.load(Relaxed);
    (0..TASKS).for_each(&mut task);
    ALLOCATIONS.load(Relaxed) - before
}

/// One test, since the counter is the process's.
#[test]
fn l3_tasks_allocate_nothing_once_warm() {
    let pool = Pool::builder("warm").workers(2).queue(100).build().unwrap();
    let (minute, token) = (Duration::from_secs(60), Token::new());
    let count = allocations(|n| pool.spawn(move || assert!(n < TASKS)).unwrap());
    assert!(count < A_FEW, "spawn: {count}");
    let count = allocations(|n| assert_eq!(pool.submit(move || n).unwrap().wait().unwrap(), n));
    assert!(count < A_FEW, "submit: {count}");
    let count = allocations(|n| {
        let task = pool.task("limited").timeout(minute).queue_timeout(minute);
        assert_eq!(task.submit(move |_| n).unwrap().wait().unwrap(), n);
    });
    assert!(count < A_FEW, "name and limits: {count}");
    let count = allocations(|n| {
        let task = pool.task("total").total_timeout(minute);
        assert_eq!(task.submit(move |_| n).unwrap().wait().unwrap(), n);
    });
    assert!(count < A_FEW, "total limit: {count}");
    let count = allocations(|n| {
        let task = pool.task("token").cancel_with(&token);
        assert_eq!(task.submit(move |_| n).unwrap().wait().unwrap(), n);
    });
    assert!(count < A_FEW, "token: {count}");
    let mut results = pool.map(0.., |n: u64| n);
    let count = allocations(|_| _ = results.next().unwrap().unwrap());
    assert!(count < A_FEW, "map: {count}");
    drop(results);
    let limited = Pool::builder("limited").workers(2).task_timeout(minute).build().unwrap();
    let count = allocations(|n| limited.spawn(move || assert!(n < TASKS)).unwrap());
    assert!(count < A_FEW, "spawn in a pool with a limit: {count}");
    pool.shutdown(Shutdown::default()).unwrap();
    limited.shutdown(Shutdown::default()).unwrap();
}

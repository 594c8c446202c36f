//! Fifty thousand futures under way at once, and what each of them costs.
//!
//! ```sh
//! cargo run --release -p tidegate --features tokio --example many_futures
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tidegate::{AsyncPool, Shutdown};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::sleep;

const WORKERS: usize = 50_000;
const A_MOMENT: Duration = Duration::from_millis(10);

/// The system's allocator, and how many bytes it has given out and not got back.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: by contract of the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Stands for a request that waits for its answer.
async fn request(answers: Arc<Semaphore>) {
    UNDER_WAY.fetch_add(1, SeqCst);
    let _answer = answers.acquire().await;
    UNDER_WAY.fetch_sub(1, SeqCst);
}

/// As many tasks as there are workers; all of them have begun.
async fn begin_all(pool: &AsyncPool, answers: &Arc<Semaphore>) -> Result<(), Box<dyn Error>> {
    for _ in 0..WORKERS {
        pool.spawn(request(Arc::clone(answers))).await?; // waits while 1,000 are queued
    }
    while UNDER_WAY.load(SeqCst) < WORKERS {
        yield_now().await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let answers = Arc::new(Semaphore::new(0));
    let size = size_of_val(&request(Arc::clone(&answers)));
    let (before, began) = (ALLOCATED.load(SeqCst), Instant::now());

    let pool = AsyncPool::builder("many").workers(WORKERS).build_async()?;
    while pool.snapshot().idle_workers < WORKERS as u64 {
        sleep(A_MOMENT).await; // a snapshot lists them all
    }
    let idle = ALLOCATED.load(SeqCst) - before;
    println!("{WORKERS} workers came in {:.1?}", began.elapsed());

    let began = Instant::now();
    begin_all(&pool, &answers).await?;
    let first = ALLOCATED.load(SeqCst) - before - WORKERS * size;
    println!("{WORKERS} tasks began in {:.1?}", began.elapsed());

    let began = Instant::now();
    answers.add_permits(WORKERS); // all answers come at once
    pool.wait_idle().await?;
    println!("they ended in {:.1?}", began.elapsed());
    answers.forget_permits(WORKERS);
    begin_all(&pool, &answers).await?;
    let later = ALLOCATED.load(SeqCst) - before - WORKERS * size;

    let began = Instant::now();
    answers.close();
    let report = pool.shutdown(Shutdown::light()).await?;
    println!("the next {WORKERS} ended, and the pool, in {:.1?}", began.elapsed());
    assert!(report.is_success(), "{report}");
    assert_eq!(pool.snapshot().completed, 2 * WORKERS as u64);

    assert!(first.max(later) / WORKERS <= 1_024, "a worker has become larger than promised");

    println!("bytes of a user's future {size}");
    println!("idle bytes per worker {}", idle / WORKERS);
    println!("bytes per worker {}", first / WORKERS);
    println!("bytes per worker from its second task on {}", later / WORKERS);
    Ok(())
}

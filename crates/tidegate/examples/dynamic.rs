//! A pool that follows its load: two workers at rest, up to eight while tasks wait.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tidegate::{Pool, Shutdown};

/// Work that mostly waits, as a request to another machine does.
fn request() {
    let (_open, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(20));
}

fn show(pool: &Pool, when: &str) -> u64 {
    let now = pool.snapshot();
    println!("{when:<24} {} workers, {} queued", now.live_workers, now.queued);
    now.live_workers
}

fn until(pool: &Pool, workers: u64) {
    while pool.snapshot().live_workers != workers {
        std::thread::yield_now();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("requests")
        .workers(2..=8)
        .grow_after(Duration::from_millis(5))
        .shrink_after(Duration::from_millis(200))
        .resize_cooldown(Duration::from_millis(20))
        .build()?;
    until(&pool, 2);
    show(&pool, "at rest");

    for _ in 0..100 {
        pool.spawn(request)?;
    }
    until(&pool, 8);
    show(&pool, "tasks wait: it grows");

    pool.wait_idle()?;
    until(&pool, 2);
    assert_eq!(show(&pool, "nothing to do: shrinks"), 2);

    pool.resize(4)?; // from now on fixed
    until(&pool, 4);
    show(&pool, "resized by hand");

    let report = pool.shutdown(Shutdown::default())?;
    assert!(report.is_success());
    assert_eq!(pool.snapshot().completed, 100);
    Ok(())
}

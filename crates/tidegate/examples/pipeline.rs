//! Three steps, a pool each: the slowest slows the first, and the stop goes downstream.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Drain, Pool, shutdown_in_order};

const PAGES: u64 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    // Small queues: what waits between two steps is bounded, and so is the memory.
    let fetch = Pool::builder("fetch").workers(4).queue(20).build()?;
    let parse = Pool::builder("parse").workers(2).queue(10).build()?;
    let store = Pool::builder("store").workers(1).queue(5).build()?;

    let words = Arc::new(AtomicU64::new(0));
    for page in 0..PAGES {
        let (parse, store, words) = (parse.clone(), store.clone(), Arc::clone(&words));
        // Waits when `fetch` is full, which it is when `parse` is, which it is when `store` is.
        fetch.task("fetch").spawn_result(move |_| {
            let text = format!("page {page} of the web");
            let next = parse.task("parse").spawn_result(move |_| {
                let count = text.split(' ').count() as u64;
                let last = store.task("store").spawn(move |_| _ = words.fetch_add(count, Relaxed));
                last.map_err(|refused| refused.to_string())
            });
            next.map_err(|refused| refused.to_string())
        })?;
    }

    let pools: [&dyn Drain; 3] = [&fetch, &parse, &store];
    for report in shutdown_in_order(&pools, Duration::from_secs(30)) {
        let report = report?;
        assert!(report.is_success(), "{report}");
    }
    for pool in [&fetch, &parse, &store] {
        let now = pool.snapshot();
        println!("{:>6}: {} done, waits {}", pool.name(), now.completed, now.queue_wait);
        assert_eq!((now.completed, now.failed), (PAGES, 0), "{now}");
    }
    assert_eq!(words.load(Relaxed), 5 * PAGES);
    Ok(())
}

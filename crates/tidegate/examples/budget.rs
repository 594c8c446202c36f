//! Memory by weight: pictures of very different size, no more than 64 MB of them at a time,
//! queued ones included.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tidegate::{Budget, Pool, Reason, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("thumbs").workers(4).queue(100).build()?;
    let megabytes = Budget::new("memory", 64);
    let (in_memory, peak) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for size in [3, 40, 7, 24, 12, 60, 1, 30, 18, 5].into_iter().cycle().take(200) {
        let (in_memory, peak) = (Arc::clone(&in_memory), Arc::clone(&peak));
        // Waits until there is enough memory, and only then takes a place in the queue.
        pool.task("thumb").budget(&megabytes, size).spawn(move |_| {
            peak.fetch_max(in_memory.fetch_add(size, SeqCst) + size, SeqCst);
            let picture = vec![7_u8; size as usize * 1_000];
            assert!(picture.iter().all(|byte| *byte == 7));
            in_memory.fetch_sub(size, SeqCst);
        })?;
    }
    // Heavier than the whole budget: refused at once, not waited for for ever.
    let refused = pool.task("poster").budget(&megabytes, 65).spawn(|_| ()).unwrap_err();
    assert_eq!(refused.reason(), Reason::TooHeavy);
    println!("{refused}");
    let report = pool.shutdown(Shutdown::default())?;
    assert!(report.is_success(), "{report}");
    println!("at most {} of {} MB at a time", peak.load(SeqCst), megabytes.capacity());
    assert!(peak.load(SeqCst) <= 64 && megabytes.in_use() == 0);
    Ok(())
}

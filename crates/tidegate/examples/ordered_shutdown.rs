//! Two stages, producers before consumers, on one deadline.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Pool, shutdown_in_order};

fn main() -> Result<(), Box<dyn Error>> {
    let parse = Pool::builder("parse").workers(2).queue(100).build()?;
    let store = Pool::builder("store").workers(1).queue(10).build()?;

    let stored = Arc::new(AtomicU64::new(0));
    for n in 0..1_000_u64 {
        let (store, stored) = (store.clone(), Arc::clone(&stored));
        // A task of one pool may wait for room in another: that is how backpressure travels.
        parse.spawn_result(move || {
            let parsed = n * 2;
            let add = move || _ = stored.fetch_add(parsed, Ordering::Relaxed);
            store.spawn(add).map_err(|refused| refused.to_string())
        })?;
    }

    // The other way round, `store` would refuse what `parse` still has to give it.
    let reports = shutdown_in_order(&[&parse, &store], Duration::from_secs(10));
    for (pool, report) in [&parse, &store].iter().zip(reports) {
        let report = report?;
        println!("{}: {report}", pool.name());
        assert!(report.is_success());
    }
    assert_eq!(parse.snapshot().failed, 0, "nothing was refused by the second stage");
    assert_eq!(stored.load(Ordering::Relaxed), 999_000);
    println!("stored the sum {}", stored.load(Ordering::Relaxed));
    Ok(())
}

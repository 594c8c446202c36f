//! Ctrl-C drains, a second Ctrl-C is Hard (feature `signal`).
//!
//! ```sh
//! cargo run --example signals --features signal -p tidegate              # signals itself
//! cargo run --example signals --features signal -p tidegate -- wait      # press Ctrl-C
//! ```

use std::error::Error;
use std::time::Duration;

use tidegate::{Pool, PoolState, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("service").workers(2).grace(Duration::from_secs(1)).build()?;
    let how = Shutdown::light().within(Duration::from_secs(5));
    let _listening = pool.shutdown_on_signals(how)?;

    if std::env::args().nth(1).as_deref() != Some("wait") {
        println!("sending myself SIGTERM");
        signal_hook::low_level::raise(signal_hook::consts::SIGTERM)?;
    }
    // The service: takes work until the pool is closed under it.
    let mut served = 0_u64;
    while pool.spawn(std::thread::yield_now).is_ok() {
        served += 1;
    }
    // The signal began the shutdown; `main` waits for the same end and gets its report.
    let report = pool.shutdown(how)?;
    println!("served {served}, then: {report}");
    assert_eq!(pool.state(), PoolState::Stopped { complete: true });
    Ok(())
}

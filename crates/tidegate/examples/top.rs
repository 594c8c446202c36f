//! The live view over three pools at work: one calm, one overrun, one that fails (feature `top`).
//!
//! ```sh
//! cargo run --example top --features top -p tidegate          # in a terminal; q quits
//! cargo run --example top --features top -p tidegate </dev/null    # one frame as plain text
//! ```

use std::error::Error;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{Pool, Shutdown, Top, WhenFull};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let calm = Pool::builder("calm").workers(2).queue(100).build()?;
    let overrun = Pool::builder("overrun").workers(1).queue(50).when_full(WhenFull::Reject);
    let overrun = overrun.build()?;
    let failing = Pool::builder("failing").workers(2).queue(100).on_unobserved(|_| {}).build()?;
    let pools = [&calm, &overrun, &failing];
    let mut top = Top::new();
    pools.iter().for_each(|pool| top.add(pool));

    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (pools, stop) = (pools.map(Pool::clone), Arc::clone(&stop));
        thread::spawn(move || {
            let [calm, overrun, failing] = pools;
            while !stop.load(Relaxed) {
                // Refusals are part of the show.
                let _ = calm.task("tick").spawn(|_| work(Duration::from_millis(1)));
                for _ in 0..4 {
                    let _ = overrun.task("burst").spawn(|_| work(Duration::from_millis(5)));
                }
                let _ = failing.task("flaky").spawn_result(|_| Err::<(), _>("no luck"));
                work(Duration::from_millis(4));
            }
        })
    };
    if std::io::stdin().is_terminal() {
        top.run()?;
    } else {
        work(Duration::from_millis(1_200));
        print!("{}", top.frame(100));
    }
    stop.store(true, Relaxed);
    load.join().expect("the load does not panic");
    for pool in pools {
        pool.shutdown(Shutdown::hard())?;
    }
    Ok(())
}

/// Keeps a core busy, as work does.
fn work(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        thread::yield_now();
    }
}

//! A rate: an upstream that allows 100 calls a second, ten at once.

use std::error::Error;
use std::time::{Duration, Instant};

use tidegate::{Budget, Pool, Reason, Shutdown, WhenFull};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("calls").workers(4).queue(50).build()?;
    let calls = Budget::per_second("upstream", 100).burst(10);
    let began = Instant::now();
    for n in 0..60 {
        // The submitter waits for its turn; no worker does.
        pool.task("call").budget(&calls, 1).spawn(move |_| _ = n)?;
    }
    let took = began.elapsed();
    println!("60 calls in {took:.0?}: ten at once, 50 at 100 a second");
    assert!(took >= Duration::from_millis(490), "faster than allowed");
    pool.shutdown(Shutdown::default())?;

    // Where nobody should wait, a refusal says so; nothing is used up by it.
    let pool = Pool::builder("shed").workers(1).when_full(WhenFull::Reject).build()?;
    let calls = Budget::per(Duration::from_secs(3600), "hourly", 1);
    pool.task("call").budget(&calls, 1).spawn(|_| ())?;
    let refused = pool.task("call").budget(&calls, 1).spawn(|_| ()).unwrap_err();
    assert_eq!(refused.reason(), Reason::OverBudget);
    println!("{refused}");
    pool.shutdown(Shutdown::default())?;
    Ok(())
}

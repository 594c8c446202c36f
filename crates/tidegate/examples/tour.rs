//! A pool at work: backpressure, every common outcome, cancellation, a snapshot, a report.
//!
//! ```sh
//! cargo run --release --example tour -p tidegate
//! ```

use std::error::Error;
use std::time::{Duration, Instant};

use tidegate::{Pool, Shutdown, Stop, TaskError, Token, WaitError};

/// The work: primes below `to`, from `from` on, by trial division.
fn primes(from: u64, to: u64) -> usize {
    let is_prime = |n: u64| n > 1 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (from..to).filter(|n| is_prime(*n)).count()
}

fn main() -> Result<(), Box<dyn Error>> {
    // The pool tells us about panics; the default hook would print each a second time.
    std::panic::set_hook(Box::new(|_| ()));

    println!("-- 2 workers, a queue of 8: more than 10 tasks are never inside\n");
    let pool = Pool::builder("tour").workers(2).queue(8).grace(Duration::from_secs(1)).build()?;

    let began = Instant::now();
    let mut longest = Duration::ZERO;
    let mut blocks = Vec::new();
    for block in 0..200 {
        let offered = Instant::now();
        // Waits here while the queue is full: that is the backpressure.
        blocks.push(pool.submit(move || primes(block * 10_000, (block + 1) * 10_000))?);
        longest = longest.max(offered.elapsed());
    }
    println!(
        "200 blocks submitted in {:.0?}; the longest wait for room was {longest:.1?}",
        began.elapsed()
    );
    println!("while it works:\n{}\n", pool.snapshot());
    let found = blocks.into_iter().map(|block| block.wait()).sum::<Result<usize, _>>()?;
    println!("{found} primes below two million, after {:.0?}\n", began.elapsed());

    println!("-- every accepted task has exactly one outcome\n");
    let value = pool.submit(|| 6 * 7)?;
    let error = pool.submit_result(|| "forty-two".parse::<u64>())?;
    let panic = pool.submit(|| -> u64 { panic!("out of paint") })?;
    println!("value  {:?}", value.wait());
    println!("error  {}", error.wait().expect_err("not a number"));
    println!("panic  {}", panic.wait().expect_err("it panics"));

    println!("\n-- a cancel is a request; queued work never starts, running work is told\n");
    let request = Token::new();
    let endless = |name| {
        pool.task(name).cancel_with(&request).submit_result(|cx| {
            loop {
                cx.check()?; // one load: cheap enough for an inner loop
                primes(0, 1_000);
            }
            #[allow(unreachable_code)]
            Ok::<(), Stop>(())
        })
    };
    let handles = [endless("scan-1")?, endless("scan-2")?, endless("scan-3")?];
    while pool.snapshot().running < 2 {
        std::thread::yield_now();
    }
    request.cancel();
    for handle in handles {
        match handle.wait() {
            Err(WaitError::Task(TaskError::Cancelled { cause, error: None })) => {
                println!("cancelled by {cause}, never started");
            }
            Err(WaitError::Task(TaskError::Cancelled { cause, error: Some(stop) })) => {
                println!("cancelled by {cause} while it ran; it returned: {stop}");
            }
            other => println!("{other:?}"),
        }
    }

    println!("\n-- what cannot be taken is handed back, with the reason\n");
    pool.pause(); // nothing starts, so the queue fills
    for n in 0..8 {
        pool.spawn(move || _ = primes(0, n * 1_000))?;
    }
    let refused = pool.try_spawn(|| println!("run by whoever got it back")).expect_err("9th of 8");
    println!("{refused}");
    refused.into_work()();

    println!("\n-- shutdown drains (it also ends the pause), joins every thread, and reports\n");
    let report = pool.shutdown(Shutdown::light().within(Duration::from_secs(10)))?;
    println!("{report}\n\n{}", pool.snapshot());
    assert!(report.is_success());
    pool.snapshot().check()?;
    Ok(())
}

//! A full set in, all outcomes out, in order, and the pool is gone.

use std::error::Error;
use std::time::Duration;

use tidegate::{Pool, Shutdown};

fn collatz(n: u64) -> Result<u32, String> {
    if n == 0 {
        return Err("zero never gets to one".to_owned());
    }
    let step = |n: &u64| (*n != 1).then(|| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 });
    Ok(std::iter::successors(Some(n), step).count() as u32 - 1)
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = [27, 97, 0, 871, 6_171];
    let tasks = numbers.map(|n| move || collatz(n));
    let how = Shutdown::light().within(Duration::from_secs(10));
    let batch = Pool::builder("collatz").workers(2).run_batch(tasks, how)?;

    for (n, outcome) in numbers.iter().zip(&batch.outcomes) {
        match outcome {
            Ok(steps) => println!("{n:>5}: {steps} steps"),
            Err(error) => println!("{n:>5}: {error}"),
        }
    }
    println!("done: {}, unfinished: {:?}", batch.is_done(), batch.unfinished);
    println!("{}", batch.report);
    Ok(())
}

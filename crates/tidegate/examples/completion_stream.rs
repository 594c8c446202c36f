//! Results as they come, with a window: neither tasks nor results pile up.

use std::error::Error;
use std::num::ParseIntError;

use tidegate::{Completion, Pool, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("parse").workers(2).build()?;
    let lines = ["1", "2", "three", "4", "5", "six", "7"];

    const WINDOW: usize = 3;
    let mut done = pool.stream::<u64, ParseIntError>(WINDOW);
    let (mut sum, mut bad) = (0, Vec::new());
    let mut take = |completion: Completion<u64, ParseIntError>| match completion.outcome {
        Ok(n) => sum += n,
        // `key` is the number of the submission: the line.
        Err(error) => bad.push((completion.key, error.to_string())),
    };
    for line in lines {
        // On a full window a submit is refused: make room by taking an outcome.
        if done.in_flight() == WINDOW {
            take(done.next().expect("three are in flight"));
        }
        done.submit_result(move || line.parse())?;
    }
    for completion in &mut done {
        take(completion);
    }
    bad.sort();
    println!("sum {sum}");
    for (line, error) in bad {
        println!("line {line}: {error}");
    }
    println!("{}", pool.shutdown(Shutdown::default())?);
    Ok(())
}

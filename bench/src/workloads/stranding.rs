//! S: whether a pool that got used to short tasks leaves some behind a long
//! one while another worker sleeps.

use std::thread;
use std::time::{Duration, Instant};

use super::{fire_and_forget, idle_pool};
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::sink;

const WORKERS: usize = 2;
const BEFORE: u64 = 3_000;
const AFTER: u64 = 20;
const SLEEP: Duration = Duration::from_millis(20);

/// Milliseconds from the submit of the sleeper until the short tasks behind
/// it are done.
pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);
    fire_and_forget::produce(&pool, 0..BEFORE);

    let started = Instant::now();
    pool.spawn(|| thread::sleep(SLEEP));
    fire_and_forget::produce(&pool, BEFORE..BEFORE + AFTER);
    // Asleep: a producer that keeps a core busy would be what strands them.
    sink::wait_for(BEFORE + AFTER);
    let elapsed = started.elapsed();

    sink::check(BEFORE + AFTER);
    pool.join();
    vec![Figure::new("ms", elapsed.as_secs_f64() * 1e3)]
}

//! W7: the CPU time of a pool with nothing to do. M: the memory of a worker
//! with nothing to do.

use std::thread;
use std::time::Duration;

use super::QUEUE;
use crate::body::ShortTask;
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::{process, sink};

const WORKERS: usize = 8;
const WARM_UP: u64 = 1_000;
/// Long enough for every worker to give up looking for work.
const SETTLE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_secs(2);
const QUICK_WINDOW: Duration = Duration::from_millis(500);

const MANY_WORKERS: usize = 256;

/// Microseconds of CPU per second, of the whole process.
pub(super) fn cpu<C: Contender>() -> Vec<Figure> {
    let pool = C::new(WORKERS, QUEUE);
    for input in 0..WARM_UP {
        let task = ShortTask::new(input);
        pool.spawn(move || sink::add(task.run()));
    }
    sink::wait_for(WARM_UP);
    thread::sleep(SETTLE);

    let window = if process::is_quick() { QUICK_WINDOW } else { WINDOW };
    let before = process::cpu_time();
    thread::sleep(window);
    let used = process::cpu_time() - before;

    sink::check(WARM_UP);
    pool.join();
    vec![Figure::new("us_per_s", used.as_secs_f64() * 1e6 / window.as_secs_f64())]
}

/// Resident kilobytes for each worker beyond the first pool's, which pays for
/// what all pools share.
pub(super) fn memory<C: Contender>() -> Vec<Figure> {
    let first = C::new(1, QUEUE);
    thread::sleep(SETTLE);
    let before = process::resident_kb();
    let many = C::new(MANY_WORKERS, QUEUE);
    thread::sleep(SETTLE);
    let grown = process::resident_kb() - before;
    many.join();
    first.join();
    vec![Figure::new("kb_per_worker", grown / MANY_WORKERS as f64)]
}

//! F: whether a task costs the same, however many there are.

use super::{fire_and_forget, idle_pool};
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::{process, sink};

const WORKERS: usize = 2;
const WARM_UP: u64 = 200_000;

struct Size {
    name: &'static str,
    tasks: u64,
    /// So that a small number of tasks is not judged by one moment.
    repeats: usize,
}

#[rustfmt::skip] // a table: one line each
const SIZES: [Size; 4] = [
    Size { name: "ns_10k", tasks: 10_000, repeats: 31 },
    Size { name: "ns_100k", tasks: 100_000, repeats: 7 },
    Size { name: "ns_1m", tasks: 1_000_000, repeats: 3 },
    Size { name: "ns_10m", tasks: 10_000_000, repeats: 1 },
];

/// ns per task for each size, on one pool that is warm.
pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);
    let mut done = 0;
    timed(&pool, &mut done, WARM_UP);

    let sizes = if process::is_quick() { &SIZES[..3] } else { &SIZES[..] };
    let figures = sizes
        .iter()
        .map(|size| {
            let mut times: Vec<f64> =
                (0..size.repeats).map(|_| timed(&pool, &mut done, size.tasks)).collect();
            times.sort_by(f64::total_cmp);
            Figure::new(size.name, times[times.len() / 2])
        })
        .collect();

    sink::check(done);
    pool.join();
    figures
}

/// ns per task for the next `tasks` tasks.
fn timed<C: Contender>(pool: &C, done: &mut u64, tasks: u64) -> f64 {
    let inputs = *done..*done + tasks;
    *done = inputs.end;
    let started = fire_and_forget::produce(pool, inputs);
    sink::wait_awake_for(*done);
    started.elapsed().as_nanos() as f64 / tasks as f64
}

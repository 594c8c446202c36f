//! F: whether a task costs the same, however many there are.

use std::time::{Duration, Instant};

use super::{fire_and_forget, idle_pool};
use crate::contenders::Contender;
use crate::figures::Figure;
use crate::{process, sink};

const WORKERS: usize = 2;
const WARM_UP: u64 = 200_000;

/// Every size is judged by the median of this many ...
const RUNS: usize = 31;
/// ... unless they take this long: who is ten times slower shows it with fewer.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

struct Size {
    name: &'static str,
    tasks: u64,
    /// When time is short; 0 leaves the size out.
    quick_runs: usize,
}

#[rustfmt::skip] // a table: one line each
const SIZES: [Size; 4] = [
    Size { name: "ns_10k", tasks: 10_000, quick_runs: RUNS },
    Size { name: "ns_100k", tasks: 100_000, quick_runs: 7 },
    Size { name: "ns_1m", tasks: 1_000_000, quick_runs: 3 },
    Size { name: "ns_10m", tasks: 10_000_000, quick_runs: 0 },
];

/// ns per task for each size, on one pool that is warm; and the number of
/// runs of the size with the fewest.
pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);
    let mut done = 0;
    timed(&pool, &mut done, WARM_UP);

    let (mut figures, mut fewest) = (Vec::new(), RUNS);
    for size in &SIZES {
        let runs = if process::is_quick() { size.quick_runs } else { RUNS };
        if runs == 0 {
            continue;
        }
        let started = Instant::now();
        let mut times = vec![timed(&pool, &mut done, size.tasks)];
        while times.len() < runs && started.elapsed() < LONG_ENOUGH {
            times.push(timed(&pool, &mut done, size.tasks));
        }
        times.sort_by(f64::total_cmp);
        figures.push(Figure::new(size.name, times[times.len() / 2]));
        fewest = fewest.min(times.len());
    }
    figures.push(Figure::new("runs", fewest as f64));

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

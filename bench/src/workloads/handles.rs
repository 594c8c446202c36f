//! W2: results by handle, 100 outstanding, waited for in order. W5i: the same
//! through a `map` over an iterator, where there is one.

use std::collections::VecDeque;
use std::time::Instant;

use super::idle_pool;
use crate::body::{self, ShortTask};
use crate::contenders::Contender;
use crate::figures::Figure;

const WORKERS: usize = 2;
pub(super) const TASKS: u64 = 300_000;
const ITEMS: u64 = 100_000;
pub(super) const OUTSTANDING: usize = 100;

pub(super) fn run<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);

    let started = Instant::now();
    let sum = sum_of_results(&pool, TASKS);
    let elapsed = started.elapsed();

    assert_eq!(sum, body::expected_sum(TASKS), "a handle gave a wrong result");
    pool.join();
    vec![Figure::ns_per_task(elapsed, TASKS)]
}

/// Who has no such `map` does by hand what it does.
pub(super) fn run_map<C: Contender>() -> Vec<Figure> {
    let pool: C = idle_pool(WORKERS);

    let started = Instant::now();
    let sum = pool.map(0..ITEMS).unwrap_or_else(|| sum_of_results(&pool, ITEMS));
    let elapsed = started.elapsed();

    assert_eq!(sum, body::expected_sum(ITEMS), "an item gave a wrong result");
    pool.join();
    vec![Figure::ns_per_task(elapsed, ITEMS)]
}

/// The sum of the results of that many short tasks.
pub(super) fn sum_of_results<C: Contender>(pool: &C, tasks: u64) -> u64 {
    let submit = |input| {
        let task = ShortTask::new(input);
        Some(pool.submit(move || task.run()))
    };
    sum_in_order(pool, tasks, submit).expect("each was submitted")
}

/// Submits `tasks` tasks, never more than `OUTSTANDING` unwaited; `None` as
/// soon as `submit` gives none.
#[inline]
pub(super) fn sum_in_order<C: Contender>(
    pool: &C,
    tasks: u64,
    submit: impl Fn(u64) -> Option<C::Handle<u64>>,
) -> Option<u64> {
    let mut outstanding = VecDeque::with_capacity(OUTSTANDING);
    let mut sum = 0_u64;
    for input in 0..tasks {
        if outstanding.len() == OUTSTANDING
            && let Some(oldest) = outstanding.pop_front()
        {
            sum = sum.wrapping_add(pool.wait(oldest));
        }
        outstanding.push_back(submit(input)?);
    }
    Some(outstanding.into_iter().fold(sum, |sum, handle| sum.wrapping_add(pool.wait(handle))))
}

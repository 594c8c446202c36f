//! W3: as W2, each task with a timeout that it never reaches and a
//! cancellation that it looks at once, half way.

use std::time::Instant;

use super::handles::sum_in_order;
use super::{Body, TokenOf, idle_pool};
use crate::body::{self, HalvedTask};
use crate::contenders::Contender;
use crate::figures::Figure;

const WORKERS: usize = 2;

impl Body {
    pub(super) fn tasks(self) -> u64 {
        match self {
            Body::Short => 200_000,
            Body::Long => 40_000,
        }
    }

    #[inline(always)]
    pub(super) fn task(self, input: u64) -> HalvedTask {
        match self {
            Body::Short => HalvedTask::short(input),
            Body::Long => HalvedTask::long(input),
        }
    }

    pub(super) fn check(self, sum: u64) {
        let expected = body::sum_of(self.tasks(), |input| self.task(input).run());
        assert_eq!(sum, expected, "a handle gave a wrong result");
    }
}

/// `None` if the contender has no such limits.
pub(super) fn run<C: Contender>(body: Body, token: TokenOf) -> Option<Vec<Figure>> {
    let pool: C = idle_pool(WORKERS);

    let started = Instant::now();
    let sum = sum_of_results(&pool, body, token, body.tasks())?;
    let elapsed = started.elapsed();

    body.check(sum);
    pool.join();
    Some(vec![Figure::ns_per_task(elapsed, body.tasks())])
}

/// `None` as for `run`.
pub(super) fn sum_of_results<C: Contender>(
    pool: &C,
    body: Body,
    token: TokenOf,
    tasks: u64,
) -> Option<u64> {
    sum_in_order(pool, tasks, |input| match token {
        TokenOf::Each => pool.submit_limited(body.task(input)),
        TokenOf::All => pool.submit_with_token(body.task(input)),
    })
}

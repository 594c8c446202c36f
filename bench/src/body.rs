//! The *short* task: 24 captured bytes and about 5 ns of arithmetic.

use std::hint::black_box;

const SEED: u64 = 0x1234_5678_9abc_def1;
const SHORT_ROUNDS: u64 = 3;

/// What a short task captures. Three words, because a real closure captures
/// about that much, and because it must not fit a pool's special case for
/// empty closures.
#[derive(Clone, Copy)]
pub(crate) struct ShortTask {
    input: u64,
    seed: u64,
    rounds: u64,
}

const _: () = assert!(size_of::<ShortTask>() == 24, "the workloads promise 24 bytes");

impl ShortTask {
    #[inline(always)]
    pub(crate) fn new(input: u64) -> Self {
        ShortTask { input, seed: SEED, rounds: SHORT_ROUNDS }
    }

    #[inline(always)]
    pub(crate) fn run(self) -> u64 {
        // A known number of rounds would be unrolled where the task is
        // inlined and nowhere else.
        mix(self.input ^ self.seed, black_box(self.rounds))
    }
}

/// What the tasks with inputs `0..tasks` must add up to.
pub(crate) fn expected_sum(tasks: u64) -> u64 {
    (0..tasks).fold(0, |sum: u64, input| sum.wrapping_add(ShortTask::new(input).run()))
}

#[inline(always)]
fn mix(mut x: u64, rounds: u64) -> u64 {
    for _ in 0..rounds {
        x ^= x >> 29;
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x
}

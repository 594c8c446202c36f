//! What the tasks do: arithmetic whose result depends on every round of it.

use std::hint::black_box;

const SEED: u64 = 0x1234_5678_9abc_def1;
const SHORT_ROUNDS: u64 = 3;
/// About 5 µs.
const LONG_ROUNDS: u64 = 3_300;

/// The *short* task: 24 captured bytes and about 5 ns of arithmetic.
///
/// Three words, because a real closure captures about that much, and because
/// it must not fit a pool's special case for empty closures.
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

    /// The same with 5 µs of arithmetic.
    #[inline(always)]
    pub(crate) fn long(input: u64) -> Self {
        ShortTask { input, seed: SEED, rounds: LONG_ROUNDS }
    }

    #[inline(always)]
    pub(crate) fn run(self) -> u64 {
        // A known number of rounds would be unrolled where the task is
        // inlined and nowhere else.
        mix(self.input ^ self.seed, black_box(self.rounds))
    }
}

/// A task in two halves, with the place between them where it looks whether
/// it should stop.
#[derive(Clone, Copy)]
pub(crate) struct HalvedTask {
    input: u64,
    seed: u64,
    rounds: u64,
}

const _: () = assert!(size_of::<HalvedTask>() == 24, "the workloads promise 24 bytes");

impl HalvedTask {
    /// Each half as long as a short task.
    #[inline(always)]
    pub(crate) fn short(input: u64) -> Self {
        HalvedTask { input, seed: SEED, rounds: SHORT_ROUNDS }
    }

    /// Both halves together as long as a long task.
    #[inline(always)]
    pub(crate) fn long(input: u64) -> Self {
        HalvedTask { input, seed: SEED, rounds: LONG_ROUNDS / 2 }
    }

    #[inline(always)]
    pub(crate) fn first(self) -> u64 {
        mix(self.input ^ self.seed, black_box(self.rounds))
    }

    #[inline(always)]
    pub(crate) fn second(self, half: u64) -> u64 {
        mix(half, black_box(self.rounds))
    }

    /// Both halves on the spot, for checking.
    pub(crate) fn run(self) -> u64 {
        self.second(self.first())
    }
}

/// What `task` gives for the inputs `0..tasks`, added up.
pub(crate) fn sum_of(tasks: u64, task: impl Fn(u64) -> u64) -> u64 {
    (0..tasks).fold(0, |sum: u64, input| sum.wrapping_add(task(input)))
}

/// What the short tasks with inputs `0..tasks` must add up to.
pub(crate) fn expected_sum(tasks: u64) -> u64 {
    sum_of(tasks, |input| ShortTask::new(input).run())
}

#[inline(always)]
fn mix(mut x: u64, rounds: u64) -> u64 {
    for _ in 0..rounds {
        x ^= x >> 29;
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x
}

//! Quicksort in place: a scope per level, inside the tasks of the pool itself.

use std::error::Error;
use std::time::Instant;

use tidegate::{Pool, Shutdown};

const NUMBERS: usize = 300_000;
/// Below this a task costs more than it saves.
const CUTOFF: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let shuffled = random_numbers(NUMBERS);
    for workers in [1, 8] {
        let pool = Pool::builder("sort").workers(workers).queue(16).build()?;
        let mut numbers = shuffled.clone();
        let began = Instant::now();
        // The first task; from here on every split happens inside the pool.
        pool.scope(|s| s.submit(|| quicksort(&pool, &mut numbers)).expect("open").wait())?;
        println!("workers {workers}: {NUMBERS} numbers in {:.0?}", began.elapsed());
        assert!(numbers.is_sorted());
        let seen = pool.snapshot();
        println!("  {} tasks, {} of them on top of another", seen.accepted, seen.nested);
        let report = pool.shutdown(Shutdown::default())?;
        assert!(report.is_success(), "{report}");
    }
    Ok(())
}

fn quicksort(pool: &Pool, numbers: &mut [u64]) {
    if numbers.len() <= CUTOFF {
        return numbers.sort_unstable();
    }
    let (low, high) = partition(numbers);
    // The end of the scope runs what is still queued, so one worker is enough.
    pool.scope(|s| {
        if let Err(refused) = s.spawn(|| quicksort(pool, low)) {
            refused.into_work()(); // the pool takes no more: sort it here
        }
        quicksort(pool, high);
    });
}

/// Two parts, everything in the first at most as large as anything in the second. Neither
/// has all of the numbers, also when they are equal.
pub(crate) fn partition(numbers: &mut [u64]) -> (&mut [u64], &mut [u64]) {
    let pivot = median(numbers[0], numbers[numbers.len() / 2], numbers[numbers.len() - 1]);
    let (mut left, mut right) = (0, numbers.len() - 1);
    loop {
        while numbers[left] < pivot {
            left += 1;
        }
        while numbers[right] > pivot {
            right -= 1;
        }
        if left >= right {
            return numbers.split_at_mut(left);
        }
        numbers.swap(left, right);
        left += 1;
        right -= 1;
    }
}

fn median(a: u64, b: u64, c: u64) -> u64 {
    a.max(b).min(a.min(b).max(c))
}

/// The same numbers on every run, by xorshift.
pub(crate) fn random_numbers(count: usize) -> Vec<u64> {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..count).map(|_| next()).collect()
}

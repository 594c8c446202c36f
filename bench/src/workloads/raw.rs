//! raw: what the machine allows. The price of the steps that any pool is made
//! of, without a pool: whoever wants to know how close to the limit a figure
//! is adds these up.

use std::hint::{black_box, spin_loop};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::Figure;

/// Each step is repeated in batches, and the median batch counts: one that was
/// interrupted says nothing.
const BATCHES: usize = 21;
const CHEAP: u64 = 20_000;
const HANDED_OVER: u64 = 2_000;
const SLEEPS: usize = 101;
/// Long enough for a thread to be asleep.
const UNTIL_ASLEEP: Duration = Duration::from_micros(500);

/// The payload of a usual closure with what a queue adds.
type Boxed = Box<[u64; 6]>;

/// Two cache lines wide, since neighbouring lines are fetched in pairs.
#[repr(align(128))]
struct OwnLine(AtomicU64);

/// Nanoseconds for one of each.
pub(crate) fn run() -> Vec<Figure> {
    let line = OwnLine(AtomicU64::new(0));
    let add = || _ = black_box(line.0.fetch_add(1, Ordering::SeqCst));
    let compare = || increment(&line.0);
    // Fences with nothing between them are made one by the compiler.
    let store_and_fence = || {
        line.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    };
    // Not zeros: the allocator has another way to give those.
    let boxed = || drop(black_box(Boxed::new([1; 6])));
    let figure = |name, price: Option<f64>| price.map(|price| Figure::new(name, price));
    let mut figures: Vec<Figure> = [
        figure("atomic_add", Some(alone(add))),
        figure("atomic_add_contended", contended(add)),
        figure("compare_exchange", Some(alone(compare))),
        figure("compare_exchange_contended", contended(compare)),
        figure("store_and_seqcst_fence", Some(alone(store_and_fence))),
        figure("cache_line_there_and_back", Some(there_and_back())),
        figure("instant_now", Some(alone(|| _ = black_box(Instant::now())))),
        figure("spin_loop_hint", Some(alone(spin_loop))),
        figure("catch_unwind", Some(alone(caught))),
        figure("box_of_48_bytes", Some(alone(boxed))),
        figure("box_of_48_bytes_freed_by_another", Some(boxes_freed_by_another())),
    ]
    .into_iter()
    .flatten()
    .collect();
    figures.extend(system_calls());
    figures.extend(sleepers());
    figures.extend([
        Figure::new("tokio_yield_of_one_task", yields(1)),
        Figure::new("tokio_yield_of_100_tasks", yields(100)),
    ]);
    figures
}

/// One `yield_now` of so many tasks of a runtime with two threads. Before
/// those that have yielded go on a thread turns the runtime's drivers, once
/// for all of them.
fn yields(tasks: u64) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("the system gives a runtime its threads");
    let times = CHEAP / tasks;
    let yielding = || async move {
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    };
    let batch = |_| {
        let started = Instant::now();
        let all: Vec<_> = (0..tasks).map(|_| runtime.spawn(yielding())).collect();
        for task in all {
            runtime.block_on(task).expect("it does not panic");
        }
        started.elapsed().as_nanos() as f64 / (times * tasks) as f64
    };
    median((0..BATCHES).map(batch).collect())
}

/// The median of batches of `step` on one thread.
fn alone(step: impl Fn()) -> f64 {
    median((0..BATCHES).map(|_| batch(CHEAP, &step)).collect())
}

/// The same while another thread does the same to the same line; `None` if
/// the two never ran at once. A batch counts if the other got about as far
/// meanwhile: it did not if it had no core, and got much further if it had ours.
fn contended(step: impl Fn() + Sync) -> Option<f64> {
    let (others, done) = (OwnLine(AtomicU64::new(0)), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                (0..100).for_each(|_| step());
                others.0.fetch_add(100, Ordering::Relaxed);
            }
        });
        let mut prices = Vec::new();
        for _ in 0..50 * BATCHES {
            let before = others.0.load(Ordering::Relaxed);
            let price = batch(CHEAP, &step);
            let theirs = others.0.load(Ordering::Relaxed) - before;
            if (CHEAP / 2..CHEAP * 2).contains(&theirs) {
                prices.push(price);
            }
            if prices.len() == BATCHES {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        (!prices.is_empty()).then(|| median(prices))
    })
}

fn batch(steps: u64, step: impl Fn()) -> f64 {
    let started = Instant::now();
    (0..steps).for_each(|_| step());
    started.elapsed().as_nanos() as f64 / steps as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Until it succeeds: with two threads that is what one of them pays.
fn increment(word: &AtomicU64) {
    let mut seen = word.load(Ordering::Relaxed);
    while let Err(now) =
        word.compare_exchange_weak(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed)
    {
        seen = now;
    }
}

fn caught() {
    let answer = panic::catch_unwind(|| black_box(1));
    assert_eq!(answer.ok(), Some(1), "nothing panics here");
}

/// Two threads take turns on a line: even is ours, odd the other's.
fn there_and_back() -> f64 {
    let turn = OwnLine(AtomicU64::new(0));
    let last = BATCHES as u64 * HANDED_OVER * 2;
    let wait_for = |number| {
        while turn.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..last).step_by(2) {
                wait_for(number);
                turn.0.store(number + 1, Ordering::Release);
            }
        });
        let batches = (0..BATCHES as u64).map(|batch| {
            let started = Instant::now();
            for step in 0..HANDED_OVER {
                let number = (batch * HANDED_OVER + step) * 2;
                turn.0.store(number + 1, Ordering::Release);
                wait_for(number + 2);
            }
            started.elapsed().as_nanos() as f64 / HANDED_OVER as f64
        });
        median(batches.collect())
    })
}

/// One thread allocates, another frees: the price for the slower of the two.
/// The lists go through a channel, at next to nothing for each box.
fn boxes_freed_by_another() -> f64 {
    let (to_other, from_here) = mpsc::sync_channel::<Vec<Boxed>>(1);
    let other = thread::spawn(move || from_here.into_iter().for_each(drop));
    let lists = (0..BATCHES).map(|_| {
        let started = Instant::now();
        for _ in 0..CHEAP / HANDED_OVER {
            let list = (0..HANDED_OVER).map(|word| Boxed::new([word + 1; 6])).collect();
            to_other.send(list).expect("the other thread lives as long as this end");
        }
        started.elapsed().as_nanos() as f64 / CHEAP as f64
    });
    let price = median(lists.collect());
    drop(to_other);
    other.join().expect("freeing does not panic");
    price
}

#[cfg(target_os = "linux")]
fn system_calls() -> Vec<Figure> {
    let word = AtomicU64::new(0);
    let ask_nothing = || {
        // SAFETY: this call has no arguments and can't fail.
        unsafe { libc::syscall(libc::SYS_getppid) };
    };
    let wake_nobody = || {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word lives, and a wake does not write to it.
        let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wake, 1) };
        assert_eq!(woken, 0, "nobody sleeps on this word");
    };
    vec![
        Figure::new("system_call", alone(ask_nothing)),
        Figure::new("futex_wake_of_nobody", alone(wake_nobody)),
    ]
}

#[cfg(not(target_os = "linux"))]
fn system_calls() -> Vec<Figure> {
    Vec::new()
}

/// A thread sleeps, we wake it, it answers, and we sleep meanwhile: what the
/// call that wakes costs, and the whole way there and back.
fn sleepers() -> Vec<Figure> {
    let here = thread::current();
    let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut calls, mut trips) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for number in 1..=SLEEPS as u64 {
                park_until(&asked, number);
                answered.store(number, Ordering::Release);
                here.unpark();
            }
        });
        for number in 1..=SLEEPS as u64 {
            thread::sleep(UNTIL_ASLEEP);
            let started = Instant::now();
            asked.store(number, Ordering::Release);
            other.thread().unpark();
            calls.push(started.elapsed().as_nanos() as f64);
            park_until(&answered, number);
            trips.push(started.elapsed().as_nanos() as f64);
        }
    });
    vec![
        Figure::new("waking_a_sleeper", median(calls)),
        Figure::new("sleeper_there_and_back", median(trips)),
    ]
}

fn park_until(word: &AtomicU64, number: u64) {
    while word.load(Ordering::Acquire) < number {
        thread::park();
    }
}

//! C: ten million tasks, of which some are cancelled at random, and the proof
//! that none was lost and none ran twice: each task leaves a mark, each
//! handle tells an outcome, and the pool counts for itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Instant;

use tidegate::{Handle, Pool, Shutdown};

use super::QUEUE;
use super::handles::OUTSTANDING;
use crate::body::ShortTask;
use crate::figures::Figure;

const WORKERS: usize = 2;
const PRODUCERS: usize = 2;
const TASKS: usize = 10_000_000;

/// What the handles of one producer told.
#[derive(Default)]
struct Told {
    completed: u64,
    cancelled: u64,
    cancels_in_time: u64,
}

pub(crate) fn run() -> Vec<Figure> {
    let pool = Pool::builder("storm")
        .workers(WORKERS)
        .queue(QUEUE)
        .build()
        .expect("the configuration is valid and the system has threads left");
    // One mark per task, leaked for tasks that can't borrow: as in W5.
    let ran: &'static [AtomicU8] = (0..TASKS).map(|_| AtomicU8::new(0)).collect::<Vec<_>>().leak();

    let started = Instant::now();
    let told = thread::scope(|scope| {
        let shares: Vec<_> = ran
            .chunks(TASKS / PRODUCERS)
            .zip(1..)
            .map(|(share, seed)| {
                let pool = &pool;
                scope.spawn(move || produce(pool, share, seed))
            })
            .collect();
        shares.into_iter().map(|share| share.join().expect("counts are right")).fold(
            Told::default(),
            |all, one| Told {
                completed: all.completed + one.completed,
                cancelled: all.cancelled + one.cancelled,
                cancels_in_time: all.cancels_in_time + one.cancels_in_time,
            },
        )
    });
    let elapsed = started.elapsed();

    let tasks = TASKS as u64;
    let counted = pool.snapshot();
    let marks: u64 = ran.iter().map(|mark| u64::from(mark.load(Ordering::Relaxed))).sum();
    assert_eq!(told.completed + told.cancelled, tasks, "a task has no outcome");
    assert_eq!(marks, told.completed, "a task ran twice, or completed without a run");
    assert_eq!(counted.accepted, tasks, "the pool lost a task");
    assert_eq!(counted.completed, told.completed, "the pool counts other completions");
    assert_eq!(counted.cancelled, told.cancelled, "the pool counts other cancels");
    assert!(told.cancelled <= told.cancels_in_time, "cancelled by nobody");
    let report = pool.shutdown(Shutdown::light()).expect("called from outside the pool");
    assert!(report.complete, "a worker was left behind");

    vec![
        Figure::ns_per_task(elapsed, tasks),
        Figure::new("accepted", counted.accepted as f64),
        Figure::new("completed", told.completed as f64),
        Figure::new("cancelled", told.cancelled as f64),
        Figure::new("lost", tasks as f64 - (told.completed + told.cancelled) as f64),
        Figure::new("doubled", marks as f64 - told.completed as f64),
    ]
}

fn produce(pool: &Pool, share: &'static [AtomicU8], seed: u64) -> Told {
    let mut told = Told::default();
    let mut random = Random(seed);
    let mut outstanding = VecDeque::with_capacity(OUTSTANDING);
    for mark in share {
        if outstanding.len() == OUTSTANDING {
            settle(&mut outstanding, &mut told);
        }
        let task = ShortTask::new(random.next());
        let submitted = pool.submit(move || {
            mark.fetch_add(1, Ordering::Relaxed);
            task.run()
        });
        let Ok(handle) = submitted else { panic!("an open pool refused a task") };
        outstanding.push_back((mark, handle));
        // One in four cancels somebody: the newest, most likely still queued,
        // or one that may be anywhere.
        let victim = match random.next() % 8 {
            0 => outstanding.len() - 1,
            1 => random.next() as usize % outstanding.len(),
            _ => continue,
        };
        told.cancels_in_time += u64::from(outstanding[victim].1.cancel());
    }
    while !outstanding.is_empty() {
        settle(&mut outstanding, &mut told);
    }
    told
}

/// Takes the oldest outcome, and checks that it says what the mark says.
fn settle(outstanding: &mut VecDeque<(&AtomicU8, Handle<u64>)>, told: &mut Told) {
    let (mark, handle) = outstanding.pop_front().expect("the caller knows of one");
    let ended = handle.wait();
    let runs = mark.load(Ordering::Relaxed);
    match ended {
        Ok(_) => {
            assert_eq!(runs, 1, "a completed task ran {runs} times");
            told.completed += 1;
        }
        Err(error) => {
            assert!(error.is_cancelled(), "a task ended in another way");
            assert_eq!(runs, 0, "a task that had run was cancelled");
            told.cancelled += 1;
        }
    }
}

/// Xorshift: random enough for who is cancelled, and the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

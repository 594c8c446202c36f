//! loom models of the data plane: every interleaving and every value that the memory model
//! lets a load return, within a bound of preemptions (2; `LOOM_MAX_PREEMPTIONS=3` for the
//! long campaign). Run them with `scripts/models`.
//!
//! Three rules keep a model from passing without having looked (RELIABILITY.md):
//! - the main thread only prepares, spawns, joins and checks;
//! - a model names the outcomes that it is about and fails if the whole exploration did not
//!   meet each of them at least once;
//! - `scripts/mutants` breaks the product on purpose, and the models must notice.
//!
//! Between two operations of loom nothing can come in between, so a std atomic that is
//! changed right after one counts as part of it.

#![allow(
    clippy::arc_with_non_send_sync,
    reason = "the threads of a model take turns on one real thread"
)]

mod away;
mod bell;
mod cell;
mod limits;
mod lobby;
mod parking;
mod queue;
mod ranges;
mod ring;
mod spill;
mod watch;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use crate::cell::{Kind, Ops, TaskCell};
use crate::job::{InlineJob, Verb, Words};
use crate::life::CellRef;
use crate::queue::{Item, NoRoom, Queue, Standing};
use crate::sync::thread;

/// The outcomes that an exploration is about, and how often it met them.
struct Outcomes {
    names: &'static [&'static str],
    met: Vec<AtomicUsize>,
}

impl Outcomes {
    fn met(&self, name: &str) {
        let at = self.names.iter().position(|n| *n == name);
        self.met[at.expect("an outcome that the model did not name")].fetch_add(1, SeqCst);
    }
}

/// Explores `model` and checks that it met everything in `names`.
fn explore(names: &'static [&'static str], model: impl Fn(&Arc<Outcomes>) + Send + Sync + 'static) {
    let outcomes = Arc::new(Outcomes { names, met: names.iter().map(|_| 0.into()).collect() });
    let runs = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    // Each access is two branches (see `sync/loom_atomic.rs`).
    builder.max_branches = builder.max_branches.max(3_000);
    let began = Instant::now();
    let (seen, counted) = (Arc::clone(&outcomes), Arc::clone(&runs));
    builder.check(move || {
        counted.fetch_add(1, SeqCst);
        model(&seen);
    });
    let met: Vec<_> = names.iter().zip(&outcomes.met).collect();
    // The name of libtest's thread is the name of the test.
    let name = std::thread::current().name().unwrap_or("?").replace("models::", "");
    let (runs, time) = (runs.load(SeqCst), began.elapsed().as_secs_f64());
    eprintln!("{name}: {runs} executions in {time:.1} s, {met:?}");
    for (name, count) in met {
        assert!(count.load(SeqCst) > 0, "no execution met \"{name}\": the model shows nothing");
    }
}

/// Runs each body on a thread of its own, with clones of the named `Arc`s, and gives their
/// results.
macro_rules! together {
    ($([$($shared:ident),*] $body:expr),+ $(,)?) => {
        $crate::models::Join::join(($({
            $(let $shared = ::std::sync::Arc::clone(&$shared);)*
            $crate::sync::thread::spawn(move || $body)
        },)+))
    };
}
use together;

trait Join {
    type Results;
    fn join(self) -> Self::Results;
}
macro_rules! join {
    ($($thread:ident: $result:ident),+) => {
        impl<$($result),+> Join for ($(thread::JoinHandle<$result>,)+) {
            type Results = ($($result,)+);
            fn join(self) -> Self::Results {
                let ($($thread,)+) = self;
                ($($thread.join().unwrap(),)+)
            }
        }
    };
}
join!(a: A, b: B);
join!(a: A, b: B, c: C);

// ---------------------------------------------------------------- tasks

/// An inline job that only carries a number.
fn inline(number: u64) -> InlineJob {
    InlineJob::new(move || {
        std::hint::black_box(number);
    })
}

fn number_of(job: &InlineJob) -> u64 {
    // SAFETY: `inline` captured one u64, which is the first word.
    unsafe { job.captures[0].assume_init() }
}

/// Owns a cell for one execution; cells of the product live for ever.
struct Cell(NonNull<TaskCell>);

impl Cell {
    fn free() -> Cell {
        Cell(NonNull::from(Box::leak(Box::new(TaskCell::new(0)))))
    }

    /// A queued task that holds a word nobody has to drop.
    fn queued(handle: bool) -> (Cell, CellRef) {
        let cell = Cell::free();
        let life = CellRef::of_free(cell.0);
        fill(life, "", handle);
        (cell, life)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // SAFETY: made by `free`, and models drop it last, after every thread was joined.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn fill(life: CellRef, name: &'static str, handle: bool) {
    let write = |words: *mut Words| {
        // SAFETY: the words of a free cell are empty, and `fill` hands us a live pointer.
        unsafe { crate::job::put(words, 7u64) }
    };
    let label = crate::cell::Label { name, handle, ..Default::default() };
    life.fill(&NO_OPS, std::ptr::null(), label, write);
}

static NO_OPS: Ops = Ops {
    is_future: false,
    drop_work: |_| (),
    drop_output: |_, _: Kind| (),
    describe: |_, _| None,
};

// ---------------------------------------------------------------- queue

fn push(queue: &Queue, number: u64) -> Result<(), NoRoom> {
    queue.push_inline(inline(number), Standing::Newcomer).map_err(|(why, job)| {
        assert_eq!(number_of(&job), number, "another job came back");
        why
    })
}

fn push_cell(queue: &Queue, cell: CellRef) -> Result<(), NoRoom> {
    queue.push_cell(cell, Standing::Newcomer)
}

/// Pushes until there is room.
fn push_patiently(queue: &Queue, number: u64) {
    while push(queue, number).is_err() {
        thread::yield_now();
    }
}

/// The number of an inline task, or the address of a started cell task.
fn take(queue: &Queue) -> Option<u64> {
    queue.take(false, CellRef::claim_start).map(name)
}

fn name(item: Item) -> u64 {
    match item {
        Item::Inline(job) => number_of(&job),
        Item::Cell(cell) => address(cell),
    }
}

fn address(cell: CellRef) -> u64 {
    cell.address() as u64
}

fn take_patiently(queue: &Queue) -> u64 {
    loop {
        if let Some(found) = take(queue) {
            return found;
        }
        thread::yield_now();
    }
}

/// Everything that is left, oldest first.
fn rest(queue: &Queue) -> Vec<u64> {
    std::iter::from_fn(|| take(queue)).collect()
}

/// How many tasks the queue lets in now. It must be at rest.
fn room(queue: &Queue) -> usize {
    (1000..).take_while(|n| push(queue, *n).is_ok()).count()
}

/// What a winner of a queued claim does, as `settle::cancel`.
fn cancel(queue: &Queue, cell: CellRef) -> bool {
    let won = cell.claim_queued(crate::outcome::Cause::Handle).is_some();
    if won {
        queue.give_credit();
    }
    won
}

fn drop_job(job: InlineJob) {
    job.consume(Verb::Drop);
}

//! Goes through the hot paths of a pool, one after the other, for `scripts/instructions`.
//!
//! Only what is the same each time is counted. So no two threads do anything at once: the one
//! worker is held by a task while the main thread submits, then works off what was submitted
//! while that one waits. And the clock stands still: by a real one each task would seem long
//! under valgrind, and how often the workers look at it would depend on the machine.
//!
//! Each path is gone through twice, and counted the second time: with warm cells, lists and
//! libraries.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tidegate::{Builder, Clock, Cx, Handle, ManualClock, Pool, Refused, Shutdown, Token};

mod callgrind;
use callgrind::{begin, end};

const TASKS: u64 = 10_000;
/// For them, one that begins the count and one that ends it.
const PLACES: usize = TASKS as usize + 2;
const LIMIT: Duration = Duration::from_secs(1);

fn main() {
    spawned();
    submitted();
    limited();
    with_token();
    in_a_group();
    refused();
    slice();
    mapped();
    futures();
}

fn spawned() {
    let at = Paths { submit: "spawn", run: "run spawned" };
    with_pool(PLACES, |pool| drop(go(pool, at, |n| pool.spawn(quiet_task(n)))));
}

fn submitted() {
    let at = Paths { submit: "submit", run: "run submitted" };
    with_pool(PLACES, |pool| wait("wait", go(pool, at, |n| pool.submit(task(n)))));
}

/// With a timeout, and asking once whether it was told to stop.
fn limited() {
    let at = Paths { submit: "submit limited", run: "run limited" };
    let submit = |pool: &Pool, n| {
        let task = task(n);
        pool.task("limited").timeout(LIMIT).submit(move |cx: &Cx| {
            black_box(cx.stopping());
            task()
        })
    };
    with_pool(PLACES, |pool| wait("wait limited", go(pool, at, |n| submit(pool, n))));
}

/// One token for all.
fn with_token() {
    let at = Paths { submit: "submit with token", run: "run with token" };
    let token = Token::new();
    let submit = |pool: &Pool, n| {
        let task = task(n);
        pool.task("with token").cancel_with(&token).submit(move |_: &Cx| task())
    };
    with_pool(PLACES, |pool| drop(go(pool, at, |n| submit(pool, n))));
}

fn in_a_group() {
    let at = Paths { submit: "group submit", run: "group run" };
    with_pool(PLACES, |pool| {
        let group = pool.group().start::<()>();
        let task = |n| {
            let task = quiet_task(n);
            move |_: &Cx| {
                task();
                Ok(())
            }
        };
        drop(go(pool, at, |n| group.submit(task(n))));
        group.wait().unwrap();
    });
}

/// The queue is full.
fn refused() {
    with_pool(1, |pool| {
        let release = hold(pool, false);
        pool.spawn(|| ()).unwrap();
        for _ in 0..2 {
            begin();
            for n in 0..TASKS {
                // A closure of its own: what two paths share may not be inlined in either.
                let words = [n, 2, 3];
                assert!(pool.try_submit(move || work(words)).is_err());
            }
        }
        end("try_submit refused", TASKS);
        drop(release);
        pool.wait_idle().unwrap();
    });
}

fn slice() {
    let items: Vec<u64> = (0..TASKS).collect();
    with_pool(PLACES, |pool| {
        for counted in [false, true] {
            // One worker takes them in order.
            let run = |item: &u64| {
                match *item {
                    0 => begin(),
                    item if item == TASKS - 1 && counted => end("map_slice item", TASKS - 1),
                    _ => {}
                }
                work([*item, 2, 3])
            };
            let results = pool.map_slice(&items, run).unwrap();
            assert_eq!(results.len(), items.len());
        }
    });
}

/// Each item a task. All are pulled while the worker is held, and taken once it is done.
fn mapped() {
    /// By then the lists of those in flight have grown for the last time.
    const GROWN: u64 = 8_200;
    with_pool(PLACES, |pool| {
        for counted in [false, true] {
            let end = move |path, items| {
                if counted {
                    end(path, items);
                }
            };
            let (mut release, mut items) = (Some(hold(pool, false)), 0..TASKS);
            let pulled = std::iter::from_fn(|| {
                let item = items.next();
                match item {
                    Some(GROWN) => begin(),
                    Some(item) if item == TASKS - 1 => end("map pull", TASKS - 1 - GROWN),
                    Some(_) => {}
                    None => drop(release.take()),
                }
                item
            });
            let run = move |item| {
                match item {
                    0 => begin(),
                    item if item == TASKS - 1 => end("map run", TASKS - 1),
                    _ => {}
                }
                // Of a type of its own: what two paths share may not be inlined in either.
                work([item, 2, 3]) as u32
            };
            let mut results = pool.map(pulled, run).window(PLACES);
            results.next().unwrap().unwrap();
            pool.wait_idle().unwrap();
            begin();
            for result in results {
                SINK.set(SINK.get().wrapping_add(u64::from(result.unwrap())));
            }
            end("map next", TASKS - 1);
        }
    });
}

/// All of it on one thread. Without tokio's budget, by which the submissions would let the worker
/// go on in between.
fn futures() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(async {
        let (builder, _hand) = builder(PLACES);
        let pool = builder.build_async().unwrap();
        let mut handles = Vec::with_capacity(TASKS as usize);
        for counted in [false, true] {
            handles.clear();
            pool.spawn(async { begin() }).await.unwrap();
            begin();
            for n in 0..TASKS {
                let task = task(n);
                handles.push(pool.submit(async move { task() }).await.unwrap());
            }
            end_if(counted, "async submit");
            pool.spawn(async move { end_if(counted, "async run") }).await.unwrap();
            pool.wait_idle().await.unwrap();
        }
        begin();
        for handle in handles {
            SINK.set(SINK.get().wrapping_add(handle.await.unwrap()));
        }
        end("async wait", TASKS);
        let report = pool.shutdown(Shutdown::default()).await.unwrap();
        assert!(report.is_success(), "{report}");
    }));
}

// ---------------------------------------------------------------- the way there

/// What the two sides of a path are called.
#[derive(Clone, Copy)]
struct Paths {
    submit: &'static str,
    run: &'static str,
}

/// Submits to a worker that is held, then lets it run them.
fn go<T, F>(pool: &Pool, at: Paths, submit: impl Fn(u64) -> Result<T, Refused<F>>) -> Vec<T> {
    let mut kept = Vec::with_capacity(TASKS as usize);
    for counted in [false, true] {
        kept.clear();
        let release = hold(pool, true);
        begin();
        for n in 0..TASKS {
            match submit(n) {
                Ok(handle) => kept.push(handle),
                Err(refused) => panic!("{}: {refused}", at.submit),
            }
        }
        end_if(counted, at.submit);
        pool.spawn(move || end_if(counted, at.run)).unwrap();
        drop(release);
        pool.wait_idle().unwrap();
    }
    kept
}

/// For what has settled.
fn wait(path: &str, handles: Vec<Handle<u64>>) {
    begin();
    for handle in handles {
        SINK.set(SINK.get().wrapping_add(handle.wait().unwrap()));
    }
    end(path, TASKS);
}

/// A task that keeps the worker until the sender is dropped; then the count may begin.
fn hold(pool: &Pool, counts: bool) -> Sender<()> {
    let (entered, is_entered) = channel();
    let (release, released) = channel();
    let held = move || {
        entered.send(()).unwrap();
        released.recv().unwrap_err();
        if counts {
            begin();
        }
    };
    assert!(pool.spawn(held).is_ok());
    is_entered.recv().unwrap();
    release
}

fn end_if(counted: bool, path: &str) {
    if counted {
        end(path, TASKS);
    }
}

fn builder(queue: usize) -> (Builder<()>, ManualClock) {
    let (clock, hand) = Clock::manual();
    (Pool::builder("paths").workers(1).queue(queue).clock(clock), hand)
}

fn with_pool(queue: usize, f: impl FnOnce(&Pool)) {
    let (builder, _hand) = builder(queue);
    let pool = builder.build().unwrap();
    f(&pool);
    let report = pool.shutdown(Shutdown::default()).unwrap();
    assert!(report.is_success(), "{report}");
}

// ---------------------------------------------------------------- the task

std::thread_local! {
    static SINK: Cell<u64> = const { Cell::new(0) };
}

/// 24 captured bytes, and hardly any work: it is counted, too.
fn task(n: u64) -> impl FnOnce() -> u64 + Send + 'static {
    let words = [n, 2, 3];
    move || work(words)
}

fn quiet_task(n: u64) -> impl FnOnce() + Send + 'static {
    let task = task(n);
    move || SINK.set(SINK.get().wrapping_add(task()))
}

fn work([a, b, c]: [u64; 3]) -> u64 {
    black_box(a ^ black_box(b)).wrapping_mul(black_box(c))
}

//! The smallest `stack_size` that is allowed (C1) is enough for what is ours on a worker.

use std::process::Command;
use std::time::Duration;

use tidegate::{OutcomeKind, Pool, Settings, Shutdown};

/// The size with which this test's own file plays the worker: a stack that is too small ends the
/// process.
const SIZE: &str = "TIDEGATE_TEST_STACK";

fn smallest() -> usize {
    let mut settings = Settings::default();
    let error = settings.set("stack_size", "0").expect_err("no stack at all");
    let range = error.expected().expect("the value is what is wrong").to_owned();
    range
        .split(' ')
        .next()
        .and_then(|least| least.parse().ok())
        .expect("a range begins with its least")
}

/// What a worker does that is ours, the deepest of it: a panic whose backtrace is printed.
fn all_that_is_ours(bytes: usize) {
    tidegate::capture_backtraces();
    let pool = Pool::builder("small").workers(2).stack_size(bytes);
    let pool = pool.grace(Duration::from_secs(60)).on_worker_start(|_| ()).build().unwrap();
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    let panicked = pool.submit(|| panic!("on purpose")).unwrap();
    assert!(panicked.wait().unwrap_err().is_panicked());
    let failed = pool.submit_result(|| Err::<(), _>("an error")).unwrap();
    assert!(failed.wait().unwrap_err().is_failed());
    let told = pool.task("told").timeout(Duration::from_millis(1)).on_outcome(|outcome| {
        assert_eq!(outcome.kind, OutcomeKind::TimedOut);
    });
    let told = told
        .submit(|cx| {
            while !cx.stopping() {
                std::thread::yield_now()
            }
        })
        .unwrap();
    assert!(told.wait().unwrap_err().is_timed_out());
    // A task that waits for one of its own pool, which waits for one.
    let (first, second) = (pool.clone(), pool.clone());
    let nested = pool.submit(move || {
        first.submit(move || second.submit(|| 1).unwrap().wait().unwrap()).unwrap().wait().unwrap()
    });
    assert_eq!(nested.unwrap().wait().unwrap(), 1);
    let mut items = [1, 2, 3];
    pool.scope(|s| {
        items.iter_mut().for_each(|item| {
            s.spawn(move || *item += 1).unwrap();
        })
    });
    assert_eq!(items, [2, 3, 4]);
    assert!(pool.shutdown(Shutdown::default()).unwrap().complete);
}

#[test]
fn plays_a_worker_with_this_stack() {
    if let Ok(bytes) = std::env::var(SIZE) {
        all_that_is_ours(bytes.parse().unwrap());
    }
}

#[test]
fn c1_the_smallest_stack_is_enough_for_what_is_ours() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "small_stack::plays_a_worker_with_this_stack", "--nocapture"]);
    let output =
        child.env("RUST_BACKTRACE", "full").env(SIZE, smallest().to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("on purpose"), "the panic was told: {text}");
}

//! Tasks that submit and wait inside their own pool, without a deadlock.

use std::error::Error;

use tidegate::{Inside, Pool, Shutdown, WaitReason};

/// Fork and join by handles. While a task waits for a queued one it runs that one itself,
/// and never anything else.
fn sum(pool: &Pool, from: u64, to: u64) -> u64 {
    if to - from <= 1_000 {
        return (from..to).sum();
    }
    let middle = from + (to - from) / 2;
    let other = pool.clone();
    // `Inside::RunInline`: on a full queue the new task runs at once, on top of this one.
    let left = pool.submit(move || sum(&other, from, middle));
    let right = sum(pool, middle, to);
    let left = match left {
        Ok(handle) => handle.wait().expect("a sum neither fails nor waits for itself"),
        Err(refused) => refused.into_work()(), // closed meanwhile: do it here
    };
    left + right
}

fn main() -> Result<(), Box<dyn Error>> {
    // One worker and a tiny queue: the usual way to hang.
    let pool =
        Pool::builder("nested").workers(1).queue(2).when_full_inside(Inside::RunInline).build()?;
    let inner = pool.clone();
    let total = pool.submit(move || sum(&inner, 0, 1_000_000))?.wait()?;
    assert_eq!(total, 499_999_500_000);
    let seen = pool.snapshot();
    println!("sum {total}: {} tasks, {} of them run by a waiting task", seen.accepted, seen.nested);

    // What could never end is refused, and the handle comes back.
    let (give, get) = std::sync::mpsc::channel::<tidegate::Handle<bool>>();
    let own = pool.submit(move || {
        let me = get.recv().expect("sent below");
        let refused = me.wait().expect_err("waiting for oneself");
        matches!(refused.into_task(), Err((WaitReason::WouldDeadlock, _handle)))
    })?;
    give.send(own)?;
    pool.wait_idle()?;
    println!("a task that waits for itself is told so");

    // Nor may a task wait for the whole pool: it is part of it.
    let inner = pool.clone();
    let inside = pool.submit(move || inner.shutdown(Shutdown::default()).map(drop))?.wait()?;
    println!("shutdown inside: {}", inside.expect_err("refused"));
    println!("{}", pool.shutdown(Shutdown::default())?);
    Ok(())
}

//! The six answers to a full queue, one after the other.

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tidegate::{Pool, Shutdown, WhenFull};

/// One worker, held by a task that waits for `open`; one queued task: full.
fn full(policy: WhenFull) -> Result<(Pool, mpsc::Sender<()>), Box<dyn Error>> {
    let pool = Pool::builder("full").workers(1).queue(1).when_full(policy).build()?;
    let (open, opened) = mpsc::channel();
    let (entered, inside) = mpsc::channel();
    pool.spawn(move || {
        let _ = entered.send(());
        let _ = opened.recv(); // an error when `open` is dropped ends the wait too
    })?;
    inside.recv()?;
    pool.task("oldest")
        .on_outcome(|summary| println!("     the queued task: {}", summary.kind))
        .spawn(|_| ())?;
    Ok((pool, open))
}

fn end(pool: &Pool, open: mpsc::Sender<()>) -> Result<(), Box<dyn Error>> {
    drop(open);
    assert!(pool.shutdown(Shutdown::default())?.is_success());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("Wait: the submit sleeps until there is room");
    let (pool, open) = full(WhenFull::Wait)?;
    let other = pool.clone();
    let submitter = std::thread::spawn(move || other.submit(|| 1).map(|handle| handle.wait()));
    while pool.snapshot().waiting_submitters == 0 {
        std::thread::yield_now();
    }
    println!("     {} submitter waits", pool.snapshot().waiting_submitters);
    drop(open);
    println!("     {:?}", submitter.join().expect("it does not panic").map_err(|r| r.reason()));
    pool.shutdown(Shutdown::default())?;

    println!("WaitFor: at most that long, then TimedOut");
    let (pool, open) = full(WhenFull::WaitFor(Duration::from_millis(30)))?;
    let began = Instant::now();
    let refused = pool.spawn(|| ()).expect_err("nobody makes room");
    println!("     {:?} after {:.0?}", refused.reason(), began.elapsed());
    end(&pool, open)?;

    println!("Reject: refused at once, and the work comes back");
    let (pool, open) = full(WhenFull::Reject)?;
    let refused = pool.submit(|| "done by the caller instead").expect_err("full");
    println!("     {:?}; {}", refused.reason(), refused.into_work()());
    end(&pool, open)?;

    println!("DropNewest: accepted, and settled as evicted at once");
    let (pool, open) = full(WhenFull::DropNewest)?;
    println!("     {}", pool.submit(|| ())?.wait().expect_err("evicted"));
    end(&pool, open)?;

    println!("DropOldest: the longest in the queue goes, the new one gets its place");
    let (pool, open) = full(WhenFull::DropOldest)?;
    let newest = pool.submit(|| "the newest ran")?;
    drop(open);
    println!("     {}", newest.wait()?);
    pool.shutdown(Shutdown::default())?;

    println!("CallerRuns: the caller's own thread runs it, as a task of the pool");
    let (pool, open) = full(WhenFull::CallerRuns)?;
    let name = pool.submit(|| std::thread::current().name().unwrap_or("?").to_owned())?.wait()?;
    println!("     it ran on thread {name:?}");
    end(&pool, open)
}

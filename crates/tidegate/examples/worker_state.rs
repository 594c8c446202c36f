//! A connection per worker: made on its thread, lent to its tasks, made anew after a panic.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::{Pool, Shutdown, WorkerId};

static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Stands for a database connection: costly to open, not to be shared.
struct Connection {
    number: usize,
    worker: WorkerId,
    queries: usize,
}

impl Connection {
    fn open(worker: WorkerId) -> Result<Connection, std::io::Error> {
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Connection { number, worker, queries: 0 })
    }

    fn query(&mut self, n: u64) -> u64 {
        self.queries += 1;
        n * n
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    std::panic::set_hook(Box::new(|info| println!("(a task panics: {info})")));
    // A factory that fails ends the worker, which is started again after a pause; on the
    // first worker it fails the build.
    let pool = Pool::builder("db").workers(2).try_worker_state(Connection::open).build()?;

    let squares: Vec<_> = (0..1_000)
        .map(|n| pool.submit_with(move |connection, _cx| connection.query(n)))
        .collect::<Result<_, _>>()?;
    let sum = squares.into_iter().map(|handle| handle.wait()).sum::<Result<u64, _>>()?;
    println!("sum of squares {sum}, with {} connections", OPENED.load(Ordering::Relaxed));

    // After a panic nobody knows what state the connection is in: it is replaced.
    let broken = pool.task("broken").submit_with(|connection, _cx| {
        panic!("connection {} of worker {}", connection.number, connection.worker)
    })?;
    let error: Result<(), _> = broken.wait();
    println!("{}", error.expect_err("it panics"));
    pool.wait_idle()?;
    println!("{}", pool.shutdown(Shutdown::default())?);
    println!("connections opened in all: {}", OPENED.load(Ordering::Relaxed));
    Ok(())
}

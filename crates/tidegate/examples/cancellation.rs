//! Tokens reach what waits for room, what is queued and what runs.

use std::error::Error;
use std::sync::mpsc;

use tidegate::{Pool, Shutdown, Stop, Token};

#[derive(Debug)]
enum SearchError {
    Stopped(Stop),
}

/// With this, `cx.check()?` leaves a task whose errors are its own.
impl From<Stop> for SearchError {
    fn from(stop: Stop) -> SearchError {
        SearchError::Stopped(stop)
    }
}

impl std::fmt::Display for SearchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SearchError::Stopped(stop) => write!(f, "search given up: {stop}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("search").workers(1).queue(1).build()?;
    // A token per request: each ends with the server, or alone.
    let server = Token::new();
    let [first, second, third] = [server.child(), server.child(), server.child()];

    let (entered, inside) = mpsc::channel();
    let running = pool.task("running").cancel_with(&first).submit_result(move |cx| {
        let _ = entered.send(());
        for candidate in 0_u64.. {
            cx.check()?;
            std::hint::black_box(candidate);
        }
        Ok::<(), SearchError>(())
    })?;
    inside.recv()?;
    let queued = pool.task("queued").cancel_with(&second).submit(|_| ())?;
    let (other, token) = (pool.clone(), third.clone());
    let waiting = std::thread::spawn(move || {
        let offered = other.task("waiting").cancel_with(&token).submit(|_| ());
        offered.map(drop).map_err(|refused| refused.reason())
    });
    while pool.snapshot().waiting_submitters == 0 {
        std::thread::yield_now();
    }

    third.cancel();
    println!("waiting: {:?}", waiting.join().expect("it does not panic"));
    second.cancel();
    println!("queued:  {}", queued.wait().expect_err("it never starts"));
    server.cancel();
    println!("running: {}", running.wait().expect_err("it ends only when told"));

    // A token that is cancelled already is refused, also when there is room.
    let late = pool.task("late").cancel_with(&first).spawn(|_| ()).expect_err("cancelled");
    println!("late:    {late}");

    // One task alone: by its handle, or by the id that the roster or a log line showed.
    pool.pause();
    let one = pool.task("one").submit(|_| ())?;
    pool.cancel_task(one.id());
    println!("one:     {}", one.wait().expect_err("cancelled while the pool paused"));
    println!("{}", pool.shutdown(Shutdown::default())?);
    Ok(())
}

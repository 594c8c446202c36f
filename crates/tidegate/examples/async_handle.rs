//! Handles, streams and shutdown are futures, on any runtime: here on one of twenty lines.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::{Pool, Shutdown};

/// The smallest waker: a flag, and somebody who waits for it.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().expect("nothing panics under it") = true;
        self.heard.notify_one();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let rung = bell.rung.lock().expect("nothing panics under it");
        let mut rung = bell.heard.wait_while(rung, |rung| !*rung).expect("nothing panics");
        *rung = false;
    }
}

async fn serve(pool: &Pool) -> Result<(), Box<dyn Error>> {
    // `submit` may wait for room, which would block a runtime's thread: `try_submit` never does,
    // and `submit_async` awaits it.
    let hash = pool.try_submit(|| (0..1_000_000_u64).fold(7, |h, n| h * 31 % 1_000_003 + n))?;
    println!("hash {}", hash.await?);

    // Dropping a handle detaches; one that must not outlive its request cancels instead.
    let request = pool.try_submit(|| "in time")?.cancel_on_drop();
    println!("{}", request.await?);

    let mut squares = pool.stream(16);
    for n in 1..=10_u64 {
        squares.submit(move || n * n)?;
    }
    let mut sum = 0;
    while let Some(done) = poll_fn(|cx| squares.poll_next(cx)).await {
        sum += done.outcome?;
    }
    println!("sum of squares {sum}");

    let report = pool.shutdown_async(Shutdown::default()).await?;
    println!("{report}");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder("async").workers(2).build()?;
    block_on(serve(&pool))
}

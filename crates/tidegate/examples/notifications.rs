//! A notification service: ten workers and a queue of 1,000 unless the environment says
//! otherwise, what does not fit is dropped and counted, and the stop is ordered: requests
//! first, then the notifications they have caused.
//!
//! ```sh
//! cargo run --example notifications -p tidegate
//! TIDEGATE_NOTIFICATIONS_WORKERS=2 TIDEGATE_NOTIFICATIONS_QUEUE=50 \
//!     cargo run --example notifications -p tidegate
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Pool, WhenFull, shutdown_in_order};

const USERS: u64 = 4_000;

/// Stands for a push service that is sometimes down.
#[derive(Default)]
struct Push {
    delivered: AtomicU64,
}

impl Push {
    fn send(&self, user: u64) -> Result<(), String> {
        if user % 500 == 499 {
            return Err(format!("user {user} has no device"));
        }
        self.delivered.fetch_add(1, Relaxed);
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}"); // a bad setting says which, and what it should be
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let requests = Pool::builder("requests").workers(4).queue(100).build()?;
    let notifications = Pool::builder("notifications")
        .workers(10)
        .queue(1_000)
        .when_full(WhenFull::Reject)
        .task_timeout(Duration::from_secs(5))
        .on_unobserved(|failure| println!("  not delivered: {failure}"))
        .env()?;
    println!("{}", notifications.effective());
    let notifications = notifications.build()?;

    let (push, dropped) = (Arc::new(Push::default()), Arc::new(AtomicU64::new(0)));
    for user in 0..USERS {
        let (notifications, push) = (notifications.clone(), Arc::clone(&push));
        let dropped = Arc::clone(&dropped);
        // A request never waits for its notification, nor fails because of it.
        requests.spawn(move || {
            let notify = notifications.task("trip update").external_id(user);
            if notify.spawn_result(move |_| push.send(user)).is_err() {
                dropped.fetch_add(1, Relaxed);
            }
        })?;
    }

    // First those who cause notifications, then the notifications: nothing accepted is lost.
    let both = [&requests as &dyn tidegate::Drain, &notifications];
    for report in shutdown_in_order(&both, Duration::from_secs(10)) {
        let report = report?;
        assert!(report.is_success(), "{report}");
    }
    let now = notifications.snapshot();
    println!("{now}");
    let (delivered, dropped) = (push.delivered.load(Relaxed), dropped.load(Relaxed));
    println!("delivered {delivered}, failed {}, dropped {dropped} of {USERS}", now.failed);
    assert_eq!(delivered + now.failed + dropped, USERS, "each has exactly one end");
    assert_eq!(now.refused.full, dropped, "and the pool has counted the same");
    Ok(())
}

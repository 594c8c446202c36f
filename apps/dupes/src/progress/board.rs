//! How far a run is, for other processes: told once a second beside the lock that it holds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{Pool, Shutdown, Token};

use super::{AT_LAST, Eye, View};
use crate::find::Pools;
use crate::store::{Board, now};
use crate::tally::Tally;

const EVERY: Duration = Duration::from_secs(1);

/// It is told while this lives.
#[derive(Debug)]
#[must_use = "dropping it ends it"]
pub struct Published {
    over: Token,
    pool: Option<Pool>,
}

/// Tells it until the guard is dropped. If that can't be started, nothing is told: a run does not depend on it.
pub fn publish(board: Board, tally: &Arc<Tally>, pools: &Pools) -> Published {
    let over = Token::new();
    let mut eye = Eye::new(Arc::clone(tally), Arc::clone(pools));
    let until = over.clone();
    let tick = move || {
        loop {
            // A disk that is full now may not be so later.
            let _ = board.show(&written(&eye.look()));
            if until.wait_timeout(EVERY) {
                return;
            }
        }
    };
    let pool = Pool::builder("board").workers(1).queue(1).on_unobserved(|_| ()).build().ok();
    let pool = pool.filter(|pool| pool.spawn(tick).is_ok());
    Published { over, pool }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.over.cancel();
        if let Some(pool) = &self.pool {
            // Only a task of its own would be refused, and it has no guard.
            let _ = pool.shutdown(Shutdown::light().within(AT_LAST).grace(Duration::ZERO));
        }
    }
}

fn written(view: &View) -> String {
    json!({ "at": now(), "progress": view.json(false) }).to_string()
}

/// What another process has told, and when, in s since 1970; None if this is something else.
pub fn read(text: &str) -> Option<(View, i64)> {
    let object: Value = serde_json::from_str(text).ok()?;
    Some((View::from_json(&object["progress"])?, object["at"].as_i64()?))
}

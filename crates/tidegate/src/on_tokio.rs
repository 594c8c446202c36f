//! Pools of futures: the same core, driven by a tokio runtime.
//!
//! ```text
//!  work.rs    ways to write a future                      (job.rs)
//!  body.rs    a future as work, and one poll of it        (settle.rs)
//!  spare.rs   a place for the next small one
//!  nest.rs    those that have begun, on top of each other (waiting.rs)
//!  worker.rs  a worker that is a future                   (worker.rs, lot.rs)
//!  driver.rs  supervisor and reaper on the runtime,       (supervisor.rs, reaper.rs)
//!             and the thread that watches the runtime
//!  offer.rs   submissions of futures                      (awaited.rs, lobby.rs)
//!  pool.rs, task.rs, group.rs, map.rs, stream.rs: what users see
//! ```
//!
//! On the right: what decides, and is shared with pools on threads. What is here starts, polls,
//! wakes and drops.

mod body;
mod driver;
mod group;
mod map;
mod nest;
mod offer;
mod pool;
mod spare;
mod stream;
mod task;
mod time;
mod work;
mod worker;

pub(crate) use driver::Runtime;
pub(crate) use nest::{Nest, begin_queued};
pub(crate) use time::TokioTime;
pub(crate) use worker::wake_runner;

pub use group::{AsyncGroup, AsyncGroupBuilder};
pub use map::{AsyncMap, AsyncMapAsCompleted};
pub use pool::AsyncPool;
pub use stream::AsyncCompletions;
pub use task::AsyncTask;

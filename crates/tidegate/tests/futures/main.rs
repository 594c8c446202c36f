//! Pools of futures, on tokio: what is special about them; what they promise as any pool does is
//! in the conformance suite.
//!
//! One program, since each takes long to link. What needs a process of its own starts one, or is a
//! file of its own beside this folder.
#![cfg(feature = "tokio")]

mod cut;
mod kit;
#[path = "../support/sleeper.rs"]
mod sleeper;
mod world;

mod beside;
mod blocking;
mod callers;
mod drops;
mod drops_threads;
mod inside;
mod nest;
mod pool;
mod room;
mod sizes;
mod stops;
mod stuck;
mod together;
mod torn;
mod trees;
mod wakers;

// For these the sanitizer takes long, and they go no other ways through the memory.
#[cfg(not(tidegate_asan))]
mod idle;
#[cfg(not(tidegate_asan))]
mod tower;

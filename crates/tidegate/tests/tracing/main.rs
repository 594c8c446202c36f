//! V2: what `tracing` is told, when, by whom; and that a subscriber can't hurt the pool.
//!
//! The subscriber is our own, since it has to panic, block and call the pool at will. There is
//! one for the process, as in a real one; tests tell their records apart by the pool's name.
#![cfg(all(feature = "tracing", not(any(tidegate_loom, tidegate_shuttle))))]

mod collector;
#[path = "../support/gate.rs"]
mod gate;
#[cfg(feature = "tokio")]
#[allow(dead_code, reason = "it uses its part")]
#[path = "../futures/kit.rs"]
mod kit;

mod futures;
mod threads;

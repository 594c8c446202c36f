//! Finds files with the same content; `ARCHITECTURE.md` says how.

#![forbid(unsafe_code)]

pub mod digest;
pub mod listing;
pub mod metrics;
pub mod options;
pub mod progress;
pub mod stop;
pub mod tally;

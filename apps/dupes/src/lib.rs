//! Finds files with the same content; `ARCHITECTURE.md` says how.

#![forbid(unsafe_code)]

pub mod cli;
pub mod digest;
pub mod escape;
pub mod exit;
pub mod listing;
pub mod options;
pub mod output;
pub mod size;
pub mod tally;

//! The parts of `dupes`, for its binary and its tests.

#![forbid(unsafe_code)]

pub mod across;
pub mod act;
pub mod alike;
pub mod buffers;
pub mod class;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod contents;
pub mod count;
pub mod descriptors;
pub mod digest;
pub mod escape;
pub mod exit;
pub mod filter;
pub mod find;
pub mod folders;
pub mod hashing;
pub mod io;
pub mod journal;
pub mod listing;
mod locking;
pub mod memory;
pub mod metrics;
pub mod mounts;
pub mod options;
pub mod output;
pub mod own;
pub mod plan;
pub mod problems;
pub mod progress;
pub mod read;
pub mod readers;
pub mod remember;
pub mod replace;
pub mod report;
pub mod scan;
pub mod sets;
pub mod sharing;
pub mod size;
pub mod split;
pub mod stop;
pub mod store;
pub mod tally;
pub mod walk;

//! The promises of a bounded worker pool, as tests that any pool can be put to.
//!
//! A pool plugs in as a [`Kind`]: how it is opened, and which [`Need`]s it
//! meets. Every test is a plain `fn(&Ctx)`; what a kind does not offer is
//! printed as skipped, with the reason. [`all_tests`] lists them with the
//! clause of the contract that each one proves.
//!
//! ```no_run
//! use tidegate_conformance::{kinds, runner};
//!
//! let tally = runner::run_all(&kinds::all(), &runner::Options::default());
//! assert_eq!(tally.failed, 0);
//! ```
#![forbid(unsafe_code)]

mod ctx;
pub mod kinds;
pub mod kit;
mod port;
pub mod runner;
mod suite;
mod tests;
mod watchdog;

pub use crate::ctx::{Ctx, Wish};
pub use crate::port::{
    Counts, Ending, How, Kind, Need, Refusal, StopSignal, SuiteGroup, SuiteHandle, SuitePool, Work,
};
pub use crate::suite::{TestInfo, all_tests};

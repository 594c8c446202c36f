//! The tests, a file per theme. `suite.rs` lists them all.
// They are named after the clause they prove: `R5_drop_oldest`.
#![allow(non_snake_case)]

pub(crate) mod accounting;
pub(crate) mod bound;
pub(crate) mod budgets;
pub(crate) mod delivery;
pub(crate) mod diagnosis;
pub(crate) mod enumerated;
pub(crate) mod group_ends;
pub(crate) mod groups;
pub(crate) mod hazards_handles;
pub(crate) mod hazards_memory;
pub(crate) mod hazards_panics;
pub(crate) mod hazards_races;
pub(crate) mod helping;
pub(crate) mod inside;
pub(crate) mod isolation;
pub(crate) mod leaving;
pub(crate) mod limits;
pub(crate) mod long_tasks;
pub(crate) mod many;
pub(crate) mod maps;
pub(crate) mod offering;
pub(crate) mod outcomes;
pub(crate) mod resizing;
pub(crate) mod scopes;
pub(crate) mod seeds_contracts;
pub(crate) mod seeds_invariants;
pub(crate) mod seeds_spec;
pub(crate) mod shutdown;
pub(crate) mod shutdown_calls;
pub(crate) mod sizing;
pub(crate) mod slices;
pub(crate) mod steering;
pub(crate) mod times;
pub(crate) mod verdicts;
pub(crate) mod waiting;
pub(crate) mod when_full;
pub(crate) mod workers;
pub(crate) mod workers_lost;

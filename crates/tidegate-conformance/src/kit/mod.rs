//! Tools of the tests: a test waits for a fact, never for time.

mod facts;
mod gate;
mod native;
mod portable;
mod quiet;
mod threads;
mod tracked;

pub use facts::{
    Background, HANG, block_on, dawdle, eventually, give_a_bug_its_chance, in_background,
};
pub use gate::{Gate, Passage};
pub use native::{
    Ran, idle, no_outcome, occupy, occupy_obediently, refusal, refused, sum_of_outcomes,
    task_error, value,
};
pub use portable::{job, occupy_port, taken, until_stopped, why_refused};
pub use quiet::{DELIBERATE, Deliberate, deliberate_panic, install_quiet_hook};
pub use threads::{
    assert_keeps_nothing, child_program, set_child_program, threads_named, workers_of,
};
pub use tracked::{Peak, Tracked};

pub(crate) use quiet::take_last_panic;

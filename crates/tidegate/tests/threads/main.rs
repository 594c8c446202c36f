//! Pools of threads, from threads and from async code; settings, and what a pool shows of itself.
//!
//! One program, since each takes long to link. What needs a process of its own starts one, or is a
//! file of its own beside this folder.

#[path = "../support/block_on.rs"]
mod block_on;
#[path = "../support/gate.rs"]
mod gate;
#[path = "../support/sleeper.rs"]
mod sleeper;

mod fork_join;
mod smoke;
mod submit_async;
mod testing;
mod threads_awaited;

// For these the sanitizer takes long, and they go no other ways through the memory.
#[cfg(all(feature = "prometheus", not(tidegate_asan)))]
#[path = "../support/exposition.rs"]
mod exposition;
#[cfg(not(tidegate_asan))]
mod prometheus;
#[cfg(not(tidegate_asan))]
mod settings;
#[cfg(not(tidegate_asan))]
mod small_stack;
#[cfg(not(tidegate_asan))]
mod top;

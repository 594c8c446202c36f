//! Random inputs against naive models. `TIDEGATE_CASES` sets how many.

mod model;
#[path = "../support/sleeper.rs"]
mod sleeper;

mod budget;
mod futures;
mod threads;
mod together;

fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(500)
}

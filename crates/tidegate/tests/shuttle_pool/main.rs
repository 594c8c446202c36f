//! The whole pool under shuttle: every step of every thread is a scheduling decision, so a
//! lost wake-up or a deadlock shows as "deadlock" and a lost task as a failed assertion.
//!
//! Run by `scripts/shuttle`. There is no time: clocks are manual and stand still, so
//! whatever counts on a nap or a timeout hangs, and is found.
#![cfg(tidegate_shuttle)]

mod frame;
mod pool;
mod together;

//! With Linux's `membarrier`.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::spawn::{self, Spawner};
use crate::sync::atomic::AtomicU8;
use crate::sync::atomic::Ordering::SeqCst;

// The kernel's numbers (linux/membarrier.h).
const PRIVATE_EXPEDITED: i32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// Of this process.
static STATE: AtomicU8 = AtomicU8::new(UNASKED);
const UNASKED: u8 = 0;
const UNDER_WAY: u8 = 1;
const REGISTERED: u8 = 2;
/// The kernel has none, or a sandbox forbids it.
const REFUSED: u8 = 3;

pub(super) fn register_if_alone() {
    // Two links, and one for each thread.
    let is_alone = || std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3);
    if STATE.load(SeqCst) == UNASKED && is_alone() {
        register();
    }
}

pub(super) fn is_registered(spawner: Option<&Arc<Spawner>>) -> bool {
    match STATE.load(SeqCst) {
        UNASKED => {
            register_in_background(spawner);
            false
        }
        state => state == REGISTERED,
    }
}

#[cold]
fn register_in_background(spawner: Option<&Arc<Spawner>>) {
    if STATE.compare_exchange(UNASKED, UNDER_WAY, SeqCst, SeqCst).is_ok() {
        let thread = spawn::spawn("tidegate-fences".into(), None, spawner, register);
        if thread.is_err() {
            STATE.store(UNASKED, SeqCst); // another time
        }
    }
}

fn register() {
    let registered = membarrier(REGISTER_PRIVATE_EXPEDITED);
    STATE.store(if registered { REGISTERED } else { REFUSED }, SeqCst);
}

/// A full fence in every thread of the process; of this one, too.
pub(super) fn everywhere() -> bool {
    // Registered it was; somebody may have put up a sandbox since.
    membarrier(PRIVATE_EXPEDITED) || {
        register();
        membarrier(PRIVATE_EXPEDITED)
    }
}

#[cfg(test)]
pub(super) fn is_to_come() -> bool {
    STATE.load(SeqCst) < REGISTERED
}

fn membarrier(command: i32) -> bool {
    // SAFETY: takes numbers only, and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

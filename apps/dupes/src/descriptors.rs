//! How many files may be open at a time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::compare;

/// For everything but files that are looked at: standard streams, signals, metrics and their clients.
const RESERVED: u64 = 40;
/// Of a walking worker: its folder, the one above while a long path is gone down, its statistics.
const OF_WALKER: u64 = 3;
/// Of a reading worker on each of a few devices: its file and its statistics.
const OF_READERS: u64 = 2 * 4;

/// Raises the limit as far as this process may. How many workers that walk, and that read on a
/// device, it leaves descriptors for beside so many that compare.
pub fn raise(comparing: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // What can't be raised has to do.
    let allowed =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    workers(allowed, comparing)
}

fn workers(allowed: Option<u64>, comparing: usize) -> usize {
    let Some(allowed) = allowed else { return usize::MAX };
    let compared = comparing as u64 * (compare::MOST as u64 + 1);
    let left = allowed.saturating_sub(RESERVED + compared);
    usize::try_from(left / (OF_WALKER + OF_READERS)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_workers_as_descriptors_allow() {
        assert_eq!(workers(None, 2), usize::MAX);
        assert!(workers(Some(1_024), 2) >= crate::io::MOST);
        assert_eq!(workers(Some(256), 2), 18);
        assert_eq!([workers(Some(64), 2), workers(Some(3), 2), workers(Some(0), 64)], [1, 1, 1]);
    }
}

//! How many files may be open at a time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{compare, readers};

/// For everything but files that are looked at: standard streams, signals, metrics and their clients.
const RESERVED: u64 = 40;
/// Of a walking worker: its folder, the one above while a long path is gone down, its statistics.
const OF_WALKER: u64 = 3;
/// Of a reading worker on each device: its file, the folder of that, and its statistics.
const OF_READERS: u64 = 3 * readers::MOST as u64;
/// Of one that compares.
const OF_COMPARING: u64 = compare::MOST as u64 + 1;

/// How many workers there are descriptors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// That compare.
    pub comparing: usize,
    /// That walk, and that read on a device.
    pub reading: usize,
}

/// Raises the limit as far as this process may. `comparing`: so many would be best.
pub fn raise(comparing: usize) -> Room {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // What can't be raised has to do.
    let allowed =
        if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    room(allowed, comparing)
}

fn room(allowed: Option<u64>, comparing: usize) -> Room {
    let Some(allowed) = allowed else { return Room { comparing, reading: usize::MAX } };
    let left = allowed.saturating_sub(RESERVED);
    // Half of what is left at the most.
    let comparing = (comparing as u64).min(left / 2 / OF_COMPARING).max(1);
    let reading = left.saturating_sub(comparing * OF_COMPARING) / (OF_WALKER + OF_READERS);
    let fit = |workers: u64| usize::try_from(workers).unwrap_or(usize::MAX).max(1);
    Room { comparing: fit(comparing), reading: fit(reading) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_workers_as_descriptors_allow() {
        let of = |allowed, comparing| {
            let Room { comparing, reading } = room(allowed, comparing);
            (comparing, reading)
        };
        assert_eq!(of(None, 2), (2, usize::MAX));
        assert_eq!(of(Some(1_024), 2), (2, 35));
        assert_eq!(of(Some(1_024), 64), (54, 18));
        assert_eq!(of(Some(256), 2), (2, 7));
        assert_eq!([of(Some(64), 2), of(Some(3), 2), of(Some(0), 64)], [(1, 1); 3]);
    }
}

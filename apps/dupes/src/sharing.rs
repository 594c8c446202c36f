//! What files share on disk: where one of them goes, that stays.

use std::collections::HashMap;

use extents::unshared_bytes;
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstatfs};

use crate::folders::open_path;
use crate::walk::terminated;

/// File systems on which files can have the same blocks. Elsewhere nobody is asked.
const SHARING: [(u32, &str); 4] = [
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x7461_636f, "ocfs2"),
];

/// Which devices of a run are such, as far as that is known.
#[derive(Debug, Default)]
pub struct Sharing {
    devices: HashMap<u16, bool>,
}

impl Sharing {
    /// How many of the bytes that a file has on disk are its alone.
    pub fn own(&mut self, path: &[u8], device: u16, allocated: u64) -> u64 {
        if allocated == 0 || self.devices.get(&device) == Some(&false) {
            return allocated;
        }
        // Who can't be asked any more is taken at its word.
        let Ok(file) = open(path) else { return allocated };
        let shares = self.devices.entry(device).or_insert_with(|| can_share(&file));
        match shares.then(|| unshared_bytes(&file)) {
            Some(Ok(own)) => own.min(allocated),
            _ => allocated,
        }
    }
}

fn open(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    open_path(&terminated(path), flags)
}

fn can_share(file: &OwnedFd) -> bool {
    // The type has another width on each platform; the numbers have 32 bits.
    fstatfs(file)
        .is_ok_and(|found| SHARING.iter().any(|(number, _)| *number == found.f_type as u32))
}

//! Kinds of file systems: those that hold no files of anybody, and those whose inodes say little.

use rustix::fd::AsFd;
use rustix::fs::{OFlags, fstatfs};

use crate::folders::open_path;
use crate::walk::terminated;

/// What the kernel shows of itself. Numbers as its headers and `statfs(2)` have them.
const PSEUDO: [(u32, &str); 22] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xcafe_4a11, "bpf"),
    (0x6165_676c, "pstore"),
    (0x6265_6570, "configfs"),
    (0x1980_0202, "mqueue"),
    (0x9584_58f6, "hugetlbfs"),
    (0x0187, "autofs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0xde5e_81e4, "efivarfs"),
    (0x6573_5543, "fusectl"),
    (0x6e73_6673, "nsfs"),
    (0x1cd1, "devpts"),
    (0x6c6f_6f70, "binderfs"),
    (0x7365_7061, "apparmorfs"),
    (0x6759_6969, "rpc_pipefs"),
];

/// Whether an open folder lies on one of them.
pub fn is_pseudo(folder: impl AsFd) -> rustix::io::Result<bool> {
    // The type has another width on each platform; the numbers have 32 bits.
    let number = fstatfs(folder)?.f_type as u32;
    Ok(PSEUDO.iter().any(|(pseudo, _)| *pseudo == number))
}

/// Those that give an inode to another file while nobody looks, or show one file under several: over a
/// network, made by a program, put together from others, or without inodes of their own.
const FLEETING: [(u32, &str); 15] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x794c_7630, "overlayfs"),
    (0x6175_6673, "aufs"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x7375_7245, "coda"),
    (0x786f_4256, "vboxsf"),
    (0xf15f, "ecryptfs"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
];

/// Whether inodes say which file is which, from one scan to the next. Who can't be asked does not.
pub fn keeps_inodes(folder: &[u8]) -> bool {
    let opened = open_path(&terminated(folder), OFlags::PATH);
    let number = opened.and_then(fstatfs).map(|found| found.f_type as u32);
    number.is_ok_and(|number| FLEETING.iter().all(|(fleeting, _)| *fleeting != number))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn proc_and_sys_are_pseudo_and_a_temporary_folder_is_not() {
        assert!(is_pseudo(File::open("/proc").unwrap()).unwrap());
        assert!(is_pseudo(File::open("/sys").unwrap()).unwrap());
        assert!(!is_pseudo(File::open(std::env::temp_dir()).unwrap()).unwrap());
    }
}

//! File systems that hold no files of anybody: what the kernel shows of itself.

use rustix::fd::AsFd;
use rustix::fs::fstatfs;

/// Their numbers, as the kernel's headers and `statfs(2)` have them.
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

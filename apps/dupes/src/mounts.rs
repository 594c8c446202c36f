//! Kinds of file systems: those that hold no files of anybody, and those whose inodes say little.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, fstatfs, statx};

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
    Ok(Kind::of(folder)?.is_one_of(&PSEUDO))
}

/// Those that show what lies elsewhere, and may show one file under several inodes: over a network, made by a program,
/// put together from others.
const BORROWED: [(u32, &str); 13] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x6573_5546, "fuse"),
    (OVERLAY, "overlayfs"),
    (AUFS, "aufs"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x7375_7245, "coda"),
    (0x786f_4256, "vboxsf"),
    (0xf15f, "ecryptfs"),
];

/// Those without inodes of their own: they give one to another file while nobody looks.
const NUMBERLESS: [(u32, &str); 2] = [(0x4d44, "vfat"), (0x2011_bab0, "exfat")];

const OVERLAY: u32 = 0x794c_7630;
const AUFS: u32 = 0x6175_6673;

/// Those that are gone with the power.
const IN_MEMORY: [(u32, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// What kind of file system something lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(u32);

impl Kind {
    /// Of a file or folder that is open.
    pub fn of(file: impl AsFd) -> rustix::io::Result<Kind> {
        // The type has another width on each platform; the numbers have 32 bits.
        Ok(Kind(fstatfs(file)?.f_type as u32))
    }

    fn is_one_of(self, kinds: &[(u32, &str)]) -> bool {
        kinds.iter().any(|(number, _)| *number == self.0)
    }

    /// Whether one file may be shown under two inodes, here or here and elsewhere.
    pub fn is_borrowed(self) -> bool {
        self.is_one_of(&BORROWED)
    }

    /// Whether it holds on to files of other folders, wherever they are renamed to meanwhile.
    pub fn is_layered(self) -> bool {
        [OVERLAY, AUFS].contains(&self.0)
    }

    /// Whether nothing of it is left when the power is.
    pub fn is_in_memory(self) -> bool {
        self.is_one_of(&IN_MEMORY)
    }
}

/// The topmost folder of one without inodes has no entry that says when it was made: that is when it was mounted, or
/// nothing.
pub fn makes_its_root_anew(folder: impl AsFd) -> bool {
    Kind::of(folder).is_ok_and(|kind| kind.is_one_of(&NUMBERLESS))
}

/// Whether inodes say which file is which, from one scan to the next. Who can't be asked does not.
pub fn keeps_inodes(folder: &[u8]) -> bool {
    let kind = open_path(&terminated(folder), OFlags::PATH).and_then(Kind::of);
    kind.is_ok_and(|kind| !kind.is_borrowed() && !kind.is_one_of(&NUMBERLESS))
}

/// Where its file system has a folder: a bind mount shows another path of the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the file system.
    device: String,
    path: PathBuf,
}

impl Place {
    /// None if the kernel does not say.
    pub fn of(path: &Path) -> Option<Place> {
        Place::among(&Place::mounts(), path)
    }

    /// All mounts, as the kernel lists them; nothing where it does not.
    pub fn mounts() -> Vec<u8> {
        std::fs::read("/proc/self/mountinfo").unwrap_or_default()
    }

    /// The same for many paths.
    pub fn among(mounts: &[u8], path: &Path) -> Option<Place> {
        let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::MNT_ID).ok()?;
        if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return None;
        }
        let mut lines = mounts.split(|byte| *byte == b'\n');
        lines.find_map(|line| Place::by(line, found.stx_mnt_id, path))
    }

    /// Of a path on a mount, by the line of that: number, parent, device, root, where it is, and more.
    fn by(line: &[u8], mount: u64, path: &Path) -> Option<Place> {
        let mut words = line.split(|byte| *byte == b' ');
        let number = std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok()?;
        if number != mount {
            return None;
        }
        let device = String::from_utf8_lossy(words.nth(1)?).into_owned();
        let (root, at) = (unescaped(words.next()?), unescaped(words.next()?));
        let below = path.strip_prefix(OsStr::from_bytes(&at)).ok()?;
        Some(Place { device, path: Path::new(OsStr::from_bytes(&root)).join(below) })
    }

    /// Whether it is that place, or lies below it.
    pub fn is_in(&self, other: &Place) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

/// What the kernel writes `\040` for a space.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[3..]),
            None => (bytes.push(*first), rest = after),
        };
    }
    bytes
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

    #[test]
    fn a_place_is_told_by_the_line_of_its_mount() {
        let line = br"36 35 98:0 /mnt\0401 /a\040b\134 rw,noatime master:1 - ext3 /dev/root rw";
        let place = Place::by(line, 36, Path::new("/a b\\/c")).unwrap();
        let above = Place { device: "98:0".into(), path: "/mnt 1".into() };
        assert_eq!(place, Place { path: "/mnt 1/c".into(), ..above.clone() });
        assert!(place.is_in(&above) && place.is_in(&place) && !above.is_in(&place));
        assert!(!place.is_in(&Place { device: "98:1".into(), ..above }));
        assert_eq!(Place::by(line, 35, Path::new("/a b\\/c")), None);
        assert_eq!(Place::by(b"36 35", 36, Path::new("/")), None);
    }

    #[test]
    fn what_is_looked_for_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let whole = std::fs::canonicalize(dir.path()).unwrap();
        let (place, above) = (Place::of(&whole), Place::of(whole.parent().unwrap()));
        let (Some(place), Some(above)) = (place, above) else { return }; // an old kernel
        assert!(place.is_in(&above) && !above.is_in(&place), "{place:?} {above:?}");
    }
}

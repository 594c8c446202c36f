//! By what a folder is known again: a root, or one on which something is mounted.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rusqlite::Row;
use rustix::fs::{AtFlags, OFlags, StatxFlags, fstat, fstatvfs, statx};

use crate::folders::open_path;
use crate::mounts;
use crate::walk::terminated;

/// A folder, as it was when it was looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// It may get another number, and another file system its number.
    pub device: u64,
    /// The topmost folders of two disks have the same.
    pub inode: u64,
    /// Of the file system, where it has one that goes with it from place to place.
    pub file_system: Option<u64>,
    /// When it was made, in ns since 1970, where that is known.
    pub born: Option<i64>,
}

impl Identity {
    /// Of what is at the path now, through links.
    pub fn of(path: &[u8]) -> io::Result<Identity> {
        let opened = open_path(&terminated(path), OFlags::PATH | OFlags::DIRECTORY)?;
        let stat = fstat(&opened)?;
        let about = statx(&opened, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
        let is_known = about.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = about.stx_btime.tv_sec.saturating_mul(1_000_000_000);
        let born = born.saturating_add(about.stx_btime.tv_nsec.into());
        // Where it is the number of the device it says no more than that.
        let number = fstatvfs(&opened)?.f_fsid;
        Ok(Identity {
            device: stat.st_dev,
            inode: stat.st_ino,
            file_system: (number != 0 && number != stat.st_dev).then_some(number),
            born: (is_known && born != 0 && !mounts::makes_its_root_anew(&opened)).then_some(born),
        })
    }

    /// Four columns from there on; None: it was not looked into yet.
    pub(super) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Identity>> {
        let number =
            |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(i64::cast_unsigned));
        let (device, inode) = (number(at)?, number(at + 1)?);
        let (file_system, born) = (number(at + 2)?, row.get(at + 3)?);
        let with = |(device, inode)| Identity { device, inode, file_system, born };
        Ok(device.zip(inode).map(with))
    }

    /// As `read` finds them.
    pub(super) fn columns(&self) -> [Option<i64>; 4] {
        let signed = |number: u64| Some(number.cast_signed());
        let file_system = self.file_system.and_then(signed);
        [signed(self.device), signed(self.inode), file_system, self.born]
    }
}

/// What is found at a path, beside what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// That folder, or there was none before.
    Same,
    /// Another folder in its place, or the same one: that can't be told. It may be where something was mounted.
    Replaced,
    /// Another file system.
    Another,
}

impl Ground {
    /// By all that is known of both.
    pub fn of(known: Option<Identity>, now: Identity) -> Ground {
        let Some(known) = known else { return Ground::Same };
        let differ =
            |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one != other);
        let other_file_system = differ(known.file_system, now.file_system);
        let other_birth =
            differ(known.born.map(i64::cast_unsigned), now.born.map(i64::cast_unsigned));
        let same_device = known.device == now.device;
        match (other_file_system, known.inode == now.inode, other_birth) {
            (Some(true), ..) => Ground::Another,
            (Some(false), true, Some(false) | None) => Ground::Same,
            (Some(false), ..) => Ground::Replaced,
            (None, true, Some(false)) => Ground::Same,
            // The topmost folder of another one, where numbers of devices are given anew.
            (None, true, Some(true)) => Ground::Another,
            // Two disks, one after the other, may have the same number.
            (None, true, None) => Ground::Replaced,
            _ if same_device => Ground::Replaced,
            _ => Ground::Another,
        }
    }

    /// Whether it is not what it was, but only the place. `names`: those that were in it.
    pub fn is_only_the_place(self, path: &[u8], names: &mut dyn Iterator<Item = Vec<u8>>) -> bool {
        let folder = OsStr::from_bytes(path);
        let is_there = |name: Vec<u8>| {
            let mut path = path.to_vec();
            crate::folders::join(&mut path, &name);
            std::fs::symlink_metadata(OsStr::from_bytes(&path)).is_ok()
        };
        match self {
            Ground::Same => false,
            Ground::Another => true,
            Ground::Replaced => {
                let mut names = names.filter(|name| !is_on_every_disk(name)).peekable();
                match names.peek() {
                    Some(_) => !names.any(is_there),
                    None => std::fs::read_dir(folder).is_ok_and(|all| {
                        let mut all = all.flatten().map(|entry| entry.file_name());
                        all.all(|name| is_on_every_disk(name.as_bytes()))
                    }),
                }
            }
        }
    }
}

/// What file systems and desktops make in the topmost folder says nothing about which one it is.
fn is_on_every_disk(name: &[u8]) -> bool {
    name.starts_with(b".Trash")
        || matches!(name, b"lost+found" | b"System Volume Information" | b"$RECYCLE.BIN")
        || matches!(name, b".Spotlight-V100" | b".fseventsd")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Identity =
        Identity { device: 8, inode: 2, file_system: Some(77), born: Some(1_000) };

    fn now(change: impl FnOnce(&mut Identity)) -> Ground {
        let mut now = KNOWN;
        change(&mut now);
        Ground::of(Some(KNOWN), now)
    }

    #[test]
    fn what_is_on_another_file_system_is_another_folder_whatever_its_numbers() {
        assert_eq!(Ground::of(None, KNOWN), Ground::Same);
        assert_eq!(now(|_| ()), Ground::Same);
        assert_eq!(now(|now| now.device = 9), Ground::Same, "its device has another number");
        assert_eq!(now(|now| now.file_system = Some(78)), Ground::Another);
        assert_eq!(now(|now| now.inode = 3), Ground::Replaced);
        assert_eq!(now(|now| now.born = Some(2_000)), Ground::Replaced, "the inode of before");
    }

    #[test]
    fn where_file_systems_have_no_number_it_goes_by_the_others() {
        let known = Identity { file_system: None, ..KNOWN };
        let ground = |now| Ground::of(Some(known), Identity { file_system: None, ..now });
        assert_eq!(ground(KNOWN), Ground::Same);
        assert_eq!(ground(Identity { device: 9, ..KNOWN }), Ground::Same, "made in that moment");
        assert_eq!(ground(Identity { inode: 3, ..KNOWN }), Ground::Replaced);
        assert_eq!(ground(Identity { born: Some(2_000), ..KNOWN }), Ground::Another);
        assert_eq!(ground(Identity { device: 9, inode: 3, ..KNOWN }), Ground::Another);
        // Nor when a folder was made.
        let known = Identity { born: None, ..known };
        let ground =
            |now| Ground::of(Some(known), Identity { born: None, file_system: None, ..now });
        assert_eq!(ground(KNOWN), Ground::Replaced, "it may be another one: its names decide");
        assert_eq!(ground(Identity { device: 9, ..KNOWN }), Ground::Replaced);
        assert_eq!(ground(Identity { inode: 3, ..KNOWN }), Ground::Replaced);
        assert_eq!(ground(Identity { device: 9, inode: 3, ..KNOWN }), Ground::Another);
    }

    #[test]
    fn a_folder_in_its_place_is_the_same_if_it_has_something_of_what_was_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().as_os_str().as_bytes();
        let is_away = |names: &[&str]| {
            let mut names = names.iter().map(|name| name.as_bytes().to_vec());
            Ground::Replaced.is_only_the_place(path, &mut names)
        };
        assert!(is_away(&["a"]) && is_away(&[]));
        std::fs::create_dir(dir.path().join("lost+found")).unwrap();
        assert!(is_away(&["a", "lost+found"]) && is_away(&["lost+found"]));
        std::fs::write(dir.path().join(".keep"), "").unwrap();
        assert!(is_away(&["a"]) && !is_away(&[]));
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert!(!is_away(&["b", "a"]));
    }
}

//! All that stays in memory of a tree: folders by number, and the files in each.
//!
//! A file is two numbers. Its path is put together when somebody needs it: a million of them
//! would take more room than all the rest.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, Stat, open, openat};
use rustix::io::{Errno, retry_on_intr};

use crate::store::rows::FileRow;

/// One file: the number of its folder and that of its entry there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Of the folder.
    pub folder: u32,
    /// Of the entry in it.
    pub entry: u32,
}

/// In the number of links: the name is a symbolic one. More names than the rest can say are as many.
const IS_LINK: u16 = 1 << 15;
const MANY: u16 = IS_LINK - 1;

/// What the walk has seen of a file. It must look the same after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Bytes.
    pub size: u64,
    /// The inode.
    pub inode: u64,
    /// When its content changed last, in ns.
    pub mtime: i64,
    /// When anything about it changed last, in ns.
    pub ctime: i64,
    /// Blocks of 512 bytes on disk.
    pub blocks: u64,
    /// Where its name ends in the block of names.
    name_end: u32,
    /// How many names it has, and whether this one is a symbolic link to it.
    links: u16,
    /// Of the device, among those of the run.
    pub device: u16,
}

impl Seen {
    fn new(stat: &Stat, device: u16, is_link: bool) -> Seen {
        let links = u16::try_from(stat.st_nlink).unwrap_or(u16::MAX).min(MANY);
        Seen {
            size: size(stat),
            inode: stat.st_ino,
            mtime: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctime: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            name_end: 0,
            links: if is_link { links | IS_LINK } else { links },
            device,
        }
    }

    /// How many names it has, here or elsewhere; `MANY` also stands for more.
    pub fn links(&self) -> u16 {
        self.links & MANY
    }

    /// More than were counted.
    pub fn has_many_links(&self) -> bool {
        self.links() == MANY
    }

    /// Whether the name is a symbolic link that leads to it.
    pub fn is_link(&self) -> bool {
        self.links & IS_LINK != 0
    }

    /// As it was recorded.
    pub fn recorded(row: &FileRow, device: u16) -> Seen {
        Seen {
            size: row.size,
            inode: row.inode,
            mtime: row.mtime,
            ctime: row.ctime,
            blocks: row.blocks,
            name_end: 0,
            links: row.links.min(MANY),
            device,
        }
    }

    /// Whether a file still looks so.
    pub fn is_still(&self, now: &Stat, device: u64) -> bool {
        let then = (self.size, self.inode, self.mtime, self.ctime, device);
        let mtime = nanoseconds(now.st_mtime, now.st_mtime_nsec);
        let ctime = nanoseconds(now.st_ctime, now.st_ctime_nsec);
        then == (size(now), now.st_ino, mtime, ctime, now.st_dev)
    }
}

/// Bytes of a file.
pub fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn nanoseconds(seconds: i64, rest: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest.try_into().unwrap_or(0))
}

/// The files of a folder, once it was looked into.
#[derive(Debug, Default)]
struct Files {
    names: Box<[u8]>,
    seen: Box<[Seen]>,
}

/// A folder of the tree.
#[derive(Debug)]
pub struct Folder {
    /// In the table.
    pub number: u32,
    /// The same, or that of the folder that this is a part of.
    pub whole: u32,
    /// Which of the roots it is below.
    pub root: u32,
    /// How far: 0 is the root itself.
    pub depth: u32,
    /// None: a root, whose name is the path that was given.
    parent: Option<Arc<Folder>>,
    name: Box<[u8]>,
    /// The device that it was found on: 0 for a root.
    pub found_on: u64,
    /// It stands for a file that was given, not for a folder.
    pub is_given_file: bool,
    /// Names in it may be symbolic links: what they lead to is meant.
    pub has_links: bool,
    files: OnceLock<Files>,
}

impl Folder {
    /// Its path, which begins with that of the root.
    pub fn path(&self) -> Vec<u8> {
        let names: Vec<&[u8]> = self.and_above().map(Folder::name).collect();
        let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        let (root, below) = names.split_last().expect("it is one of them");
        path.extend_from_slice(root);
        below.iter().rev().for_each(|name| join(&mut path, name));
        path
    }

    /// From its root on: empty for the root.
    pub fn path_below_root(&self) -> Vec<u8> {
        let below = self.and_above().filter(|folder| folder.parent.is_some());
        let names: Vec<&[u8]> = below.map(Folder::name).collect();
        let mut path = Vec::new();
        names.iter().rev().for_each(|name| join(&mut path, name));
        path
    }

    /// Itself, then what it lies in, up to its root. No recursion: trees may be very deep.
    fn and_above(&self) -> impl Iterator<Item = &Folder> {
        std::iter::successors(Some(self), |folder| folder.parent.as_deref())
    }

    /// Its own name; of a root, the path that was given.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The folder that it lies in, by the number of the whole; None for a root.
    pub fn parent(&self) -> Option<u32> {
        self.parent.as_ref().map(|parent| parent.whole)
    }

    /// How many files it has, as far as they count.
    pub fn len(&self) -> u32 {
        self.files.get().map_or(0, |files| files.seen.len() as u32)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn files(&self) -> &Files {
        self.files.get().expect("only files of folders that were looked into have numbers")
    }

    /// What was seen of a file in it.
    pub fn seen(&self, entry: u32) -> &Seen {
        &self.files().seen[entry as usize]
    }

    /// The name of a file in it.
    pub fn file_name(&self, entry: u32) -> &[u8] {
        let files = self.files();
        let begin = entry.checked_sub(1).map_or(0, |before| files.seen[before as usize].name_end);
        &files.names[begin as usize..files.seen[entry as usize].name_end as usize]
    }

    /// Says what is in it; once.
    pub fn fill(&self, found: Found) {
        let files = Files { names: found.names.into(), seen: found.seen.into() };
        self.files.set(files).expect("each folder is looked into once");
    }
}

/// One after the other: a chain of them would be dropped by as deep a recursion.
impl Drop for Folder {
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(mut folder) = above.and_then(Arc::into_inner) {
            above = folder.parent.take();
        }
    }
}

/// Adds a name to a path.
pub fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// The files of a folder, as they are found.
#[derive(Debug, Default)]
pub struct Found {
    names: Vec<u8>,
    seen: Vec<Seen>,
    /// The last device, and its number.
    device: Option<(u64, u16)>,
}

impl Found {
    /// One more.
    pub fn add(&mut self, name: &[u8], stat: &Stat, device: u16, is_link: bool) {
        self.add_seen(name, Seen::new(stat, device, is_link));
    }

    /// One that was seen.
    pub fn add_seen(&mut self, name: &[u8], seen: Seen) {
        self.names.extend_from_slice(name);
        let name_end = u32::try_from(self.names.len()).expect("a folder with 4 GiB of names");
        self.seen.push(Seen { name_end, ..seen });
    }

    /// The number of a device, which is mostly that of the file before.
    pub fn device(&mut self, device: u64, number: impl FnOnce(u64) -> u16) -> u16 {
        match self.device {
            Some((last, number)) if last == device => number,
            _ => self.device.insert((device, number(device))).1,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Of all of them.
    pub fn bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.size).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// All folders of a run, and its devices.
#[derive(Debug, Default)]
pub struct Folders {
    table: RwLock<Vec<Arc<Folder>>>,
    devices: RwLock<Vec<u64>>,
}

impl Folders {
    /// A root: a folder, or what comes before the name of a file that was given.
    pub fn add_root(&self, root: u32, path: &[u8], is_given_file: bool) -> Arc<Folder> {
        // Who names a file that is a link means what it leads to.
        self.add_place(root, path, is_given_file, is_given_file)
    }

    /// A root below which names may be symbolic links, whatever the run does with others.
    pub fn add_root_with_links(&self, root: u32, path: &[u8]) -> Arc<Folder> {
        self.add_place(root, path, false, true)
    }

    fn add_place(
        &self,
        root: u32,
        path: &[u8],
        is_given_file: bool,
        has_links: bool,
    ) -> Arc<Folder> {
        self.add(|number| Folder {
            is_given_file,
            has_links,
            number,
            whole: number,
            root,
            depth: 0,
            parent: None,
            name: path.into(),
            found_on: 0,
            files: OnceLock::new(),
        })
    }

    /// A folder that was found in another one.
    pub fn add_below(&self, parent: &Arc<Folder>, name: &[u8], found_on: u64) -> Arc<Folder> {
        self.add(|number| Folder {
            number,
            whole: number,
            root: parent.root,
            depth: parent.depth + 1,
            is_given_file: false,
            has_links: parent.has_links,
            parent: Some(Arc::clone(parent)),
            name: name.into(),
            found_on,
            files: OnceLock::new(),
        })
    }

    /// The same folder under one more number, for more of its files.
    pub fn add_part(&self, folder: &Folder) -> Arc<Folder> {
        self.add(|number| Folder {
            number,
            whole: folder.whole,
            root: folder.root,
            depth: folder.depth,
            is_given_file: false,
            has_links: folder.has_links,
            parent: folder.parent.clone(),
            name: folder.name.clone(),
            found_on: folder.found_on,
            files: OnceLock::new(),
        })
    }

    fn add(&self, folder: impl FnOnce(u32) -> Folder) -> Arc<Folder> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(table.len()).expect("more than four billion folders");
        let folder = Arc::new(folder(number));
        table.push(Arc::clone(&folder));
        folder
    }

    /// By its number.
    pub fn folder(&self, number: u32) -> Arc<Folder> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner)[number as usize])
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Folder>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives up all of them, when nobody asks for one any more.
    pub fn forget(&self) {
        std::mem::take(&mut *self.table.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The number of a device.
    pub fn device(&self, device: u64) -> u16 {
        let known = |devices: &[u64]| devices.iter().position(|other| *other == device);
        let found = known(&self.devices.read().unwrap_or_else(PoisonError::into_inner));
        let number = found.unwrap_or_else(|| {
            let mut devices = self.devices.write().unwrap_or_else(PoisonError::into_inner);
            known(&devices).unwrap_or_else(|| {
                devices.push(device);
                devices.len() - 1
            })
        });
        u16::try_from(number).expect("more than 65,536 devices")
    }

    /// The device with this number.
    pub fn device_of(&self, number: u16) -> u64 {
        self.devices.read().unwrap_or_else(PoisonError::into_inner)[usize::from(number)]
    }
}

/// The kernel takes no longer path at once.
const LONGEST_PATH: usize = 4095;

/// Opens a path of any length: one that is too long, in steps. `path` ends with a zero byte.
pub fn open_path(path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    if path.len() <= LONGEST_PATH {
        let path = c_str(path)?;
        return retry_on_intr(|| open(path, flags, Mode::empty()));
    }
    let mut at: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() > LONGEST_PATH {
        let cut = rest[..LONGEST_PATH].iter().rposition(|byte| *byte == b'/');
        let cut = cut.filter(|cut| *cut > 0).ok_or(Errno::NAMETOOLONG)?;
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let next = match &at {
            None => retry_on_intr(|| openat(CWD, &rest[..cut], step, Mode::empty())),
            Some(folder) => retry_on_intr(|| openat(folder, &rest[..cut], step, Mode::empty())),
        };
        at = Some(next?);
        rest = &rest[cut..];
        // What is left is relative, however many slashes there were.
        while let [b'/', more @ ..] = rest {
            rest = more;
        }
    }
    open_in(at.expect("a path that was too long has been cut").as_fd(), rest, flags)
}

/// Opens what a folder has by that name, which ends with a zero byte.
pub fn open_in(folder: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let name = c_str(name)?;
    retry_on_intr(|| openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty()))
}

fn c_str(path: &[u8]) -> rustix::io::Result<&CStr> {
    CStr::from_bytes_with_nul(path).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_as_their_root_was_given() {
        let folders = Folders::default();
        for (root, expected) in
            [("a", "a/b/c"), (".", "./b/c"), ("/", "/b/c"), ("a//", "a//b/c"), ("", "b/c")]
        {
            let root = folders.add_root(0, root.as_bytes(), false);
            let below = folders.add_below(&root, b"b", 1);
            let below = folders.add_below(&below, b"c", 1);
            assert_eq!(below.path(), expected.as_bytes());
            assert_eq!(below.path_below_root(), b"b/c");
            assert_eq!(below.depth, 2);
        }
    }

    /// Deeper than any stack: neither paths nor drops go down step by step.
    #[test]
    fn a_tree_may_be_as_deep_as_it_likes() {
        const DEPTH: usize = 1_000_000;
        let folders = Folders::default();
        let mut folder = folders.add_root(0, b"/", false);
        for _ in 0..DEPTH {
            folder = folders.add_below(&folder, b"x", 1);
        }
        assert_eq!(folder.path().len(), 2 * DEPTH);
        drop(folders);
        drop(folder);
    }

    #[test]
    fn what_was_seen_of_a_file_takes_48_bytes() {
        assert_eq!(size_of::<Seen>(), 48);
        assert_eq!(size_of::<FileId>(), 8);
    }
}

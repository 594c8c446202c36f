//! Reads files, and makes sure that what was read is what the walk has seen.

use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fstat};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::buffers::with_buffer;
use crate::folders::{FileId, Folder, Folders, Seen, join, open_in, open_path};
use crate::problems::{Kind, code};

/// Files up to here are read whole, once; of larger ones samples come first.
pub const WHOLE: u64 = 64 << 10;
/// Bytes of a sample: of the beginning, the middle and the end.
const SAMPLE: usize = 4 << 10;
/// So many files of a folder in a row make it worth opening.
const MANY: usize = 8;

/// Why a file is in no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The system said no.
    Failed(Errno),
    /// It was not the same any more.
    Changed,
}

impl Unread {
    /// As a problem.
    pub fn kind(self) -> Kind {
        match self {
            Unread::Failed(error) => Kind::File(code(error)),
            Unread::Changed => Kind::Changed,
        }
    }
}

/// Finds files by their numbers. Those of one folder mostly come together: the path is put together
/// once for them.
#[derive(Debug)]
pub struct Finder<'a> {
    folders: &'a Folders,
    follow: bool,
    last: Option<Arc<Folder>>,
    /// A number of a device, and the device: mostly that of the next file, too.
    device: Option<(u16, u64)>,
    /// How many files of the folder were asked for, one after the other.
    visits: usize,
    /// The folder, once they are many: a name in it is found sooner than a whole path.
    opened: Option<OwnedFd>,
    /// Ends with a zero byte.
    path: Vec<u8>,
    prefix: usize,
}

/// A file that can be opened.
#[derive(Debug)]
pub struct Target<'a> {
    /// Ends with a zero byte.
    path: &'a [u8],
    /// Where only the name has to be looked up: how long that is.
    folder: Option<(BorrowedFd<'a>, usize)>,
    /// What the walk has seen.
    pub seen: Seen,
    device: u64,
    flags: OFlags,
}

impl<'a> Finder<'a> {
    /// `follow`: names may be links.
    pub fn new(folders: &'a Folders, follow: bool) -> Finder<'a> {
        Finder {
            folders,
            follow,
            last: None,
            device: None,
            visits: 0,
            opened: None,
            path: Vec::new(),
            prefix: 0,
        }
    }

    /// The file with that number.
    pub fn target(&mut self, file: FileId) -> Target<'_> {
        if self.last.as_ref().is_none_or(|folder| folder.number != file.folder) {
            self.go_to(file.folder);
        }
        let folder = self.last.as_ref().expect("it was gone to");
        self.path.truncate(self.prefix);
        self.visits += 1;
        if self.visits == MANY {
            self.path.push(0);
            // Who can't be opened is not needed: then it goes by whole paths.
            self.opened = open_path(&self.path, OFlags::PATH | OFlags::DIRECTORY).ok();
            self.path.pop();
        }
        let name = folder.file_name(file.entry);
        join(&mut self.path, name);
        self.path.push(0);
        let seen = *folder.seen(file.entry);
        let may_be_link = self.follow || folder.has_links;
        let flags = if may_be_link { OFlags::empty() } else { OFlags::NOFOLLOW };
        Target {
            path: &self.path,
            folder: self.opened.as_ref().map(|opened| (opened.as_fd(), name.len())),
            seen,
            device: match self.device {
                Some((number, device)) if number == seen.device => device,
                _ => self.device.insert((seen.device, self.folders.device_of(seen.device))).1,
            },
            flags,
        }
    }

    fn go_to(&mut self, number: u32) {
        let folder = self.folders.folder(number);
        self.path = folder.path();
        self.prefix = self.path.len();
        (self.visits, self.opened) = (0, None);
        self.last = Some(folder);
    }

    /// The path of a file.
    pub fn path(&mut self, file: FileId) -> Vec<u8> {
        let target = self.target(file);
        target.path[..target.path.len() - 1].to_vec()
    }
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct Opened {
    file: OwnedFd,
    seen: Seen,
    device: u64,
}

impl Target<'_> {
    /// Opens it: never waits for anybody, whatever it has become.
    pub fn open(&self) -> Result<Opened, Unread> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | self.flags;
        let opened = match self.folder {
            Some((folder, len)) => open_in(folder, &self.path[self.path.len() - len - 1..], flags),
            None => open_path(self.path, flags),
        };
        let file = opened.map_err(|error| match error {
            // It was a file when it was seen.
            Errno::LOOP | Errno::NXIO => Unread::Changed,
            error => Unread::Failed(error),
        })?;
        Ok(Opened { file, seen: self.seen, device: self.device })
    }

    /// All of its bytes, which are not more than `WHOLE`.
    pub fn whole<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, Unread> {
        let size = self.seen.size as usize;
        let opened = self.open()?;
        if size == 0 {
            // Some file systems say so of files that are not empty.
            opened.is_at_end()?;
            return Ok(f(&[]));
        }
        with_buffer(WHOLE as usize, |buffer| {
            let bytes = &mut buffer[..size];
            opened.fill(bytes, 0)?;
            opened.check()?;
            Ok(f(bytes))
        })
    }

    /// Beginning, middle and end of a file that is larger.
    pub fn samples<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, Unread> {
        let opened = self.open()?;
        let size = self.seen.size;
        let middle = size / 2 / SAMPLE as u64 * SAMPLE as u64;
        with_buffer(3 * SAMPLE, |buffer| {
            let offsets = [0, middle, size - SAMPLE as u64];
            for (piece, offset) in buffer.chunks_exact_mut(SAMPLE).zip(offsets) {
                opened.fill(piece, offset)?;
            }
            opened.check()?;
            Ok(f(buffer))
        })
    }
}

/// Bytes that are read for samples of one file.
pub const SAMPLED: u64 = 3 * SAMPLE as u64;

impl Opened {
    /// Fills all of `bytes`: a file that ends before is not the one that was seen.
    pub fn fill(&self, mut bytes: &mut [u8], mut offset: u64) -> Result<(), Unread> {
        while !bytes.is_empty() {
            match retry_on_intr(|| pread(&self.file, &mut *bytes, offset)) {
                Ok(0) => return Err(Unread::Changed),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    offset += read as u64;
                }
                // What blocks is no regular file.
                Err(Errno::AGAIN | Errno::SPIPE) => return Err(Unread::Changed),
                Err(error) => return Err(Unread::Failed(error)),
            }
        }
        Ok(())
    }

    /// There is not a single byte.
    fn is_at_end(&self) -> Result<(), Unread> {
        match self.fill(&mut [0], 0) {
            Ok(()) => Err(Unread::Changed),
            Err(Unread::Changed) => self.check(),
            Err(failed) => Err(failed),
        }
    }

    /// After the last read: it is still what the walk has seen.
    pub fn check(&self) -> Result<(), Unread> {
        let now = fstat(&self.file).map_err(Unread::Failed)?;
        if self.seen.is_still(&now, self.device) { Ok(()) } else { Err(Unread::Changed) }
    }
}

/// Files in a folder, as a walk sees them, for tests of what comes after it.
#[cfg(test)]
pub(crate) mod seen {
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, statat};

    use crate::folders::{FileId, Folders, Found};

    pub(crate) fn files(dir: &Path, names: &[&str]) -> (Folders, Vec<FileId>) {
        let folders = Folders::default();
        let root = folders.add_root(0, dir.as_os_str().as_encoded_bytes(), false);
        let folder = folders.add_below(&root, b".", 0);
        let mut found = Found::default();
        for name in names {
            let stat = statat(CWD, dir.join(name), AtFlags::SYMLINK_NOFOLLOW).unwrap();
            found.add(name.as_bytes(), &stat, folders.device(stat.st_dev), false);
        }
        folder.fill(found);
        let file = |entry| FileId { folder: folder.number, entry };
        (folders, (0..names.len() as u32).map(file).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// As the walk sees it now; what is read of it after `change`.
    fn read_after(size: usize, change: impl FnOnce(&Path)) -> Result<usize, Unread> {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        fs::write(&path, vec![1; size]).unwrap();
        let (folders, files) = seen::files(&folder, &["file"]);
        change(&path);
        let mut finder = Finder::new(&folders, false);
        let target = finder.target(files[0]);
        if size as u64 <= WHOLE { target.whole(<[u8]>::len) } else { target.samples(<[u8]>::len) }
    }

    /// The times of a file have a grain: until it is over a change may not show in them.
    fn until_the_clock_ticks() {
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
    }

    fn rewrite_keeping_its_time(path: &Path) {
        let before = fs::metadata(path).unwrap();
        until_the_clock_ticks();
        fs::write(path, vec![2; before.len() as usize]).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
    }

    #[test]
    fn what_was_not_touched_is_read() {
        for size in [0, 1, 4_096, WHOLE as usize] {
            assert_eq!(read_after(size, |_| ()), Ok(size));
        }
        assert_eq!(read_after(WHOLE as usize + 1, |_| ()), Ok(SAMPLED as usize));
    }

    /// Small ones are read whole, of large ones samples.
    fn is_unstable_after(change: fn(&Path)) {
        for size in [5_000, 100_000] {
            assert_eq!(read_after(size, change), Err(Unread::Changed), "of {size} bytes");
        }
    }

    fn length(path: &Path) -> usize {
        fs::metadata(path).unwrap().len() as usize
    }

    #[test]
    fn a_file_that_shrinks_is_unstable() {
        is_unstable_after(|path| fs::write(path, "x").unwrap());
        is_unstable_after(|path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(length(path) as u64 - 1).unwrap();
        });
    }

    #[test]
    fn a_file_that_grows_is_unstable() {
        is_unstable_after(|path| fs::write(path, vec![1; length(path) + 1]).unwrap());
    }

    #[test]
    fn a_file_that_is_rewritten_with_size_and_mtime_kept_is_unstable() {
        is_unstable_after(rewrite_keeping_its_time);
    }

    #[test]
    fn a_file_that_is_replaced_with_size_kept_is_unstable() {
        is_unstable_after(|path| {
            let other = path.with_extension("other");
            fs::write(&other, vec![1; length(path)]).unwrap();
            fs::rename(other, path).unwrap();
        });
    }

    #[test]
    fn a_file_that_is_replaced_with_size_and_mtime_kept_is_unstable() {
        is_unstable_after(|path| {
            let (other, before) = (path.with_extension("other"), fs::metadata(path).unwrap());
            fs::write(&other, vec![1; length(path)]).unwrap();
            let file = fs::File::options().write(true).open(&other).unwrap();
            file.set_modified(before.modified().unwrap()).unwrap();
            fs::rename(other, path).unwrap();
        });
    }

    #[test]
    fn a_file_that_is_swapped_for_a_symlink_is_unstable() {
        is_unstable_after(|path| {
            let other = path.with_extension("other");
            fs::rename(path, &other).unwrap();
            symlink(other, path).unwrap();
        });
        // To the very same file, which has not been touched: only its folder was moved.
        is_unstable_after(|path| {
            let folder = path.parent().unwrap();
            let moved = folder.with_extension("moved");
            fs::rename(folder, &moved).unwrap();
            fs::create_dir(folder).unwrap();
            symlink(moved.join("file"), path).unwrap();
        });
    }

    #[test]
    fn a_parent_folder_that_is_swapped_for_a_symlink_is_unstable() {
        is_unstable_after(|path| {
            let (folder, bytes) = (path.parent().unwrap(), fs::read(path).unwrap());
            let (moved, other) = (folder.with_extension("moved"), folder.with_extension("other"));
            fs::create_dir(&other).unwrap();
            fs::write(other.join("file"), bytes).unwrap();
            fs::rename(folder, moved).unwrap();
            symlink(other, folder).unwrap();
        });
    }

    #[test]
    fn a_file_that_is_swapped_for_a_fifo_is_unstable_and_nobody_waits() {
        is_unstable_after(|path| {
            fs::remove_file(path).unwrap();
            mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        });
    }

    /// Deleted, and its number given to another one: told by its ctime. Many file systems give the
    /// number that came free last; where it is not given again there is nothing to tell.
    #[test]
    fn a_file_whose_inode_number_another_one_has_got_is_unstable() {
        fn give_its_number_to_another(path: &Path) {
            let (inode, bytes) = (fs::metadata(path).unwrap().ino(), vec![1; length(path)]);
            until_the_clock_ticks();
            fs::remove_file(path).unwrap();
            for n in 0..100 {
                let other = path.with_extension(n.to_string());
                fs::write(&other, &bytes).unwrap();
                if fs::metadata(&other).unwrap().ino() == inode {
                    fs::rename(other, path).unwrap();
                    return;
                }
            }
            eprintln!("inode {inode} was not given again: another one is in its place");
            fs::rename(path.with_extension("0"), path).unwrap();
        }
        is_unstable_after(give_its_number_to_another);
    }

    #[test]
    fn what_has_vanished_is_an_error_of_the_system() {
        let vanish = |path: &Path| fs::remove_file(path).unwrap();
        assert_eq!(read_after(10, vanish), Err(Unread::Failed(Errno::NOENT)));
    }
}

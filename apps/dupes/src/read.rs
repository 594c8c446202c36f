//! Reads files, and makes sure that what was read is what the walk has seen.

use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fstat};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::buffers::with_buffer;
use crate::folders::{FileId, Folder, Folders, Seen, open_path};
use crate::problems::{Kind, code};

/// Files up to here are read whole, once; of larger ones samples come first.
pub const WHOLE: u64 = 64 << 10;
/// Bytes of a sample: of the beginning, the middle and the end.
const SAMPLE: usize = 4 << 10;

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
    /// Ends with a zero byte.
    path: Vec<u8>,
    prefix: usize,
}

/// A file that can be opened.
#[derive(Debug)]
pub struct Target<'a> {
    /// Ends with a zero byte.
    path: &'a [u8],
    /// What the walk has seen.
    pub seen: Seen,
    device: u64,
    flags: OFlags,
}

impl<'a> Finder<'a> {
    /// `follow`: names may be links.
    pub fn new(folders: &'a Folders, follow: bool) -> Finder<'a> {
        Finder { folders, follow, last: None, path: Vec::new(), prefix: 0 }
    }

    /// The file with that number.
    pub fn target(&mut self, file: FileId) -> Target<'_> {
        let folder = match &self.last {
            Some(folder) if folder.number == file.folder => Arc::clone(folder),
            _ => self.go_to(file.folder),
        };
        self.path.truncate(self.prefix);
        crate::folders::join(&mut self.path, folder.file_name(file.entry));
        self.path.push(0);
        let seen = *folder.seen(file.entry);
        // A root may be a link to a file: who names one means what it leads to.
        let may_be_link = self.follow || folder.depth == 0;
        let flags = if may_be_link { OFlags::empty() } else { OFlags::NOFOLLOW };
        Target { path: &self.path, seen, device: self.folders.device_of(seen.device), flags }
    }

    fn go_to(&mut self, number: u32) -> Arc<Folder> {
        let folder = self.folders.folder(number);
        self.path = folder.path();
        self.prefix = self.path.len();
        self.last = Some(Arc::clone(&folder));
        folder
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
        let file = open_path(self.path, flags).map_err(|error| match error {
            // It was a file when it was seen.
            Errno::LOOP | Errno::NXIO => Unread::Changed,
            error => Unread::Failed(error),
        })?;
        Ok(Opened { file, seen: self.seen, device: self.device })
    }

    /// All of its bytes, which are not more than `WHOLE`.
    pub fn whole<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, Unread> {
        let size = self.seen.size as usize;
        if size == 0 {
            return Ok(f(&[]));
        }
        let opened = self.open()?;
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

    /// After the last read: it is still what the walk has seen.
    pub fn check(&self) -> Result<(), Unread> {
        let now = fstat(&self.file).map_err(Unread::Failed)?;
        if self.seen.is_still(&now, self.device) { Ok(()) } else { Err(Unread::Changed) }
    }
}

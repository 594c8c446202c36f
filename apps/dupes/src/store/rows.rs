//! What is in the tables, as the rest of the program sees it.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::digest::Digest;
use crate::folders::Seen;

/// What is recorded of a file, but for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Where that is not the folder's.
    pub device: Option<u64>,
    /// The inode.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes on disk.
    pub blocks: u64,
    /// How many names it has, here or elsewhere.
    pub links: u16,
    /// When its content changed last, in ns.
    pub mtime: i64,
    /// When anything about it changed last, in ns.
    pub ctime: i64,
    /// It may have changed since it was read without its times showing it.
    pub racy: bool,
    /// Of a large file: of beginning, middle and end.
    pub sample: Option<u64>,
    /// Of all of its bytes.
    pub digest: Option<Digest>,
    /// Why there is no hash: of the system, or [`CHANGED`].
    pub error: Option<i32>,
}

/// The error of a file that changed while it was read.
pub const CHANGED: i32 = -1;

impl FileRow {
    /// Of what a walk has seen; nothing is known of its content.
    pub fn unread(seen: &Seen, device: Option<u64>, racy: bool) -> FileRow {
        FileRow {
            device,
            inode: seen.inode,
            size: seen.size,
            blocks: seen.blocks,
            links: seen.links(),
            mtime: seen.mtime,
            ctime: seen.ctime,
            racy,
            sample: None,
            digest: None,
            error: None,
        }
    }

    /// With what was recorded of the content of a file that looks as it does now: shown, until it is read again.
    /// If it is not the same file, it is read again as if it was racy.
    pub fn with_content_of(self, known: &FileRow, is_same: bool) -> FileRow {
        let FileRow { sample, digest, error, .. } = *known;
        let is_any = sample.is_some() || digest.is_some() || error.is_some();
        let racy = if is_any { known.racy || !is_same } else { known.racy && self.racy };
        FileRow { racy, sample, digest, error, ..self }
    }

    /// From the columns that begin with `first`.
    pub(crate) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<FileRow> {
        let hash = match row.get_ref(first + 9)? {
            // Longer than any hash: not written by us.
            ValueRef::Blob(bytes) if bytes.len() <= 64 => Some(Digest::of(bytes)),
            _ => None,
        };
        Ok(FileRow {
            device: row.get::<_, Option<i64>>(first)?.map(i64::cast_unsigned),
            inode: row.get::<_, i64>(first + 1)?.cast_unsigned(),
            size: row.get::<_, i64>(first + 2)?.cast_unsigned(),
            blocks: row.get::<_, i64>(first + 3)?.cast_unsigned(),
            links: row.get(first + 4)?,
            mtime: row.get(first + 5)?,
            ctime: row.get(first + 6)?,
            racy: row.get(first + 7)?,
            sample: row.get::<_, Option<i64>>(first + 8)?.map(i64::cast_unsigned),
            digest: hash,
            error: row.get(first + 10)?,
        })
    }
}

/// What is recorded of a folder, but for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderRow {
    /// None until it was looked into.
    pub device: Option<u64>,
    /// Entries in it that are recorded nowhere.
    pub left_out: u32,
    /// Of the system, when it was looked into for the last time.
    pub error: Option<i32>,
}

//! What was found, as those who print it see it: one set at a time, in a stable order.

use crate::digest::{Digest, Verified};

/// A file of a set, with all of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Full paths, as bytes: any name survives. The first is the one that stands for the file,
    /// the others are hard links to it or other ways to it.
    pub paths: Vec<Vec<u8>>,
    /// It is compared with and never to go: it lies below a root that was given with `--reference`, or
    /// is offline.
    pub reference: bool,
    /// It lies in a root that can't be looked at now.
    pub offline: bool,
}

/// Files with the same content; with `--unique` and `--rf-under` perhaps only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Bytes of each file.
    pub size: u64,
    /// None where nothing was hashed: bytes were compared, or the size alone says that it is unique.
    pub digest: Option<Digest>,
    /// What the claim rests on.
    pub verified: Verified,
    /// At least one. In a stable order.
    pub files: Vec<Entry>,
    /// Bytes on disk that would come free if only one file was kept.
    pub reclaimable: u64,
}

/// Sums over everything, for the end of a listing and for the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Folders that were looked into.
    pub folders: u64,
    /// Files that were seen and fit the filters, by inode.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sets that were listed.
    pub sets: u64,
    /// Files in them beyond the first of each.
    pub redundant_files: u64,
    /// Bytes of content in those.
    pub redundant_bytes: u64,
    /// Bytes on disk that would come free.
    pub reclaimable_bytes: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Files and folders that could not be read.
    pub unread: u64,
    /// Files that changed while they were read.
    pub unstable: u64,
    /// Of a report: files of roots that are offline, of which nobody knows whether they are copies.
    pub unread_offline: u64,
}

//! How far a run has come: counted where it happens, read by whoever shows it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counters that only grow.
#[derive(Debug, Default)]
pub struct Tally {
    /// Folders that were looked into.
    pub folders: AtomicU64,
    /// Files that were seen and fit the filters.
    pub files: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Files that had to be read, as far as is known by now; a file counts once for samples and
    /// once more if it is read to its end after that.
    pub reads_wanted: AtomicU64,
    /// And those that have been.
    pub reads_done: AtomicU64,
    /// Bytes of those reads.
    pub read_bytes_wanted: AtomicU64,
    /// Bytes of those that turned out not to be needed: their files differ before.
    pub read_bytes_spared: AtomicU64,
    /// Bytes that were read.
    pub read_bytes_done: AtomicU64,
    /// Files and folders that could not be read.
    pub unread: AtomicU64,
    /// Files that changed while they were read.
    pub unstable: AtomicU64,
}

impl Tally {
    /// Adds to one of them.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Reads one of them.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Relaxed)
    }
}

//! What a run knows beforehand, and who hears what it learns: `find` has no memory, `scan` has one.

use std::sync::Arc;

use crate::digest::Digest;
use crate::folders::{FileId, Folder};
use crate::read::Unread;
use crate::walk::Sink;

/// What is known of a file before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Of beginning, middle and end, if it is large.
    pub sample: Option<u64>,
    /// Of all of its bytes: there is no need to read it.
    pub digest: Option<Digest>,
}

/// What a read has told.
#[derive(Clone, Copy, Debug)]
pub enum Learned {
    /// The hash of all bytes.
    Digest(Digest),
    /// Of beginning, middle and end.
    Sample(u64),
    /// Nothing, and why.
    Nothing(Unread),
}

/// Asked and told by the workers of a run. It also hears from its walk which folders there are.
pub trait Memory: Sink {
    /// Whether anything is to be read at all.
    fn reads(&self) -> bool;

    /// Whether every file is read to its end, also one that no other is like.
    fn wants_all(&self) -> bool {
        false
    }

    /// Of each file in a folder, or a part of one. From now on until it is `handed_over` reads may be
    /// expected.
    fn recall(&self, folder: &Arc<Folder>) -> Vec<Known>;

    /// A file that the run does not see has this size.
    fn is_elsewhere(&self, size: u64) -> bool;

    /// The second one is a further name of the first: what is learned of that holds for both.
    fn another_name(&self, first: FileId, name: FileId);

    /// These will be read: something will be learned of each.
    fn expect(&self, files: &mut dyn Iterator<Item = FileId>);

    /// Whatever there is to be read of a folder that was recalled is expected by now, but for files that wait
    /// for another one of their size.
    fn handed_over(&self, folder: &Folder);

    /// Whether a file that could not be read is a problem.
    fn minds(&self, file: FileId, why: Unread) -> bool {
        let _ = (file, why);
        true
    }

    /// Of files that were expected.
    fn learned(&self, what: Vec<(FileId, Learned)>);

    /// Of a large file that was also read to its end.
    fn learned_more(&self, file: FileId, what: Learned);
}

//! Reads files side by side and tells which of them are equal, byte by byte.
//!
//! ```text
//!  file 0  ████████████████|████████████████|████████   a range at a time, by whoever is free;
//!  file 1  ████████████████|████████████████|████████   in each range a piece of every file,
//!  file 2  ████████████████|██▒                         compared with the first of its kind
//! ```
//!
//! Files that differ part company: whoever is alone is read no further. What one range has told
//! apart stays apart in all others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::buffers::with_buffer;
use crate::read::{Opened, Unread};
use crate::stop::Stop;

/// So many at the most: their pieces should fit into a cache.
pub const MOST: usize = 8;
/// Read at once of each file.
const PIECE: usize = 64 << 10;
/// A range that one worker reads.
const RANGE: u64 = 16 << 20;

/// Runs a function for each range, on several threads if that pays.
pub trait Ranges {
    /// For each of `0..ranges`; returns when all have been, or some were left out because of a stop.
    fn run(&self, ranges: u64, f: &(dyn Fn(u64) + Sync));
}

/// Which of some files are equal: `labels[i] == labels[j]`; or why a file can't be told.
pub fn compare(
    files: &[Opened],
    size: u64,
    ranges: &dyn Ranges,
    stop: &Stop,
    on_read: &(dyn Fn(u64) + Sync),
) -> Vec<Result<usize, Unread>> {
    assert!(files.len() <= MOST, "a class of more files is hashed");
    let comparison = Comparison {
        files,
        size,
        state: Mutex::new(State { labels: vec![0; files.len()], unread: vec![None; files.len()] }),
        is_decided: AtomicBool::new(files.len() < 2),
        stop,
        on_read,
    };
    ranges.run(size.div_ceil(RANGE), &|range| comparison.read(range));
    let state = comparison.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ends = state.labels.into_iter().zip(state.unread).zip(files);
    ends.map(|((label, unread), file)| match unread {
        Some(why) => Err(why),
        None => file.check().map(|()| label),
    })
    .collect()
}

struct Comparison<'a> {
    files: &'a [Opened],
    size: u64,
    state: Mutex<State>,
    /// Nobody has an equal any more.
    is_decided: AtomicBool,
    stop: &'a Stop,
    on_read: &'a (dyn Fn(u64) + Sync),
}

struct State {
    labels: Vec<usize>,
    unread: Vec<Option<Unread>>,
}

impl State {
    /// Those with the same label, if they are two at least.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); self.labels.len()];
        for (file, label) in self.labels.iter().enumerate() {
            if self.unread[file].is_none() {
                groups[*label].push(file);
            }
        }
        groups.retain(|group| group.len() > 1);
        groups
    }

    /// What `groups` has become: files that were together and are not any more get new labels.
    fn split(&mut self, groups: &[Vec<usize>]) {
        let mut kinds = vec![usize::MAX; self.labels.len()];
        for (kind, group) in groups.iter().enumerate() {
            group.iter().for_each(|file| kinds[*file] = kind);
        }
        let old: Vec<(usize, usize)> = (0..self.labels.len())
            .map(|file| {
                let alone = self.labels.len() + file;
                (self.labels[file], if kinds[file] == usize::MAX { alone } else { kinds[file] })
            })
            .collect();
        for file in 0..old.len() {
            // The number of the first one of its kind: below the number of files.
            self.labels[file] = (0..=file).find(|first| old[*first] == old[file]).unwrap_or(file);
        }
    }
}

impl Comparison<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, range: u64) {
        let mut groups = self.state().groups();
        let end = (range * RANGE + RANGE).min(self.size);
        let mut at = range * RANGE;
        with_buffer(MOST * PIECE, |buffer| {
            while at < end && !groups.is_empty() && !self.is_over() {
                let len = (end - at).min(PIECE as u64) as usize;
                groups =
                    groups.drain(..).flat_map(|group| self.step(group, at, len, buffer)).collect();
                groups.retain(|group| group.len() > 1);
                at += len as u64;
            }
        });
        let mut state = self.state();
        if !self.stop.is_asked() {
            state.split(&groups);
        }
        if state.groups().is_empty() {
            self.is_decided.store(true, Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.is_decided.load(Relaxed) || self.stop.is_asked()
    }

    /// Reads one piece of each, and parts those that differ.
    fn step(&self, group: Vec<usize>, at: u64, len: usize, buffer: &mut [u8]) -> Vec<Vec<usize>> {
        // The first file of each kind, and where its bytes are.
        let mut kinds: Vec<Vec<usize>> = Vec::with_capacity(1);
        for file in group {
            let free = kinds.len();
            let (before, piece) = buffer.split_at_mut(free * PIECE);
            let piece = &mut piece[..len];
            if let Err(why) = self.files[file].fill(piece, at) {
                self.state().unread[file] = Some(why);
                continue;
            }
            (self.on_read)(len as u64);
            let equal = (0..free).find(|kind| before[kind * PIECE..][..len] == *piece);
            match equal {
                Some(kind) => kinds[kind].push(file),
                None => kinds.push(vec![file]),
            }
        }
        kinds
    }
}

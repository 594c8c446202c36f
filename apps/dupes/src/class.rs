//! Large files that samples can't tell apart: read to their last byte.
//!
//! A class is worked on by one task at a time. Who comes meanwhile waits in it, and is compared
//! with one file of each set that was found.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Pool;

use crate::compare::{self, Ranges, compare};
use crate::digest::{Algorithm, Digest, Verified};
use crate::folders::FileId;
use crate::hashing::hash;
use crate::read::{Finder, Opened, Unread};
use crate::stop::Stop;
use crate::tally::Tally;

/// Files of one size with the same samples.
#[derive(Debug)]
pub struct Class {
    size: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<FileId>,
    /// A task works on it, or will.
    is_minded: bool,
    kin: Vec<Kin>,
}

/// Files of a class that are known to be equal; perhaps only one.
#[derive(Clone, Debug)]
pub struct Kin {
    /// At least one.
    pub files: Vec<FileId>,
    /// If they were hashed.
    pub digest: Option<Digest>,
    /// What the claim rests on.
    pub verified: Verified,
}

/// What a class needs of its run.
pub struct Work<'a> {
    /// Where ranges of large files are shared.
    pub pool: &'a Pool,
    /// A hash that every set must have.
    pub hash: Option<Algorithm>,
    /// Finds files.
    pub finder: Finder<'a>,
    /// Whether to stop.
    pub stop: &'a Stop,
    /// What is counted.
    pub tally: &'a Tally,
    /// Who hears of files that could not be read.
    pub unread: &'a dyn Fn(FileId, Unread),
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Class {
    /// With its first two files; somebody minds it.
    pub fn of(size: u64, first: FileId, second: FileId) -> Arc<Class> {
        let state = State { waiting: vec![first, second], is_minded: true, kin: Vec::new() };
        Arc::new(Class { size, state: Mutex::new(state) })
    }

    /// One more file. True: somebody must mind the class.
    pub fn add(&self, file: FileId) -> bool {
        let mut state = self.state();
        state.waiting.push(file);
        !std::mem::replace(&mut state.is_minded, true)
    }

    /// Bytes of each file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What was found, when nobody works on it any more.
    pub fn kin(&self) -> Vec<Kin> {
        self.state().kin.clone()
    }

    /// Reads those that wait, until there are none.
    pub fn work(&self, work: &mut Work<'_>) {
        loop {
            let (mut kin, waiting) = {
                let mut state = self.state();
                if state.waiting.is_empty() || work.stop.is_asked() {
                    state.is_minded = false;
                    return;
                }
                (state.kin.clone(), std::mem::take(&mut state.waiting))
            };
            let count = kin.len() + waiting.len();
            let is_hashed = kin.iter().any(|kin| kin.digest.is_some());
            let again = if work.hash.is_some() || is_hashed || count > compare::MOST {
                self.hash(&mut kin, waiting, work);
                Vec::new()
            } else {
                self.compare(&mut kin, waiting, work)
            };
            kin.retain(|kin| !kin.files.is_empty());
            let mut state = self.state();
            state.kin = kin;
            state.waiting.extend(again);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back those that must be compared again, because whom they were compared with is gone.
    fn compare(&self, kin: &mut Vec<Kin>, new: Vec<FileId>, work: &mut Work<'_>) -> Vec<FileId> {
        let known = kin.len();
        let all: Vec<FileId> = kin.iter().map(|kin| kin.files[0]).chain(new).collect();
        let (mut ids, mut files) = (Vec::new(), Vec::new());
        let mut lost = false;
        for (at, id) in all.iter().enumerate() {
            match work.finder.target(*id).open() {
                Ok(file) => {
                    ids.push(at);
                    files.push(file);
                }
                Err(why) => {
                    (work.unread)(*id, why);
                    lost |= remove_known(kin, at, known);
                }
            }
        }
        let shared = ByPool { pool: work.pool, stop: work.stop };
        let on_read = |bytes| Tally::add(&work.tally.read_bytes_done, bytes);
        let labels = compare(&files, self.size, &shared, work.stop, &on_read);
        if work.stop.is_asked() {
            return Vec::new();
        }
        let mut equal: Vec<Vec<usize>> = vec![Vec::new(); labels.len()];
        for (at, label) in ids.iter().zip(labels) {
            match label {
                Ok(label) => equal[label].push(*at),
                Err(why) => {
                    (work.unread)(all[*at], why);
                    lost |= remove_known(kin, *at, known);
                }
            }
        }
        if lost {
            let left = equal.into_iter().flatten().filter(|at| *at >= known);
            return left.map(|at| all[at]).collect();
        }
        for group in equal.into_iter().filter(|group| !group.is_empty()) {
            Tally::add(
                &work.tally.reads_done,
                group.iter().filter(|at| **at >= known).count() as u64,
            );
            match group[0] < known {
                true => kin[group[0]].files.extend(group[1..].iter().map(|at| all[*at])),
                false => kin.push(Kin {
                    files: group.iter().map(|at| all[*at]).collect(),
                    digest: None,
                    verified: Verified::Bytes,
                }),
            }
        }
        Vec::new()
    }

    fn hash(&self, kin: &mut Vec<Kin>, new: Vec<FileId>, work: &mut Work<'_>) {
        let algorithm = work.hash.unwrap_or_default();
        // Those that were compared so far need a hash as well: that of one of them.
        for kin in kin.iter_mut().filter(|kin| kin.digest.is_none()) {
            while let Some(first) = kin.files.first() {
                match self.digest(*first, algorithm, work) {
                    Some(digest) => {
                        (kin.digest, kin.verified) = (Some(digest), Verified::by(algorithm));
                        break;
                    }
                    None if work.stop.is_asked() => return,
                    None => drop(kin.files.remove(0)),
                }
            }
        }
        for file in new {
            let Some(digest) = self.digest(file, algorithm, work) else { continue };
            Tally::add(&work.tally.reads_done, 1);
            let known = kin.iter_mut().find(|kin| kin.digest == Some(digest));
            match known {
                Some(kin) => kin.files.push(file),
                None => kin.push(Kin {
                    files: vec![file],
                    digest: Some(digest),
                    verified: Verified::by(algorithm),
                }),
            }
        }
    }

    fn digest(&self, file: FileId, algorithm: Algorithm, work: &mut Work<'_>) -> Option<Digest> {
        let shared = ByPool { pool: work.pool, stop: work.stop };
        let on_read = |bytes| Tally::add(&work.tally.read_bytes_done, bytes);
        let opened: Result<Opened, Unread> = work.finder.target(file).open();
        let digest = opened
            .and_then(|opened| hash(&opened, self.size, algorithm, &shared, work.stop, &on_read));
        digest.unwrap_or_else(|why| {
            (work.unread)(file, why);
            None
        })
    }
}

/// True if it stood for a set: then the next one does.
fn remove_known(kin: &mut [Kin], at: usize, known: usize) -> bool {
    if at < known {
        kin[at].files.remove(0);
    }
    at < known
}

/// Ranges by all workers of the pool that have nothing else to do.
struct ByPool<'a> {
    pool: &'a Pool,
    stop: &'a Stop,
}

impl Ranges for ByPool<'_> {
    fn run(&self, ranges: u64, f: &(dyn Fn(u64) + Sync)) {
        if ranges <= 1 {
            return (0..ranges).for_each(f);
        }
        let all: Vec<u64> = (0..ranges).collect();
        let run = self.pool.map_slice(&all, |range| {
            if !self.stop.is_asked() {
                f(*range);
            }
        });
        // Refused or cut off only when the pool is told to stop, and so are we; a panic goes on.
        if let Err(error) = run
            && !self.stop.is_asked()
        {
            panic!("a range was not read: {error}");
        }
    }
}

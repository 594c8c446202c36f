//! What went wrong on the way: counted, kept, and told at the end, a line each.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::Errno;

use crate::escape::escaped;
use crate::progress::say;
use crate::stop::Stop;
use crate::tally::Tally;

/// So many are kept, to be told in order at the end. When there are more, they are told meanwhile.
const KEPT: usize = 10_000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A root that was given does not exist, or can't be looked at.
    Root(i32),
    /// A root is neither a folder nor a regular file.
    Special,
    /// A root is the same folder as one that is given with `--reference`.
    Both,
    /// A root lies in a quarantine, or is one.
    Quarantine,
    /// A root is another folder than the one that was scanned, on another device.
    Another,
    /// What was mounted on a folder is not there any more.
    Away,
    /// A folder could not be looked into: the error of the system.
    Folder(i32),
    /// A file could not be looked at, opened or read.
    File(i32),
    /// A file was another one after it was read, or longer, or shorter.
    Changed,
    /// A file with patterns to ignore is not what it should be.
    IgnoreFile,
    /// A task of ours has panicked: the files that it was about are in no set.
    Bug,
}

/// What happened to whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    path: Vec<u8>,
    kind: Kind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = escaped(&self.path);
        let why = |code| std::io::Error::from_raw_os_error(code);
        match self.kind {
            Kind::Root(code) => write!(f, "{path}: can't look there: {}", why(code)),
            Kind::Special => write!(f, "{path}: neither a folder nor a file"),
            Kind::Both => write!(f, "{path}: given with --reference, too: taken for that"),
            Kind::Quarantine => {
                write!(
                    f,
                    "{path}: not searched: what is in a quarantine was removed, and is no copy"
                )
            }
            Kind::Another => {
                write!(f, "{path}: not the folder that was scanned: taken for offline")
            }
            Kind::Away => {
                write!(f, "{path}: what was mounted there is not: nothing below is taken for gone")
            }
            Kind::Folder(code) => write!(f, "{path}: folder not read: {}", why(code)),
            Kind::File(code) => write!(f, "{path}: file not read: {}", why(code)),
            Kind::Changed => write!(f, "{path}: changed while it was read: in no set"),
            Kind::Bug => write!(f, "a task of pool {path} has panicked: please report this"),
            Kind::IgnoreFile => {
                write!(f, "{path}: not obeyed: it can't be read, or a pattern in it is wrong")
            }
        }
    }
}

/// All of a run.
#[derive(Debug, Default)]
pub struct Problems {
    kept: Mutex<Vec<Problem>>,
    all: AtomicU64,
    wrong_roots: AtomicU64,
    /// More than so many are too many.
    limit: OnceLock<(u64, Stop)>,
}

impl Problems {
    /// Stops a run with more problems than that. Said once, before it begins.
    pub fn stop_above(&self, most: u64, stop: Stop) {
        let _ = self.limit.set((most, stop));
    }

    /// Whether there were so many that the run was stopped.
    pub fn are_too_many(&self) -> bool {
        self.limit.get().is_some_and(|(most, _)| self.count() > *most)
    }

    /// One more.
    pub fn add(&self, tally: &Tally, path: Vec<u8>, kind: Kind) {
        let counter = if kind == Kind::Changed { &tally.unstable } else { &tally.unread };
        Tally::add(counter, 1);
        let before = self.all.fetch_add(1, Relaxed);
        if let Some((most, stop)) = self.limit.get()
            && before >= *most
        {
            stop.ask();
        }
        if matches!(kind, Kind::Root(_) | Kind::Special | Kind::Quarantine) {
            self.wrong_roots.fetch_add(1, Relaxed);
        }
        let many = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(Problem { path, kind });
            if kept.len() < KEPT {
                return;
            }
            std::mem::take(&mut *kept)
        };
        tell(many);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.all.load(Relaxed)
    }

    /// How many roots could not be looked at.
    pub fn wrong_roots(&self) -> u64 {
        self.wrong_roots.load(Relaxed)
    }

    /// Tells those that nobody has been told of, in a stable order.
    pub fn tell_the_rest(&self) {
        tell(std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// A line each.
fn tell(mut problems: Vec<Problem>) {
    problems.sort();
    problems.iter().for_each(|problem| say(&format!("dupes: {problem}")));
}

/// The number that a message of the system goes by.
pub fn code(error: Errno) -> i32 {
    error.raw_os_error()
}

//! Which names count: by size, hidden or not, patterns, and files that say what to ignore.

use std::ffi::{CStr, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use crate::folders::join;
use crate::options::{Filter, Patterns};

/// What a filter says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It counts.
    Counts,
    /// It is left out; a folder with all that is in it.
    LeftOut,
}

impl Filter {
    /// Whether a file of so many bytes counts.
    pub fn is_size(&self, size: u64) -> bool {
        self.size.contains(&size)
    }

    /// Whether paths have to be put together to decide.
    pub fn asks_for_paths(&self) -> bool {
        self.ignore_files || self.only.ask_for_paths() || self.except.ask_for_paths()
    }

    /// Whether a file counts that was named itself: hidden or not does not matter then.
    pub fn decide_named(&self, name: &[u8]) -> Decision {
        Filter { hidden: true, ..self.clone() }.decide(name, Some(b""), false)
    }

    /// Whether an entry counts. `below_root`: the path of its folder from the root on, if asked for.
    pub fn decide(&self, name: &[u8], below_root: Option<&[u8]>, is_folder: bool) -> Decision {
        if !self.hidden && name.starts_with(b".") {
            return Decision::LeftOut;
        }
        let path = || {
            let mut path = below_root.unwrap_or_default().to_vec();
            join(&mut path, name);
            path
        };
        let out = self.except.match_any(name, path)
            // Folders are walked through to whatever lies in them.
            || !is_folder && !self.only.are_none() && !self.only.match_any(name, path);
        if out { Decision::LeftOut } else { Decision::Counts }
    }
}

impl Patterns {
    fn are_none(&self) -> bool {
        self.names.is_empty() && !self.ask_for_paths()
    }

    fn ask_for_paths(&self) -> bool {
        !self.paths.is_empty() || self.regexes.is_some()
    }

    fn match_any(&self, name: &[u8], path: impl Fn() -> Vec<u8>) -> bool {
        // An empty one takes the name apart all the same.
        if !self.names.is_empty() && self.names.is_match(OsStr::from_bytes(name)) {
            return true;
        }
        self.ask_for_paths() && {
            let path = path();
            self.paths.is_match(OsStr::from_bytes(&path))
                || self.regexes.as_ref().is_some_and(|regexes| regexes.is_match(&path))
        }
    }
}

/// Files that say what to ignore; the later one wins.
const IGNORE_FILES: [&CStr; 2] = [c".gitignore", c".ignore"];
/// More than that nobody has written by hand.
const LONGEST: u64 = 1 << 20;

/// What such files of a folder, and of those that it lies in, say.
#[derive(Debug)]
pub struct Ignores {
    above: Option<Arc<Ignores>>,
    rules: Vec<Gitignore>,
    /// The length of the path of their folder, from the root on.
    prefix: usize,
}

impl Ignores {
    /// What the files of an open folder say, on top of those above. Beside it: files that could not
    /// be read, or have a pattern that is none.
    pub fn read(
        folder: BorrowedFd<'_>,
        below_root: &[u8],
        above: Option<Arc<Ignores>>,
    ) -> (Option<Arc<Ignores>>, Vec<&'static CStr>) {
        let (mut rules, mut wrong) = (Vec::new(), Vec::new());
        for name in IGNORE_FILES {
            match read_rules(folder, name) {
                Ok(None) => {}
                Ok(Some(read)) => rules.push(read),
                Err(Unreadable) => wrong.push(name),
            }
        }
        if rules.is_empty() {
            return (above, wrong);
        }
        (Some(Arc::new(Ignores { above, rules, prefix: below_root.len() })), wrong)
    }

    /// Whether an entry of the folder at `below_root` is to be ignored: the nearest file that says
    /// something decides.
    pub fn forbids(&self, below_root: &[u8], name: &[u8], is_folder: bool) -> bool {
        let mut path = below_root[self.prefix..].to_vec();
        while path.first() == Some(&b'/') {
            path.remove(0);
        }
        join(&mut path, name);
        for rules in self.rules.iter().rev() {
            let matched = rules.matched(Path::new(OsStr::from_bytes(&path)), is_folder);
            if !matched.is_none() {
                return matched.is_ignore();
            }
        }
        self.above.as_ref().is_some_and(|above| above.forbids(below_root, name, is_folder))
    }
}

/// It exists and does not say what to ignore.
struct Unreadable;

fn read_rules(folder: BorrowedFd<'_>, name: &CStr) -> Result<Option<Gitignore>, Unreadable> {
    // Not to hang at something that is no file.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(folder, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(_) => return Err(Unreadable),
    };
    let stat = fstat(&opened).map_err(|_| Unreadable)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut text = Vec::new();
    std::fs::File::from(opened).take(LONGEST).read_to_end(&mut text).map_err(|_| Unreadable)?;
    let mut builder = GitignoreBuilder::new("");
    // Patterns that are not UTF-8 can't be obeyed, and are said not to be.
    let text = std::str::from_utf8(&text).map_err(|_| Unreadable)?;
    for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
        builder.add_line(None, line).map_err(|_| Unreadable)?;
    }
    builder.build().map(Some).map_err(|_| Unreadable)
}

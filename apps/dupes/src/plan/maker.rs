//! From sets that were found to a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Stat, statat};
use rustix::io::Errno;

use super::rules::{Candidate, Keep, Patterns, choose};
use super::trees::{self, Files, Paths};
use super::{Member, Plan, PlannedSet, innermost};
use crate::act::facts::Facts;
use crate::act::ground::{Base, Place};
use crate::act::verify::errno;
use crate::act::why::Why;
use crate::listing::{Entry, Set};
use crate::options::Root;
use crate::own::Own;
use crate::report::Recorded;
use crate::sharing::Sharing;

/// What goes as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// A file.
    #[default]
    Files,
    /// A folder, if another one has the same; else a file.
    Folders,
}

/// Puts a plan together, set by set.
#[derive(Debug)]
pub struct Maker {
    keep: Keep,
    grain: Grain,
    plan: Plan,
    /// Files that were given themselves, each a path of its own: numbers behind those of the bases.
    given: HashMap<Vec<u8>, usize>,
    /// What neither stays for others nor goes.
    own: Own,
    /// Folders that an earlier run has kept for others that went as one.
    whole: Paths,
    /// What was seen of the files that are added now, if that was before.
    recorded: Recorded,
    /// What waits until all sets are known.
    waiting: Vec<Files>,
    /// Without links, or why it can't be looked at any more.
    folders: HashMap<Vec<u8>, Result<Vec<u8>, Why>>,
    sharing: Sharing,
    devices: HashMap<u64, u16>,
    /// Rules with a pattern, and whether it has matched anything.
    patterns: Patterns,
    /// What was listed and is not in the plan, with the reason.
    left_out: Vec<(Vec<u8>, Why)>,
}

impl Maker {
    /// For files below these. A file that was given stands for itself, in its folder.
    pub fn new(roots: &[Root], keep: Keep, grain: Grain) -> Maker {
        let bases = bases(roots);
        let (waiting, folders, sharing, devices, patterns, left_out) = Default::default();
        let files = roots.iter().filter_map(|root| file_of(&root.path));
        let given = files.enumerate().map(|(at, path)| (path, bases.len() + at)).collect();
        let plan = Plan { bases, sets: Vec::new() };
        let (own, whole, recorded) = Default::default();
        Maker {
            keep,
            grain,
            plan,
            given,
            own,
            whole,
            recorded,
            waiting,
            folders,
            sharing,
            devices,
            patterns,
            left_out,
        }
    }

    /// These neither stay for others nor go.
    pub fn sparing(self, own: Own) -> Maker {
        Maker { own, ..self }
    }

    /// If folders go as one, nothing in these goes by itself.
    pub fn keeping(self, whole: impl IntoIterator<Item = Vec<u8>>) -> Maker {
        Maker { whole: Paths::of(whole), ..self }
    }

    /// One more set, of files that were recorded so: what is another file by now is left out.
    pub fn add_recorded(&mut self, set: &Set, recorded: Recorded) {
        self.recorded = recorded;
        self.add(set);
        self.recorded = Recorded::default();
    }

    /// One more set, as it is listed.
    pub fn add(&mut self, set: &Set) {
        let mut found = Files::new();
        for entry in &set.files {
            if let Some(one) = self.member(set.size, entry) {
                // One file that two entries lead to is one file.
                match found.iter_mut().find(|(known, _)| known.facts.is_file(&one.0.facts)) {
                    None => found.push(one),
                    Some((known, candidate)) => {
                        known.names.extend(one.0.names);
                        known.frees = 0;
                        candidate.paths.extend(one.1.paths);
                        candidate.reference |= one.1.reference;
                        known.reference |= one.0.reference;
                    }
                }
            }
        }
        for (_, candidate) in &found {
            // Each is asked, so that it is known which hold for nothing.
            for path in &candidate.paths {
                self.keep.protect.holds(path);
            }
            self.keep.note(candidate, &mut self.patterns);
        }
        match self.grain {
            Grain::Files => self.decide(found),
            Grain::Folders => self.waiting.push(found),
        }
    }

    fn decide(&mut self, found: Files) {
        let candidates: Vec<Candidate> = found.iter().map(|(_, one)| one.clone()).collect();
        let stays = choose(&candidates, &self.keep);
        if self.keep.isolate {
            return self.decide_apart(found, &stays);
        }
        let (mut keepers, mut victims) = (Vec::new(), Vec::new());
        for ((member, _), stays) in found.into_iter().zip(stays) {
            if stays { keepers.push(member) } else { victims.push(member) }
        }
        if !keepers.is_empty() && !victims.is_empty() {
            self.plan.sets.push(PlannedSet { keepers, victims });
        }
    }

    /// Files below one given path are no duplicates of each other: one goes for such as stay below another one, or it
    /// stays.
    fn decide_apart(&mut self, found: Files, stays: &[bool]) {
        let given = |(_, one): &(_, Candidate)| {
            one.paths.iter().map(|path| self.given(path)).collect::<BTreeSet<usize>>()
        };
        let given: Vec<_> = found.iter().map(given).collect();
        let mut sets: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for victim in (0..found.len()).filter(|at| !stays[*at]) {
            let is_elsewhere = |keeper: &usize| {
                given[victim].iter().all(|one| given[*keeper].iter().any(|other| other != one))
            };
            let keepers = (0..found.len()).filter(|at| stays[*at]).filter(is_elsewhere).collect();
            sets.entry(keepers).or_default().push(victim);
        }
        for (keepers, victims) in sets.into_iter().filter(|(keepers, _)| !keepers.is_empty()) {
            let members = |all: Vec<usize>| all.into_iter().map(|at| found[at].0.clone()).collect();
            self.plan
                .sets
                .push(PlannedSet { keepers: members(keepers), victims: members(victims) });
        }
    }

    /// The number of the given path that a file belongs to.
    fn given(&self, path: &[u8]) -> usize {
        let number = self.given.get(path).copied();
        number.or_else(|| Some(innermost(&self.plan.bases, path)?.0)).unwrap_or(usize::MAX)
    }

    /// Rules of `--keep` that hold for none of the files: perhaps somebody has mistyped them.
    pub fn idle_rules(&mut self) -> impl Iterator<Item = &String> {
        // They may hold for folders.
        self.settle();
        self.patterns.iter().filter(|(_, is)| !**is).map(|(text, _)| text)
    }

    /// The plan, and what is not in it.
    pub fn finish(mut self) -> (Plan, Vec<(Vec<u8>, Why)>) {
        self.settle();
        (self.plan, self.left_out)
    }

    /// Decides what has waited.
    fn settle(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let whole = std::mem::take(&mut self.whole);
        let (bases, patterns) = (&self.plan.bases, &mut self.patterns);
        let planned = trees::plan(&mut waiting, bases, &self.keep, whole, patterns);
        self.plan.sets.extend(planned);
        waiting.into_iter().for_each(|found| self.decide(found));
    }

    fn member(&mut self, size: u64, entry: &Entry) -> Option<(Member, Candidate)> {
        let mut seen: Option<Stat> = None;
        let (mut names, mut paths) = (Vec::new(), Vec::new());
        for path in &entry.paths {
            match self.look(path, size, seen.as_ref()) {
                Ok((place, stat, whole)) => {
                    seen.get_or_insert(stat);
                    names.push(place);
                    paths.push(whole);
                }
                Err(why) => self.left_out.push((path.clone(), why)),
            }
        }
        let stat = seen?;
        let root = names[0].root;
        let reference = entry.reference || names.iter().any(|name| self.plan.is_protected(name));
        let has_others = stat.st_nlink as usize > names.len();
        let frees = if has_others || reference {
            0
        } else {
            let next = u16::try_from(self.devices.len()).unwrap_or(u16::MAX);
            let device = *self.devices.entry(stat.st_dev).or_insert(next);
            self.sharing.own(&paths[0], device, stat.st_blocks.cast_unsigned() * 512)
        };
        let facts = Facts::new(&stat);
        let (inside, mtime) = (Vec::new(), facts.mtime);
        let candidate = Candidate { paths, inside, root, mtime, reference };
        Some((Member { names, facts, frees, tree: None, reference }, candidate))
    }

    /// As it is now, if it is what was listed.
    fn look(
        &mut self,
        path: &[u8],
        size: u64,
        other: Option<&Stat>,
    ) -> Result<(Place, Stat, Vec<u8>), Why> {
        let (place, whole) = self.place(path)?;
        let stat = statat(CWD, OsStr::from_bytes(&whole), AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|error| match error {
            Errno::NOENT => Why::Gone,
            error => Why::Failed("look at it", error),
        })?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Why::NotAFile);
        }
        if self.own.has(stat.st_dev, stat.st_ino) {
            return Err(Why::Own);
        }
        if let Some(why) = self.own.meets(&whole) {
            return Err(why);
        }
        let is_other = other.is_some_and(|other| !Facts::new(other).is_file(&Facts::new(&stat)));
        let is_other = is_other || self.recorded.is_other(path, &stat);
        if stat.st_size.cast_unsigned() != size || is_other {
            return Err(Why::Changed);
        }
        Ok((place, stat, whole))
    }

    fn place(&mut self, path: &[u8]) -> Result<(Place, Vec<u8>), Why> {
        let at = path.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = match at {
            None => (&b"."[..], path),
            Some(0) => (&b"/"[..], &path[1..]),
            Some(at) => (&path[..at], &path[at + 1..]),
        };
        if !self.folders.contains_key(folder) {
            let whole = std::fs::canonicalize(OsStr::from_bytes(folder));
            let whole = whole.map(|whole| OsString::from(whole).into_vec());
            let whole = whole.map_err(|error| match errno(&error) {
                Errno::NOENT | Errno::NOTDIR => Why::Gone,
                error => Why::Failed("look at its folder", error),
            });
            self.folders.insert(folder.to_vec(), whole);
        }
        let mut whole = self.folders[folder].clone()?;
        crate::folders::join(&mut whole, name);
        let (_, place) = innermost(&self.plan.bases, &whole).ok_or(Why::FolderIsLink)?;
        Ok((place, whole))
    }
}

/// What a plan for files below these is about; true: nothing below is ever touched.
pub fn bases(roots: &[Root]) -> Vec<(Base, bool)> {
    let mut bases: Vec<(Base, bool)> = Vec::new();
    for root in roots {
        // What is not there has nothing in it.
        let Ok((whole, is_folder)) = base_of(&root.path) else { continue };
        // Of a file that was given nothing follows for what lies beside it: it is marked itself.
        let is_reference = root.reference && is_folder;
        match bases.iter_mut().find(|(base, _)| base.path == whole.path) {
            Some((_, reference)) => *reference |= is_reference,
            None => bases.push((whole, is_reference)),
        }
    }
    bases
}

/// The whole path of a file that was given, as those that are found have it.
fn file_of(path: &Path) -> Option<Vec<u8>> {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let whole = base_of(path).ok().filter(|_| is_file)?;
    let mut whole = whole.0.path;
    crate::folders::join(&mut whole, path.file_name()?.as_bytes());
    Some(whole)
}

/// Without links, and whether it is that folder. Of a file, its folder.
fn base_of(path: &Path) -> io::Result<(Base, bool)> {
    let is_folder = std::fs::metadata(path)?.is_dir();
    let found = std::fs::symlink_metadata(path)?;
    let whole = if found.is_file() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).canonicalize()?
    } else {
        path.canonicalize()?
    };
    let whole =
        if whole.is_file() { whole.parent().unwrap_or(Path::new("/")).into() } else { whole };
    Ok((Base::of(whole.into_os_string().into_vec())?, is_folder))
}

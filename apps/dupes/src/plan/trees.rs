//! Whole folders of which another one has the same names and contents: they can go as one.
//!
//! What is equal follows from the sets, and from one listing of each folder that has files of sets in it: a folder in
//! which something is that is in no set is no duplicate. **The largest come first, and what was decided for
//! one holds for all that is in it**: nothing in a folder that stays goes, and nothing in one that goes is
//! planned again.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use super::rules::{Candidate, Keep, Patterns, Rule, choose, is_protected, is_told_apart};
use super::{Member, PlannedSet, innermost, is_below, ways_to};
use crate::act::aside;
use crate::act::facts::{Facts, Time};
use crate::act::ground::Base;
use crate::act::trees::Contents;
use crate::digest::{Algorithm, Digest, Hasher};

/// The files of a set.
pub(super) type Files = Vec<(Member, Candidate)>;

/// A file: the number of its set, and its own in there.
type Number = (usize, usize);

/// The class of all files without a byte.
const EMPTY: u64 = u64::MAX;

/// A folder with nothing in it that is in no set.
struct Folder {
    path: Vec<u8>,
    /// Of names and classes of all that is below.
    sign: Digest,
    /// Files and folders below: more than in any folder in it.
    entries: u64,
    /// Directly in it.
    files: Vec<Number>,
    /// Directly in it: numbers in the list.
    folders: Vec<usize>,
    newest: Time,
    stays: bool,
}

/// Sets of folders. What they decide of single files is taken out of `sets`, or marked to stay. What is in one of
/// `whole` does not go by itself: that has stayed for a folder that went, and a run that is made once more takes
/// nothing from it.
pub(super) fn plan(
    sets: &mut [Files],
    bases: &[(Base, bool)],
    keep: &Keep,
    whole: Paths,
    patterns: &mut Patterns,
) -> Vec<PlannedSet> {
    sets.iter_mut().for_each(|set| hold_what_patterns_choose(set, keep));
    let folders = Listing::new(sets, bases, keep).folders();
    let mut by_sign: HashMap<Digest, Vec<&Folder>> = HashMap::new();
    for folder in &folders {
        by_sign.entry(folder.sign).or_default().push(folder);
    }
    let mut groups: Vec<Vec<&Folder>> = by_sign.into_values().filter(|all| all.len() > 1).collect();
    groups.iter_mut().for_each(|all| all.sort_by(|one, other| one.path.cmp(&other.path)));
    groups.sort_by(|one, other| {
        other[0].entries.cmp(&one[0].entries).then_with(|| one[0].path.cmp(&other[0].path))
    });
    let mut decided = Decided {
        sets,
        bases,
        keep,
        folders: &folders,
        stay: Paths::default(),
        whole,
        go: Paths::default(),
        patterns,
    };
    let planned = groups.into_iter().filter_map(|all| decided.next(all)).collect();
    let Decided { stay, whole, go, .. } = decided;
    for set in sets.iter_mut() {
        for (member, candidate) in set.iter_mut() {
            let left = candidate.paths.iter().map(|path| !go.has(path)).collect::<Vec<_>>();
            keep_those(&mut member.names, &left);
            keep_those(&mut candidate.paths, &left);
            candidate.reference |=
                candidate.paths.iter().any(|path| stay.has(path) || whole.has(path));
        }
        set.retain(|(member, _)| !member.names.is_empty());
    }
    planned
}

/// **Where a pattern tells the files of a set apart, those that stay without folders stay with them**: no folder goes
/// with one of them in it, and none stays instead.
fn hold_what_patterns_choose(set: &mut Files, keep: &Keep) {
    let candidates: Vec<Candidate> = set.iter().map(|(_, one)| one.clone()).collect();
    if is_told_apart(&candidates, keep) {
        let stays = choose(&candidates, keep);
        set.iter_mut().zip(stays).for_each(|((_, one), stays)| one.reference |= stays);
    }
}

fn keep_those<T>(all: &mut Vec<T>, which: &[bool]) {
    let mut which = which.iter();
    all.retain(|_| *which.next().expect("one for each"));
}

/// What was decided so far.
struct Decided<'s> {
    sets: &'s [Files],
    bases: &'s [(Base, bool)],
    keep: &'s Keep,
    folders: &'s [Folder],
    stay: Paths,
    /// In the runs before.
    whole: Paths,
    go: Paths,
    patterns: &'s mut Patterns,
}

impl Decided<'_> {
    /// Which of equal folders stay and which go.
    fn next(&mut self, mut all: Vec<&Folder>) -> Option<PlannedSet> {
        all.retain(|folder| !self.go.has(&folder.path));
        let candidate = |folder: &&Folder| {
            let (root, _) = innermost(self.bases, &folder.path)?;
            let reference = folder.stays || self.is_in_one_that_stays(folder);
            let (paths, inside) = (vec![folder.path.clone()], self.inside(folder));
            Some(Candidate { paths, inside, root, mtime: folder.newest, reference })
        };
        let candidates: Vec<Candidate> = all.iter().map(candidate).collect::<Option<_>>()?;
        candidates.iter().for_each(|one| self.keep.note(one, self.patterns));
        let stays = choose(&candidates, self.keep);
        let (mut keepers, mut victims) = (Vec::new(), Vec::new());
        for (folder, stays) in all.into_iter().zip(stays) {
            if stays { keepers.push(folder) } else { victims.push(folder) }
        }
        // Hard links to what stays are no copies of it: these go file by file, if at all.
        let kept: HashSet<Number> = keepers.iter().flat_map(|it| self.files(it)).collect();
        victims.retain(|it| !self.files(it).iter().any(|number| kept.contains(number)));
        let members = |all: &[&Folder]| all.iter().map(|it| self.member(it)).collect::<Option<_>>();
        // Somebody is changing one of them just now: then nothing is planned for any.
        let set = PlannedSet { keepers: members(&keepers)?, victims: members(&victims)? };
        let extent = |it: &Member| it.tree.as_ref().map(|tree| tree.extent);
        let first = extent(set.keepers.first()?);
        if set.victims.is_empty() || set.members().any(|it| extent(it) != first) {
            return None;
        }
        self.stay.0.extend(keepers.iter().map(|folder| folder.path.clone()));
        self.go.0.extend(victims.iter().map(|folder| folder.path.clone()));
        Some(set)
    }

    /// One that has stayed before may go for another one that stays: with all that is in it.
    fn is_in_one_that_stays(&self, folder: &Folder) -> bool {
        let above = folder.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.stay.has(&folder.path) || self.whole.has(&folder.path[..above.max(1)])
    }

    /// The paths below it that patterns are put to.
    fn inside(&self, folder: &Folder) -> Vec<Vec<u8>> {
        if !self.keep.rules.iter().any(Rule::has_pattern) {
            return Vec::new();
        }
        let files = self.files(folder).into_iter();
        let paths = files.flat_map(|(set, file)| &self.sets[set][file].1.paths);
        paths.filter(|path| is_below(path, &folder.path)).cloned().collect()
    }

    fn member(&self, folder: &Folder) -> Option<Member> {
        let (_, place) = innermost(self.bases, &folder.path)?;
        let opened = OwnedFd::from(File::open(OsStr::from_bytes(&folder.path)).ok()?);
        let frees = self.files(folder).into_iter().map(|(set, file)| {
            let (member, candidate) = &self.sets[set][file];
            // Elsewhere it would still be there.
            let all_go = candidate.paths.iter().all(|path| is_below(path, &folder.path));
            if all_go { member.frees } else { 0 }
        });
        Some(Member {
            names: vec![place],
            facts: Facts::of(&opened).ok()?,
            frees: frees.sum(),
            reference: false, // nothing that stays as a folder is linked to
            tree: Some(Contents::of(&opened).ok()?.tree()),
        })
    }

    /// All below it, each once.
    fn files(&self, folder: &Folder) -> Vec<Number> {
        let (mut all, mut next) = (folder.files.clone(), folder.folders.clone());
        while let Some(number) = next.pop() {
            all.extend(&self.folders[number].files);
            next.extend(&self.folders[number].folders);
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Folders, for all that lies in them.
#[derive(Debug, Default)]
pub(super) struct Paths(HashSet<Vec<u8>>);

impl Paths {
    /// In full, without links.
    pub(super) fn of(all: impl IntoIterator<Item = Vec<u8>>) -> Paths {
        Paths(all.into_iter().collect())
    }

    /// Whether a path is one of them, or lies in one.
    fn has(&self, path: &[u8]) -> bool {
        !self.0.is_empty() && ways_to(path).any(|way| self.0.contains(way))
    }
}

// ---------------------------------------------------------------- what is in them

/// Looks into each folder that has files of sets in it, or somewhere below: the deepest first.
struct Listing<'s> {
    sets: &'s [Files],
    keep: &'s Keep,
    files: HashMap<&'s [u8], Number>,
    folders: Vec<Folder>,
    /// None: something is in there that is in no set.
    known: HashMap<Vec<u8>, Option<usize>>,
    next: Vec<Vec<u8>>,
}

impl<'s> Listing<'s> {
    fn new(sets: &'s [Files], bases: &[(Base, bool)], keep: &'s Keep) -> Listing<'s> {
        let mut files = HashMap::new();
        let mut next: HashSet<&[u8]> = HashSet::new();
        for (number, set) in sets.iter().enumerate() {
            for (at, (_, candidate)) in set.iter().enumerate() {
                for path in &candidate.paths {
                    files.insert(path.as_slice(), (number, at));
                    // From the inside out, until one is known.
                    let above = ways_to(path).skip(1).collect::<Vec<_>>();
                    above
                        .into_iter()
                        .rev()
                        .skip(1)
                        .take_while(|way| next.insert(way))
                        .for_each(drop);
                }
            }
        }
        // What was given is not what goes, nor is what it lies in.
        let may_go = |path: &[u8]| {
            innermost(bases, path).is_some()
                && !bases.iter().any(|(base, _)| is_below(&base.path, path))
        };
        let mut next: Vec<Vec<u8>> =
            next.into_iter().filter(|path| may_go(path)).map(<[u8]>::to_vec).collect();
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        next.sort_by(|one, other| depth(one).cmp(&depth(other)).then_with(|| other.cmp(one)));
        Listing { sets, keep, files, folders: Vec::new(), known: HashMap::new(), next }
    }

    fn folders(mut self) -> Vec<Folder> {
        while let Some(path) = self.next.pop() {
            let found = self.look(&path).map(|folder| {
                self.folders.push(folder);
                self.folders.len() - 1
            });
            self.known.insert(path, found);
        }
        self.folders
    }

    fn look(&self, path: &[u8]) -> Option<Folder> {
        let device = fs::metadata(OsStr::from_bytes(path)).ok()?.dev();
        let mut all: Vec<(Vec<u8>, fs::Metadata)> = Vec::new();
        for entry in fs::read_dir(OsStr::from_bytes(path)).ok()? {
            let entry = entry.ok()?;
            all.push((entry.file_name().into_vec(), entry.metadata().ok()?));
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        let mut hasher = Hasher::new(Algorithm::Blake3);
        let (mut files, mut folders, mut entries) = (Vec::new(), Vec::new(), all.len() as u64);
        let (mut newest, mut stays) = ((i64::MIN, 0), false);
        for (name, about) in all {
            let mut whole = path.to_vec();
            crate::folders::join(&mut whole, &name);
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(&name);
            stays |= self.keep.protect.holds(&whole);
            if about.is_dir() {
                if about.dev() != device {
                    return None;
                }
                match self.known.get(&whole) {
                    Some(number) => {
                        let number = (*number)?;
                        let below = &self.folders[number];
                        hasher.update(b"d");
                        hasher.update(below.sign.as_bytes());
                        entries += below.entries;
                        folders.push(number);
                        newest = newest.max(below.newest);
                        stays |= below.stays;
                    }
                    // No file of a set is below it.
                    None if fs::read_dir(OsStr::from_bytes(&whole)).ok()?.next().is_none() => {
                        hasher.update(b"e");
                    }
                    None => return None,
                }
            } else if about.is_file() {
                let class = match self.files.get(whole.as_slice()) {
                    Some(number) => {
                        let candidate = &self.sets[number.0][number.1].1;
                        newest = newest.max(candidate.mtime);
                        // By any of its names, which may lie elsewhere.
                        stays |= candidate.reference || is_protected(candidate, self.keep);
                        files.push(*number);
                        number.0 as u64
                    }
                    None if about.len() == 0 && !aside::is_one(&name) => EMPTY,
                    None => return None,
                };
                hasher.update(b"f");
                hasher.update(&class.to_le_bytes());
            } else {
                return None;
            }
        }
        let (path, sign) = (path.to_vec(), hasher.finish());
        Some(Folder { path, sign, entries, files, folders, newest, stays })
    }
}

#[cfg(test)]
mod tests;

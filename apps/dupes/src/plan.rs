//! What is to be done: for each set the files that stay and those that go, each with what was known of it.
//!
//! A plan is a hint. It says what somebody wants, and by what a file is known again; whether two files are
//! equal is decided by their bytes, when it is carried out.

mod file;
mod maker;
mod protect;
mod references;
mod rules;
mod trees;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

pub use self::file::{is_one, read, write};
pub use self::maker::{Grain, Maker, bases};
pub use self::protect::{Guard, Protect, guard};
pub use self::references::References;
pub use self::rules::{Candidate, Keep, Rule, glob, rule};
use crate::act::deed::Extent;
use crate::act::facts::Facts;
use crate::act::ground::{Base, Place};
use crate::digest::Digest;
use crate::escape::escaped;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What places refer to, by number; true: nothing below is ever touched.
    pub bases: Vec<(Base, bool)>,
    /// In the order in which they are carried out.
    pub sets: Vec<PlannedSet>,
}

/// Files with the same content, or folders that have the same names and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSet {
    /// These stay: at least one. The first that is as it was is compared with, and linked to.
    pub keepers: Vec<Member>,
    /// These go: at least one.
    pub victims: Vec<Member>,
}

/// A file, with all of its names that are known; or a whole folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// At least one; of a folder just one.
    pub names: Vec<Place>,
    /// By what it is known again.
    pub facts: Facts,
    /// Bytes on disk that come free when all of its names are gone; 0 if it has others, or shares them.
    pub frees: u64,
    /// It is a folder, with this in it.
    pub tree: Option<Tree>,
    /// It, or what it is in, was given with `--reference`: nothing about it ever changes.
    pub reference: bool,
}

impl Member {
    /// Of the file, or of all files.
    pub fn bytes(&self) -> u64 {
        self.tree.as_ref().map_or(self.facts.size, |tree| tree.extent.bytes)
    }
}

/// What is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// How much.
    pub extent: Extent,
    /// Of the names, inodes, sizes and mtimes of all that is below it.
    pub stamp: Digest,
}

impl PlannedSet {
    /// All of them.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.keepers.iter().chain(&self.victims)
    }
}

/// Why a plan is not carried out.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsound(String);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsound {}

impl Unsound {
    fn set(what: &str, number: usize) -> Unsound {
        Unsound(format!("set {} of the plan {what}: nothing was done", number + 1))
    }
}

const BELOW_REFERENCE: &str = "would touch what lies below a reference";

impl Plan {
    /// **No file both stays and goes, none goes twice, and none goes that lies where nothing is to be touched.**
    /// A plan may have been written by anybody.
    pub fn check(&self) -> Result<(), Unsound> {
        let wrong = |what: &str, number: usize| Err(Unsound::set(what, number));
        let key = |member: &Member| (member.facts.device, member.facts.inode);
        let keepers = self.sets.iter().flat_map(|set| &set.keepers);
        let kept_names: HashSet<&Place> = keepers.clone().flat_map(|it| &it.names).collect();
        let kept: HashSet<(u64, u64)> = keepers.map(key).collect();
        let (mut gone, mut gone_names) = (HashSet::new(), HashSet::new());
        for (number, set) in self.sets.iter().enumerate() {
            if set.keepers.is_empty() || set.victims.is_empty() {
                return wrong("has no file that stays, or none that goes", number);
            }
            let extent = |it: &Member| it.tree.as_ref().map(|tree| tree.extent);
            let (size, kind) = (set.keepers[0].facts.size, extent(&set.keepers[0]));
            let fits = |it: &Member| match kind {
                None => !it.names.is_empty() && it.tree.is_none() && it.facts.size == size,
                Some(_) => it.names.len() == 1 && extent(it) == kind,
            };
            if !set.members().all(fits) {
                return wrong("has files of two sizes, or one without a name", number);
            }
            for victim in &set.victims {
                if kept.contains(&key(victim)) || !gone.insert(key(victim)) {
                    return wrong("has a file that stays elsewhere, or goes twice", number);
                }
                if victim.reference {
                    return wrong(BELOW_REFERENCE, number);
                }
                for name in &victim.names {
                    if kept_names.contains(name) || !gone_names.insert(name) {
                        return wrong("has a path that stays elsewhere, or goes twice", number);
                    }
                    if self.is_protected(name) {
                        return wrong(BELOW_REFERENCE, number);
                    }
                }
            }
        }
        self.check_trees()
    }

    /// **What is in a folder that goes neither stays nor goes by itself; nothing goes that is in a folder that
    /// stays.**
    fn check_trees(&self) -> Result<(), Unsound> {
        let trees = |members: fn(&PlannedSet) -> &[Member]| {
            let all = self.sets.iter().flat_map(members).filter(|it| it.tree.is_some());
            all.filter_map(|it| self.whole(&it.names[0])).collect::<HashSet<_>>()
        };
        let (stay, go) = (trees(|set| &set.keepers), trees(|set| &set.victims));
        let in_one_of = |folders: &HashSet<Vec<u8>>, path: &[u8]| {
            ways_to(path).any(|way| way != path && folders.contains(way))
        };
        if self.bases.iter().any(|(base, _)| go.contains(&base.path) || in_one_of(&go, &base.path))
        {
            return Err(Unsound(
                "a folder goes that holds a path of the plan: nothing was done".into(),
            ));
        }
        if stay.is_empty() && go.is_empty() {
            return Ok(());
        }
        for (number, set) in self.sets.iter().enumerate() {
            let paths = |members: &[Member]| {
                let names = members.iter().flat_map(|it| &it.names);
                names.filter_map(|place| self.whole(place)).collect::<Vec<_>>()
            };
            let (kept, gone) = (paths(&set.keepers), paths(&set.victims));
            let is_wrong = kept.iter().chain(&gone).any(|path| in_one_of(&go, path))
                || gone.iter().any(|path| in_one_of(&stay, path));
            if is_wrong {
                return Err(Unsound(format!(
                    "set {} of the plan has what lies in a folder that goes, or takes something from one \
                     that stays: nothing was done",
                    number + 1
                )));
            }
        }
        Ok(())
    }

    /// What only shows where it is carried out. **A base is the real path of its folder, and nothing goes that a mount
    /// shows below a reference**: all that goes by paths holds for one path only. Keepers that are references are
    /// known to be that then.
    pub fn check_ground(&mut self) -> Result<(), Unsound> {
        for (base, _) in &self.bases {
            // What is not there is refused with its sets.
            let Ok(real) = std::fs::canonicalize(OsStr::from_bytes(&base.path)) else { continue };
            if real.as_os_str().as_bytes() != base.path {
                let (path, real) = (escaped(&base.path), escaped(real.as_os_str().as_bytes()));
                return Err(Unsound(format!(
                    "the plan names {path}, which is {real} by its real path: nothing was done"
                )));
            }
        }
        let mut references = References::of(&self.bases);
        let mut is_held = |member: &Member| {
            member.names.iter().any(|name| match (self.whole(name), &member.tree) {
                (Some(path), Some(_)) => references.hold(&path, true),
                (Some(path), None) => references.hold(folder_of(&path), false),
                (None, _) => true,
            })
        };
        let mut held = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            if set.victims.iter().any(&mut is_held) {
                return Err(Unsound::set(BELOW_REFERENCE, number));
            }
            held.extend(set.keepers.iter().map(&mut is_held));
        }
        let keepers = self.sets.iter_mut().flat_map(|set| &mut set.keepers);
        keepers.zip(held).for_each(|(keeper, is_held)| keeper.reference |= is_held);
        Ok(())
    }

    /// In full.
    fn whole(&self, place: &Place) -> Option<Vec<u8>> {
        let mut path = self.bases.get(place.root)?.0.path.clone();
        crate::folders::join(&mut path, &place.path);
        Some(path)
    }

    fn is_protected(&self, place: &Place) -> bool {
        let Some(path) = self.whole(place) else { return true };
        let (_, reference) = &self.bases[place.root];
        let lies_below = |(base, is): &&(Base, bool)| *is && is_below(&path, &base.path);
        *reference || self.bases.iter().find(lies_below).is_some()
    }

    /// Of all files that go: bytes on disk.
    pub fn frees(&self) -> u64 {
        self.victims().fold(0, |sum, (_, victim)| victim.frees.saturating_add(sum))
    }

    /// Each with its set.
    pub fn victims(&self) -> impl Iterator<Item = (&PlannedSet, &Member)> {
        self.sets.iter().flat_map(|set| set.victims.iter().map(move |victim| (set, victim)))
    }
}

/// Whether a path lies below a folder, or is that folder.
pub fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// What a path lies in.
fn folder_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..end.max(1)]
}

/// The innermost folder that a path lies below, which crosses the fewest mounts: its number, and the place.
fn innermost(bases: &[(Base, bool)], path: &[u8]) -> Option<(usize, Place)> {
    let above = bases.iter().enumerate().filter(|(_, (base, _))| is_below(path, &base.path));
    let (root, (base, _)) = above.max_by_key(|(_, (base, _))| base.path.len())?;
    let from = base.path.strip_suffix(b"/").unwrap_or(&base.path).len() + 1;
    Some((root, Place::new(root, path.get(from..).unwrap_or_default().to_vec())?))
}

/// `/`, `/a`, `/a/b` of `/a/b`.
pub fn ways_to(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let ends = ends.map(|at| at.max(1)).chain([path.len()]);
    let mut last = 0;
    ends.filter(move |end| std::mem::replace(&mut last, *end) != *end).map(|end| &path[..end])
}

#[cfg(test)]
mod tests;

//! What lies below a reference, by whatever path: a bind mount shows the same files under another one.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{is_below, ways_to};
use crate::act::ground::Base;
use crate::mounts::Place;

/// The folders below which nothing is ever touched.
#[derive(Debug)]
pub struct References {
    /// In full, each with where its file system has it, if the kernel says so.
    all: Vec<(Vec<u8>, Option<Place>)>,
    /// By these they are known where they have another path since.
    numbers: HashSet<(u64, u64)>,
    /// Folders that were asked for: whether one of them is that folder.
    seen: HashMap<Vec<u8>, bool>,
    /// As the kernel lists them.
    mounts: Vec<u8>,
    /// Folders that were asked for.
    known: HashMap<Vec<u8>, Option<Place>>,
}

impl References {
    /// Those among these.
    pub fn of(bases: &[(Base, bool)]) -> References {
        let bases = || bases.iter().filter(|(_, is)| *is).map(|(base, _)| base);
        let mounts = if bases().next().is_none() { Vec::new() } else { Place::mounts() };
        let place = |path: &[u8]| Place::among(&mounts, Path::new(OsStr::from_bytes(path)));
        let all = bases().map(|base| (base.path.clone(), place(&base.path))).collect();
        let numbers = bases().map(|base| (base.device, base.inode)).collect();
        References { all, numbers, mounts, seen: HashMap::new(), known: HashMap::new() }
    }

    /// Whether one of them is that very folder.
    fn are(&mut self, folder: &[u8]) -> bool {
        if let Some(is) = self.seen.get(folder) {
            return *is;
        }
        let found = fs::symlink_metadata(OsStr::from_bytes(folder));
        let is = found.is_ok_and(|found| self.numbers.contains(&(found.dev(), found.ino())));
        self.seen.insert(folder.to_vec(), is);
        is
    }

    /// Whether a folder, in full, is one of them or lies below one; one that goes as a whole, also whether it has one
    /// in it.
    pub fn hold(&mut self, folder: &[u8], goes: bool) -> bool {
        if self.all.is_empty() {
            return false;
        }
        if ways_to(folder).any(|way| self.are(way)) {
            return true;
        }
        if !self.known.contains_key(folder) {
            let place = Place::among(&self.mounts, Path::new(OsStr::from_bytes(folder)));
            self.known.insert(folder.to_vec(), place);
        }
        let place = self.known[folder].as_ref();
        if place.is_none() && self.all.iter().any(|(_, place)| place.is_some()) {
            // What is not there is not touched. Of anything else that can't be told nobody knows.
            let found = fs::symlink_metadata(OsStr::from_bytes(folder)).map_err(|it| it.kind());
            if !matches!(found, Err(ErrorKind::NotFound | ErrorKind::NotADirectory)) {
                return true;
            }
        }
        self.all.iter().any(|(path, reference)| {
            let meets = |(place, reference): (&Place, &Place)| {
                place.is_in(reference) || goes && reference.is_in(place)
            };
            is_below(folder, path)
                || goes && is_below(path, folder)
                || place.zip(reference.as_ref()).is_some_and(meets)
        })
    }
}

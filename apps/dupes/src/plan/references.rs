//! What lies below a reference, by whatever path: a bind mount shows the same files under another one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::is_below;
use crate::act::ground::Base;
use crate::mounts::Place;

/// The folders below which nothing is ever touched.
#[derive(Debug)]
pub struct References {
    /// In full, each with where its file system has it, if the kernel says so.
    all: Vec<(Vec<u8>, Option<Place>)>,
    /// As the kernel lists them.
    mounts: Vec<u8>,
    /// Folders that were asked for.
    known: HashMap<Vec<u8>, Option<Place>>,
}

impl References {
    /// Those among these.
    pub fn of(bases: &[(Base, bool)]) -> References {
        let paths = bases.iter().filter(|(_, is)| *is).map(|(base, _)| base.path.clone());
        let paths: Vec<Vec<u8>> = paths.collect();
        let mounts = if paths.is_empty() { Vec::new() } else { Place::mounts() };
        let place = |path: &[u8]| Place::among(&mounts, Path::new(OsStr::from_bytes(path)));
        let all = paths.into_iter().map(|path| (place(&path), path));
        References {
            all: all.map(|(place, path)| (path, place)).collect(),
            mounts,
            known: HashMap::new(),
        }
    }

    /// Whether a folder, in full, is one of them or lies below one; one that goes as a whole, also whether it has one
    /// in it.
    pub fn hold(&mut self, folder: &[u8], goes: bool) -> bool {
        if self.all.is_empty() {
            return false;
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

//! What belongs to `dupes` itself: the database, the journals and what is in quarantines. Who acts leaves it alone: a
//! journal that was removed as somebody's copy would take the way back with it, and what was removed is no copy
//! that stays.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::act::aside;
use crate::act::ground::Base;
use crate::act::quarantine;
use crate::act::why::Why;
use crate::plan::is_below;
use crate::{journal, store};

/// All of it, as it is now.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Files, and the folder of the journals: devices and inodes.
    ids: HashSet<(u64, u64)>,
    /// In full, without links.
    paths: Vec<Vec<u8>>,
    /// The folder that files are moved to, if it lies where they come from.
    target: Option<Vec<u8>>,
}

impl Own {
    /// These, and those that are used if nobody says otherwise.
    pub fn new(shelf: Option<&Path>, database: Option<&Path>) -> Own {
        let mut own = Own::default();
        let (usual_shelf, usual_database) = (journal::usual_path(), store::usual_path());
        for folder in [shelf, usual_shelf.as_deref()].into_iter().flatten() {
            own.add(folder);
            // They may have other names elsewhere.
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            files.for_each(|entry| own.add_file(&entry.path()));
        }
        for file in [database, usual_database.as_deref()].into_iter().flatten() {
            store::files_of(file).iter().for_each(|path| own.add(path));
        }
        own
    }

    fn add(&mut self, path: &Path) {
        self.add_file(path);
        self.paths.extend(path.canonicalize().map(|whole| whole.into_os_string().into_vec()));
    }

    fn add_file(&mut self, path: &Path) {
        // What is not there need not be left alone.
        if let Ok(found) = fs::metadata(path) {
            self.ids.insert((found.dev(), found.ino()));
        }
    }

    /// Devices and inodes.
    pub fn ids(&self) -> Vec<(u64, u64)> {
        self.ids.iter().copied().collect()
    }

    /// Whether a file is of these.
    pub fn has(&self, device: u64, inode: u64) -> bool {
        self.ids.contains(&(device, inode))
    }

    /// What was moved is to stay where it was moved to, and is no reason to move what has stayed. Whether `to` lies
    /// below one of these bases.
    pub fn add_target(&mut self, to: &Base, bases: &[(Base, bool)]) -> bool {
        let is_met = bases.iter().any(|(base, _)| is_below(&to.path, &base.path));
        if is_met {
            self.ids.insert((to.device, to.inode));
            self.target = Some(to.path.clone());
        }
        is_met
    }

    /// Why what is at a path neither goes nor stays for another: it lies in one of these or in a quarantine, or one of
    /// these in it; or it is what a run has put aside.
    pub fn meets(&self, path: &[u8]) -> Option<Why> {
        if aside::is_one(path) {
            return Some(Why::PutAside);
        }
        let meets = |own: &Vec<u8>| is_below(path, own) || is_below(own, path);
        if quarantine::holds(path) || self.paths.iter().any(meets) {
            return Some(Why::Own);
        }
        self.target.as_ref().is_some_and(meets).then_some(Why::Target)
    }
}

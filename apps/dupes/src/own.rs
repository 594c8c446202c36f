//! What belongs to `dupes` itself: the database and the journals. Who acts leaves it alone: a journal that was
//! removed as somebody's copy would take the way back with it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::plan::is_below;
use crate::{journal, store};

/// All of it, as it is now.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Files, and the folder of the journals: devices and inodes.
    ids: HashSet<(u64, u64)>,
    /// In full, without links.
    paths: Vec<Vec<u8>>,
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

    /// Whether a path lies in one of these, or one of these in it.
    pub fn meets(&self, path: &[u8]) -> bool {
        self.paths.iter().any(|own| is_below(path, own) || is_below(own, path))
    }
}

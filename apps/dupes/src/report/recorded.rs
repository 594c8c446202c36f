//! What was seen of the files of a set when they were recorded: for who acts on what is there now.

use std::collections::HashMap;

use rusqlite::params;
use rustix::fs::Stat;

use super::Place;
use crate::folders::Seen;
use crate::listing::Set;
use crate::store::rows::FileRow;
use crate::store::{Error, Store};

/// Asked for the files of sets alone: another column in the index would cost every report its room.
const FILE: &str = "SELECT ifnull(files.device, folders.device), inode, size, blocks, links, mtime, ctime, racy, \
    sample, hash, files.error FROM files JOIN folders ON folders.id = folder WHERE folder = ?1 AND files.name = ?2";

/// By path.
#[derive(Debug, Default)]
pub struct Recorded(HashMap<Vec<u8>, (Seen, u64)>);

impl Recorded {
    /// All names of a set, with their places as they were handed over with it.
    pub fn of(store: &Store, set: &Set, places: &[Place]) -> Result<Recorded, Error> {
        let mut all = HashMap::new();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = store.connection().prepare_cached(FILE)?;
            for (file, place) in set.files.iter().zip(places) {
                for (path, folder) in file.paths.iter().zip(&place.folders) {
                    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                    let key = params![folder, name];
                    let row = statement.query_row(key, |row| FileRow::read(row, 0))?;
                    let device = row.device.unwrap_or(0);
                    all.insert(path.clone(), (Seen::recorded(&row, 0), device));
                }
            }
            Ok(())
        };
        store.wrap(read())?;
        Ok(Recorded(all))
    }

    /// Whether what is at a path now is something else. Of what was not recorded nobody knows.
    pub fn is_other(&self, path: &[u8], now: &Stat) -> bool {
        self.0.get(path).is_some_and(|(seen, device)| !seen.is_still(now, *device))
    }
}

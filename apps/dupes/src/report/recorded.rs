//! What was seen of the files of a set when they were recorded: for who acts on what is there now.

use std::collections::HashMap;

use rusqlite::params;
use rustix::fs::Stat;

use super::Place;
use crate::act::deed::Again;
use crate::act::facts::Facts;
use crate::act::{Before, before};
use crate::folders::Seen;
use crate::journal::NO_TIME;
use crate::listing::Set;
use crate::store::rows::FileRow;
use crate::store::{Error, Store};

/// Asked for the files of sets alone: another column in the index would cost every report its room.
const FILE: &str = "SELECT ifnull(files.device, folders.device), inode, size, blocks, links, mtime, ctime, racy, \
    sample, hash, files.error FROM files JOIN folders ON folders.id = folder WHERE folder = ?1 AND files.name = ?2";

/// In ns.
const SECOND: i64 = 1_000_000_000;

/// By path.
#[derive(Debug, Default)]
pub struct Recorded(HashMap<Vec<u8>, Known>);

#[derive(Debug)]
struct Known {
    seen: Seen,
    device: u64,
    /// What it is since a run has put it back.
    again: Option<Facts>,
}

impl Recorded {
    /// All names of a set, with their places as they were handed over with it.
    pub fn of(
        store: &Store,
        (set, places): (&Set, &[Place]),
        put_back: &HashMap<Before, Again>,
    ) -> Result<Recorded, Error> {
        let mut all = HashMap::new();
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = store.connection().prepare_cached(FILE)?;
            for (file, place) in set.files.iter().zip(places) {
                for (path, folder) in file.paths.iter().zip(&place.folders) {
                    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                    let key = params![folder, name];
                    let row = statement.query_row(key, |row| FileRow::read(row, 0))?;
                    all.insert(path.clone(), Known::of(&row, put_back));
                }
            }
            Ok(())
        };
        store.wrap(read())?;
        Ok(Recorded(all))
    }

    /// Whether what is at a path now is something else. Of what was not recorded nobody knows.
    pub fn is_other(&self, path: &[u8], now: &Stat) -> bool {
        self.0.get(path).is_some_and(|known| !known.is(now))
    }
}

impl Known {
    fn of(row: &FileRow, put_back: &HashMap<Before, Again>) -> Known {
        let device = row.device.unwrap_or(0);
        let time = |all: i64| (all.div_euclid(SECOND), all.rem_euclid(SECOND) as u32);
        let (mtime, ctime) = (time(row.mtime), time(row.ctime));
        let facts = Facts { device, inode: row.inode, size: row.size, mtime, ctime };
        let again = put_back.get(&before(&facts));
        let again = again.map(|it| Facts { inode: it.inode, ctime: it.ctime, ..facts });
        Known { seen: Seen::recorded(row, 0), device, again }
    }

    fn is(&self, now: &Stat) -> bool {
        let facts = Facts::new(now);
        // Nobody could look at what was put back.
        let is_again =
            |again: &Facts| facts == *again || again.ctime == NO_TIME && facts.is_as_written(again);
        self.seen.is_still(now, self.device) || self.again.as_ref().is_some_and(is_again)
    }
}

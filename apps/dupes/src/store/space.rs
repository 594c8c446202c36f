//! What folders take on disk: all of them, in one pass over folders and one over files.

use std::collections::HashSet;
use std::ops::AddAssign;

use rusqlite::Connection;

use super::roots::Presence;
use super::{Error, Store};

/// No folder has this number.
const NONE: u32 = u32::MAX;

/// Whatever lies in another one has a higher number.
const FOLDERS: &str =
    "SELECT id, parent, device, root FROM folders WHERE removed IS NULL ORDER BY id";

/// In the order of the table: the files of a folder lie together.
const FILES: &str = "SELECT folder, size, blocks, links, device, inode FROM files
    WHERE removed IS NULL ORDER BY folder, name";

/// What some files amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Names of files.
    pub files: u64,
    /// Bytes in the files of all names.
    pub bytes: u64,
    /// Bytes on disk; of a file with several names, only at the first of them.
    pub on_disk: u64,
    /// Of these, in files that have an equal one.
    pub copied: u64,
    /// Of these, what would come free.
    pub reclaimable: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.on_disk += other.on_disk;
        self.copied += other.copied;
        self.reclaimable += other.reclaimable;
    }
}

/// All folders that are there, by number: about 60 bytes each, and 24 for each file with several names
/// while they are counted.
#[derive(Debug, Default)]
pub struct Space {
    /// As the database numbers them, rising; so what a folder lies in comes before it.
    ids: Vec<i64>,
    parents: Vec<u32>,
    /// What lies in the folder itself.
    own: Vec<Amount>,
}

impl Store {
    /// Counts; nothing is copied or reclaimable yet.
    pub fn space(&self) -> Result<Space, Error> {
        let offline = self.roots()?.into_iter().filter(|root| root.presence() == Presence::Offline);
        let offline = offline.map(|root| root.id).collect();
        self.wrap(count(self.connection(), &offline))
    }
}

/// What inodes are numbers in: a device, and a root if that is offline, since then another one may have got
/// the number of the device.
type Numbers = (Option<i64>, Option<i64>);

fn count(connection: &Connection, offline: &HashSet<i64>) -> rusqlite::Result<Space> {
    let (mut space, mut devices) = (Space::default(), Vec::new());
    let mut statement = connection.prepare(FOLDERS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let parent = row.get::<_, Option<i64>>(1)?.map(|parent| space.number(parent));
        if parent == Some(None) {
            continue; // what hangs in the air is for `verify`
        }
        space.ids.push(row.get(0)?);
        space.parents.push(parent.flatten().unwrap_or(NONE));
        let root = Some(row.get(3)?).filter(|root| offline.contains(root));
        devices.push((row.get(2)?, root));
    }
    space.own.resize(space.ids.len(), Amount::default());
    count_files(connection, &mut space, &devices)?;
    Ok(space)
}

fn count_files(
    connection: &Connection,
    space: &mut Space,
    devices: &[Numbers],
) -> rusqlite::Result<()> {
    let mut seen = HashSet::new();
    let mut last = (i64::MIN, None);
    let mut statement = connection.prepare(FILES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let folder = row.get(0)?;
        if folder != last.0 {
            last = (folder, space.number(folder));
        }
        let Some(number) = last.1 else { continue };
        let size = row.get::<_, i64>(1)?.cast_unsigned();
        let is_first = row.get::<_, u16>(3)? < 2 || {
            let (device, root) = devices[number as usize];
            seen.insert((row.get::<_, Option<i64>>(4)?.or(device), root, row.get::<_, i64>(5)?))
        };
        let on_disk = if is_first { row.get::<_, i64>(2)?.cast_unsigned() * 512 } else { 0 };
        space.own[number as usize] +=
            Amount { files: 1, bytes: size, on_disk, ..Amount::default() };
    }
    Ok(())
}

impl Space {
    /// How many folders there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Of the folder that the database numbers so.
    pub fn number(&self, id: i64) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|at| at as u32) // fewer than files, which are numbered so, too
    }

    /// As the database numbers it.
    pub fn id(&self, folder: u32) -> i64 {
        self.ids[folder as usize]
    }

    /// What it lies in; None: it is a root.
    pub fn parent(&self, folder: u32) -> Option<u32> {
        Some(self.parents[folder as usize]).filter(|parent| *parent != NONE)
    }

    /// What lies in the folder itself.
    pub fn own(&self, folder: u32) -> Amount {
        self.own[folder as usize]
    }

    /// More of what lies in the folder itself.
    pub fn add(&mut self, folder: u32, amount: Amount) {
        self.own[folder as usize] += amount;
    }

    /// Of each folder, what lies anywhere below it.
    pub fn below(&self) -> Vec<Amount> {
        let mut below = self.own.clone();
        for folder in (0..below.len()).rev() {
            let amount = below[folder];
            if let Some(parent) = self.parent(folder as u32) {
                below[parent as usize] += amount;
            }
        }
        below
    }

    /// Of each folder, how many lie directly in it.
    pub fn children(&self) -> Vec<u32> {
        let mut children = vec![0; self.len()];
        let inner = self.parents.iter().filter(|parent| **parent != NONE);
        inner.for_each(|parent| children[*parent as usize] += 1);
        children
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(rows: &str) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        let folders = "INSERT INTO roots (id, path, words, added, device, inode) VALUES (1, x'2f', '[]', 0, NULL, NULL);
            INSERT INTO folders VALUES (3, 1, NULL, x'', 7, 0, NULL, NULL),
                (5, 1, 3, x'61', 7, 0, NULL, NULL), (9, 1, 5, x'62', 7, 0, NULL, NULL),
                (10, 1, 3, x'63', 7, 0, NULL, 1);";
        store.connection().execute_batch(folders).unwrap();
        store.connection().execute_batch(rows).unwrap();
        (dir, store)
    }

    fn amount(files: u64, bytes: u64, blocks: u64) -> Amount {
        Amount { files, bytes, on_disk: blocks * 512, ..Amount::default() }
    }

    #[test]
    fn what_lies_below_is_added_up() {
        let (_dir, store) = store(
            "INSERT INTO files VALUES (3, x'61', NULL, 1, 10, 8, 1, 1, 1, 0, NULL, NULL, NULL, NULL),
            (9, x'61', NULL, 2, 20, 16, 1, 1, 1, 0, NULL, NULL, NULL, NULL),
            (9, x'62', NULL, 3, 40, 32, 1, 1, 1, 0, NULL, NULL, NULL, NULL),
            (9, x'63', NULL, 4, 80, 64, 1, 1, 1, 0, NULL, NULL, NULL, 5)",
        );
        let space = store.space().unwrap();
        assert_eq!(space.len(), 3, "what is gone takes nothing");
        assert_eq!(space.own, [amount(1, 10, 8), amount(0, 0, 0), amount(2, 60, 48)]);
        assert_eq!(space.below(), [amount(3, 70, 56), amount(2, 60, 48), amount(2, 60, 48)]);
        assert_eq!(
            (space.children(), space.number(9), space.number(10)),
            (vec![1, 1, 0], Some(2), None)
        );
    }

    #[test]
    fn a_file_with_two_names_takes_its_blocks_once() {
        let (_dir, store) = store(
            "INSERT INTO files VALUES (5, x'61', NULL, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL),
            (9, x'61', NULL, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL),
            (9, x'62', 8, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL)",
        );
        let space = store.space().unwrap();
        let elsewhere = amount(2, 20, 8); // the same number on another device is another file
        assert_eq!(space.own, [amount(0, 0, 0), amount(1, 10, 8), elsewhere]);
    }

    #[test]
    fn a_root_that_is_offline_shares_no_file_with_others() {
        let (_dir, store) = store(
            "INSERT INTO roots (id, path, words, added, device, inode) VALUES (2, x'2f00', '[]', 0, NULL, NULL);
            INSERT INTO folders VALUES (11, 2, NULL, x'', 7, 0, NULL, NULL);
            INSERT INTO files VALUES (5, x'61', NULL, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL),
            (11, x'61', NULL, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL),
            (11, x'62', NULL, 1, 10, 8, 2, 1, 1, 0, NULL, NULL, NULL, NULL)",
        );
        let own = store.space().unwrap().own;
        assert_eq!(own, [amount(0, 0, 0), amount(1, 10, 8), amount(0, 0, 0), amount(2, 20, 8)]);
    }
}

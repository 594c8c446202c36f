//! What a report of folders looks through: all folders and files that are there, as trees.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use rusqlite::Connection;

use super::contents::{self, Contents, Ways};
use super::paths::Paths;
use crate::alike::{Facts, Trees};
use crate::store::roots::{AWAY, Presence, Root};

/// A folder that was not listed whole, or of which something is recorded nowhere, is not fully known. By an
/// index: whatever lies in another one has a higher number, and so comes after it.
const FOLDERS: &str =
    "SELECT id, parent, name, error IS NULL AND left_out = 0 AND device IS NOT NULL, device, root, error
    FROM folders WHERE removed IS NULL ORDER BY parent, name";

const FILES: &str =
    "SELECT folder, name, size, mtime, blocks, hash, sample, device, inode, ctime, links
    FROM files WHERE removed IS NULL ORDER BY folder, name";

/// What is below all roots.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) trees: Trees,
    /// Of folders, by those of the database.
    pub(super) numbers: HashMap<i64, u32>,
    /// And the other way round.
    pub(super) ids: Vec<i64>,
    /// Of each: its device, and its root.
    places: Vec<(Option<i64>, i64)>,
    /// Which files of the database are none of these, in its order: other ways to one that is.
    pub(super) further: Vec<u32>,
}

impl Gathered {
    pub(super) fn new(connection: &Connection, roots: &[Root]) -> rusqlite::Result<Gathered> {
        let mut gathered = Gathered::default();
        gathered.add_folders(connection, roots)?;
        gathered.add_files(connection, roots)?;
        Ok(gathered)
    }

    /// In tree order, roots by their paths and siblings by their names: whatever was scanned first, the
    /// same tree is told in the same way.
    fn add_folders(&mut self, connection: &Connection, roots: &[Root]) -> rusqlite::Result<()> {
        let offline = roots.iter().filter(|root| root.presence() == Presence::Offline);
        let offline: HashSet<i64> = offline.map(|root| root.id).collect();
        let rows = Rows::new(connection)?;
        let mut numbers = vec![0; rows.all.len()];
        for at in rows.in_tree_order(roots) {
            let (row, name) = (&rows.all[at as usize], rows.name(at));
            let above = numbers.get(row.above as usize).copied();
            let number = match above {
                None if offline.contains(&row.root) => {
                    self.trees.add_offline_root(name, row.is_known)
                }
                // What was mounted there is a tree of its own, and what it lay in is not all there.
                Some(above) if row.is_away && self.trees.is_online(above) => {
                    self.trees.doubt(above);
                    self.trees.add_offline_root(name, row.is_known)
                }
                above => self.trees.add_folder(above, name, row.is_known),
            };
            numbers[at as usize] = number;
            self.numbers.insert(row.id, number);
            self.ids.push(row.id);
            self.places.push((row.device, row.root));
        }
        Ok(())
    }

    fn add_files(&mut self, connection: &Connection, roots: &[Root]) -> rusqlite::Result<()> {
        let (mut contents, mut ways) = (Contents::new(connection)?, Ways::default());
        let of_another_time = roots.iter().filter(|root| !root.has_its_numbers());
        let of_another_time: HashSet<i64> = of_another_time.map(|root| root.id).collect();
        let mut files = 0;
        let Gathered { trees, numbers, ids, places, further } = self;
        let mut here = Here::new(connection, roots);
        each_file(connection, FILES, numbers, |folder, name, row| {
            let (device, root) = places[folder as usize];
            let device = row.get::<_, Option<i64>>(7)?.or(device);
            let inode = (of_another_time.get(&root).copied(), device, row.get(8)?);
            let links = row.get::<_, u16>(10)?;
            let (size, mtime) = (row.get::<_, i64>(2)?.cast_unsigned(), row.get(3)?);
            let is_further = roots.len() > 1
                && contents.is_shared(size)
                && ways.is_further(
                    (root, folder),
                    inode,
                    (mtime, row.get(9)?),
                    links,
                    |one, other| here.are_one(ids[one as usize], ids[other as usize]),
                );
            if is_further {
                trees.doubt(folder);
                further.push(files);
            } else {
                let (hash, sample) = (row.get_ref(5)?.as_blob_or_null()?, row.get(6)?);
                let number = files - further.len() as u32;
                let content = contents.of(number, &contents::Row { size, hash, sample, inode });
                // What has further names does not come free by itself.
                let blocks = if links > 1 { 0 } else { row.get::<_, i64>(4)?.cast_unsigned() };
                let on_disk = blocks * 512;
                trees.add_file(folder, name, Facts { size, mtime, on_disk, content });
            }
            files += 1;
            Ok(true)
        })?;
        contents.settle().into_iter().for_each(|(file, content)| trees.know(file, content));
        Ok(())
    }
}

/// Folders as they are there now: asked only where names are in doubt.
struct Here<'a> {
    connection: &'a Connection,
    roots: &'a [Root],
    paths: Option<Paths>,
    known: HashMap<i64, Option<(u64, u64)>>,
}

impl<'a> Here<'a> {
    fn new(connection: &'a Connection, roots: &'a [Root]) -> Here<'a> {
        Here { connection, roots, paths: None, known: HashMap::new() }
    }

    fn are_one(&mut self, one: i64, other: i64) -> bool {
        let one = self.identity(one);
        one.is_some() && one == self.identity(other)
    }

    fn identity(&mut self, id: i64) -> Option<(u64, u64)> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        if self.paths.is_none() {
            let path = |root: &Root| (root.id, root.path.as_os_str().as_bytes().to_vec());
            self.paths = Paths::new(self.connection, self.roots.iter().map(path).collect()).ok();
        }
        let path = self.paths.as_ref().map(|paths| paths.of(id)).unwrap_or_default();
        let found = std::fs::metadata(OsStr::from_bytes(&path)).ok();
        let found = found.map(|found| (found.dev(), found.ino()));
        self.known.insert(id, found);
        found
    }
}

/// Folders as they come, each after the one that it lies in and after those beside it whose names are before
/// its own: about 60 bytes each, and its name, until all are in the trees.
#[derive(Default)]
struct Rows {
    all: Vec<Row>,
    names: Vec<u8>,
}

struct Row {
    id: i64,
    /// Where the one is that it lies in.
    above: u32,
    /// Where its name ends.
    name_end: usize,
    is_known: bool,
    is_away: bool,
    device: Option<i64>,
    root: i64,
}

/// Roots lie in nothing.
const NOWHERE: u32 = u32::MAX;

impl Rows {
    fn new(connection: &Connection) -> rusqlite::Result<Rows> {
        let (mut rows, mut places) = (Rows::default(), HashMap::new());
        let mut statement = connection.prepare(FOLDERS)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let above = row.get::<_, Option<i64>>(1)?.map(|parent| places.get(&parent).copied());
            if above == Some(None) {
                continue; // what hangs in the air is for `verify`
            }
            rows.names.extend_from_slice(row.get_ref(2)?.as_blob()?);
            let id = row.get(0)?;
            places.insert(id, rows.all.len() as u32);
            rows.all.push(Row {
                id,
                above: above.flatten().unwrap_or(NOWHERE),
                name_end: rows.names.len(),
                is_known: row.get(3)?,
                is_away: row.get::<_, Option<i32>>(6)? == Some(AWAY),
                device: row.get(4)?,
                root: row.get(5)?,
            });
        }
        Ok(rows)
    }

    fn name(&self, at: u32) -> &[u8] {
        let end = |at: u32| self.all[at as usize].name_end;
        &self.names[at.checked_sub(1).map_or(0, end)..end(at)]
    }

    /// Each before what lies in it, and all that before the next one beside it. No recursion: trees may be
    /// very deep.
    fn in_tree_order(&self, roots: &[Root]) -> Vec<u32> {
        let mut sizes = vec![1_u32; self.all.len()];
        for at in (0..self.all.len()).rev() {
            let above = self.all[at].above;
            if above != NOWHERE {
                sizes[above as usize] += sizes[at];
            }
        }
        let mut paths: Vec<_> = roots.iter().map(|root| (&root.path, root.id)).collect();
        paths.sort_unstable();
        let ranks: HashMap<i64, usize> = paths.iter().map(|(_, id)| *id).zip(0..).collect();
        let all = 0..self.all.len() as u32;
        let (mut tops, below): (Vec<u32>, Vec<u32>) =
            all.partition(|at| self.all[*at as usize].above == NOWHERE);
        tops.sort_by_key(|at| ranks.get(&self.all[*at as usize].root));
        let (mut order, mut next, mut next_top) = (vec![0; sizes.len()], vec![0; sizes.len()], 0);
        for at in tops.into_iter().chain(below) {
            let free = next.get_mut(self.all[at as usize].above as usize).unwrap_or(&mut next_top);
            let place = *free;
            *free += sizes[at as usize];
            next[at as usize] = place + 1;
            order[place as usize] = at;
        }
        order
    }
}

/// Of folders that are known, in the order that gives them their numbers, for as long as it says true.
pub(super) fn each_file(
    connection: &Connection,
    sql: &str,
    numbers: &HashMap<i64, u32>,
    mut f: impl FnMut(u32, &[u8], &rusqlite::Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(folder) = numbers.get(&row.get(0)?)
            && !f(*folder, row.get_ref(1)?.as_blob()?, row)?
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in `report.rs`: it is read in the order in which it is needed.
    #[test]
    fn folders_are_read_by_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        let explain = format!("EXPLAIN QUERY PLAN {FOLDERS}");
        let mut plan = store.connection().prepare(&explain).unwrap();
        let plan: Vec<String> =
            plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(plan.len() == 1 && plan[0].contains("INDEX folders_by_name"), "{plan:?}");
    }
}

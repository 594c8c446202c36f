//! What the database knows: sets of files, listed as `find` would, and folders that are alike. It is what
//! the last scans have seen: a hint, to be looked at again before anybody acts on it.

pub mod folders;
pub mod html;

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStringExt;

use rusqlite::{Connection, params};

use crate::digest::{Digest, Verified};
use crate::folders::join;
use crate::listing::{Entry, Set, Totals};
use crate::output::Printer;
use crate::sharing::Sharing;
use crate::stop::Stop;
use crate::store::Store;
use crate::store::roots::Presence;

/// Contents that more than one name has, the largest first: the index has all of it, in this order.
pub const CONTENTS: &str = "SELECT size, hash FROM files
    WHERE removed IS NULL AND hash IS NOT NULL AND size >= ?1
    GROUP BY size, hash HAVING count(*) > 1 ORDER BY size DESC, hash DESC";

/// The names of one.
const NAMES: &str =
    "SELECT folder, files.name, ifnull(files.device, folders.device), inode, blocks, links, root
    FROM files JOIN folders ON folders.id = folder
    WHERE size = ?1 AND hash = ?2 AND files.removed IS NULL";

/// Prints all sets of files of at least that size.
pub fn files(
    store: &Store,
    min_size: u64,
    printer: &mut dyn Printer,
    stop: &Stop,
) -> io::Result<()> {
    let totals = sets(store, min_size, printer.counts_bytes(), stop, |set, _| printer.set(set))?;
    printer.end(&totals)
}

/// Where a file of a set lies, and what it takes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the folder of each of its names, in the order of its paths.
    pub folders: Vec<i64>,
    /// Bytes on disk.
    pub on_disk: u64,
    /// Of these, what the set's `reclaimable` has of this file.
    pub reclaimable: u64,
}

/// Hands over all sets of files of at least that size, each with the places of its files.
pub fn sets(
    store: &Store,
    min_size: u64,
    counts_bytes: bool,
    stop: &Stop,
    take: impl FnMut(&Set, &[Place]) -> io::Result<()>,
) -> io::Result<Totals> {
    let failed = |error: crate::store::Error| io::Error::other(error.to_string());
    let (mut totals, mut online) = (Totals::default(), HashMap::new());
    for root in store.roots().map_err(failed)? {
        let contents = store.contents(root.id).map_err(failed)?;
        totals.folders += contents.folders;
        totals.files += contents.files;
        totals.bytes += contents.bytes;
        totals.unread += contents.errors;
        online.insert(root.id, root.presence() == Presence::Online);
    }
    let algorithm = store.algorithm().map_err(failed)?.unwrap_or_default();
    let mut report = Report {
        connection: store.connection(),
        paths: Paths::new(store.connection(), root_paths(store).map_err(failed)?),
        online,
        sharing: Sharing::default(),
        devices: HashMap::new(),
        verified: Verified::by(algorithm),
        counts_bytes,
    };
    report.tell(min_size, take, stop, &mut totals)?;
    Ok(totals)
}

struct Report<'a> {
    connection: &'a Connection,
    paths: Paths<'a>,
    /// Of each root.
    online: HashMap<i64, bool>,
    sharing: Sharing,
    /// Numbers for them, as they come.
    devices: HashMap<u64, u16>,
    verified: Verified,
    counts_bytes: bool,
}

/// A file that several names may lead to.
struct Inode {
    device: u64,
    blocks: u64,
    links: u16,
    /// Each with its folder.
    names: Vec<(Vec<u8>, i64)>,
    /// At least one of them can be looked at.
    online: bool,
}

impl Report<'_> {
    fn tell(
        &mut self,
        min_size: u64,
        mut take: impl FnMut(&Set, &[Place]) -> io::Result<()>,
        stop: &Stop,
        totals: &mut Totals,
    ) -> io::Result<()> {
        let connection = self.connection;
        let mut contents = connection.prepare(CONTENTS).map_err(io::Error::other)?;
        let mut rows = contents.query([min_size.cast_signed()]).map_err(io::Error::other)?;
        while let Some(row) = rows.next().map_err(io::Error::other)? {
            if stop.is_asked() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let size = row.get::<_, i64>(0).map_err(io::Error::other)?;
            let hash = row.get_ref(1).map_err(io::Error::other)?;
            let hash = hash.as_blob().map_err(io::Error::other)?;
            let found = self.set(size, hash).map_err(io::Error::other)?;
            let Some((set, places)) = found else { continue };
            // Of those that are offline none can go, and on none is counted.
            let online = set.files.iter().filter(|file| !file.reference).count() as u64;
            let redundant = online.saturating_sub(1);
            totals.sets += 1;
            totals.redundant_files += redundant;
            totals.redundant_bytes += redundant * set.size;
            totals.reclaimable_bytes += set.reclaimable;
            take(&set, &places)?;
        }
        Ok(())
    }

    /// None if all of its names lead to one file, or to files that nobody can reach.
    fn set(&mut self, size: i64, hash: &[u8]) -> rusqlite::Result<Option<(Set, Vec<Place>)>> {
        let mut inodes: HashMap<(u64, u64), Inode> = HashMap::new();
        let mut names = self.connection.prepare_cached(NAMES)?;
        let mut rows = names.query(params![size, hash])?;
        while let Some(row) = rows.next()? {
            let device = row.get::<_, Option<i64>>(2)?.unwrap_or(0).cast_unsigned();
            let inode = row.get::<_, i64>(3)?.cast_unsigned();
            let root = row.get::<_, i64>(6)?;
            let folder = row.get(0)?;
            let mut path = self.paths.of(folder)?;
            join(&mut path, row.get_ref(1)?.as_blob()?);
            let online = self.online.get(&root) == Some(&true);
            let (blocks, links) = (row.get::<_, i64>(4)?.cast_unsigned(), row.get(5)?);
            let new = || Inode { device, blocks, links, names: Vec::new(), online: false };
            let known = inodes.entry((device, inode)).or_insert_with(new);
            known.names.push((path, folder));
            known.online |= online;
        }
        let mut inodes: Vec<Inode> = inodes.into_values().collect();
        if inodes.len() < 2 || !inodes.iter().any(|inode| inode.online) {
            return Ok(None);
        }
        inodes.iter_mut().for_each(|inode| inode.names.sort_unstable());
        inodes.sort_unstable_by(|one, other| one.names.cmp(&other.names));
        let (mut files, mut places, mut is_kept) = (Vec::new(), Vec::new(), false);
        for inode in inodes {
            // One that can be looked at is kept: a disk in a drawer is no copy to rely on.
            let is_victim = inode.online && is_kept && self.counts_bytes;
            is_kept |= inode.online;
            let reclaimable = match is_victim {
                true => reclaimable(&inode, &mut self.sharing, &mut self.devices),
                false => 0,
            };
            let (paths, folders) = inode.names.into_iter().unzip();
            places.push(Place { folders, on_disk: inode.blocks * 512, reclaimable });
            files.push(Entry { reference: !inode.online, paths });
        }
        let reclaimable = places.iter().map(|place| place.reclaimable).sum();
        let set = Set {
            size: size.cast_unsigned(),
            digest: Some(Digest::of(hash)),
            verified: self.verified,
            files,
            reclaimable,
        };
        Ok(Some((set, places)))
    }
}

/// What comes free if it goes: nothing, if it has a name that we don't know.
fn reclaimable(inode: &Inode, sharing: &mut Sharing, devices: &mut HashMap<u64, u16>) -> u64 {
    if usize::from(inode.links) > inode.names.len() {
        return 0;
    }
    let next = u16::try_from(devices.len()).unwrap_or(u16::MAX);
    let device = *devices.entry(inode.device).or_insert(next);
    sharing.own(&inode.names[0].0, device, inode.blocks * 512)
}

/// Of each root.
fn root_paths(store: &Store) -> Result<HashMap<i64, Vec<u8>>, crate::store::Error> {
    let roots = store.roots()?.into_iter();
    Ok(roots.map(|root| (root.id, root.path.into_os_string().into_vec())).collect())
}

/// Puts the paths of folders together.
struct Paths<'a> {
    connection: &'a Connection,
    roots: HashMap<i64, Vec<u8>>,
    known: HashMap<i64, Vec<u8>>,
}

/// So many are kept: those of one set mostly lie together.
const KEPT: usize = 10_000;

impl<'a> Paths<'a> {
    fn new(connection: &'a Connection, roots: HashMap<i64, Vec<u8>>) -> Paths<'a> {
        Paths { connection, roots, known: HashMap::new() }
    }

    fn of(&mut self, folder: i64) -> rusqlite::Result<Vec<u8>> {
        if let Some(path) = self.known.get(&folder) {
            return Ok(path.clone());
        }
        let mut names = Vec::new();
        let mut at = folder;
        let sql = "SELECT parent, name, root FROM folders WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let root = loop {
            let row = |row: &rusqlite::Row<'_>| {
                let name = row.get_ref(1)?.as_blob()?.to_vec();
                Ok((row.get::<_, Option<i64>>(0)?, name, row.get::<_, i64>(2)?))
            };
            let (parent, name, root) = statement.query_row([at], row)?;
            let Some(parent) = parent else { break root };
            names.push(name);
            at = parent;
        };
        let mut path = self.roots.get(&root).cloned().unwrap_or_default();
        names.iter().rev().for_each(|name| join(&mut path, name));
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(folder, path.clone());
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instead of a time: what grows with the database is looked at once, in its order, in the index alone.
    #[test]
    fn contents_are_found_by_the_index_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        store.make_index().unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {CONTENTS}");
        let mut plan = store.connection().prepare(&sql).unwrap();
        let steps = plan.query_map([1], |row| row.get::<_, String>(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert_eq!(steps.len(), 1, "nothing is sorted: {steps:?}");
        assert!(steps[0].contains("COVERING INDEX files_by_content"), "{steps:?}");
    }
}

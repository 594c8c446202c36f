//! What the database knows: sets of files, listed as `find` would, and folders that are alike. It is what
//! the last scans have seen: a hint, to be looked at again before anybody acts on it.

pub mod folders;
pub mod html;

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStringExt;

use rusqlite::{Connection, Row};

use crate::digest::{Digest, Verified};
use crate::folders::join;
use crate::listing::{Entry, Set, Totals};
use crate::output::Printer;
use crate::sharing::Sharing;
use crate::stop::Stop;
use crate::store::Store;
use crate::store::roots::Presence;

/// All names of which the content is known, those of one together, the largest first: an index has all of
/// it, in this order.
const NAMES: &str = "SELECT size, hash, folder, name, device, inode, blocks, links FROM files
    WHERE removed IS NULL AND hash IS NOT NULL AND size >= ?1 ORDER BY size DESC, hash DESC";

/// Everything that is there, whether it has a copy or not.
const ALL: &str = "SELECT count(*), ifnull(sum(size), 0) FROM files WHERE removed IS NULL";
const UNREAD: &str = "SELECT count(*) FROM files INDEXED BY files_unread WHERE error IS NOT NULL AND removed IS NULL";
const FOLDERS: &str = "SELECT count(*), count(error) FROM folders WHERE removed IS NULL";

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
    let online = store.roots().map_err(failed)?.into_iter();
    let online = online.map(|root| (root.id, root.presence() == Presence::Online)).collect();
    let mut totals = store.wrap(all(store.connection())).map_err(failed)?;
    let algorithm = store.algorithm().map_err(failed)?.unwrap_or_default();
    let mut report = Report {
        connection: store.connection(),
        paths: Paths::new(store.connection(), root_paths(store).map_err(failed)?)
            .map_err(io::Error::other)?,
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
    paths: Paths,
    /// Of each root.
    online: HashMap<i64, bool>,
    sharing: Sharing,
    /// Numbers for them, as they come.
    devices: HashMap<u64, u16>,
    verified: Verified,
    counts_bytes: bool,
}

/// Names of files with the same content, as they come from the database.
#[derive(Default)]
struct Kin {
    size: i64,
    hash: Vec<u8>,
    names: Vec<Name>,
}

struct Name {
    folder: i64,
    name: Box<[u8]>,
    /// Where that is not the folder's.
    device: Option<u64>,
    inode: u64,
    blocks: u64,
    links: u16,
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

fn all(connection: &Connection) -> rusqlite::Result<Totals> {
    let pair = |sql: &str| {
        connection.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })
    };
    let ((files, bytes), (folders, shut)) = (pair(ALL)?, pair(FOLDERS)?);
    // A database that was never scanned to the end has no index yet, and its files are counted one by one.
    let unread = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let unread =
        unread(UNREAD).or_else(|_| unread(&UNREAD.replace("INDEXED BY files_unread", "")))?;
    let unread = shut + unread.cast_unsigned();
    Ok(Totals { folders, files, bytes, unread, ..Totals::default() })
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
        let mut names = connection.prepare(NAMES).map_err(io::Error::other)?;
        let mut rows = names.query([min_size.cast_signed()]).map_err(io::Error::other)?;
        let mut kin = Kin::default();
        while let Some(row) = rows.next().map_err(io::Error::other)? {
            if stop.is_asked() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if !kin.has(row).map_err(io::Error::other)? {
                self.tell_one(&kin, &mut take, totals)?;
                kin.begin(row).map_err(io::Error::other)?;
            }
            kin.names.push(Name::read(row).map_err(io::Error::other)?);
        }
        self.tell_one(&kin, &mut take, totals)
    }

    fn tell_one(
        &mut self,
        kin: &Kin,
        take: &mut impl FnMut(&Set, &[Place]) -> io::Result<()>,
        totals: &mut Totals,
    ) -> io::Result<()> {
        if kin.names.len() < 2 {
            return Ok(());
        }
        let Some((set, places)) = self.set(kin) else { return Ok(()) };
        // Of those that are offline none can go, and on none is counted.
        let online = set.files.iter().filter(|file| !file.reference).count() as u64;
        let redundant = online.saturating_sub(1);
        totals.sets += 1;
        totals.redundant_files += redundant;
        totals.redundant_bytes += redundant * set.size;
        totals.reclaimable_bytes += set.reclaimable;
        take(&set, &places)
    }

    /// None if all of its names lead to one file, or to files that nobody can reach.
    fn set(&mut self, kin: &Kin) -> Option<(Set, Vec<Place>)> {
        let mut inodes: HashMap<(u64, u64), Inode> = HashMap::with_capacity(kin.names.len());
        for Name { folder, name, device, inode, blocks, links } in &kin.names {
            // What hangs in the air is for `verify`.
            let Some((place, known)) = self.paths.known(*folder) else { continue };
            let device = device.or(known.device).unwrap_or(0);
            let online = self.online.get(&known.root) == Some(&true);
            let mut path = self.paths.path(place, name.len() + 1);
            join(&mut path, name);
            let (blocks, links) = (*blocks, *links);
            let new = || Inode { device, blocks, links, names: Vec::new(), online: false };
            let inode = inodes.entry((device, *inode)).or_insert_with(new);
            inode.names.push((path, *folder));
            inode.online |= online;
        }
        let mut inodes: Vec<Inode> = inodes.into_values().collect();
        if inodes.len() < 2 || !inodes.iter().any(|inode| inode.online) {
            return None;
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
            size: kin.size.cast_unsigned(),
            digest: Some(Digest::of(&kin.hash)),
            verified: self.verified,
            files,
            reclaimable,
        };
        Some((set, places))
    }
}

impl Kin {
    fn has(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        Ok(self.size == row.get::<_, i64>(0)? && self.hash == row.get_ref(1)?.as_blob()?)
    }

    fn begin(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        self.size = row.get(0)?;
        self.hash.clear();
        self.hash.extend_from_slice(row.get_ref(1)?.as_blob()?);
        self.names.clear();
        Ok(())
    }
}

impl Name {
    fn read(row: &Row<'_>) -> rusqlite::Result<Name> {
        Ok(Name {
            folder: row.get(2)?,
            name: row.get_ref(3)?.as_blob()?.into(),
            device: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
            inode: row.get::<_, i64>(5)?.cast_unsigned(),
            blocks: row.get::<_, i64>(6)?.cast_unsigned(),
            links: row.get(7)?,
        })
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

/// All folders, to put paths together: about 40 bytes each, and its name. One question for all of them: one for
/// each would be most of a report.
struct Paths {
    roots: HashMap<i64, Vec<u8>>,
    /// Rising.
    ids: Vec<i64>,
    folders: Vec<Known>,
    names: Vec<u8>,
}

/// Of a folder.
#[derive(Clone, Copy)]
struct Known {
    /// Its place in the table; of a root, its own.
    parent: u32,
    root: i64,
    device: Option<u64>,
    /// Where its name ends.
    name_end: u32,
}

impl Paths {
    fn new(connection: &Connection, roots: HashMap<i64, Vec<u8>>) -> rusqlite::Result<Paths> {
        let mut paths = Paths { roots, ids: Vec::new(), folders: Vec::new(), names: Vec::new() };
        let sql = "SELECT id, parent, root, device, name FROM folders ORDER BY id";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let place = paths.ids.len() as u32;
            // What lies in another folder has a higher number; what hangs in the air is for `verify`.
            let parent = row.get::<_, Option<i64>>(1)?.and_then(|parent| paths.place(parent));
            paths.names.extend_from_slice(row.get_ref(4)?.as_blob()?);
            paths.ids.push(row.get(0)?);
            paths.folders.push(Known {
                parent: parent.unwrap_or(place),
                root: row.get(2)?,
                device: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
                name_end: u32::try_from(paths.names.len()).unwrap_or(u32::MAX),
            });
        }
        Ok(paths)
    }

    fn place(&self, id: i64) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|place| place as u32)
    }

    fn known(&self, id: i64) -> Option<(u32, Known)> {
        self.place(id).map(|place| (place, self.folders[place as usize]))
    }

    fn of(&self, id: i64) -> Vec<u8> {
        self.place(id).map_or(Vec::new(), |place| self.path(place, 0))
    }

    /// With room for more bytes behind it.
    fn path(&self, place: u32, more: usize) -> Vec<u8> {
        let mut above = vec![place];
        loop {
            let last = above[above.len() - 1];
            let parent = self.folders[last as usize].parent;
            if parent == last {
                break;
            }
            above.push(parent);
        }
        let root =
            self.roots.get(&self.folders[place as usize].root).map_or(&[][..], Vec::as_slice);
        let names = || above.iter().rev().skip(1).map(|place| self.name(*place));
        let mut path = Vec::with_capacity(
            root.len() + names().map(|name| name.len() + 1).sum::<usize>() + more,
        );
        path.extend_from_slice(root);
        names().for_each(|name| join(&mut path, name));
        path
    }

    fn name(&self, place: u32) -> &[u8] {
        let end = |place: u32| self.folders[place as usize].name_end as usize;
        &self.names[place.checked_sub(1).map_or(0, end)..end(place)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instead of a time: what grows with the database is looked at once, in its order, in an index alone.
    #[test]
    fn a_report_reads_an_index_from_one_end_to_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        assert!(all(store.connection()).is_ok(), "before there is an index");
        store.make_indexes().unwrap();
        for (sql, index) in [
            (NAMES, "COVERING INDEX files_in_sets"),
            (ALL, "COVERING INDEX files_in_sets"),
            (UNREAD, "INDEX files_unread"),
        ] {
            let mut plan =
                store.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            if plan.parameter_count() == 1 {
                plan.raw_bind_parameter(1, 1).unwrap();
            }
            let mut rows = plan.raw_query();
            let first = rows.next().unwrap().unwrap().get::<_, String>(3).unwrap();
            assert!(first.contains(index), "{sql}: {first}");
            let more = rows.next().unwrap().map(|row| row.get::<_, String>(3).unwrap());
            assert_eq!(more, None, "{sql}: nothing is sorted");
        }
    }
}

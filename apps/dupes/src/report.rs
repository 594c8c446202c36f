//! What the database knows: sets of files, listed as `find` would, and folders that are alike. It is what
//! the last scans have seen: a hint, to be looked at again before anybody acts on it.

mod contents;
pub mod folders;
mod gaps;
mod gather;
pub mod html;
mod paths;
mod recorded;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use rusqlite::{Connection, Row, params};

pub use self::gaps::{Gaps, Unfinished, gaps};
use self::paths::Paths;
pub use self::recorded::Recorded;
use crate::count::Count;
use crate::digest::{Digest, Verified};
use crate::folders::join;
use crate::listing::{Entry, Set, Totals};
use crate::output::Printer;
use crate::progress::say;
use crate::sharing::Sharing;
use crate::stop::Stop;
use crate::store::Store;
use crate::store::roots::Presence;

/// All names that are there, those of one content together, the largest first: an index has all of it, in
/// this order. Those of which nobody knows the content are counted on the way: a question of its own would
/// be a second pass.
const NAMES: &str = "SELECT size, hash, folder, name, device, inode, blocks, links FROM files
    WHERE removed IS NULL ORDER BY size DESC, hash DESC";

const UNREAD: &str = "SELECT count(*) FROM files INDEXED BY files_unread WHERE error IS NOT NULL AND removed IS NULL";
const FOLDERS: &str = "SELECT count(*), count(error) FROM folders WHERE removed IS NULL";
/// Asked for two names that seem to lead to one file and perhaps don't.
const TIMES: &str = "SELECT mtime, ctime FROM files WHERE folder = ?1 AND name = ?2";

/// Prints all sets of files of at least that size.
pub fn files(
    store: &Store,
    min_size: u64,
    printer: &mut dyn Printer,
    stop: &Stop,
) -> io::Result<()> {
    let totals = sets(store, min_size, printer.counts_bytes(), stop, |set, _| printer.set(set))?;
    printer.end(&totals)?;
    if let Some(said) = of_unread_offline(totals.unread_offline) {
        say(&said);
    }
    Ok(())
}

/// What there is to say of so many files that nobody has read, and nobody can read now.
pub fn of_unread_offline(files: u64) -> Option<String> {
    let (were, be) = match files {
        0 => return None,
        1 => ("was never read, and may be a copy of one that is here", "it when it is"),
        _ => ("were never read, and may be copies of files that are here", "them when they are"),
    };
    let files = Count(files, "file");
    Some(format!("dupes: {files} of roots that are offline {were}: scan {be} back"))
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

/// Hands over all sets of files of at least that size, each with the places of its files: all of one moment,
/// also while somebody scans.
pub fn sets(
    store: &Store,
    min_size: u64,
    counts_bytes: bool,
    stop: &Stop,
    take: impl FnMut(&Set, &[Place]) -> io::Result<()>,
) -> io::Result<Totals> {
    let failed = |error: crate::store::Error| io::Error::other(error.to_string());
    let _moment = store.moment().map_err(failed)?;
    let online = store.roots().map_err(failed)?.into_iter();
    let online = online.map(|root| (root.id, root.presence() == Presence::Online)).collect();
    let mut totals = store.wrap(all(store.connection())).map_err(failed)?;
    totals.unread_offline = store.unread_offline().map_err(failed)?;
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
    size: u64,
    hash: Vec<u8>,
    names: Vec<Name>,
    /// Of all names: most rows are alone, and one by one they would cost as much as the rest of it.
    bytes: Vec<u8>,
}

struct Name {
    folder: i64,
    /// Where it is among the bytes.
    bytes: Range<usize>,
    /// Where that is not the folder's.
    device: Option<u64>,
    inode: u64,
    blocks: u64,
    links: u16,
}

/// A name in a folder that is known.
#[derive(Clone, Copy)]
struct Found<'a> {
    name: &'a Name,
    device: u64,
    place: u32,
    root: i64,
    online: bool,
}

/// A file that several names may lead to.
struct Inode<'a> {
    device: u64,
    blocks: u64,
    links: u16,
    /// Each with its folder.
    names: Vec<(Vec<u8>, i64)>,
    /// At least one of them can be looked at.
    online: bool,
    /// The first that was found.
    first: Found<'a>,
}

/// What is counted beside the files.
fn all(connection: &Connection) -> rusqlite::Result<Totals> {
    let pair = |sql: &str| {
        connection.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })
    };
    let (folders, shut) = pair(FOLDERS)?;
    // A database that was never scanned to the end has no index yet, and its files are counted one by one.
    let unread = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let unread =
        unread(UNREAD).or_else(|_| unread(&UNREAD.replace("INDEXED BY files_unread", "")))?;
    let unread = shut + unread.cast_unsigned();
    Ok(Totals { folders, unread, ..Totals::default() })
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
        let mut rows = names.query([]).map_err(io::Error::other)?;
        let mut kin = Kin::default();
        while let Some(row) = rows.next().map_err(io::Error::other)? {
            if stop.is_asked() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let (size, hash) = content(row).map_err(io::Error::other)?;
            totals.files += 1;
            totals.bytes = totals.bytes.saturating_add(size);
            let Some(hash) = hash.filter(|_| size >= min_size) else { continue };
            if (kin.size, kin.hash.as_slice()) != (size, hash) {
                self.tell_one(&kin, &mut take, totals)?;
                kin.begin(size, hash);
            }
            kin.add(row).map_err(io::Error::other)?;
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
        let Some((set, places)) = self.set(kin).map_err(io::Error::other)? else {
            return Ok(());
        };
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
    fn set(&mut self, kin: &Kin) -> rusqlite::Result<Option<(Set, Vec<Place>)>> {
        let found = kin.names.iter().filter_map(|name| {
            // What hangs in the air is for `verify`.
            let (place, known) = self.paths.known(name.folder)?;
            let device = name.device.or(known.device).unwrap_or(0);
            let online = self.online.get(&known.root) == Some(&true) && !known.is_away;
            Some(Found { name, device, place, root: known.root, online })
        });
        let mut found: Vec<Found<'_>> = found.collect();
        found.sort_by_key(Found::numbers);
        let mut inodes = Vec::new();
        for names in found.chunk_by(|one, other| one.numbers() == other.numbers()) {
            let from = inodes.len();
            for name in names {
                self.add_name(kin, name, &mut inodes, from)?;
            }
        }
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
            let offline = !inode.online;
            files.push(Entry { paths, reference: offline, offline });
        }
        let reclaimable = places.iter().map(|place| place.reclaimable).sum();
        let set = Set {
            size: kin.size,
            digest: Some(Digest::of(&kin.hash)),
            verified: self.verified,
            files,
            reclaimable,
        };
        Ok(Some((set, places)))
    }

    /// To the file that it leads to: one of those from `from` on, which have its numbers, or a new one.
    fn add_name<'k>(
        &self,
        kin: &'k Kin,
        found: &Found<'k>,
        inodes: &mut Vec<Inode<'k>>,
        from: usize,
    ) -> rusqlite::Result<()> {
        let name = kin.bytes_of(found.name);
        let mut path = self.paths.path(found.place, name.len() + 1);
        join(&mut path, name);
        let folder = found.name.folder;
        for inode in &mut inodes[from..] {
            if self.is_name_of(inode, kin, found, &path)? {
                inode.names.push((path, folder));
                inode.online |= found.online;
                return Ok(());
            }
        }
        inodes.push(Inode {
            device: found.device,
            blocks: found.name.blocks,
            links: found.name.links,
            names: vec![(path, folder)],
            online: found.online,
            first: *found,
        });
        Ok(())
    }

    /// Whether a name with the numbers of a file leads to it. Disks that are there one after the other may
    /// have the same number, and files on them, too: so numbers say it of names of one root only, and
    /// only if the file has several; of others what was seen of them must be the same, and what is there now.
    fn is_name_of(
        &self,
        inode: &Inode<'_>,
        kin: &Kin,
        found: &Found<'_>,
        path: &[u8],
    ) -> rusqlite::Result<bool> {
        let first = &inode.first;
        if first.online != found.online {
            return Ok(false);
        }
        if first.root == found.root {
            if first.name.links > 1 && found.name.links > 1 {
                return Ok(true);
            }
        } else if !found.online {
            return Ok(false);
        }
        let times = |name: &Name| -> rusqlite::Result<(i64, i64)> {
            let mut times = self.connection.prepare_cached(TIMES)?;
            let key = params![name.folder, kin.bytes_of(name)];
            times.query_row(key, |row| Ok((row.get(0)?, row.get(1)?)))
        };
        // Who can't be asked any more says nothing against it.
        let now = |path: &[u8]| {
            let found = std::fs::metadata(OsStr::from_bytes(path)).ok()?;
            Some((found.dev(), found.ino()))
        };
        let are_other = |one, other| now(one).zip(now(other)).is_some_and(|(a, b)| a != b);
        Ok(times(first.name)? == times(found.name)? && !are_other(&inode.names[0].0, path))
    }
}

/// Of a row: its size, and its hash if that is known.
fn content<'a>(row: &'a Row<'_>) -> rusqlite::Result<(u64, Option<&'a [u8]>)> {
    Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get_ref(1)?.as_blob_or_null()?))
}

impl Kin {
    fn begin(&mut self, size: u64, hash: &[u8]) {
        self.size = size;
        self.hash.clear();
        self.hash.extend_from_slice(hash);
        self.names.clear();
        self.bytes.clear();
    }

    fn bytes_of(&self, name: &Name) -> &[u8] {
        &self.bytes[name.bytes.clone()]
    }

    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(row.get_ref(3)?.as_blob()?);
        self.names.push(Name {
            folder: row.get(2)?,
            bytes: begin..self.bytes.len(),
            device: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
            inode: row.get::<_, i64>(5)?.cast_unsigned(),
            blocks: row.get::<_, i64>(6)?.cast_unsigned(),
            links: row.get(7)?,
        });
        Ok(())
    }
}

impl Found<'_> {
    fn numbers(&self) -> (u64, u64) {
        (self.device, self.name.inode)
    }
}

/// What comes free if it goes: nothing, if it has a name that we don't know.
fn reclaimable(inode: &Inode<'_>, sharing: &mut Sharing, devices: &mut HashMap<u64, u16>) -> u64 {
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
        for (sql, index) in
            [(NAMES, "COVERING INDEX files_in_sets"), (UNREAD, "INDEX files_unread")]
        {
            let mut plan =
                store.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = plan.query([]).unwrap();
            let first = rows.next().unwrap().unwrap().get::<_, String>(3).unwrap();
            assert!(first.contains(index), "{sql}: {first}");
            let more = rows.next().unwrap().map(|row| row.get::<_, String>(3).unwrap());
            assert_eq!(more, None, "{sql}: nothing is sorted");
        }
    }
}

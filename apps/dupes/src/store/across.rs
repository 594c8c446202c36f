//! What lies in several roots: files that have others of their size in a root that was scanned at another time,
//! and of which nobody knows yet whether they are equal.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row};

use super::roots::Presence;
use super::rows::FileRow;
use super::{Error, Store};
use crate::read::WHOLE;

/// Files that are wanted at a time: what there is of them in memory has a bound.
const PORTION: usize = 1 << 16;

/// Sizes of which a file has no hash and is not alone: one pass over an index.
const SIZES: &str = "SELECT size FROM files WHERE size > ?1 AND removed IS NULL
    GROUP BY size HAVING count(*) > 1 AND count(hash) < count(*)";

/// The files of a size. Samples are no part of the index, and only large files have them.
const MEMBERS: &str = "SELECT files.folder, files.name, hash IS NOT NULL, ifnull(files.device, folders.device),
    inode, root, NULL FROM files JOIN folders ON folders.id = folder WHERE size = ?1 AND files.removed IS NULL";
const LARGE_MEMBERS: &str = "SELECT files.folder, files.name, hash IS NOT NULL, ifnull(files.device, folders.device),
    inode, root, sample FROM files JOIN folders ON folders.id = folder WHERE size = ?1 AND files.removed IS NULL";

const FILE: &str =
    "SELECT device, inode, size, blocks, links, mtime, ctime, racy, sample, hash, error FROM files
    WHERE folder = ?1 AND name = ?2 AND removed IS NULL";
const FOLDER: &str = "SELECT parent, root, device, name FROM folders WHERE id = ?1";

/// What there is to be read.
#[derive(Debug, Default)]
pub struct Across {
    /// Files that can be: their folders, rising, and names.
    pub wanted: Vec<(i64, Box<[u8]>)>,
    /// Sizes and samples of large files that have a hash: who has the same is read to its end.
    pub samples: Vec<(u64, u64)>,
    /// Files that can't be, since their roots are offline: they may be copies of others.
    pub unread_offline: u64,
    /// Of files that are larger than this nothing was asked yet; None: that is all.
    pub rest: Option<i64>,
}

impl Across {
    /// Where to begin.
    pub const ALL: i64 = -1;
}

/// A folder, by its row.
#[derive(Clone, Debug)]
pub struct FolderOfFile {
    /// None: it is that of a root.
    pub parent: Option<i64>,
    /// Its root.
    pub root: i64,
    /// None until it was looked into.
    pub device: Option<u64>,
    /// Empty for that of a root.
    pub name: Box<[u8]>,
}

impl Store {
    /// Looks for them among files that are larger than that, until they are many. Names of one file are no
    /// two files.
    pub fn across(&self, larger_than: i64) -> Result<Across, Error> {
        let roots = self.roots()?.into_iter();
        let online: HashMap<i64, bool> =
            roots.map(|root| (root.id, root.presence() == Presence::Online)).collect();
        self.wrap(look(self.connection(), &online, larger_than, PORTION))
    }

    /// How many files are offline, have no hash, and have the size of one that is not. Nothing is asked if all are
    /// here.
    pub fn unread_offline(&self) -> Result<u64, Error> {
        if self.roots()?.iter().all(|root| root.presence() == Presence::Online) {
            return Ok(0);
        }
        let (mut count, mut rest) = (0, Some(Across::ALL));
        while let Some(larger_than) = rest {
            let across = self.across(larger_than)?;
            (count, rest) = (count + across.unread_offline, across.rest);
        }
        Ok(count)
    }

    /// A file that is there.
    pub fn file(&self, folder: i64, name: &[u8]) -> Result<Option<FileRow>, Error> {
        let file = || {
            let mut file = self.connection().prepare_cached(FILE)?;
            file.query_row((folder, name), |row| FileRow::read(row, 0)).optional()
        };
        self.wrap(file())
    }

    /// A folder.
    pub fn folder(&self, id: i64) -> Result<Option<FolderOfFile>, Error> {
        let folder = |row: &Row<'_>| {
            Ok(FolderOfFile {
                parent: row.get(0)?,
                root: row.get(1)?,
                device: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
                name: row.get_ref(3)?.as_blob()?.into(),
            })
        };
        let ask = || self.connection().prepare_cached(FOLDER)?.query_row([id], folder).optional();
        self.wrap(ask())
    }
}

fn look(
    connection: &Connection,
    online: &HashMap<i64, bool>,
    larger_than: i64,
    most: usize,
) -> rusqlite::Result<Across> {
    let mut across = Across::default();
    let mut sizes = connection.prepare(SIZES)?;
    let mut sizes = sizes.query([larger_than])?;
    while let Some(row) = sizes.next()? {
        let size: i64 = row.get(0)?;
        let is_large = size.cast_unsigned() > WHOLE;
        let mut members =
            connection.prepare_cached(if is_large { LARGE_MEMBERS } else { MEMBERS })?;
        let mut rows = members.query([size])?;
        let mut group = Group::default();
        while let Some(row) = rows.next()? {
            group.add(row, online)?;
        }
        group.tell(size.cast_unsigned(), &mut across);
        if across.wanted.len() >= most {
            across.rest = Some(size);
            break;
        }
    }
    across.wanted.sort_unstable();
    Ok(across)
}

/// Device and inode; of a disk that is away also which root that is, since numbers are given again.
type Identity = (Option<i64>, i64, Option<i64>);

/// Some files, as far as it matters here.
#[derive(Debug, Default)]
struct Few {
    first: Option<(i64, Identity)>,
    /// They are several, in several roots.
    are_across: bool,
    root_differs: bool,
    file_differs: bool,
    /// One has a hash; one is here.
    is_read: bool,
    is_online: bool,
    unread_offline: u64,
}

impl Few {
    fn add(&mut self, root: i64, file: Identity, is_read: bool, is_online: bool) {
        let first = *self.first.get_or_insert((root, file));
        self.root_differs |= first.0 != root;
        self.file_differs |= first.1 != file;
        self.are_across = self.root_differs && self.file_differs;
        self.is_read |= is_read;
        self.is_online |= is_online;
        self.unread_offline += u64::from(!is_read && !is_online);
    }
}

/// Files of one size.
#[derive(Debug, Default)]
struct Group {
    all: Few,
    /// Of large ones those that have been sampled.
    sampled: HashMap<i64, Few>,
    not_sampled: Few,
    wanted: Vec<((i64, Box<[u8]>), Option<i64>)>,
}

impl Group {
    fn add(&mut self, row: &Row<'_>, online: &HashMap<i64, bool>) -> rusqlite::Result<()> {
        let (is_read, root) = (row.get(2)?, row.get(5)?);
        let is_online = online.get(&root).copied().unwrap_or(false);
        let file = (row.get(3)?, row.get(4)?, (!is_online).then_some(root));
        let sample: Option<i64> = row.get(6)?;
        let like = match sample {
            Some(sample) => self.sampled.entry(sample).or_default(),
            None => &mut self.not_sampled,
        };
        like.add(root, file, is_read, is_online);
        self.all.add(root, file, is_read, is_online);
        if !is_read && is_online {
            self.wanted.push(((row.get(0)?, row.get_ref(1)?.as_blob()?.into()), sample));
        }
        Ok(())
    }

    fn tell(self, size: u64, across: &mut Across) {
        if !self.all.are_across {
            return;
        }
        if self.all.is_online {
            across.unread_offline += self.not_sampled.unread_offline;
        }
        let away = self.sampled.values().filter(|few| few.is_online);
        across.unread_offline += away.map(|few| few.unread_offline).sum::<u64>();
        // One that is sampled now may be like any other.
        let is_open = self.wanted.iter().any(|(_, sample)| sample.is_none());
        let may_be_equal = |sample: &Option<i64>| {
            is_open || sample.is_some_and(|sample| self.sampled[&sample].are_across)
        };
        let before = across.wanted.len();
        let wanted = self.wanted.into_iter().filter(|(_, sample)| may_be_equal(sample));
        across.wanted.extend(wanted.map(|(place, _)| place));
        if across.wanted.len() > before {
            let read = self.sampled.iter().filter(|(_, few)| few.is_read);
            across.samples.extend(read.map(|(sample, _)| (size, sample.cast_unsigned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: i64 = 100;
    const LARGE: i64 = 100_000;

    /// Root, inode, size, whether it has a hash, and its sample.
    type File = (i64, i64, i64, bool, Option<i64>);

    fn looked(files: &[File]) -> (Vec<i64>, Vec<u64>, u64) {
        let (_dir, store) = recorded(files);
        let across = store.across(Across::ALL).unwrap();
        let name = |name: &[u8]| std::str::from_utf8(name).unwrap().parse().unwrap();
        let mut wanted: Vec<i64> = across.wanted.iter().map(|(_, file)| name(file)).collect();
        wanted.sort_unstable();
        let samples = across.samples.iter().map(|(_, sample)| *sample).collect();
        (wanted, samples, across.unread_offline)
    }

    /// In two roots that are here, and one that is not.
    fn recorded(files: &[File]) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        let connection = store.connection();
        for (root, path) in [(1, "/tmp"), (2, "/"), (3, "/nowhere")] {
            let sql = "INSERT INTO roots (id, path, words, added, device, inode) VALUES (?1, CAST(?2 AS BLOB), '[]', 0, NULL, NULL)";
            connection.execute(sql, (root, path)).unwrap();
            let sql = "INSERT INTO folders VALUES (?1, ?1, NULL, x'', 1, 0, NULL, NULL)";
            connection.execute(sql, [root]).unwrap();
        }
        for (number, (root, inode, size, is_read, sample)) in files.iter().enumerate() {
            let sql =
                "INSERT INTO files VALUES (?1, CAST(?2 AS BLOB), NULL, ?3, ?4, 1, 1, 1, 1, 0, ?5,
                iif(?6, zeroblob(32), NULL), NULL, NULL)";
            let name = number.to_string();
            connection.execute(sql, (root, name, inode, size, sample, is_read)).unwrap();
        }
        store.make_indexes().unwrap();
        (dir, store)
    }

    #[test]
    fn many_are_read_a_portion_at_a_time() {
        let pair = |size: i64| [(1, size, size, false, None), (2, -size, size, false, None)];
        let (_dir, store) = recorded(&[pair(1), pair(2), pair(3)].concat());
        let online = HashMap::from([(1, true), (2, true)]);
        for most in 1..=7 {
            let (mut all, mut rest) = (Vec::new(), Some(Across::ALL));
            while let Some(larger_than) = rest {
                let across = look(store.connection(), &online, larger_than, most).unwrap();
                assert!(across.wanted.len() <= most + 1, "no more than a size goes beyond it");
                all.extend(across.wanted);
                rest = across.rest;
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 6, "{most} at a time");
        }
    }

    #[test]
    fn files_of_one_size_in_two_roots_are_read() {
        const NONE: [i64; 0] = [];
        let one = |root, inode, is_read| (root, inode, SMALL, is_read, None);
        assert_eq!(looked(&[one(1, 1, false), one(2, 2, false)]).0, [0, 1]);
        assert_eq!(looked(&[one(1, 1, true), one(2, 2, false)]).0, [1]);
        assert_eq!(looked(&[one(1, 1, true), one(2, 2, true)]).0, NONE);
        assert_eq!(looked(&[one(1, 1, false), one(1, 2, false)]).0, NONE, "of one root");
        assert_eq!(looked(&[one(1, 1, false), one(2, 1, false)]).0, NONE, "names of one file");
        assert_eq!(looked(&[one(1, 1, false), (2, 2, SMALL + 1, false, None)]).0, NONE);
    }

    #[test]
    fn large_ones_are_sampled_and_read_if_they_are_like_one_elsewhere() {
        let one = |root, inode, is_read, sample| (root, inode, LARGE, is_read, sample);
        let (a, b) = (Some(7), Some(8));
        assert_eq!(looked(&[one(1, 1, false, None), one(2, 2, false, a)]), (vec![0, 1], vec![], 0));
        assert_eq!(looked(&[one(1, 1, false, b), one(2, 2, false, a)]), (vec![], vec![], 0));
        assert_eq!(looked(&[one(1, 1, true, a), one(2, 2, false, a)]), (vec![1], vec![7], 0));
        let others = [one(1, 1, false, a), one(1, 2, false, a), one(2, 3, false, b)];
        assert_eq!(looked(&others), (vec![], vec![], 0), "a pair of one root is its own business");
    }

    #[test]
    fn what_is_offline_is_counted_where_it_may_be_a_copy() {
        let one = |root, inode, is_read, sample| (root, inode, LARGE, is_read, sample);
        let (a, b) = (Some(7), Some(8));
        let small = |root, inode, is_read| (root, inode, SMALL, is_read, None);
        assert_eq!(looked(&[small(3, 1, false), small(2, 1, false)]), (vec![1], vec![], 1));
        assert_eq!(looked(&[small(3, 1, false), small(2, 2, true)]), (vec![], vec![], 1));
        assert_eq!(looked(&[small(3, 1, true), small(2, 2, true)]), (vec![], vec![], 0));
        assert_eq!(looked(&[small(3, 1, false), small(3, 2, false)]), (vec![], vec![], 0));
        assert_eq!(looked(&[one(3, 1, false, a), one(2, 2, true, b)]), (vec![], vec![], 0));
        assert_eq!(looked(&[one(3, 1, false, a), one(2, 2, true, a)]), (vec![], vec![], 1));
        assert_eq!(looked(&[one(3, 1, false, None), one(2, 2, true, a)]), (vec![], vec![], 1));
        assert_eq!(looked(&[one(3, 1, true, a), one(2, 2, false, a)]), (vec![1], vec![7], 0));
    }

    /// Instead of a time: without files that wait for others it is one pass over an index.
    #[test]
    fn it_looks_at_an_index_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        store.make_indexes().unwrap();
        for (sql, plans) in [
            (SIZES, &["SEARCH files USING COVERING INDEX files_in_sets (size>?)"][..]),
            (
                MEMBERS,
                &[
                    "SEARCH files USING COVERING INDEX files_in_sets (size=?)",
                    "SEARCH folders USING INTEGER PRIMARY KEY (rowid=?)",
                ],
            ),
        ] {
            let mut plan =
                store.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let rows = plan.query_map([1], |row| row.get::<_, String>(3));
            let rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
            assert_eq!(rows, plans, "{sql}");
        }
    }
}

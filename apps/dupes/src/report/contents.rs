//! Which files are equal, as far as anybody knows.
//!
//! Files with a hash are equal to those with the same one. One without is like no other if no other has
//! its size, or if samples of all that have it are known and differ; else nobody has read it yet.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::alike::Content;

/// Of each name, those of one size together: one pass over an index. To count them here costs half of what it
/// costs there.
const SIZES: &str = "SELECT size, hash FROM files WHERE removed IS NULL ORDER BY size";

/// Which file a name leads to: inodes are numbers in a device, and those of devices say something about
/// one root only if that is another time's (then it is the first).
pub(super) type Inode = (Option<i64>, Option<i64>, i64);

/// What is recorded of a file.
pub(super) struct Row<'a> {
    pub(super) size: u64,
    pub(super) hash: Option<&'a [u8]>,
    pub(super) sample: Option<i64>,
    pub(super) inode: Inode,
}

/// What is known of all of them.
#[derive(Default)]
pub(super) struct Contents {
    /// Those that several names have, and whether all of them have a hash.
    sizes: HashMap<u64, bool>,
    hashes: HashMap<(u64, Box<[u8]>), u32>,
    next: u32,
    in_doubt: Vec<InDoubt>,
}

/// A file of a size of which not all have a hash.
struct InDoubt {
    size: u64,
    inode: Inode,
    sample: Option<i64>,
    /// By its hash.
    content: Option<u32>,
    file: u32,
}

impl Contents {
    pub(super) fn new(connection: &Connection) -> rusqlite::Result<Contents> {
        let mut contents = Contents::default();
        let mut statement = connection.prepare(SIZES)?;
        let mut rows = statement.query([])?;
        // Of the size that comes by: how many names, and whether all of them have a hash.
        let (mut size, mut names, mut all) = (0, 0, true);
        while let Some(row) = rows.next()? {
            let (next, has_hash) =
                (row.get::<_, i64>(0)?, row.get_ref(1)?.as_blob_or_null()?.is_some());
            if next != size {
                (size, names, all) = (next, 0, true);
            }
            (names, all) = (names + 1, all && has_hash);
            if names > 1 {
                contents.sizes.insert(size.cast_unsigned(), all);
            }
        }
        Ok(contents)
    }

    /// Whether other names have that size.
    pub(super) fn is_shared(&self, size: u64) -> bool {
        self.sizes.contains_key(&size)
    }

    /// Of the file with that number; `settle` may know more.
    pub(super) fn of(&mut self, file: u32, row: &Row<'_>) -> Content {
        let next = &mut self.next;
        let content = row.hash.map(|hash| {
            *self.hashes.entry((row.size, hash.into())).or_insert_with(|| {
                *next += 1; // no more than there are files, which are counted elsewhere
                *next
            })
        });
        if self.sizes.get(&row.size) == Some(&false) {
            let Row { size, sample, inode, .. } = *row;
            self.in_doubt.push(InDoubt { size, inode, sample, content, file });
        }
        content.map_or(Content::Unique, Content::Of)
    }

    /// When all have come by: files of which more is known now.
    pub(super) fn settle(mut self) -> Vec<(u32, Content)> {
        let mut known = Vec::new();
        let mut in_doubt = std::mem::take(&mut self.in_doubt);
        in_doubt.sort_unstable_by_key(|one| (one.size, one.inode, one.file));
        for of_size in in_doubt.chunk_by(|one, other| one.size == other.size) {
            let files: Vec<&[InDoubt]> = of_size.chunk_by(|a, b| a.inode == b.inode).collect();
            let sample = |names: &[InDoubt]| names.iter().find_map(|name| name.sample);
            let mut samples: HashMap<Option<i64>, usize> = HashMap::new();
            for names in &files {
                *samples.entry(sample(names)).or_default() += 1;
            }
            for names in &files {
                let is_alone = files.len() == 1
                    || !samples.contains_key(&None) && samples[&sample(names)] == 1;
                let content = match names.iter().find_map(|name| name.content) {
                    Some(content) => Content::Of(content),
                    // A file with several names is equal to itself.
                    None if is_alone && names.len() > 1 => {
                        self.next += 1;
                        Content::Of(self.next)
                    }
                    None if is_alone => Content::Unique,
                    None => Content::Unread,
                };
                known.extend(names.iter().map(|name| (name.file, content)));
            }
        }
        known
    }
}

/// Names that lead to files that were seen by another way already: below two mounts of one folder, or behind a link.
#[derive(Default)]
pub(super) struct Ways {
    /// Of each file, with its times: the root and the folder of its first name, and how many there were.
    seen: HashMap<(Inode, i64, i64), (i64, u32, u16)>,
}

impl Ways {
    /// Whether there are others in another root, and a name is one more than its file has; or its folder and that of the
    /// first name are one. Where a file has a further name somewhere else, its names are not too many.
    pub(super) fn is_further(
        &mut self,
        (root, folder): (i64, u32),
        inode: Inode,
        (mtime, ctime): (i64, i64),
        links: u16,
        are_one: impl FnOnce(u32, u32) -> bool,
    ) -> bool {
        let place = (root, folder, 0);
        let (first, first_folder, names) = self.seen.entry((inode, mtime, ctime)).or_insert(place);
        *names = names.saturating_add(1);
        *first != root && (*names > links || are_one(*first_folder, folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files with an inode, a hash and a sample each, all of one size: what is known of them.
    fn known(files: &[(i64, &str, Option<i64>)]) -> Vec<Content> {
        let mut contents = Contents::default();
        contents.sizes.insert(7, files.iter().all(|(_, hash, _)| !hash.is_empty()));
        let mut all = Vec::new();
        for (file, (inode, hash, sample)) in (0..).zip(files) {
            let hash = Some(hash.as_bytes()).filter(|hash| !hash.is_empty());
            let row = Row { size: 7, hash, sample: *sample, inode: (None, None, *inode) };
            all.push(contents.of(file, &row));
        }
        for (file, content) in contents.settle() {
            all[file as usize] = content;
        }
        all
    }

    #[test]
    fn a_file_that_was_not_read_is_unique_only_if_that_is_known() {
        use Content::{Of, Unique, Unread};
        for (files, expected) in [
            (&[(1, "a", None), (2, "a", None), (3, "b", None)][..], &[Of(1), Of(1), Of(2)][..]),
            (&[(1, "", None)], &[Unique]),
            // Small ones.
            (&[(1, "", None), (2, "", None)], &[Unread, Unread]),
            (&[(1, "a", None), (2, "a", None), (3, "", None)], &[Of(1), Of(1), Unread]),
            // Large ones: samples tell them apart, or don't.
            (&[(1, "", Some(5)), (2, "", Some(6))], &[Unique, Unique]),
            (&[(1, "", Some(5)), (2, "", Some(5))], &[Unread, Unread]),
            (&[(1, "a", Some(5)), (2, "", Some(6))], &[Of(1), Unique]),
            (&[(1, "a", Some(5)), (2, "", Some(5))], &[Of(1), Unread]),
            (&[(1, "", Some(5)), (2, "", None)], &[Unread, Unread]),
            (&[(1, "", Some(5)), (2, "", Some(5)), (3, "", Some(6))], &[Unread, Unread, Unique]),
            // Names of one file.
            (&[(1, "", None), (1, "", None)], &[Of(1), Of(1)]),
            (&[(1, "a", None), (1, "", None)], &[Of(1), Of(1)]),
            (&[(1, "", None), (1, "", None), (2, "", None)], &[Unread, Unread, Unread]),
            (&[(1, "", Some(5)), (1, "", Some(5)), (2, "", Some(6))], &[Of(1), Of(1), Unique]),
        ] {
            assert_eq!(known(files), expected, "{files:?}");
        }
    }

    /// As in `report.rs`: it is read in the order in which it is needed, and nothing but an index.
    #[test]
    fn sizes_are_read_from_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        assert!(Contents::new(store.connection()).is_ok(), "before there is an index");
        store.make_indexes().unwrap();
        let rows = "INSERT INTO files (folder, name, inode, size, blocks, links, mtime, ctime, racy, hash, removed)
            VALUES (1, x'61', 1, 7, 1, 1, 1, 1, 0, x'00', NULL), (1, x'62', 2, 7, 1, 1, 1, 1, 0, NULL, NULL),
            (1, x'63', 3, 0, 1, 1, 1, 1, 0, x'00', NULL), (1, x'64', 4, 0, 1, 1, 1, 1, 0, x'00', NULL),
            (1, x'65', 5, 8, 1, 1, 1, 1, 0, NULL, NULL), (1, x'66', 6, 8, 1, 1, 1, 1, 0, x'00', 1)";
        store.connection().execute_batch(rows).unwrap();
        let sizes = Contents::new(store.connection()).unwrap().sizes;
        assert_eq!(sizes, [(7, false), (0, true)].into());
        let explain = format!("EXPLAIN QUERY PLAN {SIZES}");
        let mut plan = store.connection().prepare(&explain).unwrap();
        let plan: Vec<String> =
            plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(plan.len() == 1 && plan[0].contains("COVERING INDEX files_in_sets"), "{plan:?}");
    }

    #[test]
    fn a_name_too_many_is_another_way_to_its_file() {
        let mut ways = Ways::default();
        let mut name = |root, inode, ctime, links| {
            let folder = root as u32;
            ways.is_further(
                (root, folder),
                (None, Some(1), inode),
                (1, ctime),
                links,
                |one, other| (one, other) == (1, 4),
            )
        };
        assert!(!name(1, 5, 1, 1) && name(2, 5, 1, 1) && name(3, 5, 1, 1));
        assert!(!name(2, 5, 2, 1), "another file, at another time");
        assert!(!name(1, 6, 1, 2) && !name(2, 6, 1, 2), "a hard link");
        assert!(name(2, 6, 1, 2), "and that again");
        assert!(!name(1, 7, 1, 1) && !name(1, 7, 1, 1), "a symbolic link that was followed");
        assert!(!name(1, 8, 1, 3) && !name(2, 8, 1, 3) && name(4, 8, 1, 3), "the same folder");
    }
}

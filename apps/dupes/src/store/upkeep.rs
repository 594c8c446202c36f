//! Keeping the database in order: what is gone for long, and what can't be.

use rusqlite::{Connection, params};

use super::{Error, Store};
use crate::digest::{Algorithm, Digest};

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
}

/// Something that no program of ours writes: damage, or somebody else's hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For people.
    pub what: String,
    /// How often.
    pub count: u64,
    /// It can be put in order without a new scan of everything.
    pub can_be_repaired: bool,
}

/// A rule that every row keeps: what it is called when it is broken, those that break it, and what puts
/// it in order. `?1` is how long a hash is.
struct Rule {
    broken: &'static str,
    rows: &'static str,
    repair: &'static [&'static str],
}

/// In the order in which they are repaired: what one deletes the next may have hung on.
const RULES: [Rule; 7] = [
    Rule {
        broken: "folders of no root",
        rows: "FROM folders WHERE root NOT IN (SELECT id FROM roots)",
        repair: &["DELETE FROM folders WHERE root NOT IN (SELECT id FROM roots)"],
    },
    Rule {
        broken: "folders that lie nowhere",
        rows: "FROM folders WHERE parent IS NOT NULL AND id NOT IN (WITH RECURSIVE held (id) AS
            (SELECT id FROM folders WHERE parent IS NULL UNION
            SELECT folders.id FROM folders JOIN held ON parent = held.id) SELECT id FROM held)",
        repair: &["DELETE FROM folders WHERE parent IS NOT NULL AND id NOT IN (WITH RECURSIVE held (id) AS
            (SELECT id FROM folders WHERE parent IS NULL UNION
            SELECT folders.id FROM folders JOIN held ON parent = held.id) SELECT id FROM held)"],
    },
    Rule {
        broken: "files that lie nowhere",
        rows: "FROM files WHERE folder NOT IN (SELECT id FROM folders)",
        repair: &["DELETE FROM files WHERE folder NOT IN (SELECT id FROM folders)"],
    },
    Rule {
        broken: "folders that are there in one that is gone",
        rows: "FROM folders JOIN folders AS above ON above.id = folders.parent
            WHERE folders.removed IS NULL AND above.removed IS NOT NULL",
        repair: &["WITH RECURSIVE gone (id, since) AS (
            SELECT id, removed FROM folders WHERE removed IS NOT NULL UNION
            SELECT folders.id, since FROM folders JOIN gone ON parent = gone.id)
            UPDATE folders SET removed = (SELECT min(since) FROM gone WHERE gone.id = folders.id)
            WHERE removed IS NULL AND id IN (SELECT id FROM gone)"],
    },
    Rule {
        broken: "files that are there in a folder that is gone",
        rows: "FROM files JOIN folders ON folders.id = folder
            WHERE files.removed IS NULL AND folders.removed IS NOT NULL",
        repair: &["UPDATE files SET removed = (SELECT removed FROM folders WHERE id = folder)
            WHERE removed IS NULL AND folder IN (SELECT id FROM folders WHERE removed IS NOT NULL)"],
    },
    Rule {
        broken: "hashes of another length than the hash function has",
        rows: "FROM files WHERE length(hash) <> ?1",
        repair: &["UPDATE files SET hash = NULL WHERE length(hash) <> ?1"],
    },
    Rule {
        broken: "files with a hash and an error",
        rows: "FROM files WHERE hash IS NOT NULL AND error IS NOT NULL",
        repair: &["UPDATE files SET hash = NULL WHERE hash IS NOT NULL AND error IS NOT NULL"],
    },
];

/// Folders that are gone since then and in which nothing is left: by a clock that went back, a folder may
/// be gone since longer than what lies in it.
const EMPTY: &str = "DELETE FROM folders WHERE removed < ?1 AND id NOT IN (
    WITH RECURSIVE held (id) AS (
        SELECT id FROM folders
            WHERE removed < ?1 AND EXISTS (SELECT 1 FROM files WHERE folder = folders.id)
        UNION SELECT parent FROM folders WHERE parent IS NOT NULL AND ifnull(removed >= ?1, TRUE)
        UNION SELECT parent FROM folders JOIN held USING (id) WHERE parent IS NOT NULL)
    SELECT id FROM held)";

impl Store {
    /// What was found to be gone before that time, in s: more than is forgotten only where a clock went back.
    pub fn gone(&self, before: i64) -> Result<Purged, Error> {
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table} WHERE removed < ?1");
            let count = self.connection().query_row(&sql, [before], |row| row.get::<_, i64>(0));
            self.wrap(count.map(i64::cast_unsigned))
        };
        Ok(Purged { files: count("files")?, folders: count("folders")? })
    }

    /// Forgets what was found to be gone before that time, in s.
    pub fn purge(&self, before: i64) -> Result<Purged, Error> {
        let purge = || {
            let connection = self.connection();
            let transaction = connection.unchecked_transaction()?;
            let files = connection.execute("DELETE FROM files WHERE removed < ?1", [before])?;
            let folders = connection.execute(EMPTY, [before])?;
            transaction.commit()?;
            Ok(Purged { files: files as u64, folders: folders as u64 })
        };
        self.wrap(purge())
    }

    /// Everything that is wrong with it.
    pub fn faults(&self) -> Result<Vec<Fault>, Error> {
        let length = self.hash_length()?;
        let look = || {
            let connection = self.connection();
            let mut faults = damage(connection)?;
            for rule in &RULES {
                let sql = format!("SELECT count(*) {}", rule.rows);
                let count: i64 = ask(connection, &sql, length, |row| row.get(0))?;
                if count > 0 {
                    let (what, count) = (rule.broken.to_owned(), count.cast_unsigned());
                    faults.push(Fault { what, count, can_be_repaired: true });
                }
            }
            Ok(faults)
        };
        self.wrap(look())
    }

    /// Puts in order what can be: indexes are made anew, rows that no scan could have left are deleted or
    /// lose what can't be true of them. The next scan brings back what is there.
    pub fn repair(&self) -> Result<(), Error> {
        let length = self.hash_length()?;
        let repair = || {
            let connection = self.connection();
            let transaction = connection.unchecked_transaction()?;
            connection.execute_batch("REINDEX")?;
            for sql in RULES.iter().flat_map(|rule| rule.repair) {
                let mut statement = connection.prepare(sql)?;
                match statement.parameter_count() {
                    0 => statement.execute([])?,
                    _ => statement.execute([length])?,
                };
            }
            transaction.commit()
        };
        self.wrap(repair())
    }

    fn hash_length(&self) -> Result<i64, Error> {
        let algorithm = self.algorithm()?.unwrap_or_default();
        Ok(length_of(&algorithm.digest(b"")))
    }

    /// Whether any file has one.
    pub fn has_hashes(&self) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM files WHERE hash IS NOT NULL)";
        self.wrap(self.connection().query_row(sql, [], |row| row.get(0)))
    }

    /// The hash function of all hashes in it; None before the first scan.
    pub fn algorithm(&self) -> Result<Option<Algorithm>, Error> {
        let name = self.setting::<String>(super::HASH)?;
        Ok(name.and_then(|name| Algorithm::from_name(&name)))
    }
}

fn length_of(digest: &Digest) -> i64 {
    digest.as_bytes().len() as i64
}

/// What SQLite itself finds. An index can be made anew; a table can't.
fn damage(connection: &Connection) -> rusqlite::Result<Vec<Fault>> {
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut faults = Vec::new();
    for line in lines {
        let line = line?;
        if line != "ok" {
            let can_be_repaired = line.contains("index");
            faults.push(Fault { what: line, count: 1, can_be_repaired });
        }
    }
    Ok(faults)
}

fn ask<T>(
    connection: &Connection,
    sql: &str,
    length: i64,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut statement = connection.prepare(sql)?;
    match statement.parameter_count() {
        0 => statement.query_row([], read),
        _ => statement.query_row(params![length], read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with a folder, and a file in it.
    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        store.use_algorithm(None).unwrap();
        let rows = "INSERT INTO roots (id, path, words, added, device, inode) VALUES (1, x'2f', '[]', 0, NULL, NULL);
            INSERT INTO folders VALUES (1, 1, NULL, x'', 1, 0, NULL, NULL), (2, 1, 1, x'61', 1, 0, NULL, NULL);
            INSERT INTO files VALUES (2, x'62', NULL, 1, 1, 1, 1, 1, 1, 0, NULL, zeroblob(32), NULL, NULL)";
        store.connection().execute_batch(rows).unwrap();
        store.make_indexes().unwrap();
        (dir, store)
    }

    #[test]
    fn a_sound_database_has_no_faults() {
        let (_dir, store) = store();
        assert_eq!(store.faults().unwrap(), []);
    }

    #[test]
    fn each_rule_is_noticed_and_repaired() {
        let breaks = [
            "UPDATE folders SET root = 7 WHERE id = 2",
            "UPDATE folders SET parent = 2 WHERE id = 2",
            "UPDATE files SET folder = 9",
            "UPDATE folders SET removed = 1 WHERE id = 1",
            "UPDATE folders SET removed = 1 WHERE id = 2",
            "UPDATE files SET hash = x'00'",
            "UPDATE files SET error = 5",
        ];
        assert_eq!(breaks.len(), RULES.len());
        for (sql, rule) in breaks.into_iter().zip(&RULES) {
            let (_dir, store) = store();
            store.connection().execute_batch(sql).unwrap();
            let faults = store.faults().unwrap();
            assert!(faults.iter().any(|fault| fault.what == rule.broken), "{sql}: {faults:?}");
            store.repair().unwrap();
            assert_eq!(store.faults().unwrap(), [], "{sql}");
        }
    }

    #[test]
    fn what_was_gone_before_is_purged() {
        let (_dir, store) = store();
        let gone = "UPDATE files SET removed = 100; UPDATE folders SET removed = 200 WHERE id = 2";
        store.connection().execute_batch(gone).unwrap();
        assert_eq!(store.purge(100).unwrap(), Purged::default());
        assert_eq!(store.purge(101).unwrap(), Purged { files: 1, folders: 0 });
        assert_eq!(store.purge(i64::MAX).unwrap(), Purged { files: 0, folders: 1 });
        assert_eq!(store.faults().unwrap(), []);
    }

    /// By a clock that goes back, what lies in a folder may be gone since later than the folder is.
    #[test]
    fn what_is_kept_lies_somewhere_whatever_the_clock_said() {
        let mut dice = 1_u64;
        let mut roll = |sides: i64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33).cast_signed() % sides
        };
        let (_dir, store) = store();
        store.connection().pragma_update(None, "synchronous", "OFF").unwrap();
        for case in 0..300 {
            let mut sql = "DELETE FROM files; DELETE FROM folders WHERE id > 2;
                UPDATE folders SET removed = NULL;"
                .to_owned();
            for folder in 3..12 {
                let (parent, file) = (1 + roll(folder - 1), 1 + roll(folder));
                let (gone, since) = ([roll(2), roll(2)], [roll(9), roll(9)]);
                let removed = |at: usize| {
                    format!("iif(removed IS NOT NULL OR {}, {}, NULL)", gone[at], since[at])
                };
                sql += &format!(
                    "INSERT INTO folders (id, root, parent, name, device, left_out, removed)
                        SELECT {folder}, 1, {parent}, x'{folder:02x}', 1, 0, {}
                        FROM folders WHERE id = {parent};
                    INSERT INTO files (folder, name, inode, size, blocks, links, mtime, ctime, racy, removed)
                        SELECT {file}, x'{folder:02x}', 1, 1, 1, 1, 1, 1, 0, {}
                        FROM folders WHERE id = {file};",
                    removed(0),
                    removed(1)
                );
            }
            store.connection().execute_batch(&sql).unwrap();
            assert_eq!(store.faults().unwrap(), [], "case {case}");
            let count = |sql: &str| -> i64 {
                store.connection().query_row(sql, [], |row| row.get(0)).unwrap()
            };
            let before = roll(10);
            let kept =
                format!("SELECT count(*) FROM files WHERE ifnull(removed >= {before}, TRUE)");
            let expected = count(&kept);
            let (files, folders) = ("SELECT count(*) FROM files", "SELECT count(*) FROM folders");
            let all = (count(files), count(folders));
            let purged = store.purge(before).unwrap();
            assert_eq!(store.faults().unwrap(), [], "case {case}, before {before}");
            assert_eq!((count(files), count(&kept)), (expected, expected), "case {case}");
            let left = (purged.files.cast_signed(), purged.folders.cast_signed());
            assert_eq!((all.0 - left.0, all.1 - left.1), (count(files), count(folders)));
            // No folder stays but for its own time or for what lies in it.
            let idle = format!(
                "SELECT count(*) FROM folders WHERE removed < {before} AND NOT EXISTS
                (SELECT 1 FROM files WHERE folder = folders.id) AND NOT EXISTS
                (SELECT 1 FROM folders AS inner WHERE inner.parent = folders.id)"
            );
            assert_eq!(count(&idle), 0, "case {case}, before {before}");
        }
    }
}

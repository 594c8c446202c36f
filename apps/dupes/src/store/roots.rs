//! Paths that were registered: what a scan is of.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row, params};

use super::identity::{Ground, Identity};
use super::{Error, Store, now};

/// A registered root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its number.
    pub id: i64,
    /// Absolute, without links in it.
    pub path: PathBuf,
    /// What counts there: words of a command line.
    pub words: Vec<String>,
    /// When it was registered, in s.
    pub added: i64,
    /// Its folder, when it was last scanned.
    pub identity: Option<Identity>,
    offline: Option<String>,
}

/// The error of a folder on which something was mounted that is not there: no such device.
pub const AWAY: i32 = 19;

/// Where something was mounted below roots, by the numbers of folders.
#[derive(Debug, Default)]
pub struct Mounts {
    /// On these, each with what it was.
    pub here: HashMap<i64, Option<Identity>>,
    /// On these, or somewhere below.
    pub below: HashSet<i64>,
}

/// What is recorded of a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Folders that are there.
    pub folders: u64,
    /// Files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Files and folders that could not be read.
    pub errors: u64,
}

/// Whether a root can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is there.
    Online,
    /// It is not there, or something else is in its place: an empty folder that is another one than
    /// it was, as where nothing is mounted.
    Offline,
}

const COLUMNS: &str = "id, path, words, added, device, inode, file_system, born";

impl Root {
    fn read(row: &Row<'_>) -> rusqlite::Result<Root> {
        let path = row.get_ref(1)?.as_blob()?;
        let words = row.get_ref(2)?.as_str()?;
        Ok(Root {
            id: row.get(0)?,
            path: OsStr::from_bytes(path).into(),
            words: serde_json::from_str(words).unwrap_or_default(),
            added: row.get(3)?,
            identity: Identity::read(row, 4)?,
            offline: None,
        })
    }

    /// Whether it could be looked at when the database was asked for it.
    pub fn presence(&self) -> Presence {
        if self.offline.is_some() { Presence::Offline } else { Presence::Online }
    }

    /// Why it can't be looked at, for people; None: it can.
    pub fn why_offline(&self) -> Option<&str> {
        self.offline.as_deref()
    }

    /// Whether it is on the device that it was on when it was last scanned: numbers of inodes are those of
    /// other roots there, too. A number of a device may be that of another one by now.
    pub fn has_its_numbers(&self) -> bool {
        let now = std::fs::metadata(&self.path).ok().map(|found| found.dev());
        self.presence() == Presence::Online && now == self.identity.map(|known| known.device)
    }

    /// As it is now; `names` are those that were in it.
    fn looked_at(
        self,
        names: impl FnOnce() -> rusqlite::Result<Vec<Vec<u8>>>,
    ) -> rusqlite::Result<Root> {
        let offline = match Identity::of(self.path.as_os_str().as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Some("it is no folder any more".into())
            }
            Err(error) => Some(error.to_string()),
            Ok(now) => {
                let path = self.path.as_os_str().as_bytes();
                match Ground::of(self.identity, now) {
                    Ground::Same => None,
                    Ground::Replaced => {
                        let is_away =
                            Ground::Replaced.is_only_the_place(path, &mut names()?.into_iter());
                        is_away.then(|| {
                            "another folder, with nothing of it, is in its place: is its disk mounted?".into()
                        })
                    }
                    Ground::Another => Some(
                        "another folder, on another disk, is in its place: is its disk mounted?"
                            .into(),
                    ),
                }
            }
        };
        Ok(Root { offline, ..self })
    }
}

impl Store {
    /// All of them, by their paths.
    pub fn roots(&self) -> Result<Vec<Root>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM roots ORDER BY path");
        let all = || {
            let mut statement = self.connection().prepare(&sql)?;
            let all: Vec<Root> = statement.query_map([], Root::read)?.collect::<Result<_, _>>()?;
            all.into_iter().map(|root| self.looked_at(root)).collect()
        };
        self.wrap(all())
    }

    /// The one with that path.
    pub fn root(&self, path: &Path) -> Result<Option<Root>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM roots WHERE path = ?1");
        let bytes = path.as_os_str().as_bytes();
        let found = || {
            let found = self.connection().query_row(&sql, [bytes], Root::read).optional()?;
            found.map(|root| self.looked_at(root)).transpose()
        };
        self.wrap(found())
    }

    fn looked_at(&self, root: Root) -> rusqlite::Result<Root> {
        let id = root.id;
        root.looked_at(|| {
            let names =
                "WITH top (id) AS (SELECT id FROM folders WHERE root = ?1 AND parent IS NULL)
                SELECT name FROM folders WHERE parent IN top AND removed IS NULL UNION ALL
                SELECT name FROM files WHERE folder IN top AND removed IS NULL";
            let mut statement = self.connection().prepare(names)?;
            statement.query_map([id], |row| row.get(0))?.collect()
        })
    }

    /// A new one; its path must be absolute and without links.
    pub fn add_root(&self, path: &Path, words: &[String]) -> Result<Root, Error> {
        let words = serde_json::Value::from(words).to_string();
        let sql = format!(
            "INSERT INTO roots (path, words, added) VALUES (?1, ?2, ?3) RETURNING {COLUMNS}"
        );
        let bytes = path.as_os_str().as_bytes();
        self.wrap(self.connection().query_row(&sql, params![bytes, words, now()], Root::read))
    }

    /// Forgets a root with all that is recorded of it. True: it was there.
    pub fn remove_root(&self, id: i64) -> Result<bool, Error> {
        let remove = || {
            let connection = self.connection();
            let transaction = connection.unchecked_transaction()?;
            let files =
                "DELETE FROM files WHERE folder IN (SELECT id FROM folders WHERE root = ?1)";
            connection.execute(files, [id])?;
            let mounts =
                "DELETE FROM mounts WHERE folder IN (SELECT id FROM folders WHERE root = ?1)";
            connection.execute(mounts, [id])?;
            connection.execute("DELETE FROM folders WHERE root = ?1", [id])?;
            let found = connection.execute("DELETE FROM roots WHERE id = ?1", [id])? > 0;
            transaction.commit()?;
            Ok(found)
        };
        self.wrap(remove())
    }

    /// Whatever is at its path from now on is that root, and whatever is mounted below it; what was mounted there
    /// and is not there any more is not waited for.
    pub fn take_as_it_is(&self, id: i64) -> Result<(), Error> {
        let take = || {
            let connection = self.connection();
            let transaction = connection.unchecked_transaction()?;
            connection
                .execute("UPDATE roots SET device = NULL, inode = NULL, file_system = NULL, born = NULL WHERE id = ?1", [id])?;
            let mounts = "WITH RECURSIVE away (id) AS (
                SELECT id FROM folders WHERE root = ?1 AND error = ?2 UNION
                SELECT folders.id FROM folders JOIN away ON parent = away.id)
                DELETE FROM mounts WHERE folder IN away";
            connection.execute(mounts, [id, i64::from(AWAY)])?;
            let others =
                "UPDATE mounts SET device = NULL, inode = NULL, file_system = NULL, born = NULL
                WHERE folder IN (SELECT id FROM folders WHERE root = ?1)";
            connection.execute(others, [id])?;
            transaction.commit()
        };
        self.wrap(take())
    }

    /// Why files and folders of it could not be read, each with how many.
    pub fn errors(&self, id: i64) -> Result<Vec<(i32, u64)>, Error> {
        let sql = "WITH those (id, error) AS (SELECT id, error FROM folders WHERE root = ?1 AND removed IS NULL)
            SELECT error, count(*) FROM (
                SELECT error FROM those WHERE error IS NOT NULL UNION ALL
                SELECT files.error FROM those JOIN files ON folder = id
                    WHERE files.removed IS NULL AND files.error IS NOT NULL)
            GROUP BY error ORDER BY error";
        let all = || {
            let mut statement = self.connection().prepare(sql)?;
            statement.query_map([id], |row| Ok((row.get(0)?, number(row, 1)?)))?.collect()
        };
        self.wrap(all())
    }

    /// On how many of its folders something was mounted that was away when they were looked for.
    pub fn folders_away(&self, id: i64) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM folders WHERE root = ?1 AND error = ?2";
        let count = |row: &Row<'_>| number(row, 0);
        self.wrap(self.connection().query_row(sql, [id, i64::from(AWAY)], count))
    }

    /// Folders on which something was mounted, and all above them.
    pub fn mounts(&self) -> Result<Mounts, Error> {
        let above = "WITH RECURSIVE above (id) AS (SELECT folder FROM mounts UNION
            SELECT parent FROM folders JOIN above USING (id) WHERE parent IS NOT NULL) SELECT id FROM above";
        let ids = |sql: &str| {
            let mut statement = self.connection().prepare(sql)?;
            statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<rusqlite::Result<_>>()
        };
        let here = || {
            let all = "SELECT folder, device, inode, file_system, born FROM mounts";
            let mut statement = self.connection().prepare(all)?;
            let pair = |row: &Row<'_>| Ok((row.get(0)?, Identity::read(row, 1)?));
            statement.query_map([], pair)?.collect::<rusqlite::Result<_>>()
        };
        let mounts = || Ok(Mounts { here: here()?, below: ids(above)? });
        self.wrap(mounts())
    }

    /// The folder that is the root itself, once it was scanned.
    pub fn folder_of_root(&self, id: i64) -> Result<Option<i64>, Error> {
        let sql = "SELECT id FROM folders WHERE root = ?1 AND parent IS NULL";
        self.wrap(self.connection().query_row(sql, [id], |row| row.get(0)).optional())
    }

    /// A number that no folder has, nor any after it.
    pub fn next_folder(&self) -> Result<i64, Error> {
        let sql = "SELECT 1 + max(ifnull((SELECT max(id) FROM folders), 0),
            ifnull((SELECT max(folder) FROM files), 0))";
        self.wrap(self.connection().query_row(sql, [], |row| row.get(0)))
    }

    /// What is recorded of a root.
    pub fn contents(&self, id: i64) -> Result<Contents, Error> {
        let folders = "SELECT count(*) FILTER (WHERE removed IS NULL),
            count(*) FILTER (WHERE removed IS NULL AND error IS NOT NULL) FROM folders WHERE root = ?1";
        let files = "SELECT count(*) FILTER (WHERE files.removed IS NULL),
            ifnull(sum(size) FILTER (WHERE files.removed IS NULL), 0),
            count(*) FILTER (WHERE files.removed IS NOT NULL),
            count(*) FILTER (WHERE files.removed IS NULL AND files.error IS NOT NULL)
            FROM folders JOIN files ON folder = folders.id WHERE root = ?1";
        let count = || {
            let connection = self.connection();
            let pair = |row: &Row<'_>| Ok((number(row, 0)?, number(row, 1)?));
            let (folders, unread) = connection.query_row(folders, [id], pair)?;
            connection.query_row(files, [id], |row| {
                Ok(Contents {
                    folders,
                    files: number(row, 0)?,
                    bytes: number(row, 1)?,
                    removed: number(row, 2)?,
                    errors: unread + number(row, 3)?,
                })
            })
        };
        self.wrap(count())
    }
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(i64::cast_unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_known_with_all_above_them_until_they_are_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        let rows = "INSERT INTO roots (id, path, words, added, device, inode) VALUES (1, x'2f', '[]', 0, 7, 8);
            INSERT INTO folders VALUES (1, 1, NULL, x'', 1, 0, NULL, NULL), (2, 1, 1, x'61', 1, 0, 19, NULL),
                (3, 1, 2, x'62', 2, 0, NULL, NULL), (4, 1, 1, x'63', 3, 0, NULL, NULL), (5, 1, 4, x'64', 3, 0, NULL, NULL);
            INSERT INTO mounts (folder) VALUES (3), (4)";
        store.connection().execute_batch(rows).unwrap();
        let mounts = store.mounts().unwrap();
        assert_eq!(mounts.here, [(3, None), (4, None)].into());
        assert_eq!(mounts.below, [1, 2, 3, 4].into());
        store.take_as_it_is(1).unwrap();
        assert_eq!(store.mounts().unwrap().here, [(4, None)].into(), "one is there");
        assert_eq!(store.roots().unwrap()[0].identity, None);
    }
}

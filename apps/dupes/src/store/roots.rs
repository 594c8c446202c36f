//! Paths that were registered: what a scan is of.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, Row, params};

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
    /// Device and inode of its folder, when it was last scanned.
    pub identity: Option<(u64, u64)>,
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

const COLUMNS: &str = "id, path, words, added, device, inode";

impl Root {
    fn read(row: &Row<'_>) -> rusqlite::Result<Root> {
        let path = row.get_ref(1)?.as_blob()?;
        let words = row.get_ref(2)?.as_str()?;
        let number =
            |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(i64::cast_unsigned));
        Ok(Root {
            id: row.get(0)?,
            path: OsStr::from_bytes(path).into(),
            words: serde_json::from_str(words).unwrap_or_default(),
            added: row.get(3)?,
            identity: number(4)?.zip(number(5)?),
        })
    }

    /// As it is now.
    pub fn presence(&self) -> Presence {
        let Ok(found) = std::fs::metadata(&self.path) else { return Presence::Offline };
        if !found.is_dir() {
            return Presence::Offline;
        }
        let is_another = self.identity.is_some_and(|known| known != (found.dev(), found.ino()));
        let is_empty = || std::fs::read_dir(&self.path).is_ok_and(|mut all| all.next().is_none());
        if is_another && is_empty() { Presence::Offline } else { Presence::Online }
    }
}

impl Store {
    /// All of them, by their paths.
    pub fn roots(&self) -> Result<Vec<Root>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM roots ORDER BY path");
        let all = || {
            let mut statement = self.connection().prepare(&sql)?;
            statement.query_map([], Root::read)?.collect()
        };
        self.wrap(all())
    }

    /// The one with that path.
    pub fn root(&self, path: &Path) -> Result<Option<Root>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM roots WHERE path = ?1");
        let bytes = path.as_os_str().as_bytes();
        self.wrap(self.connection().query_row(&sql, [bytes], Root::read).optional())
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
            connection.execute("DELETE FROM folders WHERE root = ?1", [id])?;
            let found = connection.execute("DELETE FROM roots WHERE id = ?1", [id])? > 0;
            transaction.commit()?;
            Ok(found)
        };
        self.wrap(remove())
    }

    /// Which folder it is that was scanned: whatever is empty and another one is not that root.
    pub fn note_identity(&self, id: i64, identity: (u64, u64)) -> Result<(), Error> {
        let (device, inode) = (identity.0.cast_signed(), identity.1.cast_signed());
        let sql = "UPDATE roots SET device = ?2, inode = ?3 WHERE id = ?1";
        self.wrap(self.connection().execute(sql, params![id, device, inode]).map(drop))
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

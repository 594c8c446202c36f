//! What a scan asks, by as many threads as walk: each with a connection of its own.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{COLUMNS, FileRow, FolderRow};
use super::{Store, connect};

/// Connections that read.
#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

/// A file that is in the database.
#[derive(Clone, Copy, Debug)]
pub struct RecordedFile {
    /// What is known of it.
    pub row: FileRow,
    /// It was gone when it was last looked for.
    pub removed: bool,
}

/// A folder that is in the database.
#[derive(Clone, Copy, Debug)]
pub struct RecordedFolder {
    /// Its number there.
    pub id: i64,
    /// It was gone when it was last looked for.
    pub removed: bool,
}

/// By name.
pub type ByName<T> = HashMap<Box<[u8]>, T>;

impl Readers {
    /// Of a database that is open.
    pub fn new(store: &Store) -> Readers {
        Readers { path: store.path().to_owned(), idle: Mutex::default() }
    }

    /// The files of a folder.
    pub fn files(&self, folder: i64) -> rusqlite::Result<ByName<RecordedFile>> {
        let sql = const_format_files();
        self.with(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map([folder], |row| {
                let name = row.get_ref(0)?.as_blob()?.into();
                let removed = row.get::<_, Option<i64>>(1)?.is_some();
                Ok((name, RecordedFile { row: FileRow::read(row, 2)?, removed }))
            })?;
            rows.collect()
        })
    }

    /// The folders in a folder.
    pub fn folders(&self, parent: i64) -> rusqlite::Result<ByName<RecordedFolder>> {
        self.with(|connection| {
            let sql = "SELECT name, id, removed FROM folders WHERE parent = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([parent], |row| {
                let name = row.get_ref(0)?.as_blob()?.into();
                let removed = row.get::<_, Option<i64>>(2)?.is_some();
                Ok((name, RecordedFolder { id: row.get(1)?, removed }))
            })?;
            rows.collect()
        })
    }

    /// A folder itself, and whether it was gone; None if it is not there.
    pub fn folder(&self, id: i64) -> rusqlite::Result<Option<(FolderRow, bool)>> {
        self.with(|connection| {
            let sql = "SELECT device, left_out, error, removed FROM folders WHERE id = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let read = |row: &rusqlite::Row<'_>| {
                let device = row.get::<_, Option<i64>>(0)?.map(i64::cast_unsigned);
                let folder = FolderRow { device, left_out: row.get(1)?, error: row.get(2)? };
                Ok((folder, row.get::<_, Option<i64>>(3)?.is_some()))
            };
            statement.query_row(params![id], read).optional()
        })
    }

    /// The sizes of files below other roots than these.
    pub fn sizes_elsewhere(&self, roots: &[i64]) -> rusqlite::Result<HashSet<u64>> {
        let here: HashSet<i64> = roots.iter().copied().collect();
        self.with(|connection| {
            let mut others = connection.prepare("SELECT id FROM roots")?;
            let others = others.query_map([], |row| row.get::<_, i64>(0))?;
            let mut sizes = HashSet::new();
            for other in others.collect::<rusqlite::Result<Vec<i64>>>()? {
                if here.contains(&other) {
                    continue;
                }
                let sql = "SELECT DISTINCT size FROM folders JOIN files ON folder = folders.id
                    WHERE root = ?1 AND files.removed IS NULL";
                let mut statement = connection.prepare_cached(sql)?;
                let found = statement.query_map([other], |row| row.get::<_, i64>(0))?;
                for size in found {
                    sizes.insert(size?.cast_unsigned());
                }
            }
            Ok(sizes)
        })
    }

    fn with<R>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> rusqlite::Result<R> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let connection = known.map_or_else(|| connect(&self.path), Ok)?;
        let result = f(&connection)?;
        idle().push(connection);
        Ok(result)
    }
}

fn const_format_files() -> String {
    format!("SELECT name, removed, {COLUMNS} FROM files WHERE folder = ?1")
}

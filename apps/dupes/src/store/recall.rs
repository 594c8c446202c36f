//! What a scan asks, by as many threads as walk: each with a connection of its own.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row};

use super::rows::{FILES, FileRow, FolderRow};
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

/// What is in the database of a folder and of what lies in it.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The folder itself, and whether it was gone; None if it is not there.
    pub row: Option<(FolderRow, bool)>,
    /// Its files.
    pub files: ByName<RecordedFile>,
    /// The folders in it.
    pub folders: ByName<RecordedFolder>,
}

const FOLDER: &str = "SELECT device, left_out, error, removed FROM folders WHERE id = ?1";
const FOLDERS: &str = "SELECT name, id, removed FROM folders WHERE parent = ?1";

fn ask(connection: &Connection, id: i64) -> rusqlite::Result<Recorded> {
    let is_removed =
        |row: &Row<'_>, at: usize| row.get::<_, Option<i64>>(at).map(|removed| removed.is_some());
    let folder = |row: &Row<'_>| {
        let device = row.get::<_, Option<i64>>(0)?.map(i64::cast_unsigned);
        let folder = FolderRow { device, left_out: row.get(1)?, error: row.get(2)? };
        Ok((folder, is_removed(row, 3)?))
    };
    let row = connection.prepare_cached(FOLDER)?.query_row([id], folder).optional()?;
    let file = |row: &Row<'_>| {
        let name = row.get_ref(0)?.as_blob()?.into();
        Ok((name, RecordedFile { row: FileRow::read(row, 2)?, removed: is_removed(row, 1)? }))
    };
    let mut files = connection.prepare_cached(FILES)?;
    let files = files.query_map([id], file)?.collect::<rusqlite::Result<_>>()?;
    let below = |row: &Row<'_>| {
        let name = row.get_ref(0)?.as_blob()?.into();
        Ok((name, RecordedFolder { id: row.get(1)?, removed: is_removed(row, 2)? }))
    };
    let mut folders = connection.prepare_cached(FOLDERS)?;
    let folders = folders.query_map([id], below)?.collect::<rusqlite::Result<_>>()?;
    Ok(Recorded { row, files, folders })
}

impl Readers {
    /// Of a database that is open.
    pub fn new(store: &Store) -> Readers {
        Readers { path: store.path().to_owned(), idle: Mutex::default() }
    }

    /// What is recorded of a folder, as of one moment: locks are taken once for all of it.
    pub fn folder(&self, id: i64) -> rusqlite::Result<Recorded> {
        self.with(|connection| {
            connection.prepare_cached("BEGIN")?.execute([])?;
            let recorded = ask(connection, id);
            connection.prepare_cached("COMMIT")?.execute([])?;
            recorded
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

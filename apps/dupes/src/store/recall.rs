//! What a scan asks, by as many threads as walk: each with a connection of its own.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rusqlite::{Connection, ffi};

use super::by_name::ByName;
use super::rows::{FileRow, FolderRow};
use super::{Store, connect};
use crate::locking::lock;

/// Connections that read.
#[derive(Debug)]
pub struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// Holds a transaction: while one of this process does, SQLite takes the locks that all others need without
    /// asking the system, which costs more than the question.
    anchor: Mutex<Option<Connection>>,
    asked: AtomicU32,
}

/// After so many questions the anchor's transaction gives way to a new one: what is written meanwhile can't leave the
/// WAL before.
const AT_ANCHOR: u32 = 256;

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

/// All of it as one statement, which sees one moment and takes its locks once: the folder itself (0), its files (1)
/// and the folders in it (2). Each part comes in the order of its index, by name.
const FOLDER: &str = "
    SELECT 0, NULL, removed, device, left_out, error, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM folders WHERE id = ?1
    UNION ALL
    SELECT 1, name, removed, device, inode, size, blocks, links, mtime, ctime, racy, sample, hash, error
        FROM files WHERE folder = ?1
    UNION ALL
    SELECT 2, name, removed, id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM folders WHERE parent = ?1";

fn ask(connection: &Connection, id: i64) -> rusqlite::Result<Recorded> {
    let mut recorded = Recorded::default();
    let mut statement = connection.prepare_cached(FOLDER)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        let removed = row.get::<_, Option<i64>>(2)?.is_some();
        let name = || row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from);
        let in_order = match row.get(0)? {
            0 => {
                let device = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
                let folder = FolderRow { device, left_out: row.get(4)?, error: row.get(5)? };
                recorded.row.replace((folder, removed)).is_none()
            }
            1 => {
                let file = RecordedFile { row: FileRow::read(row, 3)?, removed };
                recorded.files.push(name()?, file)
            }
            _ => recorded.folders.push(name()?, RecordedFolder { id: row.get(3)?, removed }),
        };
        if !in_order {
            return Err(damaged());
        }
    }
    Ok(recorded)
}

fn damaged() -> rusqlite::Error {
    let why = "an index is not in order".to_owned();
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(why))
}

impl Readers {
    /// Of a database that is open.
    pub fn new(store: &Store) -> Readers {
        let path = store.path().to_owned();
        Readers { path, idle: Mutex::default(), anchor: Mutex::default(), asked: AtomicU32::new(0) }
    }

    /// What is recorded of a folder, as of one moment.
    pub fn folder(&self, id: i64) -> rusqlite::Result<Recorded> {
        self.with(|connection| ask(connection, id))
    }

    /// To be called for each folder, also one that nothing is asked of.
    pub fn hold(&self) {
        if self.asked.fetch_add(1, Relaxed).is_multiple_of(AT_ANCHOR) {
            let mut anchor = lock(&self.anchor);
            // Without one it only takes longer.
            *anchor = self.anchored(anchor.take()).ok();
        }
    }

    /// When nothing will be asked any more, or not for long.
    pub fn let_go(&self) {
        lock(&self.anchor).take();
    }

    fn anchored(&self, before: Option<Connection>) -> rusqlite::Result<Connection> {
        let connection = match before {
            Some(connection) => {
                connection.prepare_cached("COMMIT")?.execute([])?;
                connection
            }
            None => connect(&self.path)?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        // It begins with the first question.
        connection.prepare_cached("SELECT NULL FROM roots LIMIT 1")?.exists([])?;
        Ok(connection)
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
        let known = lock(&self.idle).pop();
        let connection = known.map_or_else(|| connect(&self.path), Ok)?;
        let result = f(&connection)?;
        lock(&self.idle).push(connection);
        Ok(result)
    }
}

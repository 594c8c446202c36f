//! The one who writes: a pool of one worker with a bounded queue, and a transaction that lasts about a
//! second.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, params};
use tidegate::{BuildError, Pool, Shutdown};

use super::identity::Identity;
use super::roots::AWAY;
use super::rows::{FileRow, FolderRow};
use super::{STEPS, connect};
use crate::digest::Digest;
use crate::locking::lock;
use crate::stop::Stop;

/// Records that one task writes: some ms of work.
const BATCH: usize = 2_048;
/// Batches that wait.
const QUEUE: usize = 8;
/// How long what was learned may be lost by a crash.
const COMMIT_AFTER: Duration = Duration::from_secs(1);
/// How long the end that somebody asks for waits for what is to be written, and for a write that does
/// not return: with that of those who read, less than the 5 s that are promised.
const AT_LAST: Duration = Duration::from_millis(1_200);
const GRACE: Duration = Duration::from_millis(200);

/// Something to be written.
#[derive(Debug)]
pub enum Record {
    /// A folder that is there: for the first time, or again.
    Folder {
        /// Its own number, that of its root, and that of what it lies in.
        id: i64,
        /// Of the root.
        root: i64,
        /// None for the folder of the root itself.
        parent: Option<i64>,
        /// Without what comes before.
        name: Box<[u8]>,
    },
    /// A root is this folder.
    Root(i64, Identity),
    /// A folder was looked into.
    Listed(i64, FolderRow),
    /// A folder that was on the first device is on the second one now; its files that are recorded were not.
    OtherDevice(i64, u64, u64),
    /// What is mounted on a folder; None: nothing is.
    Mount(i64, Option<Identity>),
    /// What was mounted on a folder, or below, is not there: and neither is the folder.
    Away(i64),
    /// A file is there: new, or another one than it was.
    File(i64, Box<[u8]>, FileRow),
    /// More is known of a file that was written before; and whether it may change without its times showing it.
    Read(i64, Box<[u8]>, Content, bool),
    /// A file is gone.
    FileGone(i64, Box<[u8]>),
    /// A folder is gone, with all that lies below.
    FolderGone(i64),
}

/// What a read has told of a file.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Of all of its bytes.
    Digest(Digest),
    /// Of beginning, middle and end. An older hash is void if this is another one, and not shown to hold if not.
    Sample(u64),
    /// The error.
    Nothing(i32),
}

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// Files that are gone, those below folders that are gone included.
    pub files_gone: AtomicU64,
    /// Folders that are gone.
    pub folders_gone: AtomicU64,
}

/// Takes records from anybody, in their order.
#[derive(Debug)]
pub struct Writer {
    pool: Pool,
    collected: Mutex<Collected>,
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Collected {
    records: Vec<Record>,
    since: Instant,
}

/// What the worker has before it.
#[derive(Debug)]
struct Desk {
    connection: Mutex<Connection>,
    /// When the transaction was begun.
    begun: Mutex<Option<Instant>>,
    failed: Mutex<Option<rusqlite::Error>>,
    /// Told when nothing more can be written.
    stop: Stop,
    written: Written,
    /// The time that this scan goes by, in s.
    now: i64,
}

/// Why there is no writer.
#[derive(Debug)]
pub enum CanNotWrite {
    /// No thread.
    Build(BuildError),
    /// No connection.
    Sqlite(rusqlite::Error),
}

impl Writer {
    /// `now` is what things that are gone are gone since.
    pub fn start(path: &Path, now: i64, stop: Stop) -> Result<Writer, CanNotWrite> {
        let connection = open(path, &stop).map_err(CanNotWrite::Sqlite)?;
        let pool = Pool::builder("database").workers(1).queue(QUEUE).grace(GRACE).build();
        Ok(Writer {
            pool: pool.map_err(CanNotWrite::Build)?,
            collected: Mutex::new(Collected { records: Vec::new(), since: Instant::now() }),
            desk: Arc::new(Desk {
                connection: Mutex::new(connection),
                begun: Mutex::default(),
                failed: Mutex::default(),
                stop,
                written: Written::default(),
                now,
            }),
        })
    }

    /// For those who watch.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// So much of it is in the database.
    pub fn written(&self) -> &Written {
        &self.desk.written
    }

    /// Waits while the queue is full.
    pub fn add(&self, records: impl IntoIterator<Item = Record>) {
        let mut collected = lock(&self.collected);
        collected.records.extend(records);
        let is_late = !collected.records.is_empty() && collected.since.elapsed() >= COMMIT_AFTER;
        if collected.records.len() >= BATCH || is_late {
            self.send(&mut collected, is_late);
        }
    }

    /// With the lock held: the next batch must not overtake this one.
    fn send(&self, collected: &mut Collected, commit: bool) {
        let records = std::mem::take(&mut collected.records);
        collected.since = Instant::now();
        let desk = Arc::clone(&self.desk);
        // Refused only after the end, when nobody is left to add anything.
        let _ = self.pool.spawn(move || desk.write(&records, commit));
    }

    /// Writes what is left. After it everything that was added is in the database, or an error says why
    /// not; if the run is to stop, or is told to meanwhile, as much of it as there is time for.
    pub fn finish(&self) -> rusqlite::Result<()> {
        self.send(&mut lock(&self.collected), true);
        let how = match self.desk.stop.is_asked() {
            true => Shutdown::light().within(AT_LAST),
            false => Shutdown::light(),
        };
        self.pool.shutdown(how).expect("this thread is no worker");
        lock(&self.desk.failed).take().map_or(Ok(()), Err)
    }
}

fn open(path: &Path, stop: &Stop) -> rusqlite::Result<Connection> {
    let mut connection = connect(path)?;
    // One statement may be about all of a tree.
    end_after(AT_LAST, &mut connection, stop)?;
    // Nothing is lost but the last second if the power fails, and the file stays whole.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "wal_autocheckpoint", 8_192)?;
    Ok(connection)
}

/// Whatever it does ends with an error so long after the run is to stop.
fn end_after(patience: Duration, connection: &mut Connection, stop: &Stop) -> rusqlite::Result<()> {
    let (stop, mut since) = (stop.clone(), None);
    let is_over =
        move || stop.is_asked() && since.get_or_insert_with(Instant::now).elapsed() >= patience;
    connection.progress_handler(STEPS, Some(is_over))
}

impl Desk {
    fn write(&self, records: &[Record], commit: bool) {
        if lock(&self.failed).is_some() {
            return;
        }
        if let Err(error) = self.try_to_write(records, commit) {
            // What is not committed is undone; it may be by now.
            let _ = lock(&self.connection).execute_batch("ROLLBACK");
            *lock(&self.failed) = Some(error);
            self.stop.ask();
        }
    }

    fn try_to_write(&self, records: &[Record], commit: bool) -> rusqlite::Result<()> {
        let connection = lock(&self.connection);
        let mut begun = lock(&self.begun);
        if begun.is_none() {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            *begun = Some(Instant::now());
        }
        let mut statements = Statements::new(&connection)?;
        for record in records {
            statements.write(record, self)?;
        }
        drop(statements);
        if commit || begun.is_some_and(|begun| begun.elapsed() >= COMMIT_AFTER) {
            connection.execute_batch("COMMIT")?;
            *begun = None;
        }
        Ok(())
    }
}

struct Statements<'a> {
    connection: &'a Connection,
    folder: CachedStatement<'a>,
    listed: CachedStatement<'a>,
    file: CachedStatement<'a>,
    digest: CachedStatement<'a>,
    sample: CachedStatement<'a>,
    nothing: CachedStatement<'a>,
    file_gone: CachedStatement<'a>,
    files_gone: CachedStatement<'a>,
    folders_gone: CachedStatement<'a>,
}

const FOLDER: &str =
    "INSERT INTO folders (id, root, parent, name, left_out) VALUES (?1, ?2, ?3, ?4, 0)
    ON CONFLICT (id) DO UPDATE SET removed = NULL";
const ROOT: &str =
    "UPDATE roots SET device = ?2, inode = ?3, file_system = ?4, born = ?5 WHERE id = ?1";
const FILES_WERE_ON: &str = "UPDATE files SET device = ?2 WHERE folder = ?1 AND device IS NULL";
const FOLDER_IS_ON: &str = "UPDATE folders SET device = ?2 WHERE id = ?1";
const MOUNT: &str = "INSERT OR REPLACE INTO mounts VALUES (?1, ?2, ?3, ?4, ?5)";
const NO_MOUNT: &str = "DELETE FROM mounts WHERE folder = ?1";
const IS_AWAY: &str = "UPDATE folders SET error = ?2 WHERE id = ?1";
const LISTED: &str = "UPDATE folders SET device = ?2, left_out = ?3, error = ?4 WHERE id = ?1";
const FILE: &str = "INSERT OR REPLACE INTO files (folder, name, device, inode, size, blocks, links,
    mtime, ctime, racy, sample, hash, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const DIGEST: &str =
    "UPDATE files SET hash = ?3, racy = ?4, error = NULL WHERE folder = ?1 AND name = ?2";
const SAMPLE: &str =
    "UPDATE files SET racy = iif(hash IS NOT NULL AND ifnull(sample, ?3) = ?3, racy, ?4),
    hash = iif(ifnull(sample, ?3) = ?3, hash, NULL), sample = ?3, error = NULL
    WHERE folder = ?1 AND name = ?2";
const NOTHING: &str = "UPDATE files SET hash = NULL, error = ?3 WHERE folder = ?1 AND name = ?2";
const FILE_GONE: &str = "UPDATE files SET removed = ?3 WHERE folder = ?1 AND name = ?2";
const BELOW: &str = "WITH RECURSIVE below (id) AS (VALUES (?1) UNION ALL
    SELECT folders.id FROM folders JOIN below ON parent = below.id WHERE removed IS NULL) ";

impl<'a> Statements<'a> {
    fn new(connection: &'a Connection) -> rusqlite::Result<Statements<'a>> {
        let gone = |table: &str, column: &str| {
            connection.prepare_cached(&format!(
                "{BELOW} UPDATE {table} SET removed = ?2 WHERE {column} IN below AND removed IS NULL"
            ))
        };
        Ok(Statements {
            connection,
            folder: connection.prepare_cached(FOLDER)?,
            listed: connection.prepare_cached(LISTED)?,
            file: connection.prepare_cached(FILE)?,
            digest: connection.prepare_cached(DIGEST)?,
            sample: connection.prepare_cached(SAMPLE)?,
            nothing: connection.prepare_cached(NOTHING)?,
            file_gone: connection.prepare_cached(FILE_GONE)?,
            files_gone: gone("files", "folder")?,
            folders_gone: gone("folders", "id")?,
        })
    }

    fn write(&mut self, record: &Record, desk: &Desk) -> rusqlite::Result<()> {
        match record {
            Record::Folder { id, root, parent, name } => {
                self.folder.execute(params![id, root, parent, name])?;
            }
            Record::Root(id, identity) => self.is_now(ROOT, *id, identity)?,
            Record::OtherDevice(id, was, is) => {
                self.rarely(FILES_WERE_ON, params![id, was.cast_signed()])?;
                self.rarely(FOLDER_IS_ON, params![id, is.cast_signed()])?;
            }
            Record::Mount(id, None) => self.rarely(NO_MOUNT, [id])?,
            Record::Mount(id, Some(identity)) => self.is_now(MOUNT, *id, identity)?,
            Record::Away(id) => self.rarely(IS_AWAY, params![id, AWAY])?,
            Record::Listed(id, row) => {
                let device = row.device.map(u64::cast_signed);
                self.listed.execute(params![id, device, row.left_out, row.error])?;
            }
            Record::File(folder, name, row) => self.write_file(*folder, name, row)?,
            Record::Read(folder, name, content, racy) => {
                match content {
                    Content::Digest(digest) => {
                        self.digest.execute(params![folder, name, digest.as_bytes(), racy])?
                    }
                    Content::Sample(sample) => {
                        self.sample.execute(params![folder, name, sample.cast_signed(), racy])?
                    }
                    Content::Nothing(error) => {
                        self.nothing.execute(params![folder, name, error])?
                    }
                };
            }
            Record::FileGone(folder, name) => {
                let gone = self.file_gone.execute(params![folder, name, desk.now])?;
                desk.written.files_gone.fetch_add(gone as u64, Relaxed);
            }
            Record::FolderGone(id) => {
                // The files first: they are found by folders that are still there.
                let files = self.files_gone.execute(params![id, desk.now])?;
                let folders = self.folders_gone.execute(params![id, desk.now])?;
                desk.written.files_gone.fetch_add(files as u64, Relaxed);
                desk.written.folders_gone.fetch_add(folders as u64, Relaxed);
            }
        }
        Ok(())
    }

    fn is_now(&self, sql: &str, id: i64, identity: &Identity) -> rusqlite::Result<()> {
        let [device, inode, file_system, born] = identity.columns();
        self.rarely(sql, params![id, device, inode, file_system, born])
    }

    fn rarely(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(params).map(drop)
    }

    fn write_file(&mut self, folder: i64, name: &[u8], row: &FileRow) -> rusqlite::Result<()> {
        self.file.execute(params![
            folder,
            name,
            row.device.map(u64::cast_signed),
            row.inode.cast_signed(),
            row.size.cast_signed(),
            row.blocks.cast_signed(),
            row.links,
            row.mtime,
            row.ctime,
            row.racy,
            row.sample.map(u64::cast_signed),
            hash(&row.digest),
            row.error,
        ])?;
        Ok(())
    }
}

fn hash(digest: &Option<Digest>) -> Option<&[u8]> {
    digest.as_ref().map(Digest::as_bytes)
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;

    use super::*;
    use crate::store::Store;

    /// A tree with so many files that to say of them that they are gone takes many looks whether to stop.
    fn large(dir: &Path) -> Store {
        let store = Store::open_or_make(&dir.join("dupes.db")).unwrap();
        store.use_algorithm(None).unwrap();
        let rows = "INSERT INTO folders VALUES (1, 1, NULL, x'', 1, 0, NULL, NULL);
            WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 50000)
            INSERT INTO files SELECT 1, CAST(n AS BLOB), NULL, n, 1, 1, 1, 1, 1, 0, NULL, x'00', NULL, NULL FROM n";
        store.connection().execute_batch(rows).unwrap();
        store
    }

    fn left(store: &Store, what: &str) -> u64 {
        let sql = format!("SELECT count(*) FROM files WHERE {what}");
        store.connection().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
    }

    #[test]
    fn a_statement_about_all_of_a_tree_ends_when_the_run_does() {
        let dir = tempfile::tempdir().unwrap();
        let store = large(dir.path());
        let stop = Stop::new();
        let mut connection = connect(store.path()).unwrap();
        end_after(Duration::ZERO, &mut connection, &stop).unwrap();
        let desk = Desk {
            connection: Mutex::new(connection),
            begun: Mutex::default(),
            failed: Mutex::default(),
            stop: stop.clone(),
            written: Written::default(),
            now: 7,
        };
        stop.ask();
        desk.write(&[Record::FolderGone(1)], true);
        let failed = lock(&desk.failed).take().expect("it is too long");
        assert_eq!(failed.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
        assert_eq!(left(&store, "removed IS NULL"), 50_000, "nothing of it was done");
        // Nobody is held up by what it has begun.
        store
            .end_scan(1, crate::store::scans::State::Interrupted, &serde_json::Value::Null)
            .unwrap();
    }

    #[test]
    fn hashes_are_void_all_at_once_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = large(dir.path());
        let stop = Stop::after(2);
        store.heed(&stop).unwrap();
        let other = Some(crate::digest::Algorithm::Sha256);
        let error = store.use_algorithm(other).unwrap_err();
        assert!(error.is_interruption(), "{error}");
        assert_eq!(left(&store, "hash IS NOT NULL"), 50_000);
        assert_ne!(store.algorithm().unwrap(), other);
        // What is not so long heeds nobody.
        store
            .end_scan(1, crate::store::scans::State::Interrupted, &serde_json::Value::Null)
            .unwrap();
        store.heed(&Stop::new()).unwrap();
        store.use_algorithm(other).unwrap();
        assert_eq!(left(&store, "hash IS NULL"), 50_000);
    }
}

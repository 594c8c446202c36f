//! The database: what is known of files from one scan to the next.
//!
//! `schema.rs` has its tables, `lock.rs` who may write, `rows.rs` what is in them, `recall.rs` what a scan
//! asks (of what a folder has `by_name.rs`), `across.rs` what its last stage does, `write.rs` how what it learned gets there, `roots.rs` and
//! `scans.rs` those two tables, `space.rs` what folders take, `upkeep.rs` what keeps it in order, `reading.rs` what can
//! only be read.

pub mod across;
pub(crate) mod by_name;
pub mod identity;
pub(crate) mod lock;
mod reading;
pub mod recall;
pub mod roots;
pub mod rows;
pub mod scans;
mod schema;
pub mod space;
pub mod upkeep;
pub mod write;

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ToSql, Transaction, params};
use rustix::fs::{Access, Mode, OFlags};

use crate::digest::Algorithm;
use crate::escape::escaped;
use crate::stop::Stop;
use lock::Refusal;
pub use lock::{Board, Owner, WriteLock};

/// Names of settings.
const HASH: &str = "hash";
const SEED: &str = "sample seed";

/// How long to wait for another process that is in the middle of a transaction.
const PATIENCE: Duration = Duration::from_secs(4);

/// After so many steps of a question somebody looks whether it is to end: some ms.
const STEPS: i32 = 100_000;

/// A database that is open. Clones of its path are opened by those who read beside it.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
    /// What is asked now ends as soon as somebody wants the run to end.
    heeds: Arc<AtomicBool>,
}

/// What is wrong with a database.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    Missing,
    Unreachable(io::Error),
    OfSomebodyElse,
    NotOurs,
    ALink,
    Newer(i32),
    OlderAndReadOnly,
    CanNotWrite(io::Error),
    LeftInWal(PathBuf),
    NoCopy(PathBuf, String),
    Busy(String),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for What {
    fn from(error: rusqlite::Error) -> What {
        What::Sqlite(error)
    }
}

impl From<Refusal> for What {
    fn from(refusal: Refusal) -> What {
        match refusal {
            Refusal::Held(owner) => What::Busy(owner),
            Refusal::Failed(error) => What::Unreachable(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database {}: ", escaped(self.path.as_os_str().as_bytes()))?;
        match &self.what {
            What::Missing => write!(f, "there is none: `dupes scan PATH` makes one"),
            What::Unreachable(error) => write!(f, "can't be opened: {error}"),
            What::OfSomebodyElse => write!(
                f,
                "belongs to another user, and what it says can't be trusted: use --database FILE"
            ),
            What::NotOurs => {
                write!(f, "is not a database of dupes, and was left as it is: use --database FILE")
            }
            What::ALink => {
                write!(f, "is a symbolic link, and none is followed: give the path it leads to")
            }
            What::OlderAndReadOnly => write!(
                f,
                "is of an older version, and has to be changed before it is read: copy it to where you may write"
            ),
            What::CanNotWrite(error) => write!(
                f,
                "can't be written to: {error}; what only reads it (report, status, roots list, verify) may work"
            ),
            What::LeftInWal(wal) => write!(
                f,
                "can't be read where nothing may be written: what was last recorded is still in {}; copy both to \
                where you may write",
                escaped(wal.as_os_str().as_bytes())
            ),
            What::Newer(version) => write!(
                f,
                "has version {version}, this program knows {} at the most: use a newer one",
                schema::VERSION
            ),
            What::NoCopy(copy, error) => write!(
                f,
                "is of an older version, and can't be copied to {} before it is changed: {error}",
                escaped(copy.as_os_str().as_bytes())
            ),
            What::Busy(owner) if owner.is_empty() => {
                write!(f, "somebody else is writing to it: try again later")
            }
            What::Busy(owner) => write!(
                f,
                "is being written to by {owner}: try again once it has ended; `dupes status` says how far it is"
            ),
            What::Sqlite(error) => self.fmt_sqlite(error, f),
        }
    }
}

impl Error {
    fn fmt_sqlite(&self, error: &rusqlite::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{error}")?;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => {
                write!(
                    f,
                    ": it is damaged, and what it says can't be relied on: move it away to begin a new one"
                )
            }
            Some(ErrorCode::NotADatabase) => {
                write!(f, ": it is none, or damaged: use --database FILE, or move it away")
            }
            Some(ErrorCode::SystemIoFailure) => {
                write!(f, ": a disk that fails, or has no room left")
            }
            Some(ErrorCode::DiskFull) => write!(f, ": make room and run it again"),
            Some(ErrorCode::ReadOnly) => write!(f, ": it can only be read"),
            _ => Ok(()),
        }
    }

    /// It was ended because the run is to end.
    pub fn is_interruption(&self) -> bool {
        matches!(&self.what, What::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted))
    }

    /// Somebody else is writing.
    pub fn is_busy(&self) -> bool {
        matches!(self.what, What::Busy(_))
    }
}

impl std::error::Error for Error {}

/// Where it is if nobody says otherwise. None: there is no home folder.
pub fn usual_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(data.join("dupes/dupes.db"))
}

impl Store {
    /// Opens a database; makes one, and the folder for it, if there is none.
    pub fn open_or_make(path: &Path) -> Result<Store, Error> {
        make(path).map_err(|error| Error { path: path.into(), what: What::Unreachable(error) })?;
        Store::open(path)
    }

    /// Opens a database that is there.
    pub fn open(path: &Path) -> Result<Store, Error> {
        Store::open_by(path, |path| {
            prepare(path).map_err(|what| match reading::why_not_written(path) {
                Some(error) if reading::is_for_want_of_writing(&what) => What::CanNotWrite(error),
                _ => what,
            })
        })
    }

    /// Opens a database that is there for questions alone: it need not be possible to write to it.
    pub fn open_to_read(path: &Path) -> Result<Store, Error> {
        Store::open_by(path, |path| match reading::why_not_written(path) {
            Some(_) => reading::open(path),
            None => prepare(path),
        })
    }

    fn open_by(
        path: &Path,
        open: impl FnOnce(&Path) -> Result<Connection, What>,
    ) -> Result<Store, Error> {
        let path = whole(path);
        let failed = |what| Error { path: path.clone(), what };
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed(What::Missing));
            }
            Err(error) => return Err(failed(What::Unreachable(error))),
            Ok(found) if found.is_symlink() => return Err(failed(What::ALink)),
            Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
                return Err(failed(What::OfSomebodyElse));
            }
            Ok(found) if !found.is_file() => return Err(failed(What::NotOurs)),
            Ok(_) => {}
        }
        // SQLite would not say why.
        if let Err(error) = reading::may(&path, Access::READ_OK) {
            return Err(failed(What::Unreachable(error)));
        }
        match open(&path) {
            Ok(connection) => Ok(Store { path, connection, heeds: Arc::default() }),
            Err(what) => Err(failed(what)),
        }
    }

    /// What is `interruptible` ends when this is asked.
    pub fn heed(&mut self, stop: &Stop) -> Result<(), Error> {
        let (heeds, stop) = (Arc::clone(&self.heeds), stop.clone());
        let is_over = move || heeds.load(Relaxed) && stop.is_asked();
        let set = self.connection.progress_handler(STEPS, Some(is_over));
        self.wrap(set)
    }

    /// What may take long: it ends with an error when the run is to end, and what it has changed is as it was.
    pub fn interruptible<T>(&self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.heeds.store(true, Relaxed);
        let done = f();
        self.heeds.store(false, Relaxed);
        done
    }

    /// For one who writes; held as long as it is needed.
    pub fn lock(&self, why: &str) -> Result<WriteLock, Error> {
        let taken = WriteLock::take(&beside(&self.path, "-lock"), why);
        taken.map_err(|refusal| self.failed(refusal.into()))
    }

    /// Who writes just now.
    pub fn owner(&self) -> Result<Option<Owner>, Error> {
        let owner = WriteLock::owner(&beside(&self.path, "-lock"));
        owner.map_err(|error| self.failed(What::Unreachable(error)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For questions.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// For one who watches what questions cost.
    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// What SQLite says, with the path.
    pub fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|error| self.failed(What::Sqlite(error)))
    }

    fn failed(&self, what: What) -> Error {
        Error { path: self.path.clone(), what }
    }

    /// Files that belong to it, which no scan should find: devices and inodes.
    pub fn own_files(&self) -> Vec<(u64, u64)> {
        let names = files_of(&self.path);
        let found = names.iter().filter_map(|path| fs::symlink_metadata(path).ok());
        found.map(|found| (found.dev(), found.ino())).collect()
    }

    /// A setting, by its name.
    pub fn setting<T: FromSql>(&self, name: &str) -> Result<Option<T>, Error> {
        let sql = "SELECT value FROM settings WHERE name = ?1";
        self.wrap(self.connection.query_row(sql, [name], |row| row.get(0)).optional())
    }

    /// Changes a setting.
    pub fn set(&self, name: &str, value: &dyn ToSql) -> Result<(), Error> {
        let sql = "INSERT OR REPLACE INTO settings VALUES (?1, ?2)";
        self.wrap(self.connection.execute(sql, params![name, value]).map(drop))
    }

    /// Until it is dropped, all questions are about one state, whatever others write meanwhile. None: that
    /// is so already.
    pub fn moment(&self) -> Result<Option<Transaction<'_>>, Error> {
        let begin = || self.connection.unchecked_transaction();
        self.wrap(self.connection.is_autocommit().then(begin).transpose())
    }

    /// What `f` writes is there if it succeeds, and else nothing of it.
    pub fn all_or_nothing<T>(
        &self,
        f: impl FnOnce() -> Result<T, Box<dyn std::error::Error>>,
    ) -> Result<T, Box<dyn std::error::Error>> {
        let transaction = self.wrap(self.connection.unchecked_transaction())?;
        let done = f()?;
        self.wrap(transaction.commit())?;
        Ok(done)
    }

    /// The hash function of all hashes in it. Another one than there was: none of them holds any more.
    pub fn use_algorithm(&self, algorithm: Option<Algorithm>) -> Result<Algorithm, Error> {
        let stored = self.algorithm()?;
        let wanted = algorithm.or(stored).unwrap_or_default();
        if stored != Some(wanted) {
            self.interruptible(|| {
                let transaction = self.wrap(self.connection.unchecked_transaction())?;
                self.wrap(self.connection.execute("UPDATE files SET hash = NULL", []))?;
                self.set(HASH, &wanted.name())?;
                self.wrap(transaction.commit())
            })?;
        }
        Ok(wanted)
    }

    /// For samples: kept, so that they can be.
    pub fn seed(&self) -> Result<u64, Error> {
        if let Some(seed) = self.setting::<i64>(SEED)? {
            return Ok(seed.cast_unsigned());
        }
        let seed = RandomState::new().hash_one(0);
        self.set(SEED, &seed.cast_signed())?;
        Ok(seed)
    }

    /// The indexes that reports go by, once there is something in them.
    pub fn make_indexes(&self) -> Result<(), Error> {
        self.wrap(schema::make_indexes(&self.connection))
    }
}

/// A path that has no links in it but perhaps the last name: SQLite is told to follow none.
fn whole(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// All files that a database has: its own, those that belong to it, and copies of before it was migrated.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let copies = beside(path, "-before-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let copies = entries.map(|entry| path.with_file_name(entry.file_name())).filter(|path| {
        let name = |path: &Path| path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        name(path).starts_with(&name(&copies))
    });
    let own = ["", "-wal", "-shm", "-lock", "-journal"].map(|end| beside(path, end));
    own.into_iter().chain(copies).collect()
}

/// A file beside it.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// An empty file is an empty database: made here, so that from the beginning nobody else can read it.
fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One more connection to a database that was opened before.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // One look more for each row; what hangs in the air is found by `verify`, which could not repair it.
    connection.pragma_update(None, "foreign_keys", false)?;
    Ok(connection)
}

fn prepare(path: &Path) -> Result<Connection, What> {
    let connection = connect(path).map_err(What::Sqlite)?;
    let (application, version, tables) = identity(&connection).map_err(What::Sqlite)?;
    // One that was begun and not finished has nothing in it, either.
    let is_new = tables == 0 && application == 0 && version == 0;
    if !is_new && application != schema::APPLICATION {
        return Err(What::NotOurs);
    }
    if version > schema::VERSION {
        return Err(What::Newer(version));
    }
    if version < schema::VERSION {
        migrate(&connection, path, if is_new { 0 } else { version })?;
    }
    Ok(connection)
}

/// Whose it is, its version and how many tables it has: as of one moment, since somebody else may just be
/// making it.
fn identity(connection: &Connection) -> rusqlite::Result<(i32, i32, i64)> {
    let moment = connection.unchecked_transaction()?;
    let number = |name: &str| moment.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables = moment.query_row(count, [], |row| row.get::<_, i64>(0))?;
    let found = (number("application_id")?, number("user_version")?, tables);
    moment.commit()?;
    Ok(found)
}

/// Before the first page is written: it can't be changed later without copying all. SQLite does not wait by
/// itself for others who do the same.
fn use_wal(connection: &Connection) -> rusqlite::Result<()> {
    let since = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && since.elapsed() < PATIENCE =>
            {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

fn migrate(connection: &Connection, path: &Path, version: i32) -> Result<(), What> {
    let version_now =
        || connection.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0));
    // Nobody writes meanwhile, nor copies it as well.
    let mut lock = None;
    if version > 0 {
        lock = Some(WriteLock::take(&beside(path, "-lock"), "to change its version")?);
        if version_now()? == version {
            copy(connection, &beside(path, &format!("-before-{}", schema::VERSION)))?;
        }
    } else {
        use_wal(connection)?;
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have done it while this one waited.
    let now = version_now()?;
    let migrated = if now < schema::VERSION { schema::migrate(connection, now) } else { Ok(()) };
    connection.execute_batch(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    drop(lock);
    Ok(migrated?)
}

fn copy(connection: &Connection, to: &Path) -> Result<(), What> {
    let failed = |error: String| What::NoCopy(to.into(), error);
    // One that is there was made by an attempt that failed.
    let _ = fs::remove_file(to);
    // Made here, for nobody else: it has names of files in it.
    make(to).map_err(|error| failed(error.to_string()))?;
    let name = ToSqlOutput::Borrowed(ValueRef::Text(to.as_os_str().as_bytes()));
    let copied = connection.execute("VACUUM INTO ?1", [name]);
    copied.map(drop).map_err(|error| failed(error.to_string()))
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

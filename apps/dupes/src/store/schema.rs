//! The tables, and how a database of an older version becomes one of this.

use rusqlite::Connection;

/// Says that a database is ours: "dupe".
pub(super) const APPLICATION: i32 = 0x6475_7065;

/// What each version adds to the one before; the first makes everything. A step is never changed once
/// somebody has a database that was made by it.
pub(super) const STEPS: [&str; 3] = [VERSION_1, VERSION_2, VERSION_3];

/// The version that this program reads and writes.
pub(super) const VERSION: i32 = STEPS.len() as i32;

/// Names and paths are bytes. Times of files are ns since 1970, all others s. Devices and inodes are
/// unsigned numbers in a signed column. `removed`: when it was found to be gone. `error`: that of the
/// system when it was last tried, or -1 for a file that changed while it was read.
const VERSION_1: &str = "
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE roots (
    id INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE,
    words TEXT NOT NULL,          -- what counts there: words of a command line, as JSON
    added INTEGER NOT NULL,
    device INTEGER,               -- of the folder, when it was last scanned
    inode INTEGER
) STRICT;

CREATE TABLE folders (
    id INTEGER PRIMARY KEY,
    root INTEGER NOT NULL REFERENCES roots,
    parent INTEGER REFERENCES folders,  -- of a root's own: NULL
    name BLOB NOT NULL,                 -- and empty
    device INTEGER,                     -- NULL until it was looked into
    left_out INTEGER NOT NULL,          -- entries in it that are recorded nowhere
    error INTEGER,
    removed INTEGER
) STRICT;
CREATE UNIQUE INDEX folders_by_name ON folders (parent, name);
CREATE UNIQUE INDEX folders_of_roots ON folders (root) WHERE parent IS NULL;

CREATE TABLE files (
    folder INTEGER NOT NULL REFERENCES folders,
    name BLOB NOT NULL,
    device INTEGER,               -- only where it is not that of the folder
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    links INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL,
    racy INTEGER NOT NULL,        -- it may have changed since without its times showing it
    sample INTEGER,               -- of large files: of beginning, middle and end
    hash BLOB,                    -- of all bytes
    error INTEGER,
    removed INTEGER,
    PRIMARY KEY (folder, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE scans (
    id INTEGER PRIMARY KEY,
    mode TEXT NOT NULL,
    roots TEXT NOT NULL,          -- their ids, as JSON
    began INTEGER NOT NULL,
    ended INTEGER,
    state TEXT NOT NULL,          -- active, complete, unread, interrupted, failed
    counts TEXT                   -- as JSON
) STRICT;
";

/// The index of the first version had less than a report needs; those of now are made by the next scan.
const VERSION_2: &str = "DROP INDEX IF EXISTS files_by_content;";

/// Folders that lay on another file system than what they lie in, when they were last looked into: what was
/// mounted there may be away. And of those, and of roots, by what they are known again.
const VERSION_3: &str = "
ALTER TABLE roots ADD COLUMN file_system INTEGER;
ALTER TABLE roots ADD COLUMN born INTEGER;
CREATE TABLE mounts (
    folder INTEGER PRIMARY KEY REFERENCES folders,
    device INTEGER,
    inode INTEGER,
    file_system INTEGER,
    born INTEGER
) STRICT;
INSERT INTO mounts (folder) SELECT folders.id FROM folders JOIN folders AS above ON above.id = folders.parent
    WHERE folders.device <> above.device;
";

/// All that a report of files says, without a look at the rows, in the order in which it says it; and those
/// that could not be read. Made after a first scan: row by row they would cost more than the rows. An
/// index has another name whenever it has other columns.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS files_in_sets
    ON files (size, hash, removed, device, inode, blocks, links);
CREATE INDEX IF NOT EXISTS files_unread ON files (removed) WHERE error IS NOT NULL;
";

/// All steps from `version` on, in one transaction that somebody else begins and ends.
pub(super) fn migrate(connection: &Connection, version: i32) -> rusqlite::Result<()> {
    for step in &STEPS[version as usize..] {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Makes the indexes, as far as they are not there.
pub(super) fn make_indexes(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(INDEXES)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::store::Store;

    /// As a program of that version has left it, with a row in each table.
    fn of_version(version: usize, path: &Path) {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        for step in &STEPS[..version] {
            connection.execute_batch(step).unwrap();
        }
        let rows = "CREATE INDEX files_by_content ON files (size, hash, removed);
            INSERT INTO roots VALUES (1, x'2f', '[]', 0, NULL, NULL);
            INSERT INTO folders VALUES (1, 1, NULL, x'', 1, 0, NULL, NULL);
            INSERT INTO files VALUES (1, x'61', NULL, 1, 1, 1, 1, 1, 1, 0, NULL, zeroblob(32), NULL, NULL);
            INSERT INTO scans VALUES (1, 'all', '[1]', 0, 1, 'complete', '{}');
            INSERT INTO settings VALUES ('hash', 'blake3')";
        connection.execute_batch(rows).unwrap();
        connection.pragma_update(None, "application_id", APPLICATION).unwrap();
        connection.pragma_update(None, "user_version", version as i32).unwrap();
    }

    /// All rows of all tables, as text.
    fn rows(connection: &Connection) -> Vec<String> {
        let mut all = Vec::new();
        let roots = "(SELECT id, path, words, added, device, inode FROM roots)";
        for table in ["settings", roots, "folders", "files", "scans"] {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let mut rows = statement.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let values = (0..columns).map(|at| row.get_ref(at).unwrap());
                all.push(format!("{table}: {:?}", values.collect::<Vec<_>>()));
            }
        }
        all
    }

    fn version(connection: &Connection) -> i32 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    fn backup(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-before-{VERSION}"));
        name.into()
    }

    #[test]
    fn an_older_one_is_copied_and_then_migrated() {
        for older in 1..STEPS.len() {
            let dir = tempfile::tempdir().unwrap();
            // A name that is no text.
            let path = dir.path().join(std::ffi::OsString::from_vec(b"d\xff.db".to_vec()));
            of_version(older, &path);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let before = rows(&Connection::open(&path).unwrap());
            // What an attempt has left that did not come to its end.
            fs::write(backup(&path), "half of a copy").unwrap();
            let store = Store::open(&path).unwrap();
            assert_eq!(
                (version(store.connection()), rows(store.connection())),
                (VERSION, before.clone())
            );
            store.make_indexes().unwrap();
            let copy = Connection::open(backup(&path)).unwrap();
            assert_eq!((version(&copy), rows(&copy)), (older as i32, before));
            let mode = fs::metadata(backup(&path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "names of files are nobody else's business");
            drop(store);
            fs::remove_file(backup(&path)).unwrap();
            Store::open(&path).unwrap();
            assert!(!backup(&path).exists(), "it is migrated once");
        }
    }

    #[test]
    fn without_room_for_a_copy_it_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dupes.db");
        of_version(1, &path);
        // Something that can't be replaced.
        fs::create_dir(backup(&path)).unwrap();
        let error = Store::open(&path).unwrap_err().to_string();
        assert!(error.contains("before it is changed"), "{error}");
        assert_eq!(version(&Connection::open(&path).unwrap()), 1);
    }
    const MIGRATED: &str = "DUPES_TEST_MIGRATED";

    /// This test again, in a process of its own, which opens that database and is killed at the `nth` call that
    /// changes anything. True: it came to its end.
    fn killed_at(nth: u32, path: &Path) -> bool {
        let calls = "pwrite64,write,fsync,fdatasync,ftruncate,fallocate,unlink,rename,flock";
        let status = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={calls}:signal=KILL:when={nth}")])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--test-threads=1",
                "store::schema::tests::whenever_it_is_killed_nothing_is_lost",
            ])
            .env(MIGRATED, path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.unwrap().success()
    }

    #[test]
    fn whenever_it_is_killed_nothing_is_lost() {
        if let Some(path) = std::env::var_os(MIGRATED) {
            Store::open(Path::new(&path)).unwrap();
            return;
        }
        let traces = ["-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"];
        if !Command::new("strace").args(traces).status().is_ok_and(|status| status.success()) {
            return eprintln!("skipped: needs strace, and the right to trace");
        }
        let tables = |store: &Store| -> Vec<String> {
            let sql = "SELECT name || ifnull(sql, '') FROM sqlite_schema ORDER BY 1";
            let mut statement = store.connection().prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let dir = tempfile::tempdir().unwrap();
        let expected = tables(&Store::open_or_make(&dir.path().join("new.db")).unwrap());
        let mut found = [0, 0];
        for nth in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("dupes.db");
            of_version(1, &path);
            let before = rows(&Connection::open(&path).unwrap());
            let is_through = killed_at(nth, &path);
            let is_sound = |connection: &Connection| {
                let said: String =
                    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
                assert_eq!((said.as_str(), rows(connection)), ("ok", before.clone()), "call {nth}");
            };
            let connection = Connection::open(&path).unwrap();
            is_sound(&connection);
            let is_migrated = version(&connection) == VERSION;
            assert!(is_migrated || !is_through && version(&connection) == 1, "call {nth}");
            drop(connection);
            found[usize::from(is_migrated)] += 1;
            let check_copy = || {
                let copy = Connection::open(backup(&path)).unwrap();
                assert_eq!(version(&copy), 1, "call {nth}");
                is_sound(&copy);
            };
            // Nothing was changed before there was a whole copy.
            if is_migrated {
                check_copy();
            }
            let store = Store::open(&path).unwrap_or_else(|error| panic!("call {nth}: {error}"));
            assert_eq!(version(store.connection()), VERSION, "call {nth}");
            is_sound(store.connection());
            assert_eq!(tables(&store), expected, "call {nth}: all steps or none");
            check_copy();
            if is_through {
                break;
            }
        }
        assert!(found[0] > 5 && found[1] > 1, "killed before and after the change: {found:?}");
    }
}

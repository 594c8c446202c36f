//! The tables, and how a database of an older version becomes one of this.

use rusqlite::Connection;

/// Says that a database is ours: "dupe".
pub(super) const APPLICATION: i32 = 0x6475_7065;

/// What each version adds to the one before; the first makes everything. A step is never changed once
/// somebody has a database that was made by it.
pub(super) const STEPS: [&str; 1] = [VERSION_1];

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

/// All that a report of files says, without a look at the rows, in the order in which it says it; and those
/// that could not be read. Made after a first scan: row by row they would cost more than the rows. An
/// index has another name whenever it has other columns.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS files_in_sets
    ON files (size, hash, removed, device, inode, blocks, links);
CREATE INDEX IF NOT EXISTS files_unread ON files (removed) WHERE error IS NOT NULL;
DROP INDEX IF EXISTS files_by_content;
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

//! A database that can only be read: a backup, a snapshot, a disk that is mounted so.
//!
//! SQLite reads one in WAL mode only where it may make files beside it, unless it is told that nobody writes
//! to it (`immutable`). Then it does not look at what is left in the WAL: so there must be nothing.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::lock::WriteLock;
use super::{What, beside, identity, schema};

/// Why it can't be written to, if that is so.
pub(super) fn why_not_written(path: &Path) -> Option<io::Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let places = [path, folder.unwrap_or(Path::new("."))];
    places.into_iter().find_map(|place| may(place, Access::WRITE_OK).err())
}

/// Whether this process may do that.
pub(super) fn may(path: &Path, what: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, what, AtFlags::EACCESS)?)
}

/// Whether it failed as SQLite does where it can't write.
pub(super) fn is_for_want_of_writing(what: &What) -> bool {
    let What::Sqlite(error) = what else { return false };
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    )
}

/// For questions alone.
pub(super) fn open(path: &Path) -> Result<Connection, What> {
    // With a WAL and what belongs to it, if both are there.
    match checked(connect(path, "?mode=ro")) {
        Err(what) if is_for_want_of_writing(&what) => {}
        done => return done,
    }
    let left = beside(path, "-wal");
    if fs::symlink_metadata(&left).is_ok_and(|found| found.len() > 0) {
        return Err(What::LeftInWal(left));
    }
    // Nobody writes now; who begins to can't do it by this mount, or is somebody else.
    if let Ok(Some(owner)) = WriteLock::owner(&beside(path, "-lock")) {
        return Err(What::Busy(owner.note));
    }
    checked(connect(path, "?immutable=1"))
}

fn connect(path: &Path, how: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(format!("file:{}{how}", in_uri(path)), flags)
}

/// No name has a meaning in it.
fn in_uri(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut uri, byte| {
        match byte {
            b'/' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            // Writing to a String can't fail.
            _ => drop(write!(uri, "%{byte:02x}")),
        }
        uri
    })
}

fn checked(connection: rusqlite::Result<Connection>) -> Result<Connection, What> {
    let connection = connection?;
    let (application, version, tables) = identity(&connection)?;
    match (application, version) {
        (0, 0) if tables == 0 => Err(What::Missing),
        (application, _) if application != schema::APPLICATION => Err(What::NotOurs),
        (_, version) if version > schema::VERSION => Err(What::Newer(version)),
        (_, version) if version < schema::VERSION => Err(What::OlderAndReadOnly),
        _ => Ok(connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_nothing_in_a_uri() {
        assert_eq!(in_uri(Path::new("/a b/c?mode=rw#%41")), "/a%20b/c%3fmode%3drw%23%2541");
    }
}

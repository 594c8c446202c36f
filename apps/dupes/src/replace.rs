//! A file that is replaced as a whole: whoever opens it sees what was there before, or all of what is
//! there now, also after a crash.

use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::escape::escaped;

/// Why it was not.
#[derive(Debug)]
pub struct Error {
    path: PathBuf,
    what: &'static str,
    error: io::Error,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { path, what, error } = self;
        write!(f, "{}: {what}: {error}", escaped(path.as_os_str().as_bytes()))
    }
}

impl std::error::Error for Error {}

/// Writes to a new file beside `path` and puts it there once it is on disk. A link is followed: what it
/// leads to is replaced. A new file is for its owner only; one that was there hands on its permissions.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let failed = |what| move |error| Error { path: path.into(), what, error };
    let before = match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let what = "can't be replaced";
            return Err(failed(what)(io::Error::other("it is no regular file")));
        }
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("can't be looked at")(error)),
    };
    let place = match before {
        Some(_) => fs::canonicalize(path).map_err(failed("can't be looked at"))?,
        None => path.to_owned(),
    };
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut new = Beside::make(folder).map_err(failed("no file can be made in its folder"))?;
    let written = new.fill(before.as_ref().map(fs::Metadata::permissions), write);
    written.map_err(failed("can't be written, and is as it was"))?;
    fs::rename(&new.path, &place).map_err(failed("can't be replaced, and is as it was"))?;
    new.is_placed = true;
    sync(folder).map_err(failed("was replaced, but a loss of power might undo that"))
}

/// A new file; removed when it is dropped, unless it has found its place.
struct Beside {
    path: PathBuf,
    file: File,
    is_placed: bool,
}

impl Beside {
    /// The name is short: that of the file may be as long as names can be.
    fn make(folder: &Path) -> io::Result<Beside> {
        let path = folder.join(format!(".dupes-{:016x}", RandomState::new().hash_one(0)));
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
        let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
        Ok(Beside { path, file, is_placed: false })
    }

    fn fill(
        &mut self,
        permissions: Option<fs::Permissions>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, &self.file);
        write(&mut out)?;
        out.flush()?;
        if let Some(permissions) = permissions {
            let mode = permissions.mode() & 0o777; // who writes as root hands on no more than that
            self.file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        self.file.sync_all()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_placed {
            // Nobody can be told, and nobody would miss it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // There are file systems on which folders can't be.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_one_is_for_its_owner_and_an_old_one_stays_for_whom_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        replace(&path, |out| out.write_all(b"one")).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, |out| out.write_all(b"two")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o644));
        assert_eq!(names(dir.path()), ["page"]);
    }

    #[test]
    fn what_fails_in_the_middle_leaves_what_was_there_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, "before").unwrap();
        let failure = replace(&path, |out| {
            out.write_all(&[b'x'; 1 << 20])?;
            assert_eq!(fs::read(&path).unwrap(), b"before");
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failure.unwrap_err().to_string().contains("is as it was: no storage space"));
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(names(dir.path()), ["page"]);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (link, path) = (dir.path().join("link"), dir.path().join("page"));
        fs::write(&path, "before").unwrap();
        symlink("page", &link).unwrap();
        replace(&link, |out| out.write_all(b"after")).unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read_link(link).unwrap()),
            (b"after".to_vec(), "page".into())
        );
    }

    #[test]
    fn names_may_be_as_long_as_they_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x".repeat(255));
        replace(&path, |out| out.write_all(b"text")).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"text");
    }

    #[test]
    fn folders_and_what_is_in_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let write =
            |path: &Path| replace(path, |_| panic!("not for that")).unwrap_err().to_string();
        assert!(write(dir.path()).contains("no regular file"));
        assert!(write(Path::new("/dev/null")).contains("no regular file"));
        assert!(write(&dir.path().join("no/page")).contains("no file can be made in its folder"));
    }
}

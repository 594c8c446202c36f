//! Who may write: one process at a time. The kernel takes the lock back when its owner dies, in
//! whatever way, so no lock is ever stale; what its file says is only for people.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

/// Held until it is dropped.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

/// Why it can't be had.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Somebody else has it; what that one says of itself.
    Held(String),
    /// There is no place for it.
    Failed(io::Error),
}

impl WriteLock {
    /// `why`: for whoever is refused meanwhile.
    pub(super) fn take(path: &Path, why: &str) -> Result<WriteLock, Refusal> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(path, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(opened.map_err(|error| Refusal::Failed(error.into()))?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // Who holds it may not have said so yet.
                let _ = file.take(1_000).read_to_string(&mut owner);
                return Err(Refusal::Held(owner.trim().to_owned()));
            }
            Err(error) => return Err(Refusal::Failed(error.into())),
        }
        let note = format!("process {}: {why}\n", std::process::id());
        // A note that can't be written (a full disk) is no reason not to begin.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(note.as_bytes()));
        Ok(WriteLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_told_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = WriteLock::take(&path, "scan of a long story").unwrap();
        match WriteLock::take(&path, "purge") {
            Err(Refusal::Held(owner)) => {
                assert!(owner.ends_with("scan of a long story"), "{owner}")
            }
            other => panic!("{other:?}"),
        }
        drop(held);
        WriteLock::take(&path, "purge").unwrap();
        assert!(
            std::fs::read_to_string(&path).unwrap().ends_with("purge\n"),
            "what was longer is gone"
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("lock"), dir.path().join("precious"));
        std::fs::write(&other, "text").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(WriteLock::take(&path, "scan"), Err(Refusal::Failed(_))));
        assert_eq!(std::fs::read_to_string(other).unwrap(), "text");
    }
}

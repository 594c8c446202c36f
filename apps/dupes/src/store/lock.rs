//! Who may write: one process at a time. The kernel takes the lock back when its owner dies, in
//! whatever way, so no lock is ever stale; what its file says is true as long as it is held.
//!
//! The file: a line that says who it is. While there is something to tell, a second line, any text, and a
//! third, the XXH3 of the second. It is written over in place: who reads it in the middle of that
//! sees a sum that does not fit, and reads again.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64;

/// More than a note and a board ever have.
const LONGEST: u64 = 1 << 16;

/// Who only looks whether somebody writes has the lock for a moment: so often it is tried again.
const TRIES: u32 = 40;
const A_MOMENT: Duration = Duration::from_millis(5);

/// Held until it is dropped.
#[derive(Debug)]
pub struct WriteLock {
    file: File,
    note: String,
}

/// Why it can't be had.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Somebody else has it; what that one says of itself.
    Held(String),
    /// There is no place for it.
    Failed(io::Error),
}

/// One who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What it says of itself.
    pub note: String,
    /// What it has on its board.
    pub board: Option<String>,
}

impl WriteLock {
    /// `why`: for whoever is refused meanwhile.
    pub(crate) fn take(path: &Path, why: &str) -> Result<WriteLock, Refusal> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(path, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|error| Refusal::Failed(error.into()))?);
        let mut tries = 0..TRIES;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if tries.next().is_some() => thread::park_timeout(A_MOMENT),
                // Who holds it may not have said so yet.
                Err(Errno::WOULDBLOCK) => return Err(Refusal::Held(owner(&file).note)),
                Err(error) => return Err(Refusal::Failed(error.into())),
            }
        }
        let note = format!("process {}: {why}\n", std::process::id());
        // A note that can't be written (a full disk) is no reason not to begin.
        let _ = write(&file, &note);
        Ok(WriteLock { file, note })
    }

    /// Who has it; None: nobody. Only looks.
    pub(crate) fn owner(path: &Path) -> io::Result<Option<Owner>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        loop {
            // With others who look, and without those who write.
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Some(owner(&file))),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// To tell others how far it is.
    pub fn board(&self) -> io::Result<Board> {
        Ok(Board { file: self.file.try_clone()?, note: self.note.clone() })
    }
}

/// Where the one who writes tells how far it is. Its drop wipes it.
#[derive(Debug)]
pub struct Board {
    file: File,
    note: String,
}

impl Board {
    /// In the place of what was there. A text without line ends.
    pub fn show(&self, text: &str) -> io::Result<()> {
        debug_assert!(!text.contains('\n'), "it would not be read back: {text}");
        write(&self.file, &format!("{}{text}\n{:016x}\n", self.note, xxh3_64(text.as_bytes())))
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // What is left is not believed once the lock is free.
        let _ = self.file.set_len(self.note.len() as u64);
    }
}

/// All of the file, which is never empty meanwhile.
fn write(file: &File, text: &str) -> io::Result<()> {
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// What the one who holds it says. Nothing of it need be there.
fn owner(file: &File) -> Owner {
    const ENOUGH: u32 = 100;
    let mut last = Owner { note: String::new(), board: None };
    for _ in 0..ENOUGH {
        let (owner, is_whole) = parse(&contents(file).unwrap_or_default());
        last = owner;
        if is_whole {
            break;
        }
        thread::yield_now();
    }
    last
}

fn contents(mut file: &File) -> io::Result<String> {
    io::Seek::rewind(&mut file)?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// And whether it was not in the middle of being written.
fn parse(text: &str) -> (Owner, bool) {
    let mut lines = text.split_inclusive('\n').map(|line| line.strip_suffix('\n'));
    let note = lines.next().flatten().unwrap_or_default().to_owned();
    let board = lines.next().flatten();
    let sum = lines.next().flatten().and_then(|sum| u64::from_str_radix(sum, 16).ok());
    match (board, sum) {
        (Some(board), Some(sum)) if xxh3_64(board.as_bytes()) == sum => {
            (Owner { note, board: Some(board.to_owned()) }, true)
        }
        (board, sum) => {
            let is_whole = board.is_none() && sum.is_none() && text.ends_with('\n');
            (Owner { note, board: None }, is_whole)
        }
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
        assert!(WriteLock::owner(&path).is_err());
        assert_eq!(std::fs::read_to_string(other).unwrap(), "text");
    }

    #[test]
    fn a_board_is_believed_while_the_lock_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(WriteLock::owner(&path).unwrap(), None, "there is no file");
        let held = WriteLock::take(&path, "scan").unwrap();
        let note = format!("process {}: scan", std::process::id());
        let owner =
            |board: Option<&str>| Owner { note: note.clone(), board: board.map(Into::into) };
        assert_eq!(WriteLock::owner(&path).unwrap(), Some(owner(None)));
        let board = held.board().unwrap();
        for text in ["{\"a\":1}", "{\"longer\":12345}", "{}"] {
            board.show(text).unwrap();
            assert_eq!(WriteLock::owner(&path).unwrap(), Some(owner(Some(text))));
        }
        match WriteLock::take(&path, "purge") {
            Err(Refusal::Held(told)) => assert_eq!(told, note, "the board is for others"),
            other => panic!("{other:?}"),
        }
        let left = std::fs::read(&path).unwrap();
        drop(board);
        assert_eq!(WriteLock::owner(&path).unwrap(), Some(owner(None)), "it was wiped");
        drop(held);
        // As one that was killed leaves it.
        std::fs::write(&path, left).unwrap();
        assert_eq!(WriteLock::owner(&path).unwrap(), None);
    }

    #[test]
    fn half_a_board_is_none() {
        let whole = format!("me\n{{}}\n{:016x}\n", xxh3_64(b"{}"));
        assert_eq!(parse(&whole).0.board.as_deref(), Some("{}"));
        for len in 0..whole.len() {
            let (owner, is_whole) = parse(&whole[..len]);
            assert_eq!(owner.board, None, "{len}");
            assert_eq!(is_whole, len == 3, "{len}: only the note");
        }
        assert_eq!(parse(&whole.replace("{}", "{]")).0.board, None);
    }

    #[test]
    fn what_is_read_while_it_is_written_is_whole_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = WriteLock::take(&path, "scan").unwrap();
        let board = held.board().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut shown = 0_usize;
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    shown += 1;
                    board.show(&"x".repeat(shown % 9_000)).unwrap();
                }
            });
            let mut seen = 0;
            while seen < 200 && !writer.is_finished() {
                let owner = WriteLock::owner(&path).unwrap().expect("it is held");
                assert!(owner.note.ends_with(": scan"), "{owner:?}");
                let is_shown = |board: &String| board.bytes().all(|byte| byte == b'x');
                assert!(owner.board.as_ref().is_none_or(is_shown), "{owner:?}");
                seen += usize::from(owner.board.is_some());
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(seen, 200);
        });
    }
}

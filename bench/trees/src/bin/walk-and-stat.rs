//! Walks a tree and asks for size and times of every file, and does nothing else: less than that no scan of
//! a tree can do.
//!
//! ```text
//! walk-and-stat FOLDER
//! ```
//!
//! As many threads as cores take folders from one stack. A folder is opened by its name in the one
//! above, and so are its files asked for: no path is looked up from its beginning. Links are not followed.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, StatxFlags, openat, statx};

/// For the entries of a folder.
const BUFFER: usize = 32 << 10;

/// A folder that is to be looked into: the one above, and its name there.
type Found = (Option<Arc<OwnedFd>>, CString);

/// What was seen.
#[derive(Debug, Default)]
struct Counts {
    folders: u64,
    /// All that is no folder, by their names.
    files: u64,
    bytes: u64,
}

/// Folders that nobody has taken yet, and how many are being looked into.
struct Stack {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Found>,
    busy: usize,
    failed: Option<io::Error>,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        eprintln!("walk-and-stat: FOLDER");
        return ExitCode::from(1);
    };
    match walk(folder.as_encoded_bytes()) {
        Ok(Counts { folders, files, bytes }) => {
            println!("folders {folders}\nfiles {files}\nbytes {bytes}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("walk-and-stat: {}: {problem}", folder.to_string_lossy());
            ExitCode::from(2)
        }
    }
}

fn walk(root: &[u8]) -> io::Result<Counts> {
    let state = State { waiting: vec![(None, CString::new(root)?)], busy: 0, failed: None };
    let stack = Stack { state: Mutex::new(state), changed: Condvar::new() };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let all = thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(|| work(&stack))).collect();
        let sums = started.into_iter().map(|worker| worker.join().expect("no worker panics"));
        sums.fold(Counts::default(), |sum, one| Counts {
            folders: sum.folders + one.folders,
            files: sum.files + one.files,
            bytes: sum.bytes + one.bytes,
        })
    });
    let state = stack.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failed.map_or(Ok(all), Err)
}

/// Until there is nothing left, or somebody has failed.
fn work(stack: &Stack) -> Counts {
    let (mut counts, mut buffer) = (Counts::default(), Vec::with_capacity(BUFFER));
    let mut found = Vec::new();
    while let Some((above, name)) = stack.take() {
        let result =
            look(above.as_deref(), &name, buffer.spare_capacity_mut(), &mut found, &mut counts);
        stack.give(&mut found, result.err());
    }
    counts
}

impl Stack {
    fn take(&self) -> Option<Found> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.failed.is_some() || (state.waiting.is_empty() && state.busy == 0) {
                return None;
            }
            if let Some(one) = state.waiting.pop() {
                state.busy += 1;
                return Some(one);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What was in the folder that was taken.
    fn give(&self, found: &mut Vec<Found>, problem: Option<io::Error>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        state.waiting.append(found);
        state.failed = state.failed.take().or(problem);
        // Who waits can go on, or end.
        self.changed.notify_all();
    }
}

fn look(
    above: Option<&OwnedFd>,
    name: &CString,
    buffer: &mut [MaybeUninit<u8>],
    found: &mut Vec<Found>,
    counts: &mut Counts,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let above = above.map_or(CWD, AsFd::as_fd);
    let folder = Arc::new(openat(above, name.as_c_str(), flags, Mode::empty())?);
    counts.folders += 1;
    let mut entries = RawDir::new(folder.as_fd(), buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory {
            if !matches!(name.to_bytes(), b"." | b"..") {
                found.push((Some(Arc::clone(&folder)), name.to_owned()));
            }
            continue;
        }
        let seen = statx(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
        counts.files += 1;
        counts.bytes += seen.stx_size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn everything_is_counted_once_and_no_link_is_followed() {
        let root = std::env::temp_dir().join(format!("walk-and-stat-{}", std::process::id()));
        for n in 0..50 {
            let folder = root.join(format!("{n}/in/{}", n % 7));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(".file"), vec![1; n]).unwrap();
        }
        std::os::unix::fs::symlink("..", root.join("7/link")).unwrap();
        let Counts { folders, files, bytes } = walk(root.as_os_str().as_bytes()).unwrap();
        assert_eq!((folders, files, bytes), (1 + 3 * 50, 50 + 1, 49 * 25 + 2));
        fs::remove_dir_all(&root).unwrap();
        assert!(walk(root.as_os_str().as_bytes()).is_err(), "a folder that is gone");
    }
}

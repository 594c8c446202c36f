//! A walk over a folder tree: each folder is a task, and submits its subfolders to the group.
//!
//! ```sh
//! cargo run --example walk -p tidegate -- some/folder
//! ```

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Group, Pool, Shutdown};

fn main() -> Result<(), Box<dyn Error>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = std::env::args_os().nth(1).map_or(own, PathBuf::from);
    // One worker has to run every folder itself, between its own submits.
    let alone = walk(&root, 1)?;
    let eight = walk(&root, 8)?;
    assert_eq!(alone, eight, "the number of workers must not show");
    let (files, bytes) = eight;
    println!("{}: {files} files, {bytes} bytes", root.display());
    Ok(())
}

#[derive(Default)]
struct Found {
    files: AtomicU64,
    bytes: AtomicU64,
}

/// How many files there are below `root`, and their bytes.
fn walk(root: &Path, workers: usize) -> Result<(u64, u64), Box<dyn Error>> {
    // Far fewer places than folders: inside a task, what finds no room runs at once.
    let pool = Pool::builder("walk").workers(workers).queue(4).build()?;
    let group = pool.group().name("folder").start();
    let found = Arc::new(Found::default());
    submit(&group, root.to_owned(), &found)?;
    // Returns when no folder is left; the first failure cancels the rest.
    let outcome = group.wait();
    let report = pool.shutdown(Shutdown::default())?;
    assert!(report.is_success(), "{report}");
    outcome?;
    Ok((found.files.load(Relaxed), found.bytes.load(Relaxed)))
}

fn submit(group: &Group<io::Error>, folder: PathBuf, found: &Arc<Found>) -> io::Result<()> {
    let (inner, found) = (group.clone(), Arc::clone(found));
    // Refused inside only when the group is cancelled: somebody else has failed.
    group.submit(move |_| look_into(&inner, &folder, &found)).map_err(io::Error::other)
}

/// The task of one folder.
fn look_into(group: &Group<io::Error>, folder: &Path, found: &Arc<Found>) -> io::Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| at(folder, &error))? {
        let entry = entry.map_err(|error| at(folder, &error))?;
        let path = entry.path();
        // The type of the entry itself: a symbolic link is neither a folder nor a file.
        let kind = entry.file_type().map_err(|error| at(&path, &error))?;
        if kind.is_dir() {
            submit(group, path, found)?;
        } else if kind.is_file() {
            let size = entry.metadata().map_err(|error| at(&path, &error))?.len();
            found.files.fetch_add(1, Relaxed);
            found.bytes.fetch_add(size, Relaxed);
        }
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

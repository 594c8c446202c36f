#![cfg(not(any(tidegate_loom, tidegate_shuttle)))]
//! Fork and join inside the pool itself: a walk with a group, a sort and a sum with scopes.
//! Each with more tasks than there are places, on one worker and on eight. What hangs fails.

use std::any::Any;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tidegate::{Group, GroupError, Pool, Shutdown, TaskError};

/// What takes longer than this will not come any more.
const HANG: Duration = Duration::from_secs(60);

/// Runs `body` with a pool for each number of workers and places, and ends the pool.
fn on_one_worker_and_on_eight(body: impl Fn(&Pool) + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let runner = thread::spawn(move || {
        for workers in [1, 8] {
            for places in [1, 100] {
                let name = format!("{workers}-{places}");
                let pool = Pool::builder(name).workers(workers).queue(places).build().unwrap();
                body(&pool);
                let report = pool.shutdown(Shutdown::default()).unwrap();
                assert!(report.is_success(), "{workers} workers, {places} places: {report}");
                let seen = pool.snapshot();
                seen.check().unwrap();
                assert_eq!(seen.accepted, seen.completed + seen.failed + seen.cancelled);
            }
        }
        done.send(()).unwrap();
    });
    match ended.recv_timeout(HANG) {
        // The thread hangs: it can't be joined.
        Err(RecvTimeoutError::Timeout) => panic!("still not done after {HANG:?}: a deadlock"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            runner.join().unwrap_or_else(|panic: Box<dyn Any + Send>| {
                std::panic::resume_unwind(panic);
            });
        }
    }
}

// ---------------------------------------------------------------- a walk with a group

/// A folder of our own, gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path); // left by a process that had our id and was killed
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Each folder has `wide` subfolders, `deep` levels down, and a file with its level in
    /// bytes. How many files there are, and bytes.
    fn fill(folder: &Path, wide: u64, deep: u64) -> (u64, u64) {
        fs::write(folder.join("file"), vec![b'x'; deep as usize]).unwrap();
        let mut found = (1, deep);
        for n in 0..if deep == 0 { 0 } else { wide } {
            let below = folder.join(format!("folder {n}"));
            fs::create_dir(&below).unwrap();
            let (files, bytes) = Folder::fill(&below, wide, deep - 1);
            found = (found.0 + files, found.1 + bytes);
        }
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Default)]
struct Found {
    files: AtomicU64,
    bytes: AtomicU64,
}

fn walk(pool: &Pool, root: &Path) -> Result<(u64, u64), GroupError<io::Error>> {
    let group = pool.group().start();
    let found = Arc::new(Found::default());
    submit(&group, root.to_owned(), &found).unwrap();
    group.wait()?;
    Ok((found.files.load(Relaxed), found.bytes.load(Relaxed)))
}

fn submit(group: &Group<io::Error>, folder: PathBuf, found: &Arc<Found>) -> io::Result<()> {
    let (inner, found) = (group.clone(), Arc::clone(found));
    group.submit(move |_| look_into(&inner, &folder, &found)).map_err(io::Error::other)
}

fn look_into(group: &Group<io::Error>, folder: &Path, found: &Arc<Found>) -> io::Result<()> {
    let at = |error: io::Error| io::Error::other(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        let kind = entry.file_type().map_err(at)?;
        if kind.is_dir() {
            submit(group, entry.path(), found)?;
        } else if kind.is_file() {
            found.files.fetch_add(1, Relaxed);
            found.bytes.fetch_add(entry.metadata().map_err(at)?.len(), Relaxed);
        }
    }
    Ok(())
}

#[test]
fn walk_on_one_worker_and_on_eight() {
    let root = Folder::new("walk");
    let expected = Folder::fill(&root.0, 3, 5);
    assert_eq!(expected.0, (0..=5).map(|level| 3_u64.pow(level)).sum::<u64>());
    // Followed, this one would lead the walk round for ever.
    #[cfg(unix)]
    std::os::unix::fs::symlink(&root.0, root.0.join("folder 0").join("link")).unwrap();
    let path = root.0.clone();
    on_one_worker_and_on_eight(move |pool| assert_eq!(walk(pool, &path).unwrap(), expected));
}

#[test]
fn walk_that_fails_names_the_folder() {
    let root = Folder::new("walk-fails");
    let missing = root.0.join("missing");
    on_one_worker_and_on_eight(move |pool| {
        let error = walk(pool, &missing).unwrap_err();
        let Some(TaskError::Failed(first)) = error.first() else { panic!("{error}") };
        assert!(first.to_string().contains(&*missing.to_string_lossy()), "{first}");
    });
}

// ---------------------------------------------------------------- a sort with scopes

#[path = "../../examples/quicksort.rs"]
#[allow(dead_code, reason = "the rest is the example's own")]
mod quicksort_example;
use quicksort_example::{partition, random_numbers};

fn quicksort(pool: &Pool, numbers: &mut [u64]) {
    if numbers.len() <= 50 {
        return numbers.sort_unstable();
    }
    let (low, high) = partition(numbers);
    pool.scope(|s| {
        s.spawn(|| quicksort(pool, low)).unwrap();
        quicksort(pool, high);
    });
}

#[test]
fn quicksort_on_one_worker_and_on_eight() {
    let random = random_numbers(50_000);
    let few: Vec<u64> = random.iter().map(|n| n % 3).collect();
    let falling: Vec<u64> = (0..10_000).rev().collect();
    on_one_worker_and_on_eight(move |pool| {
        for numbers in [&random, &few, &falling] {
            let mut expected = numbers.clone();
            expected.sort_unstable();
            // All forks inside, then with the first ones on the caller's thread.
            let mut inside = numbers.clone();
            pool.scope(|s| s.submit(|| quicksort(pool, &mut inside)).unwrap().wait()).unwrap();
            assert!(inside == expected, "not sorted, or not the same numbers");
            let mut outside = numbers.clone();
            quicksort(pool, &mut outside);
            assert!(outside == expected, "not sorted, or not the same numbers");
        }
    });
}

// ---------------------------------------------------------------- a sum with scopes

#[derive(Default)]
struct Node {
    value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

/// Forks at every node, also where there is nothing below.
fn tree_sum(pool: &Pool, tree: Option<&Node>) -> u64 {
    let Some(node) = tree else { return 0 };
    let mut left = None;
    let right = pool.scope(|s| {
        s.spawn(|| left = Some(tree_sum(pool, node.left.as_deref()))).unwrap();
        tree_sum(pool, node.right.as_deref())
    });
    node.value + left.expect("nobody cancels it") + right
}

/// The same with a handle for the left side.
fn tree_sum_by_handle(pool: &Pool, tree: Option<&Node>) -> u64 {
    let Some(node) = tree else { return 0 };
    pool.scope(|s| {
        let left = s.submit(|| tree_sum_by_handle(pool, node.left.as_deref())).unwrap();
        let right = tree_sum_by_handle(pool, node.right.as_deref());
        node.value + left.wait().expect("nobody cancels it") + right
    })
}

fn bush(depth: u64) -> Node {
    let side = || (depth > 1).then(|| Box::new(bush(depth - 1)));
    Node { value: 1, left: side(), right: side() }
}

/// A stem that goes left, which is the forked side, and right by turns, or always left.
fn vine(length: u64, turns: bool) -> Node {
    (1..length).fold(Node { value: 1, ..Node::default() }, |stem, n| {
        let stem = Some(Box::new(stem));
        let (left, right) = if turns && n % 2 == 0 { (None, stem) } else { (stem, None) };
        Node { value: 1, left, right }
    })
}

#[test]
fn tree_sum_on_one_worker_and_on_eight() {
    // The vines nest deeper than the 64 that a wait for a plain handle may; each level takes a
    // few KiB of the worker's stack.
    on_one_worker_and_on_eight(|pool| {
        let trees = [(bush(11), 2_047), (vine(150, false), 150), (vine(150, true), 150)];
        for (tree, nodes) in &trees {
            let inside = pool.scope(|s| s.submit(|| tree_sum(pool, Some(tree))).unwrap().wait());
            assert_eq!(inside.unwrap(), *nodes);
            assert_eq!(tree_sum(pool, Some(tree)), *nodes);
            let sum = || tree_sum_by_handle(pool, Some(tree));
            assert_eq!(pool.scope(|s| s.submit(sum).unwrap().wait()).unwrap(), *nodes);
        }
    });
}

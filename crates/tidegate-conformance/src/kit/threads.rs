//! What the operating system says about this process.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// How many live threads have a name that starts with `prefix`; None where
/// the system does not tell.
pub fn threads_named(prefix: &str) -> Option<usize> {
    count_threads(|name| name.starts_with(prefix))
}

/// How many live threads are workers of `pool` (`<pool>-<n>`); None where the
/// system does not tell. A pool may have other threads, which come and go.
pub fn workers_of(pool: &str) -> Option<usize> {
    let is_number = |n: &str| n.chars().all(|c| c.is_ascii_digit());
    count_threads(|name| {
        name.strip_prefix(pool).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_number)
    })
}

fn count_threads(mut wanted: impl FnMut(&str) -> bool) -> Option<usize> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    Some(names.filter(|name| wanted(name.trim_end())).count())
}

/// Fails if each of several rounds makes this process larger by `slack` bytes: a leak goes on; the
/// memory of threads that are started meanwhile, or what an allocator keeps, does not. Runs one
/// round only where the system does not tell.
#[track_caller]
pub fn assert_keeps_nothing(what: &str, slack: u64, mut round: impl FnMut()) {
    let mut growth = Vec::new();
    while growth.len() < 4 && growth.last().is_none_or(|grown| *grown >= slack) {
        let before = own_bytes();
        round();
        let (Some(before), Some(after)) = (before, own_bytes()) else { return };
        growth.push(after.saturating_sub(before));
    }
    let least = growth.iter().min().expect("at least one");
    assert!(*least < slack, "{what}: bytes more after each round: {growth:?}");
}

/// Resident memory of this process that is no page of a file: those come and go with what else the
/// machine does. None where the system does not tell, and under a sanitizer, which keeps what was
/// freed.
fn own_bytes() -> Option<u64> {
    if std::env::var_os("ASAN_OPTIONS").is_some() {
        return None;
    }
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

static CHILD: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that tests may start as a child (`--child NAME`).
pub fn set_child_program(path: PathBuf) {
    // Many tests set the same path: the first one counts.
    let _ = CHILD.set(path);
}

/// The program set before; None: tests with a child are skipped.
pub fn child_program() -> Option<&'static PathBuf> {
    CHILD.get()
}

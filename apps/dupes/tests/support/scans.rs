//! A tree with a database beside it: scanned, changed, scanned again, and what is recorded then.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use dupes::cli::{self, Command as Verb};
use dupes::find::Live;
use dupes::scan::{self, Scan};
use dupes::store::Store;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::in_time;

/// A tree, and a database beside it.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        Bench { dir }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tree().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.path().join("data/dupes.db")
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The program itself.
    pub(crate) fn dupes(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(args).args(["--no-config", "--database"]).arg(self.database());
        in_time(&format!("{args:?}"), move || command.output().unwrap())
    }

    /// Some seconds later, so that nothing is racy; what it has counted.
    pub(crate) fn scan(&self, words: &[&str]) -> serde_json::Value {
        self.scan_into(&self.database(), words, Duration::from_secs(10))
    }

    pub(crate) fn scan_into(
        &self,
        database: &Path,
        words: &[&str],
        later: Duration,
    ) -> serde_json::Value {
        self.scan_at(database, words, SystemTime::now() + later)
    }

    /// By a clock that says so.
    pub(crate) fn scan_at(
        &self,
        database: &Path,
        words: &[&str],
        now: SystemTime,
    ) -> serde_json::Value {
        let mut args: Vec<OsString> =
            ["dupes", "--no-config", "scan", "--progress", "never", "--database"]
                .map(OsString::from)
                .into();
        args.push(database.into());
        args.extend(words.iter().map(OsString::from));
        args.push(self.tree().into());
        let Ok(Verb::Scan(mut asked)) = cli::parse(args, &mut std::io::empty()) else {
            panic!("it is a good command line")
        };
        asked.request.now = now;
        let store = Store::open_or_make(database).unwrap();
        let lock = store.lock("a test").unwrap();
        let roots = vec![scan::root(&store, &asked.paths[0], &asked.words.all).unwrap()];
        let filter = cli::recorded_filter(&roots[0].words).unwrap();
        let scan = Scan::begin(&store, &lock, asked.request, roots, filter, Live::default());
        let summary = scan.unwrap().finish().unwrap();
        until_the_clock_of_files_has_moved(self.dir.path());
        summary.json()
    }

    pub(crate) fn dump(&self) -> Dump {
        dump(&self.database())
    }
}

/// The sets that are reported.
pub(crate) fn groups(bench: &Bench) -> Vec<serde_json::Value> {
    let output = bench.dupes(&["report", "files", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    listing["groups"].as_array().unwrap().clone()
}

/// Whatever is changed from now on gets another time.
pub(crate) fn until_the_clock_of_files_has_moved(dir: &Path) {
    let probe = dir.join("probe");
    let touched = || {
        fs::write(&probe, "x").unwrap();
        let found = fs::metadata(&probe).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = touched();
    while touched() == before {}
}

/// What is recorded of a file: all but what was computed, and that.
pub(crate) type Recorded = (Vec<i64>, Option<Vec<u8>>);

#[derive(Debug, PartialEq)]
pub(crate) struct Dump {
    pub(crate) folders: BTreeMap<Vec<u8>, (Option<i64>, i64, Option<i64>)>,
    pub(crate) files: BTreeMap<Vec<u8>, Recorded>,
    pub(crate) gone: Vec<Vec<u8>>,
}

pub(crate) fn dump(database: &Path) -> Dump {
    let connection = Connection::open(database).unwrap();
    let paths = "WITH RECURSIVE paths (id, path) AS (
        SELECT folders.id, path FROM folders JOIN roots ON roots.id = root WHERE parent IS NULL UNION ALL
        SELECT folders.id, CAST(path || '/' || name AS BLOB) FROM folders JOIN paths ON parent = paths.id)";
    let mut dump = Dump { folders: BTreeMap::new(), files: BTreeMap::new(), gone: Vec::new() };
    let sql = format!(
        "{paths} SELECT path, device, left_out, error, removed FROM paths JOIN folders USING (id)"
    );
    let mut statement = connection.prepare(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let path: Vec<u8> = row.get(0).unwrap();
        if row.get::<_, Option<i64>>(4).unwrap().is_some() {
            dump.gone.push(path);
        } else {
            let known = (row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap());
            dump.folders.insert(path, known);
        }
    }
    let sql = format!(
        "{paths} SELECT CAST(path || '/' || name AS BLOB), inode, size, blocks, links, mtime, ctime,
            ifnull(device, -7), ifnull(error, -7), hash, removed FROM paths JOIN files ON folder = id"
    );
    let mut statement = connection.prepare(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let path: Vec<u8> = row.get(0).unwrap();
        if row.get::<_, Option<i64>>(10).unwrap().is_some() {
            dump.gone.push(path);
        } else {
            let numbers = (1..9).map(|at| row.get(at).unwrap()).collect();
            dump.files.insert(path, (numbers, row.get(9).unwrap()));
        }
    }
    dump.gone.sort();
    dump
}

/// All that a fresh scan knows is known, and nothing else of what is there; a hash that has no use
/// any more may still be.
pub(crate) fn assert_as_good_as_fresh(known: &Dump, fresh: &Dump) {
    assert_eq!(known.folders, fresh.folders);
    assert_eq!(known.files.keys().collect::<Vec<_>>(), fresh.files.keys().collect::<Vec<_>>());
    for (path, (numbers, hash)) in &fresh.files {
        let shown = String::from_utf8_lossy(path);
        assert_eq!(known.files[path].0, *numbers, "{shown}");
        if hash.is_some() {
            assert_eq!(known.files[path].1, *hash, "{shown}");
        }
    }
    // What is left over is true.
    for (path, (_, hash)) in &known.files {
        if let Some(hash) = hash {
            let bytes = fs::read(OsString::from_vec(path.clone())).unwrap();
            assert_eq!(hash, blake3::hash(&bytes).as_bytes(), "{}", String::from_utf8_lossy(path));
        }
    }
}

pub(crate) fn number(counts: &serde_json::Value, what: &str) -> u64 {
    counts[what].as_u64().unwrap()
}

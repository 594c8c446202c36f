//! Scans: whatever happened in between, the database says what is there; and nothing is read twice.

mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use dupes::cli::{self, Command as Verb};
use dupes::find::Live;
use dupes::scan::{self, Scan};
use dupes::store::Store;
use proptest::prelude::*;
use rusqlite::Connection;
use support::{in_time, stderr};
use tempfile::TempDir;

/// A tree, and a database beside it.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        Bench { dir }
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tree().join(name)
    }

    fn database(&self) -> PathBuf {
        self.dir.path().join("data/dupes.db")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// The program itself.
    fn dupes(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(args).arg("--database").arg(self.database());
        in_time(&format!("{args:?}"), move || command.output().unwrap())
    }

    /// Some seconds later, so that nothing is racy; what it has counted.
    fn scan(&self, words: &[&str]) -> serde_json::Value {
        self.scan_into(&self.database(), words, Duration::from_secs(10))
    }

    fn scan_into(&self, database: &Path, words: &[&str], later: Duration) -> serde_json::Value {
        let mut args: Vec<OsString> =
            ["dupes", "scan", "--progress", "never", "--database"].map(OsString::from).into();
        args.push(database.into());
        args.extend(words.iter().map(OsString::from));
        args.push(self.tree().into());
        let Ok(Verb::Scan(mut asked)) = cli::parse(args, &mut std::io::empty()) else {
            panic!("it is a good command line")
        };
        asked.request.now = SystemTime::now() + later;
        let store = Store::open_or_make(database).unwrap();
        let lock = store.lock("a test").unwrap();
        let roots = vec![scan::root(&store, &asked.paths[0], &asked.words).unwrap()];
        let filter = cli::recorded_filter(&roots[0].words).unwrap();
        let scan = Scan::begin(&store, &lock, asked.request, roots, filter, Live::default());
        let summary = scan.unwrap().finish().unwrap();
        until_the_clock_of_files_has_moved(self.dir.path());
        summary.json()
    }

    fn dump(&self) -> Dump {
        dump(&self.database())
    }
}

/// Whatever is changed from now on gets another time.
fn until_the_clock_of_files_has_moved(dir: &Path) {
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
type Recorded = (Vec<i64>, Option<Vec<u8>>);

#[derive(Debug, PartialEq)]
struct Dump {
    folders: BTreeMap<Vec<u8>, (Option<i64>, i64, Option<i64>)>,
    files: BTreeMap<Vec<u8>, Recorded>,
    gone: Vec<Vec<u8>>,
}

fn dump(database: &Path) -> Dump {
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
fn assert_as_good_as_fresh(known: &Dump, fresh: &Dump) {
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

fn number(counts: &serde_json::Value, what: &str) -> u64 {
    counts[what].as_u64().unwrap()
}

// ------------------------------------------------------------ any sequence of changes

#[derive(Clone, Debug)]
enum Change {
    Write { name: String, len: usize, fill: u8 },
    Remove(String),
    Rename(String, String),
    Link(String, String),
    Folder(String),
    Scan(&'static str),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let name = || "[ab](/[ab](/[ab])?)?";
    let len = prop_oneof![4 => 0_usize..3, 2 => Just(5_000_usize), 2 => Just(70_000_usize)];
    let change = prop_oneof![
        6 => (name(), len, 0_u8..2).prop_map(|(name, len, fill)| Change::Write { name, len, fill }),
        2 => name().prop_map(Change::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Change::Link(from, to)),
        1 => name().prop_map(Change::Folder),
        3 => prop::sample::select(vec!["all", "folders", "files", "all"]).prop_map(Change::Scan),
    ];
    prop::collection::vec(change, 1..25)
}

fn apply(bench: &Bench, change: &Change) {
    // Most fail at times, since what they are about is not there, or is something else.
    match change {
        Change::Write { name, len, fill } => {
            let path = bench.path(name);
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = fs::write(path, vec![*fill; *len]);
        }
        Change::Remove(name) => {
            let path = bench.path(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
        }
        Change::Rename(from, to) => drop(fs::rename(bench.path(from), bench.path(to))),
        Change::Link(from, to) => drop(fs::hard_link(bench.path(from), bench.path(to))),
        Change::Folder(name) => drop(fs::create_dir_all(bench.path(name))),
        Change::Scan(mode) => {
            let asked = bench.dir.path().join("tree");
            assert!(asked.is_dir());
            bench.scan(&[mode]);
        }
    }
}

fn cases() -> u32 {
    let cases = std::env::var("TIDEGATE_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn any_changes_and_scans_end_as_one_fresh_scan(changes in changes()) {
        let bench = Bench::new();
        for change in &changes {
            apply(&bench, change);
        }
        bench.scan(&[]);
        let again = bench.scan(&[]);
        prop_assert_eq!(number(&again, "same"), number(&again, "files"));
        prop_assert_eq!(number(&again, "reads"), 0, "nothing has changed");
        let fresh = bench.dir.path().join("fresh.db");
        bench.scan_into(&fresh, &[], Duration::from_secs(10));
        assert_as_good_as_fresh(&bench.dump(), &dump(&fresh));
    }
}

// ------------------------------------------------------------ what is read again

#[test]
fn what_has_not_changed_is_not_read_again() {
    let bench = Bench::new();
    for n in 0..20 {
        bench.write(&format!("{n}"), "the same");
        bench.write(&format!("large/{n}"), vec![(n % 3) as u8; 100_000]);
    }
    // Of these only samples are known.
    bench.write("alone", vec![1; 200_000]);
    bench.write("and-alone", vec![2; 200_000]);
    let first = bench.scan(&[]);
    assert!(number(&first, "reads") > 42 && number(&first, "new") == 42);
    let second = bench.scan(&[]);
    assert_eq!((number(&second, "reads"), number(&second, "same")), (0, 42));
    bench.write("large/new", vec![1; 100_000]);
    let third = bench.scan(&[]);
    // Its samples, then all of it: those that it is like are known.
    assert_eq!((number(&third, "reads"), number(&third, "new")), (2, 1));
    let known = bench.dump();
    let hash = |name: &str| known.files[bench.path(name).as_os_str().as_encoded_bytes()].1.clone();
    assert!(hash("large/new").is_some() && hash("large/new") == hash("large/1"));
}

#[test]
fn a_file_that_changed_just_before_it_was_read_is_read_again() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("b", "the same");
    let now = || bench.scan_into(&bench.database(), &[], Duration::ZERO);
    assert_eq!(number(&now(), "reads"), 2);
    assert_eq!(number(&bench.scan(&[]), "reads"), 2, "it may have changed since");
    assert_eq!(number(&bench.scan(&[]), "reads"), 0);
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let bench = Bench::new();
    bench.write("a", "one");
    bench.write("b", "one");
    bench.scan(&[]);
    let before = fs::metadata(bench.path("b")).unwrap().modified().unwrap();
    bench.write("b", "two");
    fs::File::options().write(true).open(bench.path("b")).unwrap().set_modified(before).unwrap();
    assert_eq!(number(&bench.scan(&[]), "changed"), 1);
    let known = bench.dump();
    let hashes: Vec<_> = known.files.values().map(|(_, hash)| hash.clone().unwrap()).collect();
    assert_ne!(hashes[0], hashes[1]);
}

#[test]
fn restart_and_another_hash_read_everything_again() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("b", "the same");
    bench.scan(&[]);
    assert_eq!(number(&bench.scan(&["--restart"]), "reads"), 2);
    assert_eq!(number(&bench.scan(&["--hash", "sha512"]), "reads"), 2);
    assert_eq!(number(&bench.scan(&[]), "reads"), 0, "that is the hash from now on");
    let known = bench.dump();
    assert!(
        known.files.values().all(|(_, hash)| hash.as_ref().is_some_and(|hash| hash.len() == 64))
    );
}

#[test]
fn folders_only_looks_and_files_only_reads_in_what_is_known() {
    let bench = Bench::new();
    bench.write("in/a", "the same");
    bench.write("b", "the same");
    let looked = bench.scan(&["folders"]);
    assert_eq!((number(&looked, "new"), number(&looked, "reads")), (2, 0));
    bench.write("new/c", "the same");
    let read = bench.scan(&["files"]);
    assert_eq!((number(&read, "same"), number(&read, "reads"), number(&read, "new")), (2, 2, 0));
    assert_eq!(number(&bench.scan(&[]), "new"), 1);
}

#[test]
fn all_names_of_a_file_have_its_hash() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("z", "the same");
    for name in ["b", "in-c", "y"] {
        fs::hard_link(bench.path("a"), bench.path(name)).unwrap();
    }
    bench.scan(&[]);
    fs::hard_link(bench.path("a"), bench.path("late")).unwrap();
    bench.scan(&[]);
    let known = bench.dump();
    assert_eq!(known.files.len(), 6);
    let hash = blake3::hash(b"the same").as_bytes().to_vec();
    assert!(known.files.values().all(|(_, known)| known.as_ref() == Some(&hash)), "{known:?}");
    let report = bench.dupes(&["report", "files", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["groups"][0]["paths"].as_array().unwrap().len(), 2, "two files: {report}");
}

// ------------------------------------------------------------ gone and back

#[test]
fn what_is_gone_is_marked_with_all_below_and_comes_back() {
    let bench = Bench::new();
    bench.write("in/deep/a", "the same");
    bench.write("in/b", "the same");
    bench.write("c", "the same");
    bench.scan(&[]);
    fs::rename(bench.path("in"), bench.dir.path().join("away")).unwrap();
    let gone = bench.scan(&[]);
    assert_eq!((number(&gone, "files_gone"), number(&gone, "folders_gone")), (2, 2));
    assert_eq!(bench.dump().gone.len(), 4);
    assert_eq!(number(&bench.scan(&[]), "files_gone"), 0, "it is gone once");
    fs::rename(bench.dir.path().join("away"), bench.path("in")).unwrap();
    let back = bench.scan(&[]);
    assert_eq!((number(&back, "restored"), number(&back, "reads")), (2, 0));
    assert_eq!(bench.dump().gone, Vec::<Vec<u8>>::new());
}

#[test]
fn a_root_that_is_not_there_is_not_all_gone() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("b", "the same");
    bench.scan(&[]);
    let before = bench.dump();
    let away = bench.dir.path().join("away");
    fs::rename(bench.tree(), &away).unwrap();
    for is_empty_folder in [false, true] {
        if is_empty_folder {
            // As a mount point looks when nothing is mounted.
            fs::create_dir(bench.tree()).unwrap();
        }
        let output = bench.dupes(&["scan", "--progress", "never"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("offline"), "{output:?}");
        assert_eq!(bench.dump(), before);
        let listed = bench.dupes(&["roots", "list"]);
        assert!(String::from_utf8_lossy(&listed.stdout).contains("offline"));
    }
    fs::remove_dir(bench.tree()).unwrap();
    fs::rename(away, bench.tree()).unwrap();
    assert_eq!(number(&bench.scan(&[]), "same"), 2);
}

#[test]
fn a_folder_that_can_not_be_read_keeps_what_is_known_and_is_tried_again() {
    let bench = Bench::new();
    bench.write("in/a", "the same");
    bench.write("b", "the same");
    // As somebody whom permissions bind.
    let nobody = 65_534;
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_dupes")).args(args);
        command.arg("--database").arg(bench.database()).output().unwrap()
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, to become somebody else");
        return;
    }
    fs::create_dir(bench.dir.path().join("data")).unwrap();
    for path in ["", "data", "tree", "tree/in", "tree/in/a", "tree/b"] {
        let path = bench.dir.path().join(path);
        std::os::unix::fs::chown(path, Some(nobody), Some(nobody)).unwrap();
    }
    let tree = bench.tree();
    let tree = tree.to_str().unwrap();
    let scan =
        |args: &[&str]| as_nobody(&[&["scan", "--progress", "never", "--json"], args].concat());
    let counts = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    assert_eq!(scan(&[tree]).status.code(), Some(0));
    let may =
        |mode| fs::set_permissions(bench.path("in"), fs::Permissions::from_mode(mode)).unwrap();
    may(0o000);
    let unread = scan(&[]);
    assert_eq!(unread.status.code(), Some(3), "{unread:?}");
    assert_eq!(number(&counts(&unread), "files_gone"), 0);
    let known = bench.dump();
    let folder = bench.path("in").into_os_string().into_vec();
    assert_eq!(known.folders[&folder].2, Some(13), "EACCES is recorded");
    assert_eq!(known.files.len(), 2);
    assert_eq!(scan(&["--max-errors", "0"]).status.code(), Some(2));
    may(0o700);
    assert_eq!(scan(&[]).status.code(), Some(0));
    assert_eq!(bench.dump().folders[&folder].2, None);
}

// ------------------------------------------------------------ the database

#[test]
fn its_own_files_are_not_scanned_and_nobody_else_can_read_them() {
    let bench = Bench::new();
    bench.write("a", "x");
    let inside = bench.path("dupes.db");
    bench.scan_into(&inside, &[], Duration::from_secs(10));
    bench.scan_into(&inside, &[], Duration::from_secs(10));
    assert_eq!(dump(&inside).files.len(), 1);
    for file in fs::read_dir(bench.tree()).unwrap().map(Result::unwrap) {
        let mode = file.metadata().unwrap().mode() & 0o777;
        assert!(mode == 0o600 || file.file_name() == "a", "{file:?}: {mode:o}");
    }
    bench.scan(&[]);
    assert_eq!(fs::metadata(bench.dir.path().join("data")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_database_that_is_none_of_ours_is_left_as_it_is() {
    let bench = Bench::new();
    fs::create_dir(bench.dir.path().join("data")).unwrap();
    let foreign = |sql: &str| {
        let _ = fs::remove_file(bench.database());
        Connection::open(bench.database()).unwrap().execute_batch(sql).unwrap();
    };
    let refused = |why: &str| {
        let before = fs::read(bench.database()).unwrap();
        for verb in [&["scan", bench.tree().to_str().unwrap()][..], &["status"], &["roots", "list"]]
        {
            let output = bench.dupes(verb);
            assert_eq!(output.status.code(), Some(2), "{verb:?}: {output:?}");
            assert!(stderr(&output).contains(why), "{verb:?}: {output:?}");
        }
        assert_eq!(fs::read(bench.database()).unwrap(), before);
    };
    foreign("CREATE TABLE somebodys (thing)");
    refused("is not a database of dupes");
    foreign("PRAGMA application_id = 0x64757065; PRAGMA user_version = 99; CREATE TABLE t (x)");
    refused("has version 99");
    fs::write(bench.database(), "no database at all, but long enough to look like one".repeat(99))
        .unwrap();
    refused("not a database");
}

#[test]
fn there_is_none_before_the_first_scan() {
    let bench = Bench::new();
    for verb in [&["status"][..], &["roots", "list"], &["report", "files"]] {
        let output = bench.dupes(verb);
        assert_eq!(output.status.code(), Some(2), "{verb:?}");
        assert!(stderr(&output).contains("dupes scan PATH"), "{output:?}");
    }
    assert!(!bench.database().exists());
}

#[test]
fn one_writes_at_a_time_and_the_other_is_told_who() {
    let bench = Bench::new();
    let store = Store::open_or_make(&bench.database()).unwrap();
    let lock = store.lock("a test that takes its time").unwrap();
    let output = bench.dupes(&["scan", bench.tree().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a test that takes its time"), "{output:?}");
    drop(lock);
    assert_eq!(bench.dupes(&["scan", bench.tree().to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn a_scan_that_was_killed_is_noticed_and_gone_on_with() {
    let bench = Bench::new();
    bench.write("a", "the same");
    let store = Store::open_or_make(&bench.database()).unwrap();
    let root = scan::root(&store, &bench.tree(), &[]).unwrap();
    let (killed, _) = store.begin_scan("all", &[root.id]).unwrap();
    drop(store);
    let status = bench.dupes(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("killed"), "{status:?}");
    let output = bench.dupes(&["scan"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(&format!("scan {killed} was cut off")), "{output:?}");
    let status = bench.dupes(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("interrupted"), "{status:?}");
}

// ------------------------------------------------------------ roots and reports

#[test]
fn roots_do_not_overlap_and_keep_their_filters() {
    let bench = Bench::new();
    bench.write("in/a.txt", "x");
    bench.write("in/b.jpg", "x");
    let (tree, below) = (bench.tree(), bench.path("in"));
    let [tree, below] = [&tree, &below].map(|path| path.to_str().unwrap());
    assert_eq!(bench.dupes(&["scan", "--exclude", "*.txt", tree]).status.code(), Some(0));
    assert_eq!(bench.dump().files.len(), 1);
    let output = bench.dupes(&["scan", below]);
    assert!(stderr(&output).contains("lies below the root"), "{output:?}");
    let output = bench.dupes(&["scan", "--exclude", "*.jpg", tree]);
    assert!(stderr(&output).contains("--exclude=*.txt"), "{output:?}");
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
    assert_eq!(bench.dump().files.len(), 1, "the filters hold");
    let output = bench.dupes(&["roots", "remove", tree]);
    assert!(stderr(&output).contains("--yes"), "{output:?}");
    assert_eq!(bench.dupes(&["roots", "remove", "--yes", tree]).status.code(), Some(0));
    assert_eq!(
        bench.dump(),
        Dump { folders: BTreeMap::new(), files: BTreeMap::new(), gone: vec![] }
    );
    assert!(bench.path("in/a.txt").exists());
}

#[test]
fn a_report_lists_what_find_does() {
    let bench = Bench::new();
    for n in 0..30 {
        bench.write(&format!("{}/{n}", n % 4), vec![(n % 7) as u8; 10 + n % 3 * 50_000]);
    }
    bench.write("un\u{f6}/\n", vec![1; 10]);
    bench.scan(&[]);
    let sets = |output: Output| -> Vec<Vec<String>> {
        let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let groups = listing["groups"].as_array().unwrap().iter();
        let mut sets: Vec<Vec<String>> = groups
            .map(|group| {
                let paths = group["paths"].as_array().unwrap().iter();
                let mut paths: Vec<String> = paths.map(ToString::to_string).collect();
                paths.sort();
                paths
            })
            .collect();
        sets.sort();
        sets
    };
    let mut find = Command::new(env!("CARGO_BIN_EXE_dupes"));
    let found = sets(find.args(["find", "--format", "json"]).arg(bench.tree()).output().unwrap());
    assert!(found.len() > 5);
    assert_eq!(sets(bench.dupes(&["report", "files", "--json"])), found);
}

#[test]
fn a_disk_in_a_drawer_is_shown_and_never_kept_by() {
    let (here, away) = (Bench::new(), Bench::new());
    here.write("a", vec![1; 10_000]);
    here.write("b", vec![1; 10_000]);
    away.write("c", vec![1; 10_000]);
    here.scan(&[]);
    let tree = away.tree();
    let scanned = here.dupes(&["scan", "--progress", "never", tree.to_str().unwrap()]);
    assert_eq!(scanned.status.code(), Some(0), "{scanned:?}");
    let report = || -> serde_json::Value {
        let output = here.dupes(&["report", "files", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (three, block) = (report(), fs::metadata(here.path("a")).unwrap().blocks() * 512);
    assert_eq!(three["groups"][0]["reclaimable"].as_u64(), Some(2 * block));
    drop(away);
    let two = report();
    assert_eq!(two["groups"][0]["paths"].as_array().unwrap().len(), 3);
    assert_eq!(two["groups"][0]["reclaimable"].as_u64(), Some(block), "one that is here stays");
}

#[test]
fn refresh_marks_and_restores_and_adds_nothing() {
    let bench = Bench::new();
    bench.write("in/a", "the same");
    bench.write("b", "the same");
    bench.scan(&[]);
    bench.write("new", "the same");
    fs::rename(bench.path("b"), bench.dir.path().join("b")).unwrap();
    let refresh = || -> serde_json::Value {
        let output = bench.dupes(&["refresh", "--json", "--progress", "never"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let counts = refresh();
    assert_eq!(["files_gone", "new", "reads"].map(|what| number(&counts, what)), [1, 0, 0]);
    fs::rename(bench.dir.path().join("b"), bench.path("b")).unwrap();
    assert_eq!(number(&refresh(), "restored"), 1);
    assert_eq!(bench.dump().files.len(), 2);
    let stranger = bench.dupes(&["refresh", "/"]);
    assert!(stderr(&stranger).contains("is not registered"), "{stranger:?}");
}

#[test]
fn what_is_gone_stays_until_it_is_purged() {
    let bench = Bench::new();
    bench.write("in/a", "x");
    bench.scan(&[]);
    fs::remove_dir_all(bench.path("in")).unwrap();
    bench.scan(&[]);
    assert_eq!(bench.dump().gone.len(), 2);
    let asked = bench.dupes(&["purge"]);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    assert!(stderr(&asked).contains("--yes"), "{asked:?}");
    let long_ago = bench.dupes(&["purge", "--yes", "--before", "1d"]);
    assert!(stderr(&long_ago).contains("0 files, 0 folders"), "{long_ago:?}");
    let all = bench.dupes(&["purge", "--yes"]);
    assert!(stderr(&all).contains("1 files, 1 folders"), "{all:?}");
    assert_eq!(bench.dump().gone, Vec::<Vec<u8>>::new());
}

#[test]
fn verify_says_what_is_wrong_and_repairs_it() {
    let bench = Bench::new();
    bench.write("in/a", "x");
    bench.scan(&[]);
    assert_eq!(bench.dupes(&["verify"]).status.code(), Some(0));
    let fresh = bench.dump();
    let connection = Connection::open(bench.database()).unwrap();
    let hand = "PRAGMA foreign_keys = OFF; DELETE FROM folders WHERE name = x'696e'";
    connection.execute_batch(hand).unwrap();
    drop(connection);
    let output = bench.dupes(&["verify"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("files that lie nowhere: 1"), "{output:?}");
    assert_eq!(bench.dupes(&["verify", "--repair"]).status.code(), Some(0));
    bench.scan(&[]);
    assert_eq!(bench.dump(), fresh, "a scan has brought it back");
}

// ------------------------------------------------------------ folders

fn folders(bench: &Bench, more: &[&str]) -> serde_json::Value {
    let output = bench.dupes(&[&["report", "folders", "--json"], more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn folders_that_are_equal_alike_or_held_are_told() {
    let bench = Bench::new();
    for folder in ["one", "two"] {
        bench.write(&format!("{folder}/in/a"), "first");
        bench.write(&format!("{folder}/b"), "second");
        bench.write(&format!("{folder}/empty"), "");
    }
    for (name, text) in [("b", "second"), ("c", "third!"), ("new", "only here, and nowhere else")] {
        bench.write(&format!("alike/{name}"), text);
    }
    for (name, text) in [("b", "second"), ("c", "third!")] {
        bench.write(&format!("like/{name}"), text);
    }
    bench.scan(&[]);
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let found = folders(&bench, &[]);
    assert_eq!(found["exact"].as_array().unwrap().len(), 1, "nested ones are folded: {found}");
    assert_eq!(found["exact"][0]["folders"], serde_json::json!([path("one"), path("two")]));
    assert_eq!(found["exact"][0]["files"], 3);
    let pair = &found["partial"][0];
    assert_eq!(pair["folders"], serde_json::json!([path("alike"), path("like")]), "{found}");
    assert_eq!((&pair["shared"], &pair["only_in"][0]["names"][0]), (&2.into(), &"new".into()));
    assert_eq!(found["contained"][0]["folder"], path("like"), "{found}");
    assert_eq!(folders(&bench, &["--partial", "90"])["partial"], serde_json::json!([]));
    let text = bench.dupes(&["report", "folders"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("equal: 3 files") && text.contains("only here: 1 (new)"), "{text}");
}

#[test]
fn names_can_be_ignored() {
    let bench = Bench::new();
    bench.write("one/a", "first");
    bench.write("one/b", "second");
    bench.write("two/c", "first");
    bench.write("two/d", "second");
    bench.scan(&[]);
    assert_eq!(folders(&bench, &[])["exact"], serde_json::json!([]));
    assert_eq!(folders(&bench, &["--ignore-names"])["exact"].as_array().unwrap().len(), 1);
}

#[test]
fn a_folder_with_something_that_was_not_recorded_is_equal_to_none() {
    let bench = Bench::new();
    for folder in ["one", "two"] {
        bench.write(&format!("{folder}/a"), "first");
    }
    std::os::unix::fs::symlink("a", bench.path("two/link")).unwrap();
    bench.scan(&[]);
    assert_eq!(folders(&bench, &[])["exact"], serde_json::json!([]));
    // One that is gone counts no more.
    fs::remove_file(bench.path("two/link")).unwrap();
    bench.scan(&[]);
    assert_eq!(folders(&bench, &[])["exact"].as_array().unwrap().len(), 1);
    fs::remove_dir_all(bench.path("two")).unwrap();
    bench.scan(&[]);
    assert_eq!(folders(&bench, &[])["exact"], serde_json::json!([]));
}

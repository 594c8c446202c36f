//! Scans: whatever happened in between, the database says what is there; and nothing is read twice.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use dupes::alike::{By, Likeness};
use dupes::cli::{self, Command as Verb};
use dupes::find::Live;
use dupes::options::Format;
use dupes::output::printer;
use dupes::report;
use dupes::scan::{self, Scan};
use dupes::stop::Stop;
use dupes::store::Store;
use proptest::prelude::*;
use rusqlite::Connection;
use scans::{Bench, assert_as_good_as_fresh, dump, number};
use serde_json::json;
use support::{can_inject, stderr};
// ------------------------------------------------------------ any sequence of changes

#[derive(Clone, Debug)]
enum Change {
    Write {
        name: String,
        len: usize,
        fill: u8,
    },
    Remove(String),
    Rename(String, String),
    Copy(String, String),
    Link(String, String),
    Folder(String),
    Scan(&'static str),
    /// By the program itself, some words of it.
    Run(&'static [&'static str]),
}

const REFRESH: &[&str] = &["refresh", "--progress", "never"];
const PURGE: &[&str] = &["purge", "--yes"];

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let name = || "[abc](/[abc](/[ab])?)?";
    let folder = || "[a-d](/[ab])?";
    let len = prop_oneof![4 => 0_usize..3, 2 => Just(5_000_usize), 2 => Just(70_000_usize)];
    let change = prop_oneof![
        6 => (name(), len, 0_u8..2).prop_map(|(name, len, fill)| Change::Write { name, len, fill }),
        2 => name().prop_map(Change::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Change::Rename(from, to)),
        3 => (folder(), folder()).prop_map(|(from, to)| Change::Copy(from, to)),
        1 => (name(), name()).prop_map(|(from, to)| Change::Link(from, to)),
        1 => name().prop_map(Change::Folder),
        3 => prop::sample::select(vec!["all", "folders", "files", "--restart"]).prop_map(Change::Scan),
        1 => prop::sample::select(vec![REFRESH, PURGE]).prop_map(Change::Run),
    ];
    prop::collection::vec(change, 1..25)
}

/// With all in it, as far as there is room.
fn copy(from: &Path, to: &Path) {
    let found = fs::read_dir(from).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let found: Vec<_> = found.collect();
    if !from.is_dir() {
        let _ = fs::copy(from, to);
    } else if !to.starts_with(from) && fs::create_dir_all(to).is_ok() {
        found.iter().for_each(|name| copy(&from.join(name), &to.join(name)));
    }
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
        Change::Copy(from, to) => copy(&bench.path(from), &bench.path(to)),
        Change::Link(from, to) => drop(fs::hard_link(bench.path(from), bench.path(to))),
        Change::Folder(name) => drop(fs::create_dir_all(bench.path(name))),
        Change::Scan(mode) => {
            let asked = bench.dir.path().join("tree");
            assert!(asked.is_dir());
            bench.scan(&[mode]);
        }
        // There is nothing to refresh before a first scan, and no database.
        Change::Run(words) => {
            let status = bench.dupes(words).status.code();
            assert!(matches!(status, Some(0 | 2)), "{words:?}: {status:?}");
        }
    }
}

/// What reports say, as programs get it: of folders, of folders by contents, of files.
fn reports(database: &Path) -> [String; 3] {
    let store = Store::open(database).unwrap();
    let [names, contents] = [By::Names, By::Contents].map(|by| {
        let likeness = Likeness { by, ..Likeness::default() };
        report::folders::folders(&store, &likeness).unwrap().json().to_string()
    });
    let mut listing = Vec::new();
    let mut json = printer(Format::Json, false, Box::new(&mut listing));
    report::files(&store, 1, &mut *json, &Stop::new()).unwrap();
    drop(json);
    [names, contents, String::from_utf8(listing).unwrap()]
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
        prop_assert_eq!(reports(&bench.database()), reports(&fresh));
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

/// Whoever reads nothing knows nothing better.
#[test]
fn what_is_known_of_a_racy_file_is_shown_until_it_is_read_again() {
    let bench = Bench::new();
    for (name, size) in [("a", 100), ("b", 100), ("large-a", 100_000), ("large-b", 100_000)] {
        bench.write(name, vec![1; size]);
    }
    bench.scan_into(&bench.database(), &[], Duration::ZERO);
    let (before, sets) = (bench.dump(), bench.dupes(&["report", "files", "--json"]).stdout);
    assert!(before.files.values().all(|(_, hash)| hash.is_some()));
    bench.scan(&["folders"]);
    assert_eq!(bench.dump(), before);
    let refreshed = bench.dupes(&["refresh", "--progress", "never"]);
    assert_eq!(refreshed.status.code(), Some(0), "{refreshed:?}");
    assert_eq!(bench.dump(), before);
    assert_eq!(bench.dupes(&["report", "files", "--json"]).stdout, sets);
    assert_eq!(number(&bench.scan(&[]), "reads"), 6, "nobody relies on it");
    assert_eq!(number(&bench.scan(&[]), "reads"), 0);
}

/// A disk that has another number since the last start of the machine has the same files.
#[test]
fn on_a_device_with_another_number_all_is_read_again_and_shown_until_then() {
    let bench = Bench::new();
    for name in ["in/a", "in/b"] {
        bench.write(name, "the same");
    }
    bench.write("in/alone", "alone");
    bench.scan(&[]);
    let before = bench.dump();
    let connection = Connection::open(bench.database()).unwrap();
    connection.execute_batch("UPDATE folders SET device = 7; UPDATE roots SET device = 7").unwrap();
    drop(connection);
    bench.scan(&["folders"]);
    assert_eq!(bench.dump(), before);
    assert_eq!(number(&bench.scan(&[]), "reads"), 2);
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
        let why = if is_empty_folder { "is its disk mounted?" } else { "No such file" };
        assert!(stderr(&output).contains(why), "{output:?}");
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
    // It can be listed, and nobody says what is in it.
    may(0o444);
    let unseen = scan(&[]);
    assert_eq!(unseen.status.code(), Some(3), "{unseen:?}");
    assert_eq!(number(&counts(&unseen), "files_gone"), 0);
    assert_eq!(bench.dump().folders[&folder], (known.folders[&folder].0, 0, Some(13)));
    assert_eq!(as_nobody(&["purge", "--yes"]).status.code(), Some(0));
    assert_eq!(bench.dump().files, known.files);
    may(0o700);
    assert_eq!(scan(&[]).status.code(), Some(0));
    assert_eq!(bench.dump().folders[&folder].2, None);
}

/// A disk that does not say what a name is says that there is one.
#[test]
fn what_can_not_be_looked_at_is_not_gone() {
    if !can_inject() {
        return;
    }
    let bench = Bench::new();
    for name in ["in/a", "in/b", "in/deep/c", "d"] {
        bench.write(name, "the same");
    }
    bench.scan(&[]);
    let known = bench.dump();
    fs::remove_file(bench.path("in/b")).unwrap();
    bench.write("in/new", "the same");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(bench.path("in"));
    command.args(["-e", "trace=newfstatat", "-e", "inject=newfstatat:error=EIO"]);
    command.args([env!("CARGO_BIN_EXE_dupes"), "scan", "--no-config", "--json", "--database"]);
    let output = command.arg(bench.database()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let counts = support::json(&output);
    let counted = ["files_gone", "folders_gone", "unread"].map(|what| number(&counts, what));
    assert_eq!(counted, [1, 0, 2], "what is not listed is gone: {counts}");
    let after = bench.dump();
    let path = |name: &str| bench.path(name).into_os_string().into_vec();
    assert_eq!(after.files[&path("in/a")], known.files[&path("in/a")]);
    assert_eq!(after.folders[&path("in")].1, 1, "the new one is recorded nowhere");
    assert_eq!(after.folders[&path("in")].2, Some(5), "EIO is recorded");
    bench.scan(&[]);
    let fresh = bench.dir.path().join("fresh.db");
    bench.scan_into(&fresh, &[], Duration::from_secs(10));
    assert_as_good_as_fresh(&bench.dump(), &dump(&fresh));
}

/// It was there when it was looked whether it is.
#[test]
fn a_root_that_is_unmounted_while_a_scan_begins_is_not_all_gone() {
    let bench = Bench::new();
    bench.write("a", "the same");
    bench.write("b", "the same");
    bench.scan(&[]);
    let before = bench.dump();
    let away = bench.dir.path().join("away");
    fs::rename(bench.tree(), &away).unwrap();
    let scan = || {
        let store = Store::open_or_make(&bench.database()).unwrap();
        let lock = store.lock("a test").unwrap();
        let roots = store.roots().unwrap();
        let filter = cli::recorded_filter(&roots[0].words).unwrap();
        let Ok(Verb::Scan(asked)) =
            cli::parse(["dupes", "scan"].map(Into::into), &mut std::io::empty())
        else {
            panic!("it is a good command line")
        };
        let scan = Scan::begin(&store, &lock, asked.request, roots, filter, Live::default());
        scan.unwrap().finish().unwrap().json()
    };
    let files = |dump: &scans::Dump| dump.files.clone();
    fs::create_dir(bench.tree()).unwrap();
    assert_eq!(scan()["state"], "unread");
    assert_eq!(files(&bench.dump()), files(&before));
    fs::remove_dir(bench.tree()).unwrap();
    let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    let elsewhere = tempfile::tempdir_in("/dev/shm");
    match elsewhere {
        Ok(elsewhere) if device(elsewhere.path()) != device(&away) => {
            fs::write(elsewhere.path().join("keep"), "").unwrap();
            std::os::unix::fs::symlink(elsewhere.path(), bench.tree()).unwrap();
            assert_eq!(scan()["state"], "unread");
            assert_eq!(files(&bench.dump()), files(&before));
            fs::remove_file(bench.tree()).unwrap();
        }
        _ => eprintln!("skipped: there is no other file system"),
    }
    fs::rename(away, bench.tree()).unwrap();
    assert_eq!(number(&bench.scan(&[]), "same"), 2);
    assert_eq!(bench.dump(), before);
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
    let elsewhere = bench.dir.path().join("elsewhere");
    fs::rename(bench.database(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, bench.database()).unwrap();
    refused("is a symbolic link");
    fs::remove_file(bench.database()).unwrap();
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
fn a_mistake_in_one_path_registers_none() {
    let bench = Bench::new();
    bench.write("a/in/file", "x");
    let [tree, a, inside] = [bench.tree(), bench.path("a"), bench.path("a/in")];
    let [tree, a, inside] = [&tree, &a, &inside].map(|path| path.to_str().unwrap());
    let missing = format!("{tree}/missing");
    for (paths, why) in [([a, missing.as_str()], "can't look there"), ([inside, a], "lies below")] {
        let output = bench.dupes(&["scan", paths[0], paths[1]]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(why) && stderr(&output).contains(paths[1]), "{output:?}");
        let listed = bench.dupes(&["roots", "list", "--json"]);
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed["roots"].as_array().map(Vec::len), Some(0), "{listed}");
    }
    assert_eq!(bench.dupes(&["scan", a]).status.code(), Some(0));
}

/// Whatever filters they have, and whether they were looked at or not.
#[test]
fn all_roots_of_a_scan_are_told_as_one() {
    let bench = Bench::new();
    for name in ["all", "some", "away"] {
        bench.write(&format!("{name}/a.txt"), name);
    }
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let filters = [("all", &[][..]), ("some", &["--exclude=*.jpg"]), ("away", &["--no-hidden"])];
    for (name, filters) in filters {
        let path = path(name);
        let words = [&["scan", &path][..], filters].concat();
        assert_eq!(bench.dupes(&words).status.code(), Some(0));
    }
    fs::rename(bench.path("away"), bench.path("elsewhere")).unwrap();
    for verb in ["scan", "refresh"] {
        let output = bench.dupes(&[verb, "--json"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((number(&told, "folders"), number(&told, "files")), (2, 2), "{told}");
        let roots = [("all", "complete"), ("away", "offline"), ("some", "complete")];
        let roots = roots.map(|(name, state)| json!({ "path": path(name), "state": state }));
        assert_eq!(told["roots"], json!(roots));
    }
    let text = String::from_utf8(bench.dupes(&["scan"]).stdout).unwrap();
    assert!(text.starts_with("2 roots, 2 folders, 2 files,"), "{text}");
    assert_eq!(text.matches("folders: ").count(), 1, "{text}");
}

#[test]
fn one_writes_at_a_time_and_the_other_is_told_who() {
    let bench = Bench::new();
    let store = Store::open_or_make(&bench.database()).unwrap();
    let lock = store.lock("a test that takes its time").unwrap();
    let output = bench.dupes(&["scan", bench.tree().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a test that takes its time: try again once"), "{output:?}");
    drop(lock);
    assert_eq!(bench.dupes(&["scan", bench.tree().to_str().unwrap()]).status.code(), Some(0));
}

/// All of them make it, and none takes it for somebody else's.
#[test]
fn many_that_open_a_new_database_at_once_get_the_same() {
    for _ in 0..20 {
        let bench = Bench::new();
        let path = bench.database();
        fs::create_dir(path.parent().unwrap()).unwrap();
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || Store::open_or_make(&path).map(drop).map_err(|error| error.to_string());
            let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(opened, vec![Ok(()); 8]);
    }
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

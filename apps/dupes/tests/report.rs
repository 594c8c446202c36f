//! What a database tells: roots, sets of files, folders that are alike; and how it is kept in order.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};

use rusqlite::Connection;
use scans::{Bench, Dump, number};
use support::stderr;
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
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
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
    assert_eq!(bench.dupes(&["verify", "--repair", "--yes"]).status.code(), Some(0));
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

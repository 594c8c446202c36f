//! What a database tells: roots, sets of files, folders that are alike; and how it is kept in order.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use dupes::alike::Likeness;
use dupes::options::Format;
use dupes::output::printer;
use dupes::report;
use dupes::stop::Stop;
use dupes::store::Store;
use rusqlite::Connection;
use scans::{Bench, groups, number};
use support::stderr;

// ------------------------------------------------------------ roots and reports

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
    let there = serde_json::json!([tree.join("c")]);
    assert_eq!(two["groups"][0]["offline"], there);
    assert_eq!(two["groups"][0]["reference"], there, "it is never to go");
    let text = here.dupes(&["report", "files"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("\n  O {}\n", tree.join("c").display())), "{text}");
    assert!(text.contains("\nO offline: ") && !text.contains("--reference"), "{text}");
}

/// What is first in the database came first; what is first in a report comes first by its path.
#[test]
fn the_same_tree_is_told_in_the_same_way_whatever_was_scanned_first() {
    let (bench, apart) = (Bench::new(), Bench::new());
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    let expected: Vec<_> = ["a-b/p", "a/p", "k/p", "z/p"].map(|name| path(name).into()).into();
    for name in ["z", "k", "a", "a-b"] {
        bench.write(&format!("{name}/p/f"), "the same");
        bench.write(&format!("{name}/p/in/g"), "the same as well");
        bench.write(&format!("{name}/only"), name);
        bench.scan(&[]);
        assert_eq!(apart.dupes(&["scan", &path(name)]).status.code(), Some(0));
    }
    // Folder by folder: what lies in `a` comes before what lies beside it.
    let in_order = |found: &serde_json::Value| {
        let mut expected: Vec<serde_json::Value> = expected.clone();
        expected.swap(0, 1);
        assert_eq!(found["exact"][0]["folders"], serde_json::json!(expected), "{found}");
    };
    in_order(&folders(&bench, &[]));
    in_order(&folders(&apart, &[]));
    let text = bench.dupes(&["report", "folders"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("the first in path order stays"));
}

/// They are in no set, and nobody knows whether they should be.
#[test]
fn files_that_no_scan_came_to_are_said() {
    let bench = Bench::new();
    bench.write("in/a", "the same");
    bench.write("in/b", "the same");
    let tree = bench.tree();
    let tree = tree.to_str().unwrap();
    let tells = |what: Option<&str>| {
        for words in [&["report", "files"][..], &["report", "folders"]] {
            let said = stderr(&bench.dupes(words));
            let is_so =
                what.map_or(said.is_empty(), |what| said.contains(&format!("{tree}: {what}")));
            assert!(is_so, "{words:?}, {what:?}: {said}");
        }
        let unfinished = if what.is_some() { vec![tree] } else { vec![] };
        let unfinished = serde_json::json!(unfinished);
        assert_eq!(folders(&bench, &[])["totals"]["unfinished"], unfinished);
        let files = support::json(&bench.dupes(&["report", "files", "--json"]));
        assert_eq!(files["totals"]["unfinished"], unfinished, "{files}");
    };
    bench.dupes(&["roots", "add", tree]);
    tells(Some("was never scanned"));
    bench.dupes(&["scan", "folders"]);
    tells(Some("was looked at since it was read"));
    bench.dupes(&["scan"]);
    tells(None);
    bench.dupes(&["scan", "folders"]);
    tells(None);
    let hand = "UPDATE scans SET state = 'active' WHERE id = (SELECT max(id) FROM scans)";
    Connection::open(bench.database()).unwrap().execute_batch(hand).unwrap();
    tells(Some("the last scan did not come to its end"));
}

#[test]
fn why_files_could_not_be_read_is_said_as_long_as_it_is_so() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.write(name, name);
    }
    bench.scan(&[]);
    let hand =
        "UPDATE files SET error = iif(name = x'61', -1, 13), hash = NULL WHERE name <> x'63'";
    Connection::open(bench.database()).unwrap().execute_batch(hand).unwrap();
    let text = String::from_utf8(bench.dupes(&["status"]).stdout).unwrap();
    for part in [
        "2 not read",
        "  not read: 1: it changed while it was read",
        "  not read: 1: Permission denied",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let root = support::json(&bench.dupes(&["status", "--json"]))["roots"][0].clone();
    assert_eq!(root["not_read"][1]["error"], 13, "{root}");
    assert_eq!(root["not_read"][1]["count"], 1, "{root}");
}

/// A report is complete if it tells all that is recorded; what that leaves open is said beside it.
#[test]
fn what_a_report_can_not_know_is_said_and_it_is_complete() {
    let (here, away) = (Bench::new(), Bench::new());
    here.write("in/a", vec![1; 10_000]);
    here.write("in/b", vec![1; 10_000]);
    here.scan(&[]);
    let page = here.dir.path().join("page.html");
    let all = [&["report", "files"][..], &["report", "folders", "--json"], &["report", "--html"]];
    let said = |words: &[&str]| {
        let mut words = words.to_vec();
        if words.last() == Some(&"--html") {
            words.push(page.to_str().unwrap());
        }
        let output = here.dupes(&words);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        stderr(&output)
    };
    for words in all {
        assert!(!said(words).contains("last scan"), "{words:?}: there is nothing to say");
    }
    let tree = away.tree();
    here.dupes(&["scan", "--progress", "never", tree.to_str().unwrap()]);
    let hand = "UPDATE files SET error = 5, hash = NULL WHERE name = x'61';
        UPDATE folders SET error = 13 WHERE parent IS NOT NULL";
    Connection::open(here.database()).unwrap().execute_batch(hand).unwrap();
    drop(away);
    for words in all {
        let said = said(words);
        assert!(said.contains(&format!("{}: offline", tree.display())), "{words:?}: {said}");
        assert!(said.contains("could not read: 2;"), "{words:?}: {said}");
    }
}

/// Files of two roots that look like one: what disks get that are there one after the other.
fn with_the_same_numbers(here: &Bench, away: &Bench) {
    here.write("h", vec![1; 10_000]);
    away.write("f", vec![1; 10_000]);
    here.scan(&[]);
    let scanned = here.dupes(&["scan", "--progress", "never", away.tree().to_str().unwrap()]);
    assert_eq!(scanned.status.code(), Some(0), "{scanned:?}");
    let hand = "UPDATE folders SET device = 7; UPDATE files SET inode = 12, mtime = 1, ctime = 1,
        hash = (SELECT max(hash) FROM files)";
    Connection::open(here.database()).unwrap().execute_batch(hand).unwrap();
    let hashes = "UPDATE files SET hash = zeroblob(32) WHERE hash IS NULL";
    Connection::open(here.database()).unwrap().execute_batch(hashes).unwrap();
}

#[test]
fn the_numbers_of_a_disk_in_a_drawer_say_nothing() {
    let (here, away) = (Bench::new(), Bench::new());
    with_the_same_numbers(&here, &away);
    let two = groups(&here);
    assert_eq!(two[0]["paths"].as_array().unwrap().len(), 2, "both are looked at: {two:?}");
    drop(away);
    let two = groups(&here);
    assert_eq!(two[0]["paths"].as_array().unwrap().len(), 2, "two files: {two:?}");
    assert_eq!(two[0]["links"], serde_json::json!([]));
    assert_eq!(two[0]["offline"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_with_names_in_two_roots_is_one() {
    let (here, away) = (Bench::new(), Bench::new());
    here.write("a", vec![1; 10_000]);
    here.write("b", vec![1; 10_000]);
    fs::hard_link(here.path("a"), away.path("c")).unwrap();
    here.scan(&[]);
    here.dupes(&["scan", "--progress", "never", away.tree().to_str().unwrap()]);
    let sets = groups(&here);
    assert_eq!(sets[0]["paths"].as_array().unwrap().len(), 2, "{sets:?}");
    assert_eq!(sets[0]["links"].as_array().unwrap().len(), 1, "{sets:?}");
    assert_eq!(
        number(&sets[0], "reclaimable"),
        fs::metadata(here.path("b")).unwrap().blocks() * 512
    );
}

/// Within one root, too: of one name a scan has seen what was there before.
#[test]
fn names_that_were_seen_at_different_times_are_two_files() {
    let bench = Bench::new();
    bench.write("a", vec![1; 10_000]);
    bench.write("b", vec![1; 10_000]);
    bench.scan(&[]);
    let hand = "UPDATE files SET inode = 12, mtime = 1";
    Connection::open(bench.database()).unwrap().execute_batch(hand).unwrap();
    let ctime = "UPDATE files SET ctime = iif(name = x'61', 1, 2)";
    Connection::open(bench.database()).unwrap().execute_batch(ctime).unwrap();
    assert_eq!(groups(&bench)[0]["paths"].as_array().unwrap().len(), 2);
}

/// Somebody else writes between any two steps of a report: it is all of before, or all of after.
#[test]
fn a_report_is_of_one_moment() {
    for what in ["files", "folders"] {
        let bench = Bench::new();
        for name in ["one/a", "two/a", "two/b", "one/b"] {
            bench.write(name, "the same");
        }
        bench.scan(&[]);
        let told = |store: &Store| match what {
            "files" => {
                let mut listing = Vec::new();
                let mut json = printer(Format::Json, false, Box::new(&mut listing));
                report::files(store, 1, &mut *json, &Stop::new()).unwrap();
                drop(json);
                String::from_utf8(listing).unwrap()
            }
            _ => report::folders::folders(store, &Likeness::default()).unwrap().json().to_string(),
        };
        let open = || Store::open(&bench.database()).unwrap();
        let writer = Arc::new(Mutex::new(Connection::open(bench.database()).unwrap()));
        let set = |name: &str| {
            let sql = format!("UPDATE folders SET name = CAST('{name}' AS BLOB) WHERE name = x'6f6e65' OR name = x'78';
                UPDATE files SET size = {}", name.len());
            writer.lock().unwrap().execute_batch(&sql).unwrap();
        };
        let (before, steps) = {
            set("one");
            let mut store = open();
            let steps = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&steps);
            let count = move || {
                counted.fetch_add(1, Relaxed);
                false
            };
            store.connection_mut().progress_handler(1, Some(count)).unwrap();
            (told(&store), steps.load(Relaxed))
        };
        set("x");
        let after = told(&open());
        assert_ne!(before, after);
        let mut seen = [0, 0];
        for at in (0..steps).step_by(7) {
            set("one");
            let mut store = open();
            let (step, other) = (AtomicU64::new(0), Arc::clone(&writer));
            let change = move || {
                if step.fetch_add(1, Relaxed) == at {
                    let sql = "UPDATE folders SET name = x'78' WHERE name = x'6f6e65';
                        UPDATE files SET size = 1";
                    other.lock().unwrap().execute_batch(sql).unwrap();
                }
                false
            };
            store.connection_mut().progress_handler(1, Some(change)).unwrap();
            let told = told(&store);
            assert!(told == before || told == after, "{what}, changed at step {at}: {told}");
            seen[usize::from(told == after)] += 1;
        }
        assert!(seen[0] > 0, "{what}: it was never changed in the middle");
    }
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
    let wrong = bench.dupes(&["purge", "--before", "-5d"]);
    assert!(stderr(&wrong).contains("expected a day as"), "{wrong:?}");
    let asked = bench.dupes(&["purge"]);
    assert!(stderr(&asked).contains("of 1 file and 1 folder that are gone?"), "{asked:?}");
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    assert!(stderr(&asked).contains("--yes"), "{asked:?}");
    let long_ago = bench.dupes(&["purge", "--yes", "--before", "1d"]);
    assert!(stderr(&long_ago).contains("0 files, 0 folders"), "{long_ago:?}");
    let all = bench.dupes(&["purge", "--yes"]);
    assert!(stderr(&all).contains("1 file, 1 folder\n"), "{all:?}");
    assert_eq!(bench.dump().gone, Vec::<Vec<u8>>::new());
    let none = bench.dupes(&["purge"]);
    assert_eq!(none.status.code(), Some(0), "there is nothing to ask for: {none:?}");
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

#[test]
fn one_of_a_thing_is_told_as_one() {
    let bench = Bench::new();
    bench.write("a/x", "same");
    bench.write("b/x", "same");
    let tree = bench.tree();
    let path = tree.to_str().unwrap();
    let mut told = String::new();
    let mut tell = |output: std::process::Output| {
        told += &format!("{}\n{}\n", String::from_utf8_lossy(&output.stdout), stderr(&output));
    };
    tell(bench.dupes(&["scan", path]));
    fs::remove_dir_all(bench.path("b")).unwrap();
    bench.write("c/x", "same");
    tell(bench.dupes(&["scan", path]));
    let journal = bench.dir.path().join("journal");
    let words = [&["status"][..], &["roots", "list"], &["report", "files"], &["report", "folders"]];
    words.into_iter().for_each(|words| tell(bench.dupes(words)));
    tell(bench.dupes(&["apply", "remove", "--report", "--journal", journal.to_str().unwrap()]));
    tell(bench.dupes(&["purge", "--yes"]));
    told += &dupes::report::of_unread_offline(1).unwrap();
    for part in
        ["1 root, ", "1 file gone", "1 set of equal", "remove 1 name;", "1 file, 1 folder\n"]
    {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    let words: Vec<&str> = told.split_whitespace().collect();
    let is_plural = |word: &str| word.ends_with('s') && !["as", "s"].contains(&word);
    let is_wrong =
        |pair: &&[&str]| pair[0] == "1" && is_plural(pair[1].trim_end_matches([',', ';', '.']));
    let wrong: Vec<&[&str]> = words.windows(2).filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}: {told}");
}

#[test]
fn folders_on_a_disk_in_a_drawer_are_marked_and_never_counted_on() {
    let (here, away) = (Bench::new(), Bench::new());
    for n in 0..4 {
        for folder in ["equal", "alike", "held"] {
            here.write(&format!("{folder}/{n}"), format!("{folder} {n} {:9000}", 1));
        }
        away.write(&format!("equal/{n}"), format!("equal {n} {:9000}", 1));
        away.write(&format!("alike/{n}"), format!("alike {} {:9000}", n % 3, 1));
        away.write(&format!("holds/in/{n}-1"), format!("held {n} {:9000}", 1));
        away.write(&format!("holds/{n}"), format!("only there {n}"));
    }
    here.scan(&[]);
    let tree = away.tree();
    let scanned = here.dupes(&["scan", "--progress", "never", tree.to_str().unwrap()]);
    assert_eq!(scanned.status.code(), Some(0), "{scanned:?}");
    // Small files of one size in two roots are read by the next scan of the first.
    here.scan(&["--restart"]);
    let told =
        || -> Vec<(String, u64, usize)> {
            let found = folders(&here, &[]);
            let claims = ["exact", "partial", "contained"].into_iter();
            let claims = claims.flat_map(|kind| {
                found[kind]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(move |claim| (kind.to_owned(), claim.clone()))
            });
            claims
                .map(|(kind, claim)| {
                    let offline = claim["offline"].as_array().unwrap();
                    assert!(offline.iter().all(|path| {
                        path.as_str().unwrap().starts_with(tree.to_str().unwrap())
                    }));
                    (kind, number(&claim, "reclaimable"), offline.len())
                })
                .collect()
        };
    let kinds = ["exact", "partial", "contained"];
    let online = told();
    assert_eq!(online.iter().map(|(kind, ..)| &kind[..]).collect::<Vec<_>>(), kinds, "{online:?}");
    assert!(online.iter().all(|(_, won, offline)| *won >= 3 * 8192 && *offline == 0), "{online:?}");
    drop(away);
    let expected = kinds.map(|kind| (kind.to_owned(), 0, 1));
    assert_eq!(told(), expected);
    let text = here.dupes(&["report", "folders"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for folder in ["equal", "alike", "holds/in"] {
        assert!(text.contains(&format!("\n  O {}/{folder}\n", tree.display())), "{text}");
    }
    assert!(text.contains("\nO offline: "), "{text}");
    // Two that are here: one of them may go.
    here.write("equal-too/0", format!("equal 0 {:9000}", 1));
    for n in 1..4 {
        here.write(&format!("equal-too/{n}"), format!("equal {n} {:9000}", 1));
    }
    here.scan(&[]);
    let told = told();
    assert!(told[0].1 >= 4 * 8192 && told[0].2 == 1, "{told:?}");
}

#[test]
fn what_was_not_read_is_not_said_to_differ() {
    let bench = Bench::new();
    for folder in ["one", "two"] {
        for (name, text) in [("a", "first"), ("b", "second"), ("c", "which?")] {
            bench.write(&format!("{folder}/{name}"), text);
        }
    }
    bench.write("one/d", "as long as");
    bench.write("two/d", "longer than that");
    bench.scan(&[]);
    let unread = "UPDATE files SET hash = NULL, error = 5
        WHERE name = x'63' AND folder = (SELECT min(id) FROM folders WHERE name = x'6f6e65')";
    Connection::open(bench.database()).unwrap().execute_batch(unread).unwrap();
    let pair = &folders(&bench, &["--partial", "30"])["partial"][0];
    assert_eq!(
        (&pair["shared"], &pair["other_content"]["names"]),
        (&2.into(), &serde_json::json!(["d"]))
    );
    let c = serde_json::json!({ "count": 1, "names": ["c"] });
    assert_eq!(pair["not_compared"], serde_json::json!([c, c]), "{pair}");
    assert_eq!([&pair["only_in"][0]["count"], &pair["only_in"][1]["count"]], [1, 1], "d: {pair}");
    let text = bench.dupes(&["report", "folders", "--partial", "30"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(!text.contains("only here") && text.contains("other content: 1 (d)"), "{text}");
    assert!(
        text.contains("not compared: 1 (c)") && text.contains("other content: 1 (d)"),
        "{text}"
    );
    assert!(text.contains("33 % alike: 2 of 6 files"), "{text}");
}

#[test]
fn a_file_with_two_names_is_equal_to_itself_and_wins_nothing() {
    let bench = Bench::new();
    bench.write("one/a", "nothing else is as long as this");
    bench.write("one/in/b", "but for this, which is longer");
    fs::create_dir_all(bench.path("two/in")).unwrap();
    for name in ["a", "in/b"] {
        fs::hard_link(bench.path("one").join(name), bench.path("two").join(name)).unwrap();
    }
    let scanned = bench.scan(&[]);
    assert_eq!(number(&scanned, "reads"), 0);
    let found = folders(&bench, &[]);
    assert_eq!(found["exact"][0]["folders"].as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(found["exact"][0]["reclaimable"], 0);
}

#[test]
fn names_that_differ_only_in_time_are_told() {
    let bench = Bench::new();
    for folder in ["one", "two"] {
        for name in ["a", "b", "c"] {
            bench.write(&format!("{folder}/{name}"), name);
            let file = fs::File::options().write(true).open(bench.path(folder).join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    }
    bench.write("one/new", "only here, and nowhere else");
    let late = fs::File::options().write(true).open(bench.path("two/b")).unwrap();
    late.set_modified(std::time::SystemTime::now()).unwrap();
    bench.scan(&[]);
    let pair = &folders(&bench, &[])["partial"][0];
    assert_eq!(pair["other_time"], serde_json::json!({ "count": 1, "names": ["b"] }), "{pair}");
    assert_eq!(
        (&pair["shared"], &pair["other_content"]["count"]),
        (&3.into(), &0.into()),
        "{pair}"
    );
    let text = bench.dupes(&["report", "folders"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("other time: 1 (b)") && !text.contains("other content"), "{text}");
}

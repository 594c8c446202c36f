//! Roots that are registered: named, with their filters, apart from each other, and not given up unasked.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::collections::BTreeMap;
use std::fs;

use scans::{Bench, Dump, groups};
use support::stderr;

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
fn a_root_that_is_added_is_scanned_with_its_filters() {
    let bench = Bench::new();
    bench.write("in/a.txt", "the same");
    bench.write("in/b.txt", "the same");
    bench.write("in/c.jpg", "the same");
    bench.write("other/d", "x");
    let [inside, other] = ["in", "other"].map(|name| bench.path(name));
    let [inside, other] = [&inside, &other].map(|path| path.to_str().unwrap());
    let added = bench.dupes(&["roots", "add", "--exclude", "*.jpg", inside]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    assert!(stderr(&added).contains(&format!("dupes: registered: {inside}")), "{added:?}");
    assert_eq!(bench.dupes(&["roots", "add", other]).status.code(), Some(0));
    let listed = || -> serde_json::Value {
        serde_json::from_slice(&bench.dupes(&["roots", "list", "--json"]).stdout).unwrap()
    };
    let roots = listed();
    assert_eq!(roots["roots"].as_array().map(Vec::len), Some(2), "{roots}");
    assert_eq!(
        (&roots["roots"][0]["path"], &roots["roots"][0]["files"]),
        (&inside.into(), &0.into())
    );
    assert_eq!(roots["roots"][0]["filters"], serde_json::json!(["--exclude=*.jpg"]));
    // Nothing was read yet, and so nothing is known, which a refresh does not change.
    for verb in [&["refresh"][..], &["scan", "files"]] {
        let output = bench.dupes(verb);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(&format!("{inside}: never scanned")), "{output:?}");
    }
    // Nor do they register what was not.
    let unknown = bench.dir.path().to_str().unwrap();
    for verb in [&["refresh", unknown][..], &["scan", "files", unknown]] {
        let output = bench.dupes(verb);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("is not registered"), "{output:?}");
    }
    assert_eq!(listed(), roots);
    let status = bench.dupes(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("never scanned"), "{status:?}");
    assert!(groups(&bench).is_empty());
    // Once more it is the same, unless other filters are said.
    let again = bench.dupes(&["roots", "add", inside]);
    assert_eq!(again.status.code(), Some(0));
    assert!(stderr(&again).contains("already registered"), "{again:?}");
    let changed = bench.dupes(&["roots", "add", "--exclude", "*.txt", inside]);
    assert_eq!(changed.status.code(), Some(2), "{changed:?}");
    for (path, why) in [
        (format!("{inside}/a.txt"), "a root must be a folder"),
        (format!("{inside}/none"), "can't look there"),
        (bench.tree().to_str().unwrap().to_owned(), "lies below"),
    ] {
        let refused = bench.dupes(&["roots", "add", &path]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(why), "{refused:?}");
    }
    assert_eq!(listed(), roots, "nothing was changed by that");
    assert_eq!(bench.dupes(&["scan", "--progress", "never"]).status.code(), Some(0));
    assert_eq!(bench.dump().files.len(), 3, "all roots, each by its filters");
    assert_eq!(groups(&bench)[0]["paths"].as_array().map(Vec::len), Some(2));
}

/// Whatever was done with its path since.
#[test]
fn a_root_is_named_by_its_path_also_when_that_has_become_a_link() {
    let bench = Bench::new();
    bench.write("data/a", "the same");
    bench.write("data/b", "the same");
    let (data, big) = (bench.path("data"), bench.path("big"));
    let (name, target) = (data.to_str().unwrap(), big.join("data"));
    assert_eq!(bench.dupes(&["scan", name]).status.code(), Some(0));
    fs::create_dir(&big).unwrap();
    fs::rename(&data, &target).unwrap();
    std::os::unix::fs::symlink(&target, &data).unwrap();
    for verb in [&["scan", name][..], &["refresh", name]] {
        let output = bench.dupes(verb);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    assert_eq!(groups(&bench).len(), 1);
    let removed = bench.dupes(&["roots", "remove", "--yes", name]);
    assert_eq!(removed.status.code(), Some(0), "{removed:?}");
    assert_eq!(bench.dupes(&["scan", target.to_str().unwrap()]).status.code(), Some(0));
}

/// Its protection is taken away only by who says so.
#[test]
fn a_root_that_is_away_is_not_given_up_by_adding_it_again() {
    let bench = Bench::new();
    bench.write("usb/a", "the same");
    bench.write("usb/b", "the same");
    let (usb, drawer) = (bench.path("usb"), bench.path("drawer"));
    let name = usb.to_str().unwrap();
    assert_eq!(bench.dupes(&["scan", name]).status.code(), Some(0));
    fs::rename(&usb, &drawer).unwrap();
    let added = bench.dupes(&["roots", "add", name]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    assert!(stderr(&added).contains("which is offline"), "{added:?}");
    fs::create_dir(&usb).unwrap();
    let asked = bench.dupes(&["roots", "add", name]);
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    assert!(stderr(&asked).contains("nothing was changed"), "{asked:?}");
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(2), "it is offline");
    let files = |what: &str| {
        let listed = support::json(&bench.dupes(&["roots", "list", "--json"]));
        listed["roots"][0][what].as_u64().unwrap()
    };
    assert_eq!((files("files"), files("removed")), (2, 0));
    let given = bench.dupes(&["roots", "add", "--yes", name]);
    assert_eq!(given.status.code(), Some(0), "{given:?}");
    assert!(stderr(&given).contains("taken as it is"), "{given:?}");
    assert_eq!(bench.dupes(&["scan"]).status.code(), Some(0));
    assert_eq!((files("files"), files("removed")), (0, 2));
}

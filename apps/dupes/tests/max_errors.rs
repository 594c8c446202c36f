//! `--max-errors N`: a scan that meets more problems is given up, with what it has found, in all of its walks
//! together. As somebody whom permissions bind; said to be skipped elsewhere.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use scans::{Bench, assert_as_good_as_fresh, dump};
use support::{in_time, is_root, json, stderr};

const NOBODY: u32 = 65_534;

fn scan(bench: &Bench, words: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.args([env!("CARGO_BIN_EXE_dupes"), "scan", "--json", "--progress", "never"]);
    command.args(words).args(["--no-config", "--database"]).arg(bench.database());
    command.stdin(Stdio::null());
    in_time(&format!("{words:?}"), move || command.output().unwrap())
}

/// So many folders that nobody may look into, in each of these, and as many that anybody may.
fn shut(bench: &Bench, roots: &[&str], count: usize) {
    for root in roots {
        for n in 0..count {
            bench.write(&format!("{root}/open-{n}/file"), format!("{root} {n:100}"));
            bench.write(&format!("{root}/shut-{n}/file"), "the same");
        }
    }
    fs::create_dir(bench.dir.path().join("data")).unwrap();
    let mut all = vec![bench.dir.path().to_owned()];
    while let Some(path) = all.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() {
            all.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    may(bench, roots, count, 0o000);
}

fn may(bench: &Bench, roots: &[&str], count: usize, mode: u32) {
    for (root, n) in roots.iter().flat_map(|root| (0..count).map(move |n| (root, n))) {
        let path = bench.path(&format!("{root}/shut-{n}"));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn skipped_without_root() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root, to become somebody else");
    }
    !is_root()
}

#[test]
fn a_scan_with_more_problems_is_given_up_in_the_middle_and_gone_on_with() {
    if skipped_without_root() {
        return;
    }
    let bench = Bench::new();
    shut(&bench, &["in"], 40);
    let tree = bench.tree();
    let tree = tree.to_str().unwrap();
    let given_up = scan(&bench, &["--max-errors", "7", tree]);
    assert_eq!(given_up.status.code(), Some(2), "{given_up:?}");
    assert!(stderr(&given_up).contains("more problems than --max-errors allows"), "{given_up:?}");
    assert_eq!(json(&given_up)["state"], "failed");
    let unread = json(&given_up)["unread"].as_u64().unwrap();
    assert!((8..40).contains(&unread), "soon after the first that is too many: {unread}");
    let known = bench.dump();
    assert!(known.gone.is_empty(), "{known:?}");
    // As many as are allowed are no reason to give up.
    let all = scan(&bench, &["--max-errors", "40"]);
    assert_eq!(all.status.code(), Some(3), "{all:?}");
    may(&bench, &["in"], 40, 0o700);
    let whole = scan(&bench, &["--max-errors", "0"]);
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    let fresh = bench.dir.path().join("fresh.db");
    bench.scan_into(&fresh, &[], Duration::from_secs(10));
    assert_as_good_as_fresh(&bench.dump(), &dump(&fresh));
}

/// Roots with other filters are walked by themselves.
#[test]
fn problems_of_all_roots_count_together() {
    if skipped_without_root() {
        return;
    }
    let bench = Bench::new();
    shut(&bench, &["one", "two", "three"], 2);
    for (root, filters) in
        [("one", &[][..]), ("two", &["--exclude", "*.txt"]), ("three", &["--no-hidden"])]
    {
        let path = bench.path(root);
        let output = scan(&bench, &[filters, &[path.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    for (most, code) in [("1", 2), ("2", 2), ("4", 2), ("5", 2), ("6", 3)] {
        let output = scan(&bench, &["--max-errors", most]);
        assert_eq!(output.status.code(), Some(code), "{most}: {output:?}");
        let is_said = stderr(&output).contains("more problems than --max-errors allows");
        assert_eq!(is_said, code == 2, "{most}: {output:?}");
        let told = json(&output);
        let states = ["one", "three", "two"].map(|name| {
            let path = bench.path(name).to_str().unwrap().to_owned();
            let mut roots = told["roots"].as_array().unwrap().iter();
            roots.find(|root| root["path"] == path).unwrap()["state"].as_str().unwrap().to_owned()
        });
        assert_eq!(told["state"], if code == 2 { "failed" } else { "unread" }, "{told}");
        assert_eq!(states.contains(&"not begun".to_owned()), matches!(most, "1" | "2"), "{told}");
    }
}

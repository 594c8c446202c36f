//! Roots that are more than one thing at a time: given twice, by several ways, to be compared with only;
//! and what that says of the files in them.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use support::{is_root, json, stderr, write};

#[test]
fn a_name_below_a_reference_protects_the_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "new/c", "thrice");
    write(&dir, "new/c2", "thrice");
    write(&dir, "old/d", "thrice");
    fs::hard_link(dir.path().join("new/c"), dir.path().join("old/c")).unwrap();
    let find = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(["find", "--reference", "new", "old"]).args(more).current_dir(dir.path());
        command.output().unwrap()
    };
    let listing: serde_json::Value = json(&find(&["--format", "json"]));
    assert_eq!(
        listing["groups"][0]["reference"],
        serde_json::json!(["new/c", "new/c2"]),
        "{listing}"
    );
    assert_eq!(listing["totals"]["redundant_files"], 1, "{listing}");
    // Who keeps the first and removes the rest removes nothing below the reference.
    let fdupes = find(&["--format", "fdupes"]);
    assert_eq!(String::from_utf8_lossy(&fdupes.stdout), "new/c\nold/d\n\n");
    // And nothing that it holds is unique.
    let unique = find(&["--unique", "--format", "fdupes"]);
    assert_eq!(String::from_utf8_lossy(&unique.stdout), "");
}

#[test]
fn a_reference_that_is_given_by_another_way_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "in/a", "same");
    write(&dir, "in/b", "same");
    let find = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(["find", "--format", "json"]).args(args).current_dir(dir.path().join("in"));
        command.output().unwrap()
    };
    let output = find(&["--reference", "../in", "."]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("given with --reference, too"), "{output:?}");
    assert_eq!(json(&output)["groups"], serde_json::json!([]));
    let output = find(&["--reference", "./a", "."]);
    assert_eq!(json(&output)["groups"][0]["reference"].as_array().unwrap().len(), 1, "{output:?}");
    assert_eq!(json(&output)["totals"]["redundant_files"], 1);
}

#[test]
fn a_folder_that_is_given_twice_goes_by_the_first_way() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "same");
    write(&dir, "b", "same");
    for _ in 0..50 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        let output = command.args(["find", "--format", "fdupes"]).arg(dir.path()).arg(".");
        let output = output.current_dir(dir.path()).output().unwrap();
        assert!(output.stdout.starts_with(dir.path().as_os_str().as_bytes()), "{output:?}");
    }
}

#[test]
fn one_file_that_two_isolated_roots_have_is_in_neither_alone() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "old/a", "same");
    write(&dir, "new/b", "alone");
    fs::hard_link(dir.path().join("old/a"), dir.path().join("new/a")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--isolate", "--unique", "--format", "fdupes", "old", "new"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "new/b\n\n");
}

#[test]
fn nothing_is_called_unique_while_one_of_its_size_is_unread() {
    if !is_root() {
        eprintln!("skipped: needs root, to become somebody whom permissions bind");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("x", "111"), ("y", "222"), ("z", "4444")] {
        write(&dir, name, text);
    }
    for path in ["", "x", "z"] {
        let mode = if path.is_empty() { 0o755 } else { 0o644 };
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(dir.path().join("y"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_dupes"));
    let output =
        command.args(["find", "--unique", "--format", "json"]).arg(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(json(&output)["groups"].as_array().unwrap().len(), 1, "{output:?}");
    assert_eq!(json(&output)["groups"][0]["size"], 4);
    assert_eq!(json(&output)["totals"]["bytes_read"], 3, "only what was read counts");
}

#[test]
fn one_name_that_is_given_in_two_spellings_is_one_file_in_all_sums() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "in/x", "same");
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--rf-over", "0", "--format", "json", "in/x", "./in/x", "."]);
    let output = json(&command.current_dir(dir.path()).output().unwrap());
    assert_eq!((&output["totals"]["files"], &output["totals"]["bytes"]), (&1.into(), &4.into()));
    assert_eq!(output["groups"][0]["paths"].as_array().unwrap().len(), 1, "{output}");
    assert_eq!(output["groups"][0]["links"], serde_json::json!([]), "{output}");
}

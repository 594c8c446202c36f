//! What only a mount can show. As root, in a mount namespace of its own; said to be skipped elsewhere.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::in_time;
use tempfile::TempDir;

/// Runs a script of the shell in which `$DIR` is a folder and `$DUPES` the program; None if the
/// machine does not allow what `needs` tries.
fn in_namespace(dir: &Path, needs: &str, script: &str) -> Option<Output> {
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
        command.env("DIR", dir).env("DUPES", env!("CARGO_BIN_EXE_dupes")).stdin(Stdio::null());
        in_time("a script with mounts", move || command.output())
    };
    let tried = shell(needs);
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why =
            tried.map_or_else(|e| e.to_string(), |t| String::from_utf8_lossy(&t.stderr).into());
        eprintln!("skipped: {}", why.trim_end());
        return None;
    }
    Some(shell(script).unwrap())
}

fn groups(output: &Output) -> Vec<Vec<String>> {
    let said = String::from_utf8_lossy(&output.stderr);
    let listing: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let names = |group: &serde_json::Value| {
        let name = |path: &serde_json::Value| {
            path.as_str().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        group["paths"].as_array().unwrap().iter().map(name).collect()
    };
    listing["groups"].as_array().unwrap().iter().map(names).collect()
}

fn reclaimable(output: &Output) -> u64 {
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    listing["totals"]["reclaimable_bytes"].as_u64().unwrap()
}

fn folder(files: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![7; 100_000]).unwrap();
    }
    dir
}

const BIND: &str = r#"mkdir -p "$DIR/mounted"; mount --bind "$DIR" "$DIR/mounted""#;

#[test]
fn a_bind_mount_shows_the_same_files() {
    let dir = folder(&["one/a"]);
    let script = r#"mkdir "$DIR/two"; mount --bind "$DIR/one" "$DIR/two"
        exec "$DUPES" find --format json "$DIR""#;
    let Some(output) = in_namespace(dir.path(), BIND, script) else { return };
    assert_eq!(groups(&output), [[""; 0]; 0], "one file has no duplicate");
    assert_eq!(output.status.code(), Some(0));
    // A single file on top of another one.
    let script = r#"touch "$DIR/b"; mount --bind "$DIR/one/a" "$DIR/b"
        exec "$DUPES" find --format json "$DIR""#;
    let output = in_namespace(dir.path(), BIND, script).unwrap();
    assert_eq!(groups(&output), [[""; 0]; 0], "one file has no duplicate");
}

const TMPFS: &str = r#"mkdir -p "$DIR/mounted"; mount -t tmpfs none "$DIR/mounted""#;

#[test]
fn another_file_system_is_walked_unless_told_otherwise() {
    let dir = folder(&["a"]);
    let mount = format!("{TMPFS}; cp \"$DIR/a\" \"$DIR/mounted/b\"");
    let find = |more: &str| {
        let script = format!("{mount}; exec \"$DUPES\" find --format json {more} \"$DIR\"");
        in_namespace(dir.path(), TMPFS, &script)
    };
    let Some(output) = find("") else { return };
    assert_eq!(groups(&output), [["a", "b"]]);
    assert_eq!(groups(&find("--one-file-system").unwrap()), [[""; 0]; 0]);
    // Each device has readers of its own.
    let output = find("--progress json").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(r#""random""#) && said.contains(r#""random-2""#), "{said}");
}

#[test]
fn a_listing_that_does_not_fit_on_its_disk_is_said_to_be_cut_off() {
    let dir = folder(&["a", "b"]);
    let script = format!(
        "{TMPFS}; mount -o remount,size=4k \"$DIR/mounted\"; \
         head -c 4096 /dev/zero > \"$DIR/mounted/full\" || true; \
         exec \"$DUPES\" find --format json --exclude mounted \"$DIR\" > \"$DIR/mounted/listing\""
    );
    let Some(output) = in_namespace(dir.path(), TMPFS, &script) else { return };
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("could not be written: No space left"), "{said}");
}

/// A file system of this type in a file, on `$DIR/mounted`.
fn loop_mount(make: &str) -> String {
    format!(
        r#"mkdir -p "$DIR/mounted"; truncate -s 400M "$DIR/image"; {make} "$DIR/image" >/dev/null
        mount -o loop "$DIR/image" "$DIR/mounted""#
    )
}

#[test]
fn what_files_share_on_disk_is_not_reclaimable() {
    for make in ["mkfs.xfs -q -f -m reflink=1", "mkfs.btrfs -q -f"] {
        let dir = tempfile::tempdir().unwrap();
        let mount = loop_mount(make);
        let find = |copy: &str| {
            let script = format!(
                r#"{mount}; cd "$DIR/mounted"; head -c 1000000 /dev/urandom > a; {copy}; sync
                exec "$DUPES" find --format json "$DIR/mounted""#
            );
            in_namespace(dir.path(), &mount, &script)
        };
        let Some(output) = find("cp --reflink=never a b") else { continue };
        assert_eq!(groups(&output), [["a", "b"]], "{make}");
        assert!(reclaimable(&output) >= 1_000_000, "{make}: b has blocks of its own");
        let output = find("cp --reflink=always a b").unwrap();
        assert_eq!(
            (groups(&output), reclaimable(&output)),
            (vec![vec!["a".into(), "b".into()]], 0),
            "{make}"
        );
        // Half of it is its own since then.
        let change = "cp --reflink=always a b; cp --reflink=always a c; \
                      for file in b c; do head -c 500000 a | dd of=$file conv=notrunc status=none; done";
        let output = find(change).unwrap();
        let freed = reclaimable(&output);
        assert!((900_000..=1_200_000).contains(&freed), "{make}: half of b and c, not {freed}");
    }
}

/// Where the kernel has such file systems; one that is made up is in `tests/odd_files.rs`.
#[test]
fn where_case_does_not_count_two_spellings_are_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let mount = format!(
        r#"{}; cd "$DIR/mounted"; mkdir in; chattr +F in; head -c 5000 /dev/zero > in/Photo; cp in/Photo in/Other
        head -c 5000 in/pHOTO >/dev/null"#,
        loop_mount("mkfs.ext4 -q -F -O casefold")
    );
    let find = |roots: &str| {
        let script = format!("{mount}; exec \"$DUPES\" find --format json {roots}");
        in_namespace(dir.path(), &mount, &script)
    };
    let Some(output) = find("in/Photo in/photo in IN") else { return };
    assert_eq!(groups(&output), [["Other", "Photo"]], "{output:?}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

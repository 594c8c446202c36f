//! What only a mount can show. As root, in a mount namespace of its own; said to be skipped elsewhere.

mod support;

#[path = "support/mounted.rs"]
mod mounted;

use std::process::Output;

use mounted::{BIND, TMPFS, folder, in_namespace, loop_mount};

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

/// A root that is here, with a mount below it that is not.
#[test]
fn what_was_mounted_below_a_root_is_no_copy_to_rely_on() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"export XDG_DATA_HOME="$DIR/data"; cd "$DIR"; mkdir -p root/stick root/here; mount -t tmpfs none root/stick
        for n in 1 2 3; do head -c $((9000 + n)) /dev/zero > root/here/$n; done; cp -r root/here root/stick/there
        scan() { "$DUPES" scan --no-config --progress never "$@" >/dev/null 2>&1 || true; }
        report() { "$DUPES" report "$@" --no-config --json; }
        scan root; report files; report folders
        umount root/stick; scan; report files; report folders; "$DUPES" report files --no-config"#;
    let Some(output) = in_namespace(dir.path(), TMPFS, script) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all = serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>();
    let mut next = || all.next().unwrap().unwrap_or_else(|error| panic!("{error}: {said}"));
    for is_away in [false, true] {
        let (files, folders) = (next(), next());
        let totals = &files["totals"];
        assert_eq!(totals["sets"], 3, "{files}");
        assert_eq!(totals["redundant_files"], if is_away { 0 } else { 3 }, "{files}");
        assert_eq!(totals["reclaimable_bytes"] == 0, is_away, "{files}");
        let (set, group) = (&folders["exact"][0], &files["groups"][0]);
        assert_eq!(set["folders"].as_array().map(Vec::len), Some(2), "{folders}");
        assert_eq!(set["reclaimable"] == 0, is_away, "{folders}");
        for offline in [&set["offline"], &group["offline"]] {
            let offline = offline.as_array().unwrap();
            assert_eq!(offline.len(), usize::from(is_away), "{files} {folders}");
            let is_there =
                |path: &serde_json::Value| path.as_str().unwrap().contains("/stick/there");
            assert!(offline.iter().all(is_there), "{files} {folders}");
        }
    }
    assert!(said.contains("\n  O ") && said.contains("/stick/there/3"), "{said}");
}

/// In scans of their own both roots have it.
#[test]
fn a_folder_that_two_roots_show_is_no_copy_of_itself() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"export XDG_DATA_HOME="$DIR/data"; mkdir -p "$DIR/a/in" "$DIR/b/in" "$DIR/b/copy"
        for n in 1 2 3; do head -c $((9000 + n)) /dev/zero > "$DIR/a/in/$n"; done
        mount --bind "$DIR/a/in" "$DIR/b/in"; cp "$DIR"/a/in/1 "$DIR/b/copy"
        "$DUPES" scan --no-config --progress never "$DIR/a" >/dev/null
        "$DUPES" scan --no-config --progress never "$DIR/b" >/dev/null
        "$DUPES" scan --no-config --progress never --restart "$DIR/a" >/dev/null
        exec "$DUPES" report folders --no-config --json"#;
    let Some(output) = in_namespace(dir.path(), BIND, script) else { return };
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!([&found["exact"], &found["partial"]], [&serde_json::json!([]); 2], "{found}");
    let held = found["contained"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{found}");
    assert!(held[0]["folder"].as_str().unwrap().ends_with("/b/copy"), "{found}");
    assert!(held[0]["within"].as_str().unwrap().ends_with("/a"), "{found}");
}

#[test]
fn two_roots_never_show_the_same_folders() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"export XDG_DATA_HOME="$DIR/data"; cd "$DIR"; mkdir -p a/in/deep b c d/in; echo same > a/in/x; cp a/in/x a/in/y; cp a/in/x d/in
        scan() { code=0; "$DUPES" scan --no-config --progress never "$@" 2>&1 || code=$?; echo "$1: exit $code"; }
        scan a; scan d
        mount --bind a b; scan b
        mount --bind a/in c; scan c
        mount --bind a d; scan
        "$DUPES" roots list --no-config
        umount d; "$DUPES" roots remove --no-config --yes a; scan c; scan b; scan"#;
    let Some(output) = in_namespace(dir.path(), BIND, script) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for root in ["a", "d"] {
        assert!(said.contains(&format!("\n{root}: exit 0\n")), "{said}");
    }
    for root in ["b", "c"] {
        let refused =
            format!("/{root} and the root {}/a show the same folders", dir.path().display());
        assert!(said.contains(&refused) && said.contains(&format!("{root}: exit 2\n")), "{said}");
    }
    // One that was a folder of its own when it was registered.
    let again = format!("/d: not scanned: it is the folder of the root {}/a", dir.path().display());
    assert!(said.contains(&again) && said.contains("\n: exit 3\n"), "{said}");
    assert!(!said.contains("/b: ") && !said.contains("/c: 1"), "neither is registered: {said}");
    // What shows a part of another one comes first now, and the other is refused.
    assert!(said.contains("\nc: exit 0\n"), "{said}");
    assert!(
        said.contains(&format!("/b and the root {}/c show the same", dir.path().display())),
        "{said}"
    );
    assert!(said.ends_with("\n: exit 0\n"), "{said}");
}

/// Two disks in one drive, one after the other: the second gets the number of the first, and so do files on it.
#[test]
fn a_disk_that_gets_the_number_of_another_is_not_that() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mkdir "$DIR/m1" "$DIR/m2"; export XDG_DATA_HOME="$DIR/data"
        fill() { mount -t tmpfs -o mode=700 none "$DIR/$1"; head -c 9000 /dev/zero > "$DIR/$1/$2"; cp "$DIR/$1/$2" "$DIR/$1/$2-2"; }
        scan() { "$DUPES" scan --no-config --progress never "$DIR/$1" >/dev/null; }
        fill m1 f; scan m1; stat -c '%d %i' "$DIR"/m1/f >&2; umount "$DIR/m1"
        fill m2 h; stat -c '%d %i' "$DIR"/m2/h >&2; scan m2
        exec "$DUPES" report files --no-config --json"#;
    let Some(output) = in_namespace(dir.path(), TMPFS, script) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let numbers: Vec<&str> = said.lines().take(2).collect();
    if numbers[0] != numbers[1] {
        eprintln!("here they get numbers of their own: {numbers:?}");
    }
    assert_eq!(groups(&output), [["f", "f-2", "h", "h-2"]], "{output:?}");
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listing["groups"][0]["links"], serde_json::json!([]), "{listing}");
}

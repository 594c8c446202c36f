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

/// What an action prints, with what the shell says of the tree after it.
fn acted(dir: &Path, needs: &str, script: &str) -> Option<String> {
    let script = format!(
        r#"export XDG_DATA_HOME="$DIR/data" HOME="$DIR"; dupes() {{ "$DUPES" "$@" --no-config 2>&1 || echo "exit $?"; }}
        {script}"#
    );
    let output = in_namespace(dir, needs, &script)?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// How many files are recorded as there, and as gone, in that line.
fn recorded(said: &str, at: &str) -> (u64, u64) {
    let line =
        said.lines().find(|line| line.starts_with(at)).unwrap_or_else(|| panic!("{at}: {said}"));
    let number = |what: &str| {
        let after = line.split_once(&format!("\"{what}\":")).unwrap().1;
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    (number("files"), number("removed"))
}

/// What is mounted on a folder of the tree can be put aside, and is back with all that is in it.
const DRAWER: &str = r#"mkdir -p "$DIR/tree/in/deep/mounted" "$DIR/drawer"; cd "$DIR/tree"; say() { echo "$1 $(dupes roots list --json)"; }
    mount -t tmpfs none in/deep/mounted; mount --move in/deep/mounted "$DIR/drawer"; mount --move "$DIR/drawer" in/deep/mounted"#;

#[test]
fn what_is_mounted_below_a_root_is_away_and_not_gone() {
    let dir = folder(&["tree/a"]);
    let script = format!(
        r#"{DRAWER}; mkdir in/deep/mounted/below; echo x > in/deep/mounted/b; echo x > in/deep/mounted/below/c
        touch -d 2001-01-01 in/deep/mounted/b in/deep/mounted/below/c
        dupes scan "$DIR/tree"; say scanned
        mount --move in/deep/mounted "$DIR/drawer"; touch in/deep/mounted/.keep
        dupes scan; say unmounted
        dupes scan; dupes purge --yes; say purged
        rm -r in; dupes scan; say vanished
        mkdir -p in/deep/mounted; mount --move "$DIR/drawer" in/deep/mounted; dupes scan; say back
        mount --move in/deep/mounted "$DIR/drawer"; dupes scan; dupes roots add --yes "$DIR/tree"; dupes scan; say given"#
    );
    let Some(said) = acted(dir.path(), DRAWER, &script) else { return };
    for at in ["scanned", "unmounted", "purged", "vanished", "back"] {
        assert_eq!(recorded(&said, at), (3, 0), "{at}: {said}");
    }
    assert_eq!(recorded(&said, "given"), (1, 2), "{said}");
    assert_eq!(said.matches("what was mounted there is not").count(), 4, "{said}");
    assert_eq!(said.matches("exit 3").count(), 4, "{said}");
}

#[test]
fn a_link_to_another_file_system_is_no_mount() {
    let dir = folder(&["tree/a"]);
    let script = format!(
        r#"{DRAWER}; mkdir in/deep/mounted/below; echo x > in/deep/mounted/below/b; cd "$DIR"
        mkdir linked; ln -s "$DIR/tree/in/deep/mounted/below" linked/link
        dupes scan --follow "$DIR/linked"; say scanned; rm linked/link; dupes scan "$DIR/linked"; say removed"#
    );
    let Some(said) = acted(dir.path(), DRAWER, &script) else { return };
    assert_eq!(recorded(&said, "scanned"), (1, 0), "{said}");
    assert_eq!(recorded(&said, "removed"), (0, 1), "{said}");
    assert!(!said.contains("exit"), "{said}");
}

#[test]
fn a_root_that_is_not_mounted_is_offline_whatever_lies_below_the_mount() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{DRAWER}; cd "$DIR"; root="$DIR/tree/in/deep/mounted"; echo x > "$root/a"; echo x > "$root/b"
        dupes scan "$root"; say scanned
        mount --move "$root" drawer; touch "$root/.keep" "$root/a"
        dupes scan; say unmounted
        dupes roots add "$root"; say refused; dupes roots add --yes "$root"; dupes scan; say given"#
    );
    let Some(said) = acted(dir.path(), DRAWER, &script) else { return };
    assert_eq!(recorded(&said, "scanned"), (2, 0), "{said}");
    assert_eq!(recorded(&said, "unmounted"), (2, 0), "{said}");
    assert!(
        said.contains("another folder, on another disk, is in its place")
            && said.contains("exit 2"),
        "{said}"
    );
    assert!(said.contains("dupes roots add"), "it is said what to do: {said}");
    assert!(said.contains("exit 1"), "it asks before what was there is given up: {said}");
    assert_eq!(recorded(&said, "refused"), (2, 0), "{said}");
    assert_eq!(recorded(&said, "given"), (2, 1), "{said}");
}

/// Two disks at one place, one after the other, with the same number of device, inode and names.
#[test]
fn another_disk_at_the_place_of_the_first_is_not_taken_for_it() {
    for make in ["mkfs.ext4 -q -F", "mkfs.xfs -q -f", "mkfs.btrfs -q -f"] {
        let disks = format!(
            r#"mkdir -p "$DIR/up/usb"; cd "$DIR"; echo x > up/b; say() {{ echo "$1 $(dupes roots list --json)"; }}
            for n in one two; do truncate -s 400M $n; {make} $n >/dev/null; done
            put() {{ umount up/usb; mount -o loop $1 up/usb; }}; mount -o loop two up/usb"#
        );
        for root in ["up/usb", "up"] {
            let dir = tempfile::tempdir().unwrap();
            let script = format!(
                r#"{disks}; mkdir up/usb/in; echo z > up/usb/in/z; put one; mkdir up/usb/in; echo x > up/usb/in/a
                dupes scan {root}; say scanned; put two; dupes scan; say swapped; dupes purge --yes
                put one; dupes scan; say back; put two; dupes scan; dupes roots add --yes {root}; dupes scan; say given"#
            );
            let Some(said) = acted(dir.path(), &disks, &script) else { continue };
            let (all, exit) = if root == "up" { (2, "exit 3") } else { (1, "exit 2") };
            for at in ["scanned", "swapped", "back"] {
                assert_eq!(recorded(&said, at), (all, 0), "{make} {root} {at}: {said}");
            }
            assert_eq!(recorded(&said, "given"), (all, 1), "{make} {root}: {said}");
            assert_eq!(
                (said.matches("exit").count(), said.matches(exit).count()),
                (2, 2),
                "{said}"
            );
        }
    }
}

/// Neither has a number, nor do their folders say when they were made.
#[test]
fn a_disk_of_which_nothing_is_known_but_its_names_is_not_taken_for_another_one() {
    let disks = r#"mkdir -p "$DIR/usb"; cd "$DIR"; say() { echo "$1 $(dupes roots list --json)"; }
        for n in one two; do truncate -s 9M $n; mkfs.ext4 -q -F -I 128 -U clear $n >/dev/null; done
        put() { umount usb; mount -o loop $1 usb; }; mount -o loop two usb"#;
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{disks}; echo y > usb/c; put one; echo x > usb/a; echo x > usb/b; dupes scan usb; say scanned
        put two; dupes scan; say swapped; put one; dupes scan; say back; rm usb/a; dupes scan; say changed"#
    );
    let Some(said) = acted(dir.path(), disks, &script) else { return };
    for at in ["scanned", "swapped", "back"] {
        assert_eq!(recorded(&said, at), (2, 0), "{at}: {said}");
    }
    assert_eq!(recorded(&said, "changed"), (1, 1), "{said}");
}

/// What was recorded of it by one way is not listed for ever when a scan sees it by the other one.
#[test]
fn a_folder_that_a_mount_shows_once_more_is_told_as_it_is() {
    let dir = folder(&["r/data/1", "r/aview/.keep", "r/zview/.keep"]);
    let script = r#"cd "$DIR"; echo x > r/data/1; echo x > r/one; dupes scan r
        mount --bind r/data r/aview; mount --bind r/data r/zview; dupes scan; echo yy > r/data/1; dupes scan
        echo "changed $(dupes report files --json)"; rm r/data/1; dupes scan; echo "gone $(dupes report files --json)"
        umount r/aview; umount r/zview; echo x > r/data/1; dupes scan; echo "back $(dupes report files --json)""#;
    let Some(said) = acted(dir.path(), BIND, script) else { return };
    let sets = |at: &str| {
        let after =
            said.split_once(&format!("{at} {{")).unwrap_or_else(|| panic!("{at}: {said}")).1;
        let (_, sets) = after.split_once("\"sets\":").unwrap();
        sets.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((sets("changed"), sets("gone"), sets("back")), (0, 0, 2), "{said}");
}

/// On one file system a folder is replaced by another one: by hand, or by a mount over it that is away.
#[test]
fn a_folder_with_nothing_of_the_root_is_only_its_place() {
    let dir = folder(&["real/a", "real/in/b", "place/.keep"]);
    let script = r#"cd "$DIR"; say() { echo "$1 $(dupes roots list --json)"; }
        mount --bind real place; dupes scan place; say scanned; umount place; dupes scan; say unmounted
        cp -a real other; rm other/a; rm -r place; mv other place; dupes scan; say replaced"#;
    let Some(said) = acted(dir.path(), BIND, script) else { return };
    assert_eq!(recorded(&said, "scanned"), (2, 0), "{said}");
    assert_eq!(recorded(&said, "unmounted"), (2, 0), "{said}");
    assert_eq!(said.matches("exit 2").count(), 1, "{said}");
    assert_eq!(recorded(&said, "replaced"), (1, 1), "{said}");
}

#[test]
fn a_root_whose_first_scan_was_stopped_is_known_when_it_is_not_mounted() {
    let dir = tempfile::tempdir().unwrap();
    let needs = format!("command -v strace; {DRAWER}");
    let script = format!(
        r#"{DRAWER}; cd "$DIR"; root="$DIR/tree/in/deep/mounted"; mkdir "$root/one" "$root/two"
        echo x > "$root/one/a"; echo x > "$root/two/b"
        env --default-signal=INT strace -f -qq -o /dev/null -P "$root/one" -P "$root/two" \
            -e trace=getdents64 -e inject=getdents64:signal=INT:when=3 \
            "$DUPES" scan --no-config --threads 1 "$root" || echo "stopped $?"; say scanned
        mount --move "$root" drawer; dupes scan; say unmounted"#
    );
    let Some(said) = acted(dir.path(), &needs, &script) else { return };
    assert!(said.contains("stopped 130"), "{said}");
    assert!(said.contains("exit 2") && said.contains("offline"), "{said}");
    let before = recorded(&said, "scanned");
    assert_eq!((recorded(&said, "unmounted"), before.1), (before, 0), "{said}");
}

const OVERLAY: &str = r#"mkdir -p "$DIR/layers" "$DIR/mounted"; mount -t tmpfs none "$DIR/layers"; cd "$DIR/layers"
    mkdir lower upper work; mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work "$DIR/mounted""#;

/// Where inodes say little all is read again by a scan that reads; what others find is not void by that.
#[test]
fn what_is_known_of_an_overlay_is_shown_until_it_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{OVERLAY}; for name in a b c; do head -c 100 /dev/zero > "$DIR/mounted/$name"; done
        touch -d 2001-01-01 "$DIR/mounted"/*; sleep 2.1
        dupes scan "$DIR/mounted"; dupes report files --format fdupes
        dupes refresh; dupes report files --format fdupes
        dupes scan folders; dupes report files --format fdupes
        dupes scan; dupes scan --trust-inodes"#
    );
    let Some(said) = acted(dir.path(), OVERLAY, &script) else { return };
    assert_eq!(said.matches("/mounted/c\n").count(), 3, "{said}");
    assert_eq!(said.matches("read: 3 times").count(), 2, "{said}");
    assert_eq!(said.matches("read: 0 times").count(), 3, "{said}");
}

/// The kernel compares and shares; nothing else changes.
#[test]
fn reflinks_share_blocks_where_the_file_system_can() {
    for make in ["mkfs.xfs -q -f -m reflink=1", "mkfs.btrfs -q -f"] {
        let dir = tempfile::tempdir().unwrap();
        let mount = loop_mount(make);
        let script = format!(
            r#"{mount}; cd "$DIR/mounted"
            head -c 1000000 /dev/urandom > a; cp --reflink=never a b; cp --reflink=never a c; chmod 600 b; touch -d 2001-01-01 b
            sync; stat -c '%n %a %Y %i' * > before; sha256sum a b c >> before; stat -c '%n %z %h' a > kept
            dupes apply reflink . --exclude before --exclude kept --execute
            sync; stat -c '%n %z %h' a | cmp - kept && rm kept && echo what stays is as it was
            sync; stat -c '%n %a %Y %i' a b c before | grep -v before > after; sha256sum a b c >> after
            grep -v '^before' before | cmp - after && echo the same
            dupes find --format json --exclude before --exclude after . | grep -o '"reclaimable_bytes":[0-9]*'
            dupes apply reflink . --exclude before --exclude after --execute
            dupes undo && cat a | cmp - b && echo equal
            mkdir tiny; for n in 1 2 3; do echo tiny > tiny/$n; done; sync
            dupes apply reflink tiny --execute > first; dupes apply reflink tiny --execute"#
        );
        let Some(said) = acted(dir.path(), &mount, &script) else { continue };
        assert!(said.contains("reflinked 2 names"), "{make}: {said}");
        let again = "reflinked 0 names, 2 are gone, linked or shared already; 0 bytes freed now";
        assert_eq!(said.matches(again).count(), 2, "{make}: {said}");
        assert!(said.contains("the same\n"), "{make}: {said}");
        assert!(said.contains("what stays is as it was\n"), "{make}: {said}");
        assert!(said.contains("\"reclaimable_bytes\":0"), "{make}: {said}");
        assert!(said.contains("nothing to give back") && said.contains("equal"), "{make}: {said}");
        assert!(!said.contains("exit"), "{make}: {said}");
    }
}

/// One file by two paths: no plan, and no action.
#[test]
fn a_bind_mount_is_never_acted_on_as_a_copy() {
    let dir = folder(&["one/a"]);
    let script = r#"mkdir "$DIR/two"; mount --bind "$DIR/one" "$DIR/two"
        dupes apply remove "$DIR/one" "$DIR/two" --execute --quarantine "$DIR"
        dupes plan "$DIR/one" "$DIR/two" -o "$DIR/plan"
        cat "$DIR/one/a"; grep -c keepers "$DIR/plan" || true"#;
    let Some(said) = acted(dir.path(), BIND, script) else { return };
    assert!(said.contains("removed 0 names"), "{said}");
    assert!(said.trim_end().ends_with('0'), "no set: {said}");
    assert!(dir.path().join("one/a").exists());
}

/// Two real files when the plan was made; by now a mount shows the one that stays in the place of the one that goes.
#[test]
fn a_bind_mount_that_was_made_after_the_plan_is_never_acted_on_as_a_copy() {
    for action in ["remove", "move --to \"$DIR/moved\"", "hardlink", "symlink"] {
        for (from, onto) in [("one", "two"), ("one/a", "two/a"), ("two", "one"), ("two/a", "one/a")]
        {
            let dir = folder(&["one/a", "two/a", "moved/x/b"]);
            let script = format!(
                r#"dupes plan "$DIR/one" "$DIR/two" -o "$DIR/plan"; cp "$DIR/one/a" "$DIR/whole"
                mount --bind "$DIR/{from}" "$DIR/{onto}"
                dupes apply {action} --plan "$DIR/plan" --execute
                umount "$DIR/{onto}"; cmp "$DIR/one/a" "$DIR/whole" && cmp "$DIR/two/a" "$DIR/whole" && echo both are whole
                stat -c '%F %h' "$DIR/one/a" "$DIR/two/a""#
            );
            let Some(said) = acted(dir.path(), BIND, &script) else { return };
            assert!(said.contains(" 0 names"), "{action}, {from} on {onto}: {said}");
            assert!(said.contains("both are whole"), "{action}, {from} on {onto}: {said}");
            assert!(
                said.ends_with("regular file 1\nregular file 1\n"),
                "{action}, {from} on {onto}: {said}"
            );
        }
    }
}

/// A plan by which what goes lies below a reference only where the mount comes from; and what is moved would come there.
#[test]
fn a_reference_is_one_by_whatever_mount() {
    let cases = [
        // A folder in it is shown elsewhere; all of it; and a folder with it in it goes as one.
        ("all/ref/in", "all/ref", ""),
        ("all/ref", "all/ref", ""),
        ("all", "all/sub/ref", "--folders"),
    ];
    for (from, reference, more) in cases {
        let dir = folder(&["all/ref/in/x", "all/sub/ref/x", "keep/sub/ref/x", "shown/none"]);
        let script = format!(
            r#"mount --bind "$DIR/{from}" "$DIR/shown"; dupes plan "$DIR/keep" "$DIR/shown" --keep first {more} -o "$DIR/plan" >/dev/null
            ref=$(stat -c '{{"path":"%n","device":%d,"inode":%i,"reference":true}}' "$DIR/{reference}")
            sed -i "s|\],\"dupes-plan\"|,$ref],\"dupes-plan\"|" "$DIR/plan"; grep -c '"reference":true' "$DIR/plan"
            dupes apply remove --plan "$DIR/plan"; dupes apply remove --plan "$DIR/plan" --execute
            dupes apply move "$DIR/keep" --to "$DIR/shown" --reference "$DIR/{reference}"
            find "$DIR/all" -type f | wc -l"#
        );
        let Some(said) = acted(dir.path(), BIND, &script) else { return };
        assert!(said.starts_with("1\n"), "{from}: {said}");
        let refused = "would touch what lies below a reference: nothing was done";
        assert_eq!(said.matches(refused).count(), 2, "{from}: {said}");
        let is_below = said.contains("shown lies below a reference");
        assert_eq!(is_below, from != "all", "{from}: {said}");
        assert!(said.ends_with("\n2\n"), "{from}: {said}");
    }
}

/// Nothing links one mount to another, also of one file system: the names of one file go together, or none does.
#[test]
fn a_file_with_a_name_on_another_mount_stays_with_all_names() {
    for (action, read_only) in
        [("hardlink", false), ("hardlink", true), ("symlink", true), ("remove", true)]
    {
        let dir = folder(&["a/1", "b/1"]);
        fs::create_dir(dir.path().join("c")).unwrap();
        fs::hard_link(dir.path().join("b/1"), dir.path().join("c/1")).unwrap();
        let remount = if read_only { r#"mount -o remount,ro,bind "$DIR/c""# } else { "" };
        let script = format!(
            r#"cd "$DIR"; touch -d 2020-01-01 a/1 b/1; mount --bind c c; {remount}
            dupes apply {action} a b c; dupes apply {action} a b c --execute; dupes undo
            stat -c '%h' b/1 c/1; test b/1 -ef c/1 && echo still one"#
        );
        let Some(said) = acted(dir.path(), BIND, &script) else { return };
        let nothing = " 0 names, 2 are left as they are; 0 bytes";
        assert_eq!(said.matches(nothing).count(), 2, "{action} {read_only}: {said}");
        assert_eq!(said.matches("exit 3").count(), 2, "{action} {read_only}: {said}");
        assert!(said.contains("nothing to undo"), "{action} {read_only}: {said}");
        assert!(said.ends_with("2\n2\nstill one\n"), "{action} {read_only}: {said}");
    }
}

#[test]
fn a_dry_run_knows_that_nothing_is_linked_to_another_mount() {
    let dir = folder(&["a/1", "c/1"]);
    let script = r#"cd "$DIR"; touch -d 2020-01-01 a/1 c/1; mount --bind c c
        dupes apply hardlink a c; dupes apply hardlink a c --execute"#;
    let Some(said) = acted(dir.path(), BIND, script) else { return };
    assert_eq!(said.matches("is on another file system, mount").count(), 2, "{said}");
    assert_eq!(said.matches(" 0 names, 1 is left as it is; 0 bytes").count(), 2, "{said}");
}

/// One is mounted elsewhere by now.
#[test]
fn names_that_nothing_can_link_any_more_are_files_of_their_own_after_an_undo() {
    for action in ["hardlink", "symlink"] {
        let dir = folder(&["a/1", "b/1", "b/2"]);
        fs::remove_file(dir.path().join("b/2")).unwrap();
        fs::create_dir(dir.path().join("c")).unwrap();
        for name in ["b/2", "c/1"] {
            fs::hard_link(dir.path().join("b/1"), dir.path().join(name)).unwrap();
        }
        let script = format!(
            r#"cd "$DIR"; touch -d 2020-01-01 a/1 b/1
            dupes apply {action} a b c --execute; mount --bind c c; dupes undo
            cmp a/1 b/1; cmp a/1 c/1; test b/1 -ef b/2 && echo these two are one; stat -c '%F %h' b/1 c/1"#
        );
        let Some(said) = acted(dir.path(), BIND, &script) else { return };
        assert!(said.contains("restored: 3") && !said.contains("exit "), "{action}: {said}");
        assert_eq!(said.matches("is a file of its own now").count(), 3, "{action}: {said}");
        let end = "these two are one\nregular file 2\nregular file 1\n";
        assert!(said.ends_with(end), "{action}: {said}");
    }
}

/// A file that goes is renamed within its mount, and has its quarantine there, at the top.
#[test]
fn each_mount_has_a_quarantine_of_its_own() {
    let dir = folder(&["a"]);
    let script = format!(
        r#"{TMPFS}; mkdir "$DIR/mounted/deep"; cp -p "$DIR/a" "$DIR/mounted/deep/b"; cp -p "$DIR/a" "$DIR/mounted/deep/c"
        dupes apply remove "$DIR/a" "$DIR/mounted" --keep first --execute
        ls -A "$DIR/mounted" "$DIR/mounted/deep"
        dupes undo; ls "$DIR/mounted/deep""#
    );
    let Some(said) = acted(dir.path(), TMPFS, &script) else { return };
    assert!(said.contains("removed 2 names"), "{said}");
    let us = rustix::process::geteuid().as_raw();
    assert!(said.contains(&format!(".dupes-quarantine-{us}\n")), "{said}");
    assert!(said.ends_with("restored: 2\nb\nc\n"), "{said}");
}

/// One mount, and two file systems in it that nothing is renamed between.
#[test]
fn each_subvolume_has_a_quarantine_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mount = format!(
        r#"{}; btrfs subvolume create "$DIR/mounted/sub" >/dev/null"#,
        loop_mount("mkfs.btrfs -q -f")
    );
    let script = format!(
        r#"{mount}; cd "$DIR/mounted"; mkdir to; echo same > a; for name in b sub/c sub/d; do cp -p a $name; done
        dupes apply move --to to . --keep name:a --execute; echo moved
        dupes apply remove . --keep name:a --execute
        ls -A sub; dupes undo; ls sub"#
    );
    let Some(said) = acted(dir.path(), &mount, &script) else { return };
    let (moved, removed) = said.split_once("\nmoved\n").unwrap();
    assert!(moved.contains("moved 1 name,"), "{said}");
    assert_eq!(moved.matches("another file system, mount or subvolume").count(), 2, "{said}");
    assert!(removed.contains("removed 3 names"), "{said}");
    let us = rustix::process::geteuid().as_raw();
    assert!(removed.contains(&format!("\n.dupes-quarantine-{us}\n")), "{said}");
    assert!(removed.ends_with("restored: 3\nc\nd\n"), "{said}");
}

/// Power is lost right after the program said that it was done.
#[test]
fn what_was_done_is_still_done_after_a_loss_of_power() {
    for make in ["mkfs.xfs -q -f", "mkfs.ext4 -q -F"] {
        let dir = tempfile::tempdir().unwrap();
        let (mount, needs) = (loop_mount(make), format!("command -v xfs_io; {}", loop_mount(make)));
        for action in ["remove", "hardlink"] {
            let script = format!(
                r#"{mount}; cd "$DIR/mounted"; mkdir t data; export XDG_DATA_HOME="$PWD/data"
                for n in 1 2 3 4 5 6 7 8; do echo "set $((n % 2))" > t/$n; touch -d 2001-01-01 t/$n; done; sync
                echo "set 0" > t/late; touch -d 2001-01-01 t/late # not on disk yet, when it is acted on
                dupes apply {action} t --execute --keep name:late
                xfs_io -x -c shutdown . ; cd /; umount "$DIR/mounted"; mount "$DIR/image" "$DIR/mounted"; cd "$DIR/mounted"
                cat t/late; cat t/1; ls t | wc -l; export XDG_DATA_HOME="$PWD/data"
                dupes log; dupes undo; cat t/* | sort | uniq -c"#
            );
            let Some(said) = acted(dir.path(), &needs, &script) else { continue };
            assert!(said.contains("set 0\nset 1\n"), "{make} {action}: {said}");
            assert!(said.contains("done 7"), "{make} {action}: {said}");
            assert!(said.contains("restored: 7"), "{make} {action}: {said}");
            assert!(
                said.contains("5 set 0") && said.contains("4 set 1"),
                "{make} {action}: {said}"
            );
        }
    }
}

/// As Docker lays out its images: below one root are an overlay and the folders that it shows.
const LAYERS: &str = r#"mkdir -p "$DIR/top"; mount -t tmpfs none "$DIR/top"; cd "$DIR/top"; mkdir -p o/1/merged o/1/diff o/1/work o/2/diff/sub
    show() { mount -t overlay overlay -o lowerdir=o/2/diff,upperdir=o/1/diff,workdir=o/1/work o/1/merged; }
    show"#;

/// It holds on to its lower files, wherever they are renamed to: what looks like a copy is the file that goes.
#[test]
fn a_file_and_an_overlay_that_shows_it_are_never_acted_on_as_copies() {
    for way in [
        "remove",
        "remove --no-undo --yes",
        "remove --folders",
        "remove --folders --no-undo --yes",
        "move --to moved",
        "move --to moved --folders",
        "symlink",
    ] {
        // The one that goes is the lower file, or the one on the overlay.
        for keep in ["path:**/1/**", "path:**/2/**"] {
            let dir = tempfile::tempdir().unwrap();
            let script = format!(
                r#"{LAYERS}; umount o/1/merged; echo only > o/2/diff/sub/f; mkdir moved; show
                dry=$(echo "{way}" | sed 's/--no-undo --yes//')
                dupes apply $dry --keep "{keep}" o; dupes apply {way} --keep "{keep}" --execute o; dupes purge-quarantine --yes
                umount o/1/merged; show; echo "shown: $(cat o/1/merged/sub/f) $(cat o/2/diff/sub/f)""#
            );
            let Some(said) = acted(dir.path(), LAYERS, &script) else { return };
            assert_eq!(said.matches("one of the two is on an overlay").count(), 2, "{way}: {said}");
            assert_eq!(said.matches("exit 3").count(), 2, "a dry run says it: {way}: {said}");
            assert!(said.contains("shown: only only\n"), "{way} {keep}: {said}");
        }
    }
}

/// It was put there when both were files on one disk.
#[test]
fn a_purge_does_not_take_what_an_overlay_shows_for_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{LAYERS}; mkdir t t/k t/v; echo only > t/k/1; echo only > t/v/1; dupes apply remove t --keep first --execute
        mount -t overlay overlay -o "lowerdir=$(dirname .dupes-quarantine-*/*/1),upperdir=o/2/diff,workdir=o/1/merged" t/k 2>/dev/null ||
        mount -t overlay overlay -o "lowerdir=$(dirname .dupes-quarantine-*/*/1):o/2" t/k; cat t/k/1
        dupes purge-quarantine --yes; ls .dupes-quarantine-*/*; umount t/k; dupes purge-quarantine --yes"#
    );
    let Some(said) = acted(dir.path(), LAYERS, &script) else { return };
    assert!(said.contains("only\n") && said.contains("on an overlay"), "{said}");
    assert!(said.contains("not: 1\nexit 3\n1\n") && said.ends_with("deleted: 1\n"), "{said}");
}

/// As in a container: nothing of it is anywhere else.
#[test]
fn files_of_one_overlay_are_acted_on() {
    for way in ["remove", "remove --no-undo --yes", "remove --folders --no-undo --yes", "symlink"] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            r#"{LAYERS}; cd o/1/merged; mkdir a b; echo same > a/f; echo same > b/f; touch -d 2001-01-01 ?/f
            dupes apply {way} . --execute; dupes purge-quarantine --yes; cat a/f"#
        );
        let Some(said) = acted(dir.path(), LAYERS, &script) else { return };
        assert!(said.contains(" 1 name") && said.ends_with("same\n"), "{way}: {said}");
        assert!(!said.contains("exit"), "{way}: {said}");
    }
}

/// What is in memory only is gone with the power.
#[test]
fn a_copy_in_memory_is_no_copy_of_a_file_on_a_disk() {
    for way in ["remove", "remove --no-undo --yes", "remove --folders", "symlink"] {
        let dir = folder(&["deep/a"]);
        let script = format!(
            r#"{TMPFS}; mkdir "$DIR/mounted/ram"; cp -p "$DIR/deep/a" "$DIR/mounted/ram/a"; cd "$DIR"
            dry=$(echo "{way}" | sed 's/--no-undo --yes//')
            for execute in "" --execute; do
                [ -n "$execute" ] && way="{way}" || way="$dry"
                dupes apply $way $execute --keep 'path:**/ram/**' deep mounted/ram
            done
            echo "exists: $(stat -c %F deep/a)"; cp -p deep/a other
            dupes apply remove --keep 'path:**/ram/**' --keep name:other --keep-copies 2 --execute deep mounted/ram other; dupes undo
            rm other; dupes apply remove --execute deep mounted/ram"#
        );
        let Some(said) = acted(dir.path(), TMPFS, &script) else { return };
        assert_eq!(said.matches("on a file system in memory").count(), 2, "{way}: {said}");
        assert!(said.contains("exists: regular file\n"), "{way}: {said}");
        assert!(said.contains("restored: 1\n"), "another copy on the disk stays: {said}");
        assert!(
            said.rsplit("restored").next().unwrap().contains("removed 1 name"),
            "the other way round it may: {said}"
        );
    }
}

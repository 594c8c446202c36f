//! What becomes of a scan's roots when disks come and go: as root, in a mount namespace of its own; said to be
//! skipped elsewhere.

mod support;

#[path = "support/mounted.rs"]
mod mounted;

use mounted::{BIND, acted, folder};

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

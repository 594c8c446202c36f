//! Acting where only a mount can show what happens: as root, in a mount namespace of its own; said to be skipped
//! elsewhere.

mod support;

#[path = "support/mounted.rs"]
mod mounted;

use std::fs;

use mounted::{BIND, TMPFS, acted, folder, loop_mount};

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

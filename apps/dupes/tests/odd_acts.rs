//! Acting on a file system that shows what it likes: one file under two names with two numbers, names in any
//! case, numbers that are given again, a clock of its own, bytes that can't be read. Nothing of it may be believed.

#[path = "support/disk.rs"]
mod disk;
#[path = "support/fuse.rs"]
mod fuse;
mod support;
#[path = "support/wire.rs"]
mod wire;

use disk::{Disk, Habits};
use fuse::Files;
use wire::Served;

/// What the scripts say; `$DIR` is the disk, `$OTHER` the same one, mounted a second time.
const BEGIN: &str = r#"
export XDG_DATA_HOME="${DIR%/*}/data" HOME="${DIR%/*}"; PLAN="${DIR%/*}/plan"
dupes() { "$DUPES" "$@" --no-config 2>&1; echo "exit $?"; }
"#;

/// What a script says; None: skipped, and said so.
fn on(disk: &Disk, script: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let mounts = [("disk", 0), ("other", 1)].map(|(name, view)| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let served: Box<dyn Files> = Box::new(Served { disk: disk.clone(), view });
        (path, served)
    });
    let script = format!("OTHER='{}'; {BEGIN}\n{script}", dir.path().join("other").display());
    let output = fuse::start_all(mounts.into(), &script)?.end()?;
    Some(String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

const ACTIONS: [&str; 4] = ["remove", "move", "hardlink", "symlink"];

/// With where to move to, on the disk that is mounted there.
fn words(action: &str, mount: &str) -> String {
    let to = if action == "move" { format!(" --to \"${mount}/moved\"") } else { String::new() };
    format!("{action}{to} --execute --json")
}

/// Words of what was left as it is, and why.
fn refusals(said: &str) -> Vec<String> {
    let events = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let refused = events.filter(|event: &serde_json::Value| event["event"] == "refused");
    refused.map(|event| event["why"].as_str().unwrap().to_owned()).collect()
}

fn ends(said: &str, code: i32) -> bool {
    said.lines().filter(|line| line.starts_with("exit ")).all(|line| line == format!("exit {code}"))
}

// ---------------------------------------------------------------- one file under two names

#[test]
fn one_file_under_two_inode_numbers_is_put_back_as_the_same_file() {
    for action in ACTIONS {
        // In another folder, or another mount, with other numbers; both are the same folder.
        for (roots, mount) in
            [(r#""$DIR/one" "$DIR/two""#, "DIR"), (r#""$DIR/one" "$OTHER/one""#, "OTHER")]
        {
            let disk = Disk::new(Habits::default()).with("one/a", "same").with("moved/x", "x");
            let disk = disk.doubled("two", "one");
            let script = format!(
                r#"stat -c '%d:%i' {}; dupes apply {} {roots}"#,
                roots.replace("\" ", "/a\" ") + "/a",
                words(action, mount)
            );
            let Some(said) = on(&disk, &script) else { return };
            let numbers: Vec<&str> = said.lines().take(2).collect();
            assert_ne!(numbers[0], numbers[1], "it looks like two: {said}");
            assert!(ends(&said, 3), "{action} {mount}: {said}");
            let why = match (action, mount) {
                ("hardlink", "OTHER") => "other-file-system",
                // What stays is a link to itself while it is looked at.
                ("symlink", _) => "keeper",
                _ => "same-file",
            };
            assert_eq!(refusals(&said), [why], "{action} {mount}: {said}");
            assert_eq!(disk.text("one/a").as_deref(), Some("same"), "{action} {mount}: {said}");
            assert_eq!(disk.names("one"), ["a"], "nothing is left behind: {action} {mount}");
            assert_eq!(disk.names("moved"), ["x"], "{action} {mount}");
            assert_eq!(disk.contents(), ["same", "x"], "{action} {mount}");
        }
    }
}

/// Beside a real copy: the last file stays, whatever it is called, and nothing is half done.
#[test]
fn a_real_copy_beside_a_file_with_two_names_is_no_reason_to_lose_both() {
    for action in ACTIONS {
        let disk = Disk::new(Habits::default()).with("one/a", "same").with("one/b", "same");
        let disk = disk.with("moved/x", "x").doubled("two", "one");
        let script = format!(
            r#"dupes apply {} "$DIR/one" "$DIR/two" | sed 's/^exit/applied:/'
            dupes recover finish; dupes undo | sed 's/^exit/undone:/'"#,
            words(action, "DIR")
        );
        let Some(said) = on(&disk, &script) else { return };
        assert!(said.contains("applied: 3"), "{action}: {said}");
        assert!(ends(&said, 0) && said.contains("nothing was interrupted"), "{action}: {said}");
        assert_eq!(disk.text("one/a").as_deref(), Some("same"), "{action}: {said}");
        assert_eq!(disk.names("one"), ["a", "b"], "{action}: {said}");
        assert_eq!(disk.text("one/b").as_deref(), Some("same"), "{action}: {said}");
    }
}

/// Names and times are remembered, so that what was renamed away is still found: one must not change with the other.
#[test]
fn a_name_that_is_remembered_is_no_copy() {
    let ways = ["remove", "remove --no-undo --yes", "move --to \"$DIR/moved\"", "symlink"];
    let folders = ["remove --folders", "remove --folders --no-undo --yes"];
    for is_remembered in [false, true] {
        for (at, way) in ways.iter().chain(&folders).enumerate() {
            let habits = Habits { is_remembered, ..Habits::default() };
            let disk = Disk::new(habits).with("one/a", "same").with("moved/x", "x");
            let disk = disk.doubled("two", "one");
            let script = format!(
                r#"dupes apply {way} --execute --json "$DIR/one" "$DIR/two" | sed 's/^exit/applied:/'
                dupes purge-quarantine --yes"#
            );
            let script = match at < ways.len() {
                true => script,
                // A folder that was given is not taken.
                false => script.replace(r#""$DIR/one" "$DIR/two""#, r#""$DIR" --exclude moved"#),
            };
            let Some(said) = on(&disk, &script) else { return };
            let what = format!("{way}, remembered: {is_remembered}: {said}");
            assert!(said.contains("applied: 3") && ends(&said, 0), "{what}");
            assert_eq!(refusals(&said).len(), 1, "{what}");
            assert_eq!(disk.contents(), ["same", "x"], "{what}");
            assert_eq!(disk.text("one/a").as_deref(), Some("same"), "{what}");
            assert_eq!(disk.text("two/a").as_deref(), Some("same"), "{what}");
        }
    }
}

/// Two that are two are told apart where inodes say nothing.
#[test]
fn real_copies_are_purged_where_names_are_remembered() {
    for way in ["remove", "remove --folders"] {
        let habits = Habits { is_remembered: true, ..Habits::default() };
        let disk = Disk::new(habits).with("t/one/a", "same").with("t/two/a", "same");
        let script =
            format!(r#"dupes apply {way} --execute --json "$DIR/t"; dupes purge-quarantine --yes"#);
        let Some(said) = on(&disk, &script) else { return };
        assert!(ends(&said, 0) && said.contains("deleted: 1\n"), "{way}: {said}");
        assert_eq!(disk.contents(), ["same"], "{way}: {said}");
    }
}

// ---------------------------------------------------------------- case

fn photos(numbers_by_spelling: bool) -> Disk {
    let habits = Habits { folds_case: true, numbers_by_spelling, ..Habits::default() };
    Disk::new(habits).with("Photos/One.jpg", "same").with("moved/x", "x")
}

#[test]
fn two_spellings_of_one_name_are_never_acted_on_as_copies() {
    let files = r#""$DIR/Photos/One.jpg" "$DIR/Photos/ONE.JPG""#;
    let folders = r#""$DIR/Photos" "$DIR/PHOTOS""#;
    for action in ACTIONS {
        for (roots, by_spelling) in
            [(files, false), (files, true), (folders, false), (folders, true)]
        {
            let disk = photos(by_spelling);
            let script = format!("dupes apply {} {roots}", words(action, "DIR"));
            let Some(said) = on(&disk, &script) else { return };
            let what = format!("{action} {roots}, numbers by spelling: {by_spelling}: {said}");
            // With one number it is known to be one; with two it is found out.
            assert!(ends(&said, if by_spelling { 3 } else { 0 }), "{what}");
            assert_eq!(refusals(&said).len(), usize::from(by_spelling), "{what}");
            assert_eq!(disk.text("photos/one.jpg").as_deref(), Some("same"), "{what}");
            assert_eq!(disk.names("Photos").len(), 1, "{what}");
            assert_eq!(disk.contents(), ["same", "x"], "{what}");
        }
    }
}

#[test]
fn what_is_in_the_way_in_another_case_is_kept() {
    for action in ACTIONS {
        let habits = Habits { folds_case: true, ..Habits::default() };
        let disk = Disk::new(habits).with("t/a", "same").with("t/b", "same").with("moved/x", "x");
        let script = format!(
            r#"dupes apply {} "$DIR/t"; rm -f "$DIR/t/b"; printf new > "$DIR/t/B"
            dupes undo | sed 's/^exit/undo:/'"#,
            words(action, "DIR")
        );
        let Some(said) = on(&disk, &script) else { return };
        assert!(ends(&said, 0) && said.contains("undo: 3"), "{action}: {said}");
        assert!(said.contains("both are kept"), "{action}: {said}");
        assert_eq!(disk.text("t/b").as_deref(), Some("new"), "{action}: {said}");
        assert_eq!(disk.names("t"), ["B", "a"], "{action}: {said}");
        let kept: &[&str] = if ["remove", "move"].contains(&action) {
            &["new", "same", "same", "x"]
        } else {
            &["new", "same", "x"]
        };
        assert_eq!(disk.contents(), kept, "{action}: {said}");
    }
}

/// `move` finds a file of another case where it wants to move to.
#[test]
fn nothing_is_moved_over_a_name_in_another_case() {
    let habits = Habits { folds_case: true, ..Habits::default() };
    let disk = Disk::new(habits).with("t/a", "same").with("t/b", "same").with("moved/B", "other");
    let script = format!(r#"dupes apply {} "$DIR/t""#, words("move", "DIR"));
    let Some(said) = on(&disk, &script) else { return };
    assert!(ends(&said, 3), "{said}");
    assert_eq!(refusals(&said), ["occupied"], "{said}");
    assert_eq!(disk.text("moved/b").as_deref(), Some("other"), "{said}");
    assert_eq!(disk.text("t/b").as_deref(), Some("same"), "{said}");
}

// ---------------------------------------------------------------- numbers and clocks

/// Deleted since the plan was made, and another file has its number, size and mtime: told by its ctime or, where
/// that is the same as well, by its bytes.
#[test]
fn a_file_that_was_given_the_number_of_another_one_is_not_taken_for_it() {
    for action in ACTIONS {
        for (clock_stands, which) in [(false, "a"), (false, "b"), (true, "a"), (true, "b")] {
            let habits = Habits { gives_numbers_again: true, clock_stands, ..Habits::default() };
            let disk =
                Disk::new(habits).with("t/a", "same").with("t/b", "same").with("moved/x", "x");
            let script = format!(
                r#"dupes plan "$DIR/t" -o "$PLAN" >/dev/null; look() {{ stat -c "look %i %s %Y $1" "$DIR/t/{which}"; }}
                look; look %Z; rm "$DIR/t/{which}"; printf SAME > "$DIR/t/{which}"; touch -d @1000 "$DIR/t/{which}"; look; look %Z
                dupes apply {} --plan "$PLAN""#,
                words(action, "DIR")
            );
            let Some(said) = on(&disk, &script) else { return };
            let what = format!("{action} {which} {clock_stands}: {said}");
            let looks: Vec<&str> = said.lines().filter(|line| line.starts_with("look")).collect();
            assert_eq!(looks[0], looks[2], "{what}");
            assert_eq!(looks[1] == looks[3], clock_stands, "{what}");
            assert!(ends(&said, 3), "{what}");
            let by_ctime = which == "b" && !clock_stands;
            let why = if by_ctime { "changed" } else { "differs" };
            assert_eq!(refusals(&said), [why], "{what}");
            let other = if which == "a" { "b" } else { "a" };
            assert_eq!(disk.text(&format!("t/{which}")).as_deref(), Some("SAME"), "{what}");
            assert_eq!(disk.text(&format!("t/{other}")).as_deref(), Some("same"), "{what}");
        }
    }
}

/// Files of the future, on a disk whose clock goes back with every change: bytes decide.
#[test]
fn a_clock_that_goes_back_is_no_reason_to_lose_or_to_refuse() {
    const FUTURE: u64 = 8_000_000_000;
    for action in ACTIONS {
        let habits = Habits { clock_goes_back: true, begins: FUTURE, ..Habits::default() };
        let disk = Disk::new(habits).with("t/a", "same").with("t/b", "same").with("t/c", "same");
        let disk = disk.with("moved/x", "x");
        let script = format!(
            r#"touch -d @9000000000 "$DIR"/t/*; dupes plan "$DIR/t" -o "$PLAN"
            printf SAME > "$DIR/t/c"; touch -d @9000000000 "$DIR/t/c"
            dupes apply {} --plan "$PLAN" | sed 's/^exit/applied:/'
            ls -l "$DIR/t" | sed 's/^/after: /'; dupes undo"#,
            words(action, "DIR")
        );
        let Some(said) = on(&disk, &script) else { return };
        assert!(said.contains("applied: 3") && ends(&said, 0), "{action}: {said}");
        assert_eq!(refusals(&said), ["changed"], "c was written to: {action}: {said}");
        assert!(said.contains("restored: 1"), "{action}: {said}");
        let texts = ["a", "b", "c"].map(|name| disk.text(&format!("t/{name}")).unwrap());
        assert_eq!(texts, ["same", "same", "SAME"], "{action}: {said}");
    }
}

// ---------------------------------------------------------------- what can't be read

#[test]
fn what_can_not_be_read_neither_goes_nor_stays_for_another() {
    for action in ACTIONS {
        // Since the search, or before it.
        for (which, when) in [("a", "since"), ("b", "since"), ("a", "before"), ("b", "before")] {
            let habits = Habits { clock_stands: true, ..Habits::default() };
            let disk =
                Disk::new(habits).with("t/a", "same").with("t/b", "same").with("moved/x", "x");
            let breaks = format!(r#"chmod 0 "$DIR/t/{which}""#);
            let apply = words(action, "DIR");
            let script = match when {
                "before" => format!(r#"{breaks}; dupes apply {apply} "$DIR/t""#),
                _ => format!(
                    r#"dupes plan "$DIR/t" -o "$PLAN" >/dev/null; {breaks}
                    dupes apply {apply} --plan "$PLAN" --allow-differing mode"#
                ),
            };
            let script = if action == "remove" || action == "move" {
                script.replace(" --allow-differing mode", "")
            } else {
                script
            };
            let Some(said) = on(&disk, &script) else { return };
            let what = format!("{action} {which} {when}: {said}");
            assert!(ends(&said, 3), "{what}");
            assert!(said.contains("could not read it") || when == "before", "{what}");
            let texts = ["a", "b"].map(|name| disk.text(&format!("t/{name}")).unwrap());
            assert_eq!(texts, ["same", "same"], "{what}");
            assert_eq!(disk.names("t"), ["a", "b"], "{what}");
        }
    }
}

//! Acting on duplicates: what is done, what is refused, and that nothing is ever lost. Tests are named after the
//! list of ways in which other tools have lost files.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use acts::{Acts, manifest};
use support::{can_inject, in_time};

const ACTIONS: [&str; 4] = ["remove", "move", "hardlink", "symlink"];

/// The words of an action.
fn words(action: &str) -> Vec<&str> {
    if action == "move" { vec![action, "--to", "moved"] } else { vec![action] }
}

fn three() -> Acts {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

/// Rewrites a file with bytes of the same length, in place, and gives it its times back.
fn rewrite_quietly(acts: &Acts, name: &str, text: &str) {
    let mtime = fs::metadata(acts.path(name)).unwrap().modified().unwrap();
    fs::write(acts.path(name), text).unwrap();
    File::options().append(true).open(acts.path(name)).unwrap().set_modified(mtime).unwrap();
}

// ---------------------------------------------------------------- what is done

#[test]
fn without_execute_nothing_is_changed_and_both_sums_are_told() {
    let acts = three();
    let before = acts.manifest();
    for action in ACTIONS {
        let out = acts.runs(&[&["apply"], &words(action)[..], &["tree"]].concat());
        assert!(out.contains("Dry run: nothing was changed"), "{out}");
        assert!(out.contains("would be freed now") && out.contains("purge-quarantine"), "{out}");
        assert!(out.contains("tree/b  (stays: "), "{out}");
    }
    assert_eq!(acts.manifest(), before);
    assert!(!acts.beside("data").exists(), "not even a journal");
}

#[test]
fn removed_files_are_in_the_quarantine_and_come_back() {
    let acts = three();
    let before = acts.manifest();
    let (code, said) = acts.apply(&["remove", "tree"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("a") && !acts.has("b") && !acts.has("x/c") && acts.has("d"));
    assert!(said.contains("0 bytes freed now"), "{said}");
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before, "also the times of the folders");
    let (_, err) = acts.ends(&["undo"], 2);
    assert!(err.contains("nothing to undo"), "{err}");
}

#[test]
fn moved_files_keep_the_relative_tree() {
    let acts = three();
    let before = acts.manifest();
    let (code, said) = acts.apply(&["move", "--to", "moved", "tree"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read_to_string(acts.beside("moved/x/c")).unwrap(), "same");
    assert_eq!(fs::read_to_string(acts.beside("moved/b")).unwrap(), "same");
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before);
    assert_eq!(fs::read_dir(acts.beside("moved")).unwrap().count(), 0, "folders of ours go again");
}

#[test]
fn links_lead_to_the_file_that_stays_and_become_files_again() {
    for action in ["hardlink", "symlink"] {
        let acts = three();
        let before = acts.manifest();
        let (code, said) = acts.apply(&[action, "tree"]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(acts.read("b"), "same");
        assert_eq!(acts.read("x/c"), "same");
        match action {
            "hardlink" => assert_eq!(acts.inode("b"), acts.inode("a")),
            _ => assert_eq!(
                fs::read_link(acts.path("x/c")).unwrap(),
                acts.path("a").canonicalize().unwrap()
            ),
        }
        let left: Vec<_> =
            fs::read_dir(acts.tree()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 4, "no temporary name is left: {left:?}");
        let (code, said) = acts.apply(&[action, "tree"]);
        assert_eq!((code, said.contains(" 0 names")), (0, true), "again: {said}");
        acts.runs(&["undo"]);
        assert_eq!(acts.manifest(), before, "{action}");
    }
}

#[test]
fn unsupported_reflinks_are_an_error_and_never_a_copy() {
    // In memory nothing is shared; where it can be is for tests/mounts_acts.rs.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return eprintln!("skipped: there is no file system in memory");
    };
    let acts = three();
    for name in ["a", "b"] {
        fs::write(memory.path().join(name), "same").unwrap();
    }
    let before = manifest(memory.path());
    let (code, said) = acts.apply(&["reflink", memory.path().to_str().unwrap()]);
    assert!(code == 3 && said.contains("can't share blocks"), "{code} {said}");
    assert_eq!(manifest(memory.path()), before);
}

#[test]
fn a_plan_is_the_same_every_time_and_carried_out_later() {
    let acts = three();
    acts.runs(&["plan", "tree", "-o", "one", "--keep", "deepest"]);
    acts.runs(&["plan", "tree", "-o", "two", "--keep", "deepest"]);
    assert_eq!(fs::read(acts.beside("one")).unwrap(), fs::read(acts.beside("two")).unwrap());
    let (code, _) = acts.apply(&["remove", "--plan", "one"]);
    assert_eq!(code, 0);
    assert!(acts.has("x/c") && !acts.has("a") && !acts.has("b"));
    let (code, said) = acts.apply(&["remove", "--plan", "one"]);
    assert_eq!(code, 0, "what is gone is done: {said}");
    assert!(said.contains("2 are gone, linked or shared already"), "{said}");
}

#[test]
fn the_last_scans_can_be_acted_on() {
    let acts = three();
    acts.runs(&["scan", "tree"]);
    let (code, said) = acts.apply(&["remove", "--report", "--keep", "name:b"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("b") && !acts.has("a") && !acts.has("x/c"));
}

#[test]
fn events_for_programs_are_one_object_a_line() {
    let acts = three();
    let out =
        acts.runs(&["apply", "remove", "tree", "--json", "--execute", "--quarantine", "aside"]);
    let events: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(words, ["done", "done", "end"]);
    let end = &events[2];
    assert_eq!((end["done"].as_u64(), end["freed_now"].as_u64()), (Some(2), Some(0)));
    assert!(end["freed_by_purge"].as_u64() > Some(0), "{end}");
    let out = acts.runs(&["undo", "--json"]);
    assert_eq!(out.lines().count(), 3);
    let log: serde_json::Value = serde_json::from_str(&acts.runs(&["log", "--json"])).unwrap();
    assert_eq!(log["runs"][0]["files"]["undone"], 2);
}

// ---------------------------------------------------------------- what is not as it was

#[test]
fn a_victim_that_was_replaced_with_size_and_mtime_kept_stays() {
    for action in ACTIONS {
        let acts = three();
        acts.runs(&["plan", "tree", "-o", "plan"]);
        rewrite_quietly(&acts, "b", "SAME");
        let (code, said) = acts.apply(&[&words(action)[..], &["--plan", "plan"]].concat());
        assert_eq!(code, 3, "{said}");
        assert_eq!(acts.read("b"), "SAME", "{action}: {said}");
        assert_eq!(acts.read("a"), "same");
    }
}

#[test]
fn a_keeper_that_was_rewritten_after_the_report_keeps_its_victims() {
    for action in ACTIONS {
        for quietly in [true, false] {
            let acts = three();
            acts.runs(&["plan", "tree", "-o", "plan"]);
            if quietly {
                rewrite_quietly(&acts, "a", "SAME")
            } else {
                acts.write("a", "longer text")
            }
            let (code, said) = acts.apply(&[&words(action)[..], &["--plan", "plan"]].concat());
            assert_eq!(code, 3, "{said}");
            assert_eq!(
                (acts.read("b"), acts.read("x/c")),
                ("same".into(), "same".into()),
                "{said}"
            );
            assert_ne!(acts.read("a"), "same");
        }
    }
}

#[test]
fn both_changed_both_stay() {
    let acts = three();
    let (code, said) = acts.planned("remove", |acts| {
        rewrite_quietly(acts, "a", "1111");
        rewrite_quietly(acts, "b", "2222");
        rewrite_quietly(acts, "x/c", "1111");
    });
    assert_eq!(code, 3, "{said}");
    assert_eq!((acts.read("a"), acts.read("b")), ("1111".into(), "2222".into()));
    assert_eq!(acts.read("x/c"), "1111", "its ctime says that it is not what was planned for");
}

#[test]
fn a_keeper_that_vanished_keeps_its_victims() {
    for action in ACTIONS {
        let acts = three();
        acts.runs(&["plan", "tree", "-o", "plan"]);
        fs::remove_file(acts.path("a")).unwrap();
        let (code, said) = acts.apply(&[&words(action)[..], &["--plan", "plan"]].concat());
        assert_eq!(code, 3, "{said}");
        assert!(acts.has("b") && acts.has("x/c"), "{said}");
    }
}

#[test]
fn a_second_keeper_stands_in_for_the_first() {
    let acts = three();
    acts.runs(&["plan", "tree", "-o", "plan", "--keep-copies", "2"]);
    fs::remove_file(acts.path("a")).unwrap();
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("b") && !acts.has("x/c"));
}

#[test]
fn growing_and_shrinking_files_stay() {
    for text in ["sam", "same and more", ""] {
        let acts = three();
        let (code, said) = acts.planned("remove", |acts| acts.write("b", text));
        assert_eq!(code, 3, "{said}");
        assert_eq!(acts.read("b"), text);
    }
}

#[test]
fn a_file_that_was_swapped_for_a_fifo_does_not_hang_it() {
    for which in ["a", "b"] {
        let acts = three();
        let (code, said) = acts.planned("remove", |acts| {
            fs::remove_file(acts.path(which)).unwrap();
            let kind = rustix::fs::FileType::Fifo;
            let mode = rustix::fs::Mode::RWXU;
            rustix::fs::mknodat(rustix::fs::CWD, acts.path(which), kind, mode, 0).unwrap();
        });
        assert_eq!(code, 3, "{said}");
        assert!(acts.has(which));
    }
}

#[test]
fn a_parent_folder_that_was_swapped_for_a_symlink_is_not_entered() {
    for action in ACTIONS {
        let acts = three();
        acts.runs(&["plan", "tree", "-o", "plan"]);
        fs::rename(acts.path("x"), acts.beside("elsewhere")).unwrap();
        symlink(acts.beside("elsewhere"), acts.path("x")).unwrap();
        let (code, said) = acts.apply(&[&words(action)[..], &["--plan", "plan"]].concat());
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("links are not followed"), "{said}");
        assert!(acts.beside("elsewhere/c").exists());
    }
}

#[test]
fn a_root_that_is_not_mounted_is_left_alone() {
    let acts = three();
    let (code, said) = acts.planned("remove", |acts| {
        fs::rename(acts.tree(), acts.beside("away")).unwrap();
        fs::create_dir(acts.tree()).unwrap();
    });
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("is it mounted?"), "{said}");
    assert_eq!(manifest(&acts.beside("away")).len(), 6);
}

// ---------------------------------------------------------------- links and roots

#[test]
fn the_same_root_twice_and_overlapping_roots_are_one() {
    let acts = three();
    let (code, said) = acts.apply(&["remove", "tree", "tree/x", "./tree", "tree"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("a") && !acts.has("b") && !acts.has("x/c"));
}

#[test]
fn hard_links_inside_the_roots_go_as_one_file() {
    let acts = three();
    fs::hard_link(acts.path("b"), acts.path("b2")).unwrap();
    fs::hard_link(acts.path("b"), acts.path("x/b3")).unwrap();
    let before = acts.manifest();
    let (code, said) = acts.apply(&["hardlink", "tree"]);
    assert_eq!(code, 0, "{said}");
    for name in ["b", "b2", "x/b3", "x/c"] {
        assert_eq!(acts.inode(name), acts.inode("a"), "{name}");
    }
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before, "one file with three names again");
    let (code, said) = acts.apply(&["remove", "tree"]);
    assert_eq!(code, 0, "{said}");
    assert!(!acts.has("b") && !acts.has("b2") && !acts.has("x/b3"));
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before);
}

#[test]
fn a_name_outside_of_the_roots_is_no_reason_to_break_its_link() {
    let acts = three();
    fs::hard_link(acts.path("b"), acts.beside("outside")).unwrap();
    let (code, said) = acts.apply(&["hardlink", "tree"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("another name outside of the roots"), "{said}");
    assert_eq!(acts.inode("b"), fs::metadata(acts.beside("outside")).unwrap().ino());
    let (code, said) = acts.apply(&["remove", "tree"]);
    assert_eq!(code, 0, "{said}");
    assert!(!acts.has("b") && acts.beside("outside").exists());
}

#[test]
fn links_take_nothing_from_a_file_unless_asked() {
    let cases: [(&str, fn(&Acts)); 3] = [
        ("mode", |acts| {
            fs::set_permissions(acts.path("b"), fs::Permissions::from_mode(0o600)).unwrap();
            fs::set_permissions(acts.path("a"), fs::Permissions::from_mode(0o640)).unwrap();
            fs::set_permissions(acts.path("x/c"), fs::Permissions::from_mode(0o640)).unwrap();
        }),
        ("times", |acts| {
            let file = File::options().append(true).open(acts.path("b")).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(77)).unwrap();
        }),
        ("xattrs", |acts| {
            let flags = rustix::fs::XattrFlags::empty();
            if rustix::fs::setxattr(acts.path("b"), "user.note", b"mine", flags).is_err() {
                eprintln!("skipped: no attributes here");
                fs::write(acts.path("b"), "none").unwrap();
            }
        }),
    ];
    for (aspect, change) in cases {
        for action in ["hardlink", "symlink"] {
            let acts = three();
            change(&acts);
            if acts.read("b") != "same" {
                continue;
            }
            let before = acts.manifest();
            let (code, said) = acts.apply(&[action, "tree"]);
            assert_eq!(code, 3, "{said}");
            assert!(said.contains(&format!("--allow-differing {aspect}")), "{said}");
            assert_ne!(acts.inode("b"), acts.inode("a"));
            assert!(fs::symlink_metadata(acts.path("b")).unwrap().is_file());
            let (code, said) = acts.apply(&[action, "tree", "--allow-differing", aspect]);
            assert_eq!(code, 0, "{said}");
            acts.runs(&["undo"]);
            acts.runs(&["undo"]);
            assert_eq!(acts.manifest(), before, "{aspect}");
        }
    }
}

#[test]
fn owners_that_differ_are_no_reason_to_link() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let acts = three();
    std::os::unix::fs::chown(acts.path("b"), Some(12_345), Some(54_321)).unwrap();
    let before = acts.manifest();
    let (code, said) = acts.apply(&["hardlink", "tree"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("--allow-differing owner"), "{said}");
    let (code, said) = acts.apply(&["hardlink", "tree", "--allow-differing", "owner"]);
    assert_eq!(code, 0, "{said}");
    acts.runs(&["undo"]);
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before);
}

#[test]
fn no_link_crosses_file_systems_and_both_files_stay() {
    let acts = Acts::with(&[("z", "same")]);
    let elsewhere = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir)
            if fs::metadata(dir.path()).unwrap().dev()
                != fs::metadata(acts.tree()).unwrap().dev() =>
        {
            dir
        }
        _ => return eprintln!("skipped: there is only one file system"),
    };
    let other = elsewhere.path().join("a");
    fs::write(&other, "same").unwrap();
    File::options()
        .append(true)
        .open(&other)
        .unwrap()
        .set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000))
        .unwrap();
    let given = elsewhere.path().to_str().unwrap();
    let (code, said) = acts.apply(&["hardlink", "tree", given]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("another file system"), "{said}");
    // The quarantine is on the file system of the file that goes, or there is none.
    let (code, said) = acts.apply(&["remove", "tree", given, "--keep", "first"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("no quarantine"), "{said}");
    let (code, said) = acts.apply(&["move", "--to", "aside", "tree", given, "--keep", "first"]);
    assert_eq!(code, 3, "{said}");
    assert_eq!(
        (acts.read("z"), fs::read_to_string(&other).unwrap()),
        ("same".into(), "same".into())
    );
}

// ---------------------------------------------------------------- names, sizes, places

#[test]
fn names_of_255_bytes_and_hostile_ones_are_acted_on() {
    let long = "n".repeat(255);
    let names: [&[u8]; 6] =
        [long.as_bytes(), b"new\nline", b"-rf", b"\xff\xfe", b" \\ ", b"\"quoted'\x1b[31m"];
    for action in ["remove", "hardlink", "symlink"] {
        let acts = Acts::with(&[("\u{1}keep", "same")]);
        for name in names {
            let path = acts.tree().join(OsStr::from_bytes(name));
            fs::write(&path, "same").unwrap();
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
        }
        let before = acts.manifest();
        let (code, said) = acts.planned(action, |_| ());
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
        assert_ne!(acts.manifest(), before);
        acts.runs(&["undo"]);
        assert_eq!(acts.manifest(), before);
    }
}

#[test]
fn sparse_and_empty_files_are_files() {
    let acts = Acts::new();
    for name in ["a", "b"] {
        File::create(acts.path(name)).unwrap().set_len(3 << 20).unwrap();
        File::create(acts.path(&format!("empty-{name}"))).unwrap();
    }
    let (code, said) = acts.apply(&["remove", "tree", "--min-size", "0"]);
    assert_eq!(code, 0, "{said}");
    assert!(acts.has("a") && !acts.has("b") && acts.has("empty-a") && !acts.has("empty-b"));
    acts.runs(&["undo"]);
    assert!(acts.has("b") && acts.has("empty-b"));
}

#[test]
fn the_quarantine_is_not_searched() {
    let acts = three();
    let (code, _) = acts.apply(&["remove", "tree", "--quarantine", "tree"]);
    assert_eq!(code, 1, "it was said twice");
    let out = acts.runs(&["apply", "remove", "tree", "--execute", "--quarantine", "tree"]);
    assert!(out.contains("removed 2 names"), "{out}");
    let found = acts.runs(&["find", "--format", "json", "tree"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["totals"]["files"], 2, "a and d: {found}");
    acts.runs(&["scan", "tree"]);
    let recorded: serde_json::Value =
        serde_json::from_str(&acts.runs(&["report", "files", "--json"])).unwrap();
    assert_eq!(recorded["totals"]["files"], 2, "{recorded}");
}

#[test]
fn a_folder_that_may_not_be_written_to_keeps_its_files() {
    let acts = three();
    if rustix::process::geteuid().is_root() {
        // Root may write anywhere, but not to what is immutable.
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        let file = File::open(acts.path("b")).unwrap();
        let Ok(flags) = ioctl_getflags(&file) else { return eprintln!("skipped: no such flags") };
        if ioctl_setflags(&file, flags | IFlags::IMMUTABLE).is_err() {
            return eprintln!("skipped: may not make it immutable");
        }
        let ends =
            ACTIONS.map(|action| acts.apply(&[&words(action)[..], &["tree/a", "tree/b"]].concat()));
        ioctl_setflags(&file, flags).unwrap();
        for (code, said) in ends {
            assert_eq!(code, 3, "{said}");
            assert!(said.contains("could not"), "{said}");
        }
    } else {
        fs::set_permissions(acts.tree(), fs::Permissions::from_mode(0o500)).unwrap();
        let ends =
            ACTIONS.map(|action| acts.apply(&[&words(action)[..], &["tree/a", "tree/b"]].concat()));
        fs::set_permissions(acts.tree(), fs::Permissions::from_mode(0o700)).unwrap();
        ends.into_iter().for_each(|(code, said)| assert_eq!(code, 3, "{said}"));
    }
    assert_eq!((acts.read("a"), acts.read("b")), ("same".into(), "same".into()));
    assert_ne!(acts.inode("a"), acts.inode("b"));
    assert_eq!(fs::read_dir(acts.tree()).unwrap().count(), 4, "and nothing is left behind");
}

// ---------------------------------------------------------------- the way back

#[test]
fn what_is_in_the_way_is_kept_and_so_is_what_was_removed() {
    let acts = three();
    acts.apply(&["remove", "tree"]);
    acts.write("b", "something new");
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("both are kept"), "{err}");
    assert_eq!((acts.read("b"), acts.read("x/c")), ("something new".into(), "same".into()));
    fs::remove_file(acts.path("b")).unwrap();
    acts.runs(&["undo"]);
    assert_eq!(acts.read("b"), "same", "once the way is free");
}

#[test]
fn a_link_whose_keeper_has_changed_is_not_undone() {
    for action in ["hardlink", "symlink"] {
        let acts = three();
        acts.apply(&[action, "tree"]);
        acts.write("a", "SAME");
        let (_, err) = acts.ends(&["undo"], 3);
        assert!(err.contains("the file that stays"), "{err}");
        assert_eq!(acts.read("b"), "SAME");
    }
}

#[test]
fn a_link_that_somebody_has_replaced_is_not_undone() {
    let acts = three();
    acts.apply(&["hardlink", "tree"]);
    fs::remove_file(acts.path("b")).unwrap();
    acts.write("b", "mine");
    acts.ends(&["undo"], 3);
    assert_eq!(acts.read("b"), "mine");
    assert_eq!(acts.read("x/c"), "same");
    assert_ne!(acts.inode("x/c"), acts.inode("a"), "the others are");
}

#[test]
fn the_last_copy_is_never_purged() {
    let acts = three();
    acts.apply(&["remove", "tree"]);
    fs::remove_file(acts.path("a")).unwrap();
    let (_, err) = acts.ends(&["purge-quarantine", "--yes"], 3);
    assert!(err.contains("not deleted"), "{err}");
    acts.runs(&["undo"]);
    assert_eq!((acts.read("b"), acts.read("x/c")), ("same".into(), "same".into()));
}

#[test]
fn what_was_purged_is_gone_for_good_and_said_so() {
    let acts = three();
    acts.apply(&["remove", "tree"]);
    let (_, err) = acts.ends(&["purge-quarantine"], 1);
    assert!(err.contains("--yes"), "{err}");
    acts.runs(&["purge-quarantine", "--keep-for", "1d", "--yes"]);
    acts.runs(&["undo"]);
    assert!(acts.has("b"), "it was removed a moment ago, and kept");
    acts.apply(&["remove", "tree"]);
    acts.runs(&["purge-quarantine", "--yes"]);
    let (_, err) = acts.ends(&["undo"], 2);
    assert!(err.contains("nothing to undo"), "{err}");
    assert!(acts.runs(&["log"]).contains("purged 2"));
}

#[test]
fn without_undo_it_asks_and_deletes_at_once() {
    let acts = three();
    let (code, said) = acts.apply(&["remove", "tree", "--no-undo"]);
    assert_eq!(code, 1, "{said}");
    assert!(acts.has("b") && acts.has("x/c"));
    let (code, said) = acts.apply(&["remove", "tree", "--no-undo", "--yes"]);
    assert_eq!(code, 0, "{said}");
    assert!(!acts.has("b") && acts.has("a"));
    let mut left = manifest(&acts.quarantine()).into_values();
    assert!(left.all(|item| item.mode & 0o170_000 == 0o040_000), "folders only");
}

// ---------------------------------------------------------------- one at a time

#[test]
fn two_at_once_are_refused_and_a_dead_owner_is_not_waited_for() {
    let acts = three();
    acts.apply(&["remove", "tree"]);
    let lock = acts.beside("data/dupes/journal/lock");
    assert!(lock.exists(), "of a process that is gone");
    let held = File::options().write(true).open(&lock).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for words in [&["undo"][..], &["recover", "finish"], &["purge-quarantine", "--yes"]] {
        let (_, err) = acts.ends(words, 2);
        assert!(err.contains("one at a time"), "{err}");
    }
    let (code, said) = acts.apply(&["remove", "tree"]);
    assert_eq!((code, said.contains("one at a time")), (2, true), "{said}");
    drop(held);
    acts.runs(&["undo"]);
}

/// Stopped by a signal: some are done, the journal is true, and the same command goes on.
#[test]
fn a_signal_stops_it_between_two_actions_with_a_true_journal() {
    if !can_inject() {
        return;
    }
    let acts = Acts::new();
    let count = 1_000;
    for n in 0..count {
        acts.write(&format!("{}/{n}", n % 7), "same");
    }
    acts.runs(&["plan", "tree", "-o", "plan"]);
    // It would be done before it has taken notice: each rename takes a while.
    // Whoever runs the tests in the background has it ignore the signal, and so would strace and all below it.
    let mut strace = Command::new("env");
    strace.args(["--default-signal=INT", "strace", "-D", "-f", "-qq", "--seccomp-bpf"]);
    strace.args([
        "-o",
        "/dev/null",
        "-e",
        "trace=renameat2",
        "-e",
        "inject=renameat2:delay_enter=5ms",
    ]);
    strace.arg(env!("CARGO_BIN_EXE_dupes"));
    let words = ["apply", "remove", "--plan", "plan", "--execute", "--quarantine", "aside"];
    let mut command = acts::through(strace, &acts.command(&words));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first line that it prints: it is in the middle of it.
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let (rest, status) = in_time("apply ends when it is told to", move || {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
        (rest, child.wait().unwrap())
    });
    let left = |acts: &Acts| {
        manifest(&acts.tree()).into_values().filter(|it| it.content == b"same").count()
    };
    let told = format!("{line}{rest}").lines().filter(|line| line.starts_with("removed /")).count();
    assert_eq!(left(&acts) + told, count, "what was told is what was done");
    assert_eq!(status.code(), Some(130), "{rest}");
    let summary = format!("removed {told} names, {} were not begun; ", count - 1 - told);
    assert!(rest.contains(&summary), "{summary}: {rest}");
    let log = acts.runs(&["log"]);
    let counts = format!("done {told}  not begun {}\n", count - 1 - told);
    assert!(log.ends_with(&counts), "{counts}: {log}");
    acts.runs(&["apply", "remove", "--plan", "plan", "--execute", "--quarantine", "aside"]);
    assert_eq!(left(&acts), 1);
    acts.runs(&["undo"]);
    acts.runs(&["undo"]);
    assert_eq!(left(&acts), count);
}

//! Whole folders that are equal go as one, and come back as one; whatever is not as it should be stays.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};

use acts::{Acts, manifest};
use serde_json::Value;

/// `a` and `b/copy` are equal, with folders in them; `c` has more. `lone` is in both.
fn tree() -> Acts {
    let acts = Acts::new();
    for top in ["a", "b/copy", "c"] {
        acts.write(&format!("{top}/x"), "one");
        acts.write(&format!("{top}/in/y"), "two");
        acts.write(&format!("{top}/in/none"), "");
        fs::create_dir(acts.path(&format!("{top}/empty"))).unwrap();
        fs::set_permissions(acts.path(&format!("{top}/in")), PermissionsExt::from_mode(0o750))
            .unwrap();
    }
    acts.write("c/more", "more");
    acts.write("lone", "one");
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

/// Plans to keep the first path, then does something, then carries the plan out.
fn planned(acts: &Acts, between: impl FnOnce(&Acts)) -> (i32, String) {
    acts.runs(&["plan", "tree", "--folders", "-o", "plan"]);
    between(acts);
    acts.apply(&["remove", "--plan", "plan"])
}

#[test]
fn folders_are_removed_as_one_and_come_back() {
    let acts = tree();
    let before = acts.manifest();
    let out = acts.runs(&["apply", "remove", "tree", "--folders"]);
    assert!(out.contains("tree/b/copy/  of 3 files  (stays: "), "{out}");
    assert_eq!(acts.manifest(), before, "a dry run");
    let (code, said) = acts.apply(&["remove", "tree", "--folders"]);
    assert_eq!(code, 0, "{said}");
    // b/copy and c/in as folders, the rest of c and lone as files.
    assert!(said.contains("removed 4 names"), "{said}");
    assert!(!acts.has("b/copy") && !acts.has("c/in") && !acts.has("c/x") && !acts.has("lone"));
    assert!(acts.has("a/in/none") && acts.has("a/empty") && acts.has("c/more") && acts.has("b"));
    let kept: Vec<_> = manifest(&acts.quarantine()).into_values().map(|it| it.content).collect();
    assert_eq!(kept.iter().filter(|content| **content == b"two").count(), 2, "all is in there");
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before);
}

#[test]
fn folders_are_moved_as_one_and_come_back() {
    let acts = tree();
    let before = acts.manifest();
    let out = acts.runs(&["apply", "move", "tree", "--folders", "--to", "moved", "--execute"]);
    assert!(out.contains("moved 4 names"), "{out}");
    let moved = acts.beside("moved/b/copy");
    assert_eq!(fs::read_to_string(moved.join("in/y")).unwrap(), "two");
    assert_eq!(fs::metadata(moved.join("in")).unwrap().permissions().mode() & 0o777, 0o750);
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest(), before);
    assert_eq!(fs::read_dir(acts.beside("moved")).unwrap().count(), 0, "nothing is left there");
}

#[test]
fn the_folders_of_the_last_scans_can_be_acted_on() {
    let acts = tree();
    acts.runs(&["scan", "tree"]);
    acts.runs(&["plan", "--report", "--folders", "-o", "plan"]);
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert_eq!(code, 0, "{said}");
    assert!(!acts.has("b/copy") && acts.has("a/in/y"), "{said}");
}

/// Between the plan and the deed: the folder stays, and its files with it.
#[test]
fn whatever_has_changed_in_a_folder_keeps_it() {
    let quietly = |path: std::path::PathBuf, text: &str| {
        let mtime = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, text).unwrap();
        File::options().append(true).open(path).unwrap().set_modified(mtime).unwrap();
    };
    let changes: [(&str, &dyn Fn(&Acts)); 7] = [
        ("a new file", &|acts| acts.write("b/copy/in/new", "new")),
        ("a file less", &|acts| fs::remove_file(acts.path("b/copy/in/none")).unwrap()),
        ("a link", &|acts| symlink("x", acts.path("b/copy/link")).unwrap()),
        ("size and mtime kept", &|acts| quietly(acts.path("b/copy/in/y"), "TWO")),
        ("size and mtime kept, where it stays", &|acts| quietly(acts.path("a/in/y"), "TWO")),
        ("the one that stays is gone", &|acts| {
            fs::rename(acts.path("a"), acts.beside("away")).unwrap();
        }),
        ("a link where it stays", &|acts| {
            fs::rename(acts.path("a"), acts.path("z")).unwrap();
            symlink("z", acts.path("a")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let acts = tree();
        let mut changed = acts.manifest();
        let (code, said) = planned(&acts, |acts| {
            change(acts);
            changed = acts.manifest();
        });
        assert_eq!(code, 3, "{what}: {said}");
        let after = acts.manifest();
        for (path, item) in changed.iter().filter(|(path, _)| path.starts_with("b/copy")) {
            assert_eq!(after.get(path), Some(item), "{what}: {said}");
        }
    }
}

#[test]
fn links_of_folders_are_refused() {
    let acts = tree();
    let before = acts.manifest();
    for action in ["hardlink", "symlink", "reflink"] {
        let (_, err) = acts.ends(&["apply", action, "tree", "--folders", "--execute"], 1);
        assert!(err.contains("file by file"), "{err}");
        acts.runs(&["plan", "tree", "--folders", "-o", "plan"]);
        let (_, err) = acts.ends(&["apply", action, "--plan", "plan", "--execute"], 2);
        assert!(err.contains("without --folders"), "{err}");
    }
    assert_eq!(acts.manifest(), before);
}

#[test]
fn what_was_removed_as_a_folder_is_purged_only_while_there_is_another_one() {
    let acts = tree();
    acts.apply(&["remove", "tree", "--folders"]);
    acts.write("a/in/y", "TWO");
    let (out, err) = acts.ends(&["purge-quarantine", "--yes"], 3);
    assert!(err.contains("b/copy") && err.contains("not deleted"), "{out}{err}");
    acts.runs(&["undo"]);
    assert_eq!(acts.read("b/copy/in/y"), "two");
    acts.write("a/in/y", "two");
    acts.apply(&["remove", "tree", "--folders"]);
    acts.runs(&["purge-quarantine", "--yes"]);
    let left = manifest(&acts.quarantine());
    assert!(left.into_values().all(|item| item.mode & 0o170_000 == 0o040_000), "no file");
    assert!(acts.has("a/in/y") && acts.has("a/in/none"));
}

#[test]
fn an_occupied_place_keeps_both_folders() {
    let acts = tree();
    acts.apply(&["remove", "tree", "--folders"]);
    acts.write("b/copy/new", "new");
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("b/copy") && err.contains("both are kept"), "{err}");
    assert_eq!(acts.read("b/copy/new"), "new");
    fs::rename(acts.path("b/copy"), acts.path("b/other")).unwrap();
    acts.runs(&["undo"]);
    assert_eq!((acts.read("b/copy/in/y"), acts.read("b/other/new")), ("two".into(), "new".into()));
}

#[test]
fn programs_are_told_how_much_is_in_a_folder() {
    let acts = tree();
    let out = acts.runs(&["apply", "remove", "tree", "--folders", "--json"]);
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| {
        events
            .iter()
            .find(|it| it["path"].as_str().is_some_and(|path| path.ends_with(name)))
            .unwrap()
    };
    assert_eq!(of("b/copy")["files"], 3, "{out}");
    assert_eq!(of("lone")["files"], Value::Null, "{out}");
}

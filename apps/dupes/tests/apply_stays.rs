//! What stays, whoever has made the plan and however it is written: what lies below a reference, in a quarantine, or is
//! protected; and what has no copy below another path.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use acts::Acts;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use serde_json::{Value, json};

/// Two folders with a copy each, and a plan: `a/x` stays, `b/x` goes.
fn two() -> Acts {
    let acts = Acts::with(&[("a/x", "same"), ("b/x", "same")]);
    acts.runs(&["plan", "tree/a", "tree/b", "-o", "plan"]);
    acts
}

/// The plan as somebody else has made it.
fn edit(acts: &Acts, change: impl FnOnce(&mut [Value])) {
    let plan = fs::read_to_string(acts.beside("plan")).unwrap();
    let mut lines: Vec<Value> =
        plan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(&mut lines);
    let lines = lines.iter().map(|line| format!("{line}\n"));
    fs::write(acts.beside("plan"), lines.collect::<String>()).unwrap();
}

/// Refused with these words, in a dry run, too, and nothing is done.
#[track_caller]
fn refused(acts: &Acts, words: &str) {
    let before = acts.manifest();
    for more in [&[][..], &["--execute"]] {
        let all = [&["apply", "remove", "--plan", "plan", "--quarantine", "aside"], more].concat();
        let (out, err) = acts.ends(&all, 2);
        assert!(err.contains(words), "{words}: {out}{err}");
        assert_eq!(acts.manifest(), before, "{words}: {out}{err}");
    }
}

// ---------------------------------------------------------------- plans of others

#[test]
fn a_base_of_a_plan_is_the_real_path_of_its_folder() {
    for (wrong, words) in [
        ("/./b", "its bases make no sense"),
        ("/a/../b", "its bases make no sense"),
        ("//b", "its bases make no sense"),
        ("/b/", "its bases make no sense"),
        ("/link", "by its real path: nothing was done"),
    ] {
        let acts = two();
        symlink("b", acts.path("link")).unwrap();
        let top = acts.tree().canonicalize().unwrap();
        let path = format!("{}{wrong}", top.display());
        edit(&acts, |lines| lines[0]["bases"][1]["path"] = path.clone().into());
        refused(&acts, words);
        // Beside the right one, with the same folder as a reference there.
        let acts = two();
        symlink("b", acts.path("link")).unwrap();
        let path = format!("{}{wrong}", acts.tree().canonicalize().unwrap().display());
        edit(&acts, |lines| {
            let mut again = lines[0]["bases"][1].clone();
            again["path"] = path.into();
            lines[0]["bases"][1]["reference"] = true.into();
            lines[0]["bases"].as_array_mut().unwrap().push(again);
            lines[1]["victims"][0]["names"][0]["base"] = 2.into();
        });
        refused(&acts, words);
    }
}

#[test]
fn a_link_leads_no_plan_into_a_quarantine() {
    let acts = two();
    let run = acts.beside(".dupes-quarantine-0/run");
    fs::create_dir_all(&run).unwrap();
    fs::rename(acts.path("a/x"), run.join("x")).unwrap();
    symlink(&run, acts.beside("link")).unwrap();
    let found = fs::metadata(&run).unwrap();
    let path = acts.beside("").canonicalize().unwrap().join("link");
    edit(&acts, |lines| {
        let base = json!({
            "path": path.to_str().unwrap(), "device": found.dev(), "inode": found.ino(),
            "reference": false,
        });
        lines[0]["bases"].as_array_mut().unwrap().push(base);
        lines[1]["keepers"][0]["names"][0]["base"] = 2.into();
    });
    refused(&acts, "by its real path: nothing was done");
}

#[test]
fn a_base_that_is_not_there_keeps_its_own_sets_only() {
    let acts = Acts::with(&[("a/x", "same"), ("b/x", "same"), ("c/y", "more"), ("c/z", "more")]);
    acts.runs(&["plan", "tree/a", "tree/b", "tree/c", "-o", "plan"]);
    fs::rename(acts.path("b"), acts.path("away")).unwrap();
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert!(code == 3 && said.contains("its root is not there"), "{said}");
    assert!(acts.has("away/x") && !acts.has("c/z"), "{said}");
}

#[test]
fn what_a_folder_frees_is_what_is_there() {
    let acts = Acts::new();
    for name in ["a/d/1", "a/d/2", "a/d/3", "b/d/1", "b/d/2", "b/d/3"] {
        acts.write(name, name.rsplit('/').next().unwrap());
    }
    let (_, err) = acts.ends(&["plan", "tree/a", "tree/b", "--folders", "-o", "plan"], 0);
    assert!(err.contains("of 1 set, 1 folder with 3 files in all that can go"), "{err}");
    let freed = || {
        let out = acts.runs(&["apply", "remove", "--plan", "plan", "--json"]);
        let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        end["freed_by_purge"].as_u64().unwrap()
    };
    let before = freed();
    edit(&acts, |lines| lines[1]["victims"][0]["frees"] = (1u64 << 60).into());
    assert_eq!(freed(), before);
}

#[test]
fn a_path_that_is_too_long_is_said_to_be_that() {
    let acts = Acts::new();
    acts.write("a", "same");
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, acts.tree(), flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        let name = "n".repeat(250);
        mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = openat(&folder, &name, flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&folder, "b", flags, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(file, b"same").unwrap();
    let (_, err) = acts.ends(&["plan", "tree", "-o", "plan"], 3);
    assert!(err.contains("could not look at its folder: File name too long"), "{err}");
}

//! What is done twice, or is there twice by what was done before: a quarantine and a folder that files were moved to are no
//! places for copies, and a run that is made once more takes nothing.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use acts::{Acts, manifest, through};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use support::{can_inject, in_time};

fn two() -> Acts {
    Acts::with(&[("a", "same"), ("b", "same")])
}

/// `b` waits in a quarantine, whose path this is.
fn one_is_away(acts: &Acts) -> String {
    let (code, said) = acts.apply(&["remove", "tree"]);
    assert_eq!(code, 0, "{said}");
    let uid = rustix::process::geteuid().as_raw();
    format!("aside/.dupes-quarantine-{uid}")
}

#[test]
fn what_is_in_a_quarantine_is_no_copy_that_stays() {
    let acts = two();
    let quarantine = one_is_away(&acts);
    let run = fs::read_dir(acts.beside(&quarantine)).unwrap().next().unwrap().unwrap().path();
    symlink(&run, acts.beside("link")).unwrap();
    symlink(run.join("1"), acts.beside("file")).unwrap();
    let run = run.to_str().unwrap();
    let file = format!("{run}/1");
    for path in [&quarantine, run, "link", "file", &file] {
        let words = ["apply", "remove", path, "tree", "--execute", "--quarantine", "aside"];
        let (out, err) = acts.ends(&words, 3);
        assert!(err.contains("not searched"), "{path}: {out}{err}");
        assert!(out.contains("removed 0 names"), "{path}: {out}{err}");
        let (out, err) = acts.ends(&["find", path, "tree"], 3);
        assert!(err.contains("not searched") && !out.contains("same"), "{path}: {out}{err}");
    }
    fs::create_dir(acts.path("links")).unwrap();
    symlink(run, acts.path("links/to")).unwrap();
    symlink(&file, acts.path("links/one")).unwrap();
    let out = acts.runs(&["apply", "remove", "tree", "--follow", "--execute"]);
    assert!(out.contains("removed 0 names") && acts.has("a"), "{out}");
    let (_, err) = acts.ends(&["find", &quarantine], 2);
    assert!(err.contains("not searched"), "{err}");
}

/// As one that was made by an older version, or by hand.
#[test]
fn a_plan_keeps_nothing_that_is_in_a_quarantine() {
    let acts = two();
    acts.runs(&["plan", "tree", "-o", "plan"]);
    let aside = acts.beside("tree/.dupes-quarantine-7");
    fs::create_dir(&aside).unwrap();
    fs::rename(acts.path("a"), aside.join("a")).unwrap();
    let plan = fs::read_to_string(acts.beside("plan")).unwrap();
    let plan = plan.replace("\"path\":\"a\"", "\"path\":\".dupes-quarantine-7/a\"");
    fs::write(acts.beside("plan"), plan).unwrap();
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert!(code == 3 && said.contains("in a quarantine"), "{said}");
    assert!(acts.has("b"));
}

#[test]
fn what_was_moved_is_no_copy_that_stays() {
    for (to, other) in [("tree/dups", "tree"), ("tree", "tree")] {
        let acts = Acts::with(&[("x/a", "same"), ("x/b", "same"), ("y/c", "other")]);
        fs::create_dir(acts.path("dups")).unwrap();
        let words = ["apply", "move", other, "--to", to, "--execute"];
        let (out, err) = acts.ends(&words, 0);
        assert!(err.contains("neither goes nor stays"), "{out}{err}");
        let after = acts.manifest();
        assert!(acts.has("x/a"), "{out}{err}");
        for _ in 0..2 {
            let out = acts.runs(&words);
            assert!(out.contains("moved 0 names"), "{out}");
            assert_eq!(acts.manifest(), after, "{out}");
        }
        // By a report and a plan of before, too.
        acts.runs(&["scan", "tree"]);
        acts.runs(&["plan", "tree", "-o", "plan"]);
        for source in [&["--report"][..], &["--plan", "plan"]] {
            let words = [&["apply", "move", "--to", to, "--execute"], source].concat();
            let (out, err) = acts.ends(&words, 0);
            assert!(out.contains("moved 0 names"), "{out}{err}");
            assert_eq!(err.matches("neither goes nor stays").count(), 1, "{err}");
            assert_eq!(acts.manifest(), after, "{out}");
        }
    }
}

#[test]
fn a_folder_above_what_is_moved_takes_it_in() {
    let acts = Acts::with(&[("x/a", "same"), ("x/b", "same")]);
    let out = acts.runs(&["apply", "move", "tree/x", "--to", "tree", "--execute"]);
    assert!(out.contains("moved 1 name"), "{out}");
    assert!(acts.has("x/a") && acts.has("b"));
}

#[test]
fn a_folder_that_stayed_keeps_what_is_twice_in_it() {
    for action in [&["remove"][..], &["move", "--to", "moved"]] {
        let acts = Acts::new();
        fs::create_dir(acts.beside("moved")).unwrap();
        for name in ["A/x", "A/y", "B/x", "B/y"] {
            acts.write(name, "same");
        }
        let words = [action, &["tree", "--folders"]].concat();
        let (_, said) = acts.apply(&words);
        assert!(said.contains(" 1 name") && !acts.has("B"), "{said}");
        let after = acts.manifest();
        for _ in 0..2 {
            let (code, said) = acts.apply(&words);
            assert!(code == 0 && said.contains(" 0 names"), "{said}");
            assert_eq!(acts.manifest(), after, "{said}");
        }
        acts.runs(&["plan", "tree", "--folders", "-o", "plan"]);
        let (_, said) = acts.apply(&[action, &["--plan", "plan"]].concat());
        assert_eq!(acts.manifest(), after, "{said}");
        // For one more of its kind it may go, as one.
        for name in ["0/x", "0/y"] {
            acts.write(name, "same");
        }
        for count in [" 1 name", " 0 names"] {
            let (_, said) = acts.apply(&words);
            assert!(said.contains(count) && acts.has("0/y") && !acts.has("A"), "{said}");
        }
    }
    // Nobody compares it with anything any more.
    let acts = Acts::with(&[("A/x", "same"), ("A/y", "same"), ("B/x", "same"), ("B/y", "same")]);
    acts.apply(&["remove", "tree", "--folders"]);
    acts.runs(&["purge-quarantine", "--yes"]);
    acts.apply(&["remove", "tree", "--folders"]);
    assert!(acts.has("A/x") && !acts.has("A/y"));
}

#[test]
fn a_file_as_reference_is_that_and_nothing_beside_it() {
    let acts = Acts::with(&[("keep", "same"), ("x", "same"), ("r/y", "same"), ("r/z", "same")]);
    for paths in [&["tree/r"][..], &["tree/r", "tree/x"], &["tree"]] {
        let words = [&["apply", "remove", "--reference", "tree/keep"], paths].concat();
        let out = acts.runs(&words);
        let count = [2, 3, 3][paths.len() - 1 + usize::from(paths == ["tree"]) * 2];
        assert!(out.contains(&format!("would remove {count} names")), "{paths:?}: {out}");
        assert!(!out.contains("remove tree/keep"), "{out}");
    }
    let (code, said) = acts.apply(&["remove", "tree", "--reference", "tree/keep"]);
    assert!(code == 0 && said.contains("removed 3 names") && acts.has("keep"), "{said}");
    // A folder is a reference with all that is in it, also where a file of it is given.
    let acts = Acts::with(&[("k/x", "same"), ("k/y", "same")]);
    let (_, said) = acts.apply(&["remove", "tree/k/y", "--reference", "tree/k"]);
    assert!(acts.has("k/x") && acts.has("k/y"), "{said}");
}

#[test]
fn a_plan_that_is_no_file_is_refused_at_once() {
    let acts = two();
    mknodat(CWD, acts.beside("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (_, err) = acts.ends(&["apply", "remove", "--plan", "fifo"], 2);
    assert!(err.contains("fifo is no regular file"), "{err}");
    let (_, err) = acts.ends(&["apply", "remove", "--plan", "-"], 1);
    assert!(err.contains("./-"), "{err}");
    let (_, err) = acts.ends(&["plan", "tree", "-o", "-"], 1);
    assert!(err.contains("./-") && !acts.beside("-").exists(), "{err}");
}

#[test]
fn nothing_is_asked_where_there_is_nothing_to_delete() {
    let acts = Acts::with(&[("a", "one"), ("b", "two")]);
    let out = acts.runs(&["apply", "remove", "tree", "--execute", "--no-undo"]);
    assert!(out.contains("deleted 0 names"), "{out}");
}

#[test]
fn a_path_that_never_was_is_not_taken_for_done() {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c/in/d", "same")]);
    acts.runs(&["plan", "tree", "-o", "plan"]);
    let plan = fs::read_to_string(acts.beside("plan")).unwrap();
    fs::write(acts.beside("other"), plan.replace("\"path\":\"b\"", "\"path\":\"never\"")).unwrap();
    for more in [&[][..], &["--execute"]] {
        let words = [&["apply", "remove", "--plan", "other"], more].concat();
        let (out, err) = acts.ends(&words, 3);
        assert!(err.contains("tree/never: left as it is: is not there"), "{out}{err}");
        assert!(out.contains("1 is left as it is"), "{out}{err}");
    }
    // What we have taken away is as it was wanted.
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert!(code == 0 && said.contains("1 is gone, linked or shared already"), "{said}");
    let (code, said) = acts.apply(&["remove", "--plan", "plan"]);
    assert!(code == 0 && said.contains("2 are gone, linked or shared already"), "{said}");
}

#[test]
fn sums_are_of_what_is_there_whatever_a_plan_says() {
    for value in ["1000000000000000000", "18446744073709551615"] {
        let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "same")]);
        for name in ["f/x", "g/x"] {
            acts.write(name, "more");
        }
        acts.runs(&["plan", "tree", "--folders", "-o", "plan"]);
        let plan = fs::read_to_string(acts.beside("plan")).unwrap();
        let lines = plan.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let victims = line["victims"].as_array_mut();
            victims
                .into_iter()
                .flatten()
                .for_each(|it| it["frees"] = value.parse::<u64>().unwrap().into());
            format!("{line}\n")
        });
        fs::write(acts.beside("plan"), lines.collect::<String>()).unwrap();
        for more in [&[][..], &["--execute"]] {
            let words = [&["apply", "remove", "--plan", "plan", "--json"], more].concat();
            let out = acts.runs(&words);
            let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
            let freed = end["freed_by_purge"].as_u64().unwrap();
            assert!(freed < 1 << 20, "{value}: {out}");
        }
    }
}

#[test]
fn a_quarantine_is_for_what_is_removed() {
    for action in ["hardlink", "symlink", "reflink", "move"] {
        let acts = two();
        let before = manifest(&acts.tree());
        let words =
            ["apply", action, "tree", "--execute", "--quarantine", "aside", "--to", "aside"];
        let words = if action == "move" { &words[..] } else { &words[..6] };
        let (_, err) = acts.ends(words, 1);
        assert!(err.contains("--quarantine is where removed files are put"), "{err}");
        assert_eq!(manifest(&acts.tree()), before);
    }
    // Set for good, it is for those that have one.
    let acts = two();
    let mut command = acts.command(&["apply", "hardlink", "tree", "--execute"]);
    let output = command.env("DUPES_QUARANTINE", "aside").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(acts.inode("a"), acts.inode("b"));
}

#[test]
fn a_folder_of_journals_that_is_not_there_is_an_error() {
    let acts = two();
    let commands: [&[&str]; 5] =
        [&["undo"], &["recover", "finish"], &["purge-quarantine"], &["log"], &["undo", "1"]];
    for words in commands {
        let (out, err) = acts.ends(&[words, &["--journal", "nowhere"]].concat(), 2);
        assert!(err.contains("nowhere: there is no such folder"), "{words:?}: {out}{err}");
        assert!(!acts.beside("nowhere").exists(), "{words:?}");
    }
    acts.runs(&["purge-quarantine"]);
    acts.runs(&["recover", "finish"]);
    // Who begins one makes it.
    acts.runs(&["apply", "hardlink", "tree", "--execute", "--journal", "nowhere"]);
    acts.runs(&["undo", "--journal", "nowhere"]);
}

#[test]
fn what_a_report_has_and_is_not_so_any_more_is_counted() {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "same")]);
    acts.runs(&["scan", "tree"]);
    fs::remove_file(acts.path("b")).unwrap();
    acts.write("c", "longer");
    let (out, err) = acts.ends(&["apply", "remove", "--report"], 3);
    assert!(err.contains("tree/b: left as it is"), "{err}");
    assert!(out.contains("2 are left as they are"), "{out}{err}");
}

// ---------------------------------------------------------------- links of before

/// The name of the run that was just made, by what it said.
fn id_of(said: &str) -> String {
    let id = said.split("dupes undo ").nth(1).unwrap_or_else(|| panic!("{said}"));
    id.split_whitespace().next().unwrap().to_owned()
}

/// `b/x` is a symbolic link to `a/x` by a run of this name, and `c/x` is a copy of that.
fn a_link_and_a_copy() -> (Acts, String) {
    linked_and_copied("symlink")
}

fn linked_and_copied(action: &str) -> (Acts, String) {
    let acts = Acts::with(&[("a/x", "same"), ("b/x", "same")]);
    let (code, said) = acts.apply(&[action, "tree"]);
    assert_eq!(code, 0, "{said}");
    acts.write("c/x", "same");
    (acts, id_of(&said))
}

#[test]
fn what_a_symbolic_link_of_ours_leads_to_does_not_go() {
    for how in [&["remove"][..], &["move", "--to", "moved"], &["remove", "--folders"]] {
        let (acts, id) = a_link_and_a_copy();
        fs::create_dir(acts.beside("moved")).unwrap();
        // The folder, and what is in it.
        let keep = ["", "/**"].map(|end| format!("path:{}{end}", acts.path("c").display()));
        let words = [how, &["--keep", &keep[0], "--keep", &keep[1], "tree"]].concat();
        let link = acts.path("b/x");
        let why = format!("{} leads there", link.display());
        let before = acts.manifest();
        let (out, err) = acts.ends(&[&["apply"], &words[..]].concat(), 3);
        assert!(out.contains(" 0 names"), "{how:?}: {out}{err}");
        for said in [err, acts.apply(&words).1] {
            assert!(said.contains(&why), "{how:?}: {said}");
            assert!(said.contains(&format!("dupes undo {id} first")), "{how:?}: {said}");
        }
        assert_eq!(acts.manifest(), before, "{how:?}");
        // As a file that stays it does for the others.
        let (code, said) = acts.apply(&["remove", "tree/a", "tree/c"]);
        assert!(code == 0 && !acts.has("c/x") && acts.read("b/x") == "same", "{said}");
        acts.runs(&["undo"]);
        // A link that leads elsewhere by now is somebody else's.
        fs::remove_file(&link).unwrap();
        symlink("elsewhere", &link).unwrap();
        let (code, said) = acts.apply(&words);
        assert!(code == 0 && !acts.has("a/x"), "{how:?}: {said}");
        // Nor is one that was taken back.
        let (acts, id) = a_link_and_a_copy();
        fs::create_dir(acts.beside("moved")).unwrap();
        acts.runs(&["undo", &id]);
        let words = [how, &["tree"]].concat();
        let (code, said) = acts.apply(&words);
        assert!(code == 0 && !acts.has("c/x"), "{how:?}: {said}");
    }
}

#[test]
fn a_link_is_undone_by_any_file_that_has_stayed_for_its_bytes() {
    for action in ["symlink", "hardlink"] {
        let acts = Acts::with(&[("a/x", "same"), ("b/x", "same")]);
        let before = acts.manifest();
        let (code, said) = acts.apply(&[action, "tree"]);
        assert_eq!(code, 0, "{said}");
        let id = id_of(&said);
        acts.write("c/x", "same");
        acts.write("d/x", "same");
        // It is known by this that the one in `c` has stayed.
        let (code, said) = acts.apply(&["remove", "tree/c", "tree/d"]);
        assert_eq!(code, 0, "{said}");
        fs::remove_file(acts.path("a/x")).unwrap();
        if action == "hardlink" {
            // The link is no copy either by now.
            acts.write("b/x", "other");
            acts.ends(&["undo", &id], 3);
            assert_eq!(acts.read("b/x"), "other");
            continue;
        }
        acts.write("c/x", "SAME");
        let (_, err) = acts.ends(&["undo", &id], 3);
        assert!(err.contains("the file that stays") && err.contains("a/x"), "{err}");
        acts.write("c/x", "same");
        acts.runs(&["undo", &id]);
        assert_eq!(acts.manifest()[Path::new("b/x")], before[Path::new("b/x")]);
    }
}

/// The one that is made for it may be the only one by then.
#[test]
fn a_link_that_is_undone_by_another_file_is_so_whenever_it_is_killed() {
    if !can_inject() {
        return;
    }
    let mut kills = 0;
    let calls = ["renameat2", "unlinkat", "fsync", "fdatasync", "fchmod"];
    for (action, call) in
        ["symlink", "hardlink"].into_iter().flat_map(|it| calls.map(|call| (it, call)))
    {
        for when in 1.. {
            let (acts, id) = linked_and_copied(action);
            acts.write("d/x", "same");
            let (code, said) = acts.apply(&["remove", "tree/c", "tree/d"]);
            assert_eq!(code, 0, "{said}");
            fs::remove_file(acts.path("a/x")).unwrap();
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=KILL:when={when}")]);
            strace.arg(env!("CARGO_BIN_EXE_dupes"));
            let mut command = through(strace, &acts.command(&["undo", &id]));
            if in_time(call, move || command.output().unwrap()).status.success() {
                break; // so often it is not called
            }
            kills += 1;
            let what = format!("{action}, killed at the {when}. {call}");
            acts.runs(&["recover", "finish"]);
            acts.runs(&["undo", &id]);
            let all = acts.manifest();
            let all: Vec<_> = all.keys().filter_map(|path| path.to_str()).collect();
            assert_eq!(all, ["", "a", "b", "b/x", "c", "c/x", "d"], "{what}");
            let found = fs::symlink_metadata(acts.path("b/x")).unwrap();
            assert!(found.is_file() && acts.read("b/x") == "same", "{what}");
        }
    }
    assert!(kills > 5, "{kills}");
}

/// Of a hard link the file that stayed has another name: the link.
#[test]
fn a_hard_link_whose_other_name_is_gone_is_undone_by_its_own_bytes() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    fs::set_permissions(acts.path("b"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = acts.manifest();
    let (code, said) = acts.apply(&["hardlink", "tree", "--allow-differing", "mode"]);
    assert_eq!(code, 0, "{said}");
    fs::remove_file(acts.path("a")).unwrap();
    assert_ne!(acts.manifest()[Path::new("b")], before[Path::new("b")]);
    acts.runs(&["undo"]);
    assert_eq!(acts.manifest()[Path::new("b")], before[Path::new("b")]);
}

#[test]
fn a_run_that_can_not_be_taken_back_is_not_all_that_undo_knows() {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c/x", "more"), ("d/x", "more")]);
    let (_, said) = acts.apply(&["remove", "tree/a", "tree/b"]);
    let first = id_of(&said);
    let (_, said) = acts.apply(&["symlink", "tree/c", "tree/d"]);
    let last = id_of(&said);
    fs::remove_file(acts.path("c/x")).unwrap();
    for _ in 0..2 {
        let (_, err) = acts.ends(&["undo"], 3);
        assert!(err.contains("the file that stays"), "it says why: {err}");
        let words = format!("nothing of {last} could be taken back");
        assert!(err.contains(&words), "{err}");
        assert!(err.contains(&format!("dupes undo {first} takes back the one before it")), "{err}");
    }
    acts.runs(&["undo", &first]);
    assert!(acts.has("b"));
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("dupes log lists what was done"), "{err}");
}

/// Of a run that was interrupted or given up: a file, a copy of one, and an empty one.
#[test]
fn what_a_run_has_put_aside_neither_goes_nor_stays() {
    let aside = ".dupes-20261119-224200-0a1b2c-1";
    let acts = Acts::with(&[
        (&format!("a/{aside}"), "same"),
        ("a/x", "same"),
        (&format!("b/{aside}-new"), "same"),
        ("b/.dupes-notes", "same"),
        ("c/more", "more"),
        (&format!("c/{aside}"), ""),
        ("d/more", "more"),
        (&format!("d/{aside}"), ""),
    ]);
    acts.runs(&["scan", "tree"]);
    assert!(acts.runs(&["find", "tree"]).contains(aside), "it is there twice");
    let words = "is what an interrupted run of dupes has put aside";
    for subject in [&["tree"][..], &["tree", "--folders", "--min-size", "0"], &["--report"]] {
        let (out, err) = acts.ends(&[&["apply", "remove"], subject].concat(), 0);
        assert!(out.contains("would remove 2 names;") && !out.contains(aside), "{out}{err}");
        assert!(out.contains("b/.dupes-notes  ") && out.contains("d/more  "), "{out}");
        assert!(err.contains(words), "{err}");
    }
    // Nor by a plan that somebody else has made.
    acts.runs(&["plan", "tree", "-o", "plan"]);
    let plan = acts.beside("plan");
    let text = fs::read_to_string(&plan).unwrap();
    for (name, other) in [("a/x", format!("a/{aside}")), ("b/.dupes-notes", format!("b/{aside}"))] {
        fs::rename(acts.path(name), acts.path(&other)).unwrap();
        fs::write(&plan, text.replace(name, &other)).unwrap();
        let before = acts.manifest();
        let (_, err) = acts.ends(&["apply", "remove", "--plan", "plan", "--execute"], 3);
        assert!(err.contains(words), "{err}");
        assert_eq!(acts.manifest()[Path::new(&other)], before[Path::new(&other)]);
        fs::rename(acts.path(&other), acts.path(name)).unwrap();
    }
}

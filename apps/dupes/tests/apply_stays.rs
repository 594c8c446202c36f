//! What stays, whoever has made the plan and however it is written: what lies below a reference, in a quarantine, or is
//! protected; and what has no copy below another path.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use acts::{Acts, manifest};
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
fn a_reference_that_has_another_path_since_is_one() {
    let acts = two();
    let top = acts.tree().canonicalize().unwrap();
    fs::rename(acts.path("b"), acts.path("c")).unwrap();
    let top = top.to_str().unwrap();
    edit(&acts, |lines| {
        let mut above = lines[0]["bases"][0].clone();
        let found = fs::metadata(top).unwrap();
        (above["path"], above["inode"]) = (top.into(), found.ino().into());
        lines[0]["bases"][1]["reference"] = true.into();
        lines[0]["bases"].as_array_mut().unwrap().push(above);
        lines[1]["victims"][0]["names"][0] = json!({"base": 2, "path": "c/x"});
    });
    refused(&acts, "would touch what lies below a reference: nothing was done");
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

// ---------------------------------------------------------------- what is a reference

fn three() -> Acts {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

#[test]
fn what_lies_below_a_reference_is_never_touched() {
    let seen = |acts: &Acts, name: &str| {
        let found = fs::symlink_metadata(acts.beside(name)).unwrap();
        (found.ino(), found.nlink(), found.ctime(), found.ctime_nsec())
    };
    for action in ["remove", "move", "hardlink", "symlink"] {
        let words = match action {
            "move" => vec![action, "--to", "moved"],
            _ => vec![action],
        };
        let acts = three();
        acts.write("../ref/z", "same");
        acts.write("../ref/zz", "same");
        let before = manifest(&acts.beside("ref"));
        let files = ["ref", "ref/z", "ref/zz"].map(|name| seen(&acts, name));
        let (code, said) = acts.apply(&[&words[..], &["tree", "--reference", "ref"]].concat());
        // What hard links lead to would change: the next test.
        assert_eq!(code, if action == "hardlink" { 3 } else { 0 }, "{action}: {said}");
        let stays = |name: &str| fs::symlink_metadata(acts.path(name)).is_ok_and(|it| it.is_file());
        for name in ["a", "b", "x/c"] {
            assert_eq!(stays(name), action == "hardlink", "{action}, {name}: {said}");
        }
        assert!(acts.has("d"));
        assert_eq!(manifest(&acts.beside("ref")), before, "{action}: {said}");
        assert_eq!(["ref", "ref/z", "ref/zz"].map(|name| seen(&acts, name)), files, "{action}");
        // A reference within a root.
        let acts = three();
        let file = seen(&acts, "tree/x/c");
        let (_, said) = acts.apply(&[&words[..], &["tree", "--reference", "tree/x"]].concat());
        assert_eq!(seen(&acts, "tree/x/c"), file, "{action}: {said}");
    }
}

#[test]
fn no_hard_link_leads_to_a_file_of_a_reference() {
    for reference in ["tree/x", "tree/x/c"] {
        let acts = three();
        let all = ["hardlink", "tree", "--reference", reference];
        let dry = acts.ends(&[&["apply"], &all[..]].concat(), 3).1;
        acts.runs(&["plan", "tree", "--reference", reference, "-o", "plan"]);
        let said = [dry, acts.apply(&all).1, acts.apply(&["hardlink", "--plan", "plan"]).1];
        for said in said {
            assert_eq!(said.matches("is a reference, which a hard link").count(), 2, "{said}");
        }
        assert_eq!(fs::metadata(acts.path("x/c")).unwrap().nlink(), 1);
        assert_ne!(acts.inode("a"), acts.inode("b"));
        // One that stays and is none does as well.
        let (code, said) = acts.apply(&[&all[..], &["--keep-copies", "2"]].concat());
        assert_eq!(code, 0, "{said}");
        assert_eq!(acts.inode("a"), acts.inode("b"), "{said}");
        assert_eq!(fs::metadata(acts.path("x/c")).unwrap().nlink(), 1, "{said}");
    }
}

// ---------------------------------------------------------------- what is protected

/// A copy that would go, in `b` and by a link to it.
fn copies() -> Acts {
    let acts = Acts::with(&[("a/1", "same"), ("b/keep.txt", "same"), ("b/none", "")]);
    symlink("b", acts.path("lb")).unwrap();
    acts.runs(&["scan", "tree"]);
    acts.runs(&["plan", "tree/a", "tree/b", "-o", "plan"]);
    acts
}

const SOURCES: [&[&str]; 3] = [&["tree/a", "tree/b"], &["--report"], &["--plan", "plan"]];

#[test]
fn whatever_a_pattern_names_stays_with_all_below_it() {
    let patterns = [
        "keep.txt",
        "*.txt",
        "b",
        "tree/b",
        "tree/b/",
        "./tree/b/**",
        "tree/b/keep.txt",
        "**/b/*",
        "TOP/b",
        "TOP/b/",
        "TOP/b/**",
        "TOP/*/keep.txt",
        "TOP/lb",
        "TOP/lb/**",
        "tree/lb/*",
        "TOP/a/../b",
        "TOP",
    ];
    for source in SOURCES {
        let acts = copies();
        let (top, before) = (acts.tree().canonicalize().unwrap(), acts.manifest());
        for pattern in patterns {
            let pattern = pattern.replace("TOP", top.to_str().unwrap());
            let (code, said) = acts.apply(&[&["remove", "--protect", &pattern], source].concat());
            assert_eq!(code, 0, "{source:?}, {pattern}: {said}");
            assert!(acts.has("b/keep.txt"), "{source:?}, {pattern}: {said}");
            // The other one may go for it.
            if !acts.has("a/1") {
                acts.runs(&["undo"]);
            }
            assert_eq!(acts.manifest(), before, "{source:?}, {pattern}: {said}");
        }
    }
}

#[test]
fn a_pattern_that_protects_nothing_lets_nothing_go() {
    for source in SOURCES {
        let acts = copies();
        let before = acts.manifest();
        for pattern in ["kept.txt", "b/**", "b/keep.txt", "/nowhere/b", "lb", "tree/b/*.raw"] {
            // Beside one that does.
            let words = ["remove", "--protect", pattern, "--protect", "/**/none"];
            let (code, said) = acts.apply(&[&words[..], source].concat());
            let is_said = said.contains(&format!("--protect {pattern}: none of the files"));
            assert!(code == 1 && is_said, "{source:?}, {pattern}: {said}");
            assert!(said.contains("nothing was done"), "{source:?}, {pattern}: {said}");
            assert_eq!(acts.manifest(), before, "{source:?}, {pattern}: {said}");
            let (_, err) = acts.ends(&[&["apply"], &words[..], source].concat(), 0);
            assert!(err.contains("--execute would refuse"), "{source:?}, {pattern}: {err}");
        }
    }
    let acts = copies();
    let words = ["plan", "tree/a", "tree/b", "--protect", "kept.txt", "-o", "plan"];
    let (_, err) = acts.ends(&words, 0);
    assert!(err.contains("--protect kept.txt: none of the files"), "{err}");
    // What is there is not mistyped, whatever is in it; and where nothing goes nothing can be meant.
    for pattern in ["tree/lb/none", "aside/**"] {
        acts.runs(&["apply", "remove", "tree/a", "tree/b", "--protect", pattern]);
    }
    let (code, said) = acts.apply(&["remove", "tree/a", "--protect", "kept.txt"]);
    assert_eq!(code, 0, "{said}");
    for wrong in ["", "[", "nowhere/../b"] {
        acts.ends(&["apply", "remove", "tree", "--protect", wrong, "--execute"], 1);
    }
    assert!(acts.has("b/keep.txt"));
}

#[test]
fn a_folder_with_something_protected_in_it_does_not_go() {
    let acts =
        Acts::with(&[("a/d/1", "one"), ("a/d/none", ""), ("b/d/1", "one"), ("b/d/none", "")]);
    for folder in ["a/d/empty", "b/d/empty"] {
        fs::create_dir(acts.path(folder)).unwrap();
    }
    let before = acts.manifest();
    acts.runs(&["plan", "tree/a", "tree/b", "--folders", "-o", "plan"]);
    for pattern in ["tree/b/d/none", "tree/b/d/empty", "tree/b/d/1", "tree/b/d", "tree/b/*/empty"] {
        for source in
            [&["tree/a", "tree/b", "--folders", "--keep", "path:**/a/d"][..], &["--plan", "plan"]]
        {
            let (_, said) = acts.apply(&[&["remove", "--protect", pattern], source].concat());
            assert!(acts.has("b/d/empty"), "{source:?}, {pattern}: {said}");
            assert!(!said.contains("--protect"), "{source:?}, {pattern}: {said}");
            if !acts.has("a/d") {
                acts.runs(&["undo"]);
            }
            assert_eq!(acts.manifest(), before, "{source:?}, {pattern}: {said}");
        }
    }
}

// ---------------------------------------------------------------- what has no copy below another path

#[test]
fn an_isolated_file_goes_only_for_one_below_another_path() {
    let files = ["A/1", "A/2", "B/1", "B/2"];
    let rows: [(&[&str], &[&str]); 5] = [
        (&[], &["B/1", "B/2"]),
        (&["--keep", "path:**/B/*"], &["A/1", "A/2"]),
        (&["--keep-copies", "2"], &["B/1", "B/2"]),
        // One below each stays: any other one has it.
        (&["--keep-copies", "2", "--keep", "name:1"], &["A/2", "B/2"]),
        (&["--reference", "tree/C"], &["A/1", "A/2", "B/1", "B/2"]),
    ];
    for (more, expected) in rows {
        for by_plan in [false, true] {
            let acts = Acts::with(&files.map(|name| (name, "same")));
            acts.write("C/3", if more.contains(&"tree/C") { "same" } else { "other" });
            let all = [&["tree/A", "tree/B", "--isolate"], more].concat();
            let (code, said) = if by_plan {
                acts.runs(&[&["plan", "-o", "plan"], &all[..]].concat());
                acts.apply(&["remove", "--plan", "plan"])
            } else {
                acts.apply(&[&["remove"], &all[..]].concat())
            };
            assert_eq!(code, 0, "{more:?}: {said}");
            let gone: Vec<&str> = files.into_iter().filter(|name| !acts.has(name)).collect();
            assert_eq!(gone, expected, "{more:?}: {said}");
        }
    }
    // Files that are given are paths of their own; one with names below two is below both.
    let acts = Acts::with(&[("A/1", "same"), ("A/2", "same"), ("A/3", "same")]);
    let (_, said) = acts.apply(&["remove", "--isolate", "tree/A/1", "tree/A/3"]);
    assert!(acts.has("A/1") && acts.has("A/2") && !acts.has("A/3"), "{said}");
    fs::create_dir(acts.path("B")).unwrap();
    fs::hard_link(acts.path("A/1"), acts.path("B/1")).unwrap();
    let (_, said) = acts.apply(&["remove", "--isolate", "tree/A", "tree/B"]);
    assert!(acts.has("A/1") && acts.has("B/1") && !acts.has("A/2"), "{said}");
    acts.ends(&["apply", "remove", "--isolate", "--folders", "tree/A", "tree/B"], 1);
}

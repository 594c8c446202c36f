//! What is said wrongly never falls back to something that is done: unknown words, words that contradict each other,
//! and words that would have no effect are refused, and nothing is changed.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::symlink;

use acts::Acts;

fn copies() -> Acts {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts.runs(&["scan", "tree"]);
    acts.runs(&["plan", "tree", "-o", "plan"]);
    acts
}

/// Refused as an error of usage, with the words that are wrong; nothing is done, and no journal begun.
#[track_caller]
fn refused(acts: &Acts, words: &[&str], wrong: &str) {
    let (before, moved) = (acts.manifest(), acts::manifest(&acts.beside("moved")));
    let (out, err) = acts.ends(words, 1);
    assert!(err.contains(wrong), "{words:?}: {err}");
    assert_eq!(out, "", "{words:?}");
    assert_eq!(acts.manifest(), before, "{words:?}: {err}");
    assert_eq!(acts::manifest(&acts.beside("moved")), moved, "{words:?}: {err}");
    assert!(!acts.beside("data/dupes/journal").exists(), "{words:?}: {err}");
}

#[test]
fn wrong_words_are_refused_and_nothing_is_done() {
    let acts = copies();
    let cases: [(&[&str], &str); 25] = [
        (&["apply", "delete", "tree", "--execute"], "delete"),
        (&["apply", "rem", "tree", "--execute"], "rem"),
        (&["apply", "tree", "--execute"], "tree"),
        (&["apply", "--execute"], "ACTION"),
        (&["apply", "remove", "--execute"], "PATH"),
        (&["plan", "-o", "other"], "a PATH, or --report for the last scans (apply takes --plan"),
        (&["apply", "remove", "tree", "--executed"], "--executed"),
        (&["apply", "remove", "tree", "--execute", "--delete"], "--delete"),
        (&["apply", "remove", "tree", "--execute", "-d"], "-d"),
        (&["apply", "remove", "tree", "--execute=yes"], "--execute"),
        (&["apply", "remove", "tree", "--execute", "--link"], "--link"),
        (&["apply", "hardlink", "tree", "--execute", "--no-undo", "--yes"], "--no-undo"),
        (&["apply", "symlink", "tree", "--execute", "--no-undo", "--yes"], "--no-undo"),
        (&["apply", "move", "tree", "--execute"], "--to"),
        (&["apply", "remove", "tree", "--execute", "--to", "moved"], "--to"),
        (&["apply", "hardlink", "tree", "--execute", "--to", "moved"], "--to"),
        (
            &["apply", "remove", "tree", "--execute", "--allow-differing", "mode"],
            "--allow-differing",
        ),
        (&["apply", "hardlink", "tree", "--execute", "--allow-differing", "all"], "all"),
        (&["apply", "hardlink", "symlink", "--execute", "tree", "--symlink"], "--symlink"),
        (&["apply", "remove", "tree", "--execute", "--keep", "latest"], "latest"),
        (&["apply", "remove", "tree", "--execute", "--keep", "path:["], "path:["),
        (&["apply", "remove", "tree", "--execute", "--keep-copies", "0"], "--keep-copies"),
        (&["apply", "remove", "tree", "--execute", "--hash", "xxh3"], "--hash"),
        (&["apply", "remove", "tree", "--execute", "--stdin"], "--stdin"),
        (&["recover", "--execute"], "--execute"),
    ];
    for (words, wrong) in cases {
        refused(&acts, words, wrong);
    }
}

/// A plan says what goes and what stays, and a report what was scanned: to say otherwise beside it would do nothing,
/// and what was meant to stay would go.
#[test]
fn words_that_a_plan_or_a_report_would_not_heed_are_refused() {
    let acts = copies();
    let filters: [&[&str]; 11] = [
        &["--exclude", "b"],
        &["--exclude-regex", "b"],
        &["--name", "c"],
        &["--regex", "c"],
        &["--max-size", "1"],
        &["--depth", "1"],
        &["--no-hidden"],
        &["--ignore-files"],
        &["--one-file-system"],
        &["--follow"],
        &["--isolate"],
    ];
    let choices: [&[&str]; 3] =
        [&["--keep", "deepest"], &["--keep-copies", "2"], &["--min-size", "1k"]];
    for action in ["remove", "hardlink"] {
        for words in filters {
            refused(
                &acts,
                &[&["apply", action, "--report", "--execute"], words].concat(),
                words[0],
            );
        }
        for words in filters.into_iter().chain(choices) {
            let all = [&["apply", action, "--plan", "plan", "--execute"], words].concat();
            refused(&acts, &all, words[0]);
        }
        for source in [&["--report"][..], &["--plan", "plan"]] {
            for more in [&["tree"][..], &["--reference", "tree/x"]] {
                let all = [&["apply", action, "--execute"], source, more].concat();
                refused(&acts, &all, "cannot be used with");
            }
        }
        let both = ["apply", action, "--plan", "plan", "--report", "--execute"];
        refused(&acts, &both, "cannot be used with");
    }
    for words in filters {
        let plan = ["plan", "--report", "-o", "other"];
        refused(&acts, &[&plan, words].concat(), words[0]);
    }
    assert!(!acts.beside("other").exists());
}

/// Whatever else is said, and whoever has made the plan.
#[test]
fn what_is_protected_stays_by_a_plan_and_a_report_too() {
    for source in [&["tree"][..], &["--report"], &["--plan", "plan"]] {
        let acts = copies();
        let (code, said) = acts.apply(&[&["remove", "--protect", "**/x/*"], source].concat());
        assert_eq!(code, 0, "{source:?}: {said}");
        assert!(acts.has("x/c"), "{source:?}: {said}");
        assert!(!acts.has("b"), "{source:?}: others go: {said}");
    }
}

// ---------------------------------------------------------------- what is said

/// What was not done, because of what, and where that is.
#[test]
fn a_reason_names_what_is_not_as_it_was() {
    let acts = copies();
    acts.apply(&["remove", "tree"]);
    fs::rename(acts.path("x"), acts.path("y")).unwrap();
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("takes back the last run, "), "{err}");
    let shown = acts.path("x").canonicalize().unwrap_or(acts.path("x"));
    assert!(
        err.contains(&format!("the folder {} is not there any more", shown.display())),
        "{err}"
    );
    let acts = copies();
    acts.apply(&["remove", "tree"]);
    fs::remove_dir_all(acts.quarantine()).unwrap();
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("aside/.dupes-quarantine-") && err.contains("is not there, or"), "{err}");

    let acts = copies();
    acts.apply(&["hardlink", "tree"]);
    acts.write("b", "written");
    let (_, err) = acts.ends(&["undo"], 3);
    assert!(err.contains("the file that stays, ") && err.contains("tree/a: was changed"), "{err}");
    assert!(!err.contains("make a new one"), "{err}");

    let acts = copies();
    acts.runs(&["plan", "tree", "-o", "plan"]);
    let plan = fs::read_to_string(acts.beside("plan")).unwrap();
    let plan = plan.replace("\"path\":\"b\"", "\"path\":\"../outside\"");
    fs::write(acts.beside("plan"), plan).unwrap();
    let (_, err) = acts.ends(&["apply", "remove", "--plan", "plan"], 2);
    assert!(err.contains("line 2 of the plan") && err.contains("\"../outside\""), "{err}");

    fs::write(acts.beside("file"), "").unwrap();
    let words = ["apply", "remove", "tree", "--execute", "--journal", "file"];
    let (_, err) = acts.ends(&words, 2);
    assert!(err.contains("file: is no folder"), "{err}");

    symlink("a", acts.path("link")).unwrap();
    let (_, err) = acts.ends(&["apply", "remove", "tree/a", "tree/link", "tree/b", "--follow"], 3);
    assert!(err.contains("tree/link: left as it is: is a link"), "{err}");
}

#[test]
fn folders_are_told_with_what_is_in_them() {
    let acts = Acts::new();
    for name in ["a/1", "a/2", "b/1", "b/2", "c"] {
        acts.write(name, if name.ends_with('2') { "other" } else { "same" });
    }
    acts.runs(&["plan", "tree", "--folders", "-o", "plan"]);
    let out = acts.runs(&["apply", "remove", "--plan", "plan"]);
    assert!(out.contains("would remove 2 names (1 folder with 2 files in all);"), "{out}");
    symlink("1", acts.path("a/link")).unwrap();
    let (out, err) = acts.ends(&["apply", "remove", "--plan", "plan"], 3);
    assert!(err.contains("the folder that stays has a link in it"), "{out}{err}");
}

#[test]
fn a_rule_that_holds_for_nothing_is_said() {
    let acts = copies();
    let words = ["apply", "remove", "tree", "--keep", "path:/archive/**", "--keep", "name:c"];
    let (_, err) = acts.ends(&words, 0);
    assert!(err.contains("--keep path:/archive/**: none of the files"), "{err}");
    assert!(!err.contains("name:c"), "{err}");
}

#[test]
fn who_can_not_be_told_is_told_that_it_is_done() {
    let acts = copies();
    let mut command =
        acts.command(&["apply", "remove", "tree", "--execute", "--quarantine", "aside"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("removed 2 names all the same: dupes log "), "{err}");
    assert!(!acts.has("b") && !acts.has("x/c"));
}

//! What is said wrongly never falls back to something that is done: unknown words, words that contradict each other,
//! and words that would have no effect are refused, and nothing is changed.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;

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
    let cases: [(&[&str], &str); 24] = [
        (&["apply", "delete", "tree", "--execute"], "delete"),
        (&["apply", "rem", "tree", "--execute"], "rem"),
        (&["apply", "tree", "--execute"], "tree"),
        (&["apply", "--execute"], "ACTION"),
        (&["apply", "remove", "--execute"], "PATH"),
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

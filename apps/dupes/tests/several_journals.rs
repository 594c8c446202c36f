//! Several runs, each with its journal: one that can't be read stops only those who must know all; which is the last
//! one; and what a plan that was made before still knows.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use acts::{Acts, through};
use support::{can_inject, in_time};

/// `b` was removed by the first run, `x/c` by the second: their names.
fn twice() -> (Acts, [String; 2]) {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same")]);
    let ids = ["tree/b", "tree/x"].map(|other| {
        let (code, said) = acts.apply(&["remove", "tree/a", other]);
        assert_eq!(code, 0, "{said}");
        said.trim_end().rsplit(' ').next().unwrap().to_owned()
    });
    (acts, ids)
}

fn journal(acts: &Acts, id: &str) -> PathBuf {
    acts.beside(&format!("data/dupes/journal/{id}.journal"))
}

/// With its checksum.
fn line(text: &str) -> String {
    format!("{} {text}\n", &blake3::hash(text.as_bytes()).to_hex()[..8])
}

// ---------------------------------------------------------------- one that can't be read

#[test]
fn a_journal_that_can_not_be_read_stops_only_who_must_know_it() {
    for damage in ["damaged", "newer", "unknown"] {
        let (acts, [first, second]) = twice();
        let path = journal(&acts, &second);
        let whole = fs::read_to_string(&path).unwrap();
        let text = match damage {
            "damaged" => whole.replacen("intent", "intend", 1),
            "newer" => line(r#"{"begin":{"version":2}}"#) + &whole,
            _ => whole + &line(r#"{"rolled":1}"#),
        };
        fs::write(&path, &text).unwrap();
        let word = if damage == "damaged" { "is damaged" } else { "use a newer one" };
        let (out, _) = acts.ends(&["log"], 3);
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].starts_with(&first) && lines[0].contains("done 1"), "{out}");
        assert!(lines[1].starts_with(&second) && lines[1].contains(word), "{out}");
        let (out, _) = acts.ends(&["log", "--json"], 3);
        let log: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(log["runs"][1]["id"], second.as_str(), "{log}");
        assert!(log["runs"][1]["unreadable"].as_str().unwrap().contains(word), "{log}");
        // Each of these would have to know what is in it.
        let refused: [&[&str]; 5] = [
            &["apply", "remove", "tree", "--execute"],
            &["purge-quarantine", "--yes"],
            &["undo"],
            &["undo", &second],
            &["log", &second],
        ];
        for words in refused {
            let (_, err) = acts.ends(words, 2);
            assert!(err.contains(word), "{words:?}: {err}");
        }
        assert!(acts.runs(&["log", &first]).contains("tree/b"));
        // A dry run changes nothing, and says it.
        let output = acts.run(&["apply", "remove", "tree/a", "tree/x"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{output:?}");
        acts.runs(&["undo", &first]);
        assert!(acts.has("b") && !acts.has("x/c"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "it is as it was");
    }
}

#[test]
fn what_was_interrupted_is_settled_beside_a_damaged_journal() {
    let (acts, [first, second]) = twice();
    fs::write(journal(&acts, &second), "damaged\nby\nsomebody\n").unwrap();
    let path = journal(&acts, &first);
    let text = fs::read_to_string(&path).unwrap();
    let cut: String =
        text.split_inclusive('\n').take_while(|line| !line.contains("{\"done")).collect();
    assert!(cut.contains("intent") && cut.len() < text.len());
    fs::write(&path, cut).unwrap();
    let (out, err) = acts.ends(&["recover", "roll-back"], 2);
    assert!(out.contains("settled: 1") && err.contains("is damaged"), "{out}{err}");
    assert!(acts.has("b") && !acts.has("x/c"));
}

// ---------------------------------------------------------------- which is which

/// The clock was put back between two runs: the last one is the one that was begun last.
#[test]
fn the_last_one_is_the_one_that_was_begun_last() {
    let (acts, [first, second]) = twice();
    let path = journal(&acts, &first);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, rest) = text.split_once('\n').unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&begin[9..]).unwrap();
    value["begin"]["when"] = 4_000_000_000_u64.into();
    fs::write(&path, line(&value.to_string()) + rest).unwrap();
    let out = acts.runs(&["log"]);
    assert!(out.lines().next().unwrap().starts_with(&first), "{out}");
    assert!(out.lines().nth(1).unwrap().starts_with(&second), "{out}");
    acts.runs(&["undo"]);
    assert!(acts.has("x/c") && !acts.has("b"));
    let all = acts.runs(&["undo", "--json"]);
    let events = all.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(events.into_iter().all(|event| event["id"] == first.as_str()), "{all}");
    assert!(acts.has("b"));
    assert_eq!(acts.ends(&["undo", "../journal"], 2).0, "");
}

/// Each has its own folder in the quarantine, also when they begin in one second.
#[test]
fn two_folders_of_journals_share_no_folder_of_a_quarantine() {
    let acts = Acts::with(&[("a", "same"), ("b", "same"), ("c", "same"), ("d", "same")]);
    for (journal, victim) in [("one", "tree/b"), ("other", "tree/c"), ("one", "tree/d")] {
        let (code, said) = acts.apply(&["remove", "tree/a", victim, "--journal", journal]);
        assert_eq!(code, 0, "{said}");
    }
    let quarantine = fs::read_dir(acts.quarantine()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(quarantine).unwrap().count(), 3);
    for journal in ["one", "one", "other"] {
        acts.runs(&["undo", "--journal", journal]);
    }
    assert!(["b", "c", "d"].into_iter().all(|name| acts.has(name)));
}

/// A journal in a folder that is gone after a loss of power is no journal.
#[test]
fn folders_that_are_made_for_journals_are_durable() {
    if !can_inject() {
        return;
    }
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    let log = acts.beside("calls");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-e", "trace=mkdir,mkdirat,fsync,renameat2", "-o"]).arg(&log);
    strace.arg(env!("CARGO_BIN_EXE_dupes"));
    let words = ["apply", "remove", "tree", "--execute", "--quarantine", "aside"];
    let mut command = through(strace, &acts.command(&words));
    let output = in_time("apply, traced", move || command.output().unwrap());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = fs::read_to_string(log).unwrap();
    let top = acts.beside("").canonicalize().unwrap();
    let begun = calls.lines().position(|line| line.contains("renameat2")).unwrap();
    for (made, above) in
        [("data", ""), ("data/dupes", "data"), ("data/dupes/journal", "data/dupes")]
    {
        let at = |what: &str, path: PathBuf, end: &str| {
            let words = format!("{}{end}", path.display());
            let is = |line: &&str| line.contains(what) && line.contains(&words);
            let found = calls.lines().take(begun).position(|line| is(&line));
            found.unwrap_or_else(|| panic!("no {what} of {words} before anything is done: {calls}"))
        };
        let made = at("mkdir", acts.beside(made), "\"");
        let above = if above.is_empty() { top.clone() } else { top.join(above) };
        assert!(at("fsync", above, ">)") > made, "{calls}");
    }
}

// ---------------------------------------------------------------- plans of before

/// What was put back by us was not changed by anybody.
#[test]
fn a_plan_holds_after_what_it_did_was_taken_back() {
    for action in ["remove", "move", "hardlink", "symlink"] {
        for way in ["undo", "roll-back"] {
            let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same")]);
            fs::hard_link(acts.path("b"), acts.path("b2")).unwrap();
            fs::create_dir(acts.beside("moved")).unwrap();
            acts.runs(&["plan", "tree", "-o", "plan"]);
            let mut words = vec![action, "--plan", "plan"];
            if action == "move" {
                words.extend(["--to", "moved"]);
            }
            let files = || {
                let mut all = acts.manifest();
                all.retain(|_, item| item.mode & 0o170_000 == 0o100_000);
                all
            };
            let before = files();
            for turn in 1..=3 {
                // A dry run knows what the run will know.
                let out = acts.runs(&[&["apply"], &words[..]].concat());
                assert!(out.contains(&format!("would {action} 3 names;")), "{turn}: {out}");
                let (code, said) = acts.apply(&words);
                assert_eq!(code, 0, "{action} {way} {turn}: {said}");
                assert_ne!(files(), before);
                let id = said.trim_end().rsplit(' ').next().unwrap();
                if way == "undo" {
                    acts.runs(&["undo"]);
                } else {
                    // It was killed before it had said that the last one was done.
                    let text = fs::read_to_string(journal(&acts, id)).unwrap();
                    let lines: Vec<&str> = text.split_inclusive('\n').collect();
                    let last = lines.iter().rposition(|line| line.contains("{\"done")).unwrap();
                    fs::write(journal(&acts, id), lines[..last].concat()).unwrap();
                    acts.runs(&["recover", "roll-back"]);
                }
                assert_eq!(files(), before, "{action} {way} {turn}");
            }
            // Whoever changes it then has changed it.
            acts.write("b", "SAME");
            let (code, said) = acts.apply(&words);
            assert_eq!((code, acts.read("b")), (3, "SAME".into()), "{said}");
        }
    }
}

#[test]
fn a_plan_replaces_a_plan_and_nothing_else() {
    let acts = Acts::with(&[("a", "same"), ("b", "same")]);
    for text in ["precious", "{\"precious\":1}\n", "{", "\n{\"dupes-plan\":1}\n"] {
        fs::write(acts.beside("file"), text).unwrap();
        let (_, err) = acts.ends(&["plan", "tree", "-o", "file"], 2);
        assert!(err.contains("is no plan"), "{err}");
        assert_eq!(fs::read_to_string(acts.beside("file")).unwrap(), text);
    }
    fs::write(acts.beside("file"), "").unwrap();
    for _ in 0..2 {
        acts.runs(&["plan", "tree", "-o", "file"]);
    }
    // Of a newer version.
    fs::write(acts.beside("file"), "{\"bases\":[],\"dupes-plan\":9}\n").unwrap();
    acts.runs(&["plan", "tree", "-o", "file"]);
    acts.runs(&["apply", "remove", "--plan", "file"]);
}

//! What was cut off: it is said, finished or taken back as asked, and what is not asked for is left.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::process::ExitStatusExt;

use acts::{Acts, Manifest};

const FILES: usize = 150;

fn many() -> Acts {
    let acts = Acts::new();
    for n in 0..FILES {
        acts.write(&format!("{}/{n}", n % 7), "same");
    }
    acts
}

/// All but the times of folders: those are given back only where nobody was in between.
fn files(acts: &Acts) -> Manifest {
    let mut all = acts.manifest();
    all.values_mut()
        .filter(|item| item.mode & 0o170_000 == 0o040_000)
        .for_each(|item| item.mtime = (0, 0));
    all
}

/// Killed at the `when`-th call of its kind. None: there is no strace here.
fn killed_at(acts: &Acts, call: &str, when: u32, words: &[&str]) -> Option<()> {
    let mut all = vec!["-f", "-qq", "-o", "/dev/null"];
    let (trace, inject) =
        (format!("trace={call}"), format!("inject={call}:signal=KILL:when={when}"));
    all.extend(["-e", &trace, "-e", &inject, env!("CARGO_BIN_EXE_dupes")]);
    let mut command = acts.command(&[]);
    let mut strace = std::process::Command::new("strace");
    strace.args(all).args(words).arg("--no-config").current_dir(command.get_current_dir().unwrap());
    strace.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::null());
    let Ok(output) = strace.output() else {
        eprintln!("skipped: there is no strace");
        return None;
    };
    let status = output.status;
    let was_killed = status.signal() == Some(9) || status.code() == Some(137);
    assert!(was_killed, "{status}: {}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

const APPLY: [&str; 8] =
    ["apply", "remove", "tree", "--execute", "--quarantine", "aside", "--threads", "1"];

/// As one that is killed between two batches.
#[test]
fn a_run_that_was_cut_off_between_two_actions_is_known() {
    let cut_off = || {
        let acts = many();
        let before = files(&acts);
        acts.runs(&APPLY);
        let mut journals = fs::read_dir(acts.beside("data/dupes/journal")).unwrap();
        let is_one = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "journal");
        let journal = journals.by_ref().map(|it| it.unwrap().path()).find(is_one).unwrap();
        let text = fs::read_to_string(&journal).unwrap();
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        assert!(text[end..].contains("{\"end\":true}"), "{}", &text[end..]);
        fs::write(journal, &text[..end]).unwrap();
        assert!(acts.runs(&["log"]).contains("CUT OFF"));
        (acts, before)
    };
    let words = "was cut off between two actions, 149 names done and none halfway";
    let purge = ["purge-quarantine", "--yes"];
    for next in [&APPLY[..], &["recover", "finish"], &["undo"], &purge] {
        let (acts, before) = cut_off();
        let (_, err) = acts.ends(&["apply", "remove", "tree"], 0);
        assert!(err.contains(words), "a dry run says so: {err}");
        let (_, err) = acts.ends(next, 0);
        assert!(err.contains(words), "{next:?}: {err}");
        assert_eq!(files(&acts) == before, next == ["undo"], "{next:?}");
        let (_, err) = acts.ends(&APPLY, 0);
        assert!(!err.contains("cut off"), "once: {err}");
    }
    let (acts, before) = cut_off();
    acts.runs(&["recover", "roll-back"]);
    assert!(files(&acts) == before, "all of it is taken back");
    let (_, err) = acts.ends(&["recover", "roll-back"], 0);
    assert!(err.contains("nothing was interrupted"), "{err}");
}

#[test]
fn whatever_comes_next_says_that_one_was_interrupted() {
    let acts = many();
    let before = files(&acts);
    let Some(()) = killed_at(&acts, "renameat2", 100, &APPLY) else { return };
    for words in [&APPLY[..], &["undo"], &["purge-quarantine", "--yes"]] {
        let (_, err) = acts.ends(words, 2);
        assert!(err.contains("was interrupted") && err.contains("recover"), "{err}");
    }
    assert!(acts.runs(&["log"]).contains("INTERRUPTED"));
    acts.runs(&["recover", "roll-back"]);
    assert!(files(&acts) == before, "all of it is taken back");
    acts.ends(&["recover", "finish"], 0);
    assert!(files(&acts) == before, "a second time there is nothing to do");
}

#[test]
fn a_roll_back_that_is_cut_off_is_rolled_back_by_the_next_one() {
    for way in ["roll-back", "finish"] {
        let acts = many();
        let before = files(&acts);
        let Some(()) = killed_at(&acts, "renameat2", 140, &APPLY) else { return };
        // In the middle of the second of its batches.
        killed_at(&acts, "renameat2", 100, &["recover", "roll-back"]).unwrap();
        assert!(files(&acts) != before);
        assert!(acts.runs(&["log"]).contains("INTERRUPTED"));
        acts.runs(&["recover", way]);
        assert!(files(&acts) == before, "{way}");
        assert!(!acts.runs(&["log"]).contains("INTERRUPTED"));
    }
}

/// One that is in the way of it is not finished instead.
#[test]
fn what_can_not_be_taken_back_now_is_not_finished_later() {
    let acts = many();
    let before = files(&acts);
    let Some(()) = killed_at(&acts, "renameat2", 100, &APPLY) else { return };
    // The folder of the run is not to be had for a while.
    let run = fs::read_dir(acts.quarantine()).unwrap().next().unwrap().unwrap().path();
    let away = acts.beside("away");
    fs::rename(&run, &away).unwrap();
    acts.ends(&["recover", "roll-back"], 3);
    assert!(acts.runs(&["log"]).contains("INTERRUPTED"));
    fs::rename(&away, &run).unwrap();
    acts.runs(&["recover", "finish"]);
    assert!(files(&acts) == before, "it is taken back, as was asked for first");
}

/// What nobody reads is taken back all the same.
#[test]
fn a_roll_back_whose_words_can_not_be_written_is_whole() {
    let acts = many();
    let before = files(&acts);
    let Some(()) = killed_at(&acts, "renameat2", 140, &APPLY) else { return };
    let mut command = acts.command(&["recover", "roll-back"]);
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    support::in_time("recover", move || command.output().unwrap());
    assert!(files(&acts) == before);
}

#[test]
fn an_undo_that_was_cut_off_says_what_is_left() {
    let acts = many();
    let before = files(&acts);
    acts.runs(&APPLY);
    let Some(()) = killed_at(&acts, "renameat2", 10, &["undo"]) else { return };
    let (_, err) = acts.ends(&["recover", "finish"], 0);
    assert!(err.contains("dupes undo") && err.contains("goes on"), "{err}");
    acts.runs(&["undo"]);
    assert!(files(&acts) == before);
}

#[test]
fn a_purge_that_was_cut_off_is_not_gone_on_with_unless_asked() {
    let acts = many();
    let before = files(&acts);
    acts.runs(&APPLY);
    // Before the first is unlinked.
    let Some(()) = killed_at(&acts, "unlinkat", 1, &["purge-quarantine", "--yes"]) else { return };
    acts.runs(&["recover", "roll-back"]);
    let left = acts::manifest(&acts.quarantine()).into_values();
    assert!(left.filter(|item| item.content == b"same").count() >= FILES - 2);
    acts.runs(&["undo"]);
    // The one whose call was killed may be gone: the kill comes when it returns.
    let missing = before.len() - files(&acts).len();
    assert!(missing <= 1, "{missing}");
}

/// One name of a file can be moved, for the other one there is no way: none is, and the journal can be read.
#[test]
fn a_file_of_which_one_name_can_not_be_moved_stays_with_all_of_them() {
    let acts = Acts::with(&[("a", "same"), ("x/a", "same"), ("z", "same")]);
    fs::create_dir(acts.path("y")).unwrap();
    fs::hard_link(acts.path("x/a"), acts.path("y/b")).unwrap();
    fs::create_dir(acts.beside("to")).unwrap();
    fs::write(acts.beside("to/y"), "in the way").unwrap();
    let words = ["apply", "move", "tree", "--to", "to", "--execute"];
    let (out, err) = acts.ends(&words, 3);
    assert!(
        err.contains("x/a") && err.contains("y/b") && out.contains("moved 1 name,"),
        "{out}{err}"
    );
    assert!(acts.has("x/a") && acts.has("y/b") && !acts.has("z"));
    assert!(!acts.runs(&["log"]).contains("INTERRUPTED"));
    acts.runs(&["undo"]);
    assert!(acts.has("z"));
}

#[test]
fn a_disk_that_does_not_come_back_can_be_given_up() {
    let acts = many();
    let Some(()) = killed_at(&acts, "renameat2", 100, &APPLY) else { return };
    fs::rename(acts.tree(), acts.beside("elsewhere")).unwrap();
    fs::create_dir(acts.tree()).unwrap();
    let (_, err) = acts.ends(&["recover", "finish"], 3);
    assert!(err.contains("is it mounted?"), "{err}");
    acts.write("p", "new");
    acts.write("q", "new");
    assert_eq!(acts.apply(&["remove", "tree"]).0, 2, "still open");
    acts.runs(&["recover", "give-up"]);
    let log = acts.runs(&["log"]);
    assert!(log.contains("left aside") && !log.contains("INTERRUPTED"), "{log}");
    assert_eq!(acts.apply(&["remove", "tree"]).0, 0);
}

/// On a disk that is there it is known what was never begun; the rest can still be undone.
#[test]
fn what_was_given_up_is_named_where_it_is_and_can_be_undone() {
    for action in ["remove", "move", "hardlink"] {
        let acts = many();
        let before = files(&acts);
        let mut words = vec!["apply", action, "tree", "--execute", "--threads", "1"];
        if action == "move" {
            fs::create_dir(acts.beside("moved")).unwrap();
            words.extend(["--to", "moved"]);
        }
        let Some(()) = killed_at(&acts, "renameat2", 10, &words) else { return };
        let out = acts.runs(&["recover", "give-up"]);
        let places = out.lines().filter_map(|line| line.split_once(": what was put aside is "));
        let places: Vec<&str> = places.map(|(_, place)| place.trim()).collect();
        assert!(!places.is_empty() || action == "hardlink", "{action}: {out}");
        for place in &places {
            assert!(std::path::Path::new(place).symlink_metadata().is_ok(), "{place}: {out}");
        }
        let log = acts.runs(&["log"]);
        let id = log.split_whitespace().next().unwrap().to_owned();
        acts.runs(&["undo", &id]);
        assert_eq!(files(&acts), before, "{action}: {out}");
    }
}

/// Whoever looks while it acts: nothing was cut off, and there is nothing to recover.
#[test]
fn a_run_that_is_going_on_is_said_to_be_running() {
    if !support::can_inject() {
        return;
    }
    let acts = many();
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2"]);
    strace.args(["-e", "inject=renameat2:delay_enter=30ms", env!("CARGO_BIN_EXE_dupes")]);
    let mut command = acts::through(strace, &acts.command(&APPLY));
    let null = std::process::Stdio::null;
    let mut child = command.stdout(null()).stderr(null()).spawn().unwrap();
    let (mut running, mut warned) = (0, 0);
    while child.try_wait().unwrap().is_none() {
        let log = acts.runs(&["log"]);
        let json: serde_json::Value = serde_json::from_str(&acts.runs(&["log", "--json"])).unwrap();
        // Of files that go while it looks it says that they are gone.
        let err = support::stderr(&acts.run(&["apply", "remove", "tree"]));
        for text in [&log, &err] {
            let text = text.to_lowercase();
            assert!(!text.contains("interrupted") && !text.contains("cut off"), "{text}");
        }
        for run in json["runs"].as_array().unwrap() {
            assert_eq!((&run["interrupted"], &run["cut_off"]), (&false.into(), &false.into()));
            running += usize::from(run["running"] == true && log.contains("  RUNNING (process "));
        }
        warned += usize::from(err.contains("somebody is acting just now (process "));
    }
    assert!(child.wait().unwrap().success());
    assert!(running > 0 && warned > 0, "{running} {warned}");
    assert!(!acts.runs(&["log"]).contains("RUNNING"));
}

//! Somebody saves a file in the moment before it is moved out of the way, and the program is killed in the moment after
//! that: whatever is asked for then, what he has saved is at its path, or it is said where it is.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use acts::{Acts, through};

const ACTIONS: [&str; 4] = ["remove", "move", "hardlink", "symlink"];
const SAVED: &str = "saved just now";

/// `tree/keep` and `tree/victim` with the same bytes.
fn scene() -> Acts {
    let acts = Acts::with(&[("keep", "same"), ("victim", "same")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

fn can_inject() -> bool {
    let strace = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    if strace.is_err() {
        eprintln!("skipped: there is no strace");
    }
    strace.is_ok()
}

/// Each rename takes so long before it is made, and after that.
fn slowly(acts: &Acts, words: &[&str], seconds: u32) -> Child {
    let delay = u64::from(seconds) * 1_000_000;
    let inject = format!("inject=renameat2:delay_enter={delay}:delay_exit={delay}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e", &inject]);
    command.arg(env!("CARGO_BIN_EXE_dupes"));
    let mut command = through(command, &acts.command(words));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn apply(action: &str) -> Vec<&str> {
    let mut words = vec!["apply", action, "tree", "--execute", "--threads", "1"];
    words.extend(match action {
        "remove" => vec!["--quarantine", "aside"],
        "move" => vec!["--to", "moved"],
        _ => vec![],
    });
    words
}

/// Until it is so; false: it has not come to that.
fn until(child: &mut Child, is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if child.try_wait().unwrap().is_some() || begin.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::yield_now();
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => all.extend(files_below(&path)),
            false => all.push(path),
        }
    }
    all
}

/// Those with these bytes, by their own names.
fn places_of(acts: &Acts, text: &str) -> Vec<PathBuf> {
    ["tree", "aside", "moved"]
        .iter()
        .flat_map(|name| files_below(&acts.beside(name)))
        .filter(|path| {
            !path.is_symlink() && fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
        })
        .collect()
}

/// As editors do.
fn save(acts: &Acts, text: &str) {
    fs::write(acts.beside("new"), text).unwrap();
    fs::rename(acts.beside("new"), acts.path("victim")).unwrap();
}

/// The name that a link is made at, or a copy before it takes the place of one.
fn temporary(acts: &Acts) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(".dupes-") && !name.ends_with("-new")
    };
    files_below(&acts.tree()).into_iter().find(is_it)
}

fn has_intent(acts: &Acts) -> bool {
    let is_said =
        |path: PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(r#"{"intent":"#));
    files_below(&acts.beside("data/dupes/journal")).into_iter().any(is_said)
}

/// The program below strace, and with it strace.
fn kill(mut strace: Child) {
    let id = strace.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        let _ = Command::new("kill").args(["-9", child]).status();
    }
    strace.wait().unwrap();
}

/// Somebody saves right before the rename, and it is killed right after that. A machine that is busy may take too
/// long for that: then the moment is made longer.
fn caught(words: &[&str], prepare: impl Fn(&Acts)) -> Acts {
    for seconds in [1, 3, 10] {
        let acts = scene();
        prepare(&acts);
        let is_undo = words[0] == "undo";
        let has_place = |acts: &Acts| temporary(acts).is_some();
        let mut child = slowly(&acts, words, seconds);
        let is_near = match is_undo || ["hardlink", "symlink"].contains(&words[1]) {
            true => until(&mut child, || has_place(&acts)),
            false => until(&mut child, || has_intent(&acts)),
        };
        save(&acts, SAVED);
        let is_caught = is_near
            && until(&mut child, || {
                places_of(&acts, SAVED).first().is_some_and(|it| *it != acts.path("victim"))
            });
        kill(child);
        if is_caught && !places_of(&acts, SAVED).contains(&acts.path("victim")) {
            return acts;
        }
        eprintln!("{words:?}: missed the moment of {seconds} s");
    }
    panic!("{words:?}: it was not caught");
}

fn said(output: Output) -> String {
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Nothing is nowhere, and what is not at the path that it was saved as is named.
#[track_caller]
fn judge(acts: &Acts, texts: &[&str], said: &str) {
    assert!(!places_of(acts, "same").is_empty(), "{said}");
    let id = acts.runs(&["log"]).split(' ').next().unwrap().to_owned();
    let log = acts.runs(&["log", &id]);
    assert!(!log.contains("INTERRUPTED"), "{log}");
    for text in texts {
        let places = places_of(acts, text);
        assert_eq!(places.len(), 1, "{text}: {places:?}: {said}");
        let place = places[0].to_str().unwrap();
        let is_named = said.contains(place) && log.contains(place);
        assert!(places[0] == acts.path("victim") || is_named, "{text}: {place}: {said}{log}");
    }
}

fn saved_and_killed(action: &'static str) {
    if !can_inject() {
        return;
    }
    for way in ["finish", "roll-back"] {
        let acts = caught(&apply(action), |_| ());
        let mut all = said(acts.run(&["recover", way]));
        judge(&acts, &[SAVED], &all);
        // Where `move` moves to, files of others may be: it is said to be there.
        if action != "move" {
            assert_eq!(acts.read("victim"), SAVED, "{action} {way}: {all}");
        }
        all += &said(acts.run(&["undo"]));
        judge(&acts, &[SAVED], &all);
        let (_, again) = acts.ends(&["recover", way], 0);
        assert!(again.contains("nothing was interrupted"), "{again}");
    }
}

#[test]
fn what_was_saved_before_a_remove_was_killed_has_its_path() {
    saved_and_killed(ACTIONS[0]);
}

#[test]
fn what_was_saved_before_a_move_was_killed_is_named() {
    saved_and_killed(ACTIONS[1]);
}

#[test]
fn what_was_saved_before_a_hardlink_was_killed_has_its_path() {
    saved_and_killed(ACTIONS[2]);
}

#[test]
fn what_was_saved_before_a_symlink_was_killed_has_its_path() {
    saved_and_killed(ACTIONS[3]);
}

#[test]
fn what_was_saved_before_an_undo_was_killed_has_its_path_whatever_is_undone_later() {
    if !can_inject() {
        return;
    }
    for (action, way) in [("hardlink", "finish"), ("symlink", "roll-back")] {
        let acts = caught(&["undo"], |acts| drop(acts.runs(&apply(action))));
        let id = acts.runs(&["log"]).split(' ').next().unwrap().to_owned();
        let mut all = said(acts.run(&["recover", way]));
        judge(&acts, &[SAVED], &all);
        assert_eq!(acts.read("victim"), SAVED, "{action}: {all}");
        all += &said(acts.run(&["undo"]));
        judge(&acts, &[SAVED], &all);
        // What he has saved is a copy by and by, and is linked; what he saves then is his all the same.
        acts.write("victim", "same");
        acts.runs(&apply(action));
        all += &said(acts.run(&["undo", &id]));
        all += &said(acts.run(&["undo"]));
        assert_eq!(
            (acts.read("victim"), temporary(&acts)),
            ("same".into(), None),
            "{action}: {all}"
        );
    }
}

#[test]
fn who_saves_twice_while_it_is_undone_loses_neither() {
    if !can_inject() {
        return;
    }
    for action in ["hardlink", "symlink"] {
        for seconds in [1, 3, 10] {
            let acts = scene();
            acts.runs(&apply(action));
            let is_aside = || places_of(&acts, "first").iter().any(|it| *it != acts.path("victim"));
            let mut child = slowly(&acts, &["undo"], seconds);
            until(&mut child, || temporary(&acts).is_some());
            save(&acts, "first");
            until(&mut child, is_aside);
            save(&acts, "second");
            let is_in_time = is_aside();
            let all = said(child.wait_with_output().unwrap());
            if is_in_time {
                judge(&acts, &["first", "second"], &all);
                assert_eq!(acts.read("victim"), "second", "{action}: {all}");
                break;
            }
            assert_ne!(seconds, 10, "it was not caught");
        }
    }
}

//! An action is killed at each call that changes something, and each call of it fails, with the errors that disks,
//! limits and rights give: nothing is lost, with a link no path is ever missing, and the same command goes on. By
//! strace, so that there is no code for it in the product; of a few files, so that every call is tried. More
//! files, and all errors at each call: `scripts/crash apply-ACTION`.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use acts::{Acts, Item, manifest};
use support::{can_inject, in_time};

/// All by which an action changes something, or makes it durable.
const CHANGES: [&str; 9] = [
    "renameat2",
    "linkat",
    "symlinkat",
    "unlinkat",
    "mkdirat",
    "write",
    "fsync",
    "fdatasync",
    "fchmod",
];
/// And some by which it looks.
const LOOKS: [&str; 3] = ["openat2", "flock", "pread64"];
const ERRORS: [&str; 10] =
    ["ENOSPC", "EDQUOT", "EROFS", "EPERM", "EACCES", "EIO", "EMFILE", "EXDEV", "EMLINK", "EINTR"];

struct Scene {
    acts: Acts,
    action: &'static str,
}

impl Scene {
    fn new(action: &'static str) -> Scene {
        let acts = Acts::with(&[("a", "same"), ("b", "same"), ("x/c", "same"), ("d", "other")]);
        fs::create_dir(acts.beside("moved")).unwrap();
        acts.runs(&["plan", "tree", "-o", "plan"]);
        Scene { acts, action }
    }

    fn apply(&self) -> Vec<&str> {
        let mut words = vec!["apply", self.action, "--plan", "plan", "--execute"];
        words.extend(["--threads", "1", "--progress", "never"]);
        match self.action {
            "remove" => words.extend(["--quarantine", "aside"]),
            "move" => words.extend(["--to", "moved"]),
            _ => {}
        }
        words
    }

    /// In which strace does that, and how often the call was made.
    fn disturbed(&self, call: &str, what: &str, when: impl Display) -> (Output, usize) {
        let log = self.acts.beside("log");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(&log);
        command.args(["-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{what}:when={when}")]);
        command.arg(env!("CARGO_BIN_EXE_dupes")).args(self.apply()).arg("--no-config");
        command.current_dir(self.acts.tree().parent().unwrap()).stdin(Stdio::null());
        command.env("XDG_DATA_HOME", self.acts.beside("data"));
        let output = in_time(call, move || command.output().unwrap());
        let log = fs::read_to_string(log).unwrap();
        (output, log.lines().filter(|line| line.contains(&format!(" {call}("))).count())
    }

    /// Files only: folders get other times by a run that was cut off.
    fn files(&self, folder: &Path) -> BTreeMap<PathBuf, Item> {
        let mut all = manifest(folder);
        all.retain(|_, item| item.mode & 0o170_000 != 0o040_000);
        all
    }

    /// At any moment.
    fn nothing_is_lost(&self, what: &str) {
        assert_eq!(self.acts.read("a"), "same", "{what}: what stays");
        assert_eq!(self.acts.read("d"), "other", "{what}: what is in no set");
        if ["hardlink", "symlink"].contains(&self.action) {
            assert_eq!(["b", "x/c"].map(|name| self.acts.read(name)), ["same"; 2], "{what}");
            return;
        }
        let folders = [self.acts.tree(), self.acts.quarantine(), self.acts.beside("moved")];
        let files = folders.iter().flat_map(|folder| self.files(folder).into_values());
        assert_eq!(files.filter(|item| item.content == b"same").count(), 3, "{what}");
    }

    /// It is brought to its end, a second time there is nothing to do, and it can be taken back.
    fn goes_on(&self, before: &BTreeMap<PathBuf, Item>, what: &str) {
        self.acts.runs(&["recover", "finish"]);
        self.nothing_is_lost(what);
        self.acts.runs(&self.apply());
        self.nothing_is_lost(what);
        let done = self.files(&self.acts.tree());
        let names: Vec<&str> = done.keys().map(|path| path.to_str().unwrap()).collect();
        match self.action {
            "remove" | "move" => assert_eq!(names, ["a", "d"], "{what}"),
            _ => {
                assert_eq!(names, ["a", "b", "d", "x/c"], "{what}: nothing is left behind");
                let is_linked = |name: &str| match self.action {
                    "symlink" => done[Path::new(name)].mode & 0o170_000 == 0o120_000,
                    _ => done[Path::new(name)].same_as == Path::new("a"),
                };
                assert!(is_linked("b") && is_linked("x/c"), "{what}: {done:?}");
            }
        }
        let again = self.acts.runs(&self.apply());
        assert!(again.contains(" 0 names"), "{what}: {again}");
        assert_eq!(self.files(&self.acts.tree()), done, "{what}");
        // What was done before and after it was cut off are two runs.
        while self.acts.run(&["undo"]).status.success() {}
        assert_eq!(&self.files(&self.acts.tree()), before, "{what}: and back");
    }
}

fn all() -> bool {
    std::env::var("DUPES_FAULTS").is_ok_and(|all| all == "all")
}

fn killed_at_each_step(action: &'static str) {
    if !can_inject() {
        return;
    }
    let mut kills = 0;
    for call in CHANGES {
        for when in 1.. {
            let scene = Scene::new(action);
            let before = scene.files(&scene.acts.tree());
            let (output, _) = scene.disturbed(call, "signal=KILL", when);
            if output.status.signal() != Some(9) {
                assert!(output.status.success(), "{call} {when}: {output:?}");
                break; // so often it is not called
            }
            kills += 1;
            let what = format!("{action}, killed at the {when}. {call}");
            scene.nothing_is_lost(&what);
            scene.goes_on(&before, &what);
        }
    }
    assert!(kills > 10, "{kills}: it changes something, writes it down and makes it durable");
    eprintln!("{action}: killed {kills} times");
}

fn fails_at_each_call(action: &'static str) {
    if !can_inject() {
        return;
    }
    let mut turn = 0;
    for (number, call) in CHANGES.into_iter().chain(LOOKS).enumerate() {
        let step = if all() || CHANGES.contains(&call) { 1 } else { 5 };
        for when in (1..).step_by(step) {
            let mut calls = usize::MAX;
            // Without all of them: each call gets another one the next time.
            let some =
                if all() { &ERRORS[..] } else { &ERRORS[(number + turn) % ERRORS.len()..][..1] };
            for error in some {
                let scene = Scene::new(action);
                let before = scene.files(&scene.acts.tree());
                let (output, made) = scene.disturbed(call, &format!("error={error}"), when);
                calls = made;
                if calls < when {
                    break;
                }
                turn += 1;
                let what = format!("{action}, {error} of the {when}. {call}: {output:?}");
                // What the loader needs before the program begins.
                if what.contains("error while loading shared libraries") {
                    continue;
                }
                let code = output.status.code().unwrap_or_else(|| panic!("{what}"));
                assert!([0, 2, 3].contains(&code), "{what}");
                assert!(code == 0 || !output.stderr.is_empty(), "{what}: it says why");
                scene.nothing_is_lost(&what);
                scene.goes_on(&before, &what);
            }
            if calls < when {
                break;
            }
        }
    }
    assert!(turn > 20, "{turn}");
    eprintln!("{action}: {turn} errors");
}

/// What fails once may fail again on the way back, or when it is looked at after that.
fn fails_again_and_again(action: &'static str) {
    if !can_inject() {
        return;
    }
    let calls =
        if all() { [&CHANGES[..], &LOOKS[..]].concat() } else { vec!["renameat2", "openat2"] };
    for call in calls {
        for step in 1..=6 {
            for when in 1..=step {
                let scene = Scene::new(action);
                let before = scene.files(&scene.acts.tree());
                let at = format!("{when}+{step}");
                let (output, _) = scene.disturbed(call, "error=EIO", &at);
                let what = format!("{action}, EIO of {call} {at}: {output:?}");
                scene.nothing_is_lost(&what);
                scene.goes_on(&before, &what);
            }
        }
    }
}

#[test]
fn remove_of_which_calls_fail_again_and_again_loses_nothing_and_goes_on() {
    fails_again_and_again("remove");
}

#[test]
fn hardlink_of_which_calls_fail_again_and_again_loses_nothing_and_goes_on() {
    fails_again_and_again("hardlink");
}

#[test]
fn remove_that_is_killed_at_any_step_loses_nothing_and_goes_on() {
    killed_at_each_step("remove");
}

#[test]
fn move_that_is_killed_at_any_step_loses_nothing_and_goes_on() {
    killed_at_each_step("move");
}

#[test]
fn hardlink_that_is_killed_at_any_step_loses_nothing_and_goes_on() {
    killed_at_each_step("hardlink");
}

#[test]
fn symlink_that_is_killed_at_any_step_loses_nothing_and_goes_on() {
    killed_at_each_step("symlink");
}

#[test]
fn remove_of_which_any_call_fails_loses_nothing_and_goes_on() {
    fails_at_each_call("remove");
}

#[test]
fn move_of_which_any_call_fails_loses_nothing_and_goes_on() {
    fails_at_each_call("move");
}

#[test]
fn hardlink_of_which_any_call_fails_loses_nothing_and_goes_on() {
    fails_at_each_call("hardlink");
}

#[test]
fn symlink_of_which_any_call_fails_loses_nothing_and_goes_on() {
    fails_at_each_call("symlink");
}

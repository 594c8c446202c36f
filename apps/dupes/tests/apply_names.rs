//! The names of one file go together, or none does; and folders that `move` makes are like those that files come from.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use acts::{Acts, through};
use support::{can_inject, in_time};

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: needs root");
    }
    is_root
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// `a/1` that stays, and one file that is `b/1` and `s/1`.
fn two_names() -> Acts {
    let acts = Acts::with(&[("a/1", "same"), ("b/1", "same")]);
    fs::create_dir(acts.path("s")).unwrap();
    fs::create_dir(acts.beside("moved")).unwrap();
    fs::hard_link(acts.path("b/1"), acts.path("s/1")).unwrap();
    acts
}

/// Files and links only: those who put a file back change the times of its folder.
fn files(acts: &Acts) -> acts::Manifest {
    let mut all = acts.manifest();
    all.retain(|_, item| item.mode & 0o170_000 != 0o040_000);
    all
}

fn words(action: &str) -> Vec<&str> {
    let mut words = vec!["apply", action, "tree"];
    match action {
        "move" => words.extend(["--to", "moved"]),
        "remove" => words.extend(["--quarantine", "aside"]),
        _ => words.extend(["--allow-differing", "owner"]),
    }
    words
}

const ACTIONS: [&str; 4] = ["remove", "move", "hardlink", "symlink"];

#[test]
fn a_file_of_which_one_name_may_not_be_changed_stays_and_a_dry_run_knows_it() {
    for action in ACTIONS {
        let acts = two_names();
        set_mode(acts.path("s"), 0o555);
        let before = files(&acts);
        for more in [&[][..], &["--execute"]] {
            let words = [&words(action), more].concat();
            let Some((code, said)) = acts.as_nobody(&words) else { return };
            assert_eq!(code, 3, "{said}");
            assert!(said.contains(" 0 names, 2 are left as they are; 0 bytes"), "{said}");
            assert!(said.contains("stays with another name of the same file, "), "{said}");
        }
        let now = files(&acts);
        let inodes = |all: &acts::Manifest| {
            all.iter().map(|(name, item)| (name.clone(), item.same_as.clone())).collect::<Vec<_>>()
        };
        assert_eq!(inodes(&now), inodes(&before), "{action}");
        set_mode(acts.path("s"), 0o755);
    }
}

/// What is in a folder of somebody else's with a sticky bit, and not ours, shows when it is done.
#[test]
fn names_that_have_gone_are_taken_back_when_another_one_can_not_go() {
    if !is_root() {
        return;
    }
    // What is somebody else's becomes no link, which only root could undo.
    for action in ["remove", "move"] {
        let acts = two_names();
        let Some(_) = acts.as_nobody(&["find", "tree"]) else { return };
        set_mode(acts.path("s"), 0o1777);
        chown(acts.path("s"), Some(0), Some(0)).unwrap();
        chown(acts.path("s/1"), Some(1_000), None).unwrap();
        let before = files(&acts);
        for _ in 0..2 {
            let (code, said) =
                acts.as_nobody(&[&words(action)[..], &["--execute"]].concat()).unwrap();
            assert_eq!(code, 3, "{said}");
            assert!(said.contains(" 0 names, 2 are left as they are; 0 bytes"), "{said}");
            assert!(said.contains("s/1: left as it is: could not "), "{action}: {said}");
            assert!(said.contains("b/1: left as it is: stays with another name"), "{said}");
            assert_eq!(files(&acts), before, "{action}");
            assert!(
                fs::read_dir(acts.beside("moved")).unwrap().next().is_none() || action == "move"
            );
        }
        let (_, log) = acts.as_nobody(&["log"]).unwrap();
        assert!(log.contains("not done 2") && !log.contains("INTERRUPTED"), "{log}");
    }
}

/// Under strace, with one call disturbed.
fn disturbed(acts: &Acts, call: &str, what: &str, words: &[&str]) -> Output {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:{what}")]).arg(env!("CARGO_BIN_EXE_dupes"));
    let mut command = through(strace, &acts.command(words));
    in_time("a run that is disturbed", move || command.output().unwrap())
}

#[test]
fn one_name_that_can_not_become_a_link_keeps_the_other() {
    if !can_inject() {
        return;
    }
    for (action, call) in [("hardlink", "linkat"), ("symlink", "symlinkat")] {
        for which in 1..=2 {
            let acts = two_names();
            let before = files(&acts);
            let what = format!("error=EIO:when={which}");
            let output = disturbed(&acts, call, &what, &["apply", action, "tree", "--execute"]);
            assert_eq!(output.status.code(), Some(3), "{output:?}");
            assert_eq!(files(&acts), before, "{action} {which}: neither is one");
        }
    }
}

/// Killed between the two, and then the file system has refused the second one.
#[test]
fn a_name_is_one_of_its_file_again_also_where_the_other_has_stayed() {
    if !can_inject() {
        return;
    }
    for (action, call) in [("hardlink", "linkat"), ("symlink", "symlinkat")] {
        let acts = two_names();
        let before = files(&acts);
        let killed = ["apply", action, "tree", "--execute", "--threads", "1"];
        let output = disturbed(&acts, call, "signal=KILL:when=2", &killed);
        assert_eq!(output.status.code(), None, "{output:?}");
        let output = disturbed(&acts, call, "error=EIO:when=1", &["recover", "finish"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("s/1: ") && said.contains("could not make the link"), "{said}");
        assert_ne!(files(&acts), before, "{action}: the first one is a link");
        acts.runs(&["undo"]);
        assert_eq!(files(&acts), before, "{action}");
    }
}

// ---------------------------------------------------------------- folders that move makes

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// `priv/s` and `open/deep/s`, of which copies stay in `a`.
fn private() -> Acts {
    let acts = Acts::with(&[("a/s", "secret"), ("priv/s", "secret"), ("open/deep/s", "secret")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    set_mode(acts.path("priv"), 0o700);
    set_mode(acts.path("open"), 0o2775);
    set_mode(acts.path("open/deep"), 0o750);
    acts
}

const MOVE: [&str; 6] = ["apply", "move", "tree", "--to", "moved", "--execute"];

#[test]
fn folders_that_are_made_have_the_mode_and_owner_of_those_that_files_come_from() {
    let acts = private();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        chown(acts.path("priv"), Some(1_000), Some(1_001)).unwrap();
    }
    acts.runs(&MOVE);
    let moved = |name: &str| acts.beside("moved").join(name);
    assert_eq!(
        [mode(moved("priv")), mode(moved("open")), mode(moved("open/deep"))],
        [0o700, 0o2775, 0o750]
    );
    if is_root {
        let found = fs::metadata(moved("priv")).unwrap();
        assert_eq!((found.uid(), found.gid()), (1_000, 1_001));
    }
    acts.runs(&["undo"]);
    assert_eq!(fs::read_dir(acts.beside("moved")).unwrap().count(), 0, "what was made goes");
    assert_eq!(acts.read("priv/s"), "secret");
    // One that is there keeps its own.
    fs::create_dir(moved("priv")).unwrap();
    set_mode(moved("priv"), 0o751);
    acts.runs(&MOVE);
    assert_eq!(mode(moved("priv")), 0o751);
}

/// From two folders into one: who could enter only one of them does not see what was in the other.
#[test]
fn a_folder_that_stands_for_two_is_as_closed_as_both() {
    let acts = Acts::with(&[("a/s", "one"), ("a/t", "two"), ("b/in/s", "one"), ("c/in/t", "two")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    set_mode(acts.path("b/in"), 0o755);
    set_mode(acts.path("c/in"), 0o750);
    if rustix::process::geteuid().is_root() {
        chown(acts.path("c/in"), Some(1_000), Some(1_000)).unwrap();
    }
    let roots = ["tree/a", "tree/b", "tree/c", "--keep", "first"];
    acts.runs(&[&["apply", "move"], &roots[..], &["--to", "moved", "--execute"]].concat());
    let expected = if rustix::process::geteuid().is_root() { 0o700 } else { 0o750 };
    assert_eq!(mode(acts.beside("moved/in")), expected);
    assert_eq!(fs::read_dir(acts.beside("moved/in")).unwrap().count(), 2);
}

/// Its mode does not say who may enter it.
#[test]
fn a_folder_for_one_with_an_access_list_is_for_its_owner_alone() {
    let acts = private();
    let list =
        Command::new("setfacl").args(["-m", "u:1000:rx"]).arg(acts.path("open/deep")).status();
    if !list.is_ok_and(|done| done.success()) {
        return eprintln!("skipped: no access lists here");
    }
    acts.runs(&MOVE);
    assert_eq!(mode(acts.beside("moved/open/deep")), 0o700);
}

/// Who is not root can put nothing into a folder that he may not write to: that comes last, and goes first.
#[test]
fn folders_below_a_read_only_one_are_made_and_taken_away_again() {
    let acts = Acts::with(&[("a/s", "one"), ("ro/x/s", "one"), ("ro/y/s", "one")]);
    fs::create_dir(acts.beside("moved")).unwrap();
    set_mode(acts.path("ro"), 0o555);
    let Some((code, said)) = acts.as_nobody(&MOVE) else { return };
    assert_eq!(code, 0, "{said}");
    assert_eq!(mode(acts.beside("moved/ro")), 0o555);
    assert!(acts.beside("moved/ro/x/s").exists() && acts.beside("moved/ro/y/s").exists());
    let (code, said) = acts.as_nobody(&["undo"]).unwrap();
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read_dir(acts.beside("moved")).unwrap().count(), 0, "what was made goes");
    set_mode(acts.path("ro"), 0o755);
}

#[test]
fn a_folder_of_a_move_that_was_killed_is_closed_until_it_is_recovered() {
    if !can_inject() {
        return;
    }
    // In the middle of a file, and when all are moved.
    for call in ["renameat2", "fchmod"] {
        let acts = private();
        let words = [&MOVE[..], &["--threads", "1"]].concat();
        let output = disturbed(&acts, call, "signal=KILL:when=1", &words);
        assert_eq!(output.status.code(), None, "{output:?}");
        let moved = |name: &str| mode(acts.beside("moved").join(name));
        // The innermost is the first to be opened.
        assert_eq!(moved("open"), 0o700, "{call}: what is in it is out of reach");
        acts.runs(&["recover", "finish"]);
        acts.runs(&words);
        assert_eq!([moved("priv"), moved("open"), moved("open/deep")], [0o700, 0o2775, 0o750]);
    }
}

// ---------------------------------------------------------------- whole folders

/// To move a folder is to change its `..`.
#[test]
fn a_folder_that_may_not_be_written_to_is_not_promised_to_go() {
    let acts = Acts::with(&[("1/d/x", "x"), ("1/d/y", "y"), ("2/d/x", "x"), ("2/d/y", "y")]);
    set_mode(acts.path("2/d"), 0o555);
    let roots = ["apply", "remove", "tree/1", "tree/2", "--folders", "--quarantine", "aside"];
    for more in [&[][..], &["--execute"]] {
        let Some((code, said)) = acts.as_nobody(&[&roots, more].concat()) else { return };
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("2/d: left as it is: could not rename it: Permission"), "{said}");
        assert!(said.contains(" 0 names, 1 is left as it is; 0 bytes"), "{said}");
    }
    set_mode(acts.path("2/d"), 0o755);
}

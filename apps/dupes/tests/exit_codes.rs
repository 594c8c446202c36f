//! Each way to end comes out of the binary, and is what the docs say.

mod support;

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use dupes::exit::Exit;
use rustix::process::{Pid, Signal, kill_process};
use support::{dupes_with_signals, in_time, stderr, write};
use tempfile::TempDir;

fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "a", "same");
    write(&dir, "b", "same");
    dir
}

fn code(dir: &TempDir, words: &[&str]) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["--no-config"]).args(words).current_dir(dir.path()).stdin(Stdio::null());
    let words = format!("{words:?}");
    in_time(&words, move || command.output().unwrap()).status.code()
}

/// More than a pipe holds: whoever does not read on holds it in the middle.
fn long_listing() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..1_000 {
        write(&dir, &format!("{n}-{}", "x".repeat(200)), "same");
    }
    dir
}

#[test]
fn complete() {
    let dir = tree();
    for words in [
        &["find", "."][..],
        &["scan", "--database", "d", "."],
        &["status", "--database", "d"],
        &["exit-codes"],
        &["help", "exit-codes"],
        &["config", "check"],
    ] {
        assert_eq!(code(&dir, words), Some(0), "{words:?}");
    }
}

#[test]
fn usage() {
    let dir = tree();
    write(&dir, "wrong.toml", "thread = 1");
    assert_eq!(code(&dir, &["scan", "--database", "d", "."]), Some(0));
    for words in [
        &[][..],
        &["find"],
        &["find", "--threads", "0", "."],
        &["look"],
        &["roots", "remove", "--database", "d", "."],
        &["config", "check", "find", "--threads", "0", "."],
    ] {
        assert_eq!(code(&dir, words), Some(1), "{words:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--config", "wrong.toml", "."]).current_dir(dir.path());
    assert_eq!(command.output().unwrap().status.code(), Some(1));
}

#[test]
fn could_not_run() {
    let dir = tree();
    for words in [&["find", "nowhere"][..], &["scan", "nowhere"], &["status", "--database", "none"]]
    {
        assert_eq!(code(&dir, words), Some(2), "{words:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    command.args(["find", "--no-config", "."]).current_dir(dir.path()).stdout(full);
    assert_eq!(command.status().unwrap().code(), Some(2));
}

#[test]
fn a_root_that_was_deleted_is_nowhere_to_look() {
    let dir = tree();
    for (words, expected) in [("find .", 2), ("find . ..", 3), ("plan -o ../plan .", 2)] {
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let mut command = Command::new("sh");
        let script = format!("rmdir ../gone && exec \"$0\" --no-config {words}");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_dupes")]).current_dir(gone);
        let output = in_time(words, move || command.output().unwrap());
        assert_eq!(output.status.code(), Some(expected), "{words}: {output:?}");
        assert!(stderr(&output).contains(".: can't look there"), "{output:?}");
    }
}

#[test]
fn unread() {
    let dir = tree();
    assert_eq!(code(&dir, &["find", ".", "nowhere"]), Some(3));
}

#[test]
fn interrupted() {
    let dir = long_listing();
    let mut command = dupes_with_signals();
    command.args(["find", "--no-config", "."]).current_dir(dir.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = in_time("the end", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

#[test]
fn closed_pipe() {
    let dir = long_listing();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--no-config", "."]).current_dir(dir.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    let status = in_time("the end", move || child.wait().unwrap());
    assert_eq!(status.code(), Some(141));
}

/// The table of the README, the verb and the help of it are those of the program.
#[test]
fn the_docs_have_just_these_codes() {
    let readme = include_str!("../README.md");
    let (_, table) = readme.split_once("| exit code | |\n|---|---|\n").expect("the table is there");
    let rows: Vec<(&str, &str)> = table
        .lines()
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .collect();
    let codes = Exit::ALL.map(|exit| exit.code().to_string());
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), codes.each_ref());
    for (exit, (_, text)) in Exit::ALL.iter().zip(&rows) {
        assert!(text.starts_with(exit.meaning()), "{text:?} is not {:?}", exit.meaning());
    }
    for words in [&["exit-codes"][..], &["help", "exit-codes"], &["find", "--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_dupes")).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for exit in Exit::ALL {
            let line = format!("{:>5}  {}\n", exit.code(), exit.meaning());
            assert!(text.contains(&line), "{line} is not in: {text}");
        }
    }
}

//! What can't be taken back: asked on a terminal, refused without one, unless the command line says yes.

mod support;

#[path = "support/scans.rs"]
mod scans;

#[path = "support/terminal.rs"]
mod screen;

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use scans::Bench;
use screen::{has, terminal, watch};
use support::{dupes_with_signals, in_time, stderr};

/// A verb that destroys something, and how much of that there is.
struct Verb {
    words: Vec<String>,
    left: fn(&Bench) -> i64,
}

fn count(bench: &Bench, sql: &str) -> i64 {
    let connection = Connection::open(bench.database()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Two files, one that is gone, and a row that no scan has written.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.write(name, "the same");
    }
    bench.scan(&[]);
    fs::remove_file(bench.path("c")).unwrap();
    bench.scan(&[]);
    let connection = Connection::open(bench.database()).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    let sql = "INSERT INTO folders (id, root, parent, name, left_out) SELECT 999, id, 998, x'78', 0 FROM roots";
    connection.execute(sql, []).unwrap();
    bench
}

fn verbs(bench: &Bench) -> [Verb; 4] {
    let tree = bench.tree().to_str().unwrap().to_owned();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    [
        Verb {
            words: words(&["purge"]),
            left: |bench| count(bench, "SELECT count(*) FROM files WHERE removed IS NOT NULL"),
        },
        Verb {
            words: words(&["roots", "remove", &tree]),
            left: |bench| count(bench, "SELECT count(*) FROM roots"),
        },
        Verb {
            words: words(&["verify", "--repair"]),
            left: |bench| count(bench, "SELECT count(*) FROM folders WHERE id = 999"),
        },
        Verb {
            words: words(&["scan", "--hash", "sha512"]),
            left: |bench| count(bench, "SELECT count(*) FROM files WHERE length(hash) = 32"),
        },
    ]
}

fn command(bench: &Bench, verb: &Verb) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["--no-config"]).args(&verb.words).arg("--database").arg(bench.database());
    command
}

/// With a terminal on stdin and stderr, at which somebody types that.
fn typed(bench: &Bench, verb: &Verb, answer: &str) -> (Output, Vec<u8>) {
    asked(bench, verb, |screen, _| {
        fs::File::from(screen.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
    })
}

/// With a terminal, on which somebody does something about the question.
fn asked(bench: &Bench, verb: &Verb, about_it: impl FnOnce(&OwnedFd, Pid)) -> (Output, Vec<u8>) {
    let (screen, line) = terminal(80);
    let mut command = dupes_with_signals();
    command.args(["--no-config"]).args(&verb.words).arg("--database").arg(bench.database());
    command.stdin(line.try_clone().unwrap()).stderr(line).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let (screen, seen) = watch(screen, Vec::new(), |seen| has(seen, "[y/N]"));
    about_it(&screen, Pid::from_child(&child));
    let (_, seen) = watch(screen, seen, |_| false);
    (in_time("the end", move || child.wait_with_output().unwrap()), seen)
}

#[test]
fn without_a_terminal_it_takes_yes() {
    for at in 0..4 {
        let bench = bench();
        let verb = &verbs(&bench)[at];
        let before = (verb.left)(&bench);
        assert!(before > 0, "{:?}", verb.words);
        let mut no = command(&bench, verb);
        let no = in_time("a refusal", move || no.stdin(Stdio::null()).output().unwrap());
        assert_eq!(no.status.code(), Some(1), "{no:?}");
        assert!(stderr(&no).contains("nothing was changed"), "{no:?}");
        assert!(stderr(&no).contains("add --yes"), "{no:?}");
        assert_eq!((verb.left)(&bench), before, "{:?}", verb.words);
        let mut yes = command(&bench, verb);
        let yes = in_time("yes", move || yes.arg("--yes").stdin(Stdio::null()).output().unwrap());
        assert_eq!(yes.status.code(), Some(0), "{yes:?}");
        assert_eq!((verb.left)(&bench), 0, "{:?}", verb.words);
    }
}

#[test]
fn a_question_that_nobody_would_see_is_not_asked() {
    let bench = bench();
    let verb = &verbs(&bench)[0];
    let (_screen, line) = terminal(80);
    let mut command = command(&bench, verb);
    command.stdin(line);
    let output = in_time("a refusal", move || command.output().unwrap());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("add --yes"), "{output:?}");
    assert!((verb.left)(&bench) > 0);
}

#[test]
fn on_a_terminal_it_asks_and_no_is_the_default() {
    for at in 0..4 {
        let bench = bench();
        let verb = &verbs(&bench)[at];
        let before = (verb.left)(&bench);
        // The last is the end of what is typed.
        for answer in ["\n", "n\n", "maybe\n", "\u{4}"] {
            let (output, seen) = typed(&bench, verb, answer);
            assert_eq!(output.status.code(), Some(1), "{}", seen.escape_ascii());
            assert!(has(&seen, "can't be taken back"), "{}", seen.escape_ascii());
            assert!(has(&seen, "nothing was changed"), "{}", seen.escape_ascii());
            assert_eq!((verb.left)(&bench), before, "{:?}: {answer:?}", verb.words);
        }
        let (output, seen) = typed(&bench, verb, "y\n");
        assert_eq!(output.status.code(), Some(0), "{}", seen.escape_ascii());
        assert_eq!((verb.left)(&bench), 0, "{:?}", verb.words);
    }
}

/// As Ctrl-C does.
#[test]
fn a_signal_at_the_question_ends_it_with_a_word() {
    for at in 0..4 {
        let bench = bench();
        let verb = &verbs(&bench)[at];
        let before = (verb.left)(&bench);
        let (output, seen) = asked(&bench, verb, |_, pid| kill_process(pid, Signal::INT).unwrap());
        assert_eq!(output.status.code(), Some(130), "{}: {}", output.status, seen.escape_ascii());
        assert!(has(&seen, "interrupted: nothing was changed"), "{}", seen.escape_ascii());
        assert_eq!((verb.left)(&bench), before, "{:?}", verb.words);
    }
}

#[test]
fn what_can_be_had_again_is_not_asked_for() {
    let bench = bench();
    let run = |words: &[&str]| bench.dupes(words);
    assert_eq!(run(&["scan", "--restart"]).status.code(), Some(0));
    assert_eq!(run(&["scan", "--hash", "blake3"]).status.code(), Some(0), "it is that already");
    assert_eq!(run(&["verify"]).status.code(), Some(2), "it only tells");
    assert!(stderr(&run(&["verify"])).contains("folders that lie nowhere"));
}

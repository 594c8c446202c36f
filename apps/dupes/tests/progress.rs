//! What a run shows on stderr: a second process, with a terminal, a pipe or nothing there.

mod support;

#[path = "support/terminal.rs"]
mod screen;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use dupes::options::Progress;
use dupes::progress::{Shown, say, start};
use dupes::tally::Tally;
use rustix::termios::{Action, tcflow};
use screen::{has, terminal, watch};
use serde_json::Value;
use support::{LIMIT, Player, in_time, plays, until_told};
use tidegate::{Pool, Shutdown};

const COLUMNS: u16 = 40;

fn pools() -> Vec<Pool> {
    let of = |name: &str| Pool::builder(name).workers(1).queue(3).build().unwrap();
    vec![of("walk"), of("random")]
}

fn shown(mode: Progress) -> (Shown, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    Tally::add(&tally.files, 12);
    let pools = pools();
    (start(mode, Arc::clone(&tally), Arc::new(move || pools.clone())), tally)
}

/// The end of a guard, which must not take long, whatever stderr is.
fn end(shown: Shown) {
    let since = Instant::now();
    drop(shown);
    assert!(since.elapsed() < LIMIT / 3, "{:?}", since.elapsed());
}

/// Not a test by itself: shows progress until it is told to end.
#[test]
fn part_draws() {
    if plays("part_draws") {
        let (shown, _tally) = shown(Progress::Auto);
        until_told();
        say("1 file was not read");
        end(shown);
        say("over");
    }
}

/// Not a test by itself: the same, without a word of its own.
#[test]
fn part_draws_only() {
    if plays("part_draws_only") {
        let (shown, _tally) = shown(Progress::Auto);
        println!("\nready");
        until_told();
        end(shown);
        println!("over");
    }
}

/// Not a test by itself: for machines.
#[test]
fn part_counts() {
    if plays("part_counts") {
        let (shown, tally) = shown(Progress::Json);
        until_told();
        Tally::add(&tally.files, 1);
        end(shown);
        println!("\nover");
    }
}

/// Not a test by itself: shows nothing, by nobody.
#[test]
fn part_shows_nothing() {
    if plays("part_shows_nothing") {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let pools = pools();
        let before = threads();
        for mode in [Progress::Never, Progress::Auto] {
            let watched = pools.clone();
            let shown = start(mode, Arc::default(), Arc::new(move || watched.clone()));
            assert_eq!(threads(), before, "{mode:?}: a worker for nothing");
            end(shown);
        }
        for pool in pools {
            pool.shutdown(Shutdown::light()).unwrap();
        }
        println!("\nover");
    }
}

/// What is left to see of all that was written, and the most columns that were used.
fn picture(bytes: &[u8]) -> (Vec<String>, usize) {
    let text = String::from_utf8(bytes.to_vec()).unwrap().replace("\x1b[K", "\0");
    let (mut rows, mut row, mut column, mut widest) = (Vec::new(), Vec::new(), 0, 0);
    for c in text.chars() {
        match c {
            '\r' => column = 0,
            '\0' => row.truncate(column),
            '\n' => rows.push(std::mem::take(&mut row).iter().collect()),
            _ => {
                assert!(!c.is_control(), "{text:?}");
                row.resize(row.len().max(column + 1), ' ');
                row[column] = c;
                column += 1;
                widest = widest.max(column);
            }
        }
    }
    rows.push(row.iter().collect());
    (rows, widest)
}

#[test]
fn a_line_is_drawn_and_erased() {
    let (screen, line) = terminal(COLUMNS);
    let mut player = Player::start("part_draws", &[], line);
    // Twice: it is drawn again and again.
    let twice = |seen: &[u8]| seen.iter().filter(|byte| **byte == b'\r').count() >= 2;
    let (screen, seen) = watch(screen, Vec::new(), twice);
    assert!(has(&seen, "\r0 folders, 12 files, 0 B | walk 0 0/1\x1b[K"), "{}", seen.escape_ascii());
    player.tell();
    let (_, seen) = watch(screen, seen, |_| false);
    assert!(player.end().success());
    let (rows, widest) = picture(&seen);
    assert_eq!(rows, ["1 file was not read", "over", ""], "{}", seen.escape_ascii());
    assert!(widest < usize::from(COLUMNS), "{widest}");
}

#[test]
fn a_terminal_that_was_stopped_holds_nobody_up() {
    let (screen, line) = terminal(COLUMNS);
    let keyboard = line.try_clone().unwrap();
    let mut player = Player::start("part_draws_only", &[], line);
    player.hear("ready");
    let (screen, _) = watch(screen, Vec::new(), |seen| has(seen, "files"));
    tcflow(&keyboard, Action::OOff).unwrap();
    player.tell();
    player.hear("over");
    assert!(player.end().success());
    drop(screen);
}

#[test]
fn a_terminal_that_has_gone_hurts_nobody() {
    let (screen, line) = terminal(COLUMNS);
    let mut player = Player::start("part_draws_only", &[], line);
    player.hear("ready");
    let (screen, _) = watch(screen, Vec::new(), |seen| has(seen, "files"));
    drop(screen);
    player.tell();
    player.hear("over");
    assert!(player.end().success());
}

#[test]
fn machines_get_an_object_a_line_and_a_last_one() {
    let mut player = Player::start("part_counts", &[], Stdio::piped());
    let mut lines = BufReader::new(player.stderr()).lines();
    let (lines, first) = in_time("the first", move || {
        let first = lines.next();
        (lines, first)
    });
    let first = first.unwrap().unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["done"], &first["files"]), (&false.into(), &12.into()));
    assert_eq!(first["stages"][1]["name"], "random");
    assert_eq!(first["walking"], true, "it has not begun");
    player.tell();
    let rest: Vec<String> = in_time("the rest", move || lines.map_while(Result::ok).collect());
    let rest: Vec<Value> = rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, others) = rest.split_last().unwrap();
    assert_eq!((&last["done"], &last["files"]), (&true.into(), &13.into()));
    assert!(others.iter().all(|other| other["done"] == false), "{others:?}");
    assert!(player.end().success());
}

#[test]
fn a_pipe_that_is_full_holds_nobody_up() {
    let (reader, mut writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut player = Player::start("part_counts", &[], writer);
    player.tell();
    player.hear("over");
    assert!(player.end().success());
    drop(reader);
}

#[test]
fn a_pipe_that_is_closed_hurts_nobody() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut player = Player::start("part_counts", &[], writer);
    player.tell();
    player.hear("over");
    assert!(player.end().success());
}

#[test]
fn without_a_terminal_nothing_is_shown_by_nobody() {
    let mut player = Player::start("part_shows_nothing", &[], Stdio::piped());
    let mut stderr = player.stderr();
    player.hear("over");
    assert!(player.end().success());
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}

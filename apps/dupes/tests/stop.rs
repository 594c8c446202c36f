//! Real signals, sent to a second process.

mod support;

use std::io::Write;
use std::process::Stdio;

use dupes::stop::Stop;
use rustix::process::Signal;
use support::{LIMIT, Player, plays, until_told};

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];
const BY_DEFAULT: &[&str] = &["--default-signal=INT,TERM,HUP"];

/// Not a test by itself: waits for the signals that others send.
#[test]
fn part_waits() {
    if !plays("part_waits") {
        return;
    }
    let stop = Stop::on_signals().unwrap();
    let token = stop.token();
    assert!(!stop.is_asked() && !token.is_cancelled());
    println!("\nready");
    if token.wait_timeout(LIMIT) {
        println!("asked {}", stop.is_asked());
    }
    until_told();
    println!("told");
}

/// Not a test by itself: after the last `Stop` a signal is as deadly as the second one.
#[test]
fn part_drops() {
    if plays("part_drops") {
        let stop = Stop::on_signals().unwrap();
        drop(stop.clone());
        assert!(!stop.is_asked(), "a clone is left");
        drop(stop);
        println!("\nready");
        until_told();
    }
}

/// Not a test by itself: SIGPIPE is ignored, before and after, so that a write says what is wrong.
#[test]
fn part_writes() {
    if plays("part_writes") {
        let _stop = Stop::on_signals().unwrap();
        let (closed, mut pipe) = std::io::pipe().unwrap();
        drop(closed);
        let error = pipe.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        println!("\nalive");
    }
}

#[test]
fn one_signal_asks() {
    for signal in SIGNALS {
        let mut player = Player::start("part_waits", BY_DEFAULT, Stdio::inherit());
        player.hear("ready");
        player.signal(signal);
        player.hear("asked true");
        player.tell();
        assert!(player.end().success(), "{signal:?}: it ends as it likes");
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    for (first, second) in [(0, 0), (0, 1), (1, 2), (2, 0), (1, 1), (2, 2)] {
        let player = Player::start("part_waits", BY_DEFAULT, Stdio::inherit());
        player.hear("ready");
        player.signal(SIGNALS[first]);
        player.hear("asked true");
        player.signal(SIGNALS[second]);
        assert_eq!(player.end().code(), Some(130), "{first} {second}");
    }
}

#[test]
fn without_anybody_to_ask_the_first_ends_it() {
    let player = Player::start("part_drops", BY_DEFAULT, Stdio::inherit());
    player.hear("ready");
    player.signal(Signal::INT);
    assert_eq!(player.end().code(), Some(130));
}

#[test]
fn what_was_ignored_stays_ignored() {
    let ignoring = ["--default-signal=INT,TERM", "--ignore-signal=HUP"];
    let player = Player::start("part_waits", &ignoring, Stdio::inherit());
    player.hear("ready");
    // Twice: the second would be its end.
    player.signal(Signal::HUP);
    player.signal(Signal::HUP);
    player.signal(Signal::TERM);
    player.hear("asked true");
    player.signal(Signal::TERM);
    assert_eq!(player.end().code(), Some(130));
}

#[test]
fn a_closed_pipe_is_an_error_and_no_signal() {
    let player = Player::start("part_writes", BY_DEFAULT, Stdio::inherit());
    player.hear("alive");
    assert!(player.end().success());
}

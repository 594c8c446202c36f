//! The live view (V4), driven as a person would: in a pseudo-terminal, by keys.
//!
//! The program in it is the example, run by this test's own file, so that nothing else need be
//! built: see `playing`.
#![cfg(all(feature = "top", target_os = "linux", not(tidegate_portable)))]

#[path = "../../examples/top.rs"]
mod example;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{Pool, Shutdown, Top};

/// A hang, not a slow machine.
const HANG: Duration = Duration::from_secs(60);

struct Terminal {
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    far_end: OwnedFd,
    child: Child,
}

impl Terminal {
    fn start(what: &str, columns: u16, rows: u16) -> Terminal {
        let (mut near, mut far) = (0, 0);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let null = std::ptr::null_mut();
        // SAFETY: two numbers to fill and a size to read.
        let made = unsafe { libc::openpty(&mut near, &mut far, null, null.cast(), &size) };
        assert_eq!(made, 0, "no pseudo-terminal: {}", std::io::Error::last_os_error());
        // SAFETY: just opened, and owned by nobody else.
        let (near, far_end) = unsafe { (OwnedFd::from_raw_fd(near), OwnedFd::from_raw_fd(far)) };
        let end = || Stdio::from(far_end.try_clone().unwrap());
        let child = playing(what).stdin(end()).stdout(end()).spawn().unwrap();
        let (tell, screen) = mpsc::channel();
        let mut output = File::from(near.try_clone().unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if tell.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { keys: File::from(near), screen, seen: String::new(), far_end, child }
    }

    /// Reads on until the last frame has all of these.
    fn wait_for(&mut self, words: &[&str]) {
        let deadline = Instant::now() + HANG;
        loop {
            let frame = self.seen.rsplit("\x1b[H").nth(1).unwrap_or(""); // the last whole one
            if words.iter().all(|word| frame.contains(word)) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(more) = self.screen.recv_timeout(left) else {
                panic!("never saw {words:?}; the last frame was:\n{frame}");
            };
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }

    fn press(&mut self, keys: &[u8]) -> ExitStatus {
        self.keys.write_all(keys).unwrap();
        self.end()
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + HANG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::yield_now();
        }
    }

    fn is_as_before(&self) -> bool {
        // SAFETY: a plain struct of numbers, filled by the next call.
        let mut mode = unsafe { std::mem::zeroed::<libc::termios>() };
        // SAFETY: an open descriptor and a struct to fill.
        let told = unsafe { libc::tcgetattr(self.far_end.as_raw_fd(), &mut mode) } == 0;
        let usual = libc::ICANON | libc::ECHO | libc::ISIG;
        told && mode.c_lflag & usual == usual
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PART: &str = "TIDEGATE_TEST_PLAYS";

/// This test's own file, playing one of the parts below.
fn playing(what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "top::plays_for_the_others", "--nocapture"]).env(PART, what);
    command
}

#[test]
fn plays_for_the_others() {
    match std::env::var(PART).as_deref() {
        Ok("the example") => example::main().unwrap(),
        Ok("no pool") => Top::new().run().unwrap(),
        Ok("a stopped pool") => {
            let pool = Pool::builder("over").workers(1).build().unwrap();
            let mut top = Top::new();
            top.add(&pool);
            pool.shutdown(Shutdown::default()).unwrap();
            top.run().unwrap();
        }
        _ => {}
    }
}

#[test]
fn v4_shows_pools_and_quits_by_a_key() {
    let mut terminal = Terminal::start("the example", 100, 30);
    terminal.wait_for(&["tidegate top, 3 pools", "calm", "queue    [", "workers  [", "q: quit"]);
    // The second frame has rates, and knows what is wrong.
    terminal.wait_for(&["saturated", "failing", "of 50", "refused", "p99", "longest"]);
    assert!(!terminal.is_as_before(), "keys come at once, and are not shown");
    assert!(terminal.press(b"q").success());
    assert!(terminal.is_as_before(), "the terminal is left as it was");
}

#[test]
fn v4_ctrl_c_is_a_key_too() {
    let mut terminal = Terminal::start("no pool", 80, 24);
    terminal.wait_for(&["tidegate top, 0 pools"]);
    assert!(terminal.press(&[3]).success());
    assert!(terminal.is_as_before());
}

#[test]
fn v4_a_small_screen_shows_what_fits() {
    let mut terminal = Terminal::start("the example", 40, 10);
    terminal.wait_for(&["tidegate top, 3 pools", "calm", "q: quit, 16 more lines do not fit"]);
    let frame = terminal.seen.rsplit("\x1b[H").nth(1).unwrap_or("");
    assert_eq!(frame.matches("\r\n").count(), 9, "nothing scrolls: {frame:?}");
    // What moves no cursor; the terminal itself adds a second `\r`.
    let codes = ["\x1b[2m", "\x1b[0m", "\x1b[K", "\x1b[J", "\r"];
    let text = codes.iter().fold(frame.to_owned(), |text, code| text.replace(code, ""));
    assert!(text.lines().all(|line| line.chars().count() <= 40), "nothing wraps: {text:?}");
    assert!(text.lines().any(|line| line.chars().count() == 40), "some are cut: {text:?}");
    assert!(terminal.press(b"xq").success(), "also behind another key");
}

#[test]
fn v4_it_ends_with_the_last_pool() {
    let mut terminal = Terminal::start("a stopped pool", 80, 24);
    assert!(terminal.end().success());
    assert!(terminal.is_as_before());
}

#[test]
fn v4_pools_that_are_gone_disappear() {
    let (stays, goes) = (Pool::builder("stays").workers(1), Pool::builder("goes").workers(1));
    let (stays, goes) = (stays.build().unwrap(), goes.build().unwrap());
    let mut top = Top::new();
    top.add(&stays);
    top.add(&goes);
    assert!(top.frame(80).contains("2 pools"));
    drop(goes); // it ends in the background
    let deadline = Instant::now() + HANG;
    loop {
        let frame = top.frame(80);
        // It may go between any two looks: a frame counts what it shows.
        let shown = ["stays", "goes"].iter().filter(|pool| frame.contains(**pool)).count();
        let title = if shown == 1 { "1 pool\n" } else { "2 pools\n" };
        assert!(frame.contains(title) && frame.contains("stays"), "{frame}");
        if shown == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "still there:\n{frame}");
        thread::yield_now();
    }
}

#[test]
fn v4_without_a_terminal_it_says_so() {
    let output = playing("no pool").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("needs a terminal"), "{text}");
}

#[test]
fn v4_the_example_prints_a_frame_without_a_terminal() {
    let output = playing("the example").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("tidegate top, 3 pools"), "{text}");
    assert!(!text.contains('\x1b'), "plain text: {text}");
}

//! A terminal that a test holds the other end of.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::in_time;

/// The two ends of it, with that many columns: screen and keyboard, and what a process is given.
pub(crate) fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let screen = openpt(flags).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let line = ioctl_tiocgptpeer(&screen, flags | OpenptFlags::CLOEXEC).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&line, size).unwrap();
    (screen, line)
}

/// Reads on until `enough`, or until nobody has the other end.
pub(crate) fn watch(
    screen: OwnedFd,
    mut seen: Vec<u8>,
    enough: impl Fn(&[u8]) -> bool + Send + 'static,
) -> (OwnedFd, Vec<u8>) {
    in_time("the screen", move || {
        let mut screen = File::from(screen);
        let mut part = [0; 4096];
        while !enough(&seen) {
            match screen.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(read) => seen.extend_from_slice(&part[..read]),
            }
        }
        (screen.into(), seen)
    })
}

pub(crate) fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

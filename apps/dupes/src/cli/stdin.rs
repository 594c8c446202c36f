//! Paths from standard input: any bytes, each ended by a newline or by a zero byte.

use std::ffi::OsString;
use std::io::{BufRead, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::{Failure, contradiction};
use crate::exit::Exit;

/// No path is as long; whatever is, is not a list of paths.
const LONGEST: u64 = 1 << 20;

/// Reads to the end of the input. What is empty between two ends is skipped, so that a listing in
/// the format `fdupes` can be put in again.
pub(super) fn paths(stdin: &mut dyn BufRead, end: u8) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    let mut number = 0_u64;
    loop {
        let mut path = Vec::new();
        number += 1;
        if stdin.take(LONGEST).read_until(end, &mut path).map_err(|error| unread(&error))? == 0 {
            return Ok(paths);
        }
        let ended = path.pop_if(|byte| *byte == end).is_some();
        if !ended && path.len() as u64 == LONGEST {
            return Err(wrong(number, "is longer than any path"));
        }
        if path.contains(&0) {
            return Err(wrong(number, "has a zero byte in it: are they for --stdin0?"));
        }
        if !path.is_empty() {
            paths.push(OsString::from_vec(path).into());
        }
    }
}

fn wrong(number: u64, what: &str) -> Failure {
    contradiction(format!("path {number} of standard input {what}"))
}

fn unread(error: &std::io::Error) -> Failure {
    let text = format!("error: can't read paths from standard input: {error}\n");
    Failure { text, stdout: false, exit: Exit::CouldNotRun }
}

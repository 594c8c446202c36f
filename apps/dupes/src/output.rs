//! Listings: one printer for each format, fed set by set, so that nothing is kept.
//!
//! | format | a name that is not UTF-8, or has control bytes | `unverified` |
//! |---|---|---|
//! | `text` | escaped (`escape.rs`); raw with `-0` | in the header of the set |
//! | `fdupes` | escaped; raw with `-0` | can't be said, so the command line refuses it |
//! | `csv` | quoted, or in the column `path_base64` | in the column `verified` |
//! | `json` | escaped as JSON does, or `{"bytes":"base64"}` | in the field `verified` |

mod csv;
mod fdupes;
mod json;
#[cfg(test)]
mod samples;
mod text;

use std::io::{self, BufWriter, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;

use crate::listing::{Set, Totals};
use crate::options::Format;

/// What the mark of a file or folder says that can't be looked at now.
pub(crate) const OFFLINE: &str = "O offline: it was there when it was last scanned";

/// Prints a listing.
pub trait Printer {
    /// The next set.
    fn set(&mut self, set: &Set) -> io::Result<()>;

    /// Whether it says what is reclaimable: that costs an open of each file on some file systems.
    fn counts_bytes(&self) -> bool {
        true
    }

    /// Roots in which there may be files that were never read; said before the end, by a report.
    fn unfinished(&mut self, _roots: Vec<Vec<u8>>) {}

    /// After the last one: whatever the format ends with, and all of it handed over to the system.
    fn end(&mut self, totals: &Totals) -> io::Result<()>;
}

/// The printer of a format. It buffers; `nul` says that names end with a zero byte and are not
/// escaped, which only `text` and `fdupes` know.
pub fn printer<'a>(format: Format, nul: bool, out: Box<dyn Write + 'a>) -> Box<dyn Printer + 'a> {
    let out = BufWriter::with_capacity(1 << 16, out);
    match format {
        Format::Text => Box::new(text::Text::new(out, nul)),
        Format::Fdupes => Box::new(fdupes::Fdupes::new(out, nul)),
        Format::Csv => Box::new(csv::Csv::new(out)),
        Format::Json => Box::new(json::Json::new(out)),
    }
}

/// Standard output, with nothing kept back. The standard library's own has a buffer that is written
/// when the process ends, and that would wait for a reader who has stopped reading.
#[derive(Debug)]
pub struct Stdout;

impl AsFd for Stdout {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdout()
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(rustix::stdio::stdout(), bytes) {
                // Whoever has made it so would not lose a part of it.
                Err(Errno::AGAIN) => {
                    let mut stdout = [PollFd::new(&Stdout, PollFlags::OUT)];
                    poll(&mut stdout, None).map(drop).or_else(|error| match error {
                        Errno::INTR => Ok(()),
                        error => Err(error),
                    })?;
                }
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A path as programs get it: a string, or `{"bytes":"base64"}` where it is not UTF-8.
pub fn json_path(path: &[u8]) -> serde_json::Value {
    match std::str::from_utf8(path) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({ "bytes": json::encoded(path) }),
    }
}

/// The way back.
pub fn from_json_path(value: &serde_json::Value) -> Option<Vec<u8>> {
    match value.as_str() {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => json::decoded(value["bytes"].as_str()?),
    }
}

/// A name and what ends it: raw bytes and NUL, or escaped and a newline.
fn write_name(out: &mut impl Write, name: &[u8], nul: bool) -> io::Result<()> {
    if nul {
        out.write_all(name)?;
        return out.write_all(b"\0");
    }
    writeln!(out, "{}", crate::escape::escaped(name))
}

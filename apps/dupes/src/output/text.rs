//! For people: a header for each set, its names indented below, a summary at the end.
//!
//! Four columns stand before each name, so that a mark can't be taken for a part of one:
//!
//! ```text
//! 12.0 KiB (12288 bytes), 3 files, verified by bytes, 24.0 KiB reclaimable
//!     photos/a.jpg
//!   = photos/also-a.jpg          another name of the file above
//!     photos/b.jpg
//!   R archive/a.jpg              below a --reference root
//!   = archive/also-a.jpg
//!   O drawer/a.jpg               offline: as it was seen by the last scan
//! ```
//!
//! With `-0` each of these lines, the empty ones too, ends with a zero byte and names are raw.

use std::fmt;
use std::io::{self, Write};

use super::{OFFLINE, Printer, write_name};
use crate::count::Count;
use crate::digest::Verified;
use crate::listing::{Entry, Set, Totals};
use crate::size::Size;

/// What stands before a name, and why.
const MARKS: [(&str, &str); 3] = [
    ("  = ", "= another name of the file above it"),
    ("  R ", "R below a --reference root"),
    ("  O ", OFFLINE),
];

pub(super) struct Text<W> {
    out: W,
    nul: bool,
    /// Which marks were printed: the end has to explain them.
    marked: [bool; MARKS.len()],
}

impl<W: Write> Text<W> {
    pub(super) fn new(out: W, nul: bool) -> Text<W> {
        Text { out, nul, marked: [false; MARKS.len()] }
    }

    fn line(&mut self, line: impl fmt::Display) -> io::Result<()> {
        write!(self.out, "{line}{}", if self.nul { '\0' } else { '\n' })
    }

    fn file(&mut self, file: &Entry) -> io::Result<()> {
        let mut mark = match (file.offline, file.reference) {
            (true, _) => Some(2),
            (false, true) => Some(1),
            (false, false) => None,
        };
        for path in &file.paths {
            if let Some(mark) = mark {
                self.marked[mark] = true;
            }
            let before = mark.map_or("    ", |mark| MARKS[mark].0);
            self.out.write_all(before.as_bytes())?;
            write_name(&mut self.out, path, self.nul)?;
            mark = Some(0);
        }
        Ok(())
    }
}

impl<W: Write> Printer for Text<W> {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        self.line(Header(set))?;
        set.files.iter().try_for_each(|file| self.file(file))?;
        self.line("")
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        let used = MARKS.iter().zip(self.marked).filter(|(_, is_used)| *is_used);
        let legend: Vec<&str> = used.map(|((_, why), _)| *why).collect();
        if !legend.is_empty() {
            self.line(legend.join("; "))?;
        }
        self.line(Summary(totals))?;
        self.out.flush()
    }
}

struct Header<'a>(&'a Set);

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header(set) = self;
        write!(f, "{}", Size(set.size))?;
        if set.size >= 1024 {
            write!(f, " ({} bytes)", set.size)?;
        }
        write!(f, ", {}, ", Count(set.files.len() as u64, "file"))?;
        match set.verified {
            Verified::Bytes | Verified::Hash(_) => write!(f, "verified by {}", set.verified.name()),
            Verified::Unverified | Verified::Unique => f.write_str(set.verified.name()),
        }?;
        if let Some(digest) = set.digest {
            write!(f, ", hash {digest}")?;
        }
        write!(f, ", {} reclaimable", Size(set.reclaimable))
    }
}

struct Summary<'a>(&'a Totals);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(totals) = self;
        let (sets, redundant) =
            (Count(totals.sets, "set"), Count(totals.redundant_files, "redundant file"));
        let (files, folders) = (Count(totals.files, "file"), Count(totals.folders, "folder"));
        write!(f, "{sets}, {redundant} ({}), ", Size(totals.redundant_bytes))?;
        write!(f, "{} reclaimable; ", Size(totals.reclaimable_bytes))?;
        write!(f, "{files} ({}) in {folders}, ", Size(totals.bytes))?;
        write!(f, "{} read", Size(totals.bytes_read))?;
        if totals.unread > 0 {
            write!(f, "; {} could not be read", totals.unread)?;
        }
        if totals.unstable > 0 {
            write!(f, "; {} changed meanwhile", totals.unstable)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::escape::tests::unescape;
    use crate::options::Format;
    use crate::output::samples::{self, Name};

    fn names(listing: &[u8], nul: bool) -> Vec<Name> {
        let mut names = Vec::new();
        let mut reference = false;
        for line in listing.split(|byte| *byte == if nul { 0 } else { b'\n' }) {
            let (link, name) = match line {
                [b' ', b' ', mark, b' ', name @ ..] => (*mark == b'=', name),
                _ => continue,
            };
            reference = if link { reference } else { line[2] == b'R' };
            let path = if nul { name.to_vec() } else { unescape(name) };
            names.push(Name { path, link, reference });
        }
        names
    }

    #[test]
    fn hostile_names_come_back() {
        let sets = samples::sets();
        for nul in [false, true] {
            let listing = samples::print(Format::Text, nul, &sets);
            assert_eq!(names(&listing, nul), samples::names(&sets), "nul: {nul}");
        }
    }

    #[test]
    fn nothing_but_newlines_moves_the_cursor() {
        let listing = samples::print(Format::Text, false, &samples::sets());
        let listing = String::from_utf8(listing).unwrap();
        assert!(listing.chars().all(|c| c == '\n' || !c.is_control()), "{listing:?}");
    }

    #[test]
    fn marks_are_explained_if_they_are_there() {
        let mut sets = samples::tame();
        sets.truncate(2);
        let listing = |sets: &[crate::listing::Set]| {
            String::from_utf8(samples::print(Format::Text, false, sets)).unwrap()
        };
        assert!(!listing(&sets[1..]).contains("another name"), "none is marked");
        sets[0].files[1].offline = true;
        let said = listing(&sets);
        assert!(said.contains("\n  O archive/a.jpg\n"), "{said}");
        let legend = "= another name of the file above it; O offline: it was there when it was last scanned\n";
        assert!(said.contains(legend) && !said.contains("--reference"), "{said}");
    }

    #[test]
    fn a_listing_as_people_see_it() {
        let listing = samples::print(Format::Text, false, &samples::tame());
        let expected = "\
12.0 KiB (12288 bytes), 2 files, verified by bytes, 12.0 KiB reclaimable
    photos/a.jpg
  = photos/also a.jpg
  R archive/a.jpg

3 bytes, 2 files, verified by blake3, hash 6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85, 4.0 KiB reclaimable
    x
    y

3 bytes, 2 files, unverified, hash 06b05ab6733a618578af5f94892f3950, 4.0 KiB reclaimable
    v
    w

1 byte, 1 file, unique, 0 bytes reclaimable
    alone

= another name of the file above it; R below a --reference root
4 sets, 3 redundant files (12.0 KiB), 20.0 KiB reclaimable; 9 files (40.0 KiB) in 1 folder, 30.0 KiB read; 2 could not be read; 1 changed meanwhile
";
        assert_eq!(String::from_utf8(listing).unwrap(), expected);
    }
}

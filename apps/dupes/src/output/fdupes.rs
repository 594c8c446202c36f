//! As `fdupes` prints it, for tools that read that: a path a line, an empty line after each set.
//! With `-0` a zero byte ends each path, and one more each set.
//!
//! Names are escaped (`escape.rs`), so that a line is a name; only with `-0` they are raw, and only
//! then a tool can open each of them.
//!
//! There is a path for each file, as from `fdupes` without `-H`: further names of the same file
//! can't be told from copies here. Of files of reference roots there is one, and it comes first: tools
//! that read this keep the first and may remove the others. A set of nothing else is not printed.

use std::io::{self, Write};

use super::{Printer, write_name};
use crate::listing::{Entry, Set, Totals};

pub(super) struct Fdupes<W> {
    out: W,
    nul: bool,
}

impl<W: Write> Fdupes<W> {
    pub(super) fn new(out: W, nul: bool) -> Fdupes<W> {
        Fdupes { out, nul }
    }

    fn file(&mut self, file: &Entry) -> io::Result<()> {
        file.paths.first().map_or(Ok(()), |path| write_name(&mut self.out, path, self.nul))
    }
}

impl<W: Write> Printer for Fdupes<W> {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        let reference = set.files.iter().find(|file| file.reference);
        let others: Vec<&Entry> = set.files.iter().filter(|file| !file.reference).collect();
        if others.is_empty() {
            return Ok(());
        }
        reference.into_iter().chain(others).try_for_each(|file| self.file(file))?;
        write_name(&mut self.out, b"", self.nul)
    }

    fn counts_bytes(&self) -> bool {
        false
    }

    fn end(&mut self, _: &Totals) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::escape::tests::unescape;
    use crate::listing::Set;
    use crate::options::Format;
    use crate::output::samples;

    fn parsed(listing: &[u8], end: u8) -> Vec<Vec<&[u8]>> {
        let mut sets = vec![Vec::new()];
        for line in listing.split_inclusive(|byte| *byte == end) {
            match line.strip_suffix(&[end]).expect("nothing comes after the last end") {
                [] => sets.push(Vec::new()),
                name => sets.last_mut().unwrap().push(name),
            }
        }
        assert_eq!(sets.pop(), Some(Vec::new()), "each set has its end");
        sets
    }

    fn expected(sets: &[Set]) -> Vec<Vec<Vec<u8>>> {
        let paths = |set: &Set, reference| -> Vec<Vec<u8>> {
            let files = set.files.iter().filter(|file| file.reference == reference);
            files.map(|file| file.paths[0].clone()).collect()
        };
        let sets = sets.iter().map(|set| (paths(set, true), paths(set, false)));
        let sets = sets.filter(|(_, others)| !others.is_empty());
        sets.map(|(references, others)| references.into_iter().take(1).chain(others).collect())
            .collect()
    }

    #[test]
    fn escaped_names_come_back() {
        let sets = samples::sets();
        let listing = samples::print(Format::Fdupes, false, &sets);
        let names: Vec<Vec<Vec<u8>>> = parsed(&listing, b'\n')
            .into_iter()
            .map(|set| set.into_iter().map(unescape).collect())
            .collect();
        assert_eq!(names, expected(&sets));
    }

    #[test]
    fn references_come_first_and_links_not_at_all() {
        let listing = samples::print(Format::Fdupes, false, &samples::tame());
        let expected = "archive/a.jpg\nphotos/a.jpg\n\nx\ny\n\nv\nw\n\nalone\n\n";
        assert_eq!(String::from_utf8(listing).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn raw_names_come_back(sets in samples::any_sets()) {
            let listing = samples::print(Format::Fdupes, true, &sets);
            prop_assert_eq!(parsed(&listing, 0), expected(&sets));
        }
    }
}

//! CSV as in RFC 4180: a row for each name.
//!
//! | column | |
//! |---|---|
//! | `set` | number of the set, from 1 on |
//! | `size` | bytes of each of its files |
//! | `hash` | hexadecimal; empty where none was computed |
//! | `verified` | `bytes`, the name of a hash, `unverified` or `unique` |
//! | `reference` | `true` below a root that was given with `--reference`, and of what is offline |
//! | `link` | `true` for a further name of the file in the last row that says `false` |
//! | `path` | always quoted; empty where the name is not UTF-8 |
//! | `path_base64` | empty, or the bytes of such a name |

use std::io::{self, Write};
use std::str;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Printer;
use crate::listing::{Entry, Set, Totals};

const HEADER: &str = "set,size,hash,verified,reference,link,path,path_base64\r\n";

pub(super) struct Csv<W> {
    out: W,
    sets: u64,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(out: W) -> Csv<W> {
        Csv { out, sets: 0 }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.sets == 0 { self.out.write_all(HEADER.as_bytes()) } else { Ok(()) }
    }

    fn file(&mut self, of_set: &str, file: &Entry) -> io::Result<()> {
        for (index, path) in file.paths.iter().enumerate() {
            write!(self.out, "{of_set},{},{},", file.reference, index > 0)?;
            match str::from_utf8(path) {
                Ok(path) => write!(self.out, "\"{}\",\r\n", path.replace('"', "\"\""))?,
                Err(_) => write!(self.out, "\"\",{}\r\n", STANDARD.encode(path))?,
            }
        }
        Ok(())
    }
}

impl<W: Write> Printer for Csv<W> {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        self.begin()?;
        self.sets += 1;
        let hash = set.digest.map(|digest| digest.to_string()).unwrap_or_default();
        let of_set = format!("{},{},{hash},{}", self.sets, set.size, set.verified.name());
        set.files.iter().try_for_each(|file| self.file(&of_set, file))
    }

    fn end(&mut self, _: &Totals) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::options::Format;
    use crate::output::samples::{self, Name};

    /// Rows of fields, by the grammar of the RFC.
    fn rows(text: &str) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (field, after) = field(rest);
            row.push(field);
            rest = match after.strip_prefix("\r\n") {
                Some(next) => {
                    rows.push(std::mem::take(&mut row));
                    next
                }
                None => after.strip_prefix(',').expect("a comma or the end of the row"),
            };
        }
        assert!(row.is_empty(), "the last row ends too");
        rows
    }

    fn field(text: &str) -> (String, &str) {
        let Some(mut rest) = text.strip_prefix('"') else {
            let end = text.find([',', '\r']).unwrap();
            assert!(!text[..end].contains(['"', '\n']), "{text:?} must be quoted");
            return (text[..end].into(), &text[end..]);
        };
        let mut field = String::new();
        loop {
            let (part, after) = rest.split_once('"').expect("a closing quote");
            field.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => (field.push('"'), rest = more),
                None => return (field, after),
            };
        }
    }

    fn names(listing: &[u8]) -> Vec<Name> {
        let rows = rows(str::from_utf8(listing).unwrap());
        rows[1..].iter().map(|row| name(row)).collect()
    }

    fn name(row: &[String]) -> Name {
        let [_, _, _, _, reference, link, path, base64] = row else {
            panic!("{row:?} has not eight fields")
        };
        assert!(path.is_empty() || base64.is_empty(), "one of them says it: {row:?}");
        let path = if base64.is_empty() {
            path.clone().into_bytes()
        } else {
            STANDARD.decode(base64).unwrap()
        };
        Name { path, link: link == "true", reference: reference == "true" }
    }

    #[test]
    fn hostile_names_come_back() {
        let sets = samples::sets();
        let listing = samples::print(Format::Csv, false, &sets);
        assert_eq!(names(&listing), samples::names(&sets));
    }

    #[test]
    fn a_listing_as_it_is_written() {
        let listing = samples::print(Format::Csv, false, &samples::tame());
        let expected = "\
set,size,hash,verified,reference,link,path,path_base64\r
1,12288,,bytes,false,false,\"photos/a.jpg\",\r
1,12288,,bytes,false,true,\"photos/also a.jpg\",\r
1,12288,,bytes,true,false,\"archive/a.jpg\",\r
2,3,6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85,blake3,false,false,\"x\",\r
2,3,6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85,blake3,false,false,\"y\",\r
3,3,06b05ab6733a618578af5f94892f3950,unverified,false,false,\"v\",\r
3,3,06b05ab6733a618578af5f94892f3950,unverified,false,false,\"w\",\r
4,1,,unique,false,false,\"alone\",\r
";
        assert_eq!(String::from_utf8(listing).unwrap(), expected);
    }

    #[test]
    fn nothing_found_is_a_header() {
        assert_eq!(samples::print(Format::Csv, false, &[]), HEADER.as_bytes());
    }

    proptest! {
        #[test]
        fn any_names_come_back(sets in samples::any_sets()) {
            let listing = samples::print(Format::Csv, false, &sets);
            prop_assert_eq!(names(&listing), samples::names(&sets));
        }
    }
}

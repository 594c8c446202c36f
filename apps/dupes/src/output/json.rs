//! JSON: one object, with a line for each set.
//!
//! ```json
//! {"groups":[
//! {"size":12288,"hash":null,"verified":"bytes","reclaimable":12288,
//!  "paths":["photos/a.jpg","archive/a.jpg"],
//!  "reference":["archive/a.jpg"],
//!  "offline":[],
//!  "links":[{"of":"photos/a.jpg","path":"photos/also a.jpg"}]}
//! ],"totals":{"folders":1,"files":9}}
//! ```
//!
//! `paths` has one path for each file. Those that are never to go are in `reference` as well: below a
//! reference root, or offline, and then in `offline`, too.
//! `links` has the further names of a file of `paths`. A path is a string, or `{"bytes":"base64"}`
//! where it is not UTF-8. All fields are always there. `unfinished` of the totals has the roots of which
//! a report knows that files in them may never have been read.

use std::io::{self, Write};
use std::str;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Printer;
use crate::escape::is_hostile;
use crate::listing::{Entry, Set, Totals};

pub(super) struct Json<W> {
    out: W,
    begun: bool,
    unfinished: Vec<Vec<u8>>,
}

impl<W: Write> Json<W> {
    pub(super) fn new(out: W) -> Json<W> {
        Json { out, begun: false, unfinished: Vec::new() }
    }

    /// An array of whatever `item` writes.
    fn array<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        item: impl Fn(&mut W, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.out.write_all(b"[")?;
        for (index, one) in items.enumerate() {
            if index > 0 {
                self.out.write_all(b",")?;
            }
            item(&mut self.out, one)?;
        }
        self.out.write_all(b"]")
    }

    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        self.out.write_all(b"{\"groups\":[\n")
    }
}

impl<W: Write> Printer for Json<W> {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        if self.begun { self.out.write_all(b",\n") } else { self.begin() }?;
        write!(self.out, "{{\"size\":{},\"hash\":", set.size)?;
        match set.digest {
            Some(digest) => write!(self.out, "\"{digest}\"")?,
            None => self.out.write_all(b"null")?,
        }
        let (verified, reclaimable) = (set.verified.name(), set.reclaimable);
        write!(self.out, ",\"verified\":\"{verified}\",\"reclaimable\":{reclaimable}")?;
        self.out.write_all(b",\"paths\":")?;
        self.array(set.files.iter().filter_map(standing), write_path)?;
        self.out.write_all(b",\"reference\":")?;
        let references = set.files.iter().filter(|file| file.reference);
        self.array(references.filter_map(standing), write_path)?;
        self.out.write_all(b",\"offline\":")?;
        let offline = set.files.iter().filter(|file| file.offline);
        self.array(offline.filter_map(standing), write_path)?;
        self.out.write_all(b",\"links\":")?;
        self.array(set.files.iter().flat_map(links), write_link)?;
        self.out.write_all(b"}")
    }

    fn unfinished(&mut self, roots: Vec<Vec<u8>>) {
        self.unfinished = roots;
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        if !self.begun {
            self.begin()?;
        }
        self.out.write_all(b"\n],\"totals\":")?;
        let fields = [
            ("folders", totals.folders),
            ("files", totals.files),
            ("bytes", totals.bytes),
            ("sets", totals.sets),
            ("redundant_files", totals.redundant_files),
            ("redundant_bytes", totals.redundant_bytes),
            ("reclaimable_bytes", totals.reclaimable_bytes),
            ("bytes_read", totals.bytes_read),
            ("unread", totals.unread),
            ("unstable", totals.unstable),
            ("unread_offline", totals.unread_offline),
        ];
        for (index, (name, value)) in fields.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            write!(self.out, "{before}\"{name}\":{value}")?;
        }
        self.out.write_all(b",\"unfinished\":")?;
        let unfinished = std::mem::take(&mut self.unfinished);
        self.array(unfinished.iter().map(Vec::as_slice), write_path)?;
        self.out.write_all(b"}}\n")?;
        self.out.flush()
    }
}

/// The path that stands for a file.
fn standing(file: &Entry) -> Option<&[u8]> {
    file.paths.first().map(Vec::as_slice)
}

/// Further names of a file, each with the one that stands for it.
fn links(file: &Entry) -> impl Iterator<Item = (&[u8], &[u8])> {
    let of = standing(file).unwrap_or_default();
    file.paths.iter().skip(1).map(move |path| (of, path.as_slice()))
}

fn write_link(out: &mut impl Write, (of, path): (&[u8], &[u8])) -> io::Result<()> {
    out.write_all(b"{\"of\":")?;
    write_path(out, of)?;
    out.write_all(b",\"path\":")?;
    write_path(out, path)?;
    out.write_all(b"}")
}

fn write_path(out: &mut impl Write, path: &[u8]) -> io::Result<()> {
    match str::from_utf8(path) {
        Ok(path) => write_string(out, path),
        Err(_) => write!(out, "{{\"bytes\":\"{}\"}}", encoded(path)),
    }
}

/// JSON asks for escapes below U+0020 only. The other characters that a terminal could obey are
/// escaped too: they are all of the basic plane, and no parser minds.
fn write_string(out: &mut impl Write, text: &str) -> io::Result<()> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.bytes().all(is_plain) {
        // Most names.
        out.write_all(b"\"")?;
        out.write_all(text.as_bytes())?;
        return out.write_all(b"\"");
    }
    if !text.contains(is_hostile) {
        return Ok(serde_json::to_writer(out, text)?);
    }
    let plain = serde_json::to_string(text)?;
    for c in plain.chars() {
        if is_hostile(c) {
            write!(out, "\\u{:04x}", u32::from(c))?;
        } else {
            write!(out, "{c}")?;
        }
    }
    Ok(())
}

/// Base64.
pub(super) fn encoded(path: &[u8]) -> String {
    STANDARD.encode(path)
}

pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::options::Format;
    use crate::output::samples::{self, Name};

    fn path(value: &Value) -> Vec<u8> {
        match value {
            Value::String(text) => text.clone().into_bytes(),
            other => STANDARD.decode(other["bytes"].as_str().unwrap()).unwrap(),
        }
    }

    fn array<'a>(group: &'a Value, field: &str) -> &'a Vec<Value> {
        group[field].as_array().unwrap()
    }

    fn names(listing: &[u8]) -> Vec<Name> {
        let listing: Value = serde_json::from_slice(listing).unwrap();
        array(&listing, "groups").iter().flat_map(names_of_group).collect()
    }

    fn names_of_group(group: &Value) -> Vec<Name> {
        let mut names = Vec::new();
        for file in array(group, "paths") {
            let reference = array(group, "reference").contains(file);
            let links = array(group, "links").iter().filter(|link| link["of"] == *file);
            names.push(Name { path: path(file), link: false, reference });
            names.extend(links.map(|link| Name {
                path: path(&link["path"]),
                link: true,
                reference,
            }));
        }
        names
    }

    #[test]
    fn hostile_names_come_back() {
        let sets = samples::sets();
        let listing = samples::print(Format::Json, false, &sets);
        assert_eq!(names(&listing), samples::names(&sets));
    }

    #[test]
    fn no_terminal_obeys_it() {
        let listing = samples::print(Format::Json, false, &samples::sets());
        let listing = String::from_utf8(listing).unwrap();
        assert!(listing.chars().all(|c| c == '\n' || !is_hostile(c)), "{listing:?}");
    }

    #[test]
    fn a_listing_as_it_is_written() {
        let listing = samples::print(Format::Json, false, &samples::tame()[..1]);
        let expected = r#"{"groups":[
{"size":12288,"hash":null,"verified":"bytes","reclaimable":12288,"paths":["photos/a.jpg","archive/a.jpg"],"reference":["archive/a.jpg"],"offline":[],"links":[{"of":"photos/a.jpg","path":"photos/also a.jpg"}]}
],"totals":{"folders":1,"files":9,"bytes":40960,"sets":4,"redundant_files":3,"redundant_bytes":12294,"reclaimable_bytes":20480,"bytes_read":30720,"unread":2,"unstable":1,"unread_offline":3,"unfinished":[]}}
"#;
        assert_eq!(String::from_utf8(listing).unwrap(), expected);
    }

    #[test]
    fn every_set_says_what_it_rests_on() {
        let listing = samples::print(Format::Json, false, &samples::tame());
        let listing: Value = serde_json::from_slice(&listing).unwrap();
        let said: Vec<&str> =
            array(&listing, "groups").iter().map(|g| g["verified"].as_str().unwrap()).collect();
        assert_eq!(said, ["bytes", "blake3", "unverified", "unique"]);
    }

    #[test]
    fn nothing_found_is_a_listing_too() {
        let listing = samples::print(Format::Json, false, &[]);
        let listing: Value = serde_json::from_slice(&listing).unwrap();
        assert!(array(&listing, "groups").is_empty());
        assert_eq!(listing["totals"]["files"], 9);
    }

    proptest! {
        #[test]
        fn any_names_come_back(sets in samples::any_sets()) {
            let listing = samples::print(Format::Json, false, &sets);
            prop_assert_eq!(names(&listing), samples::names(&sets));
        }
    }
}

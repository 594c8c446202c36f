//! Sets for the tests of the formats: some that people have, some that nobody wants, and any.

use proptest::collection::{hash_set, vec};
use proptest::prelude::*;

use super::printer;
use crate::digest::{Algorithm, Verified};
use crate::listing::{Entry, Set, Totals};
use crate::options::Format;

/// What a listing says of a name, as a parser finds it again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) path: Vec<u8>,
    pub(super) link: bool,
    pub(super) reference: bool,
}

/// What a parser should find, in this order.
pub(super) fn names(sets: &[Set]) -> Vec<Name> {
    let files = sets.iter().flat_map(|set| &set.files);
    files.flat_map(names_of_file).collect()
}

fn names_of_file(file: &Entry) -> impl Iterator<Item = Name> {
    let name = |(index, path): (usize, &Vec<u8>)| Name {
        path: path.clone(),
        link: index > 0,
        reference: file.reference,
    };
    file.paths.iter().enumerate().map(name)
}

/// The whole listing.
pub(super) fn print(format: Format, nul: bool, sets: &[Set]) -> Vec<u8> {
    let mut listing = Vec::new();
    let mut printer = printer(format, nul, Box::new(&mut listing));
    sets.iter().for_each(|set| printer.set(set).unwrap());
    printer.end(&totals()).unwrap();
    drop(printer);
    listing
}

fn totals() -> Totals {
    Totals {
        folders: 1,
        files: 9,
        bytes: 40 << 10,
        sets: 4,
        redundant_files: 3,
        redundant_bytes: 12294,
        reclaimable_bytes: 20 << 10,
        bytes_read: 30 << 10,
        unread: 2,
        unstable: 1,
        unread_offline: 3,
    }
}

/// A set for each thing that a claim can rest on.
pub(super) fn tame() -> Vec<Set> {
    let hashed = |algorithm: Algorithm, names: [&str; 2]| Set {
        size: 3,
        digest: Some(algorithm.digest(b"abc")),
        verified: Verified::by(algorithm),
        files: names.map(|name| entry(&[name.as_bytes()], false)).into(),
        reclaimable: 4096,
    };
    let photos = entry(&[b"photos/a.jpg", b"photos/also a.jpg"], false);
    vec![
        set(12288, vec![photos, entry(&[b"archive/a.jpg"], true)]),
        hashed(Algorithm::Blake3, ["x", "y"]),
        hashed(Algorithm::Xxh3, ["v", "w"]),
        Set {
            verified: Verified::Unique,
            reclaimable: 0,
            ..set(1, vec![entry(&[b"alone"], false)])
        },
    ]
}

/// Names that broke other finders, as files, as links and in reference roots.
pub(super) fn sets() -> Vec<Set> {
    let long = [b'n'; 255];
    let hostile: [&[u8]; 16] = [
        b"new\nline",
        b"\nfirst",
        b"last\n",
        b"carriage\r\nreturn",
        b"quo\"te",
        b"\"",
        b"'single'",
        b"a,b",
        b"\x1b[2J\x1b]0;title\x07",
        b"not \xff UTF-8 \xc3",
        b"-rf",
        b"  = R leading",
        b"back\\slash\\n",
        "c1 \u{9b}31m bidi \u{202e} del \u{7f}".as_bytes(),
        b"\t",
        &long,
    ];
    let files = hostile.iter().map(|name| entry(&[name], false));
    let reversed = hostile.iter().rev().map(|name| entry(&[name], true));
    vec![
        set(4096, files.collect()),
        set(1, vec![entry(&hostile, true), entry(&[b"plain"], false)]),
        set(0, reversed.collect()),
    ]
}

/// Sets of files of any names, none of them twice.
pub(super) fn any_sets() -> impl Strategy<Value = Vec<Set>> {
    let files = hash_set(any_name(), 1..20).prop_flat_map(|names| {
        let names: Vec<Vec<u8>> = names.into_iter().collect();
        vec(any::<(bool, bool)>(), names.len()).prop_map(move |how| dealt(&names, &how))
    });
    vec(files.prop_map(|files| set(1, files)), 0..4)
}

/// Half of them bytes of all kinds, half of them those that formats care for.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\n\r\t\",\\'\x1b\x7f\xc3\xa9\xff -=;{}a/".to_vec());
    prop_oneof![vec(1..=255_u8, 1..255), vec(special, 1..12)]
}

/// Each name is a further one of the file before it, or a file of its own.
fn dealt(names: &[Vec<u8>], how: &[(bool, bool)]) -> Vec<Entry> {
    let mut files: Vec<Entry> = Vec::new();
    for (name, (link, reference)) in names.iter().zip(how) {
        match files.last_mut().filter(|_| *link) {
            Some(file) => file.paths.push(name.clone()),
            None => files.push(entry(&[name], *reference)),
        }
    }
    files
}

fn set(size: u64, files: Vec<Entry>) -> Set {
    Set { size, digest: None, verified: Verified::Bytes, files, reclaimable: size }
}

fn entry(paths: &[&[u8]], reference: bool) -> Entry {
    Entry { paths: paths.iter().map(|path| path.to_vec()).collect(), reference, offline: false }
}

//! The tree b: checkouts of a project, each an edited version of the one before.
//!
//! The project is made of the source trees given (crates, say). Where there are none, its sources are
//! invented. A file is the same in several checkouts until an edit, so that most sets have a
//! member in each of a row of them, and some files are hard links to the checkout before.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Request;
use crate::random::Random;
use crate::writing::{Made, Writer, write_all};

const FILES: u64 = 100_000;
/// As long as the sources suffice for it.
const CHECKOUTS: u64 = 10;
const INVENTED: u64 = FILES / CHECKOUTS;
/// Cargo leaves this in every crate it unpacks; it is no source.
const NOT_A_SOURCE: &str = ".cargo-ok";

/// One in so many files, from one checkout to the next:
const EDITED: u64 = 12;
const ABSENT: u64 = 40;
const LINKED: u64 = 150;

enum Source {
    /// Where it is, and its path in a checkout.
    Read(PathBuf, String),
    Invented(u64),
}

pub(crate) fn make(request: &Request, root: &Path) -> io::Result<Made> {
    let wanted = request.scaled(FILES, 100);
    let sources = sources(request, wanted.div_ceil(CHECKOUTS))?;
    let checkouts = wanted.div_ceil(sources.len() as u64);
    write_all(root, sources.len() as u64, |writer, number| {
        let mut random = Random::of(request.seed, "checkout", number);
        let (path, bytes) = match &sources[number as usize] {
            Source::Read(place, path) => (path.clone(), fs::read(place)?),
            Source::Invented(number) => invented(request.seed, *number),
        };
        history(writer, &mut random, checkouts, &path, bytes)
    })
}

/// A file through all checkouts.
fn history(
    writer: &mut Writer,
    random: &mut Random,
    checkouts: u64,
    path: &str,
    mut bytes: Vec<u8>,
) -> io::Result<()> {
    // The last name that is no link, as long as its bytes are still the same.
    let mut before: Option<String> = None;
    for checkout in 0..checkouts {
        if checkout > 0 && random.one_in(EDITED) {
            edit(random, &mut bytes);
            before = None;
        }
        if random.one_in(ABSENT) {
            continue;
        }
        let name = format!("checkout-{checkout:02}/{path}");
        match &before {
            Some(original) if random.one_in(LINKED) => writer.link(name, original)?,
            _ => {
                writer.file(name.clone(), &bytes)?;
                before = Some(name);
            }
        }
    }
    Ok(())
}

/// Some edits keep the size: only the bytes tell these apart.
fn edit(random: &mut Random, bytes: &mut Vec<u8>) {
    let place = random.below(bytes.len() as u64 + 1) as usize;
    match (random.below(3), bytes.get_mut(place)) {
        (0, Some(byte)) => *byte = byte.wrapping_add(1),
        (1, _) => bytes.truncate(place),
        _ => {
            let line = format!("// {:016x}\n", random.next());
            bytes.splice(place..place, line.into_bytes());
        }
    }
}

/// Whole source trees in a random order, until there are enough files.
fn sources(request: &Request, enough: u64) -> io::Result<Vec<Source>> {
    let mut bases: Vec<&PathBuf> = request.bases.iter().collect();
    bases.sort_by_key(|base| crate::base_name(base));
    let mut random = Random::of(request.seed, "bases", 0);
    for last in (1..bases.len()).rev() {
        bases.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut sources = Vec::new();
    for base in bases {
        if sources.len() as u64 >= enough {
            break;
        }
        collect(base, &crate::base_name(base), &mut sources)?;
    }
    if sources.is_empty() {
        let wanted = enough.min(INVENTED);
        sources = (0..wanted).map(Source::Invented).collect();
    }
    Ok(sources)
}

fn collect(folder: &Path, path: &str, sources: &mut Vec<Source>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        // A name that is not UTF-8 could not be listed by all peers.
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let (place, path, kind) = (entry.path(), format!("{path}/{name}"), entry.file_type()?);
        if kind.is_dir() {
            collect(&place, &path, sources)?;
        } else if kind.is_file() && name != NOT_A_SOURCE {
            sources.push(Source::Read(place, path));
        }
    }
    Ok(())
}

const WORDS: [&str; 24] = [
    "fn", "let", "mut", "match", "self", "pub", "use", "impl", "return", "struct", "Some", "None",
    "Ok", "Err", "queue", "worker", "state", "next", "count", "x", "=", "=>", "{", "}",
];

/// As sources are: most are short, some long, some the same licence, a few empty.
fn invented(seed: u64, number: u64) -> (String, Vec<u8>) {
    let mut random = Random::of(seed, "source", number);
    let folder = format!("crate-{:03}", number / 40);
    match number % 40 {
        0 => return (format!("{folder}/LICENSE"), b"Permission is hereby granted\n".repeat(40)),
        1 => return (format!("{folder}/.gitignore"), b"target/\n*.tmp\n".to_vec()),
        2 => return (format!("{folder}/src/empty.rs"), Vec::new()),
        3 => return (format!("{folder}/notes.tmp"), format!("of {folder}\n").into_bytes()),
        _ => {}
    }
    let words = 20 << random.below(9);
    let mut text = String::new();
    for _ in 0..words + random.below(words) {
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
        text.push(if random.one_in(9) { '\n' } else { ' ' });
    }
    (format!("{folder}/src/part_{number:05}.rs"), text.into_bytes())
}

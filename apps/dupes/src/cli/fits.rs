//! What was said together: each word was fine by itself, and it may still be that nothing can be done with
//! all of them.

use std::collections::HashSet;
use std::io::BufRead;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::args::Find;
use super::{Failure, contradiction, stdin};
use crate::count::Count;
use crate::digest::Algorithm;
use crate::escape::escaped;
use crate::options::{Format, Options, Root};

pub(super) fn null_fits(null: bool, format: Format) -> Result<(), Failure> {
    if null && matches!(format, Format::Csv | Format::Json) {
        let name = if format == Format::Csv { "csv" } else { "json" };
        return Err(contradiction(format!(
            "-0 (--null) is for text and fdupes, and not for --format {name}: any name survives \
             that without it"
        )));
    }
    Ok(())
}

pub(super) fn format_fits(find: &Find) -> Result<(), Failure> {
    null_fits(find.null, find.format)?;
    if find.format == Format::Fdupes && find.hash == Some(Algorithm::Xxh3) {
        return Err(contradiction(
            "--hash xxh3 proves nothing, so its sets must be marked as unverified, and the format \
             fdupes has no place for that: use another hash, or the format text, csv or json",
        ));
    }
    Ok(())
}

pub(super) fn sizes(least: u64, most: Option<u64>) -> Result<RangeInclusive<u64>, Failure> {
    let most = most.unwrap_or(u64::MAX);
    if least > most {
        return Err(contradiction(format!(
            "no file fits: --min-size ({}) is above --max-size ({}); without --min-size it is 1",
            Count(least, "byte"),
            Count(most, "byte")
        )));
    }
    Ok(least..=most)
}

pub(super) fn copies(find: &Find) -> Result<RangeInclusive<usize>, Failure> {
    if find.unique {
        return Ok(1..=1);
    }
    // Who asks for few copies wants to see single files too.
    let over = find.rf_over.unwrap_or(if find.rf_under.is_some() { 0 } else { 1 });
    let copies = over + 1..=find.rf_under.map_or(usize::MAX, |under| under - 1);
    if copies.is_empty() {
        let under = copies.end() + 1;
        return Err(contradiction(format!(
            "no set fits: no number is above --rf-over ({over}) and below --rf-under ({under})"
        )));
    }
    Ok(copies)
}

pub(super) fn roots(
    mut paths: Vec<PathBuf>,
    references: Vec<PathBuf>,
    lines: bool,
    nul: bool,
    stdin: &mut dyn BufRead,
) -> Result<Vec<Root>, Failure> {
    if lines {
        paths.extend(stdin::paths(stdin, b'\n')?);
    }
    if nul {
        paths.extend(stdin::paths(stdin, 0)?);
    }
    if paths.is_empty() {
        return Err(contradiction("no path came from standard input, and no PATH was given"));
    }
    only_once(&paths, &references)?;
    let root = |reference| move |path| Root { path, reference };
    let references = references.into_iter().map(root(true));
    Ok(paths.into_iter().map(root(false)).chain(references).collect())
}

/// Of one root no two files are duplicates with `--isolate`.
pub(super) fn roots_suffice(options: &Options) -> Result<(), Failure> {
    if !options.isolate || options.roots.len() > 1 || options.copies.contains(&1) {
        return Ok(());
    }
    Err(contradiction(
        "no set fits: with --isolate files below the same path are no duplicates of each other, and \
         there is only one: add a PATH or --reference, or say --no-isolate",
    ))
}

/// What is to be listed can't be for comparison only. Other ways to the same place are not seen
/// here; there it is the inode that counts.
fn only_once(paths: &[PathBuf], references: &[PathBuf]) -> Result<(), Failure> {
    let references: HashSet<&Path> = references.iter().map(PathBuf::as_path).collect();
    let twice = paths.iter().find(|path| references.contains(path.as_path()));
    twice.map_or(Ok(()), |path| {
        let path = escaped(path.as_os_str().as_bytes());
        Err(contradiction(format!(
            "'{path}' is given as PATH and with --reference: it can't be both"
        )))
    })
}

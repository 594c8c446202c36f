//! The command line: words in, [`Options`] that can't be wrong out. Nothing is checked again later.

mod args;
mod pages;
mod patterns;
mod stdin;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::BufRead;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use self::args::{Args, Find, Verb};
use crate::digest::Algorithm;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::options::{Filter, Format, Options, Root};

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// Look for duplicates.
    Find(Box<Options>),
    /// Print this to stdout: a page or a script that was asked for.
    Print(Vec<u8>),
}

/// Nothing is to be done, and why: wrong words, or a question that is answered by a text.
#[derive(Debug)]
pub struct Failure {
    /// What to print, with its last newline.
    pub text: String,
    /// It was asked for (help, version) and goes to stdout; all else goes to stderr.
    pub stdout: bool,
    /// How to end then.
    pub exit: Exit,
}

/// Understands a command line, of which the first word is the name of the program. Reads `stdin`
/// only if the words say that paths come from there.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    stdin: &mut dyn BufRead,
) -> Result<Command, Failure> {
    Ok(match Args::try_parse_from(args)?.verb {
        Verb::Find(find) => Command::Find(Box::new(options(*find, stdin)?)),
        Verb::Completions { shell } => Command::Print(pages::completions(shell)),
        Verb::Man => Command::Print(pages::man()),
    })
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        let stdout = !error.use_stderr();
        let exit = if stdout { Exit::Complete } else { Exit::Usage };
        Failure { text: error.render().to_string(), stdout, exit }
    }
}

/// Each word was fine by itself; what they say together may still make no sense.
fn options(find: Find, stdin: &mut dyn BufRead) -> Result<Options, Failure> {
    format_fits(&find)?;
    Ok(Options {
        filter: Filter {
            size: sizes(find.min_size, find.max_size)?,
            hidden: !find.no_hidden,
            ignore_files: find.ignore_files,
            follow: find.follow,
            one_file_system: find.one_file_system,
            depth: find.depth,
            only: patterns::together(&find.name, &find.regex).map_err(contradiction)?,
            except: patterns::together(&find.exclude, &find.exclude_regex)
                .map_err(contradiction)?,
        },
        hash: find.hash,
        threads: find.threads,
        io_threads: find.io_threads,
        isolate: find.isolate,
        copies: copies(&find)?,
        format: find.format,
        nul: find.null,
        progress: find.progress,
        metrics: find.metrics,
        // The last, because it waits for whoever writes to stdin.
        roots: roots(find, stdin)?,
    })
}

fn format_fits(find: &Find) -> Result<(), Failure> {
    if find.null && matches!(find.format, Format::Csv | Format::Json) {
        return Err(contradiction(
            "-0 (--null) is for the formats text and fdupes; any name survives csv and json without it",
        ));
    }
    if find.format == Format::Fdupes && find.hash == Some(Algorithm::Xxh3) {
        return Err(contradiction(
            "--hash xxh3 proves nothing, so its sets must be marked as unverified, and the format \
             fdupes has no place for that: use another hash, or the format text, csv or json",
        ));
    }
    Ok(())
}

fn sizes(least: u64, most: Option<u64>) -> Result<RangeInclusive<u64>, Failure> {
    let most = most.unwrap_or(u64::MAX);
    if least > most {
        return Err(contradiction(format!(
            "no file fits: --min-size ({least} bytes) is above --max-size ({most} bytes)"
        )));
    }
    Ok(least..=most)
}

fn copies(find: &Find) -> Result<RangeInclusive<usize>, Failure> {
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

fn roots(find: Find, stdin: &mut dyn BufRead) -> Result<Vec<Root>, Failure> {
    let mut paths = find.paths;
    if find.stdin {
        paths.extend(stdin::paths(stdin, b'\n')?);
    }
    if find.stdin0 {
        paths.extend(stdin::paths(stdin, 0)?);
    }
    if paths.is_empty() {
        return Err(contradiction("no path came from standard input, and no PATH was given"));
    }
    only_once(&paths, &find.reference)?;
    let root = |reference| move |path| Root { path, reference };
    let references = find.reference.into_iter().map(root(true));
    Ok(paths.into_iter().map(root(false)).chain(references).collect())
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

/// An error of usage, in the form that all others have.
fn contradiction(what: impl std::fmt::Display) -> Failure {
    let mut command = Args::command();
    command.build();
    let find = command.find_subcommand_mut("find").expect("it is one of the verbs");
    find.error(ErrorKind::ArgumentConflict, what).into()
}

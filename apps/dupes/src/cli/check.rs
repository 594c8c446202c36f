//! What `dupes config` says: every setting, and by whom it was set.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::CommandFactory as _;

use super::args::Args;
use super::config::{Effective, Environment, Sources, Wanted};
use super::{Failure, Line, contradiction};

/// What was found.
#[derive(Debug)]
pub struct Checked {
    /// Where a file was looked for; None: nowhere.
    pub place: Option<PathBuf>,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Variables that look like ours and are not.
    pub warnings: Vec<String>,
    /// By table, or what is wrong.
    pub settings: Result<Vec<(String, Vec<Effective>)>, Failure>,
}

impl Checked {
    /// Of all commands, or of this command line.
    pub(super) fn new(wanted: Wanted, line: Vec<OsString>, environment: &Environment) -> Checked {
        let place = wanted.path().map(PathBuf::from);
        let mut checked = Checked { place, file: None, warnings: vec![], settings: Ok(vec![]) };
        match Sources::read(&Args::command(), &wanted, environment) {
            Ok(sources) => {
                checked.file.clone_from(&sources.file);
                checked.warnings = sources.unknown_variables();
                checked.settings = match line.is_empty() {
                    true => all(&sources),
                    false => of_line(&wanted, line, environment),
                };
            }
            Err(failure) => checked.settings = Err(failure),
        }
        checked
    }
}

fn all(sources: &Sources<'_>) -> Result<Vec<(String, Vec<Effective>)>, Failure> {
    let tables = sources.tables().into_iter();
    tables.map(|table| Ok((table.clone(), sources.of_table(&table)?))).collect()
}

/// The command line is not run: nothing is read from standard input for it.
fn of_line(
    wanted: &Wanted,
    line: Vec<OsString>,
    environment: &Environment,
) -> Result<Vec<(String, Vec<Effective>)>, Failure> {
    let mut words = vec![OsString::from("dupes")];
    match wanted {
        Wanted::Nothing => words.push("--no-config".into()),
        Wanted::Named(path) => words.extend(["--config".into(), path.into()]),
        Wanted::Usual(_) => {}
    }
    words.extend(line);
    let line = Line::read(words, environment)?;
    let verb = line.matches.subcommand_name().unwrap_or_default().to_owned();
    Ok(if line.effective.is_empty() { Vec::new() } else { vec![(verb, line.effective)] })
}

/// For `config path`: a line with any bytes.
pub(super) fn path(wanted: &Wanted) -> Result<Vec<u8>, Failure> {
    let Some(path) = wanted.path() else {
        return Err(contradiction(match wanted {
            Wanted::Nothing => "with --no-config no file is looked for",
            _ => "there is no home folder to look in: set HOME, or use --config FILE",
        }));
    };
    Ok([path.as_os_str().as_bytes(), b"\n"].concat())
}

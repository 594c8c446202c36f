//! What `dupes config` says: every setting, and by whom it was set.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::CommandFactory as _;

use super::args::Args;
use super::config::{Effective, Environment, Sources, Wanted};
use super::{Failure, Line, contradiction, understood};

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
        let derived = Args::command();
        match Sources::read(&derived, &wanted, environment) {
            Ok(sources) => {
                checked.file.clone_from(&sources.file);
                checked.warnings = sources.unknown_variables();
                checked.settings = match line.is_empty() {
                    true => all(&sources).and_then(|settings| {
                        // What was said of each by itself may be wrong together.
                        let mut lines = sources.least_lines(&derived).into_iter();
                        lines.try_for_each(|line| of_line(&wanted, line, environment).map(drop))?;
                        Ok(settings)
                    }),
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

/// What would come from standard input: any path will do.
const FROM_STDIN: &[u8] = b"from standard input";

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
    let effective = line.effective.clone();
    understood(line, &mut &*FROM_STDIN, environment)?;
    Ok(if effective.is_empty() { Vec::new() } else { vec![(verb, effective)] })
}

/// For `config path`: a line with any bytes.
pub(super) fn path(wanted: &Wanted) -> Result<Vec<u8>, Failure> {
    let Some(path) = wanted.path() else {
        return Err(contradiction(match wanted {
            Wanted::Nothing => "with --no-config no file is looked for",
            _ => {
                "there is no home folder to look in: set HOME or XDG_CONFIG_HOME to a path that \
                 begins with a slash, or use --config FILE"
            }
        }));
    };
    Ok([path.as_os_str().as_bytes(), b"\n"].concat())
}

//! Defaults from outside of the command line: a file, and the environment. `ARCHITECTURE.md` says what beats what.
//!
//! `settings.rs` knows what can be set, `file.rs` which file is read, `entries.rs` what it says; here they
//! are laid over each other.

mod entries;
mod file;
mod settings;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use self::entries::Entry;
pub use self::file::Environment;
pub(super) use self::file::Wanted;
#[cfg(test)]
pub(super) use self::settings::NEVER;
use self::settings::{Kind, Leaf, PREFIX, Setting, at, nearest, variable};
use super::Failure;
use crate::escape::escaped;
use crate::exit::Exit;

/// Who has said something: the lower, the more it counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The command line.
    Flag,
    /// This variable.
    Environment(String),
    /// A line of a file, in the table of the command.
    Table(PathBuf, usize),
    /// A line of a file, for all commands.
    Top(PathBuf, usize),
    /// Nobody: it is built in.
    Default,
}

impl Origin {
    /// The same for all that was said at one place.
    fn rank(&self) -> u8 {
        match self {
            Origin::Flag => 0,
            Origin::Environment(_) => 1,
            Origin::Table(..) => 2,
            Origin::Top(..) => 3,
            Origin::Default => 4,
        }
    }

    /// Neither by the command line nor by us.
    fn is_outside(&self) -> bool {
        !matches!(self, Origin::Flag | Origin::Default)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => write!(f, "flag"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Table(path, line) | Origin::Top(path, line) => {
                write!(f, "{}:{line}", escaped(path.as_os_str().as_bytes()))
            }
            Origin::Default => write!(f, "default"),
        }
    }
}

/// A setting as it is in effect.
#[derive(Clone, Debug)]
pub struct Effective {
    setting: Setting,
    /// As on a command line; none: not set.
    pub words: Vec<OsString>,
    /// Who said so.
    pub origin: Origin,
}

impl Effective {
    /// As in a file.
    pub fn name(&self) -> &str {
        &self.setting.name
    }

    /// Only one value at a time, which is a number or true or false if it looks so.
    pub fn is_plain(&self) -> bool {
        matches!(self.setting.kind, Kind::Flag | Kind::Number | Kind::NumberOrText)
    }

    /// Any number of values.
    pub fn is_list(&self) -> bool {
        self.setting.kind == Kind::List
    }

    /// It changes something: a flag that says no does not.
    fn is_active(&self) -> bool {
        self.setting.kind != Kind::Flag || self.words.iter().any(|word| word == "true")
    }
}

/// All that is said outside of a command line.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    leaves: Vec<Leaf>,
    environment: &'a Environment,
    entries: Vec<Entry>,
    /// The file that was read.
    pub(super) file: Option<PathBuf>,
}

/// The definition of the command line, with options that take back what was said elsewhere.
pub(super) fn definition(derived: Command) -> Command {
    settings::with_opposites(derived)
}

impl<'a> Sources<'a> {
    /// Reads the file. All of it must be right, whatever is to be done.
    pub(super) fn read(
        derived: &Command,
        wanted: &Wanted,
        environment: &'a Environment,
    ) -> Result<Sources<'a>, Failure> {
        let mut sources =
            Sources { leaves: settings::leaves(derived), environment, entries: vec![], file: None };
        let read = file::read(wanted).map_err(|unusable| wrong([unusable.text], unusable.exit))?;
        if let Some((path, text)) = read {
            let home = environment.get("HOME").map(Path::new);
            let read = entries::read(&text, &sources.leaves, home).map_err(|all| {
                let shown = escaped(path.as_os_str().as_bytes()).to_string();
                let line = |(line, what)| format!("configuration {shown}, line {line}: {what}");
                wrong(all.into_iter().map(line), Exit::Usage)
            });
            sources.entries = read?;
            sources.file = Some(path);
        }
        Ok(sources)
    }

    /// Commands that have settings, by their tables.
    pub(super) fn tables(&self) -> Vec<String> {
        entries::tables(&self.leaves).into_iter().map(str::to_owned).collect()
    }

    /// All settings of the commands of a table, without a command line.
    pub(super) fn of_table(&self, table: &str) -> Result<Vec<Effective>, Failure> {
        let mut all: Vec<Effective> = Vec::new();
        for leaf in self.leaves.iter().filter(|leaf| leaf.table() == table) {
            for one in self.laid_over(leaf, None)? {
                if !all.iter().any(|known| known.name() == one.name()) {
                    all.push(one);
                }
            }
        }
        Ok(all)
    }

    /// The shortest line of each command that has settings, and none below it.
    pub(super) fn least_lines(&self, derived: &Command) -> Vec<Vec<OsString>> {
        let is_below = |one: &Leaf, other: &Leaf| {
            one.path.len() > other.path.len() && one.path.starts_with(&other.path)
        };
        let is_last = |leaf: &&Leaf| !self.leaves.iter().any(|other| is_below(other, leaf));
        let last = self.leaves.iter().filter(is_last);
        last.map(|leaf| settings::least_words(derived, &leaf.path)).collect()
    }

    /// The settings of a command line, and the words of its command; none for one that has no settings.
    pub(super) fn of_line(
        &self,
        matches: &ArgMatches,
    ) -> Result<(Vec<String>, Vec<Effective>), Failure> {
        let (mut path, mut matches) = (Vec::new(), matches);
        while let Some((name, below)) = matches.subcommand() {
            path.push(name.to_owned());
            matches = below;
        }
        let effective = match self.leaves.iter().find(|leaf| leaf.path == path) {
            Some(leaf) => self.laid_over(leaf, Some(matches))?,
            None => Vec::new(),
        };
        Ok((path, effective))
    }

    fn laid_over(&self, leaf: &Leaf, line: Option<&ArgMatches>) -> Result<Vec<Effective>, Failure> {
        for (name, why) in settings::NEVER {
            if self.environment.get(&variable(name)).is_some() {
                let (variable, flag) = (variable(name), name.replace('_', "-"));
                let text = format!("{variable}: this can't be set, only said by --{flag}: {why}");
                return Err(wrong([text], Exit::Usage));
            }
        }
        let all = leaf.settings.iter().map(|setting| {
            let (words, origin) = match line.and_then(|line| flag(setting, line)) {
                Some(words) => (words, Origin::Flag),
                None => self.outside(leaf, setting)?,
            };
            Ok(Effective { setting: setting.clone(), words, origin })
        });
        without_excluded(all.collect::<Result<_, Failure>>()?)
    }

    /// What the environment says, or the file, or nobody.
    fn outside(&self, leaf: &Leaf, setting: &Setting) -> Result<(Vec<OsString>, Origin), Failure> {
        let variable = setting.variable();
        if let Some(value) = self.environment.get(&variable) {
            let words = words_of_variable(setting, value).map_err(|what| {
                let shown = escaped(value.as_bytes());
                wrong([format!("{variable}: '{shown}': {what}")], Exit::Usage)
            });
            return Ok((words?, Origin::Environment(variable)));
        }
        let of = |table: Option<&str>| {
            let is_it =
                |entry: &&Entry| entry.name == setting.name && entry.table.as_deref() == table;
            self.entries.iter().find(is_it)
        };
        let path = || self.file.clone().unwrap_or_default();
        Ok(match (of(Some(leaf.table())), of(None)) {
            (Some(entry), _) => (entry.words.clone(), Origin::Table(path(), entry.line)),
            (None, Some(entry)) => (entry.words.clone(), Origin::Top(path(), entry.line)),
            (None, None) => (setting.usual(), Origin::Default),
        })
    }

    /// Variables that look like ours and are not.
    pub(super) fn unknown_variables(&self) -> Vec<String> {
        let all = self.leaves.iter().flat_map(|leaf| &leaf.settings);
        let mut known: Vec<String> = all.map(Setting::variable).collect();
        known.push("DUPES_CONFIG".into());
        let names = self.environment.names().filter(|name| name.starts_with(PREFIX));
        let unknown = names.filter(|name| !known.iter().any(|known| known == name));
        let short = |name: &str| name[PREFIX.len()..].to_lowercase();
        let shorts: Vec<String> = known.iter().map(|name| short(name)).collect();
        let mut said: Vec<String> = unknown
            .map(|name| {
                let near = nearest(&short(name), shorts.iter().map(String::as_str));
                let near = near.map(|near| format!(": did you mean {}?", variable(near)));
                format!("{name} is no setting, and says nothing{}", near.unwrap_or_default())
            })
            .collect();
        said.sort();
        said
    }
}

/// What the command line says of it; None: nothing.
fn flag(setting: &Setting, line: &ArgMatches) -> Option<Vec<OsString>> {
    let is_given = |id: &str| {
        let known = line.try_contains_id(id).is_ok_and(|known| known);
        known && line.value_source(id) == Some(ValueSource::CommandLine)
    };
    if is_given(setting.id()) {
        let words = line.get_raw(setting.id()).into_iter().flatten().map(OsStr::to_owned);
        return Some(match setting.kind {
            Kind::Flag => vec!["true".into()],
            _ => words.collect(),
        });
    }
    is_given(&setting.opposite_id()).then(|| match setting.kind {
        Kind::Flag => vec!["false".into()],
        _ => Vec::new(),
    })
}

fn words_of_variable(setting: &Setting, value: &OsStr) -> Result<Vec<OsString>, String> {
    let text = || value.to_str().ok_or("it is not UTF-8");
    let words: Vec<OsString> = match setting.kind {
        Kind::Flag => match text()?.to_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => vec!["true".into()],
            "0" | "false" | "no" | "off" => vec!["false".into()],
            _ => return Err("expected 1 or 0, true or false".into()),
        },
        // Any other character may be part of a pattern.
        Kind::List => text()?.lines().filter(|line| !line.is_empty()).map(OsString::from).collect(),
        Kind::Path => vec![value.to_owned()],
        Kind::Number | Kind::NumberOrText | Kind::Text => vec![text()?.into()],
    };
    words.iter().try_for_each(|word| setting.check(word))?;
    Ok(words)
}

/// Of two that exclude each other the one with the higher origin stays.
fn without_excluded(all: Vec<Effective>) -> Result<Vec<Effective>, Failure> {
    let said = |one: &&Effective| one.is_active() && one.origin != Origin::Default;
    let mut left = all.clone();
    for (one, place) in all.iter().zip(&mut left).filter(|(one, _)| said(one)) {
        let excludes =
            |other: &&Effective| one.setting.excludes.iter().any(|id| id == other.name());
        for other in all.iter().filter(said).filter(excludes) {
            // Two flags were refused before.
            if one.origin.rank() == other.origin.rank() && one.origin != Origin::Flag {
                let (first, second) = (&one.origin, &other.origin);
                let text = format!(
                    "{} ({first}) and {} ({second}) can't be set together",
                    one.name(),
                    other.name()
                );
                return Err(wrong([text], Exit::Usage));
            }
            if one.origin.rank() > other.origin.rank() {
                *place = Effective {
                    setting: one.setting.clone(),
                    words: one.setting.usual(),
                    origin: Origin::Default,
                };
            }
        }
    }
    Ok(left)
}

/// The definition with what was said outside as defaults. None: nothing was.
pub(super) fn with_defaults(
    definition: Command,
    path: &[String],
    effective: &[Effective],
) -> Option<Command> {
    let outside = || effective.iter().filter(|one| one.origin.is_outside());
    outside().next()?;
    Some(at(definition, path, |command| {
        outside().fold(command, |command, one| {
            let (setting, words) = (&one.setting, one.words.clone());
            match (setting.kind, &setting.opposite) {
                (Kind::Flag, Some(opposite)) if !one.is_active() => {
                    command.mut_arg(opposite, |arg| arg.default_value("true"))
                }
                // What is so anyway.
                (Kind::Flag, _) if !one.is_active() => command,
                (Kind::Flag, Some(_)) => command,
                _ => command.mut_arg(setting.id(), |arg| arg.default_values(words)),
            }
        })
    }))
}

/// Whether the option with that name, or the one that takes it back, was set by somebody; and whether that
/// was the command line.
pub(super) fn said(effective: &[Effective], id: &str) -> Option<bool> {
    let is_it = |one: &&Effective| one.setting.id() == id || one.setting.opposite_id() == id;
    let one = effective.iter().find(is_it)?;
    (one.origin != Origin::Default).then_some(one.origin == Origin::Flag)
}

/// Where options come from that an error names and nobody has typed.
pub(super) fn explain(mut failure: Failure, effective: &[Effective]) -> Failure {
    if failure.stdout || failure.exit != Exit::Usage {
        return failure;
    }
    for one in effective.iter().filter(|one| one.origin.is_outside()) {
        let long = one.setting.long();
        let named = |end| failure.text.contains(&format!("{long}{end}"));
        if [" ", ")", "\n", ":", "'"].into_iter().any(named) {
            failure.text.push_str(&format!("note: {long} comes from {}\n", one.origin));
        }
    }
    failure
}

/// An error in what is set, one a line.
fn wrong(all: impl IntoIterator<Item = String>, exit: Exit) -> Failure {
    let begin = if exit == Exit::Usage { "error" } else { "dupes" };
    let line = |what: String| format!("{begin}: {}\n", printable(&what));
    Failure { text: all.into_iter().map(line).collect(), stdout: false, exit }
}

/// Names and values are somebody else's: none of them moves a cursor.
fn printable(text: &str) -> String {
    let one = |c: char| match c.is_control() {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(one).collect()
}

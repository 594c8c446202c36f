//! A text in TOML, as entries with their lines: what can be set and looks as it should.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Kind, Leaf, NEVER, Setting, nearest};

/// Something that a file says, and that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Of this command; None: of all.
    pub(super) table: Option<String>,
    pub(super) name: String,
    pub(super) line: usize,
    /// As on a command line; of a flag, `true` or `false`.
    pub(super) words: Vec<OsString>,
}

/// A line that is wrong, and how.
pub(super) type Wrong = (usize, String);

/// All entries, or all that is wrong. `home` is what `~` stands for.
pub(super) fn read(
    text: &str,
    leaves: &[Leaf],
    home: Option<&Path>,
) -> Result<Vec<Entry>, Vec<Wrong>> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        vec![(line_of(text, &span), error.message().replace('\n', ", "))]
    })?;
    let mut reader = Reader { text, leaves, home, entries: Vec::new(), wrong: Vec::new() };
    reader.top(table.get_ref());
    reader.wrong.sort();
    if reader.wrong.is_empty() { Ok(reader.entries) } else { Err(reader.wrong) }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
}

struct Reader<'a> {
    text: &'a str,
    leaves: &'a [Leaf],
    home: Option<&'a Path>,
    entries: Vec<Entry>,
    wrong: Vec<Wrong>,
}

impl Reader<'_> {
    fn top(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let line = line_of(self.text, &key.span());
            match value.get_ref() {
                DeValue::Table(below) if self.has_table(key.get_ref()) => {
                    below.iter().for_each(|(name, value)| {
                        self.entry(Some(key.get_ref()), name.get_ref(), &name.span(), value);
                    });
                }
                DeValue::Table(_) => {
                    let tables = tables(self.leaves);
                    let meant = meant(key.get_ref(), tables.iter().copied());
                    let what =
                        format!("[{}]: no command with settings has that name", key.get_ref());
                    self.wrong
                        .push((line, format!("{what}{meant}; expected {}", tables.join(", "))));
                }
                _ => self.entry(None, key.get_ref(), &key.span(), value),
            }
        }
    }

    fn has_table(&self, name: &str) -> bool {
        self.leaves.iter().any(|leaf| leaf.table() == name)
    }

    fn entry(
        &mut self,
        table: Option<&str>,
        name: &str,
        at: &Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let line = line_of(self.text, at);
        match self.words(table, name, value.get_ref()) {
            Ok(words) => {
                let table = table.map(str::to_owned);
                self.entries.push(Entry { table, name: name.to_owned(), line, words });
            }
            Err(what) => self.wrong.push((line, format!("{name}: {what}"))),
        }
    }

    /// What it is as words of a command line. It must suit all commands that it is for.
    fn words(
        &self,
        table: Option<&str>,
        name: &str,
        value: &DeValue<'_>,
    ) -> Result<Vec<OsString>, String> {
        let is_meant = |leaf: &&Leaf| table.is_none_or(|table| leaf.table() == table);
        let meant = || self.leaves.iter().filter(is_meant);
        let settings = meant().filter_map(|leaf| Some((leaf.table(), leaf.setting(name)?)));
        let found = settings.map(|(command, setting)| (command, self.words_of(setting, value)));
        let found: Vec<_> = found.collect();
        let suits_some = found.iter().any(|(_, words)| words.is_ok());
        let refused =
            found.iter().find_map(|(command, words)| Some((command, words.as_ref().err()?)));
        match refused {
            Some((command, what)) if suits_some => Err(format!(
                "{what}, for {command}: what is not for all commands goes into tables as [{command}]"
            )),
            Some((_, what)) => Err(what.clone()),
            None => match found.into_iter().next() {
                Some((_, words)) => words,
                None => Err(unknown(self.leaves, table, name)),
            },
        }
    }

    fn words_of(&self, setting: &Setting, value: &DeValue<'_>) -> Result<Vec<OsString>, String> {
        let words = match (setting.kind, value) {
            (Kind::Flag, DeValue::Boolean(yes)) => vec![yes.to_string().into()],
            (Kind::Number | Kind::NumberOrText, DeValue::Integer(number)) => {
                vec![decimal(number.as_str(), number.radix())?]
            }
            (Kind::Text | Kind::NumberOrText, DeValue::String(text)) => vec![text.as_ref().into()],
            (Kind::Path, DeValue::String(text)) => vec![self.path(text)?.into()],
            (Kind::List, DeValue::Array(all)) => list(all.iter().map(Spanned::get_ref))?,
            (kind, value) => {
                return Err(format!("expected {}, found {}", kind.expected(), called(value)));
            }
        };
        for word in &words {
            let shown = word.to_string_lossy();
            setting.check(word).map_err(|what| format!("'{shown}': {what}"))?;
        }
        Ok(words)
    }

    /// The same place from wherever it is asked.
    fn path(&self, text: &str) -> Result<PathBuf, String> {
        let path = match (text.strip_prefix("~/"), self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(text),
        };
        if path.is_absolute() {
            return Ok(path);
        }
        Err(format!("'{text}': expected a path that begins with / or ~/"))
    }
}

fn list<'a>(all: impl Iterator<Item = &'a DeValue<'a>>) -> Result<Vec<OsString>, String> {
    let text = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.as_ref().into()),
        other => Err(format!("expected {}, found {} in it", Kind::List.expected(), called(other))),
    };
    all.map(text).collect()
}

/// TOML knows underscores, signs and other bases.
fn decimal(digits: &str, radix: u32) -> Result<OsString, String> {
    let number = i128::from_str_radix(digits, radix);
    number.map(|number| number.to_string().into()).map_err(|_| "the number is too large".into())
}

fn called(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Why nobody knows that name.
fn unknown(leaves: &[Leaf], table: Option<&str>, name: &str) -> String {
    if let Some((_, why)) = NEVER.iter().find(|(never, _)| *never == name) {
        return format!("this can't be set here, only by --{}: {why}", name.replace('_', "-"));
    }
    let elsewhere = leaves.iter().filter(|leaf| leaf.setting(name).is_some());
    let mut elsewhere: Vec<&str> = elsewhere.map(Leaf::table).collect();
    elsewhere.dedup();
    if let (Some(table), false) = (table, elsewhere.is_empty()) {
        return format!("{table} has no such setting; of {}", elsewhere.join(", "));
    }
    let is_meant = |leaf: &&Leaf| table.is_none_or(|table| leaf.table() == table);
    let meant_ones = leaves.iter().filter(is_meant).flat_map(|leaf| &leaf.settings);
    let mut names: Vec<&str> = meant_ones.map(|setting| setting.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match meant(name, names.iter().copied()).as_str() {
        "" => format!("there is no such setting; expected one of {}", names.join(", ")),
        meant => format!("there is no such setting{meant}"),
    }
}

/// Of commands, each once.
pub(super) fn tables(leaves: &[Leaf]) -> Vec<&str> {
    let mut tables: Vec<&str> = leaves.iter().map(Leaf::table).collect();
    tables.dedup();
    tables
}

fn meant<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!(", did you mean {name}?"))
}

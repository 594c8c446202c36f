//! `dupes config check`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{print, say};
use crate::cli::config::{Effective, Origin};
use crate::cli::{Checked, Style};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::output::json_path;

pub(super) fn check(checked: &Checked, style: Style) -> Exit {
    let exit = match &checked.settings {
        Ok(_) => Exit::Complete,
        // Help that was asked for in the command line is no fault.
        Err(failure) => failure.exit,
    };
    let printed = match style {
        Style::Json => print(format!("{}\n", object(checked)).as_bytes()),
        Style::Text => {
            checked.warnings.iter().for_each(|warning| say(&format!("dupes: {warning}")));
            match &checked.settings {
                Ok(settings) => print(text(checked, settings).as_bytes()),
                Err(failure) if failure.stdout => print(failure.text.as_bytes()),
                Err(failure) => {
                    say(failure.text.trim_end());
                    Exit::Complete
                }
            }
        }
    };
    if printed == Exit::Complete { exit } else { printed }
}

/// As a configuration file that says the same.
fn text(checked: &Checked, settings: &[(String, Vec<Effective>)]) -> String {
    let shown = |path: &Path| escaped(path.as_os_str().as_bytes()).to_string();
    let mut text = match (&checked.file, &checked.place) {
        (Some(file), _) => format!("# {} was read\n", shown(file)),
        (None, Some(place)) => format!("# {} is not there\n", shown(place)),
        (None, None) => "# no file was read\n".into(),
    };
    for (table, all) in settings {
        // Writing to a String can't fail; neither here nor below.
        let _ = writeln!(text, "\n[{table}]");
        for one in all {
            let (name, origin) = (one.name(), &one.origin);
            let _ = match value(one) {
                Value::Null => writeln!(text, "# {name} is not set # {origin}"),
                value => writeln!(text, "{name} = {} # {origin}", toml(&value)),
            };
        }
    }
    text
}

/// A value as TOML; what JSON leaves as it is and TOML does not take is escaped.
fn toml(value: &Value) -> String {
    let escape = |c: char| match c {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    match value {
        Value::Array(all) => format!("[{}]", all.iter().map(toml).collect::<Vec<_>>().join(", ")),
        value => value.to_string().chars().map(escape).collect(),
    }
}

/// What it is; null: not set.
fn value(one: &Effective) -> Value {
    let word = |word: &OsString| {
        let text = word.to_string_lossy();
        match serde_json::from_str(&text) {
            Ok(plain @ (Value::Bool(_) | Value::Number(_))) if one.is_plain() => plain,
            _ => Value::from(text),
        }
    };
    if one.is_list() {
        return one.words.iter().map(word).collect();
    }
    one.words.first().map_or(Value::Null, word)
}

fn object(checked: &Checked) -> Value {
    let path = |path: &Path| json_path(path.as_os_str().as_bytes());
    let mut object = json!({
        "place": checked.place.as_deref().map(path),
        "file": checked.file.as_deref().map(path),
        "warnings": checked.warnings,
        "errors": [],
    });
    match &checked.settings {
        Ok(settings) => {
            let table = |all: &[Effective]| -> Map<String, Value> {
                all.iter().map(|one| (one.name().to_owned(), described(one))).collect()
            };
            let tables: Map<String, Value> =
                settings.iter().map(|(name, all)| (name.clone(), table(all).into())).collect();
            object["settings"] = tables.into();
        }
        Err(failure) => {
            let lines = failure.text.lines().map(|line| line.trim_start_matches("error: "));
            object["errors"] = lines.filter(|line| !line.is_empty()).collect();
        }
    }
    object
}

fn described(one: &Effective) -> Value {
    let mut object = json!({ "value": value(one) });
    let (source, more) = match &one.origin {
        Origin::Flag => ("flag", None),
        Origin::Environment(name) => ("environment", Some(("variable", Value::from(name.clone())))),
        Origin::Table(_, line) | Origin::Top(_, line) => ("file", Some(("line", (*line).into()))),
        Origin::Default => ("default", None),
    };
    object["source"] = source.into();
    if let Some((name, value)) = more {
        object[name] = value;
    }
    object
}

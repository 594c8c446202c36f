//! `dupes roots`.

use std::error::Error;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{refused, say, stop_on_signals, tell};
use crate::cli::{Consent, Style, Words};
use crate::count::Count;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::output::json_path;
use crate::scan;
use crate::size::Size;
use crate::store::Store;
use crate::store::roots::{Contents, Presence, Root};

pub(super) fn add(
    database: &Path,
    path: &Path,
    words: &Words,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open_or_make(database)?;
    let _lock = store.lock("roots add")?;
    let is_known = scan::known_root(&store, path).is_ok();
    let root = root(&store, path, words)?;
    if !is_known {
        say(&format!("dupes: registered: {}", shown(&root)));
        return Ok(Exit::Complete);
    }
    let away = store.folders_away(root.id)?;
    let what = match (root.why_offline(), away) {
        (None, 0) => {
            say(&format!("dupes: already registered: {}", shown(&root)));
            return Ok(Exit::Complete);
        }
        // It would be of whatever comes there next.
        (Some(why), _) if !root.path.is_dir() => {
            say(&format!("dupes: already registered: {}, which is offline ({why})", shown(&root)));
            return Ok(Exit::Complete);
        }
        (Some(_), _) => "the folder that is there".to_owned(),
        (None, away) => format!("it without what was mounted on {}", Count(away, "folder")),
    };
    let question = format!(
        "Take {what} for the root {} from now on, and what was there for gone with the next scan?",
        shown(&root)
    );
    if let Some(exit) = refused(&question, consent, &stop_on_signals()?)? {
        return Ok(exit);
    }
    store.take_as_it_is(root.id)?;
    say(&format!("dupes: taken as it is: {}", shown(&root)));
    Ok(Exit::Complete)
}

/// The root with that path: one that is known with its own filters, unless others were said; a new one with these.
pub(super) fn root(store: &Store, path: &Path, words: &Words) -> Result<Root, Box<dyn Error>> {
    match scan::known_root(store, path) {
        Ok(known) if !words.are_said => Ok(known),
        _ => scan::root(store, path, &words.all),
    }
}

pub(super) fn list(database: &Path, style: Style) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open_to_read(database)?;
    let mut text = String::new();
    let mut objects = Vec::new();
    for root in store.roots()? {
        let contents = store.contents(root.id)?;
        // Writing to a String can't fail.
        let _ = writeln!(text, "{}", line(&root, &contents));
        objects.push(object(&root, &contents));
    }
    if text.is_empty() {
        text.push_str("no root is registered yet: dupes scan PATH\n");
    }
    Ok(tell(style, text.trim_end(), &json!({ "roots": objects })))
}

/// For people.
pub(super) fn line(root: &Root, contents: &Contents) -> String {
    let Contents { folders, files, bytes, removed, errors } = contents;
    let (folders, files) = (Count(*folders, "folder"), Count(*files, "file"));
    let mut line = format!("{}: {folders}, {files}, {}", shown(root), Size(*bytes));
    let mut add = |text: String| {
        line.push_str(", ");
        line.push_str(&text);
    };
    if *removed > 0 {
        add(format!("{} gone", Count(*removed, "file")));
    }
    if *errors > 0 {
        add(format!("{errors} not read"));
    }
    if let Some(why) = root.why_offline() {
        add(format!("offline ({why})"));
    }
    if !root.words.is_empty() {
        add(format!("with {}", root.words.join(" ")));
    }
    line
}

/// For programs.
pub(super) fn object(root: &Root, contents: &Contents) -> Value {
    json!({
        "path": json_path(root.path.as_os_str().as_bytes()),
        "added": root.added,
        "online": root.presence() == Presence::Online,
        "filters": root.words,
        "folders": contents.folders,
        "files": contents.files,
        "bytes": contents.bytes,
        "removed": contents.removed,
        "errors": contents.errors,
    })
}

pub(super) fn remove(
    database: &Path,
    path: &Path,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open(database)?;
    let _lock = store.lock("roots remove")?;
    let root = scan::known_root(&store, path)?;
    let files = Count(store.contents(root.id)?.files, "file");
    let question = format!("Forget {} and what is known of {files}?", shown(&root));
    if let Some(exit) = refused(&question, consent, &stop_on_signals()?)? {
        return Ok(exit);
    }
    store.remove_root(root.id)?;
    say(&format!("dupes: forgotten: {}; nothing on disk was touched", shown(&root)));
    Ok(Exit::Complete)
}

fn shown(root: &Root) -> String {
    escaped(root.path.as_os_str().as_bytes()).to_string()
}

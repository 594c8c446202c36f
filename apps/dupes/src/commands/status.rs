//! `dupes status`.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{roots, tell};
use crate::cli::Style;
use crate::count::Count;
use crate::exit::Exit;
use crate::progress::{self, Stage, View};
use crate::size::Size;
use crate::store::roots::AWAY;
use crate::store::rows::CHANGED;
use crate::store::scans::{Scan, State};
use crate::store::{Owner, Store, now};

/// Scans that are shown.
const SHOWN: usize = 10;

/// A line of any length.
const WIDE: usize = 1_000;

pub(super) fn status(database: &Path, style: Style) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open_to_read(database)?;
    // Before the rest is read: a scan that ends meanwhile is active in neither.
    let running = store.owner()?.map(Running::new);
    let scans = store.scans()?;
    let (mut text, mut objects, mut files) = (String::new(), Vec::new(), 0);
    let last = last_of_roots(&scans);
    for root in store.roots()? {
        let contents = store.contents(root.id)?;
        let scan = last.get(&root.id).copied();
        // Writing to a String can't fail; neither here nor below.
        let _ = writeln!(text, "{}", roots::line(&root, &contents));
        let _ = writeln!(text, "  {}", last_line(scan, running.as_ref()));
        let errors = store.errors(root.id)?;
        for (error, count) in &errors {
            let _ = writeln!(text, "  not read: {count}: {}", why(*error));
        }
        let mut object = roots::object(&root, &contents);
        object["not_read"] = errors
            .iter()
            .map(|(error, count)| json!({ "error": error, "why": why(*error), "count": count }))
            .collect();
        object["last_scan"] = scan.map_or(Value::Null, |scan| scan.id.into());
        objects.push(object);
        files += contents.files + contents.removed;
    }
    let bytes = std::fs::metadata(store.path())?.len();
    let per_file = bytes.checked_div(files).unwrap_or(0);
    let per_file_text = Count(per_file, "byte");
    let _ = writeln!(text, "database: {}, {per_file_text} for each file", Size(bytes));
    if let Some(running) = &running {
        text.push_str(&running.text());
    }
    let scans = || scans.iter().take(SHOWN);
    for scan in scans() {
        let _ = writeln!(text, "{}", line(scan, running.as_ref()));
    }
    let object = json!({
        "roots": objects,
        "database": { "bytes": bytes, "bytes_per_file": per_file },
        "running": running.as_ref().map(Running::object),
        "scans": scans().map(|scan| object(scan, running.as_ref())).collect::<Vec<_>>(),
    });
    Ok(tell(style, text.trim_end(), &object))
}

/// What was recorded of a file or folder that could not be read.
fn why(error: i32) -> String {
    match error {
        CHANGED => "it changed while it was read".into(),
        AWAY => "what was mounted there is not".into(),
        error => std::io::Error::from_raw_os_error(error).to_string(),
    }
}

/// Another process, which writes just now.
struct Running {
    note: String,
    progress: Option<(View, i64)>,
}

impl Running {
    fn new(owner: Owner) -> Running {
        let progress = owner.board.as_deref().and_then(progress::read);
        Running { note: owner.note, progress }
    }

    /// Not one that purges, or repairs.
    fn is_scan(&self) -> bool {
        self.note.contains(": scan ")
    }

    fn text(&self) -> String {
        let mut text = format!("running: {}\n", self.note);
        let Some((view, at)) = &self.progress else { return text };
        let age = now() - at;
        if age > 5 {
            let _ = writeln!(text, "  it has said nothing for {age} s: stopped, or held by a disk");
        }
        let doing = if view.walking { "looking and reading" } else { "reading" };
        let without_stages = View { stages: Vec::new(), ..view.clone() };
        let _ = writeln!(text, "  {doing}: {}", without_stages.line(WIDE));
        let (done, wanted) = (view.reads_done, view.reads_wanted);
        let _ = writeln!(text, "  {done} of {wanted} reads, {} unread", view.unread);
        for Stage { name, queued, busy, workers } in &view.stages {
            let _ = writeln!(
                text,
                "  pool {name}: {busy} of {} busy, {} queued",
                Count(*workers, "worker"),
                Count(*queued, "task")
            );
        }
        text
    }

    fn object(&self) -> Value {
        let progress = self.progress.as_ref();
        json!({
            "owner": self.note,
            "progress": progress.map(|(view, _)| view.json(false)),
            "seconds_old": progress.map(|(_, at)| now() - at),
        })
    }
}

/// The newest one of each root; they come newest first.
fn last_of_roots(scans: &[Scan]) -> HashMap<i64, &Scan> {
    let mut last = HashMap::new();
    for scan in scans {
        for root in &scan.roots {
            last.entry(*root).or_insert(scan);
        }
    }
    last
}

fn last_line(scan: Option<&Scan>, running: Option<&Running>) -> String {
    let Some(scan) = scan else { return "never scanned".into() };
    let ago = ago(now() - scan.ended.unwrap_or(scan.began));
    format!("scan {}, {ago} ago: {}", scan.id, state(scan, running))
}

/// About how long that is.
fn ago(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7_200 => format!("{} minutes", seconds / 60),
        7_200..172_800 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Somebody writes to it just now.
pub(super) fn is_busy(store: &Store) -> bool {
    store.owner().is_ok_and(|owner| owner.is_some())
}

/// Who holds the lock scans; who only says that it does was killed.
fn state(scan: &Scan, running: Option<&Running>) -> &'static str {
    match scan.state {
        State::Active if !running.is_some_and(Running::is_scan) => "killed",
        state => state.name(),
    }
}

fn line(scan: &Scan, running: Option<&Running>) -> String {
    let took = scan.ended.unwrap_or_else(now) - scan.began;
    let state = state(scan, running);
    let mut line = format!("scan {} ({}): {state} after {took} s", scan.id, scan.mode);
    for (what, text) in
        [("new", "new"), ("changed", "changed"), ("files_gone", "gone"), ("unread", "unread")]
    {
        if let Some(count) = scan.counts[what].as_u64().filter(|count| *count > 0) {
            let _ = write!(line, ", {count} {text}");
        }
    }
    line
}

fn object(scan: &Scan, running: Option<&Running>) -> Value {
    json!({
        "id": scan.id,
        "mode": scan.mode,
        "began": scan.began,
        "ended": scan.ended,
        "state": state(scan, running),
        "counts": scan.counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_ago() {
        let rows =
            [(-3, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 minutes"), (7_199, "119 minutes")];
        let more = [(7_200, "2 hours"), (172_799, "47 hours"), (172_800, "2 days")];
        for (seconds, text) in rows.into_iter().chain(more) {
            assert_eq!(ago(seconds), text);
        }
    }
}

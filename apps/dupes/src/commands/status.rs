//! `dupes status`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::{roots, tell};
use crate::cli::Style;
use crate::exit::Exit;
use crate::size::Size;
use crate::store::scans::{Scan, State};
use crate::store::{Store, now};

/// Scans that are shown.
const SHOWN: u32 = 10;

pub(super) fn status(database: &Path, style: Style) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open(database)?;
    let is_busy = is_busy(&store);
    let (mut text, mut objects, mut files) = (String::new(), Vec::new(), 0);
    for root in store.roots()? {
        let contents = store.contents(root.id)?;
        // Writing to a String can't fail; neither here nor below.
        let _ = writeln!(text, "{}", roots::line(&root, &contents));
        objects.push(roots::object(&root, &contents));
        files += contents.files + contents.removed;
    }
    let bytes = std::fs::metadata(store.path())?.len();
    let per_file = bytes.checked_div(files).unwrap_or(0);
    let _ = writeln!(text, "database: {}, {per_file} bytes for each file", Size(bytes));
    let scans = store.scans(SHOWN)?;
    for scan in &scans {
        let _ = writeln!(text, "{}", line(scan, is_busy));
    }
    let object = json!({
        "roots": objects,
        "database": { "bytes": bytes, "bytes_per_file": per_file },
        "scans": scans.iter().map(|scan| object(scan, is_busy)).collect::<Vec<_>>(),
    });
    Ok(tell(style, text.trim_end(), &object))
}

/// Who holds the lock scans; who only says that it does was killed.
pub(super) fn is_busy(store: &Store) -> bool {
    matches!(store.lock("status"), Err(error) if error.is_busy())
}

fn state(scan: &Scan, is_busy: bool) -> &'static str {
    match scan.state {
        State::Active if !is_busy => "killed",
        state => state.name(),
    }
}

fn line(scan: &Scan, is_busy: bool) -> String {
    let took = scan.ended.unwrap_or_else(now) - scan.began;
    let state = state(scan, is_busy);
    let mut line = format!("scan {} ({}): {state} after {took} s", scan.id, scan.mode);
    for what in ["new", "changed", "files_gone", "unread"] {
        if let Some(count) = scan.counts[what].as_u64().filter(|count| *count > 0) {
            let _ = write!(line, ", {count} {}", what.replace('_', " "));
        }
    }
    line
}

fn object(scan: &Scan, is_busy: bool) -> serde_json::Value {
    json!({
        "id": scan.id,
        "mode": scan.mode,
        "began": scan.began,
        "ended": scan.ended,
        "state": state(scan, is_busy),
        "counts": scan.counts,
    })
}

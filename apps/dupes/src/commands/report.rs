//! `dupes report`.

use std::error::Error;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tidegate::Clock;

use super::{by_worker, end, list, say, status, stop_on_signals, tell};
use crate::alike::Likeness;
use crate::cli::{Listing, Style};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::output::json_path;
use crate::problems::Problems;
use crate::replace::replace;
use crate::report::html::{Limits, gather};
use crate::report::{self, Gaps};
use crate::size::Size;
use crate::stop::Stop;
use crate::store::Store;

pub(super) fn files(database: &Path, listing: Listing) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let store = Store::open_to_read(database)?;
    let (asked, gaps) = (stop.clone(), report::gaps(&store)?);
    let unfinished = gaps.unfinished.iter();
    let unfinished = unfinished.map(|(path, _)| path.as_os_str().as_bytes().to_vec()).collect();
    let print = move |printer: &mut dyn crate::output::Printer| {
        printer.unfinished(unfinished);
        report::files(&store, listing.min_size, printer, &asked)
    };
    match list(listing.format, listing.nul, &stop, print)? {
        // Of the database: no write says that.
        Err(error) if error.kind() == io::ErrorKind::Other => {
            Err(format!("the listing is not complete: {error}").into())
        }
        printed => {
            if printed.is_ok() {
                tell_gaps(&gaps);
            }
            Ok(end(printed, &Problems::default(), &stop))
        }
    }
}

/// What is recorded was told, so that a report is complete; how much that leaves open is said beside it.
fn tell_gaps(gaps: &Gaps) {
    for path in &gaps.offline {
        let path = escaped(path.as_os_str().as_bytes());
        say(&format!("dupes: {path}: offline: what is told of it was so when it was last scanned"));
    }
    for (path, why) in &gaps.unfinished {
        let (path, why) = (escaped(path.as_os_str().as_bytes()), why.words());
        say(&format!(
            "dupes: {path}: {why}: files that were not read are in no set; `dupes scan` reads them"
        ));
    }
    if gaps.unread > 0 {
        say(&format!(
            "dupes: files and folders that the last scans could not read: {}; what is in them is not known",
            gaps.unread
        ));
    }
}

pub(super) fn folders(
    database: &Path,
    likeness: &Likeness,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let store = Store::open_to_read(database)?;
    let (gaps, likeness) = (report::gaps(&store)?, *likeness);
    let compare =
        move || report::folders::folders(&store, &likeness).map_err(|error| error.to_string());
    // To compare many takes seconds in which nobody looks whether to stop.
    let found = match by_worker("folders", &Clock::system(), &stop, compare)? {
        None => {
            say("dupes: interrupted: nothing was listed");
            return Ok(Exit::Interrupted);
        }
        Some(found) => found?,
    };
    let exit = match style {
        Style::Text => tell(style, &found.text(), &serde_json::Value::Null),
        Style::Json => {
            let mut object = found.json();
            let unfinished = gaps.unfinished.iter();
            let paths = unfinished.map(|(path, _)| json_path(path.as_os_str().as_bytes()));
            object["totals"]["unfinished"] = paths.collect();
            tell(style, "", &object)
        }
    };
    if exit == Exit::Complete {
        tell_gaps(&gaps);
    }
    Ok(exit)
}

/// One page, by a worker: to compare many folders takes seconds in which nobody looks whether to stop.
pub(super) fn page(database: &Path, file: &Path) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let (store, file, asked) = (Store::open_to_read(database)?, file.to_owned(), stop.clone());
    let gaps = report::gaps(&store)?;
    let page = move || write_page(&store, &file, &asked);
    let written = by_worker("page", &Clock::system(), &stop, page)?;
    match written {
        None | Some(Err(_)) if stop.is_asked() => {
            say("dupes: interrupted: no page was written");
            Ok(Exit::Interrupted)
        }
        Some(Ok(said)) => {
            say(&said);
            tell_gaps(&gaps);
            Ok(Exit::Complete)
        }
        Some(Err(error)) => Err(error.into()),
        None => unreachable!("only who is asked to stop gives up"),
    }
}

/// What there is to say then, or why there is nothing.
fn write_page(store: &Store, file: &PathBuf, stop: &Stop) -> Result<String, String> {
    let shown = escaped(file.as_os_str().as_bytes()).to_string();
    // Nobody wants that; a name that is completed by a shell does it.
    let is_ours =
        |found: std::fs::Metadata| store.own_files().contains(&(found.dev(), found.ino()));
    if std::fs::metadata(file).is_ok_and(is_ours) {
        return Err(format!("{shown} belongs to the database: give another name for the page"));
    }
    let page = gather(store, status::is_busy(store), &Limits::default(), stop)
        .map_err(|error| format!("there is no page, and {shown} is as it was: {error}"))?;
    replace(file, |out| page.write(out, stop)).map_err(|error| error.to_string())?;
    let bytes = std::fs::metadata(file).map_or(0, |found| found.len());
    Ok(format!("dupes: wrote {shown}, {}", Size(bytes)))
}

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
use crate::problems::Problems;
use crate::replace::replace;
use crate::report;
use crate::report::html::{Limits, gather};
use crate::size::Size;
use crate::stop::Stop;
use crate::store::Store;

pub(super) fn files(database: &Path, listing: Listing) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let store = Store::open(database)?;
    let asked = stop.clone();
    let print = move |printer: &mut dyn crate::output::Printer| {
        report::files(&store, listing.min_size, printer, &asked)
    };
    match list(listing.format, listing.nul, &stop, print)? {
        // Of the database: no write says that.
        Err(error) if error.kind() == io::ErrorKind::Other => {
            Err(format!("the listing is not complete: {error}").into())
        }
        printed => Ok(end(printed, &Problems::default(), &stop)),
    }
}

pub(super) fn folders(
    database: &Path,
    likeness: &Likeness,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    let found = report::folders::folders(&Store::open(database)?, likeness)?;
    Ok(match style {
        Style::Text => tell(style, &found.text(), &serde_json::Value::Null),
        Style::Json => tell(style, "", &found.json()),
    })
}

/// One page, by a worker: to compare many folders takes seconds in which nobody looks whether to stop.
pub(super) fn page(database: &Path, file: &Path) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let (store, file, asked) = (Store::open(database)?, file.to_owned(), stop.clone());
    let page = move || write_page(&store, &file, &asked);
    let written = by_worker("page", &Clock::system(), &stop, page)?;
    match written {
        None | Some(Err(_)) if stop.is_asked() => {
            say("dupes: interrupted: no page was written");
            Ok(Exit::Interrupted)
        }
        Some(Ok(said)) => {
            say(&said);
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

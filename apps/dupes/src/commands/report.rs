//! `dupes report`.

use std::error::Error;
use std::io;
use std::path::Path;

use super::{end, list, stop_on_signals, tell};
use crate::alike::Likeness;
use crate::cli::{Listing, Style};
use crate::exit::Exit;
use crate::problems::Problems;
use crate::report;
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

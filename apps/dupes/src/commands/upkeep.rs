//! `dupes purge` and `dupes verify`.

use std::error::Error;
use std::io;
use std::path::Path;

use super::{refused, say, stop_on_signals};
use crate::cli::{Consent, Remedy};
use crate::count::Count;
use crate::exit::Exit;
use crate::store::Store;
use crate::store::upkeep::{Fault, Purged};

pub(super) fn purge(
    database: &Path,
    before: i64,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open(database)?;
    let _lock = store.lock("purge")?;
    let gone = store.gone(before)?;
    let is_any = gone != Purged::default();
    let (files, folders) = (Count(gone.files, "file"), Count(gone.folders, "folder"));
    let question = format!("Forget what is known of {files} and {folders} that are gone?");
    if let Some(exit) = is_any.then(|| ask(&question, consent)).transpose()?.flatten() {
        return Ok(exit);
    }
    let purged = store.purge(before)?;
    let (files, folders) = (Count(purged.files, "file"), Count(purged.folders, "folder"));
    say(&format!("dupes: forgotten: {files}, {folders}"));
    Ok(Exit::Complete)
}

pub(super) fn verify(
    database: &Path,
    remedy: Remedy,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = match remedy {
        Remedy::Tell => Store::open_to_read(database)?,
        Remedy::Repair => Store::open(database)?,
    };
    let faults = store.faults()?;
    for Fault { what, count, .. } in &faults {
        say(&format!("dupes: {what}: {count}"));
    }
    if faults.is_empty() {
        say("dupes: the database is in order");
        return Ok(Exit::Complete);
    }
    // What SQLite itself finds in a table, or between the pages, nobody can put right.
    if !faults.iter().all(|fault| fault.can_be_repaired) {
        return Err("the database is damaged, which can't be repaired, and what it says can't be relied on: move \
            it away, and scan into a new one".into());
    }
    if remedy == Remedy::Tell {
        return Err("the database is not in order: verify --repair puts it right".into());
    }
    let _lock = store.lock("verify --repair")?;
    let question = "Delete what can't be true, also of files that are gone or offline?";
    if let Some(exit) = ask(question, consent)? {
        return Ok(exit);
    }
    store.repair()?;
    let left = store.faults()?;
    if left.is_empty() {
        say("dupes: put in order; the next scan brings back what is there");
        return Ok(Exit::Complete);
    }
    Err("it can't be put in order: move it away, and scan into a new one".into())
}

/// How to end if nobody agrees.
fn ask(question: &str, consent: Consent) -> io::Result<Option<Exit>> {
    refused(question, consent, &stop_on_signals()?)
}

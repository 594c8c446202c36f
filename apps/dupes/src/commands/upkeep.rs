//! `dupes purge` and `dupes verify`.

use std::error::Error;
use std::path::Path;

use super::{refused, say};
use crate::cli::{Consent, Remedy};
use crate::exit::Exit;
use crate::store::Store;
use crate::store::upkeep::Fault;

pub(super) fn purge(
    database: &Path,
    before: i64,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open(database)?;
    let _lock = store.lock("purge")?;
    let question = "Forget what is known of files and folders that are gone?";
    if let Some(exit) = refused(question, consent)? {
        return Ok(exit);
    }
    let purged = store.purge(before)?;
    say(&format!("dupes: forgotten: {} files, {} folders", purged.files, purged.folders));
    Ok(Exit::Complete)
}

pub(super) fn verify(
    database: &Path,
    remedy: Remedy,
    consent: Consent,
) -> Result<Exit, Box<dyn Error>> {
    let store = Store::open(database)?;
    let faults = store.faults()?;
    for Fault { what, count, .. } in &faults {
        say(&format!("dupes: {what}: {count}"));
    }
    if faults.is_empty() {
        say("dupes: the database is in order");
        return Ok(Exit::Complete);
    }
    if remedy == Remedy::Tell {
        return Err("the database is not in order: --repair puts right what can be".into());
    }
    let _lock = store.lock("verify --repair")?;
    let question = "Delete what can't be true, also of files that are gone or offline?";
    if let Some(exit) = refused(question, consent)? {
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

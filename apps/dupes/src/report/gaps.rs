//! What a report can't know: it tells what is recorded, and that may be less than what is there.

use std::path::PathBuf;

use super::all;
use crate::store::roots::Presence;
use crate::store::scans::{Scan, State};
use crate::store::{Error, Store};

/// What a report can't know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Roots that can't be looked at now.
    pub offline: Vec<PathBuf>,
    /// Roots in which there may be files that no scan came to.
    pub unfinished: Vec<(PathBuf, Unfinished)>,
    /// Files and folders that could not be read.
    pub unread: u64,
}

/// Why files of a root may never have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// There was no scan.
    NeverScanned,
    /// The last one did not come to its end.
    CutOff,
    /// It has not yet.
    Running,
    /// The last one only looked, and there was something new.
    OnlyLooked,
}

impl Unfinished {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Unfinished::NeverScanned => "was never scanned",
            Unfinished::CutOff => "the last scan did not come to its end",
            Unfinished::Running => "is being scanned just now",
            Unfinished::OnlyLooked => "was looked at since it was read, and files were new",
        }
    }
}

/// Of a database, as it is now.
pub fn gaps(store: &Store) -> Result<Gaps, Error> {
    let is_busy = store.owner().is_ok_and(|owner| owner.is_some());
    let (scans, totals) = (store.scans()?, store.wrap(all(store.connection()))?);
    let mut gaps = Gaps { unread: totals.unread, ..Gaps::default() };
    for root in store.roots()? {
        let of_root = scans.iter().filter(|scan| scan.roots.contains(&root.id));
        if let Some(why) = unfinished(of_root, is_busy) {
            gaps.unfinished.push((root.path.clone(), why));
        }
        if root.presence() == Presence::Offline {
            gaps.offline.push(root.path);
        }
    }
    Ok(gaps)
}

/// Of scans of one root, the newest first. They may have been of others, too, so that what was new need not
/// lie in this one: rather too much is said than too little.
fn unfinished<'a>(scans: impl Iterator<Item = &'a Scan>, is_busy: bool) -> Option<Unfinished> {
    for scan in scans {
        let has_read = matches!(scan.mode.as_str(), "all" | "files");
        let found = ["new", "changed", "restored"].iter().any(|what| scan.counts[what] != 0);
        match scan.state {
            State::Active if is_busy => return Some(Unfinished::Running),
            State::Complete | State::Unread if has_read => return None,
            State::Complete | State::Unread if found => return Some(Unfinished::OnlyLooked),
            State::Complete | State::Unread => {}
            _ => return Some(Unfinished::CutOff),
        }
    }
    Some(Unfinished::NeverScanned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_scan_that_read_decides_unless_something_was_found_since() {
        let scan = |mode: &str, state, new: u64| Scan {
            id: 1,
            mode: mode.into(),
            roots: vec![1],
            began: 0,
            ended: None,
            state,
            counts: serde_json::json!({ "new": new, "changed": 0, "restored": 0 }),
        };
        let (all, looked) = (scan("all", State::Complete, 5), scan("folders", State::Complete, 0));
        let (cut, found) = (scan("all", State::Active, 0), scan("folders", State::Complete, 1));
        let seen = |scans: &[&Scan], busy| unfinished(scans.iter().copied(), busy);
        assert_eq!(seen(&[], false), Some(Unfinished::NeverScanned));
        assert_eq!(seen(&[&all, &cut, &found], false), None);
        assert_eq!(seen(&[&looked, &all], false), None);
        assert_eq!(seen(&[&found, &all], false), Some(Unfinished::OnlyLooked));
        assert_eq!(seen(&[&looked, &cut, &all], false), Some(Unfinished::CutOff));
        assert_eq!(seen(&[&cut, &all], true), Some(Unfinished::Running));
    }
}

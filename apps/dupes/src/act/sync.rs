//! Makes durable what was done in folders.

use std::collections::BTreeMap;

use std::os::fd::OwnedFd;

use rustix::fs::{fstat, fsync};
use rustix::io::Errno;
use tidegate::Pool;

use super::deed::Deed;
use super::facts::Time;
use super::ground::{Ground, Place};
use super::steps::{End, again};
use super::why::Why;
use crate::journal::NO_TIME;

/// Makes what was done in a folder durable. Some file systems have no such thing for folders, and say so; what
/// can be had there was had.
pub(crate) fn sync_folder(folder: &OwnedFd) -> rustix::io::Result<()> {
    match again(|| fsync(folder)) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

/// Each folder that was touched, with when it was changed last, or why it could not be synced.
#[derive(Debug)]
pub(super) struct Folders(BTreeMap<(usize, Vec<u8>), Result<Time, Why>>);

fn key(place: &Place) -> (usize, Vec<u8>) {
    (place.root, place.split().0.to_vec())
}

impl Folders {
    /// Those of all these deeds, whatever became of them: what was put back must be durable, too.
    pub(super) fn sync(
        deeds: &[&mut (Deed, End)],
        ground: &Ground,
        pool: Option<&Pool>,
    ) -> Folders {
        let places = deeds.iter().flat_map(|pair| [&pair.0.at, &pair.0.aside]);
        let some: BTreeMap<_, &Place> = places.map(|place| (key(place), place)).collect();
        let some: Vec<_> = some.into_iter().collect();
        let one = |(_, place): &((usize, Vec<u8>), &Place)| {
            let folder = ground.folder(place)?;
            let failed = |error| Why::Failed("sync its folder", error);
            sync_folder(&folder).map_err(failed)?;
            let stat = fstat(&folder).map_err(failed)?;
            Ok((stat.st_mtime, stat.st_mtime_nsec as u32))
        };
        // Side by side: file systems make many durable at once.
        let ends = match pool.filter(|_| some.len() > 1) {
            Some(pool) => pool.map_slice(&some, one).unwrap_or_else(|error| {
                let why = Why::Journal(error.to_string());
                some.iter().map(|_| Err(why.clone())).collect()
            }),
            None => some.iter().map(one).collect(),
        };
        Folders(some.into_iter().map(|(key, _)| key).zip(ends).collect())
    }

    /// What is not durable is not done, and not back.
    pub(super) fn judge(&self, deeds: &mut [&mut (Deed, End)]) {
        for (deed, end) in deeds.iter_mut().map(|pair| &mut **pair) {
            let failed = |place| self.0.get(&key(place)).and_then(|end| end.as_ref().err());
            // A folder that is not there was never touched.
            let untouched = |why: Option<&Why>| {
                matches!(why, None | Some(Why::Gone | Why::FolderIsLink | Why::OtherRoot))
            };
            match (failed(&deed.at), failed(&deed.aside), &end) {
                (at, aside, End::Back(_)) if untouched(at) && untouched(aside) => {}
                // What was put aside is there, durably; the folder that it is from was deleted since.
                (Some(Why::Gone), None, End::Done | End::Aside(_)) => {}
                (Some(why), _, End::Done | End::Back(_) | End::Aside(_))
                | (_, Some(why), End::Done | End::Back(_) | End::Aside(_)) => {
                    *end = End::Open(why.clone());
                }
                _ => {}
            }
        }
    }

    /// When the folder of a name was changed last.
    pub(super) fn time(&self, place: &Place) -> Time {
        self.0.get(&key(place)).and_then(|end| end.clone().ok()).unwrap_or(NO_TIME)
    }
}

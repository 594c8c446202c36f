//! The last look before what can't be taken back: the old file of a link goes. By the file itself: nobody has changed
//! anything about it since it was verified. By the file that stays: it is what it was when both were compared with
//! the old file out of the way, or it is compared once more.

use std::collections::HashMap;
use std::fs::File;

use rustix::fs::{fdatasync, fstat};

use super::apart::{self, Opened};
use super::deed::Deed;
use super::facts::{Attributes, Facts};
use super::ground::{Ground, Place, open_file};
use super::steps::again;
use super::verify::compare;
use super::why::Why;
use crate::stop::Stop;

/// For deeds that are finished together.
#[derive(Debug, Default)]
pub struct LastLook {
    stop: Stop,
    /// As files that stay were when they were compared.
    kept: HashMap<Place, Vec<Facts>>,
    /// Names that have gone, by device and inode.
    gone: HashMap<(u64, u64), u64>,
}

impl LastLook {
    /// One that compares no longer than it is to.
    pub fn heeding(stop: &Stop) -> LastLook {
        LastLook { stop: stop.clone(), ..LastLook::default() }
    }

    /// Whether it is to.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// As it was when the comparison of it began.
    pub(super) fn compared(&mut self, keeper: &Place, facts: Facts) {
        let known = self.kept.entry(keeper.clone()).or_default();
        if !known.contains(&facts) {
            known.push(facts);
        }
    }

    /// Whether what is aside may go.
    pub(super) fn at(&mut self, deed: &Deed, ground: &Ground) -> Result<(), Why> {
        let folder = ground.folder(&deed.aside)?;
        let (file, facts) = open_file(&folder, deed.aside.split().1)?;
        let keeper = |why| Why::Keeper(Box::new(why));
        let above = ground.folder(&deed.keeper).map_err(keeper)?;
        let (other, others) = open_file(&above, deed.keeper.split().1).map_err(keeper)?;
        // Whoever makes a link to it changes its ctime, as we do: all that were seen are fine.
        if !self.kept.get(&deed.keeper).is_some_and(|known| known.contains(&others)) {
            if others.is_file(&facts) {
                return Err(Why::SameFile);
            }
            compare((&file, &facts), (&other, &others), None, &self.stop).map_err(
                |why| match why {
                    Why::Differs => keeper(Why::Changed),
                    why => why,
                },
            )?;
            again(|| fdatasync(&other))
                .map_err(|error| keeper(Why::Failed("make it durable", error)))?;
            apart::by_rename(deed, Opened::new(&folder, &file), Opened::new(&above, &other))?;
            self.compared(&deed.keeper, others);
        }
        if !Facts::of(&file)?.is_as_written(&deed.facts) {
            return Err(Why::Changed);
        }
        let gone = self.gone.get(&(deed.facts.device, deed.facts.inode)).copied().unwrap_or(0);
        untouched(deed, &file, gone)
    }

    /// One of its names has gone.
    pub(super) fn went(&mut self, deed: &Deed) {
        *self.gone.entry((deed.facts.device, deed.facts.inode)).or_default() += 1;
    }
}

/// What somebody has changed about a file, beside its bytes, would be gone with it; so would the link to another name
/// that he has given it. `gone`: names that it has no more, by us.
pub(super) fn untouched(deed: &Deed, file: &File, gone: u64) -> Result<(), Why> {
    let stat = fstat(file).map_err(|error| Why::Failed("look at it", error))?;
    let differences = Attributes::of(file, &stat)?.differences(&deed.attributes);
    if !differences.is_empty() {
        return Err(Why::Altered(differences));
    }
    let has_another = stat.st_nlink as u64 > deed.names.saturating_sub(gone);
    if has_another { Err(Why::LinkedElsewhere) } else { Ok(()) }
}

//! Deletes for good what was put aside, and asks before each file what was asked before it was put there: is there
//! another one with these bytes?

use std::collections::{BTreeMap, HashMap};

use rustix::fs::{AtFlags, unlinkat};

use super::deed::{Action, Deed, Extent, Stage};
use super::durable;
use super::ground::{Base, Ground, Place};
use super::steps::{End, Found, again, found, look_again};
use super::sync::sync_folder;
use super::trees;
use super::why::Why;
use crate::digest::Digest;
use crate::journal::{Journal, Line, Story};
use crate::stop::Stop;

/// Deeds for which the journal is made durable at a time.
const BATCH: usize = 64;

/// What stayed when something went: for that of which the file that stayed went later, with another one that stayed.
#[derive(Debug, Default)]
pub struct Copies(HashMap<(Digest, Option<Extent>), Vec<(Base, Place)>>);

impl Copies {
    /// Of all runs that are known.
    pub fn of<'s>(stories: impl IntoIterator<Item = &'s Story>) -> Copies {
        let mut copies = Copies::default();
        for story in stories {
            for (deed, _) in &story.deeds {
                let known = copies.0.entry((deed.digest, deed.tree)).or_default();
                let one = (story.bases[deed.keeper.root].clone(), deed.keeper.clone());
                if !known.contains(&one) {
                    known.push(one);
                }
            }
        }
        copies
    }
}

/// All that a run has put into the quarantine. Each with what has become of it.
pub fn purge(
    story: &Story,
    copies: &Copies,
    ground: &Ground,
    journal: &mut Journal,
    stop: &Stop,
) -> Result<Vec<(Deed, End)>, Why> {
    let is_there = |(deed, stage): &&(Deed, Stage)| {
        deed.action == Action::Remove && matches!(stage, Stage::Done(_))
    };
    let deeds: Vec<&Deed> = story.deeds.iter().filter(is_there).map(|(deed, _)| deed).collect();
    let mut ends = Vec::new();
    for batch in deeds.chunks(BATCH) {
        if stop.is_asked() {
            break;
        }
        batch.iter().for_each(|deed| journal.add(&Line::Purging(deed.number)));
        durable(journal)?;
        let some: Vec<(Deed, End)> = batch
            .iter()
            .map(|deed| ((*deed).clone(), by_any(deed, (story, ground), copies, stop)))
            .collect();
        // One for each mount.
        let places: BTreeMap<usize, &Place> =
            batch.iter().map(|deed| (deed.aside.root, &deed.aside)).collect();
        for folder in places.into_values().filter_map(|place| ground.folder(place).ok()) {
            sync_folder(&folder).map_err(|error| Why::Failed("sync the quarantine", error))?;
        }
        some.iter().for_each(|(deed, end)| journal.add(&line(deed, end)));
        durable(journal)?;
        ends.extend(some);
    }
    journal.add(&Line::End);
    durable(journal)?;
    Ok(ends)
}

/// What the journal says then. What could not be deleted is still in the quarantine, or was gone before: to ask
/// again does no harm.
pub(super) fn line(deed: &Deed, end: &End) -> Line {
    match end {
        End::Done => Line::Purged(deed.number),
        End::Back(_) | End::Aside(_) | End::Open(_) => {
            Line::Done(deed.number, crate::journal::NO_TIME)
        }
    }
}

/// By the file that stayed, or by any other one that stayed and had its bytes: whoever it is, the bytes decide.
fn by_any(deed: &Deed, (story, ground): (&Story, &Ground), copies: &Copies, stop: &Stop) -> End {
    let is_missing = |end: &End| match end {
        End::Back(Why::SameFile | Why::Differs) => true,
        End::Back(Why::Keeper(why)) => !matches!(**why, Why::Failed(..) | Why::Stopped),
        _ => false,
    };
    let first = one(deed, ground, stop);
    if !is_missing(&first) {
        return first;
    }
    let others = copies.0.get(&(deed.digest, deed.tree));
    for (base, place) in others.into_iter().flatten() {
        let mut ground = story.ground();
        let root = ground.add(base.clone());
        let keeper = Place { root, path: place.path.clone() };
        let end = one(&Deed { keeper, ..deed.clone() }, &ground, stop);
        if !is_missing(&end) {
            return end;
        }
    }
    match first {
        // It may be on a disk that is not there just now.
        End::Back(Why::Keeper(why)) if matches!(*why, Why::OtherRoot) => {
            End::Back(Why::Keeper(why))
        }
        _ => End::Back(Why::LastCopy),
    }
}

/// Unlinks it, if it is not the last copy.
pub(super) fn one(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    match unlinked(deed, ground, stop) {
        Ok(()) => End::Done,
        Err(why) => End::Back(why),
    }
}

fn unlinked(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    match found(deed, ground, &deed.aside)? {
        Found::Nothing => return Ok(()),
        Found::Victim | Found::Altered => {}
        Found::Link | Found::Other => return Err(Why::Changed),
    }
    if deed.tree.is_some() {
        return trees::purge(deed, ground, stop);
    }
    look_again(deed, ground, stop)?;
    let folder = ground.folder(&deed.aside)?;
    again(|| unlinkat(&folder, deed.aside.split().1, AtFlags::empty()))
        .map_err(|error| Why::Failed("delete it", error))
}

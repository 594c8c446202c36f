//! Deletes for good what was put aside, and asks before each file what was asked before it was put there: is there
//! another one with these bytes?

use std::collections::{BTreeMap, HashMap};

use rustix::fs::{AtFlags, unlinkat};

use super::apart;
use super::deed::{Action, Deed, Extent, Stage};
use super::durable;
use super::ground::{Base, Ground, Place};
use super::steps::{End, Found, again, found, look_at_both};
use super::sync::sync_folder;
use super::trees;
use super::why::{Cut, Why};
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

    /// Where there may be one of these bytes.
    pub(super) fn like(&self, deed: &Deed) -> impl Iterator<Item = &(Base, Place)> {
        self.0.get(&(deed.digest, deed.tree)).into_iter().flatten()
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
    let deeds: Vec<&(Deed, Stage)> = story.deeds.iter().filter(|pair| is_there(pair)).collect();
    let mut ends = Vec::new();
    for batch in deeds.chunks(BATCH) {
        // These wait for the next time, and are counted.
        if stop.is_asked() {
            let not_begun = |(deed, _): &&(Deed, Stage)| (deed.clone(), End::Back(Why::Stopped));
            ends.extend(batch.iter().map(not_begun));
            continue;
        }
        batch.iter().for_each(|(deed, _)| journal.add(&Line::Purging(deed.number)));
        durable(journal)?;
        let some: Vec<(Deed, End)> = batch
            .iter()
            .map(|(deed, _)| (deed.clone(), if_there(deed, (story, ground), copies, stop)))
            .collect();
        // One for each mount.
        let places: BTreeMap<usize, &Place> =
            batch.iter().map(|(deed, _)| (deed.aside.root, &deed.aside)).collect();
        for folder in places.into_values().filter_map(|place| ground.folder(place).ok()) {
            sync_folder(&folder).map_err(|error| Why::Failed("sync the quarantine", error))?;
        }
        for ((deed, end), (_, stage)) in some.iter().zip(batch) {
            journal.add(&line(deed, end, *stage == Stage::Partly));
        }
        durable(journal)?;
        ends.extend(some);
    }
    journal.add(&Line::End);
    durable(journal)?;
    Ok(ends)
}

/// Whether it is in the quarantine, all of it or some.
pub fn is_there((deed, stage): &(Deed, Stage)) -> bool {
    deed.action == Action::Remove && stage.is_aside()
}

/// What the journal says then. What could not be deleted is still in the quarantine: to ask again does no
/// harm. `begun`: some of it is gone, as far as anybody knows.
pub(super) fn line(deed: &Deed, end: &End, begun: bool) -> Line {
    match end {
        End::Done => Line::Purged(deed.number),
        End::Back(Why::Gone) => Line::Missing(deed.number),
        End::Back(Why::Partly(_)) => Line::Partly(deed.number),
        _ if begun => Line::Partly(deed.number),
        End::Back(_) | End::Aside(_) | End::Open(_) => {
            Line::Done(deed.number, crate::journal::NO_TIME)
        }
    }
}

/// What somebody has taken out of the quarantine was not deleted by us.
fn if_there(deed: &Deed, from: (&Story, &Ground), copies: &Copies, stop: &Stop) -> End {
    match found(deed, from.1, &deed.aside) {
        Ok(Found::Nothing) => End::Back(Why::Gone),
        _ => by_any(deed, from, copies, stop),
    }
}

/// By the file that stayed, or by any other one that stayed and had its bytes: whoever it is, the bytes decide.
fn by_any(deed: &Deed, (story, ground): (&Story, &Ground), copies: &Copies, stop: &Stop) -> End {
    let mut end = one(deed, ground, stop);
    if !is_copy_missing(&end) {
        return end;
    }
    // It may be on a disk that is not there just now, or where nobody can tell.
    let is_open = match &end {
        End::Back(Why::Untold) => true,
        End::Back(Why::Keeper(why)) => {
            matches!(**why, Why::OtherRoot | Why::Overlay | Why::InMemory)
        }
        _ => false,
    };
    for (base, place) in copies.like(deed) {
        let mut ground = story.ground();
        let root = ground.add(base.clone());
        let keeper = Place { root, path: place.path.clone() };
        let now = one(&Deed { keeper, ..deed.clone() }, &ground, stop);
        if !is_copy_missing(&now) {
            return now;
        }
        // One that has deleted some of it says so, whatever comes after.
        if matches!(now, End::Back(Why::Partly(_))) {
            end = now;
        }
    }
    match end {
        End::Back(Why::Partly(cut)) => {
            End::Back(Why::Partly(Cut { why: Some(Box::new(Why::LastCopy)), ..cut }))
        }
        end if is_open => end,
        _ => End::Back(Why::LastCopy),
    }
}

/// Whether another one that stayed may still have what this one has not.
fn is_copy_missing(end: &End) -> bool {
    let why = match end {
        End::Back(Why::Partly(Cut { why: Some(why), .. })) => why,
        End::Back(why) => why,
        _ => return false,
    };
    match why {
        Why::SameFile | Why::Differs | Why::Untold => true,
        Why::Keeper(why) => !matches!(**why, Why::Failed(..) | Why::Stopped),
        _ => false,
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
    look_at_both(deed, ground, stop, apart::by_touch)?;
    let folder = ground.folder(&deed.aside)?;
    again(|| unlinkat(&folder, deed.aside.split().1, AtFlags::empty()))
        .map_err(|error| Why::Failed("delete it", error))
}

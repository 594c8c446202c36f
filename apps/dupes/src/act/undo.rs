//! The way back, deed by deed, the last one first. What is in the way is never replaced.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, fstat, linkat, unlinkat};
use rustix::io::Errno;

use super::aside;
use super::copy::copy_of_any;
use super::deed::{Action, Again, Deed, Stage};
use super::durable;
use super::facts::{Facts, Time, set_times};
use super::ground::{Ground, Place, look, open_file};
use super::made::remove_made;
use super::purge::Copies;
use super::spare::{cleared, is_at_keeper, is_spare, named, unmade};
use super::steps::{End, Found, again, found, left_aside, may_unlink_link, rename, swap};
use super::sync::sync_folder;
use super::trees;
use super::verify::fill;
use super::why::Why;
use crate::buffers::with_buffer;
use crate::digest::{Algorithm, Hasher};
use crate::journal::{Journal, Line, NO_TIME, Story};
use crate::stop::Stop;

/// Deeds for which the journal is made durable at a time.
const BATCH: usize = 64;
const PIECE: usize = 256 << 10;

/// All that a run has done, or left aside, and that was not taken back yet. Each with what has become of it.
pub fn undo(
    story: &Story,
    copies: &Copies,
    ground: &Ground,
    journal: &mut Journal,
    stop: &Stop,
) -> Result<Vec<(Deed, End)>, Why> {
    let mut deeds: Vec<(&Deed, Stage)> = story
        .deeds
        .iter()
        .filter(|(_, stage)| matches!(stage, Stage::Done(_) | Stage::Left))
        .map(|(deed, stage)| (deed, *stage))
        .collect();
    deeds.reverse();
    let folders = Untouched::look(&deeds, ground);
    // Of these a purge has deleted some: what is left is not what was there.
    let partly = story.deeds.iter().filter(|(_, stage)| *stage == Stage::Partly);
    let cut = |(deed, _): &(Deed, Stage)| {
        let why = trees::missing(deed, ground).map(|gone| trees::cut(deed, ground, gone, None));
        (deed.clone(), End::Back(why.unwrap_or_else(|why| why)))
    };
    let mut ends: Vec<(Deed, End)> = partly.map(cut).collect();
    for batch in deeds.chunks(BATCH) {
        // These wait for the next time, and are counted.
        if stop.is_asked() {
            let not_begun = |(deed, _): &(&Deed, Stage)| ((*deed).clone(), End::Back(Why::Stopped));
            ends.extend(batch.iter().map(not_begun));
            continue;
        }
        batch.iter().for_each(|(deed, _)| journal.add(&Line::Undoing(deed.number)));
        durable(journal)?;
        for (deed, stage) in batch {
            let end = match stop.is_asked() {
                true => End::Back(Why::Stopped),
                false => one((story, copies), deed, ground, stop),
            };
            journal.add(&match (stage, line(deed, &end, NO_TIME, ground)) {
                (Stage::Left, Line::Done(number, _)) => Line::Left(number),
                (Stage::Done(time), Line::Done(number, _)) => Line::Done(number, *time),
                (_, line) => line,
            });
            ends.push(((*deed).clone(), end));
        }
        durable(journal)?;
    }
    remove_made(story, ground);
    folders.give_back_times(ground);
    // What was to be taken back as a whole, and was stopped or has a deed that could not be settled, is not at its end.
    let is_settled = !story.deeds.iter().any(|(_, stage)| stage.is_open());
    if is_settled && !stop.is_asked() {
        journal.add(&Line::End);
    }
    durable(journal)?;
    Ok(ends)
}

/// What the journal says then. What could not be taken back is done as before.
pub(super) fn line(deed: &Deed, end: &End, time: Time, ground: &Ground) -> Line {
    match end {
        End::Done => Line::Undone(deed.number, again_of(deed, ground)),
        // The journal goes on naming the place.
        End::Back(Why::Aside(_)) => Line::Left(deed.number),
        End::Back(_) | End::Aside(_) => Line::Done(deed.number, time),
        End::Open(_) => Line::Undoing(deed.number),
    }
}

/// What it is known by from now on, to whoever has a plan of before.
fn again_of(deed: &Deed, ground: &Ground) -> Option<Again> {
    let stat = look(ground.folder(&deed.at).ok()?, deed.at.split().1).ok()??;
    let facts = Facts::new(&stat);
    let again = Again { inode: facts.inode, ctime: facts.ctime };
    facts.is_as_written(&Facts { inode: again.inode, ..deed.facts }).then_some(again)
}

/// Takes one back, durably; also one of which that was cut off.
pub(super) fn one(known: (&Story, &Copies), deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    let back = match deed.action {
        Action::Remove | Action::Move => from_aside(deed, ground, stop),
        Action::Hardlink | Action::Symlink => unlink_link(known, deed, ground, stop),
        // What is shared is written to apart: there is nothing to give back.
        Action::Reflink => Ok(()),
    };
    match back {
        Ok(()) => End::Done,
        // In the middle: whoever recovers looks at what is aside.
        Err(Why::Stopped)
            if deed.action.links() && found(deed, ground, &deed.aside) != Ok(Found::Nothing) =>
        {
            End::Open(Why::Stopped)
        }
        Err(why) => End::Back(why),
    }
}

// ---------------------------------------------------------------- remove and move

fn from_aside(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    match (found(deed, ground, &deed.at)?, found(deed, ground, &deed.aside)?) {
        // It was cut off behind this; or another file has got its inode.
        (Found::Victim, Found::Nothing) if is_back(deed, ground, stop)? => return Ok(()),
        (Found::Nothing, Found::Victim | Found::Altered) => {}
        (_, Found::Victim | Found::Altered) => return Err(Why::Occupied),
        // Whosever it is, nobody would look for it there.
        (_, Found::Link | Found::Other) => return Err(left_aside(deed, ground)),
        (_, Found::Nothing) => return Err(Why::Gone),
    }
    // Whoever has deleted some of a folder: that is not what was there.
    if let Ok(gone @ 1..) = trees::missing(deed, ground) {
        return Err(trees::cut(deed, ground, gone, None));
    }
    let (folder, aside) = (ground.folder(&deed.at)?, ground.folder(&deed.aside)?);
    rename(&aside, deed.aside.split().1, &folder, deed.at.split().1)?;
    synced(&folder)?;
    synced(&aside)
}

fn synced(folder: &OwnedFd) -> Result<(), Why> {
    sync_folder(folder).map_err(|error| Why::Failed("sync its folder", error))
}

/// Whether what is at the path has the bytes. Of a folder that is known by its inode and its times.
fn is_back(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<bool, Why> {
    if deed.tree.is_some() {
        return Ok(true);
    }
    let (file, _) = open_file(ground.folder(&deed.at)?, deed.at.split().1)?;
    Ok(read_all(&file, stop, |_| Ok(()))? == deed.digest)
}

// ---------------------------------------------------------------- links

/// In the place of the link, a file as it was: a copy of the one that stayed. Or the file itself, if that is aside still:
/// it is never unlinked, and gets its path as soon as nothing is there but the link.
///
/// ```text
/// copy made at unfinished ──rename──▶ aside; at ⇄ aside; look at what is aside now
///                                     (sync) ──▶ unlink aside ──▶ (sync)
///                                     at ⇄ aside; look again; unlink aside    if that is no link of ours
/// ```
///
/// What an exchange can catch is never at the name of the unfinished copy: that may be unlinked unseen.
fn unlink_link(
    known: (&Story, &Copies),
    deed: &Deed,
    ground: &Ground,
    stop: &Stop,
) -> Result<(), Why> {
    let restored = || {
        let folder = ground.folder(&deed.at)?;
        gone(&folder, unfinished(deed).split().1)?;
        match found(deed, ground, &deed.at)? {
            // One that has become the only name of what somebody has written since is his.
            Found::Link if !may_unlink_link(deed, ground, &deed.at, stop)? => {
                cleared(deed, ground, stop).and(Err(Why::Occupied))
            }
            Found::Link => put_in_place(known, deed, (ground, &folder), stop),
            Found::Nothing if is_itself_aside(deed, ground)? => {
                rename(&folder, deed.aside.split().1, &folder, deed.at.split().1)?;
                synced(&folder)
            }
            Found::Nothing => cleared(deed, ground, stop).and(Err(Why::Gone)),
            // The number of the old inode may have been given to the new file.
            Found::Victim | Found::Altered | Found::Other => go_on(deed, ground, &folder, stop),
        }
    };
    restored().map_err(|why| named(deed, ground, why, stop))
}

/// Whether what is aside is the file that was put there; or at least a whole file that has its inode by now.
fn is_itself_aside(deed: &Deed, ground: &Ground) -> Result<bool, Why> {
    Ok(matches!(found(deed, ground, &deed.aside)?, Found::Victim | Found::Altered))
}

/// What takes the place of the link.
pub(super) struct Made {
    pub(super) facts: Facts,
    /// It was made just now, and may go again.
    pub(super) is_new: bool,
}

/// Where a copy is written.
fn unfinished(deed: &Deed) -> Place {
    deed.aside.beside(&aside::unfinished(deed.aside.split().1.as_bytes()))
}

fn put_in_place(
    known: (&Story, &Copies),
    deed: &Deed,
    (ground, folder): (&Ground, &OwnedFd),
    stop: &Stop,
) -> Result<(), Why> {
    // A copy of an undo that was cut off before the exchange goes, or is made use of if nothing else has its bytes.
    let is_new = cleared(deed, ground, stop)?;
    let facts = match is_new {
        true => make(known, deed, (ground, folder), stop)?,
        false => made_before(deed, (ground, folder), stop)?,
    };
    let made = Made { facts, is_new };
    swap(deed, ground).inspect_err(|_| drop(is_new.then(|| unmade(deed, ground, stop))))?;
    take_or_give_back(deed, ground, folder, &made, stop)
}

/// What is to take the place of the link: aside.
fn make(
    (story, copies): (&Story, &Copies),
    deed: &Deed,
    (ground, folder): (&Ground, &OwnedFd),
    stop: &Stop,
) -> Result<Facts, Why> {
    let unfinished = unfinished(deed);
    let new = unfinished.split().1;
    if !link_to_sibling(story, deed, (ground, folder), stop)? {
        copy_of_any(deed, copies, (ground, folder), new, stop)?;
    }
    let made = look(folder, new)?.map(|stat| Facts::new(&stat)).ok_or(Why::Gone)?;
    rename(folder, new, folder, deed.aside.split().1).inspect_err(|_| drop(gone(folder, new)))?;
    Ok(made)
}

/// What is aside, if it is that, or the file itself.
fn made_before(
    deed: &Deed,
    (ground, folder): (&Ground, &OwnedFd),
    stop: &Stop,
) -> Result<Facts, Why> {
    let there = Deed { at: deed.aside.clone(), ..deed.clone() };
    if is_itself_aside(deed, ground)?
        || is_restored(&there, (ground, folder), stop)? && has_attributes(&there, folder)?
    {
        return Ok(open_file(folder, there.at.split().1)?.1);
    }
    Err(Why::Occupied)
}

/// After an exchange. Somebody may have put another file at the path just before it, or written to the link.
pub(super) fn take_or_give_back(
    deed: &Deed,
    ground: &Ground,
    folder: &OwnedFd,
    made: &Made,
    stop: &Stop,
) -> Result<(), Why> {
    if found(deed, ground, &deed.aside)? != Found::Link || !is_spare(deed, ground, stop)? {
        return Err(give_back(deed, ground, folder, made, stop));
    }
    synced(folder)?;
    gone(folder, deed.aside.split().1)?;
    synced(folder)
}

/// What was at the path gets it back, and what was made for it goes, if it is that: somebody may have saved once
/// more, and then that is the one that has the path.
pub(super) fn give_back(
    deed: &Deed,
    ground: &Ground,
    folder: &OwnedFd,
    made: &Made,
    stop: &Stop,
) -> Why {
    let given = swap(deed, ground).and_then(|()| {
        let stat = look(folder, deed.aside.split().1)?;
        match stat.is_none_or(|stat| Facts::new(&stat).is_as_written(&made.facts)) {
            true if made.is_new => unmade(deed, ground, stop).map(drop),
            true => cleared(deed, ground, stop).map(drop),
            false => swap(deed, ground),
        }
    });
    match given.and_then(|()| synced(folder)) {
        Ok(()) => Why::Occupied,
        Err(why) => why,
    }
}

/// The file at the path may be what was put there before it was cut off.
fn go_on(deed: &Deed, ground: &Ground, folder: &OwnedFd, stop: &Stop) -> Result<(), Why> {
    let is_back = is_restored(deed, (ground, folder), stop)?;
    synced(folder)?;
    if !cleared(deed, ground, stop)? {
        // The exchange has caught what somebody had saved just then. The file itself is nothing that it can have caught.
        let is_caught = found(deed, ground, &deed.aside)? != Found::Victim;
        if is_caught && is_back && has_attributes(deed, folder)? {
            let (_, facts) = open_file(folder, deed.at.split().1)?;
            let made = Made { facts, is_new: false };
            return Err(give_back(deed, ground, folder, &made, stop));
        }
        return Err(Why::Occupied);
    }
    synced(folder)?;
    if is_back { Ok(()) } else { Err(Why::Occupied) }
}

pub(super) fn gone(folder: &OwnedFd, name: &OsStr) -> Result<(), Why> {
    match again(|| unlinkat(folder, name, AtFlags::empty())) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Why::Failed("unlink what was put aside", error)),
    }
}

/// Whether what is there is what undo puts there: these bytes.
fn is_restored(
    deed: &Deed,
    (ground, folder): (&Ground, &OwnedFd),
    stop: &Stop,
) -> Result<bool, Why> {
    let (file, facts) = match open_file(folder, deed.at.split().1) {
        Err(Why::Gone | Why::NotAFile) => return Ok(false),
        opened => opened?,
    };
    // Of a symbolic link the one that stayed may have gone, and its number be that of the copy.
    let is_link = deed.action == Action::Hardlink && facts.is_file(&deed.keeper_facts);
    if facts.size != deed.facts.size || is_link || is_at_keeper(deed, ground, &facts) {
        return Ok(false);
    }
    Ok(read_all(&file, stop, |_| Ok(()))? == deed.digest)
}

/// To another name of the same file that was restored before, or has stayed: they were one, and are one again. Whether
/// there is one must be known: after an error it is asked again later. No link leads from one mount to another: there
/// they are two files from now on.
fn link_to_sibling(
    story: &Story,
    deed: &Deed,
    (ground, folder): (&Ground, &OwnedFd),
    stop: &Stop,
) -> Result<bool, Why> {
    let others = story.deeds.iter().filter(|(other, stage)| {
        other.number != deed.number
            && other.facts.is_file(&deed.facts)
            && matches!(
                stage,
                Stage::Undone(_) | Stage::Undoing(_) | Stage::Done(_) | Stage::Back(_)
            )
    });
    for (other, _) in others {
        let is_there = matches!(
            found(other, ground, &other.at)?,
            Found::Other | Found::Victim | Found::Altered
        );
        if is_there {
            let from = ground.folder(&other.at)?;
            if is_restored(other, (ground, &from), stop)? && has_attributes(other, &from)? {
                let (name, new) = (other.at.split().1, unfinished(deed));
                match again(|| linkat(&from, name, folder, new.split().1, AtFlags::empty())) {
                    Err(Errno::XDEV) => {}
                    Err(error) => return Err(Why::Failed("link it to its other name", error)),
                    Ok(()) => return Ok(true),
                }
            }
        }
    }
    Ok(false)
}

/// So that a file that somebody made there with the same bytes is not taken for it.
fn has_attributes(deed: &Deed, folder: &OwnedFd) -> Result<bool, Why> {
    let (file, _) = open_file(folder, deed.at.split().1)?;
    let stat = fstat(&file).map_err(|error| Why::Failed("look at it", error))?;
    let attributes = super::facts::Attributes::of(&file, &stat)?;
    Ok(attributes.differences(&deed.attributes).is_empty())
}

/// All bytes of a file, and their hash.
pub(super) fn read_all(
    file: &File,
    stop: &Stop,
    mut take: impl FnMut(&[u8]) -> Result<(), Why>,
) -> Result<crate::digest::Digest, Why> {
    let mut hasher = Hasher::new(Algorithm::Blake3);
    with_buffer(PIECE, |buffer| {
        let mut at = 0;
        loop {
            if stop.is_asked() {
                return Err(Why::Stopped);
            }
            let len = fill(file, buffer, at)?;
            hasher.update(&buffer[..len]);
            take(&buffer[..len])?;
            at += len as u64;
            if len < PIECE {
                return Ok(());
            }
        }
    })?;
    Ok(hasher.finish())
}

// ---------------------------------------------------------------- folders

/// Folders that nobody has changed since we did: they get the times back that they had before.
struct Untouched<'d>(Vec<&'d Deed>);

impl<'d> Untouched<'d> {
    /// Before anything is taken back. Of each folder the first deed knows the times before, the one that
    /// was done last those after.
    fn look(deeds: &[(&'d Deed, Stage)], ground: &Ground) -> Untouched<'d> {
        let mut all: Vec<(&Deed, Stage)> = deeds.to_vec();
        all.sort_by_key(|(deed, _)| (deed.at.root, deed.at.split().0.to_vec(), deed.number));
        let same = |(one, _): &(&Deed, Stage), (other, _): &(&Deed, Stage)| {
            (one.at.root, one.at.split().0) == (other.at.root, other.at.split().0)
        };
        let untouched = all.chunk_by(same).filter_map(|of_one| {
            let first = of_one[0].0;
            // Not that of the last number: one that was interrupted was settled later.
            let times = of_one.iter().map(|(_, stage)| match stage {
                Stage::Done(time) => *time,
                _ => NO_TIME,
            });
            let stat = fstat(ground.folder(&first.at).ok()?).ok()?;
            let now = (stat.st_mtime, stat.st_mtime_nsec as u32);
            (times.max() == Some(now) && now != NO_TIME).then_some(first)
        });
        Untouched(untouched.collect())
    }

    fn give_back_times(&self, ground: &Ground) {
        for deed in &self.0 {
            if let Ok(folder) = ground.folder(&deed.at) {
                // Whoever may rename in a folder need not be its owner.
                let _ = set_times(&folder, deed.folder_times);
            }
        }
    }
}

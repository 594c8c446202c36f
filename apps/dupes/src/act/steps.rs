//! How a deed is done, and taken back at once if what is seen then is not what was verified.
//!
//! ```text
//! remove, move        at ──rename, not over anything──▶ aside ──look again──▶ (sync) ──▶ done
//!                     at ◀──────────────────────────── aside    if not so
//!
//! hardlink, symlink   link made at aside; at ⇄ aside; look again at what is aside now
//!                     (sync) ──▶ unlink aside ──▶ (sync) ──▶ done
//!                     at ⇄ aside; unlink aside                  if not so
//! ```
//!
//! **Nothing is unlinked but a link of ours, or a file of which the file that stays was just found to be a
//! copy.**

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, RenameFlags, fdatasync, linkat, readlinkat, renameat_with, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::apart::{self, Opened};
use super::deed::{Action, Deed};
use super::facts::Facts;
use super::ground::{Ground, Place, look, open_file};
use super::last_look::{LastLook, untouched};
use super::spare;
use super::trees;
use super::undo::read_all;
use super::verify::compare;
use super::why::Why;
use crate::escape::escaped;
use crate::stop::Stop;

/// How a deed has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done, but for [`finish`].
    Done,
    /// All is as it was before, and why.
    Back(Why),
    /// It is out of the way, and could not be taken back: it waits where it was put, as one that is done.
    Aside(Why),
    /// It could be neither finished nor taken back: the next run is told.
    Open(Why),
}

/// Does it, but for what can't be taken back: that is for [`finish`], after the folders were synced.
pub fn act(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    act_and_see(deed, ground, stop).0
}

/// And of a link, as the file that stays was when it was compared.
pub(super) fn act_and_see(deed: &Deed, ground: &Ground, stop: &Stop) -> (End, Option<Facts>) {
    let end = match deed.action {
        Action::Remove | Action::Move => set_aside(deed, ground, stop),
        Action::Hardlink | Action::Symlink => match make_link(deed, ground) {
            Ok(()) => return exchange(deed, ground, stop),
            Err(end) => end,
        },
        Action::Reflink => match share(deed, ground, stop) {
            Ok(()) => End::Done,
            Err(why) => End::Back(why),
        },
    };
    (end, None)
}

/// The folders of a deed, open.
struct Spot<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
    aside: OwnedFd,
    aside_name: &'a OsStr,
}

impl<'a> Spot<'a> {
    fn of(deed: &'a Deed, ground: &Ground) -> Result<Spot<'a>, Why> {
        let (folder, aside) = (ground.folder(&deed.at)?, ground.folder(&deed.aside)?);
        Ok(Spot { folder, name: deed.at.split().1, aside, aside_name: deed.aside.split().1 })
    }
}

// ---------------------------------------------------------------- remove and move

fn set_aside(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    let spot = match Spot::of(deed, ground) {
        Ok(spot) => spot,
        Err(why) => return End::Back(why),
    };
    if let Err(why) = rename(&spot.folder, spot.name, &spot.aside, spot.aside_name) {
        return End::Back(why);
    }
    match look_again(deed, ground, stop) {
        Ok(()) => End::Done,
        Err(why) => match put_back(deed, ground, why) {
            // Somebody has saved twice: what came first is where nobody would look for it.
            End::Open(Why::Occupied | Why::Gone)
                if found(deed, ground, &deed.aside) == Ok(Found::Other) =>
            {
                End::Back(left_aside(deed, ground))
            }
            end => end,
        },
    }
}

/// From aside to where it was.
pub fn put_back(deed: &Deed, ground: &Ground, why: Why) -> End {
    let back = Spot::of(deed, ground)
        .and_then(|spot| rename(&spot.aside, spot.aside_name, &spot.folder, spot.name));
    match back {
        Ok(()) => End::Back(why),
        Err(why) => End::Open(why),
    }
}

/// Never over anything.
pub fn rename(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new_name: &OsStr) -> Result<(), Why> {
    again(|| renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE)).map_err(|error| {
        match error {
            Errno::NOENT => Why::Gone,
            Errno::EXIST => Why::Occupied,
            Errno::XDEV => Why::OtherFileSystem,
            Errno::INVAL | Errno::NOSYS => Why::Unsupported("rename without replacing"),
            error => Why::Failed("rename it", error),
        }
    })
}

/// What is aside is the file that was verified, and the file that stays, by its path, has its bytes.
pub fn look_again(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    if deed.tree.is_some() {
        return trees::look_again(deed, ground, stop);
    }
    since_compared(deed, ground, stop).map(drop)
}

/// As the file that stays was before that.
fn since_compared(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<Facts, Why> {
    look_at_both(deed, ground, stop, |goes, stays| apart::by_rename(deed, goes, stays))
}

/// The same, and that they are two files.
pub(super) fn look_at_both(
    deed: &Deed,
    ground: &Ground,
    stop: &Stop,
    are_apart: impl FnOnce(Opened<'_>, Opened<'_>) -> Result<(), Why>,
) -> Result<Facts, Why> {
    let folder = ground.folder(&deed.aside)?;
    let (file, facts) = open_file(&folder, deed.aside.split().1)?;
    if !facts.is_as_written(&deed.facts) {
        return Err(Why::Changed);
    }
    let keeper = |why| match why {
        Why::Gone => Why::SameFile,
        why => Why::Keeper(Box::new(why)),
    };
    let above = ground.folder(&deed.keeper).map_err(keeper)?;
    let (other, others) = open_file(&above, deed.keeper.split().1).map_err(keeper)?;
    if others.is_file(&facts) {
        return Err(Why::SameFile);
    }
    match compare((&file, &facts), (&other, &others), None, stop) {
        Err(Why::Differs) => return Err(Why::SameFile),
        end => end?,
    }
    // Whatever happens to what is aside now, a copy in memory only is none.
    again(|| fdatasync(&other)).map_err(|error| keeper(Why::Failed("make it durable", error)))?;
    are_apart(Opened::new(&folder, &file), Opened::new(&above, &other))?;
    if deed.action.links() {
        untouched(deed, &file, 0)?;
    }
    Ok(others)
}

// ---------------------------------------------------------------- links

/// At the place aside; or how the deed has ended.
fn make_link(deed: &Deed, ground: &Ground) -> Result<(), End> {
    let name = deed.aside.split().1;
    let folder = link(deed, ground).map_err(End::Back)?;
    // Somebody may have put another file at the keeper's path.
    let why = match found(deed, ground, &deed.aside) {
        Ok(Found::Link) => return Ok(()),
        Ok(_) => Why::Keeper(Box::new(Why::Changed)),
        Err(why) => why,
    };
    // It was made a moment ago.
    match again(|| unlinkat(&folder, name, AtFlags::empty())) {
        Ok(()) => Err(End::Back(why)),
        Err(error) => Err(End::Open(Why::Failed("unlink a link of ours", error))),
    }
}

/// Its folder.
fn link(deed: &Deed, ground: &Ground) -> Result<OwnedFd, Why> {
    let folder = ground.folder(&deed.at)?;
    let name = deed.aside.split().1;
    let made = match deed.action {
        Action::Hardlink => {
            let from = ground.folder(&deed.keeper).map_err(|why| Why::Keeper(Box::new(why)))?;
            again(|| linkat(&from, deed.keeper.split().1, &folder, name, AtFlags::empty()))
        }
        _ => again(|| symlinkat(OsStr::from_bytes(&ground.path(&deed.keeper)), &folder, name)),
    };
    match made {
        Ok(()) => Ok(folder),
        Err(Errno::XDEV) => Err(Why::OtherFileSystem),
        Err(Errno::EXIST) => Err(Why::Occupied),
        Err(Errno::PERM | Errno::OPNOTSUPP) => {
            Err(Why::Unsupported("make such a link, or we may not"))
        }
        Err(error) => Err(Why::Failed("make the link", error)),
    }
}

/// The link takes the place of the file, and the file that of the link, at once.
fn exchange(deed: &Deed, ground: &Ground, stop: &Stop) -> (End, Option<Facts>) {
    match swap(deed, ground) {
        Ok(()) => {}
        Err(why) => return (unmake(deed, ground, why, stop), None),
    }
    match since_compared(deed, ground, stop) {
        Ok(keeper) => (End::Done, Some(keeper)),
        Err(why) => (swap_back(deed, ground, why, stop), None),
    }
}

/// And what was made for it goes. Somebody may have put another file in the place of the link meanwhile: then that
/// is the one that has the path, and ours stays where it is.
pub fn swap_back(deed: &Deed, ground: &Ground, why: Why, stop: &Stop) -> End {
    if let Err(why) = swap(deed, ground) {
        return End::Open(why);
    }
    match found(deed, ground, &deed.aside) {
        Ok(Found::Link) => unmake(deed, ground, why, stop),
        Ok(_) => match swap(deed, ground) {
            Ok(()) => End::Back(left_aside(deed, ground)),
            Err(why) => End::Open(why),
        },
        Err(why) => End::Open(why),
    }
}

/// Why it stays where it was put.
pub(super) fn left_aside(deed: &Deed, ground: &Ground) -> Why {
    Why::Aside(escaped(&ground.path(&deed.aside)).to_string())
}

pub(super) fn swap(deed: &Deed, ground: &Ground) -> Result<(), Why> {
    let folder = ground.folder(&deed.at)?;
    let (name, aside) = (deed.at.split().1, deed.aside.split().1);
    again(|| renameat_with(&folder, aside, &folder, name, RenameFlags::EXCHANGE)).map_err(|error| {
        match error {
            Errno::NOENT => Why::Gone,
            Errno::INVAL | Errno::NOSYS => Why::Unsupported("exchange two names at once"),
            error => Why::Failed("put the link in its place", error),
        }
    })
}

/// The link that was not used. One to a file that has no other name by now stays: its bytes may be nowhere else.
pub fn unmake(deed: &Deed, ground: &Ground, why: Why, stop: &Stop) -> End {
    match spare::cleared(deed, ground, stop) {
        Ok(true) => End::Back(why),
        Ok(false) => End::Back(left_aside(deed, ground)),
        Err(why) => End::Open(why),
    }
}

/// **A hard link is a name of a file like any other.** Whether it may go: the file is at the keeper's path, too, or it
/// still has the bytes that it had when it was linked.
pub(super) fn may_unlink_link(
    deed: &Deed,
    ground: &Ground,
    place: &Place,
    stop: &Stop,
) -> Result<bool, Why> {
    if deed.action != Action::Hardlink {
        return Ok(true);
    }
    let folder = match ground.folder(place) {
        Err(Why::Gone) => return Ok(true),
        folder => folder?,
    };
    let Some(link) = look(&folder, place.split().1)? else { return Ok(true) };
    let keeper = ground.folder(&deed.keeper).and_then(|above| look(&above, deed.keeper.split().1));
    if let Ok(Some(stat)) = keeper
        && Facts::new(&stat).is_file(&Facts::new(&link))
    {
        return Ok(true);
    }
    let (file, facts) = open_file(&folder, place.split().1)?;
    Ok(facts.size == deed.facts.size && read_all(&file, stop, |_| Ok(()))? == deed.digest)
}

/// Unlinks what is aside, if it is that.
fn unlink_if(deed: &Deed, ground: &Ground, what: Found) -> Result<(), Why> {
    match found(deed, ground, &deed.aside)? {
        Found::Nothing => Ok(()),
        it if it == what => {
            let folder = ground.folder(&deed.aside)?;
            again(|| unlinkat(&folder, deed.aside.split().1, AtFlags::empty()))
                .map_err(|error| Why::Failed("unlink what was put aside", error))
        }
        _ => Err(Why::Changed),
    }
}

/// What can't be taken back, after what was done before is durable: the old file of a link goes.
///
/// One that was changed meanwhile gets its path back; and so does one whose copy that stays was.
pub fn finish(deed: &Deed, ground: &Ground, last: &mut LastLook) -> End {
    if !deed.action.links() {
        return End::Done;
    }
    match found(deed, ground, &deed.aside) {
        Ok(Found::Altered) => swap_back(deed, ground, Why::Changed, last.stop()),
        Ok(Found::Victim) => match last.at(deed, ground) {
            Ok(()) => match unlink_if(deed, ground, Found::Victim) {
                Ok(()) => {
                    last.went(deed);
                    End::Done
                }
                Err(why) => End::Open(why),
            },
            Err(why) => swap_back(deed, ground, why, last.stop()),
        },
        Ok(Found::Nothing) => End::Done,
        Ok(Found::Link | Found::Other) => End::Open(Why::Changed),
        Err(why) => End::Open(why),
    }
}

// ---------------------------------------------------------------- shared blocks

fn share(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    let open = |place: &Place| open_file(ground.folder(place)?, place.split().1);
    let (file, facts) = open(&deed.at)?;
    let (keeper, others) = open(&deed.keeper).map_err(|why| Why::Keeper(Box::new(why)))?;
    if !facts.is_as_written(&deed.facts) || !others.is_as_written(&deed.keeper_facts) {
        return Err(Why::Changed);
    }
    let mut at = 0;
    while at < facts.size {
        if stop.is_asked() {
            return Err(Why::Stopped);
        }
        match extents::dedupe(&keeper, at, &file, at, facts.size - at) {
            Ok(0) => return Err(Why::Differs),
            Ok(shared) => at += shared,
            Err(error) => {
                return Err(match super::verify::errno(&error) {
                    Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS => {
                        Why::Unsupported("share blocks between files")
                    }
                    Errno::XDEV => Why::OtherFileSystem,
                    error => Why::Failed("share its blocks", error),
                });
            }
        }
    }
    Ok(())
}

// ---------------------------------------------------------------- what is there

/// What is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The file, or folder, that the deed is about, as it was when it was compared.
    Victim,
    /// That, and it was written to since; or another one that has got its inode.
    Altered,
    /// A link to the file that stays.
    Link,
    /// Something else.
    Other,
}

/// Looks. A folder that is not there has nothing in it.
pub fn found(deed: &Deed, ground: &Ground, place: &Place) -> Result<Found, Why> {
    let folder = match ground.folder(place) {
        Err(Why::Gone) => return Ok(Found::Nothing),
        folder => folder?,
    };
    let name = place.split().1;
    let Some(stat) = look(&folder, name)? else { return Ok(Found::Nothing) };
    let facts = Facts::new(&stat);
    let kind = if deed.tree.is_some() { FileType::Directory } else { FileType::RegularFile };
    if facts.is_file(&deed.facts) && FileType::from_raw_mode(stat.st_mode) == kind {
        let is_as_it_was = facts.is_as_written(&deed.facts);
        return Ok(if is_as_it_was { Found::Victim } else { Found::Altered });
    }
    let is_link = match deed.action {
        Action::Hardlink => facts.is_file(&deed.keeper_facts),
        Action::Symlink => readlinkat(&folder, name, Vec::new())
            .is_ok_and(|target| target.as_bytes() == ground.path(&deed.keeper)),
        _ => false,
    };
    Ok(if is_link { Found::Link } else { Found::Other })
}

/// A call that a signal came into is made again.
pub fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

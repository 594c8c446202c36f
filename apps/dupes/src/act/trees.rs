//! A whole folder, where a file would be: what is below it, whether another one has the same, and how it is deleted
//! when it is purged. To the journal and to `steps.rs` it is one deed.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fchmod, fstat, openat,
    statx, unlinkat,
};
use rustix::io::Errno;

use super::Wanted;
use super::apart::{self, Opened};
use super::aside;
use super::check::Checked;
use super::deed::{Deed, Extent};
use super::facts::{Attributes, Facts};
use super::ground::{Ground, Place, beneath, look, open_file};
use super::quarantine::{may_change, mount_of};
use super::steps::again;
use super::verify::compare;
use super::why::{Cut, Why};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::escape::escaped;
use crate::plan::{Member, PlannedSet, Tree};
use crate::stop::Stop;

/// All that is below a folder: ways from it, in byte order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    folders: Vec<Vec<u8>>,
    files: Vec<(Vec<u8>, Facts)>,
}

impl Contents {
    /// Lists it. Anything but files and folders on this very mount is an error: nobody could tell whether
    /// another folder has the same.
    pub fn of(top: &OwnedFd) -> Result<Contents, Why> {
        Contents::listed(top, |_, _| ())
    }

    /// With what was seen of each file.
    fn listed(top: &OwnedFd, mut see: impl FnMut(&[u8], &Stat)) -> Result<Contents, Why> {
        let mount = mount_of(top)?;
        let mut all = Contents::default();
        let mut next = vec![Vec::new()];
        while let Some(way) = next.pop() {
            let folder = within(top, &way)?;
            if mount_of(&folder)? != mount {
                return Err(Why::OtherFileSystem);
            }
            for name in names(&folder)? {
                let stat = look(&folder, OsStr::from_bytes(&name))?.ok_or(Why::Changed)?;
                let mut path = way.clone();
                crate::folders::join(&mut path, &name);
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => next.push(path),
                    FileType::RegularFile => {
                        see(&path, &stat);
                        all.files.push((path, Facts::new(&stat)));
                    }
                    _ => return Err(Why::NotAFile),
                }
            }
            if !way.is_empty() {
                all.folders.push(way);
            }
        }
        all.folders.sort_unstable();
        all.files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    /// How much it is, and what it is known again by.
    pub fn tree(&self) -> Tree {
        let bytes = self.files.iter().map(|(_, facts)| facts.size).sum();
        let mut hasher = Hasher::new(Algorithm::Blake3);
        for way in &self.folders {
            name_to(&mut hasher, b'd', way);
        }
        for (way, facts) in &self.files {
            name_to(&mut hasher, b'f', way);
            for number in [facts.device, facts.inode, facts.size] {
                hasher.update(&number.to_le_bytes());
            }
            // Not its ctime: who takes another name of it away, as the same run may, changes that.
            let (seconds, nanoseconds) = facts.mtime;
            hasher.update(&seconds.to_le_bytes());
            hasher.update(&nanoseconds.to_le_bytes());
        }
        Tree { extent: Extent { files: self.files.len() as u64, bytes }, stamp: hasher.finish() }
    }
}

fn name_to(hasher: &mut Hasher, kind: u8, way: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(way.len() as u64).to_le_bytes());
    hasher.update(way);
}

/// A folder at a name, open, as it is now.
pub fn open_tree(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, Facts), Why> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = again(|| openat(folder, name, flags, Mode::empty()));
    let opened = opened.map_err(|error| match error {
        Errno::NOENT => Why::Gone,
        Errno::NOTDIR | Errno::LOOP => Why::FolderIsLink,
        error => Why::Failed("open it", error),
    })?;
    let facts = Facts::of(&opened)?;
    Ok((opened, facts))
}

fn open_at(place: &Place, ground: &Ground) -> Result<(OwnedFd, Facts), Why> {
    open_tree(&ground.folder(place)?, place.split().1)
}

/// Whether a folder has anything in it of whose whole path that holds. Of one that can't be listed nobody knows.
pub fn holds(place: &Place, ground: &Ground, is: &dyn Fn(&[u8]) -> bool) -> bool {
    let Ok(contents) = open_at(place, ground).and_then(|(top, _)| Contents::of(&top)) else {
        return true;
    };
    contents.files.iter().map(|(way, _)| way).chain(&contents.folders).any(|way| {
        let mut path = ground.path(place);
        crate::folders::join(&mut path, way);
        is(&path)
    })
}

// ---------------------------------------------------------------- whether it may go

/// What [`super::check::check`] is for a file.
pub(super) fn check(
    set: &PlannedSet,
    victim: &Member,
    ground: &Ground,
    wanted: &Wanted,
    stop: Option<&Stop>,
) -> Result<Checked, Why> {
    if !wanted.action.sets_aside() {
        return Err(Why::NotAFile);
    }
    let at = &victim.names[0];
    let above = ground.folder(at)?;
    let (top, facts) = open_tree(&above, at.split().1)?;
    let on_disk = as_planned(&top, &facts, victim)?;
    let (keeper, other, others) = keeper(set, &top, ground)?;
    if others.is_file(&facts) {
        return Err(Why::Linked);
    }
    let digest = match stop {
        Some(stop) => equal(&top, &other, stop)?,
        None => Algorithm::Blake3.digest(b""),
    };
    let failed = |error| Why::Failed("look at it", error);
    let stat = fstat(&above).map_err(failed)?;
    let deed = Deed {
        number: 0,
        action: wanted.action,
        tree: victim.tree.as_ref().map(|tree| tree.extent),
        aside: at.clone(),
        at: at.clone(),
        keeper,
        keeper_facts: others,
        facts,
        names: 1,
        digest,
        attributes: Attributes::of(&top, &fstat(&top).map_err(failed)?)?,
        folder_times: (
            (stat.st_atime, stat.st_atime_nsec as u32),
            (stat.st_mtime, stat.st_mtime_nsec as u32),
        ),
    };
    let deeds = vec![(deed, mount_of(&above)?)];
    Ok(Checked { deeds, frees: victim.frees.min(on_disk), left: Vec::new() })
}

/// The first folder that stays, is as it was, and counts for the one that goes.
fn keeper(
    set: &PlannedSet,
    goes: &OwnedFd,
    ground: &Ground,
) -> Result<(Place, OwnedFd, Facts), Why> {
    let mut last = Why::Gone;
    for keeper in &set.keepers {
        let place = &keeper.names[0];
        let opened = open_at(place, ground)
            .and_then(|(top, facts)| as_planned(&top, &facts, keeper).map(|_| (top, facts)))
            .and_then(|(top, facts)| {
                apart::doubt(Opened::new(goes, goes), Opened::new(&top, &top))?;
                Ok((top, facts))
            });
        match opened {
            Ok((top, facts)) => return Ok((place.clone(), top, facts)),
            Err(why) => last = why,
        }
    }
    Err(Why::Keeper(Box::new(last)))
}

/// The same folder, and all below it with the same names, inodes and times: the bytes on disk of what is in it,
/// whatever the plan says of that.
fn as_planned(top: &OwnedFd, facts: &Facts, member: &Member) -> Result<u64, Why> {
    let (mut on_disk, mut seen) = (0u64, HashSet::new());
    let contents = Contents::listed(top, |_, stat| {
        if seen.insert((stat.st_dev, stat.st_ino)) {
            on_disk = on_disk.saturating_add(stat.st_blocks.cast_unsigned().saturating_mul(512));
        }
    })?;
    if contents.files.iter().any(|(way, _)| aside::is_one(way)) {
        return Err(Why::PutAside);
    }
    let is_it = facts.is_file(&member.facts) && Some(&contents.tree()) == member.tree.as_ref();
    if is_it { Ok(on_disk) } else { Err(Why::Changed) }
}

/// Whether a deed that was cut off before it began may still be done.
pub(super) fn still(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    let (top, facts) = open_at(&deed.at, ground)?;
    if !facts.is_file(&deed.facts) {
        return Err(Why::Changed);
    }
    same_as_keeper(deed, &top, ground, stop).map(drop)
}

/// What is aside is the folder that was verified, and the folder that stays, by its path, has the same.
pub(super) fn look_again(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    let (top, facts) = open_at(&deed.aside, ground)?;
    if !facts.is_file(&deed.facts) {
        return Err(Why::Changed);
    }
    match same_as_keeper(deed, &top, ground, stop) {
        Err(Why::Differs | Why::Linked) => Err(Why::SameFile),
        Err(Why::Keeper(why)) if *why == Why::Gone => Err(Why::SameFile),
        Err(why) => Err(why),
        Ok(other) => apart::by_rename(deed, Opened::new(&top, &top), Opened::new(&other, &other)),
    }
}

/// That, open.
fn same_as_keeper(
    deed: &Deed,
    top: &OwnedFd,
    ground: &Ground,
    stop: &Stop,
) -> Result<OwnedFd, Why> {
    let keeper = |why| Why::Keeper(Box::new(why));
    let (other, _) = open_at(&deed.keeper, ground).map_err(keeper)?;
    let digest = equal(top, &other, stop)?;
    // Both may have been changed, and in the same way: that is not what was verified.
    if digest == deed.digest { Ok(other) } else { Err(Why::Changed) }
}

// ---------------------------------------------------------------- by every byte

/// Whether both have the same names and, below them, the same bytes; the hash of all that. What stays is
/// durable then.
fn equal(one: &OwnedFd, other: &OwnedFd, stop: &Stop) -> Result<Digest, Why> {
    let keeper = |why| Why::Keeper(Box::new(why));
    let (mine, theirs) = (Contents::of(one)?, Contents::of(other).map_err(keeper)?);
    if mine.folders != theirs.folders || mine.files.len() != theirs.files.len() {
        return Err(Why::Differs);
    }
    let mut hasher = Hasher::new(Algorithm::Blake3);
    mine.folders.iter().for_each(|way| name_to(&mut hasher, b'd', way));
    let (mut here, mut there) = (Within::new(one), Within::new(other));
    for ((way, listed), (their_way, _)) in mine.files.iter().zip(&theirs.files) {
        if way != their_way {
            return Err(Why::Differs);
        }
        let ((file, facts), (copy, others)) = (here.open(way)?, there.open(way).map_err(keeper)?);
        if !facts.is_as_written(listed) {
            return Err(Why::Changed);
        }
        if facts.is_file(&others) {
            return Err(Why::Linked);
        }
        name_to(&mut hasher, b'f', way);
        hasher.update(&facts.size.to_le_bytes());
        compare((&file, &facts), (&copy, &others), Some(&mut hasher), stop)?;
        again(|| rustix::fs::fdatasync(&copy))
            .map_err(|error| keeper(Why::Failed("make it durable", error)))?;
    }
    Ok(hasher.finish())
}

/// Opens files below a folder; most are in the same one as the file before.
struct Within<'t> {
    top: &'t OwnedFd,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl<'t> Within<'t> {
    fn new(top: &'t OwnedFd) -> Within<'t> {
        Within { top, last: None }
    }

    fn folder(&mut self, way: &[u8]) -> Result<&OwnedFd, Why> {
        if self.last.as_ref().is_none_or(|(known, _)| known != way) {
            self.last = Some((way.to_vec(), within(self.top, way)?));
        }
        Ok(&self.last.as_ref().expect("it was just put there").1)
    }

    fn open(&mut self, way: &[u8]) -> Result<(File, Facts), Why> {
        let (folder, name) = split(way);
        open_file(self.folder(folder)?, name)
    }
}

fn split(way: &[u8]) -> (&[u8], &OsStr) {
    let at = way.iter().rposition(|byte| *byte == b'/');
    (at.map_or(&[][..], |at| &way[..at]), OsStr::from_bytes(&way[at.map_or(0, |at| at + 1)..]))
}

fn within(top: &OwnedFd, way: &[u8]) -> Result<OwnedFd, Why> {
    beneath(top, way).map_err(|error| match error {
        Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Why::FolderIsLink,
        Errno::NOENT => Why::Changed,
        error => Why::Failed("open a folder in it", error),
    })
}

fn names(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Why> {
    let failed = |error| Why::Failed("list it", error);
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

// ---------------------------------------------------------------- purging

/// How many of the files of what is aside are not there any more. Of a file: none.
pub(super) fn missing(deed: &Deed, ground: &Ground) -> Result<u64, Why> {
    let Some(extent) = deed.tree else { return Ok(0) };
    let (top, _) = open_at(&deed.aside, ground)?;
    Ok(extent.files.saturating_sub(Contents::of(&top)?.files.len() as u64))
}

/// Those that are there, as far as they can be listed.
pub(super) fn each_file(deed: &Deed, ground: &Ground, see: impl FnMut(&[u8], &Stat)) {
    if let Ok((top, _)) = open_at(&deed.aside, ground) {
        let _ = Contents::listed(&top, see);
    }
}

/// That it is neither there nor gone.
pub(super) fn cut(deed: &Deed, ground: &Ground, gone: u64, why: Option<Why>) -> Why {
    Why::Partly(Cut {
        gone,
        of: deed.tree.map_or(0, |extent| extent.files),
        aside: escaped(&ground.path(&deed.aside)).to_string(),
        why: why.map(Box::new),
    })
}

/// Deletes what is aside: first all of it is compared, and looked at whether it can be deleted, so that it is all or
/// nothing but for a crash, who says that it is to stop, or somebody who changes the folder that stays just then; and
/// each file once more right before it is unlinked. What a purge that was cut off has deleted is not asked for.
/// Whenever it ends in between it says [`Why::Partly`].
pub(super) fn purge(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    let (top, facts) = open_at(&deed.aside, ground)?;
    if !facts.is_file(&deed.facts) {
        return Err(Why::Changed);
    }
    let contents = Contents::of(&top)?;
    let left = Cell::new(contents.files.len() as u64);
    delete(deed, ground, (&top, &contents), &left, stop).map_err(|why| {
        let of = deed.tree.map_or(0, |extent| extent.files);
        match of.saturating_sub(left.get()) {
            0 => why,
            gone => cut(deed, ground, gone, Some(why)),
        }
    })
}

fn delete(
    deed: &Deed,
    ground: &Ground,
    (top, contents): (&OwnedFd, &Contents),
    left: &Cell<u64>,
    stop: &Stop,
) -> Result<(), Why> {
    let (other, _) = open_at(&deed.keeper, ground).map_err(|why| Why::Keeper(Box::new(why)))?;
    each(contents, top, &other, stop, |_, _| Ok(()))?;
    can_be_emptied(top, contents)?;
    each(contents, top, &other, stop, |folder, name| {
        unlink(folder, name, AtFlags::empty())?;
        left.set(left.get() - 1);
        Ok(())
    })?;
    // The innermost first.
    for way in contents.folders.iter().rev() {
        if stop.is_asked() {
            return Err(Why::Stopped);
        }
        let (folder, name) = split(way);
        unlink(&within(top, folder)?, name, AtFlags::REMOVEDIR)?;
    }
    unlink(&ground.folder(&deed.aside)?, deed.aside.split().1, AtFlags::REMOVEDIR)
}

/// As far as that can be seen without doing it: nothing in it is immutable, and we may change each folder that has
/// something in it, or make it so that we may.
fn can_be_emptied(top: &OwnedFd, contents: &Contents) -> Result<(), Why> {
    let failed = |error| Why::Failed("delete it", error);
    let fixed = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    let is_fixed = |folder: &OwnedFd, name: &OsStr, flags| {
        let seen = again(|| statx(folder, name, flags, StatxFlags::empty()));
        // An old kernel does not say.
        seen.is_ok_and(|seen| (seen.stx_attributes & seen.stx_attributes_mask).intersects(fixed))
    };
    let files = contents.files.iter().map(|(way, _)| way);
    let mut full: Option<(&[u8], OwnedFd)> = None;
    for way in contents.folders.iter().chain(files) {
        let (above, name) = split(way);
        if full.as_ref().is_none_or(|(known, _)| *known != above) {
            let folder = within(top, above)?;
            if is_fixed(&folder, OsStr::new(""), AtFlags::EMPTY_PATH) {
                return Err(failed(Errno::PERM));
            }
            may_change(&folder)
                .or_else(|error| if is_ours(&folder) { Ok(()) } else { Err(error) })
                .map_err(failed)?;
            full = Some((above, folder));
        }
        let folder = &full.as_ref().expect("it was just put there").1;
        if is_fixed(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            return Err(failed(Errno::PERM));
        }
    }
    Ok(())
}

fn is_ours(folder: &OwnedFd) -> bool {
    fstat(folder).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
}

/// Folders that are read-only, as caches of modules make them, keep their owner from emptying them only until he
/// says otherwise; and this is to be deleted for good.
fn unlink(folder: &OwnedFd, name: &OsStr, flags: AtFlags) -> Result<(), Why> {
    let call = || again(|| unlinkat(folder, name, flags));
    let end = match call() {
        Err(Errno::ACCESS) if is_ours(folder) => {
            let mode = fstat(folder).map(|stat| Mode::from_raw_mode(stat.st_mode & 0o7777));
            mode.and_then(|mode| {
                fchmod(folder, mode | Mode::RWXU)?;
                call().inspect_err(|_| {
                    // As it was, as far as it goes.
                    let _ = fchmod(folder, mode);
                })
            })
        }
        end => end,
    };
    end.map_err(|error| Why::Failed("delete it", error))
}

/// Each file, after it was compared with the one of its name in the folder that stays.
fn each(
    contents: &Contents,
    top: &OwnedFd,
    other: &OwnedFd,
    stop: &Stop,
    act: impl Fn(&OwnedFd, &OsStr) -> Result<(), Why>,
) -> Result<(), Why> {
    let keeper = |why| Why::Keeper(Box::new(why));
    let (mut here, mut there) = (Within::new(top), Within::new(other));
    for (way, _) in &contents.files {
        let (file, facts) = here.open(way)?;
        let (copy, others) = there.open(way).map_err(keeper)?;
        if facts.is_file(&others) {
            return Err(Why::SameFile);
        }
        compare((&file, &facts), (&copy, &others), None, stop)?;
        again(|| rustix::fs::fdatasync(&copy))
            .map_err(|error| keeper(Why::Failed("make it durable", error)))?;
        apart::by_touch(Opened::new(top, &file), Opened::new(other, &copy))?;
        let (folder, name) = split(way);
        act(here.folder(folder)?, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Folders that `move` makes on the way to where files are put: each in the likeness of the one that they come from.
//!
//! **Nothing is open in between**: a folder is made for us alone, and gets its mode and its owner when all files are in
//! it. One of a run that was cut off is too closed rather than too open, until somebody recovers.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Uid, fchmod, fchown, fgetxattr, fstat, mkdirat, unlinkat,
};
use rustix::io::Errno;

use super::deed::{Action, Deed};
use super::ground::{Ground, Place};
use super::steps::again;
use super::sync::sync_folder;
use super::trees::open_tree;
use super::why::Why;
use crate::journal::{Journal, Line, Story};

/// Those of one run, each with the bases of the folders that it stands for: there they have the same way.
#[derive(Debug, Default)]
pub struct Made(BTreeMap<Place, BTreeSet<usize>>);

impl Made {
    /// Those of a run that was cut off.
    pub fn of(story: &Story) -> Made {
        let mut made = Made(story.made.iter().map(|it| (it.clone(), BTreeSet::new())).collect());
        for (deed, _) in story.deeds.iter().filter(|(deed, _)| deed.action == Action::Move) {
            ways(&deed.aside).for_each(|folder| _ = made.stands_for(&folder, deed.at.root));
        }
        made
    }

    /// Whether it is known to be one.
    fn stands_for(&mut self, folder: &Place, root: usize) -> bool {
        self.0.get_mut(folder).map(|roots| roots.insert(root)).is_some()
    }

    /// Says to the journal which folders on the way of a file are not there yet.
    pub(super) fn announce(
        &mut self,
        deed: &Deed,
        ground: &Ground,
        journal: &mut Journal,
    ) -> Result<(), Why> {
        for folder in ways(&deed.aside) {
            if self.stands_for(&folder, deed.at.root) {
                continue;
            }
            let below = Place { root: folder.root, path: [&folder.path[..], b"/x"].concat() };
            match ground.folder(&below) {
                Err(Why::Gone) => {
                    journal.add(&Line::Made(folder.clone()));
                    self.0.insert(folder, BTreeSet::from([deed.at.root]));
                }
                is_there => drop(is_there?),
            }
        }
        Ok(())
    }

    /// Gives each the mode and the owner of those that it stands for, the innermost first. Where that can't be, it
    /// stays as closed as it is.
    pub fn open_up(&self, ground: &Ground) {
        for (place, roots) in self.0.iter().rev() {
            let _ = open_one(place, roots, ground);
        }
    }
}

/// The folders on the way to a place, the outermost first.
fn ways(place: &Place) -> impl Iterator<Item = Place> {
    let ends = place.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(|(end, _)| Place { root: place.root, path: place.path[..end].to_vec() })
}

/// Makes those that are not there, for us alone.
pub(super) fn make_folders(ground: &Ground, place: &Place) -> Result<(), Why> {
    for way in ways(place) {
        let folder = ground.folder(&way)?;
        match again(|| mkdirat(&folder, way.split().1, Mode::RWXU)) {
            Ok(()) => {
                sync_folder(&folder).map_err(|error| Why::Failed("sync the folder", error))?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(Why::Failed("make its folder", error)),
        }
    }
    Ok(())
}

/// What a folder is to be like: what all of those have that it stands for.
struct Likeness {
    mode: u32,
    owner: Option<u32>,
    group: Option<u32>,
}

impl Likeness {
    fn of(folder: &OwnedFd) -> Result<Likeness, Why> {
        let stat = looked_at(folder)?;
        let mut mode = stat.st_mode & 0o7777;
        // With a list of its own the mode does not say who may enter it.
        let list = fgetxattr(folder, "system.posix_acl_access", &mut [0; 1 << 10][..]);
        if !matches!(list, Err(Errno::NODATA | Errno::NOTSUP)) {
            mode &= 0o7700;
        }
        Ok(Likeness { mode, owner: Some(stat.st_uid), group: Some(stat.st_gid) })
    }

    fn and(self, other: Likeness) -> Likeness {
        Likeness {
            mode: self.mode & other.mode,
            owner: self.owner.filter(|owner| other.owner == Some(*owner)),
            group: self.group.filter(|group| other.group == Some(*group)),
        }
    }

    /// For one that has another group: nobody may more than he may in those that it stands for. (With another owner it
    /// is so: who owns one of those may anything there.)
    fn mode_in_another_group(&self) -> u32 {
        let least = (self.mode >> 3) & self.mode & 0o7;
        self.mode & 0o1700 | least << 3 | least
    }
}

fn looked_at(folder: &OwnedFd) -> Result<Stat, Why> {
    fstat(folder).map_err(|error| Why::Failed("look at its folder", error))
}

fn open_one(place: &Place, roots: &BTreeSet<usize>, ground: &Ground) -> Result<(), Why> {
    let open = |place: &Place| Ok(open_tree(&ground.folder(place)?, place.split().1)?.0);
    let mut likeness: Option<Likeness> = None;
    for root in roots {
        let one = Likeness::of(&open(&Place { root: *root, path: place.path.clone() })?)?;
        likeness = Some(match likeness {
            Some(others) => others.and(one),
            None => one,
        });
    }
    let Some(likeness) = likeness else { return Ok(()) };
    let folder = open(place)?;
    let now = looked_at(&folder)?;
    // Somebody else has made it, or it is as it is to be.
    let us = rustix::process::geteuid().as_raw();
    if now.st_uid != us || now.st_mode & 0o777 != Mode::RWXU.as_raw_mode() {
        return Ok(());
    }
    // Root may give it away, others not; to a group, who is in it.
    if let Some(owner) = likeness.owner.filter(|owner| *owner != now.st_uid) {
        let _ = fchown(&folder, Some(Uid::from_raw(owner)), None);
    }
    let is_of_group = likeness.group.is_some_and(|group| {
        now.st_gid == group || fchown(&folder, None, Some(Gid::from_raw(group))).is_ok()
    });
    let mode = if is_of_group { likeness.mode } else { likeness.mode_in_another_group() };
    let failed = |error| Why::Failed("give the folder its mode", error);
    again(|| fchmod(&folder, Mode::from_raw_mode(mode))).map_err(failed)?;
    sync_folder(&folder).map_err(failed)
}

/// Takes away those that are empty; one that has something in it stays.
pub(super) fn remove_made(story: &Story, ground: &Ground) {
    for place in story.made.iter().rev() {
        let Ok(folder) = ground.folder(place) else { continue };
        let remove = || again(|| unlinkat(&folder, place.split().1, AtFlags::REMOVEDIR));
        if remove() != Err(Errno::ACCESS) {
            continue;
        }
        // It stands in one of ours that is as closed as the one that it stands for.
        let (above, _) = place.split();
        let is_ours = story.made.iter().any(|it| it.root == place.root && it.path == above);
        if let (true, Ok(stat)) = (is_ours, fstat(&folder)) {
            let mode = Mode::from_raw_mode(stat.st_mode);
            let _ = fchmod(&folder, mode | Mode::RWXU).map(|()| remove());
            let _ = fchmod(&folder, mode);
        }
    }
}

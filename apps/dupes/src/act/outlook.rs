//! What can be seen of an action without doing any of it: whether there is a place to put a file aside, and whether we
//! may put it there. What only shows when it is done (a file that may not be changed, a full disk) is not
//! promised. Who only looks asks this, and so does who acts, before the intent is written: both leave the same.

use std::collections::HashSet;

use super::Wanted;
use super::deed::{Action, Deed};
use super::ground::{Ground, Place, look};
use super::quarantine::{Mount, Quarantines, may_change, mount_of};
use super::trees::open_tree;
use super::why::Why;

/// For one run.
pub(super) struct Outlook<'a> {
    wanted: &'a Wanted,
    never: &'a [Vec<u8>],
    quarantines: Quarantines,
    /// The number of the folder to move to.
    to: Option<usize>,
    /// What will be there by then.
    moved: HashSet<Place>,
}

impl<'a> Outlook<'a> {
    pub(super) fn new(
        wanted: &'a Wanted,
        never: &'a [Vec<u8>],
        ground: &mut Ground,
    ) -> Outlook<'a> {
        let quarantines = Quarantines::rehearsed(wanted.quarantine.clone());
        let to = wanted.to.clone().map(|to| ground.number(&to).unwrap_or_else(|| ground.add(to)));
        Outlook { wanted, never, quarantines, to, moved: HashSet::new() }
    }

    /// All names of one file, each with the mount it is on. They go together, or none does: why each stays.
    pub(super) fn of(
        &mut self,
        deeds: &[(Deed, Mount)],
        ground: &Ground,
    ) -> Result<(), Vec<(Place, Why)>> {
        let mut ends = deeds
            .iter()
            .enumerate()
            .map(|(at, (deed, mount))| self.of_one(deed, *mount, ground).map_err(|why| (at, why)));
        let Err((held, why)) = ends.try_for_each(|end| end) else { return Ok(()) };
        // Where they would come to is free for the next file.
        if let Some(root) = self.to {
            for (deed, _) in &deeds[..held] {
                self.moved.remove(&Place { root, path: deed.at.path.clone() });
            }
        }
        let others = why.clone().with(&deeds[held].0.at, ground);
        let names = deeds.iter().enumerate().map(|(at, (deed, _))| {
            (deed.at.clone(), if at == held { why.clone() } else { others.clone() })
        });
        Err(names.collect())
    }

    fn of_one(&mut self, deed: &Deed, mount: Mount, ground: &Ground) -> Result<(), Why> {
        if deed.tree.is_some() {
            let failed = |error| Why::Failed("rename it", error);
            let above = ground.folder(&deed.at)?;
            may_change(&above).map_err(failed)?;
            // In another folder it has another `..`.
            may_change(&open_tree(&above, deed.at.split().1)?.0).map_err(failed)?;
        }
        match (self.wanted.action, self.to) {
            (Action::Remove, _) => {
                let path = ground.path(&deed.at);
                let end = path.len() - deed.at.split().1.len() - 1;
                self.quarantines.could(mount, &path[..end.max(1)], self.never)
            }
            (Action::Move, Some(root)) => {
                let target = Place { root, path: deed.at.path.clone() };
                self.may_be_moved_to(&target, mount, ground)?;
                if self.moved.insert(target) { Ok(()) } else { Err(Why::Occupied) }
            }
            _ => Ok(()),
        }
    }

    /// Of the folders on the way there, those that are there.
    fn may_be_moved_to(&self, target: &Place, mount: Mount, ground: &Ground) -> Result<(), Why> {
        let ends = target.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut innermost = None;
        // A place for each folder on the way: the first one is right below the folder to move to.
        for end in ends.map(|(end, _)| end).chain([target.path.len()]) {
            let place = Place { root: target.root, path: target.path[..end].to_vec() };
            match ground.folder(&place) {
                Err(Why::Gone) => break,
                folder => innermost = Some((folder?, place)),
            }
        }
        let Some((folder, place)) = innermost else { return Err(Why::OtherRoot) };
        if mount_of(&folder)? != mount {
            return Err(Why::OtherFileSystem);
        }
        if place == *target && look(&folder, target.split().1)?.is_some() {
            return Err(Why::Occupied);
        }
        may_change(&folder).map_err(|error| Why::Failed("rename it", error))
    }
}

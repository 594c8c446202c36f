//! Whether a file that is to go may go, just now: it is what the plan says, and so is one that stays; both have the
//! same bytes.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::fstat;
use rustix::io::Errno;

use super::Wanted;
use super::apart::{self, Opened};
use super::deed::{Action, Deed};
use super::facts::{Aspect, Attributes, Facts};
use super::ground::{Ground, Place, may_rename_in, open_file};
use super::quarantine::{Mount, may_change, mount_of};
use super::trees;
use super::verify::{compare, errno};
use super::why::Why;
use crate::digest::{Algorithm, Hasher};
use crate::journal::NO_TIME;
use crate::mounts::Kind;
use crate::plan::{Member, PlannedSet};
use crate::stop::Stop;

/// What may be done.
#[derive(Debug)]
pub(super) struct Checked {
    /// One for each name, without its number and place aside, and with the mount it is on.
    pub(super) deeds: Vec<(Deed, Mount)>,
    /// Bytes on disk that come free when all of these are done.
    pub(super) frees: u64,
    /// Names that are not to be touched.
    pub(super) left: Vec<(Place, Why)>,
}

/// With `stop`, by its bytes; without, only by what can be seen without reading it.
pub(super) fn check(
    set: &PlannedSet,
    victim: &Member,
    ground: &Ground,
    wanted: &Wanted,
    stop: Option<&Stop>,
) -> Result<Checked, Why> {
    let spared =
        |member: &Member| member.names.iter().find_map(|name| wanted.own.meets(&ground.path(name)));
    if let Some(why) = spared(victim) {
        return Err(why);
    }
    // It would have one more name, and another ctime; and who writes to that name writes to the reference.
    let is_fixed = |keeper: &Member| wanted.action == Action::Hardlink && keeper.reference;
    let unfit =
        |keeper: &Member| spared(keeper).or_else(|| is_fixed(keeper).then_some(Why::Reference));
    let others;
    let set = match set.keepers.iter().find_map(unfit) {
        None => set,
        Some(why) => {
            let keepers = set.keepers.iter().filter(|it| unfit(it).is_none()).cloned().collect();
            others = PlannedSet { keepers, victims: Vec::new() };
            if others.keepers.is_empty() {
                return Err(Why::Keeper(Box::new(why)));
            }
            &others
        }
    };
    if victim.tree.is_some() {
        not_led_to(&victim.names[0], ground, wanted)?;
        return trees::check(set, victim, ground, wanted, stop);
    }
    let keeper = keeper(set, victim, ground, wanted)?;
    let mut left = Vec::new();
    let mut names = Vec::new();
    for place in &victim.names {
        match name(place, (set, victim), &keeper, ground, wanted) {
            Ok(name) => names.push(name),
            Err(why) => left.push((place.clone(), why)),
        }
    }
    let Some(first) = names.first() else {
        return Ok(Checked { deeds: Vec::new(), frees: 0, left });
    };
    let stat = fstat(&first.file).map_err(|error| Why::Failed("look at it", error))?;
    let attributes = Attributes::of(&first.file, &stat)?;
    // One that was renamed since, or made since, keeps the file.
    let has_others = stat.st_nlink as u64 > names.len() as u64;
    // **The names of one file go together, or none does.** What is gone, or another file by now, is none of them.
    let held = left.iter().find(|(_, why)| has_others && may_be_a_name_still(why));
    if let Some(why) = held.map(|(place, why)| why.clone().with(place, ground)) {
        left.extend(names.into_iter().map(|name| (name.place, why.clone())));
        return Ok(Checked { deeds: Vec::new(), frees: 0, left });
    }
    let on_disk = stat.st_blocks.cast_unsigned().saturating_mul(512);
    let frees = if has_others { 0 } else { victim.frees.min(on_disk) };
    if wanted.action.links() || wanted.action == Action::Reflink {
        let other = Attributes::of(
            &keeper.file,
            &fstat(&keeper.file).map_err(|error| Why::Failed("look at it", error))?,
        )?;
        let mut differences = attributes.differences(&other);
        let is_of_another = differences.contains(&Aspect::Owner);
        if wanted.action.links() && is_of_another && !attributes.may_give_owner() {
            return Err(Why::OtherOwner);
        }
        differences.retain(|aspect| !wanted.allow.contains(aspect));
        if wanted.action.links() && has_others {
            return Err(Why::LinkedElsewhere);
        }
        if wanted.action.links() && !differences.is_empty() {
            return Err(Why::Attributes(differences));
        }
    }
    if wanted.action == Action::Reflink {
        if keeper.facts.device != first.facts.device {
            return Err(Why::OtherFileSystem);
        }
        can_share(&keeper.file, &first.file)?;
        // Who can't say is asked to share them once more.
        if extents::has_nothing_to_share(&keeper.file, &first.file).unwrap_or(false) {
            return Err(Why::Shared);
        }
    }
    let mut hasher = Hasher::new(Algorithm::Blake3);
    if let Some(stop) = stop {
        let (one, other) = ((&keeper.file, &keeper.facts), (&first.file, &first.facts));
        compare(one, other, Some(&mut hasher), stop)?;
        // What only one copy is left of must be on disk, not only in memory.
        let synced = super::steps::again(|| rustix::fs::fdatasync(&keeper.file));
        synced.map_err(|error| Why::Keeper(Box::new(Why::Failed("make it durable", error))))?;
    }
    let digest = hasher.finish();
    let count = names.len() as u64;
    let deed = |name: Name| {
        let deed = Deed {
            number: 0,
            action: wanted.action,
            tree: None,
            aside: name.place.clone(),
            at: name.place,
            keeper: keeper.place.clone(),
            keeper_facts: keeper.facts,
            facts: name.facts,
            names: count,
            digest,
            attributes: attributes.clone(),
            folder_times: name.folder_times,
        };
        (deed, name.mount)
    };
    Ok(Checked { deeds: names.into_iter().map(deed).collect(), frees, left })
}

/// Of a name that is left: whether it is one of the file all the same.
fn may_be_a_name_still(why: &Why) -> bool {
    matches!(why, Why::Failed(..) | Why::OtherFileSystem | Why::FolderIsLink | Why::OtherRoot)
}

/// Whether blocks can be shared there at all, as far as the kernel says it when it is asked to share none.
fn can_share(keeper: &File, file: &File) -> Result<(), Why> {
    match extents::dedupe(keeper, 0, file, 0, 0).map_err(|error| errno(&error)) {
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
            Err(Why::Unsupported("share blocks between files"))
        }
        Err(Errno::XDEV) => Err(Why::OtherFileSystem),
        Err(error @ (Errno::ROFS | Errno::PERM)) => Err(Why::Failed("share its blocks", error)),
        // Who can say more says it when it is done.
        _ => Ok(()),
    }
}

/// Whether a deed that was cut off before it began may still be done.
pub(super) fn still(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<(), Why> {
    if deed.tree.is_some() {
        return trees::still(deed, ground, stop);
    }
    let keeper = open(&deed.keeper, ground).map_err(|why| Why::Keeper(Box::new(why)))?;
    let name = open(&deed.at, ground)?;
    if !name.facts.is_as_written(&deed.facts) {
        return Err(Why::Changed);
    }
    if name.facts.is_file(&keeper.facts) {
        return Err(Why::Linked);
    }
    if deed.action != Action::Reflink {
        name.may_go?;
    }
    // A link takes them from it: they must be those that are written down.
    let stat = fstat(&name.file).map_err(|error| Why::Failed("look at it", error))?;
    let attributes = Attributes::of(&name.file, &stat)?;
    if deed.action.links() && !attributes.differences(&deed.attributes).is_empty() {
        return Err(Why::Changed);
    }
    compare((&keeper.file, &keeper.facts), (&name.file, &name.facts), None, stop)
}

/// A name, open.
struct Name {
    place: Place,
    folder: OwnedFd,
    file: File,
    facts: Facts,
    folder_times: (super::facts::Time, super::facts::Time),
    mount: Mount,
    /// Whether it can go from there.
    may_go: Result<(), Why>,
}

/// The first file that stays, is as it was, and counts for the one that goes. Its ctime does not count: whoever makes
/// a link to it changes that.
fn keeper(
    set: &PlannedSet,
    victim: &Member,
    ground: &Ground,
    wanted: &Wanted,
) -> Result<Name, Why> {
    let mut last = Why::Gone;
    for keeper in &set.keepers {
        for place in &keeper.names {
            match open(place, ground) {
                // A copy of it that goes would be missed when it is written to.
                Ok(name) if wanted.own.has(name.facts.device, name.facts.inode) => last = Why::Own,
                Ok(name) if name.facts.is_as_written(&keeper.facts) => {
                    match counts(&name, victim, ground, wanted.action) {
                        Ok(()) => return Ok(name),
                        Err(why) => last = why,
                    }
                }
                Ok(_) => last = Why::Changed,
                Err(why) => last = why,
            }
        }
    }
    Err(Why::Keeper(Box::new(last)))
}

/// Where it lies, it has to be another file than the one that goes, and to last as long.
fn counts(keeper: &Name, victim: &Member, ground: &Ground, action: Action) -> Result<(), Why> {
    let kind = Kind::of(&keeper.file).map_err(|error| Why::Failed("look at it", error))?;
    let is_on_one_disk = keeper.facts.device == victim.facts.device && !kind.is_layered();
    // These two need one file system.
    if is_on_one_disk || matches!(action, Action::Hardlink | Action::Reflink) {
        return Ok(());
    }
    // What is not there is said where it is asked for.
    let goes = victim.names.iter().find_map(|place| open(place, ground).ok());
    goes.map_or(Ok(()), |goes| apart::doubt(goes.opened(), keeper.opened()).map(drop))
}

impl Name {
    fn opened(&self) -> Opened<'_> {
        Opened::new(&self.folder, &self.file)
    }
}

fn name(
    place: &Place,
    (set, victim): (&PlannedSet, &Member),
    keeper: &Name,
    ground: &Ground,
    wanted: &Wanted,
) -> Result<Name, Why> {
    let name = open(place, ground).map_err(|why| match why {
        // A symbolic link that we have made before is no file.
        Why::NotAFile if leads_to_one(place, set, ground) => Why::Linked,
        why => why,
    })?;
    if name.facts.is_file(&keeper.facts) {
        return Err(Why::Linked);
    }
    if wanted.own.has(name.facts.device, name.facts.inode) {
        return Err(Why::Own);
    }
    // Of a file with several names one may be done already, which changes its ctime.
    let is = |known: &Facts| {
        name.facts == *known || victim.names.len() > 1 && name.facts.is_as_written(known)
    };
    not_led_to(place, ground, wanted)?;
    let again = wanted.put_back.get(&super::before(&victim.facts));
    let again = again.map(|it| Facts { inode: it.inode, ctime: it.ctime, ..victim.facts });
    // Nobody could look at what was put back: all but the ctime has to do, before all bytes are compared.
    let is_again =
        |again: &Facts| is(again) || again.ctime == NO_TIME && name.facts.is_as_written(again);
    let is_known = is(&victim.facts) || again.as_ref().is_some_and(is_again);
    if !is_known {
        return Err(Why::Changed);
    }
    if wanted.action != Action::Reflink {
        name.may_go.clone()?;
    }
    // A file system may be shown by several mounts, and no link leads from one to another.
    if wanted.action == Action::Hardlink && name.mount != keeper.mount {
        return Err(Why::OtherFileSystem);
    }
    Ok(name)
}

/// A symbolic link of ours is not to lead nowhere.
fn not_led_to(place: &Place, ground: &Ground, wanted: &Wanted) -> Result<(), Why> {
    match wanted.links.lead_to(&ground.path(place)) {
        Some(why) if wanted.action.sets_aside() => Err(why),
        _ => Ok(()),
    }
}

/// To any name of a file that stays: by which one it was linked is not known any more.
fn leads_to_one(place: &Place, set: &PlannedSet, ground: &Ground) -> bool {
    let target = ground.folder(place).and_then(|folder| {
        rustix::fs::readlinkat(&folder, place.split().1, Vec::new())
            .map_err(|error| Why::Failed("read the link", error))
    });
    let mut names = set.keepers.iter().flat_map(|keeper| &keeper.names);
    target.is_ok_and(|target| names.any(|name| target.as_bytes() == ground.path(name)))
}

fn open(place: &Place, ground: &Ground) -> Result<Name, Why> {
    let folder = ground.folder(place)?;
    let (file, facts) = open_file(&folder, place.split().1)?;
    let stat = fstat(&folder).map_err(|error| Why::Failed("look at its folder", error))?;
    let folder_times =
        ((stat.st_atime, stat.st_atime_nsec as u32), (stat.st_mtime, stat.st_mtime_nsec as u32));
    let mount = mount_of(&folder)?;
    let may_change = || may_change(&folder).map_err(|error| Why::Failed("rename it", error));
    let may_go = may_rename_in(&folder).and_then(|()| may_change());
    Ok(Name { place: place.clone(), folder, file, facts, folder_times, mount, may_go })
}

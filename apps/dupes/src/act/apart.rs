//! Whether two files that are open are two, or one that mounts show under two names. Device and inode tell that of
//! files on disks. An overlay, a program (FUSE) or a server may show one file under two inodes, and go on showing what
//! was renamed away: then **what changes the one must not change the other**. Each file has a ctime, which a rename
//! changes and nobody can set.

use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT, fstat, futimens, statx};
use rustix::io::Errno;

use super::deed::{Action, Deed};
use super::facts::Time;
use super::steps::again;
use super::why::Why;
use crate::mounts::Kind;

/// A file, and the folder that it was opened in; of a whole folder, twice that.
#[derive(Clone, Copy)]
pub(super) struct Opened<'f> {
    folder: BorrowedFd<'f>,
    file: BorrowedFd<'f>,
}

impl<'f> Opened<'f> {
    pub(super) fn new(folder: &'f impl AsFd, file: &'f impl AsFd) -> Opened<'f> {
        Opened { folder: folder.as_fd(), file: file.as_fd() }
    }

    fn kind(&self) -> Result<Kind, Why> {
        Kind::of(self.file).map_err(|error| Why::Failed("ask for its file system", error))
    }

    /// Of the file system and of the mount. On an overlay files may have other devices than their folder.
    fn lies_on(&self) -> Result<(u64, u64), Why> {
        let failed = |error| Why::Failed("ask for its mount", error);
        let found =
            statx(self.file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(failed)?;
        let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let device = fstat(self.folder).map_err(failed)?.st_dev;
        Ok((device, if is_known { found.stx_mnt_id } else { 0 }))
    }

    /// As whoever has the file knows it, and not as it was remembered.
    fn ctime(&self) -> Result<Option<Time>, Why> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let found = again(|| statx(self.file, "", flags, StatxFlags::CTIME));
        let found = found.map_err(|error| Why::Failed("look at it", error))?;
        let is_known = found.stx_mask & StatxFlags::CTIME.bits() != 0;
        Ok(is_known.then_some((found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec)))
    }
}

/// How much device and inode say, of two files that have not the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// All: both are on one disk.
    None,
    /// Both are on disks, as far as anybody knows: what shows otherwise is believed.
    Little,
    /// Nothing, until something shows that they are two.
    Much,
}

/// Whether the one may go for the other, as far as that can be said by where they are. Changes nothing.
pub(super) fn doubt(goes: Opened<'_>, stays: Opened<'_>) -> Result<Doubt, Why> {
    let (here, there) = (goes.kind()?, stays.kind()?);
    // It has the file itself open, whatever its name is by now; what it shows of it may be its own.
    if (here.is_layered() || there.is_layered())
        && (here != there || goes.lies_on()? != stays.lies_on()?)
    {
        return Err(Why::Overlay);
    }
    if there.is_in_memory() && !here.is_in_memory() {
        return Err(Why::InMemory);
    }
    if here.is_borrowed() || there.is_borrowed() {
        return Ok(Doubt::Much);
    }
    let device = |one: Opened<'_>| fstat(one.file).map(|stat| stat.st_dev);
    let (one, other) = (device(goes), device(stays));
    Ok(if one.is_ok() && one == other { Doubt::None } else { Doubt::Little })
}

/// After what goes was changed: the ctimes of both, before and after that.
fn judge(doubt: Doubt, goes: Times, stays: Times) -> Result<(), Why> {
    if doubt == Doubt::None {
        return Ok(());
    }
    if stays.0 != stays.1 {
        return Err(Why::SameFile);
    }
    let is_told = match (goes, stays) {
        // Who tells no more than seconds.
        ((Some(before), Some(after)), (Some((_, 0)), _)) => before.0 != after.0,
        ((Some(before), Some(after)), (Some(_), _)) => before != after,
        _ => false,
    };
    if is_told || doubt == Doubt::Little { Ok(()) } else { Err(Why::Untold) }
}

/// Before and after.
type Times = (Option<Time>, Option<Time>);

/// By the rename that has put aside what goes, since both were compared.
pub(super) fn by_rename(deed: &Deed, goes: Opened<'_>, stays: Opened<'_>) -> Result<(), Why> {
    // What stays has got a name by that, which nothing takes from it.
    if deed.action == Action::Hardlink {
        return Ok(());
    }
    let doubt = doubt(goes, stays).map_err(keeper)?;
    if doubt == Doubt::None {
        return Ok(());
    }
    let (before, was) = (deed.facts.ctime, deed.keeper_facts.ctime);
    match judge(doubt, (Some(before), goes.ctime()?), (Some(was), kept(stays)?)) {
        // It was made in the same moment.
        Err(Why::Untold) => by_touch(goes, stays),
        end => end,
    }
}

/// What goes is changed for that, and nothing about it but its ctime.
pub(super) fn by_touch(goes: Opened<'_>, stays: Opened<'_>) -> Result<(), Why> {
    let doubt = doubt(goes, stays).map_err(keeper)?;
    if doubt == Doubt::None {
        return Ok(());
    }
    let (before, was) = (goes.ctime()?, kept(stays)?);
    let mut tries = 0;
    loop {
        match touch(goes) {
            Ok(()) => {}
            Err(_) if doubt == Doubt::Little => return Ok(()),
            // Not ours, immutable, on a disk that can't be written to.
            Err(_) => return Err(Why::Untold),
        }
        match judge(doubt, (before, goes.ctime()?), (was, kept(stays)?)) {
            Err(Why::Untold) if tries < TRIES => tries += 1,
            end => return end,
        }
        thread::sleep(STEP);
    }
}

/// Many kernels count a ctime in steps of up to 10 ms.
const TRIES: u32 = 10;
const STEP: Duration = Duration::from_millis(2);

/// When it was last read is when it was last read.
fn touch(file: Opened<'_>) -> rustix::io::Result<()> {
    let stat = fstat(file.file)?;
    let last_access = Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ };
    let last_modification = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    again(|| futimens(file.file, &Timestamps { last_access, last_modification }))
}

/// Whoever has it may not find it any more.
fn kept(stays: Opened<'_>) -> Result<Option<Time>, Why> {
    stays.ctime().map_err(|why| match why {
        Why::Failed(_, Errno::NOENT | Errno::STALE) => Why::SameFile,
        why => keeper(why),
    })
}

fn keeper(why: Why) -> Why {
    Why::Keeper(Box::new(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_with_another_file_is_that_file_and_what_can_not_be_told_is_not_believed() {
        let (old, new, later) = (Some((5, 100)), Some((5, 200)), Some((6, 100)));
        let seconds = Some((5, 0));
        for (goes, stays, little, much) in [
            ((old, new), (old, old), Ok(()), Ok(())),
            ((old, new), (old, new), Err(Why::SameFile), Err(Why::SameFile)),
            // Somebody has linked to it, or set the clock back.
            ((old, new), (later, old), Err(Why::SameFile), Err(Why::SameFile)),
            ((old, old), (old, old), Ok(()), Err(Why::Untold)),
            ((old, None), (old, old), Ok(()), Err(Why::Untold)),
            ((old, new), (None, None), Ok(()), Err(Why::Untold)),
            ((old, new), (old, None), Err(Why::SameFile), Err(Why::SameFile)),
            // Told in whole seconds, the same file would not have changed either.
            ((old, new), (seconds, seconds), Ok(()), Err(Why::Untold)),
            ((old, later), (seconds, seconds), Ok(()), Ok(())),
        ] {
            assert_eq!(judge(Doubt::None, goes, stays), Ok(()), "{goes:?} {stays:?}");
            assert_eq!(judge(Doubt::Little, goes, stays), little, "{goes:?} {stays:?}");
            assert_eq!(judge(Doubt::Much, goes, stays), much, "{goes:?} {stays:?}");
        }
    }

    #[test]
    fn a_touch_changes_the_ctime_and_nothing_else() {
        let file = tempfile::tempfile().unwrap();
        let before = fstat(&file).unwrap();
        let opened = Opened::new(&file, &file);
        while opened.ctime().unwrap() == Some((before.st_ctime, before.st_ctime_nsec as u32)) {
            touch(opened).unwrap();
        }
        let after = fstat(&file).unwrap();
        let rest = |stat: &rustix::fs::Stat| {
            let times = (stat.st_atime, stat.st_atime_nsec, stat.st_mtime, stat.st_mtime_nsec);
            (times, stat.st_mode, stat.st_size, stat.st_uid, stat.st_nlink)
        };
        assert_eq!(rest(&before), rest(&after));
    }
}

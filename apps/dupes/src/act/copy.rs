//! The file that takes the place of a link that is undone: the bytes of one that stayed, the attributes of the one that
//! went.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, SeekFrom, fsync, openat, seek};
use rustix::io::Errno;

use super::deed::{Action, Deed};
use super::facts::Facts;
use super::ground::{Ground, Place, open_file};
use super::purge::Copies;
use super::steps::again;
use super::undo::{gone, read_all};
use super::verify::errno;
use super::why::Why;
use crate::stop::Stop;

/// Of the file that stayed; or, if that has gone, of any other one that stayed and had its bytes, or of the link itself
/// if that is a name of them: whoever it is, the hash decides.
pub(super) fn copy_of_any(
    deed: &Deed,
    copies: &Copies,
    (ground, folder): (&Ground, &OwnedFd),
    name: &OsStr,
    stop: &Stop,
) -> Result<(), Why> {
    let end = copy(deed, (ground, &deed.keeper), folder, name, stop);
    if !matches!(end, Err(Why::Keeper(_))) {
        return end;
    }
    if deed.action == Action::Hardlink && copy(deed, (ground, &deed.at), folder, name, stop).is_ok()
    {
        return Ok(());
    }
    for (base, place) in copies.like(deed) {
        let (ground, place) =
            (Ground::new([base.clone()]), Place { root: 0, path: place.path.clone() });
        match copy(deed, (&ground, &place), folder, name, stop) {
            Err(Why::Keeper(_)) => {}
            end => return end,
        }
    }
    end
}

fn copy(
    deed: &Deed,
    (ground, from): (&Ground, &Place),
    folder: &OwnedFd,
    name: &OsStr,
    stop: &Stop,
) -> Result<(), Why> {
    let keeper = |why| Why::Keeper(Box::new(why));
    let above = ground.folder(from).map_err(keeper)?;
    let (file, facts) = open_file(&above, from.split().1).map_err(keeper)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = again(|| openat(folder, name, flags, Mode::RUSR | Mode::WUSR));
    let new = File::from(made.map_err(|error| Why::Failed("make a file for it", error))?);
    let failed = |error| Why::Failed("write it", errno(&error));
    let (mut at, mut data) = (0, 0..0);
    let write = |bytes: &[u8]| {
        at += bytes.len() as u64;
        write_data(&file, &new, &mut data, bytes, at - bytes.len() as u64).map_err(failed)
    };
    let copied = read_all(&file, stop, write).and_then(|digest| {
        new.set_len(facts.size).map_err(failed)?;
        if digest != deed.digest || !Facts::of(&file)?.is_as_written(&facts) {
            return Err(keeper(Why::Changed));
        }
        deed.attributes.give_to(&new)?;
        again(|| fsync(&new)).map_err(|error| Why::Failed("make it durable", error))
    });
    copied.inspect_err(|_| drop(gone(folder, name)))
}

/// What is a hole in the file that stays is one in the copy. `data`: what is known of it. Where nobody can say, all is
/// written.
fn write_data(
    from: &File,
    to: &File,
    data: &mut Range<u64>,
    bytes: &[u8],
    at: u64,
) -> io::Result<()> {
    let (mut begin, end) = (at, at + bytes.len() as u64);
    while begin < end {
        if begin >= data.end {
            *data = next_data(from, begin);
        }
        let (is_hole, until) = match data.start > begin {
            true => (true, data.start.min(end)),
            false => (false, data.end.min(end)),
        };
        let some = &bytes[(begin - at) as usize..(until - at) as usize];
        // Whatever the file system says of it: what was read counts.
        if !is_hole || some.iter().any(|byte| *byte != 0) {
            to.write_all_at(some, begin)?;
        }
        begin = until;
    }
    Ok(())
}

fn next_data(file: &File, at: u64) -> Range<u64> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(start) => {
            let end = seek(file, SeekFrom::Hole(start)).unwrap_or(u64::MAX);
            start..end.max(start + 1)
        }
        // Behind the last of it.
        Err(Errno::NXIO) => u64::MAX..u64::MAX,
        Err(_) => at..u64::MAX,
    }
}

//! What is aside of a link and may be unlinked: a link of ours or a whole copy, of which all bytes are in another file
//! that was read just now. **Whatever else is there was caught by an exchange, and may be the only one of its bytes; or
//! it is the file itself that was put aside, which waits for its path.**

use rustix::fs::{AtFlags, fstat, unlinkat};

use super::deed::{Action, Deed};
use super::facts::{Attributes, Facts};
use super::ground::{Ground, Place, look, open_file};
use super::steps::{Found, again, found, left_aside};
use super::undo::read_all;
use super::why::Why;
use crate::stop::Stop;

/// Unlinks what is aside, if it may go. Whether nothing is there then.
pub(super) fn cleared(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<bool, Why> {
    cleared_if(deed, ground, is_spare(deed, ground, stop)?)
}

/// The same of what an undo has made there a moment ago: it may have got the number of the old inode.
pub(super) fn unmade(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<bool, Why> {
    cleared_if(deed, ground, is_spare_copy(deed, ground, stop)?)
}

fn cleared_if(deed: &Deed, ground: &Ground, is_spare: bool) -> Result<bool, Why> {
    if !is_spare || found(deed, ground, &deed.aside)? == Found::Nothing {
        return Ok(is_spare);
    }
    let folder = ground.folder(&deed.aside)?;
    again(|| unlinkat(&folder, deed.aside.split().1, AtFlags::empty()))
        .map_err(|error| Why::Failed("unlink what was put aside", error))?;
    Ok(true)
}

/// Why something was not done; or where the only one of its bytes may be, if it left that aside.
pub(super) fn named(deed: &Deed, ground: &Ground, why: Why, stop: &Stop) -> Why {
    let is_known = match found(deed, ground, &deed.aside) {
        Ok(Found::Nothing) => Ok(true),
        Ok(_) => is_spare(deed, ground, stop),
        Err(why) => Err(why),
    };
    // Who can't look now can ask again later.
    if is_known == Ok(false) { left_aside(deed, ground) } else { why }
}

/// Whether what is aside may go.
pub(super) fn is_spare(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<bool, Why> {
    match found(deed, ground, &deed.aside)? {
        Found::Nothing => Ok(true),
        Found::Link if deed.action != Action::Hardlink => Ok(true),
        // **A hard link is a name of a file like any other.**
        Found::Link => {
            let folder = ground.folder(&deed.aside)?;
            let Some(stat) = look(&folder, deed.aside.split().1)? else { return Ok(true) };
            let link = Facts::new(&stat);
            Ok(is_at_keeper(deed, ground, &link)
                || has_bytes(deed, ground, &deed.aside, None, stop)?
                    && is_elsewhere(deed, ground, &link, stop)?)
        }
        // As far as anybody can tell, the only one with all that undo gives back.
        Found::Victim | Found::Altered => Ok(false),
        Found::Other => is_spare_copy(deed, ground, stop),
    }
}

fn is_spare_copy(deed: &Deed, ground: &Ground, stop: &Stop) -> Result<bool, Why> {
    let opened =
        ground.folder(&deed.aside).and_then(|above| open_file(above, deed.aside.split().1));
    let (file, facts) = match opened {
        Err(Why::Gone) => return Ok(true),
        Err(Why::NotAFile) => return Ok(false),
        opened => opened?,
    };
    let stat = fstat(&file).map_err(|error| Why::Failed("look at it", error))?;
    let is_alike = Attributes::of(&file, &stat)?.differences(&deed.attributes).is_empty();
    Ok(is_alike
        && has_bytes(deed, ground, &deed.aside, None, stop)?
        && is_elsewhere(deed, ground, &facts, stop)?)
}

/// Whether it is a name of the file that stays.
pub(super) fn is_at_keeper(deed: &Deed, ground: &Ground, link: &Facts) -> bool {
    let keeper = ground.folder(&deed.keeper).and_then(|above| look(&above, deed.keeper.split().1));
    matches!(keeper, Ok(Some(stat)) if Facts::new(&stat).is_file(link))
}

/// Whether another file has the bytes, at the path or where the one is that stays.
fn is_elsewhere(deed: &Deed, ground: &Ground, but: &Facts, stop: &Stop) -> Result<bool, Why> {
    Ok(has_bytes(deed, ground, &deed.at, Some(but), stop)?
        || has_bytes(deed, ground, &deed.keeper, Some(but), stop)?)
}

/// Those that were compared; in another file than this one.
fn has_bytes(
    deed: &Deed,
    ground: &Ground,
    place: &Place,
    but: Option<&Facts>,
    stop: &Stop,
) -> Result<bool, Why> {
    let opened = ground.folder(place).and_then(|folder| open_file(folder, place.split().1));
    let (file, facts) = match opened {
        Err(Why::Gone | Why::NotAFile | Why::FolderIsLink | Why::OtherRoot) => return Ok(false),
        opened => opened?,
    };
    if facts.size != deed.facts.size || but.is_some_and(|but| facts.is_file(but)) {
        return Ok(false);
    }
    Ok(read_all(&file, stop, |_| Ok(()))? == deed.digest)
}

//! Why something is not done, in words that say what to do.

use std::fmt;

use rustix::io::Errno;

use super::facts::Aspect;
use super::ground::{Ground, Place};
use crate::escape::escaped;

/// Why a file was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is nothing at that path: it is done, or somebody else did it.
    Gone,
    /// It is a link to the file that stays already.
    Linked,
    /// All of its blocks are those of the file that stays, or it is so small that it has none.
    Shared,
    /// It is no regular file.
    NotAFile,
    /// A folder on the way is a link, or no folder.
    FolderIsLink,
    /// The root is not there, or another folder is in its place: perhaps it is not mounted.
    OtherRoot,
    /// It is another file than the one that was planned for, or it was written to.
    Changed,
    /// Its bytes are others than those of the file that stays.
    Differs,
    /// The file that stays is not what it was, or not there.
    Keeper(Box<Why>),
    /// When it was out of the way the file that stays was not there, or had other bytes: both names lead to one
    /// file, or somebody is changing one of them.
    SameFile,
    /// It or the file that stays is on an overlay, which shows files of other folders, and the other one is not on it.
    Overlay,
    /// When it was changed, nobody could tell whether the file that stays was changed with it.
    Untold,
    /// What stays is gone with the power, and it is not.
    InMemory,
    /// It is to be deleted for good, and nothing that stayed has its bytes any more.
    LastCopy,
    /// A purge has deleted some of it.
    Partly(Cut),
    /// A link would take these from it.
    Attributes(Vec<Aspect>),
    /// It is somebody else's than the file that stays, and undo could not give it back to him.
    OtherOwner,
    /// Somebody has changed these while it was acted on.
    Altered(Vec<Aspect>),
    /// No link and no shared extent leads from one file system to another.
    OtherFileSystem,
    /// It has a name outside of the roots: nothing would come free.
    LinkedElsewhere,
    /// It is a journal, a database or in a quarantine of this program, or a folder with one in it.
    Own,
    /// A run was interrupted, and has left it there: what the run would do with it is in its journal.
    PutAside,
    /// A symbolic link that a run has made leads to it, or below it.
    LedTo {
        /// Its path, as it is shown.
        link: String,
        /// The run.
        id: String,
    },
    /// It lies where files are moved to.
    Target,
    /// It lies below a reference, and a hard link would change it.
    Reference,
    /// It stays since another name of the same file, here, does, and why that does.
    With(String, Box<Why>),
    /// There is no place to put it aside.
    NoQuarantine(String),
    /// The file system can't do that.
    Unsupported(&'static str),
    /// Something is in the way.
    Occupied,
    /// Somebody has put something at its path while it was out of the way: it is there.
    Aside(String),
    /// It was to stop.
    Stopped,
    /// A call of the system has failed.
    Failed(&'static str, Errno),
    /// The journal could not be written: nothing more is done.
    Journal(String),
}

/// A folder of which some is gone for good and some is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Files.
    pub gone: u64,
    /// Of so many.
    pub of: u64,
    /// Where the rest is.
    pub aside: String,
    /// What has stopped the purge, if that was just now.
    pub why: Option<Box<Why>>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.as_deref() {
            Some(Why::Stopped) => f.write_str("it was to stop; ")?,
            Some(why) => write!(f, "{why}; ")?,
            None => {}
        }
        let Cut { gone, of, aside, .. } = self;
        let files = if *of == 1 { "file" } else { "files" };
        write!(
            f,
            "{gone} of its {of} {files} {} gone for good, each of which had a copy that stays; what is left of it \
             is {aside}: dupes purge-quarantine goes on",
            if *gone == 1 { "is" } else { "are" }
        )
    }
}

impl Why {
    /// For another name of the file that stays at a place for this.
    pub(super) fn with(self, place: &Place, ground: &Ground) -> Why {
        match self {
            Why::Stopped => self,
            why => Why::With(escaped(&ground.path(place)).to_string(), Box::new(why)),
        }
    }

    /// What was wanted is so already: no reason to complain.
    pub fn is_done(&self) -> bool {
        matches!(self, Why::Gone | Why::Linked | Why::Shared)
    }

    /// In one word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Why::Gone => "gone",
            Why::Linked => "linked",
            Why::Shared => "shared",
            Why::NotAFile => "not-a-file",
            Why::FolderIsLink => "folder-is-link",
            Why::OtherRoot => "other-root",
            Why::Changed => "changed",
            Why::Differs => "differs",
            Why::Keeper(_) => "keeper",
            Why::SameFile => "same-file",
            Why::Overlay => "overlay",
            Why::Untold => "untold",
            Why::InMemory => "in-memory",
            Why::LastCopy => "last-copy",
            Why::Partly(_) => "partly",
            Why::Attributes(_) => "attributes",
            Why::OtherOwner => "other-owner",
            Why::Altered(_) => "altered",
            Why::OtherFileSystem => "other-file-system",
            Why::LinkedElsewhere => "linked-elsewhere",
            Why::Own => "own",
            Why::PutAside => "put-aside",
            Why::LedTo { .. } => "led-to",
            Why::Target => "target",
            Why::Reference => "reference",
            Why::With(..) => "other-name",
            Why::NoQuarantine(_) => "no-quarantine",
            Why::Unsupported(_) => "unsupported",
            Why::Occupied => "occupied",
            Why::Aside(_) => "aside",
            Why::Stopped => "stopped",
            Why::Failed(..) => "failed",
            Why::Journal(_) => "journal",
        }
    }
}

impl std::error::Error for Why {}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Gone => f.write_str("is not there any more"),
            Why::Linked => f.write_str("is a link to the file that stays already"),
            Why::Shared => f.write_str("has no blocks that it does not share with the file that stays"),
            Why::NotAFile => f.write_str("is a link, or something else that is no regular file"),
            Why::FolderIsLink => {
                f.write_str("a folder on the way to it is a link now: links are not followed")
            }
            Why::OtherRoot => f.write_str(
                "its root is not there, or another folder is in its place: is it mounted?",
            ),
            Why::Changed => f.write_str("was changed since the plan, or the scan, was made: make a new one"),
            Why::Differs => f.write_str("its bytes are not those of the file that stays"),
            Why::Keeper(why) => write!(f, "the file that stays: {why}"),
            Why::SameFile => f.write_str(
                "put back: when it was out of the way, the file that stays was not there, had other bytes or was \
                 changed by that: the same file under two names, or somebody is changing it",
            ),
            Why::Overlay => f.write_str(
                "it may be the same file under another name: one of the two is on an overlay, which shows files of \
                 other folders",
            ),
            Why::Untold => f.write_str(
                "it and the file that stays may be one file under two names: where one of them lies, a change does \
                 not show, or not yet",
            ),
            Why::InMemory => f.write_str(
                "it is on a file system in memory (tmpfs), and gone with the power",
            ),
            Why::LastCopy => f.write_str(
                "no file that stayed, for it or for another copy, has its bytes any more: it may be the last one",
            ),
            Why::Partly(cut) => write!(f, "{cut}"),
            Why::Attributes(aspects) => {
                let names: Vec<String> = aspects.iter().map(ToString::to_string).collect();
                let names = names.join(",");
                write!(
                    f,
                    "differs from the file that stays in {names}, which a link would take from it: \
                     --allow-differing {names} if that is fine"
                )
            }
            Why::OtherOwner => f.write_str(
                "has another owner than the file that stays, which undo could not give back: only root may",
            ),
            Why::Altered(aspects) => {
                let names: Vec<String> = aspects.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "put back: somebody has changed its {} while it was out of the way, which a link would take \
                     from it",
                    names.join(",")
                )
            }
            Why::OtherFileSystem => f.write_str(
                "is on another file system, mount or subvolume than where it would be linked or moved to",
            ),
            Why::LinkedElsewhere => {
                f.write_str("has another name outside of the roots: nothing would come free")
            }
            Why::Own => f.write_str(
                "is a journal, a database or in a quarantine of dupes itself, or has one in it",
            ),
            Why::PutAside => f.write_str(
                "is what an interrupted run of dupes has put aside, or a folder with that in it: see dupes log",
            ),
            Why::LedTo { link, id } => write!(
                f,
                "{link} leads there, a symbolic link of dupes: dupes undo {id} first, which makes it a file again"
            ),
            Why::Target => f.write_str("lies where files are moved to, or has that in it"),
            Why::Reference => f.write_str(
                "is a reference, which a hard link would change: use symlink, or no --reference",
            ),
            Why::With(name, why) => {
                write!(f, "stays with another name of the same file, {name}: {why}")
            }
            Why::NoQuarantine(why) => write!(f, "there is no quarantine to put it in: {why}"),
            Why::Unsupported(what) => write!(f, "the file system can't {what}"),
            Why::Occupied => f.write_str("something is at that path: both are kept"),
            Why::Aside(path) => write!(
                f,
                "somebody has changed what is at its path while it was out of the way; what was put aside is {path}"
            ),
            Why::Stopped => f.write_str("was not begun: it was to stop"),
            Why::Failed(what, error) => {
                let error = std::io::Error::from(*error);
                write!(f, "could not {what}: {error}")
            }
            Why::Journal(why) => write!(f, "the journal can't be written: {why}"),
        }
    }
}

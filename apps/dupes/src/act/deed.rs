//! What is done to one name of a file, with all that it takes to finish it or to take it back.

use std::fmt;

use super::facts::{Attributes, Facts, Time};
use super::ground::Place;
use crate::digest::Digest;

/// What happens to files that have a copy which stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// Put them into the quarantine
    Remove,
    /// Put them below another folder
    Move,
    /// Make them hard links to the file that stays
    Hardlink,
    /// Make them symbolic links to the file that stays, by its whole path
    Symlink,
    /// Let them share the blocks of the file that stays
    Reflink,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 5] =
        [Action::Remove, Action::Move, Action::Hardlink, Action::Symlink, Action::Reflink];

    /// As it is said.
    pub fn name(self) -> &'static str {
        match self {
            Action::Remove => "remove",
            Action::Move => "move",
            Action::Hardlink => "hardlink",
            Action::Symlink => "symlink",
            Action::Reflink => "reflink",
        }
    }

    /// By its name.
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Whether the path leads to the file that stays then.
    pub fn links(self) -> bool {
        matches!(self, Action::Hardlink | Action::Symlink)
    }

    /// Whether the file is still there, somewhere else.
    pub fn sets_aside(self) -> bool {
        matches!(self, Action::Remove | Action::Move)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is in a whole folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// With all below it.
    pub files: u64,
    /// Of these.
    pub bytes: u64,
}

/// One name of one file; or of a whole folder, which is no less one deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// In its journal, from 1.
    pub number: u64,
    /// What is done.
    pub action: Action,
    /// It is a whole folder.
    pub tree: Option<Extent>,
    /// The name.
    pub at: Place,
    /// Where the file is then, for a while or for good; the name itself where it stays.
    pub aside: Place,
    /// The file that stays.
    pub keeper: Place,
    /// As it was when it was compared.
    pub keeper_facts: Facts,
    /// The file, as it was when it was compared.
    pub facts: Facts,
    /// How many names it had then.
    pub names: u64,
    /// Of its bytes: BLAKE3. Of a folder, of all names and bytes below it.
    pub digest: Digest,
    /// What a link takes from it.
    pub attributes: Attributes,
    /// Of its folder, before: access and change.
    pub folder_times: (Time, Time),
}

impl Deed {
    /// Of the file, or of all files.
    pub fn bytes(&self) -> u64 {
        self.tree.map_or(self.facts.size, |tree| tree.bytes)
    }
}

/// By what a file is known that was put back, beside its size and when it was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// A link that was undone is a new file.
    pub inode: u64,
    /// Whoever puts it back changes that.
    pub ctime: Time,
}

/// How far a deed is, by its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It may have begun.
    Intended,
    /// It is done; the time of the folder after it.
    Done(Time),
    /// It was not done, or taken back at once, which has changed the ctime of the file to this.
    Back(Time),
    /// To take it back may have begun.
    Undoing(Time),
    /// It was taken back.
    Undone(Option<Again>),
    /// To delete it for good may have begun.
    Purging,
    /// It is a folder, and some of what is in it is gone for good.
    Partly,
    /// What was put aside is gone for good.
    Purged,
    /// Somebody else has taken what was put aside.
    Missing,
    /// It was given up: whatever is at its path and aside stays there.
    Left,
}

impl Stage {
    /// Whether there is something aside that can be deleted.
    pub fn is_aside(self) -> bool {
        matches!(self, Stage::Done(_) | Stage::Partly)
    }

    /// Whether nobody knows how far it is: a run was interrupted there.
    pub fn is_open(self) -> bool {
        matches!(self, Stage::Intended | Stage::Undoing(_) | Stage::Purging)
    }
}

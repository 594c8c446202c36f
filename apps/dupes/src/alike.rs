//! Which folders are duplicates: equal ones, similar ones, and those that another one holds.
//!
//! 1. Folders and files are put in *tree order*: a folder, its files, then the folders in it. So a
//!    subtree is one range of files, and "is it below?" is one comparison. Roots that are offline
//!    come last: wherever the first one stays or stands for others, one that is online does.
//! 2. From the last folder to the first, the parts of each are added up to a sum of 128 bits, with
//!    random keys: equal sums are equal folders. The first of a set stands for the others, unless it
//!    goes with a larger folder that is held: then the next one does. The others, and what is in
//!    them, are in no other claim.
//! 3. A folder is held by another one if all of its contents are: the folders that have its rarest
//!    content are tried, each climbing until it has all the rest. Largest first; one that is held
//!    may go, so it holds nothing: what stands for it does or, if all that hold a folder go, what they
//!    lie in. One that only folders offline hold stays.
//! 4. Pairs that may be similar are the folders that have a file in common, rarest first, and
//!    those above them: with names, both parents together, as long as both have the same name; by
//!    contents, either parent, as long as the other side is not too small. Topmost pairs are
//!    measured first, and what lies in a pair that is told is not measured.
//!
//! A claim is left out if one about folders above says as much or more: equal in equal; held in
//! equal or held; similar in any of them. Equal in held or similar, or held in similar, says more,
//! so it is told, but with a mark: `is_in_pair`.
//!
//! What is offline neither goes nor stays for others: a claim wins nothing by it, and one about
//! nothing else is not told.
//!
//! Each claim is for itself. Two may win the same bytes, and who acts on two may lose the last
//! copy: `a` goes because `b` holds it, and `b/x` because it is equal to `a/x`.
//!
//! What it can miss:
//! - Folders that have only common files in common. A file that more than [`Likeness::holders`]
//!   folders have is tried with the next folder in tree order only.
//! - That a folder is held, if even its rarest content is in more folders than that: the first
//!   ones are tried.
//! - Whatever comes after [`Likeness::pairs`] or [`Likeness::steps`]; `is_complete` says so.
//!
//! What is told is true (equal folders, as far as 128 bits can say it), with exact numbers. It is the
//! same whatever numbers files, names and contents have: only the order of folders decides.

mod forest;
mod held;
#[cfg(test)]
mod meaning;
#[cfg(test)]
mod naive;
mod similar;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use forest::Forest;

/// No folder, content or set has this number.
const NONE: u32 = u32::MAX;

/// All folders and files, by number: 12 and 40 bytes each, and every name once.
#[derive(Debug, Default)]
pub struct Trees {
    folders: Vec<Limb>,
    files: Vec<(u32, u32, Facts)>,
    names: HashMap<Box<[u8]>, u32>,
}

#[derive(Debug)]
struct Limb {
    parent: u32,
    name: u32,
    is_known: bool,
    is_online: bool,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// When its content changed last, in ns.
    pub mtime: i64,
    /// Bytes that come free if it goes.
    pub on_disk: u64,
    /// What is in it.
    pub content: Content,
}

/// What is known of what is in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// No other file is equal to it.
    #[default]
    Unique,
    /// It was not read, and others have its size: nobody knows.
    Unread,
    /// Files with the same number are equal.
    Of(u32),
}

impl Trees {
    /// The next folder; None: it is a root. Not known: something in it was not read, ignored, left
    /// out or is new, so that neither it nor anything above it can be equal to or held by another.
    /// A further folder of the same name in the same one is like no other.
    pub fn add_folder(&mut self, parent: Option<u32>, name: &[u8], is_known: bool) -> u32 {
        let number = number(self.folders.len());
        assert!(parent.is_none_or(|parent| parent < number), "a folder comes after its parent");
        let name = self.name(name);
        let is_online = parent.is_none_or(|parent| self.folders[parent as usize].is_online);
        self.folders.push(Limb { parent: parent.unwrap_or(NONE), name, is_known, is_online });
        number
    }

    /// The next folder, a root: nobody can look at it now, nor at what lies in it.
    pub fn add_offline_root(&mut self, name: &[u8], is_known: bool) -> u32 {
        let number = self.add_folder(None, name, is_known);
        self.folders[number as usize].is_online = false;
        number
    }

    /// Whether it can be looked at.
    pub fn is_online(&self, folder: u32) -> bool {
        self.folders[folder as usize].is_online
    }

    /// The next file.
    pub fn add_file(&mut self, folder: u32, name: &[u8], facts: Facts) -> u32 {
        assert!((folder as usize) < self.folders.len(), "a file comes after its folder");
        let number = number(self.files.len());
        let name = self.name(name);
        self.files.push((folder, name, facts));
        number
    }

    /// More is known of a file than when it was added.
    pub fn know(&mut self, file: u32, content: Content) {
        self.files[file as usize].2.content = content;
    }

    /// A folder that was added is not fully known.
    pub fn doubt(&mut self, folder: u32) {
        self.folders[folder as usize].is_known = false;
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let next = number(self.names.len());
        self.names.insert(name.into(), next);
        next
    }
}

fn number(len: usize) -> u32 {
    u32::try_from(len).ok().filter(|n| *n < NONE / 2).expect("less than two billion of them")
}

/// What makes folders alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The same contents under the same names, seen from the folder.
    Names,
    /// The same contents, whatever their names.
    Contents,
}

/// What counts as alike, and how hard to look for it.
#[derive(Clone, Copy, Debug)]
pub struct Likeness {
    /// What is compared. Whether a folder is held is a question of contents in any case.
    pub by: By,
    /// Shared files of all files of both, at least.
    pub percent: u32,
    /// In how many folders a file may be to be rare.
    pub holders: usize,
    /// How many examples a sample has.
    pub examples: usize,
    /// How many pairs of folders are thought of, at most: about 20 bytes each.
    pub pairs: usize,
    /// How many files are looked up, at most, for each kind of claim.
    pub steps: u64,
}

impl Default for Likeness {
    fn default() -> Likeness {
        let (pairs, steps) = (1 << 21, 1 << 27);
        Likeness { by: By::Names, percent: 50, holders: 16, examples: 16, pairs, steps }
    }
}

/// Everything that was found. Of each kind, the largest winnings come first, then lower numbers.
#[derive(Debug, Default)]
pub struct Alike {
    /// Folders that are equal.
    pub exact: Vec<ExactSet>,
    /// Pairs that are similar, and not equal.
    pub partial: Vec<PartialPair>,
    /// Folders whose contents are all in another one.
    pub contained: Vec<Containment>,
    /// How many pairs of folders were thought of, and how many of those were compared.
    pub pairs: (usize, usize),
    /// False: a limit was reached.
    pub is_complete: bool,
}

/// Folders whose subtrees are equal.
#[derive(Debug)]
pub struct ExactSet {
    /// Two or more, in tree order. The first one stays, and is online.
    pub folders: Vec<u32>,
    /// In each of them.
    pub files: u32,
    /// Of the files in each of them.
    pub bytes: u64,
    /// Bytes on disk of all that are online, but for the first.
    pub winnings: u64,
    /// They lie in similar folders that are told, at the same place if names count, or in one
    /// that is held and the one that holds it.
    pub is_in_pair: bool,
}

/// Two folders that have much in common. The second is the one with less on disk.
#[derive(Debug)]
pub struct PartialPair {
    /// Their numbers.
    pub folders: [u32; 2],
    /// How many files each of them has.
    pub files: [u32; 2],
    /// Files of each that the other has as well.
    pub shared: u32,
    /// Bytes in those.
    pub shared_bytes: u64,
    /// Bytes on disk of those of the second folder; none if one of both is offline.
    pub winnings: u64,
    /// All others of each. Those that are in `other_content` count, but are no examples here.
    pub only: [Sample<u32>; 2],
    /// Files of each of which nobody knows whether the other has them, since they were not read;
    /// if names count, those that have the size of their namesake, and one of the two was not.
    pub not_compared: [Sample<u32>; 2],
    /// Files with the same name, seen from the folders, and other content.
    pub other_content: Sample<[u32; 2]>,
    /// Files with the same name and content, and another time.
    pub other_time: Sample<[u32; 2]>,
}

/// Some of many.
#[derive(Debug)]
pub struct Sample<T> {
    /// How many there are.
    pub count: u32,
    /// The first ones.
    pub examples: Vec<T>,
}

impl<T> Sample<T> {
    fn new() -> Sample<T> {
        Sample { count: 0, examples: Vec::new() }
    }

    fn show(&mut self, example: T, most: usize) {
        if self.examples.len() < most {
            self.examples.push(example);
        }
    }
}

/// A folder whose contents are all somewhere in another one, as often as it has them.
#[derive(Debug)]
pub struct Containment {
    /// The one that may go.
    pub folder: u32,
    /// The smallest one with all of it. As many files: the same contents under other names.
    pub within: u32,
    /// How many files each of them has.
    pub files: [u32; 2],
    /// Of the files in the one that may go.
    pub bytes: u64,
    /// Bytes on disk of the one that may go; none if one of both is offline.
    pub winnings: u64,
    /// They lie in similar folders that are told.
    pub is_in_pair: bool,
}

/// Finds all folders that are alike. Time is about files × log files for the sums, and for pairs
/// the files of the smaller side of each that is compared.
pub fn find(trees: &Trees, likeness: &Likeness) -> Alike {
    let mut forest = Forest::new(trees, likeness);
    let mut effort = Effort { steps: likeness.steps, ..Effort::default() };
    let held = forest.held(&mut effort);
    effort.steps = likeness.steps;
    let (partial, partners) = forest.partial(&held, &mut effort);
    effort.steps = likeness.steps;
    let exact = forest.exact(&held, &partners, &mut effort);
    let contained = forest.contained(&held, &partners, &mut effort);
    let pairs = (effort.thought_of, effort.compared);
    Alike { exact, partial, contained, pairs, is_complete: !effort.is_spent }
}

/// What the search has cost.
#[derive(Default)]
struct Effort {
    thought_of: usize,
    compared: usize,
    steps: u64,
    is_spent: bool,
}

impl Effort {
    /// False: it would be too much.
    fn spend(&mut self, steps: u32) -> bool {
        let left = self.steps.checked_sub(u64::from(steps));
        self.is_spent |= left.is_none();
        self.steps = left.unwrap_or(0);
        left.is_some()
    }
}

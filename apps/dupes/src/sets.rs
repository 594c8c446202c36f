//! From files that are equal to a listing: one file for each inode, what is to be listed, in a
//! stable order.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};

use tidegate::{Pool, Shutdown};

use crate::class::Kin;
use crate::digest::{Digest, Verified};
use crate::folders::{FileId, Folder, join};
use crate::listing::{Entry, Set, Totals};
use crate::locking::lock;
use crate::options::Options;
use crate::output::Printer;
use crate::sharing::Sharing;
use crate::stop::Stop;
use crate::tally::Tally;

/// What a run has gathered.
#[derive(Debug)]
pub struct Gathered<'a, S, L> {
    /// All of them, by number.
    pub folders: Vec<Arc<Folder>>,
    /// What it has counted.
    pub tally: &'a Tally,
    /// What it was told.
    pub options: &'a Options,
    /// Small files that have the same hash.
    pub small: S,
    /// Large files that are equal, with their size; some are alone.
    pub large: L,
    /// Files, and further names of them.
    pub names: Vec<(FileId, FileId)>,
    /// Files of which nobody knows what is in them.
    pub unread: Vec<FileId>,
}

/// Everything that was found.
#[derive(Debug)]
pub struct Sets {
    folders: Vec<Arc<Folder>>,
    /// Of each folder, in the order of their paths.
    ranks: Vec<u32>,
    kin: Vec<(u64, Kin)>,
    names: HashMap<FileId, Vec<FileId>>,
    sharing: Mutex<Sharing>,
    rules: Rules,
    totals: Totals,
    threads: NonZeroUsize,
}

/// Sets that are put together at a time: some ms of work.
const PORTION: usize = 1_024;

/// What is listed.
#[derive(Debug)]
struct Rules {
    copies: std::ops::RangeInclusive<usize>,
    isolate: bool,
    /// Of each root.
    references: Vec<bool>,
}

impl Sets {
    /// Puts it in order.
    pub fn new<S, L>(gathered: Gathered<'_, S, L>) -> Sets
    where
        S: Iterator<Item = (Digest, Vec<FileId>)>,
        L: Iterator<Item = (u64, Kin)>,
    {
        let Gathered { folders, tally, options, small, large, names, unread } = gathered;
        let bytes =
            |(_, name): &(FileId, FileId)| folders[name.folder as usize].seen(name.entry).size;
        let further = (names.len() as u64, names.iter().map(bytes).sum());
        let mut of: HashMap<FileId, Vec<FileId>> = HashMap::new();
        for (file, name) in names {
            of.entry(file).or_default().push(name);
        }
        let verified = Verified::by(options.hash.unwrap_or_default());
        let small = small.map(|(digest, files)| {
            let size = folders[files[0].folder as usize].seen(files[0].entry).size;
            (size, Kin { files, digest: Some(digest), verified })
        });
        let rules = Rules {
            copies: options.copies.clone(),
            isolate: options.isolate,
            references: options.roots.iter().map(|root| root.reference).collect(),
        };
        let mut kin: Vec<_> = small.chain(large).filter(|(_, kin)| kin.files.len() > 1).collect();
        let mut sets = Sets {
            ranks: ranks(&folders),
            totals: totals(tally, further),
            threads: options
                .threads
                .or(std::thread::available_parallelism().ok())
                .unwrap_or(NonZeroUsize::MIN),
            names: of,
            kin: Vec::new(),
            sharing: Mutex::default(),
            folders,
            rules,
        };
        if sets.rules.copies.contains(&1) {
            sets.add_alone(&mut kin, &unread);
        }
        sets.kin = sets.in_order(kin);
        sets
    }

    /// Files that are equal to no other.
    fn add_alone(&self, kin: &mut Vec<(u64, Kin)>, unread: &[FileId]) {
        let mut others: HashSet<FileId> = unread.iter().copied().collect();
        // What could not be read may be equal to any file of its size.
        let size = |file: &FileId| self.folders[file.folder as usize].seen(file.entry).size;
        let unknown: HashSet<u64> = unread.iter().map(size).collect();
        others.extend(kin.iter().flat_map(|(_, kin)| &kin.files));
        others.extend(self.names.values().flatten());
        for folder in &self.folders {
            for entry in 0..folder.len() {
                let file = FileId { folder: folder.number, entry };
                if !others.contains(&file) && !unknown.contains(&folder.seen(entry).size) {
                    let (files, verified) = (vec![file], Verified::Unique);
                    kin.push((folder.seen(entry).size, Kin { files, digest: None, verified }));
                }
            }
        }
    }

    /// The largest first; files, and sets of the same size, by their paths.
    fn in_order(&self, mut kin: Vec<(u64, Kin)>) -> Vec<(u64, Kin)> {
        for (_, kin) in &mut kin {
            kin.files.sort_unstable_by_key(|file| self.place(*file));
        }
        // By all names: which of them was found first is another one in each run.
        let first = |kin: &Kin| kin.files.iter().map(|file| self.first_place(*file)).min();
        kin.sort_by_cached_key(|(size, kin)| (Reverse(*size), first(kin)));
        kin
    }

    fn first_place(&self, file: FileId) -> (u32, &[u8]) {
        let names = self.names.get(&file).into_iter().flatten();
        names.map(|name| self.place(*name)).fold(self.place(file), Ord::min)
    }

    /// Where a file comes: by its folder, then by its name.
    fn place(&self, file: FileId) -> (u32, &[u8]) {
        let folder = &self.folders[file.folder as usize];
        (self.ranks[file.folder as usize], folder.file_name(file.entry))
    }

    /// Prints all that is to be listed. Stops between two sets if it is to. Others put the next sets together
    /// meanwhile: that is about as much work.
    pub fn print(&self, printer: &mut dyn Printer, stop: &Stop) -> io::Result<Totals> {
        let (mut totals, counts_bytes) = (self.totals, printer.counts_bytes());
        let listed = |kin: &[(u64, Kin)]| self.listed(kin, counts_bytes);
        if self.kin.len() <= PORTION {
            print_some(&listed(&self.kin), printer, stop, &mut totals)?;
        } else {
            let pool = Pool::builder("sets").workers(self.threads.get()).queue(self.threads.get());
            let pool = pool.build().map_err(io::Error::other)?;
            let printed = pool.scope(|scope| {
                let mut portions = scope.map(self.kin.chunks(PORTION), listed);
                portions.try_for_each(|portion| {
                    let sets = portion.map_err(|error| io::Error::other(error.to_string()))?;
                    print_some(&sets, printer, stop, &mut totals)
                })
            });
            pool.shutdown(Shutdown::light()).expect("this thread is no worker of it");
            printed?;
        }
        printer.end(&totals)?;
        Ok(totals)
    }

    /// Of these, what is to be listed.
    fn listed(&self, kin: &[(u64, Kin)], counts_bytes: bool) -> Vec<Set> {
        let sets = kin.iter().filter_map(|(size, kin)| self.set(*size, kin, counts_bytes));
        sets.filter(|(_, copies)| self.rules.copies.contains(copies)).map(|(set, _)| set).collect()
    }

    /// As it is listed, and how many copies it counts for; None if nothing in it is to be.
    fn set(&self, size: u64, kin: &Kin, counts_bytes: bool) -> Option<(Set, usize)> {
        let mut inodes = self.by_inode(&kin.files);
        if inodes.len() == 1 && kin.files.len() > 1 && !self.rules.copies.contains(&1) {
            return None;
        }
        for inode in &mut inodes {
            // What is only compared with comes first: who keeps the first keeps that. Then the file itself
            // before links that lead to it.
            inode.names.sort_unstable_by_key(|file| {
                (!self.is_reference(*file), self.is_link(*file), self.place(*file))
            });
            self.name_once(inode);
        }
        inodes.sort_unstable_by_key(|inode| self.place(inode.names[0]));
        // One name of a file below a reference root keeps all of it from going.
        let is_reference = |inode: &Inode| inode.names.iter().any(|file| self.is_reference(*file));
        let references: Vec<bool> = inodes.iter().map(is_reference).collect();
        let mut names = inodes.iter().flat_map(|inode| &inode.names);
        let is_only_reference = names.clone().all(|file| self.is_reference(*file));
        if is_only_reference || inodes.len() == 1 && references[0] {
            return None;
        }
        let copies = match self.rules.isolate {
            false => inodes.len(),
            true => {
                let roots: HashSet<u32> = names.by_ref().map(|file| self.root(*file)).collect();
                // One file that two of them have is in neither alone, and no duplicate of itself.
                if inodes.len() == 1 && roots.len() > 1 {
                    return None;
                }
                roots.len().min(inodes.len())
            }
        };
        let keeper = references.iter().position(|is| *is).unwrap_or(0);
        let freed = inodes.iter().zip(&references).enumerate();
        let freed = freed.filter(|(at, (_, is_reference))| *at != keeper && !**is_reference);
        let reclaimable = match counts_bytes {
            true => freed.map(|(_, (inode, _))| self.reclaimable(inode)).sum(),
            false => 0,
        };
        let verified = if inodes.len() == 1 { Verified::Unique } else { kin.verified };
        let files = inodes.iter().zip(references).map(|(inode, reference)| Entry {
            paths: inode.names.iter().map(|file| self.path(*file)).collect(),
            reference,
            offline: false,
        });
        let set = Set { size, digest: kin.digest, verified, files: files.collect(), reclaimable };
        Some((set, copies))
    }

    /// Also files with one name that are one all the same: a file mounted on another.
    fn by_inode(&self, files: &[FileId]) -> Vec<Inode> {
        let key = |file: &FileId| {
            let seen = self.folders[file.folder as usize].seen(file.entry);
            (seen.device, seen.inode)
        };
        let mut files: Vec<FileId> = files.to_vec();
        files.sort_by_key(key);
        let one = |same: &[FileId]| {
            let further = same.iter().filter_map(|file| self.names.get(file)).flatten();
            Inode { names: same.iter().chain(further).copied().collect() }
        };
        files.chunk_by(|file, other| key(file) == key(other)).map(one).collect()
    }

    /// What comes free if it goes: nothing, if it has a name that we don't know, or that stays.
    fn reclaimable(&self, inode: &Inode) -> u64 {
        let first = inode.names[0];
        let seen = self.folders[first.folder as usize].seen(first.entry);
        let has_others = seen.has_many_links() || usize::from(seen.links()) > self.known(inode);
        let stays = has_others || inode.names.iter().any(|file| self.is_reference(*file));
        if stays {
            return 0;
        }
        lock(&self.sharing).own(&self.path(first), seen.device, seen.blocks * 512)
    }

    /// How many of its links we know. Where case does not count a file may be given in several: that is
    /// one link, and where it does count it is rather too little than too much.
    fn known(&self, inode: &Inode) -> usize {
        let names = inode.names.iter().filter(|file| !self.is_link(**file));
        if inode.names.len() < 2 || !self.is_given(inode) {
            return names.count();
        }
        let in_any_case = |file: &FileId| self.spelled(*file).map(|part| lower(&part));
        names.map(in_any_case).collect::<HashSet<_>>().len()
    }

    /// A file that was given may also be found, or be given again, by another spelling: the first one
    /// stays.
    fn name_once(&self, inode: &mut Inode) {
        if inode.names.len() < 2 || !self.is_given(inode) {
            return;
        }
        let mut seen = HashSet::new();
        inode.names.retain(|file| seen.insert(self.spelled(*file)));
    }

    fn is_given(&self, inode: &Inode) -> bool {
        inode.names.iter().any(|file| self.folders[file.folder as usize].is_given_file)
    }

    /// Its folder, by whatever way it is reached, and its name.
    fn spelled(&self, file: FileId) -> [Vec<u8>; 2] {
        let folder = &self.folders[file.folder as usize];
        let path = folder.path();
        let path = if path.is_empty() { b"." } else { &path[..] };
        // Who can't be asked any more goes by what was given.
        let whole = std::fs::canonicalize(OsStr::from_bytes(path));
        let whole = whole.map_or_else(|_| path.to_vec(), |whole| whole.into_os_string().into_vec());
        [whole, folder.file_name(file.entry).to_vec()]
    }

    fn is_link(&self, file: FileId) -> bool {
        self.folders[file.folder as usize].seen(file.entry).is_link()
    }

    fn root(&self, file: FileId) -> u32 {
        self.folders[file.folder as usize].root
    }

    fn is_reference(&self, file: FileId) -> bool {
        self.rules.references[self.root(file) as usize]
    }

    fn path(&self, file: FileId) -> Vec<u8> {
        let folder = &self.folders[file.folder as usize];
        let name = folder.file_name(file.entry);
        let mut path = folder.path();
        path.reserve_exact(name.len() + 1);
        join(&mut path, name);
        path
    }
}

/// In lower case, as far as it is text.
fn lower(name: &[u8]) -> Vec<u8> {
    String::from_utf8(name.to_vec()).map_or(name.to_vec(), |name| name.to_lowercase().into_bytes())
}

fn print_some(
    sets: &[Set],
    printer: &mut dyn Printer,
    stop: &Stop,
    totals: &mut Totals,
) -> io::Result<()> {
    for set in sets {
        if stop.is_asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let redundant = redundant(set);
        totals.sets += 1;
        totals.redundant_files += redundant;
        totals.redundant_bytes += redundant * set.size;
        totals.reclaimable_bytes += set.reclaimable;
        printer.set(set)?;
    }
    Ok(())
}

/// How many files of a set could go: all but one, and none that is only compared with.
pub fn redundant(set: &Set) -> u64 {
    let others = set.files.iter().filter(|file| !file.reference).count() as u64;
    let kept = u64::from(others == set.files.len() as u64);
    others.saturating_sub(kept)
}

/// A file, with all of its names.
struct Inode {
    names: Vec<FileId>,
}

/// Where each folder comes: roots by their names, below each its folders by theirs. Parts of one
/// folder have the same rank, and so have roots with the same path.
fn ranks(folders: &[Arc<Folder>]) -> Vec<u32> {
    let of = |number: u32| &folders[number as usize];
    let is_whole = |folder: &&Arc<Folder>| folder.whole == folder.number;
    let mut siblings: Vec<u32> = folders.iter().filter(is_whole).map(|f| f.number).collect();
    siblings.sort_unstable_by_key(|number| (of(*number).parent(), of(*number).name(), *number));
    let children = |parent: Option<u32>| {
        let begin = siblings.partition_point(|number| of(*number).parent() < parent);
        let end = siblings.partition_point(|number| of(*number).parent() <= parent);
        siblings[begin..end].iter().rev()
    };
    let (mut ranks, mut rank, mut last_root) = (vec![0; folders.len()], 0, None);
    let mut waiting: Vec<u32> = children(None).copied().collect();
    while let Some(number) = waiting.pop() {
        let folder = of(number);
        // A root with the path of the one before has nothing below that: folders are visited once.
        let same = folder.parent().is_none() && last_root == Some(folder.name());
        rank += u32::from(!same);
        if folder.parent().is_none() {
            last_root = Some(folder.name());
        }
        ranks[number as usize] = rank;
        waiting.extend(children(Some(number)));
    }
    folders.iter().map(|folder| ranks[folder.whole as usize]).collect()
}

/// Without what was seen under further names of the same files: how many, and bytes.
fn totals(tally: &Tally, further: (u64, u64)) -> Totals {
    Totals {
        folders: Tally::get(&tally.folders),
        files: Tally::get(&tally.files) - further.0,
        bytes: Tally::get(&tally.bytes) - further.1,
        bytes_read: Tally::get(&tally.read_bytes_done),
        unread: Tally::get(&tally.unread),
        unstable: Tally::get(&tally.unstable),
        ..Totals::default()
    }
}

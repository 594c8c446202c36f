//! From roots to files: looks into folders, each of them once, and passes on what counts.
//!
//! Folders that were found and not looked into yet are in the *frontier*. A walking task takes from
//! it until it is empty, so nobody waits for anybody, and when the last one ends there is no folder
//! left: whoever finds some is not at its end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;
use tidegate::Pool;

use crate::act::quarantine;
use crate::filter::{Decision, Ignores};
use crate::folders::{self, Folder, Folders, Found, open_path};
use crate::io::Gauge;
use crate::locking::lock;
use crate::mounts;
use crate::options::{Filter, Root};
use crate::problems::{Kind, Problems, code};
use crate::stop::Stop;
use crate::tally::Tally;

/// Entries of folders are read so many bytes at a time.
const LISTING: usize = 64 << 10;
/// A folder with more files passes them on in parts.
const PART: usize = 8_192;

/// Files that were given are passed on so many at a time.
const GIVEN: usize = 256;

/// Who hears what a walk finds; called by its workers, for each folder by one of them: `opened`, `files`
/// of parts of it if there are very many, `listed`, `files` of the rest, and `left`. Of a folder that
/// could not be opened, only `left`.
pub trait Sink: Send + Sync {
    /// The files of folders, or of parts of them.
    fn files(&self, folders: &[Arc<Folder>]);

    /// Whether a folder that was found is looked into.
    fn enters(&self, folder: &Folder) -> bool {
        let _ = folder;
        true
    }

    /// A folder is there, and will be listed, unless there is a reason why not: then it has failed.
    fn opened(&self, folder: &Arc<Folder>, stat: &Stat) -> Option<Kind> {
        let _ = (folder, stat);
        None
    }

    /// A folder was listed, and nobody has looked into those that are in it.
    fn listed(&self, folder: &Arc<Folder>, inside: Inside<'_>) {
        let _ = (folder, inside);
    }

    /// There is nothing more to say of a folder.
    fn left(&self, folder: &Arc<Folder>, end: End) {
        let _ = (folder, end);
    }
}

/// What is in a folder, but for its files.
#[derive(Debug)]
pub struct Inside<'a> {
    /// Folders that will be looked into.
    pub folders: &'a [Arc<Folder>],
    /// How many entries don't count, for whatever reason.
    pub left_out: u32,
    /// Of these, names that are there, and nobody knows of what: the system did not say.
    pub unseen: &'a [Box<[u8]>],
}

/// How far a look into a folder has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that is in it was listed.
    Complete,
    /// All was listed, but of some entries the system did not say what they are: its error.
    Unseen(i32),
    /// It does not count: it was looked into by another way, or lies on a file system that is left out.
    Skipped,
    /// The rest could not be listed: the error of the system.
    Failed(i32),
    /// The run is to stop.
    Stopped,
}

/// A walk over all roots.
pub struct Walk {
    pub(crate) pool: Pool,
    pub(crate) gauge: Gauge,
    filter: Filter,
    folders: Arc<Folders>,
    /// By device and inode: links and mounts that lead back end here.
    visited: Mutex<HashSet<(u64, u64)>>,
    frontier: Mutex<Vec<Waiting>>,
    /// Folders behind links, by their paths: looked into when there are no others.
    behind_links: Mutex<BTreeMap<Vec<u8>, Waiting>>,
    walking: AtomicUsize,
    /// Folders that were given, by device and inode: each belongs to its own root, also where it
    /// lies below another one.
    root_folders: Mutex<HashMap<(u64, u64), u32>>,
    root_devices: Mutex<HashSet<u64>>,
    problems: Arc<Problems>,
    tally: Arc<Tally>,
    stop: Stop,
    sink: Box<dyn Sink>,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// A folder that nobody has looked into.
struct Waiting {
    folder: Arc<Folder>,
    ignores: Option<Arc<Ignores>>,
}

/// What a walk needs of its run.
#[derive(Debug)]
pub struct Setting {
    /// Where its tasks run.
    pub pool: Pool,
    /// Watches over how many.
    pub gauge: Gauge,
    /// What counts.
    pub filter: Filter,
    /// Where folders and files are kept.
    pub folders: Arc<Folders>,
    /// Who hears what went wrong.
    pub problems: Arc<Problems>,
    /// What is counted.
    pub tally: Arc<Tally>,
    /// Whether to stop.
    pub stop: Stop,
}

impl Walk {
    /// Nothing begins before `start`.
    pub fn new(setting: Setting, sink: Box<dyn Sink>) -> Arc<Walk> {
        let Setting { pool, gauge, filter, folders, problems, tally, stop } = setting;
        Arc::new(Walk {
            pool,
            gauge,
            filter,
            folders,
            visited: Mutex::default(),
            frontier: Mutex::default(),
            behind_links: Mutex::default(),
            walking: AtomicUsize::new(0),
            root_folders: Mutex::default(),
            root_devices: Mutex::default(),
            problems,
            tally,
            stop,
            sink,
        })
    }

    /// Looks at the roots, and lets the pool begin. It is done when the pool is idle.
    pub fn start(self: &Arc<Walk>, roots: &[Root]) {
        let (mut files, mut quarantines) = (Vec::new(), Quarantines::default());
        // What is given for comparison stays that, by whatever other way it is given as well.
        let (references, others): (Vec<_>, Vec<_>) =
            roots.iter().enumerate().partition(|(_, root)| root.reference);
        for (number, root) in references.into_iter().chain(others) {
            if self.stop.is_asked() {
                return;
            }
            let path = root.path.as_os_str().as_bytes();
            let is_other = |before: u32| roots[before as usize].reference != root.reference;
            files.extend(self.add_root(number as u32, path, is_other, &mut quarantines));
            if files.len() == GIVEN {
                self.sink.files(&std::mem::take(&mut files));
            }
        }
        self.sink.files(&files);
        // The last one that was found is looked into first.
        lock(&self.frontier).reverse();
        self.call_others();
    }

    /// When the pool is idle: one link on, the first by its path, so that every run goes the same way
    /// in. False: there is none.
    pub fn go_on_behind_a_link(self: &Arc<Walk>) -> bool {
        let Some((_, next)) = lock(&self.behind_links).pop_first() else { return false };
        lock(&self.frontier).push(next);
        self.call_others();
        true
    }

    /// Links that are given as roots are followed: who names one means what it leads to. If it is a
    /// file, that is given back.
    fn add_root(
        &self,
        number: u32,
        path: &[u8],
        is_other: impl Fn(u32) -> bool,
        quarantines: &mut Quarantines,
    ) -> Option<Arc<Folder>> {
        let look = |flags| open_path(&terminated(path), OFlags::PATH | flags).and_then(fstat);
        let stat = match look(OFlags::empty()) {
            Ok(stat) => stat,
            Err(error) => {
                self.problem(path.to_vec(), Kind::Root(code(error)));
                return None;
            }
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_given_file =
            kind == FileType::RegularFile && !look(OFlags::NOFOLLOW).is_ok_and(is_link);
        if quarantines.hold(path, is_given_file) {
            self.problem(path.to_vec(), Kind::Quarantine);
            return None;
        }
        match kind {
            FileType::Directory => {
                lock(&self.root_devices).insert(stat.st_dev);
                let identity = (stat.st_dev, stat.st_ino);
                let first = *lock(&self.root_folders).entry(identity).or_insert(number);
                if first != number {
                    // It belongs to the first, in every run.
                    if is_other(first) {
                        self.problem(path.to_vec(), Kind::Both);
                    }
                    return None;
                }
                let folder = self.folders.add_root(number, path, false);
                lock(&self.frontier).push(Waiting { folder, ignores: None });
            }
            FileType::RegularFile => {
                let (before, name) = split(path);
                let folder = self.folders.add_root(number, before, true);
                let mut found = Found::default();
                let counts = self.filter.decide_named(name) == Decision::Counts;
                if counts && self.filter.is_size(folders::size(&stat)) {
                    self.add(&mut found, name, &stat, !is_given_file);
                }
                self.fill(&folder, found);
                return Some(folder);
            }
            _ => self.problem(path.to_vec(), Kind::Special),
        }
        None
    }

    /// Takes folders until there are none.
    fn work(self: &Arc<Walk>) {
        let mut listing = vec![MaybeUninit::uninit(); LISTING];
        while !self.stop.is_asked() {
            let Some(waiting) = lock(&self.frontier).pop() else { break };
            let measured = self.gauge.begin();
            let looked = self.look_into(&waiting, &mut listing);
            self.gauge.end(&self.pool, measured); // to wait for readers is not to wait for the disk
            if let Some(look) = looked {
                look.end();
            }
            self.call_others();
        }
        self.walking.fetch_sub(1, SeqCst);
    }

    /// There is more than one can do.
    fn call_others(self: &Arc<Walk>) {
        let wanted = lock(&self.frontier).len().min(self.gauge.workers());
        while self.walking.load(SeqCst) < wanted {
            self.walking.fetch_add(1, SeqCst);
            let walk = Arc::clone(self);
            if self.pool.try_spawn(move || walk.work()).is_err() {
                // No room: enough of them are on their way. Or the run is over.
                self.walking.fetch_sub(1, SeqCst);
                break;
            }
        }
    }

    /// What is there, as far as it could be read.
    fn look_into(&self, waiting: &Waiting, listing: &mut [MaybeUninit<u8>]) -> Option<Look<'_>> {
        let folder = &waiting.folder;
        if !self.sink.enters(folder) {
            return None;
        }
        let (opened, stat) = match self.enter(folder) {
            Ok(Some(entered)) => entered,
            Ok(None) => {
                self.sink.left(folder, End::Skipped);
                return None;
            }
            Err(error) => {
                self.not_read(folder, error, folder.depth == 0);
                self.sink.left(folder, End::Failed(code(error)));
                return None;
            }
        };
        Tally::add(&self.tally.folders, 1);
        if let Some(why) = self.sink.opened(folder, &stat) {
            self.problem(folder.path(), why);
            self.sink.left(folder, End::Failed(code(Errno::NODEV)));
            return None;
        }
        let ignores = match self.filter.ignore_files {
            true => self.ignores(waiting, opened.as_fd()),
            false => None,
        };
        let mut look = Look {
            walk: self,
            whole: Arc::clone(folder),
            folder: Arc::clone(folder),
            ignores,
            below_root: self.filter.asks_for_paths().then(|| folder.path_below_root()),
            found: Found::default(),
            subfolders: Vec::new(),
            behind_links: Vec::new(),
            left_out: 0,
            unseen: Vec::new(),
            end: End::Complete,
            stat,
        };
        let mut entries = RawDir::new(opened.as_fd(), listing);
        // One that is the current folder can be opened even after it was deleted.
        let mut is_unseen_root = folder.depth == 0;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    self.not_read(folder, error, is_unseen_root);
                    look.end = End::Failed(code(error));
                    break;
                }
            };
            is_unseen_root = false;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                look.at(opened.as_fd(), name, entry.file_type());
            }
            if self.stop.is_asked() {
                look.end = End::Stopped;
                break;
            }
        }
        Some(look)
    }

    /// None: it was looked into already, or is not to be.
    fn enter(&self, folder: &Folder) -> rustix::io::Result<Option<(OwnedFd, Stat)>> {
        let follow = if self.filter.follow || folder.depth == 0 {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        // What was removed is no copy of anything.
        if folder.depth > 0
            && (folder.name().starts_with(quarantine::NAME)
                || self.filter.follow && is_in_quarantine(&folder.path()))
        {
            return Ok(None);
        }
        let path = terminated(&folder.path());
        let opened = open_path(&path, OFlags::RDONLY | OFlags::DIRECTORY | follow)?;
        let stat = fstat(&opened)?;
        let identity = (stat.st_dev, stat.st_ino);
        if folder.depth > 0 {
            if self.filter.never.contains(&identity)
                || lock(&self.root_folders).contains_key(&identity)
            {
                return Ok(None);
            }
            let is_mount = stat.st_dev != folder.found_on;
            if is_mount && (self.is_elsewhere(&stat) || mounts::is_pseudo(&opened)?) {
                return Ok(None);
            }
        }
        let is_new = lock(&self.visited).insert(identity);
        Ok(is_new.then_some((opened, stat)))
    }

    /// With `--one-file-system`: it is on another one than any root.
    fn is_elsewhere(&self, stat: &Stat) -> bool {
        self.filter.one_file_system && !lock(&self.root_devices).contains(&stat.st_dev)
    }

    fn ignores(
        &self,
        waiting: &Waiting,
        opened: rustix::fd::BorrowedFd<'_>,
    ) -> Option<Arc<Ignores>> {
        let below_root = waiting.folder.path_below_root();
        let (ignores, wrong) = Ignores::read(opened, &below_root, waiting.ignores.clone());
        for name in wrong {
            let mut path = waiting.folder.path();
            folders::join(&mut path, name.to_bytes());
            self.problem(path, Kind::IgnoreFile);
        }
        ignores
    }

    fn add(&self, found: &mut Found, name: &[u8], stat: &Stat, is_link: bool) {
        let device = found.device(stat.st_dev, |device| self.folders.device(device));
        found.add(name, stat, device, is_link);
    }

    /// Counts them together: each by itself would be one more thing that all threads write to.
    fn fill(&self, folder: &Folder, found: Found) {
        Tally::add(&self.tally.files, found.len() as u64);
        Tally::add(&self.tally.bytes, found.bytes());
        folder.fill(found);
    }

    fn pass_on(&self, folder: &Arc<Folder>, found: Found) {
        let some = !found.is_empty();
        self.fill(folder, found);
        if some {
            self.sink.files(std::slice::from_ref(folder));
        }
    }

    fn not_read(&self, folder: &Folder, error: Errno, is_unseen_root: bool) {
        let kind = if is_unseen_root { Kind::Root } else { Kind::Folder };
        self.problem(folder.path(), kind(code(error)));
    }

    fn problem(&self, path: Vec<u8>, kind: Kind) {
        self.problems.add(&self.tally, path, kind);
    }
}

/// A look into one folder.
struct Look<'a> {
    walk: &'a Walk,
    whole: Arc<Folder>,
    /// The part of it that is being filled.
    folder: Arc<Folder>,
    ignores: Option<Arc<Ignores>>,
    /// Where somebody asks for it.
    below_root: Option<Vec<u8>>,
    found: Found,
    subfolders: Vec<Waiting>,
    behind_links: Vec<Waiting>,
    left_out: u32,
    unseen: Vec<Box<[u8]>>,
    end: End,
    stat: Stat,
}

impl Look<'_> {
    fn at(&mut self, opened: rustix::fd::BorrowedFd<'_>, name: &CStr, listed: FileType) {
        if !self.add(opened, name, listed) {
            self.left_out += 1;
        }
    }

    /// False: it does not count.
    fn add(&mut self, opened: rustix::fd::BorrowedFd<'_>, name: &CStr, listed: FileType) -> bool {
        let bytes = name.to_bytes();
        match listed {
            FileType::Directory => return self.add_folder(bytes, false),
            FileType::Symlink if !self.walk.filter.follow => return false,
            // Before it costs a system call.
            FileType::RegularFile if !self.counts(bytes, false) => return false,
            FileType::RegularFile | FileType::Symlink | FileType::Unknown => {}
            _ => return false,
        }
        let follow = match self.walk.filter.follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        let stat = match statat(opened, name, follow) {
            Ok(stat) => stat,
            // A link that leads nowhere, or in a circle.
            Err(Errno::NOENT | Errno::LOOP) if self.is_link(opened, name, listed) => return false,
            Err(error) => {
                self.unseen(name, error);
                return false;
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.add_folder(bytes, self.is_link(opened, name, listed)),
            FileType::RegularFile
                if listed == FileType::RegularFile || self.counts(bytes, false) =>
            {
                let is_link = self.is_link(opened, name, listed);
                if is_link && stat.st_dev != self.stat.st_dev && leads_to_pseudo(opened, name) {
                    return false;
                }
                if is_link && is_in_quarantine(&self.path_of(bytes)) {
                    return false;
                }
                self.add_file(bytes, &stat, is_link)
            }
            _ => false,
        }
    }

    /// Some file systems do not say what is listed.
    fn is_link(&self, folder: rustix::fd::BorrowedFd<'_>, name: &CStr, listed: FileType) -> bool {
        listed == FileType::Symlink
            || listed == FileType::Unknown
                && self.walk.filter.follow
                && statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link)
    }

    fn add_folder(&mut self, name: &[u8], is_link: bool) -> bool {
        let depth = self.folder.depth as usize + 1;
        let is_too_deep = self.walk.filter.depth.is_some_and(|most| depth >= most);
        if is_too_deep || !self.counts(name, true) {
            return false;
        }
        let folder = self.walk.folders.add_below(&self.folder, name, self.stat.st_dev);
        let waiting = Waiting { folder, ignores: self.ignores.clone() };
        if is_link { &mut self.behind_links } else { &mut self.subfolders }.push(waiting);
        true
    }

    fn add_file(&mut self, name: &[u8], stat: &Stat, is_link: bool) -> bool {
        // A link, or a file that is mounted on another one, leads elsewhere.
        let is_elsewhere = stat.st_dev != self.stat.st_dev && self.walk.is_elsewhere(stat);
        let is_never = self.walk.filter.never.contains(&(stat.st_dev, stat.st_ino));
        if is_elsewhere || is_never || !self.walk.filter.is_size(folders::size(stat)) {
            return false;
        }
        self.walk.add(&mut self.found, name, stat, is_link);
        if self.found.len() == PART {
            let next = self.walk.folders.add_part(&self.folder);
            let part = std::mem::replace(&mut self.folder, next);
            self.walk.pass_on(&part, std::mem::take(&mut self.found));
        }
        true
    }

    fn counts(&self, name: &[u8], is_folder: bool) -> bool {
        let below_root = self.below_root.as_deref();
        let decision = self.walk.filter.decide(name, below_root, is_folder);
        decision == Decision::Counts
            && !self.ignores.as_ref().is_some_and(|ignores| {
                ignores.forbids(below_root.unwrap_or_default(), name, is_folder)
            })
    }

    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.folder.path();
        folders::join(&mut path, name);
        path
    }

    /// It is there, but not known.
    fn unseen(&mut self, name: &CStr, error: Errno) {
        self.walk.problem(self.path_of(name.to_bytes()), Kind::File(code(error)));
        self.unseen.push(name.to_bytes().into());
        if self.end == End::Complete {
            self.end = End::Unseen(code(error));
        }
    }

    fn end(self) {
        let inside = self.subfolders.iter().chain(&self.behind_links);
        let inside: Vec<Arc<Folder>> = inside.map(|found| Arc::clone(&found.folder)).collect();
        let (left_out, unseen) = (self.left_out, &*self.unseen);
        let inside = Inside { folders: &inside, left_out, unseen };
        self.walk.sink.listed(&self.whole, inside);
        lock(&self.walk.frontier).extend(self.subfolders.into_iter().rev());
        if !self.behind_links.is_empty() {
            let links = self.behind_links.into_iter().map(|link| (link.folder.path(), link));
            lock(&self.walk.behind_links).extend(links);
        }
        self.walk.pass_on(&self.folder, self.found);
        self.walk.sink.left(&self.whole, self.end);
    }
}

/// Whether what was given lies in a quarantine. Most files lie in the same folder as the one before.
#[derive(Default)]
struct Quarantines {
    last: Option<(Vec<u8>, bool)>,
}

impl Quarantines {
    /// `is_file`: and no link, so that its folder decides.
    fn hold(&mut self, path: &[u8], is_file: bool) -> bool {
        if !is_file {
            return is_in_quarantine(path);
        }
        let (folder, _) = split(path);
        match &self.last {
            Some((known, is)) if known == folder => *is,
            _ => {
                let is = is_in_quarantine(if folder.is_empty() { b"." } else { folder });
                self.last = Some((folder.to_vec(), is));
                is
            }
        }
    }
}

/// Wherever its links lead.
fn is_in_quarantine(path: &[u8]) -> bool {
    let whole = std::fs::canonicalize(OsStr::from_bytes(path));
    whole.is_ok_and(|whole| quarantine::holds(whole.as_os_str().as_bytes()))
}

/// Whether a link leads to what the kernel shows of itself.
fn leads_to_pseudo(folder: rustix::fd::BorrowedFd<'_>, name: &CStr) -> bool {
    let opened = openat(folder, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    opened.and_then(mounts::is_pseudo).unwrap_or(false)
}

fn is_link(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// What comes before the name of a file, up to the last slash, and the name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.split_at(name)
}

/// With the zero byte that the system wants.
pub fn terminated(path: &[u8]) -> Vec<u8> {
    let mut path = path.to_vec();
    path.push(0);
    path
}

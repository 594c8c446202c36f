//! The memory of a scan: compares what the walk finds with what the database has, and passes on what is
//! new of it, a folder at a time.
//!
//! A folder is *open* while it is looked into: what the database has of it is here, less what was
//! found. What was found *waits* until those of its files have been read that must be; then it is
//! written, and only what is learned after that is written by itself.

pub(crate) mod desk;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::find::Live;
use crate::folders::{FileId, Folder, Seen, join};
use crate::locking::lock;
use crate::memory::{Known, Learned, Memory};
use crate::mounts;
use crate::problems::Kind;
use crate::store::by_name::ByName;
use crate::store::identity::{Ground, Identity};
use crate::store::recall::{Readers, Recorded, RecordedFile, RecordedFolder};
use crate::store::roots::Mounts;
use crate::store::rows::{FileRow, FolderRow};
use crate::store::write::{Record, Writer};
use crate::walk::{End, Inside, Sink};
use desk::{Desk, State, Waiting};

/// A file that changed so shortly before it was looked at may change again without its times showing
/// it: no file system has a coarser clock.
const GRAIN: i64 = 2_000_000_000;

/// A change of a file now would not show in its times.
pub(crate) fn is_racy(ctime: i64, now: i64) -> bool {
    ctime.saturating_add(GRAIN) > now
}

/// In ns since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What a scan is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything.
    All,
    /// Look for folders and files, and read none.
    Folders,
    /// Look at the folders that are known, and read their files.
    Files,
    /// See what is still there, and add nothing.
    Refresh,
}

impl Mode {
    /// As people say it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::All => "all",
            Mode::Folders => "folders",
            Mode::Files => "files",
            Mode::Refresh => "refresh",
        }
    }

    fn adds_folders(self) -> bool {
        matches!(self, Mode::All | Mode::Folders)
    }

    fn adds_files(self) -> bool {
        self != Mode::Refresh
    }

    pub(crate) fn reads(self) -> bool {
        matches!(self, Mode::All | Mode::Files)
    }
}

/// How what was found differs from what was known.
#[derive(Debug, Default)]
pub struct Counts {
    /// Files that were not there.
    pub new: AtomicU64,
    /// Files that are other ones than they were.
    pub changed: AtomicU64,
    /// Files that are as they were.
    pub same: AtomicU64,
    /// Files that were gone and are back.
    pub restored: AtomicU64,
}

/// What a memory is made of.
#[derive(Debug)]
pub struct Setting {
    /// What is done.
    pub mode: Mode,
    /// For each root of the run.
    pub roots: Vec<RootFolder>,
    /// What was mounted somewhere below.
    pub mounts: Mounts,
    /// Numbers from here on are free.
    pub first_new: i64,
    /// Sizes of files that the run does not see.
    pub elsewhere: HashSet<u64>,
    /// Also where inodes may be given to other files.
    pub trust_inodes: bool,
    /// Nothing that is known of contents is used.
    pub restart: bool,
    /// Also files that no other is like are read.
    pub all_hashes: bool,
    /// Before the walk begins.
    pub now: SystemTime,
    /// Who asks the database.
    pub readers: Readers,
    /// Who writes to it.
    pub writer: Writer,
    /// What the run has seen, what went wrong, and whether it is to stop.
    pub live: Live,
}

/// A root, as it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct RootFolder {
    /// Its number.
    pub id: i64,
    /// That of its folder, if it has one.
    pub folder: Option<i64>,
    /// What it was when it was last scanned.
    pub identity: Option<Identity>,
}

/// See the top of the file.
#[derive(Debug)]
pub struct Remember {
    setting: Setting,
    /// Since 1970, in ns.
    now: i64,
    next: AtomicI64,
    /// Numbers in the database, by those of the run.
    ids: RwLock<Vec<i64>>,
    open: Mutex<HashMap<u32, Open>>,
    desk: Mutex<Desk>,
    trusted: Mutex<HashMap<u64, bool>>,
    counts: Counts,
    failed: Mutex<Option<rusqlite::Error>>,
}

/// A folder that is looked into.
#[derive(Debug, Default)]
struct Open {
    id: i64,
    is_new: bool,
    /// As it is recorded.
    row: Option<FolderRow>,
    /// As it is.
    now: Option<FolderRow>,
    /// Files that are recorded and were not found yet.
    files: ByName<RecordedFile>,
    /// Folders that are recorded in it, until it was listed.
    folders: ByName<RecordedFolder>,
    /// Entries that were found and are not to be recorded.
    ignored: u32,
    /// Folders that are recorded and are not there.
    gone: Vec<i64>,
    /// And those of them that something was mounted on, or below.
    away: Vec<(Box<[u8]>, i64)>,
}

impl Remember {
    /// Before the walk begins.
    pub fn new(setting: Setting) -> Remember {
        Remember {
            now: nanoseconds(setting.now),
            next: AtomicI64::new(setting.first_new),
            ids: RwLock::default(),
            open: Mutex::default(),
            desk: Mutex::default(),
            trusted: Mutex::default(),
            counts: Counts::default(),
            failed: Mutex::default(),
            setting,
        }
    }

    /// How what was found differs from what was known.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Who writes, for those who watch.
    pub fn writer(&self) -> &Writer {
        &self.setting.writer
    }

    /// When the run is over, or has stopped: writes what is left.
    pub fn finish(&self) -> rusqlite::Result<()> {
        let desk = std::mem::take(&mut *lock(&self.desk));
        let mut nobody = Desk::default();
        for waiting in desk.waiting.into_values() {
            let records = nobody.records(waiting);
            self.setting.writer.add(records);
        }
        self.setting.readers.let_go();
        let written = self.setting.writer.finish();
        lock(&self.failed).take().map_or(written, Err)
    }

    fn fail(&self, error: rusqlite::Error) {
        lock(&self.failed).get_or_insert(error); // the first one says it
        self.setting.live.stop.ask();
    }

    // ------------------------------------------------------------ folders

    /// Its number in the database.
    fn id(&self, folder: &Folder) -> i64 {
        self.id_of(folder.whole)
    }

    fn id_of(&self, number: u32) -> i64 {
        let ids = self.ids.read().unwrap_or_else(PoisonError::into_inner);
        ids.get(number as usize).copied().unwrap_or(0)
    }

    fn set_ids(&self, pairs: &[(u32, i64)]) {
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        for (number, id) in pairs {
            if ids.len() <= *number as usize {
                ids.resize(*number as usize + 1, 0);
            }
            ids[*number as usize] = *id;
        }
    }

    fn new_id(&self) -> i64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// What is known of a folder; it is asked for once, and recorded as being there.
    fn open(&self, folder: &Folder) -> Open {
        if let Some(open) = lock(&self.open).remove(&folder.whole) {
            return open;
        }
        self.setting.readers.hold();
        let root = self.setting.roots[folder.root as usize];
        if folder.parent().is_none() {
            self.set_ids(&[(folder.whole, root.folder.unwrap_or_else(|| self.new_id()))]);
        }
        let id = self.id(folder);
        let mut open = Open { id, is_new: id >= self.setting.first_new, ..Open::default() };
        let mut was_removed = false;
        if !open.is_new {
            match self.setting.readers.folder(id) {
                Ok(Recorded { row, files, folders }) => {
                    open.row = row.map(|(row, _)| row);
                    was_removed = row.is_some_and(|(_, removed)| removed);
                    (open.files, open.folders) = (files, folders);
                }
                Err(error) => self.fail(error),
            }
        }
        if open.is_new || was_removed {
            let (parent, name) = match folder.parent() {
                Some(parent) => (Some(self.id_of(parent)), folder.name()),
                None => (None, &b""[..]),
            };
            self.setting.writer.add([Record::Folder {
                id,
                root: root.id,
                parent,
                name: name.into(),
            }]);
        }
        open
    }

    fn keep_open(&self, folder: &Folder, open: Open) {
        lock(&self.open).insert(folder.whole, open);
    }

    /// Of a root, and of a folder on which something is or was mounted: what it is. Noted at once, since before the
    /// end something else may be there. Err: it is not what was recorded, but only the place where that was.
    fn know_again(&self, folder: &Folder, open: &Open, stat: &Stat) -> Result<(), Kind> {
        let is_root = folder.parent().is_none();
        let was = match is_root {
            true => self.setting.roots[folder.root as usize].identity.map(Some),
            false => self.setting.mounts.here.get(&open.id).copied(),
        };
        // A link that leads elsewhere is none: when it is gone, so is what was found behind it.
        let is_mount = !is_root && stat.st_dev != folder.found_on && !is_link(&folder.path());
        if !(is_root || is_mount) {
            match was {
                Some(_) if stat.st_dev == folder.found_on => return Err(Kind::Away),
                Some(_) => self.setting.writer.add([Record::Mount(open.id, None)]),
                None => {}
            }
            return Ok(());
        }
        // By what it would be known again must be known, or another disk in its place would be taken for it.
        let now = Identity::of(&folder.path()).map_err(|error| {
            let code = error.raw_os_error().unwrap_or(0);
            if is_root { Kind::Root(code) } else { Kind::Folder(code) }
        })?;
        let ground = Ground::of(was.flatten(), now);
        if ground.is_only_the_place(&folder.path(), &mut open.names()) {
            return Err(if is_root { Kind::Another } else { Kind::Away });
        }
        if was != Some(Some(now)) {
            let record = match is_root {
                true => Record::Root(self.setting.roots[folder.root as usize].id, now),
                false => Record::Mount(open.id, Some(now)),
            };
            self.setting.writer.add([record]);
        }
        Ok(())
    }

    /// What is recorded of it was on another device: of its files that is said before anything new is.
    fn moves_to(&self, device: u64, open: &mut Open) {
        let Some(row) = &mut open.row else { return };
        let Some(was) = row.device.filter(|was| *was != device) else { return };
        self.setting.writer.add([Record::OtherDevice(open.id, was, device)]);
        row.device = Some(device);
        open.files.values_mut().for_each(|file| {
            file.row.device.get_or_insert(was);
        });
    }

    /// Whether what is recorded for an inode is of the same file if all else is as it was.
    fn is_trusted(&self, folder: &Folder, device: u64) -> bool {
        if self.setting.restart {
            return false;
        }
        if self.setting.trust_inodes {
            return true;
        }
        let known = lock(&self.trusted).get(&device).copied();
        known.unwrap_or_else(|| {
            let is = mounts::keeps_inodes(&folder.path());
            lock(&self.trusted).insert(device, is);
            is
        })
    }

    /// Folders that are recorded and were not found: where something was mounted that is away, or below; and the others,
    /// which are gone.
    fn left_behind(&self, known: &ByName<RecordedFolder>) -> (Vec<(Box<[u8]>, i64)>, Vec<i64>) {
        let left = known.iter().filter(|(_, known)| !known.removed);
        let left = left.map(|(name, known)| (Box::from(name), known.id));
        let is_away = |(_, id): &(_, i64)| self.setting.mounts.below.contains(id);
        let (away, gone): (Vec<_>, Vec<_>) = left.partition(is_away);
        (away, gone.into_iter().map(|(_, id)| id).collect())
    }

    // ------------------------------------------------------------ files

    fn is_racy(&self, seen: &Seen) -> bool {
        is_racy(seen.ctime, self.now)
    }

    fn state(&self, folder: &Folder, open: &mut Open, entry: u32) -> State {
        let seen: &Seen = folder.seen(entry);
        let device = self.setting.live.folders.device_of(seen.device);
        let of_folder = open.now.and_then(|now| now.device);
        let own_device = (of_folder != Some(device)).then_some(device);
        let racy = self.is_racy(seen);
        let row = FileRow::unread(seen, own_device, racy);
        let Some(found) = open.files.take(folder.file_name(entry)) else {
            let is_ignored = !self.setting.mode.adds_files();
            match is_ignored {
                true => open.ignored += 1,
                false => count(&self.counts.new),
            }
            return State { row, is_sure: true, racy, is_stored: false, is_ignored };
        };
        let known = found.row;
        let was_on = known.device.or(open.row.and_then(|row| row.device));
        let looks_the_same = (known.inode, known.size, known.mtime, known.ctime)
            == (row.inode, row.size, row.mtime, row.ctime);
        let is_same = looks_the_same && was_on == Some(device);
        let is_sure = is_same && !known.racy && self.is_trusted(folder, device);
        let row = if looks_the_same { row.with_content_of(&known, is_same) } else { row };
        count(match (found.removed, is_same) {
            (true, _) => &self.counts.restored,
            (false, true) => &self.counts.same,
            (false, false) => &self.counts.changed,
        });
        let is_stored = !found.removed && known == row;
        State { row, is_sure, racy, is_stored, is_ignored: false }
    }

    fn problem(&self, path: Vec<u8>, kind: Kind) {
        self.setting.live.problems.add(&self.setting.live.tally, path, kind);
    }

    /// With the desk: what was decided there later must not be written before, since more that is learned of a
    /// file is told of the row that it has.
    fn write(&self, done: Vec<Vec<Record>>, _decided: MutexGuard<'_, Desk>) {
        done.into_iter().for_each(|records| self.setting.writer.add(records));
    }
}

impl Memory for Remember {
    fn reads(&self) -> bool {
        self.setting.mode.reads()
    }

    fn wants_all(&self) -> bool {
        self.setting.all_hashes
    }

    fn recall(&self, folder: &Arc<Folder>) -> Vec<Known> {
        let mut open = self.open(folder);
        let files: Vec<State> =
            (0..folder.len()).map(|entry| self.state(folder, &mut open, entry)).collect();
        let known = |state: &State| state.known(state.row.size);
        let known = files.iter().map(known).collect();
        let waiting = Waiting { folder: Arc::clone(folder), id: open.id, files, left: 1 };
        self.keep_open(folder, open);
        lock(&self.desk).waiting.insert(folder.number, waiting);
        known
    }

    fn is_elsewhere(&self, size: u64) -> bool {
        self.setting.elsewhere.contains(&size)
    }

    fn another_name(&self, first: FileId, name: FileId) {
        lock(&self.desk).another_name(first, name);
    }

    fn expect(&self, files: &mut dyn Iterator<Item = FileId>) {
        let mut desk = lock(&self.desk);
        for file in files {
            if let Some(waiting) = desk.waiting.get_mut(&file.folder) {
                waiting.left += 1;
            }
        }
    }

    fn handed_over(&self, folder: &Folder) {
        let mut desk = lock(&self.desk);
        let done = desk.done_with(folder.number);
        self.write(done.into_iter().collect(), desk);
    }

    fn learned(&self, what: Vec<(FileId, Learned)>) {
        let (mut done, mut late) = (Vec::new(), Vec::new());
        let mut desk = lock(&self.desk);
        for (file, what) in what {
            let waits = desk.waiting.contains_key(&file.folder);
            desk.learn(file, what, self, &mut late);
            if waits {
                done.extend(desk.done_with(file.folder));
            }
        }
        done.push(late);
        self.write(done, desk);
    }

    fn learned_more(&self, file: FileId, what: Learned) {
        let (mut late, mut desk) = (Vec::new(), lock(&self.desk));
        desk.learn(file, what, self, &mut late);
        self.write(vec![late], desk);
    }
}

impl Sink for Remember {
    fn files(&self, _: &[Arc<Folder>]) {
        // They come by way of the run.
    }

    fn enters(&self, folder: &Folder) -> bool {
        let is_known = || self.id(folder) < self.setting.first_new;
        folder.parent().is_none() || self.setting.mode.adds_folders() || is_known()
    }

    fn opened(&self, folder: &Arc<Folder>, stat: &Stat) -> Option<Kind> {
        let mut open = self.open(folder);
        let away = self.know_again(folder, &open, stat).err();
        if away.is_none() {
            self.moves_to(stat.st_dev, &mut open);
            open.now = Some(FolderRow { device: Some(stat.st_dev), left_out: 0, error: None });
        }
        self.keep_open(folder, open);
        away
    }

    fn listed(&self, folder: &Arc<Folder>, inside: Inside<'_>) {
        let mut open = self.open(folder);
        let mut known = std::mem::take(&mut open.folders);
        let mut left_out = inside.left_out;
        let ids: Vec<(u32, i64)> = inside
            .folders
            .iter()
            .map(|child| {
                let recorded = known.take(child.name());
                left_out += u32::from(recorded.is_none() && !self.setting.mode.adds_folders());
                (child.whole, recorded.map_or_else(|| self.new_id(), |recorded| recorded.id))
            })
            .collect();
        self.set_ids(&ids);
        // What is there, and can't be looked at, is as it was; it is recorded, if it was.
        for name in inside.unseen {
            let file = open.files.take(name).is_some_and(|file| !file.removed);
            let folder = known.take(name).is_some_and(|folder| !folder.removed);
            left_out -= u32::from(file || folder);
        }
        (open.away, open.gone) = self.left_behind(&known);
        open.now = open.now.map(|now| FolderRow { left_out, ..now });
        self.keep_open(folder, open);
    }

    fn left(&self, folder: &Arc<Folder>, end: End) {
        if lock(&self.failed).is_some() {
            return; // what could not be asked for is not gone
        }
        let mut open = self.open(folder);
        lock(&self.open).remove(&folder.whole);
        let row = open.row.unwrap_or(FolderRow { device: None, left_out: 0, error: None });
        let now = match end {
            End::Stopped => return,
            End::Complete => open.now.unwrap_or(row),
            End::Skipped => FolderRow { left_out: 1, error: None, ..row },
            End::Failed(error) | End::Unseen(error) => {
                FolderRow { error: Some(error), ..open.now.unwrap_or(row) }
            }
        };
        let now = FolderRow { left_out: now.left_out + open.ignored, ..now };
        let mut records = Vec::new();
        if Some(now) != open.row {
            records.push(Record::Listed(open.id, now));
        }
        // Only who has seen all can say that something is gone; and what is seen by another way, or left out by now, is
        // nothing that a new scan would find by this one.
        let is_seen_elsewhere = end == End::Skipped && folder.parent().is_some();
        if is_seen_elsewhere {
            // What was mounted there may be away, and nobody has looked.
            (_, open.gone) = self.left_behind(&std::mem::take(&mut open.folders));
        }
        if is_seen_elsewhere || matches!(end, End::Complete | End::Unseen(_)) {
            let gone = open.files.iter().filter(|(_, file)| !file.removed);
            records.extend(gone.map(|(name, _)| Record::FileGone(open.id, name.into())));
            records.extend(open.gone.iter().map(|id| Record::FolderGone(*id)));
            for (name, id) in &open.away {
                let mut path = folder.path();
                join(&mut path, name);
                self.problem(path, Kind::Away);
                records.push(Record::Away(*id));
            }
        }
        self.setting.writer.add(records);
    }
}

impl Open {
    /// What was in it when it was last looked into.
    fn names(&self) -> impl Iterator<Item = Vec<u8>> {
        let files = self.files.iter().filter(|(_, file)| !file.removed).map(|(name, _)| name);
        let folders = self.folders.iter().filter(|(_, it)| !it.removed).map(|(name, _)| name);
        files.chain(folders).map(|name| name.to_vec())
    }
}

fn is_link(path: &[u8]) -> bool {
    std::fs::symlink_metadata(OsStr::from_bytes(path)).is_ok_and(|found| found.is_symlink())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

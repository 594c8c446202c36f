//! The memory of a scan: compares what the walk finds with what the database has, and passes on what is
//! new of it, a folder at a time.
//!
//! A folder is *open* while it is looked into: what the database has of it is here, less what was
//! found. What was found *waits* until those of its files have been read that must be; then it is
//! written, and only what is learned after that is written by itself.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::folders::{FileId, Folder, Folders, Seen};
use crate::locking::lock;
use crate::memory::{Known, Learned, Memory};
use crate::mounts;
use crate::read::Unread;
use crate::stop::Stop;
use crate::store::recall::{ByName, Readers, Recorded, RecordedFile, RecordedFolder};
use crate::store::rows::{CHANGED, FileRow, FolderRow};
use crate::store::write::{Content, Record, Writer};
use crate::walk::{End, Inside, Sink};

/// A file that changed so shortly before it was looked at may change again without its times showing
/// it: no file system has a coarser clock.
const GRAIN: i64 = 2_000_000_000;

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

    fn reads(self) -> bool {
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
    /// For each root of the run: its number in the database, and that of its folder, if it has one.
    pub roots: Vec<(i64, Option<i64>)>,
    /// Numbers from here on are free.
    pub first_new: i64,
    /// Sizes of files that the run does not see.
    pub elsewhere: HashSet<u64>,
    /// Also where inodes may be given to other files.
    pub trust_inodes: bool,
    /// Nothing that is known of contents is used.
    pub restart: bool,
    /// Before the walk begins.
    pub now: SystemTime,
    /// Who asks the database.
    pub readers: Readers,
    /// Who writes to it.
    pub writer: Writer,
    /// Where the run keeps what it has seen.
    pub folders: Arc<Folders>,
    /// Told when the database fails.
    pub stop: Stop,
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
}

/// What waits for its reads.
#[derive(Debug, Default)]
struct Desk {
    /// By the number of the folder or part.
    waiting: HashMap<u32, Waiting>,
    /// Further names of files of which nothing was learned yet.
    names: HashMap<FileId, Vec<FileId>>,
    /// What was written of files with several names.
    with_names: HashMap<FileId, Content>,
}

#[derive(Debug)]
struct Waiting {
    folder: Arc<Folder>,
    id: i64,
    files: Vec<State>,
    /// Reads that are expected, and one while more may be.
    left: usize,
}

/// A file, as it should be recorded.
#[derive(Clone, Copy, Debug)]
struct State {
    row: FileRow,
    is_stored: bool,
    is_ignored: bool,
}

impl Remember {
    /// Before the walk begins.
    pub fn new(setting: Setting) -> Remember {
        let since = setting.now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Remember {
            now: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
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
        let written = self.setting.writer.finish();
        lock(&self.failed).take().map_or(written, Err)
    }

    fn fail(&self, error: rusqlite::Error) {
        lock(&self.failed).get_or_insert(error); // the first one says it
        self.setting.stop.ask();
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
        let (root, root_folder) = self.setting.roots[folder.root as usize];
        if folder.parent().is_none() {
            self.set_ids(&[(folder.whole, root_folder.unwrap_or_else(|| self.new_id()))]);
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
            self.setting.writer.add([Record::Folder { id, root, parent, name: name.into() }]);
        }
        open
    }

    fn keep_open(&self, folder: &Folder, open: Open) {
        lock(&self.open).insert(folder.whole, open);
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

    // ------------------------------------------------------------ files

    fn state(&self, folder: &Folder, open: &mut Open, entry: u32) -> State {
        let seen: &Seen = folder.seen(entry);
        let device = self.setting.folders.device_of(seen.device);
        let of_folder = open.now.and_then(|now| now.device);
        let own_device = (of_folder != Some(device)).then_some(device);
        let racy = seen.ctime.saturating_add(GRAIN) > self.now;
        let row = FileRow::unread(seen, own_device, racy);
        let Some(found) = open.files.remove(folder.file_name(entry)) else {
            let is_ignored = !self.setting.mode.adds_files();
            match is_ignored {
                true => open.ignored += 1,
                false => count(&self.counts.new),
            }
            return State { row, is_stored: false, is_ignored };
        };
        let known = found.row;
        let was_on = known.device.or(open.row.and_then(|row| row.device));
        let is_same = (known.inode, known.size, known.mtime, known.ctime, was_on)
            == (row.inode, row.size, row.mtime, row.ctime, Some(device));
        let is_known = is_same && !known.racy && self.is_trusted(folder, device);
        let row = match is_known {
            true => FileRow {
                racy: false,
                sample: known.sample,
                digest: known.digest,
                error: known.error,
                ..row
            },
            false => row,
        };
        count(match (found.removed, is_same) {
            (true, _) => &self.counts.restored,
            (false, true) => &self.counts.same,
            (false, false) => &self.counts.changed,
        });
        State { row, is_stored: !found.removed && known == row, is_ignored: false }
    }

    fn write(&self, done: Vec<Vec<Record>>) {
        done.into_iter().for_each(|records| self.setting.writer.add(records));
    }
}

impl Desk {
    /// What is learned of a file that waits, or a record of it if it was written before.
    fn learn(&mut self, file: FileId, what: Learned, memory: &Remember, late: &mut Vec<Record>) {
        let mut files = vec![file];
        files.extend(self.names.get(&file).into_iter().flatten());
        if matches!(what, Learned::Digest(_)) {
            self.names.remove(&file);
        }
        for file in files {
            if let Some(waiting) = self.waiting.get_mut(&file.folder) {
                waiting.files[file.entry as usize].learn(what);
                continue;
            }
            let folder = memory.setting.folders.folder(file.folder);
            let mut content = self.with_names.get(&file).copied().unwrap_or_default();
            content.learn(what);
            if self.with_names.contains_key(&file) {
                self.with_names.insert(file, content);
            }
            let name = folder.file_name(file.entry).into();
            late.push(Record::Read(memory.id(&folder), name, content));
        }
    }

    /// One read less is expected of a folder; what is to be written if it was the last.
    fn done_with(&mut self, number: u32) -> Option<Vec<Record>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.left -= 1;
        if waiting.left > 0 {
            return None;
        }
        let waiting = self.waiting.remove(&number)?;
        Some(self.records(waiting))
    }

    fn records(&mut self, waiting: Waiting) -> Vec<Record> {
        let Waiting { folder, id, files, .. } = waiting;
        let mut records = Vec::new();
        for (entry, state) in files.iter().enumerate() {
            let entry = entry as u32;
            if folder.seen(entry).links() > 1 {
                let file = FileId { folder: folder.number, entry };
                self.with_names.insert(file, state.content());
            }
            if !state.is_stored && !state.is_ignored {
                records.push(Record::File(id, folder.file_name(entry).into(), state.row));
            }
        }
        records
    }

    /// As far as anything is known of a file with several names.
    fn content(&self, file: FileId) -> Content {
        match self.waiting.get(&file.folder) {
            Some(waiting) => waiting.files[file.entry as usize].content(),
            None => self.with_names.get(&file).copied().unwrap_or_default(),
        }
    }
}

impl State {
    fn content(&self) -> Content {
        Content { sample: self.row.sample, digest: self.row.digest, error: self.row.error }
    }

    fn learn(&mut self, what: Learned) {
        let mut content = self.content();
        content.learn(what);
        let Content { sample, digest, error } = content;
        self.row = FileRow { sample, digest, error, ..self.row };
        self.is_stored = false;
    }
}

impl Content {
    fn learn(&mut self, what: Learned) {
        match what {
            Learned::Digest(digest) => (self.digest, self.error) = (Some(digest), None),
            Learned::Sample(sample) => (self.sample, self.error) = (Some(sample), None),
            Learned::Nothing(Unread::Changed) => (self.digest, self.error) = (None, Some(CHANGED)),
            Learned::Nothing(Unread::Failed(error)) => {
                (self.digest, self.error) = (None, Some(error.raw_os_error()));
            }
        }
    }
}

impl Memory for Remember {
    fn reads(&self) -> bool {
        self.setting.mode.reads()
    }

    fn recall(&self, folder: &Arc<Folder>) -> Vec<Known> {
        let mut open = self.open(folder);
        let files: Vec<State> =
            (0..folder.len()).map(|entry| self.state(folder, &mut open, entry)).collect();
        let known = |state: &State| Known { sample: state.row.sample, digest: state.row.digest };
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
        let mut desk = lock(&self.desk);
        let content = desk.content(first);
        let Some(waiting) = desk.waiting.get_mut(&name.folder) else { return };
        let state = &mut waiting.files[name.entry as usize];
        if state.row.digest.is_some() {
            return;
        }
        match content.digest {
            Some(digest) => {
                state.row.sample = content.sample;
                state.learn(Learned::Digest(digest));
            }
            None => desk.names.entry(first).or_default().push(name),
        }
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
        let done = lock(&self.desk).done_with(folder.number);
        self.write(done.into_iter().collect());
    }

    fn learned(&self, what: Vec<(FileId, Learned)>) {
        let (mut done, mut late) = (Vec::new(), Vec::new());
        {
            let mut desk = lock(&self.desk);
            for (file, what) in what {
                let waits = desk.waiting.contains_key(&file.folder);
                desk.learn(file, what, self, &mut late);
                if waits {
                    done.extend(desk.done_with(file.folder));
                }
            }
        }
        done.push(late);
        self.write(done);
    }

    fn learned_more(&self, file: FileId, what: Learned) {
        let mut late = Vec::new();
        lock(&self.desk).learn(file, what, self, &mut late);
        self.write(vec![late]);
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

    fn opened(&self, folder: &Arc<Folder>, stat: &Stat) {
        let mut open = self.open(folder);
        open.now = Some(FolderRow { device: Some(stat.st_dev), left_out: 0, error: None });
        self.keep_open(folder, open);
    }

    fn listed(&self, folder: &Arc<Folder>, inside: Inside<'_>) {
        let mut open = self.open(folder);
        let mut known = std::mem::take(&mut open.folders);
        let mut left_out = inside.left_out;
        let ids: Vec<(u32, i64)> = inside
            .folders
            .iter()
            .map(|child| {
                let recorded = known.remove(child.name());
                left_out += u32::from(recorded.is_none() && !self.setting.mode.adds_folders());
                (child.whole, recorded.map_or_else(|| self.new_id(), |recorded| recorded.id))
            })
            .collect();
        self.set_ids(&ids);
        open.gone =
            known.into_values().filter(|known| !known.removed).map(|known| known.id).collect();
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
            End::Failed(error) => FolderRow { error: Some(error), ..open.now.unwrap_or(row) },
        };
        let now = FolderRow { left_out: now.left_out + open.ignored, ..now };
        let mut records = Vec::new();
        if Some(now) != open.row {
            records.push(Record::Listed(open.id, now));
        }
        // Only who has seen all can say that something is gone.
        if end == End::Complete {
            let files = std::mem::take(&mut open.files).into_iter();
            let gone = files.filter(|(_, file)| !file.removed);
            records.extend(gone.map(|(name, _)| Record::FileGone(open.id, name)));
            records.extend(open.gone.iter().map(|id| Record::FolderGone(*id)));
        }
        self.setting.writer.add(records);
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

//! The last stage of a scan: files in several roots that were scanned at several times. Who has got another one of
//! its size in another root, and has no hash, is read now, wherever it lies.
//!
//! Nobody walks: where the files are, and what they looked like, is what was recorded of them. One that
//! is not like that any more has changed since its root was scanned, and is left to the next scan of that.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use crate::cli;
use crate::find::{Live, Pools, Run};
use crate::folders::{FileId, Folder, Found, Seen};
use crate::memory::{Known, Learned, Memory};
use crate::options::Options;
use crate::read::Unread;
use crate::remember::{desk, is_racy};
use crate::scan::with_database;
use crate::split::Splitter;
use crate::store::Store;
use crate::store::across::Across;
use crate::store::write::{Record, Writer};
use crate::walk::Sink;

/// What is needed for it.
#[derive(Debug)]
pub struct Setting<'a> {
    /// What is known.
    pub store: &'a Store,
    /// Roots that were scanned just now: what can't be read there was said.
    pub scanned: &'a HashSet<i64>,
    /// Threads, and the hash.
    pub options: Options,
    /// As that of the scan; folders of its own.
    pub live: Live,
    /// Since 1970, in ns.
    pub now: i64,
    /// Who writes.
    pub writer: Writer,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Files of other roots that were read.
    pub read: u64,
    /// And those that have changed since their root was scanned.
    pub changed: u64,
    /// Files of roots that are offline, which may be copies.
    pub unread_offline: u64,
}

/// It was begun.
#[derive(Debug)]
pub struct Meeting {
    run: Arc<Run>,
    files: Arc<Files>,
    folders: Vec<Arc<Folder>>,
    samples: Vec<(u64, u64)>,
}

/// The files that are read, and who hears of them.
#[derive(Debug)]
struct Files {
    /// By the number of the folder in the run.
    given: HashMap<u32, Given>,
    /// Further names of a file: their folders.
    names: HashMap<FileId, Vec<(i64, Box<[u8]>)>>,
    live: Live,
    now: i64,
    writer: Writer,
    read: AtomicU64,
    changed: AtomicU64,
}

#[derive(Debug)]
struct Given {
    id: i64,
    is_scanned: bool,
    samples: Vec<Option<u64>>,
}

impl Meeting {
    /// Nothing is read yet. None: there is nothing to be.
    pub fn begin(setting: Setting<'_>, across: Across) -> Result<Option<Meeting>, Box<dyn Error>> {
        let Across { wanted, samples, .. } = across;
        let mut places = Places::new(setting.store, &setting.live)?;
        let (mut given, mut names, mut folders) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut firsts: HashMap<(u64, u64, i64, i64), FileId> = HashMap::new();
        for of_folder in wanted.chunk_by(|one, other| one.0 == other.0) {
            let id = of_folder[0].0;
            // What hangs in the air is for `verify`.
            let Some((folder, root, device)) = places.folder(id)? else { continue };
            let is_scanned = setting.scanned.contains(&root);
            let (mut found, mut samples) = (Found::default(), Vec::new());
            for (_, name) in of_folder {
                let Some(row) = setting.store.file(id, name)? else { continue };
                if is_scanned && row.error.is_some() {
                    continue;
                }
                let Some(device) = row.device.or(device) else { continue };
                let file = FileId { folder: folder.number, entry: found.len() as u32 };
                if row.links > 1 {
                    let identity = (device, row.inode, row.mtime, row.ctime);
                    let first = *firsts.entry(identity).or_insert(file);
                    if first != file {
                        names.entry(first).or_insert_with(Vec::new).push((id, name.clone()));
                        continue;
                    }
                }
                let device = found.device(device, |device| setting.live.folders.device(device));
                found.add_seen(name, Seen::recorded(&row, device));
                samples.push(row.sample.filter(|_| !row.racy));
            }
            if !found.is_empty() {
                folder.fill(found);
                given.insert(folder.number, Given { id, is_scanned, samples });
                folders.push(folder);
            }
        }
        if folders.is_empty() {
            return Ok(None);
        }
        let files = Arc::new(Files {
            given,
            names,
            live: setting.live.clone(),
            now: setting.now,
            writer: setting.writer,
            read: AtomicU64::new(0),
            changed: AtomicU64::new(0),
        });
        let splitter = Splitter::seeded(setting.store.seed()?);
        let memory = Arc::clone(&files) as Arc<dyn Memory>;
        let run = Run::new(setting.options, splitter, setting.live, Some(memory))?;
        Ok(Some(Meeting { run, files, folders, samples }))
    }

    /// For those who watch.
    pub fn pools(&self) -> Pools {
        with_database(self.run.pools(), &self.files.writer)
    }

    /// Reads them; false if it was to stop.
    pub fn finish(self) -> (bool, rusqlite::Result<Met>) {
        let is_through = self.run.read_given(self.folders, self.samples);
        let written = self.files.writer.finish();
        let met = Met {
            read: self.files.read.load(Relaxed),
            changed: self.files.changed.load(Relaxed),
            unread_offline: 0,
        };
        (is_through, written.map(|()| met))
    }
}

impl Files {
    fn given(&self, file: FileId) -> &Given {
        &self.given[&file.folder]
    }

    /// Since its root was scanned: until that is scanned again, its row is of what it was.
    fn has_changed(&self, file: FileId, why: Unread) -> bool {
        let is_gone = matches!(why, Unread::Failed(Errno::NOENT | Errno::NOTDIR | Errno::STALE));
        (is_gone || why == Unread::Changed) && !self.given(file).is_scanned
    }
}

impl Sink for Files {
    fn files(&self, _: &[Arc<Folder>]) {
        // Nobody walks.
    }
}

impl Memory for Files {
    fn reads(&self) -> bool {
        true
    }

    fn recall(&self, folder: &Arc<Folder>) -> Vec<Known> {
        let samples = &self.given[&folder.number].samples;
        samples.iter().map(|sample| Known { sample: *sample, digest: None }).collect()
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        true // that is why they are here
    }

    fn another_name(&self, _: FileId, _: FileId) {
        debug_assert!(false, "further names are not given");
    }

    fn expect(&self, _: &mut dyn Iterator<Item = FileId>) {}

    fn handed_over(&self, _: &Folder) {}

    fn minds(&self, file: FileId, why: Unread) -> bool {
        let has_changed = self.has_changed(file, why);
        self.changed.fetch_add(u64::from(has_changed), Relaxed);
        !has_changed
    }

    fn learned(&self, what: Vec<(FileId, Learned)>) {
        what.into_iter().for_each(|(file, what)| self.learned_more(file, what));
    }

    fn learned_more(&self, file: FileId, what: Learned) {
        let Given { id, is_scanned, .. } = *self.given(file);
        if let Learned::Nothing(why) = what
            && self.has_changed(file, why)
        {
            return;
        }
        if matches!(what, Learned::Digest(_)) && !is_scanned {
            self.read.fetch_add(1, Relaxed);
        }
        let folder = self.live.folders.folder(file.folder);
        let racy = is_racy(folder.seen(file.entry).ctime, self.now);
        let own = (id, folder.file_name(file.entry).into());
        let others = self.names.get(&file).into_iter().flatten().cloned();
        let record = |(id, name)| Record::Read(id, name, desk::content(what), racy);
        self.writer.add(std::iter::once(own).chain(others).map(record));
    }
}

/// Where files are: paths of folders, as they are recorded.
struct Places<'a> {
    store: &'a Store,
    live: &'a Live,
    /// Number in the run, path, and whether links are followed.
    roots: HashMap<i64, (u32, Box<[u8]>, bool)>,
    folders: HashMap<i64, (Arc<Folder>, i64, Option<u64>)>,
}

impl<'a> Places<'a> {
    fn new(store: &'a Store, live: &'a Live) -> Result<Places<'a>, Box<dyn Error>> {
        let mut roots = HashMap::new();
        for (number, root) in store.roots()?.into_iter().enumerate() {
            // Filters that can't be read any more are said by the scan of that root.
            let follow = cli::recorded_filter(&root.words).is_ok_and(|filter| filter.follow);
            let path = root.path.as_os_str().as_bytes().into();
            roots.insert(root.id, (number as u32, path, follow));
        }
        Ok(Places { store, live, roots, folders: HashMap::new() })
    }

    /// With its root and device. No recursion: trees may be very deep.
    fn folder(
        &mut self,
        id: i64,
    ) -> Result<Option<(Arc<Folder>, i64, Option<u64>)>, crate::store::Error> {
        let (mut below, mut at) = (Vec::new(), Some(id));
        while let Some(id) = at.filter(|id| !self.folders.contains_key(id)) {
            let Some(row) = self.store.folder(id)? else { return Ok(None) };
            at = row.parent;
            below.push((id, row));
        }
        for (id, row) in below.into_iter().rev() {
            let folder = match row.parent {
                Some(parent) => {
                    let above = &self.folders[&parent].0;
                    self.live.folders.add_below(above, &row.name, 0)
                }
                None => {
                    let Some((number, path, follow)) = self.roots.get(&row.root) else {
                        return Ok(None);
                    };
                    match follow {
                        true => self.live.folders.add_root_with_links(*number, path),
                        false => self.live.folders.add_root(*number, path, false),
                    }
                }
            };
            self.folders.insert(id, (folder, row.root, row.device));
        }
        Ok(self.folders.get(&id).cloned())
    }
}

//! A scan: a run over registered roots whose memory is the database.

use std::error::Error;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::digest::Algorithm;
use crate::escape::escaped;
use crate::find::{Live, Pools, Run};
use crate::options::{Filter, Options, Root as Place};
use crate::remember::{Mode, Remember, Setting};
use crate::size::Size;
use crate::split::Splitter;
use crate::store::recall::Readers;
use crate::store::roots::{Presence, Root};
use crate::store::scans::State;
use crate::store::write::{CanNotWrite, Writer};
use crate::store::{Store, WriteLock, now};
use crate::tally::Tally;

/// All that a scan can be told.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it is to do.
    pub mode: Mode,
    /// Of all hashes; None: as before.
    pub hash: Option<Algorithm>,
    /// Use nothing that is known of contents.
    pub restart: bool,
    /// Also where inodes may be given to other files.
    pub trust_inodes: bool,
    /// Files that changed shortly before may change again without showing it.
    pub now: SystemTime,
    /// As those of `find`.
    pub options: Options,
}

/// One that has begun.
#[derive(Debug)]
pub struct Scan<'a> {
    store: &'a Store,
    _lock: &'a WriteLock,
    id: i64,
    mode: Mode,
    roots: Vec<Root>,
    /// One that was killed, and that this one goes on with.
    pub resumes: Option<i64>,
    run: Arc<Run>,
    memory: Arc<Remember>,
    live: Live,
    since: Instant,
}

/// What a scan has found.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How it ended.
    pub state: State,
    mode: Mode,
    roots: usize,
    took: Duration,
    folders: u64,
    files: u64,
    bytes: u64,
    new: u64,
    changed: u64,
    same: u64,
    restored: u64,
    files_gone: u64,
    folders_gone: u64,
    reads: u64,
    bytes_read: u64,
    unread: u64,
    unstable: u64,
}

/// The root with that path.
pub fn known_root(store: &Store, path: &Path) -> Result<Root, Box<dyn Error>> {
    // One that is offline has no other path than the one that is recorded.
    let whole = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
    store.root(&whole)?.ok_or_else(|| {
        let shown = escaped(whole.as_os_str().as_bytes()).to_string();
        format!("{shown} is not registered: `dupes roots list` says what is").into()
    })
}

/// The root with that path, if it is to be scanned: registered before, or now with these words.
pub fn root(store: &Store, path: &Path, words: &[String]) -> Result<Root, Box<dyn Error>> {
    let shown = || escaped(path.as_os_str().as_bytes()).to_string();
    let whole = std::fs::canonicalize(path);
    let known = match &whole {
        Ok(whole) => store.root(whole)?,
        // One that is offline can still be named.
        Err(_) => {
            std::path::absolute(path).ok().map(|path| store.root(&path)).transpose()?.flatten()
        }
    };
    if let Some(known) = known {
        if !words.is_empty() && words != known.words {
            return Err(format!(
                "{} is registered with other filters ({}): what counts is the same in every scan of a \
                 root; `dupes roots remove` and scan it anew to change that",
                shown(),
                if known.words.is_empty() { "none".into() } else { known.words.join(" ") }
            )
            .into());
        }
        return Ok(known);
    }
    let whole = whole.map_err(|error| format!("{}: can't look there: {error}", shown()))?;
    if !whole.is_dir() {
        return Err(format!("{}: a root must be a folder", shown()).into());
    }
    apart(store, &whole)?;
    Ok(store.add_root(&whole, words)?)
}

/// A file belongs to one root.
fn apart(store: &Store, path: &Path) -> Result<(), Box<dyn Error>> {
    for other in store.roots()? {
        let [this, shown] = [path, &other.path].map(|path| escaped(path.as_os_str().as_bytes()));
        if path.starts_with(&other.path) {
            return Err(
                format!("{this} lies below the root {shown}, and is scanned with that").into()
            );
        }
        if other.path.starts_with(path) {
            return Err(format!(
                "the root {shown} lies below {this}: `dupes roots remove` that first, or scan what is beside it"
            )
            .into());
        }
    }
    Ok(())
}

impl<'a> Scan<'a> {
    /// Nothing is read yet. All roots must be online and have the same filters, which `filter` is.
    pub fn begin(
        store: &'a Store,
        lock: &'a WriteLock,
        request: Request,
        roots: Vec<Root>,
        filter: Filter,
        live: Live,
    ) -> Result<Scan<'a>, Box<dyn Error>> {
        let ids: Vec<i64> = roots.iter().map(|root| root.id).collect();
        let algorithm = store.use_algorithm(request.hash)?;
        let seed = store.seed()?;
        let (id, resumes) = store.begin_scan(request.mode.name(), &ids)?;
        let readers = Readers::new(store);
        let elsewhere = store.wrap(readers.sizes_elsewhere(&ids))?;
        let writer = match Writer::start(store.path(), now(), live.stop.clone()) {
            Ok(writer) => writer,
            Err(CanNotWrite::Build(error)) => return Err(error.into()),
            Err(CanNotWrite::Sqlite(error)) => {
                return Err(store.wrap::<()>(Err(error)).unwrap_err().into());
            }
        };
        let own_folders = ids.iter().map(|id| Ok((*id, store.folder_of_root(*id)?)));
        let memory = Arc::new(Remember::new(Setting {
            mode: request.mode,
            roots: own_folders.collect::<Result<_, crate::store::Error>>()?,
            first_new: store.next_folder()?,
            elsewhere,
            trust_inodes: request.trust_inodes,
            restart: request.restart,
            now: request.now,
            readers,
            writer,
            folders: Arc::clone(&live.folders),
            stop: live.stop.clone(),
        }));
        let place = |root: &Root| Place { path: root.path.clone(), reference: false };
        let options = Options {
            roots: roots.iter().map(place).collect(),
            filter: Filter { never: store.own_files(), ..filter },
            hash: Some(algorithm),
            ..request.options
        };
        let splitter = Splitter::seeded(seed);
        let run = Run::new(options, splitter, live.clone(), Some(Arc::clone(&memory) as Arc<_>))?;
        let (mode, since) = (request.mode, Instant::now());
        Ok(Scan { store, _lock: lock, id, mode, roots, resumes, run, memory, live, since })
    }

    /// For those who watch.
    pub fn pools(&self) -> Pools {
        let (pools, database) = (self.run.pools(), self.memory.writer().pool().clone());
        Arc::new(move || {
            let mut pools = pools();
            pools.push(database.clone());
            pools
        })
    }

    /// Reads what has to be read, and records it. An error: the database could not be written.
    pub fn finish(self) -> Result<Summary, Box<dyn Error>> {
        let is_through = self.run.read_all();
        let recorded = self.store.wrap(self.memory.finish());
        let summary = self.summary(match (&recorded, is_through) {
            (Err(_), _) => State::Failed,
            (_, false) if self.live.problems.are_too_many() => State::Failed,
            (_, false) => State::Interrupted,
            (_, true) if self.live.problems.count() > 0 => State::Unread,
            (_, true) => State::Complete,
        });
        if is_through && recorded.is_ok() {
            for root in &self.roots {
                let found = std::fs::metadata(&root.path);
                if let Ok(found) = found {
                    self.store.note_identity(root.id, (found.dev(), found.ino()))?;
                }
            }
            self.store.make_indexes()?;
        }
        let ended = self.store.end_scan(self.id, summary.state, &summary.json());
        recorded?;
        ended?;
        Ok(summary)
    }

    fn summary(&self, state: State) -> Summary {
        let (tally, counts) = (&self.live.tally, self.memory.counts());
        let written = self.memory.writer().written();
        Summary {
            state,
            mode: self.mode,
            roots: self.roots.len(),
            took: self.since.elapsed(),
            folders: Tally::get(&tally.folders),
            files: Tally::get(&tally.files),
            bytes: Tally::get(&tally.bytes),
            new: counts.new.load(Relaxed),
            changed: counts.changed.load(Relaxed),
            same: counts.same.load(Relaxed),
            restored: counts.restored.load(Relaxed),
            files_gone: written.files_gone.load(Relaxed),
            folders_gone: written.folders_gone.load(Relaxed),
            reads: Tally::get(&tally.reads_done),
            bytes_read: Tally::get(&tally.read_bytes_done),
            unread: Tally::get(&tally.unread),
            unstable: Tally::get(&tally.unstable),
        }
    }
}

impl Summary {
    /// For machines, and for the history.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "state": self.state.name(),
            "mode": self.mode.name(),
            "seconds": self.took.as_secs_f64(),
            "folders": self.folders,
            "files": self.files,
            "bytes": self.bytes,
            "new": self.new,
            "changed": self.changed,
            "same": self.same,
            "restored": self.restored,
            "files_gone": self.files_gone,
            "folders_gone": self.folders_gone,
            "reads": self.reads,
            "bytes_read": self.bytes_read,
            "unread": self.unread,
            "unstable": self.unstable,
        })
    }
}

/// For people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = if self.roots == 1 { "1 root" } else { &format!("{} roots", self.roots) };
        writeln!(
            f,
            "{roots}, {} folders, {} files, {} in {:.1} s: {}",
            self.folders,
            self.files,
            Size(self.bytes),
            self.took.as_secs_f64(),
            self.state.name()
        )?;
        writeln!(
            f,
            "files: {} new, {} changed, {} as before, {} back, {} gone; folders: {} gone",
            self.new, self.changed, self.same, self.restored, self.files_gone, self.folders_gone
        )?;
        write!(f, "read: {} times, {}", self.reads, Size(self.bytes_read))
    }
}

/// Those that can be looked at, and those that can't.
pub fn by_presence(roots: Vec<Root>) -> (Vec<Root>, Vec<PathBuf>) {
    let (online, offline): (Vec<Root>, Vec<Root>) =
        roots.into_iter().partition(|root| root.presence() == Presence::Online);
    (online, offline.into_iter().map(|root| root.path).collect())
}

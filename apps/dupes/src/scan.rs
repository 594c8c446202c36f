//! A scan: a run over registered roots whose memory is the database.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::across::{self, Meeting, Met};
use crate::count::Count;
use crate::digest::Algorithm;
use crate::escape::escaped;
use crate::find::{Live, Pools, Run};
use crate::locking::lock;
use crate::mounts;
use crate::options::{Filter, Options, Root as Place};
use crate::own::Own;
use crate::remember::{Mode, Remember, RootFolder, Setting, nanoseconds};
use crate::size::Size;
use crate::split::Splitter;
use crate::stop::Stop;
use crate::store::across::Across;
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
    /// Hash all files, also those that no other is like.
    pub all_hashes: bool,
    /// Also where inodes may be given to other files.
    pub trust_inodes: bool,
    /// Files that changed shortly before may change again without showing it.
    pub now: SystemTime,
    /// As those of `find`.
    pub options: Options,
}

/// One that has begun.
pub struct Scan<'a> {
    store: &'a Store,
    _lock: &'a WriteLock,
    id: i64,
    request: Request,
    roots: Vec<i64>,
    /// One that was killed, and that this one goes on with.
    pub resumes: Option<i64>,
    /// Until it has ended.
    run: Option<Arc<Run>>,
    memory: Arc<Remember>,
    /// Of the stage that it is in.
    pools: Arc<Mutex<Pools>>,
    live: Live,
    met: Met,
    since: Instant,
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("id", &self.id)
            .field("roots", &self.roots)
            .finish_non_exhaustive()
    }
}

/// The place of a scan among those of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Others come after it.
    First,
    /// It is the last one, after those of these roots. What its files have in common with those of other
    /// roots is seen now.
    Last(Vec<i64>),
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
    met: Met,
}

/// The root with that path.
pub fn known_root(store: &Store, path: &Path) -> Result<Root, Box<dyn Error>> {
    known(store, path)?.ok_or_else(|| {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let shown = escaped(whole.as_os_str().as_bytes()).to_string();
        format!("{shown} is not registered: `dupes roots list` says what is").into()
    })
}

/// As it was registered, whatever is there now (one that is offline has no other path, and another one may have become
/// a link); or by what it leads to.
fn known(store: &Store, path: &Path) -> Result<Option<Root>, Box<dyn Error>> {
    if let Some(root) = store.root(&std::path::absolute(path)?)? {
        return Ok(Some(root));
    }
    let whole = std::fs::canonicalize(path).ok();
    Ok(whole.map(|whole| store.root(&whole)).transpose()?.flatten())
}

/// The root with that path, if it is to be scanned: registered before, or now with these words.
pub fn root(store: &Store, path: &Path, words: &[String]) -> Result<Root, Box<dyn Error>> {
    let shown = || escaped(path.as_os_str().as_bytes()).to_string();
    if let Some(known) = known(store, path)? {
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
    let whole = std::fs::canonicalize(path);
    let whole = whole.map_err(|error| format!("{}: can't look there: {error}", shown()))?;
    if !whole.is_dir() {
        return Err(format!("{}: a root must be a folder", shown()).into());
    }
    apart(store, &whole)?;
    Ok(store.add_root(&whole, words)?)
}

/// A file belongs to one root, also where mounts show it by two paths.
fn apart(store: &Store, path: &Path) -> Result<(), Box<dyn Error>> {
    let place = mounts::Place::of(path);
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
        let theirs = mounts::Place::of(&other.path);
        let (is_in, has_in) = match place.as_ref().zip(theirs.as_ref()) {
            Some((place, theirs)) => (place.is_in(theirs), theirs.is_in(place)),
            None => (false, false),
        };
        if is_in || has_in || are_one(path, &other.path) {
            return Err(format!(
                "{this} and the root {shown} show the same folders, as mounts do: scan one of both"
            )
            .into());
        }
    }
    Ok(())
}

/// Whether two paths lead to one folder.
fn are_one(one: &Path, other: &Path) -> bool {
    let numbers = |path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    numbers(one).is_some_and(|numbers_of| numbers(other) == Some(numbers_of))
}

/// Each folder once, by the first of the roots that lead to it; the others, each with that one.
pub fn once_each(roots: Vec<Root>) -> (Vec<Root>, Vec<(PathBuf, PathBuf)>) {
    let (mut once, mut again): (Vec<Root>, _) = (Vec::new(), Vec::new());
    for root in roots {
        match once.iter().find(|first| are_one(&first.path, &root.path)) {
            Some(first) => again.push((root.path, first.path.clone())),
            None => once.push(root),
        }
    }
    (once, again)
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
        let writer = writer(store, &live.stop)?;
        let as_recorded = |root: &Root| {
            let Root { id, identity, .. } = *root;
            Ok(RootFolder { id, folder: store.folder_of_root(id)?, identity })
        };
        let memory = Arc::new(Remember::new(Setting {
            mode: request.mode,
            roots: roots.iter().map(as_recorded).collect::<Result<_, crate::store::Error>>()?,
            mounts: store.mounts()?,
            first_new: store.next_folder()?,
            elsewhere,
            trust_inodes: request.trust_inodes,
            restart: request.restart,
            all_hashes: request.all_hashes,
            now: request.now,
            readers,
            writer,
            live: live.clone(),
        }));
        let place = |root: &Root| Place { path: root.path.clone(), reference: false };
        // Journals are not for deciding what goes.
        let mut never = store.own_files();
        never.extend(Own::new(None, None).ids());
        let options = Options {
            roots: roots.iter().map(place).collect(),
            filter: Filter { never, ..filter },
            hash: Some(algorithm),
            ..request.options.clone()
        };
        let splitter = Splitter::seeded(seed);
        let run = Run::new(options, splitter, live.clone(), Some(Arc::clone(&memory) as Arc<_>))?;
        let pools = with_database(run.pools(), memory.writer());
        Ok(Scan {
            store,
            _lock: lock,
            id,
            request,
            roots: ids,
            resumes,
            run: Some(run),
            memory,
            pools: Arc::new(Mutex::new(pools)),
            live,
            met: Met::default(),
            since: Instant::now(),
        })
    }

    /// For those who watch.
    pub fn pools(&self) -> Pools {
        let current = Arc::clone(&self.pools);
        Arc::new(move || {
            let pools = Arc::clone(&lock(&current));
            pools()
        })
    }

    /// Reads what has to be read, and records it. An error: the database could not be written.
    pub fn finish(self) -> Result<Summary, Box<dyn Error>> {
        self.finish_as(Turn::Last(Vec::new()))
    }

    /// The same for one of several.
    pub fn finish_as(mut self, turn: Turn) -> Result<Summary, Box<dyn Error>> {
        let run = self.run.take().expect("it ends once");
        let mut is_through = run.read_all();
        drop(run);
        let mut recorded = self.store.wrap(self.memory.finish()).map_err(Into::into);
        if is_through && recorded.is_ok() {
            self.live.folders.forget();
            recorded = self.store.interruptible(|| self.store.make_indexes()).map_err(Into::into);
        }
        if is_through
            && recorded.is_ok()
            && let Turn::Last(before) = turn
        {
            match self.meet(before) {
                Ok(through) => is_through = through,
                Err(error) => recorded = Err(error),
            }
        }
        // To be told to stop is no failure, also in the middle of a statement.
        if recorded.as_ref().is_err_and(|error| is_interruption(&**error)) {
            (recorded, is_through) = (Ok(()), false);
        }
        let summary = self.summary(match (&recorded, is_through) {
            (Err(_), _) => State::Failed,
            (_, false) if self.live.problems.are_too_many() => State::Failed,
            (_, false) => State::Interrupted,
            (_, true) if self.live.problems.count() > 0 => State::Unread,
            (_, true) => State::Complete,
        });
        let ended = self.store.end_scan(self.id, summary.state, &summary.json());
        recorded?;
        ended?;
        Ok(summary)
    }

    /// What lies in several roots is read, if it has to be. False: it is to stop.
    fn meet(&mut self, before: Vec<i64>) -> Result<bool, Box<dyn Error>> {
        let is_all = || Ok::<_, crate::store::Error>(self.store.roots()?.len() == self.roots.len());
        if !self.request.mode.reads() || is_all()? {
            return Ok(true);
        }
        let scanned: HashSet<i64> = self.roots.iter().copied().chain(before).collect();
        let mut rest = Some(Across::ALL);
        while let Some(larger_than) = rest {
            let across = self.store.interruptible(|| self.store.across(larger_than))?;
            rest = across.rest;
            self.met.unread_offline += across.unread_offline;
            if !across.wanted.is_empty() && !self.read_across(&scanned, across)? {
                return Ok(false);
            }
        }
        if self.met.unread_offline > 0 {
            // Of some the sample is known by now.
            self.met.unread_offline = self.store.interruptible(|| self.store.unread_offline())?;
        }
        Ok(true)
    }

    fn read_across(
        &mut self,
        scanned: &HashSet<i64>,
        across: Across,
    ) -> Result<bool, Box<dyn Error>> {
        let options = self.request.options.clone();
        let setting = across::Setting {
            store: self.store,
            scanned,
            options: Options { roots: Vec::new(), hash: self.store.algorithm()?, ..options },
            live: Live { folders: Arc::default(), ..self.live.clone() },
            now: nanoseconds(self.request.now),
            writer: writer(self.store, &self.live.stop)?,
        };
        let Some(meeting) = Meeting::begin(setting, across)? else { return Ok(true) };
        *lock(&self.pools) = meeting.pools();
        let (is_through, met) = meeting.finish();
        let met = self.store.wrap(met)?;
        self.met.read += met.read;
        self.met.changed += met.changed;
        Ok(is_through)
    }

    fn summary(&self, state: State) -> Summary {
        let (tally, counts) = (&self.live.tally, self.memory.counts());
        let written = self.memory.writer().written();
        Summary {
            state,
            mode: self.request.mode,
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
            met: self.met,
        }
    }
}

/// Of the database.
pub fn is_interruption(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(crate::store::Error::is_interruption)
}

/// An error: it can't be started.
fn writer(store: &Store, stop: &Stop) -> Result<Writer, Box<dyn Error>> {
    Writer::start(store.path(), now(), stop.clone()).map_err(|error| match error {
        CanNotWrite::Build(error) => error.into(),
        CanNotWrite::Sqlite(error) => store.wrap::<()>(Err(error)).unwrap_err().into(),
    })
}

/// The pools of a run, and the one that writes.
pub(crate) fn with_database(pools: Pools, writer: &Writer) -> Pools {
    let database = writer.pool().clone();
    Arc::new(move || {
        let mut pools = pools();
        pools.push(database.clone());
        pools
    })
}

impl Summary {
    /// It did not come to its end: nothing is begun after it.
    pub fn is_cut_off(&self) -> bool {
        !matches!(self.state, State::Complete | State::Unread)
    }

    /// Of both, one after the other.
    #[must_use]
    pub fn and(mut self, then: &Summary) -> Summary {
        if self.state == State::Complete || then.is_cut_off() {
            self.state = then.state;
        }
        self.roots += then.roots;
        self.took += then.took;
        // Who came last has looked at the others.
        self.met = then.met;
        let counts = [
            (&mut self.folders, then.folders),
            (&mut self.files, then.files),
            (&mut self.bytes, then.bytes),
            (&mut self.new, then.new),
            (&mut self.changed, then.changed),
            (&mut self.same, then.same),
            (&mut self.restored, then.restored),
            (&mut self.files_gone, then.files_gone),
            (&mut self.folders_gone, then.folders_gone),
            (&mut self.reads, then.reads),
            (&mut self.bytes_read, then.bytes_read),
            (&mut self.unread, then.unread),
            (&mut self.unstable, then.unstable),
        ];
        for (sum, count) in counts {
            *sum += count;
        }
        self
    }

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
            "read_in_other_roots": self.met.read,
            "changed_in_other_roots": self.met.changed,
            "unread_offline": self.met.unread_offline,
        })
    }

    /// What it has seen of files in other roots.
    pub fn met(&self) -> Met {
        self.met
    }
}

/// For people.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}, {}, {} in {:.1} s: {}",
            Count(self.roots as u64, "root"),
            Count(self.folders, "folder"),
            Count(self.files, "file"),
            Size(self.bytes),
            self.took.as_secs_f64(),
            self.state.name()
        )?;
        writeln!(
            f,
            "files: {} new, {} changed, {} as before, {} back, {} gone; folders: {} gone",
            self.new, self.changed, self.same, self.restored, self.files_gone, self.folders_gone
        )?;
        write!(f, "read: {}, {}", Count(self.reads, "time"), Size(self.bytes_read))?;
        match self.met.read {
            0 => Ok(()),
            read => write!(f, ", {} of other roots among them", Count(read, "file")),
        }
    }
}

/// Those that can be looked at, and those that can't.
pub fn by_presence(roots: Vec<Root>) -> (Vec<Root>, Vec<Root>) {
    roots.into_iter().partition(|root| root.presence() == Presence::Online)
}

//! A run: pools that walk, read and compare, from roots to sets.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use rustix::fs::Stat;
use tidegate::{Clock, Pool, Shutdown};

use crate::class::{Class, Work};
use crate::contents::Contents;
use crate::descriptors;
use crate::folders::{FileId, Folder, Folders, Seen};
use crate::io::{self, Gauge};
use crate::locking::lock;
use crate::memory::{Known, Learned, Memory};
use crate::options::Options;
use crate::problems::{Kind, Problems};
use crate::read::{Finder, SAMPLED, Unread, WHOLE};
use crate::readers::{self, Readers};
use crate::sets::{Gathered, Sets};
use crate::split::Splitter;
use crate::stop::Stop;
use crate::tally::Tally;
use crate::walk::{End, Inside, Setting, Sink, Walk};

/// Files that one task reads, and their bytes: about a millisecond's work.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 4 << 20;
/// Tasks that wait in each pool: enough that nobody runs dry, few enough to take no memory.
const QUEUE: usize = 64;
/// A class waits so long for more files while others are still being found: who comes later costs
/// another read of one that was there.
const GATHER: Duration = Duration::from_millis(50);
/// How often whoever waits looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// How long a worker may take to hear that the run is over. With the rest of the way out less
/// than the 5 s that are promised.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// What a run shares with those who watch it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// How far it has come.
    pub tally: Arc<Tally>,
    /// What went wrong.
    pub problems: Arc<Problems>,
    /// Whether it is to stop.
    pub stop: Stop,
    /// What it has seen of the tree.
    pub folders: Arc<Folders>,
    /// What its pools go by, if not by the clock of the system.
    pub clock: Option<Clock>,
}

/// The pools of a run that there are by now, in the order in which work goes through them.
pub type Pools = Arc<dyn Fn() -> Vec<Pool> + Send + Sync>;

/// One search for duplicates.
pub struct Run {
    options: Options,
    live: Live,
    folders: Arc<Folders>,
    splitter: Splitter,
    readers: Arc<Readers>,
    sequential: Pool,
    walk: OnceLock<Arc<Walk>>,
    sizes: Mutex<HashMap<u64, First>>,
    /// Of files that wait for another one of their size, where they are known beforehand.
    samples: Mutex<HashMap<FileId, u64>>,
    /// Files with several names, by device and inode, and their further names.
    inodes: Mutex<HashMap<(u16, u64), FileId>>,
    names: Mutex<Vec<(FileId, FileId)>>,
    gives_files: AtomicBool,
    /// Files that are to be read, by device, until they are enough for a task.
    collected: Mutex<HashMap<u16, Batch>>,
    contents: Contents,
    /// Where what is learned goes, instead of into sets.
    memory: Option<Arc<dyn Memory>>,
    /// By size and sample.
    classes: Mutex<HashMap<(u64, u64), Sampled>>,
    /// Classes with work to do, and since when.
    ready: Mutex<VecDeque<(Instant, Arc<Class>)>>,
    unread: Mutex<Vec<FileId>>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Of a size.
#[derive(Debug)]
enum First {
    Waits(Wanted),
    HasGone,
}

/// A file that is to be read, and on which device it is.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    file: FileId,
    device: u16,
}

/// What one task reads.
#[derive(Debug, Default)]
struct Batch {
    files: Vec<FileId>,
    bytes: u64,
}

/// Files with the same samples.
#[derive(Debug)]
enum Sampled {
    One(FileId),
    /// One that is known, and needs no reading.
    Known,
    Many(Arc<Class>),
}

/// A file with its size and sample.
type Sample = ((u64, u64), FileId);

impl Run {
    /// Nothing is read yet. An error: workers could not be started.
    pub fn new(
        options: Options,
        splitter: Splitter,
        live: Live,
        memory: Option<Arc<dyn Memory>>,
    ) -> Result<Arc<Run>, Box<dyn Error>> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = options.threads.map_or(cores, NonZeroUsize::get);
        let builder = |name: &str| Pool::builder(name).queue(QUEUE).grace(GRACE);
        let clock = live.clock.clone().unwrap_or_else(Clock::system);
        let room = descriptors::raise(threads.min(io::MOST));
        let most = room.reading;
        // A walk waits for the disk as reading does; `--threads` says what may be computed at a time.
        let fixed = options.io_threads.or(options.threads);
        let gauge = Gauge::new(threads, fixed, most);
        let walk = builder("walk").workers(gauge.workers()).clock(clock.clone()).build()?;
        let sequential =
            builder("sequential").workers(room.comparing).clock(clock.clone()).build()?;
        let readers = Readers::new(readers::Setting { threads, fixed, most, clock, builder })?;
        let run = Arc::new(Run {
            live: live.clone(),
            folders: Arc::clone(&live.folders),
            splitter,
            readers: Arc::new(readers),
            sequential,
            walk: OnceLock::new(),
            sizes: Mutex::default(),
            samples: Mutex::default(),
            inodes: Mutex::default(),
            names: Mutex::default(),
            gives_files: AtomicBool::new(false),
            collected: Mutex::default(),
            contents: Contents::default(),
            memory: memory.clone(),
            classes: Mutex::default(),
            ready: Mutex::default(),
            unread: Mutex::default(),
            options,
        });
        let setting = Setting {
            pool: walk,
            gauge,
            filter: run.options.filter.clone(),
            folders: Arc::clone(&run.folders),
            problems: live.problems,
            tally: live.tally,
            stop: live.stop,
        };
        let walk = Walk::new(setting, Box::new(Entrance { run: Arc::downgrade(&run), memory }));
        run.walk.set(walk).expect("it has no walk yet");
        Ok(run)
    }

    fn walk(&self) -> &Arc<Walk> {
        self.walk.get().expect("every run has a walk")
    }

    /// For those who watch.
    pub fn pools(&self) -> Pools {
        let (walk, sequential) = (self.walk().pool.clone(), self.sequential.clone());
        let readers = Arc::clone(&self.readers);
        Arc::new(move || {
            let readers = readers.pools().cloned();
            std::iter::once(walk.clone()).chain(readers).chain([sequential.clone()]).collect()
        })
    }

    /// Finds everything; None if it is to stop. Its pools are gone then.
    pub fn finish(self: Arc<Run>) -> Option<Sets> {
        self.read_all().then(|| self.into_sets())
    }

    /// Reads everything that has to be; false if it is to stop. Its pools are gone then.
    pub fn read_all(self: &Arc<Run>) -> bool {
        self.read_what(Run::walk_all)
    }

    /// The same for files that nobody has to look for; who has one of these sizes and samples is read to its end.
    pub fn read_given(
        self: &Arc<Run>,
        folders: Vec<Arc<Folder>>,
        samples: Vec<(u64, u64)>,
    ) -> bool {
        self.add_known_samples(samples);
        self.read_what(|run| run.give(folders))
    }

    fn read_what(self: &Arc<Run>, find: impl FnOnce(&Arc<Run>) -> bool) -> bool {
        if find(self) && self.readers.pools().all(|pool| self.wait(pool)) {
            self.mind_classes(true);
            self.wait(&self.sequential);
        }
        let pools = self.pools()();
        if self.live.stop.is_asked() {
            // All at once, so that they share the grace: one by one would take one each.
            pools.iter().for_each(|pool| drop(pool.shutdown_async(Shutdown::hard())));
        }
        for pool in pools {
            let how = if self.live.stop.is_asked() { Shutdown::hard() } else { Shutdown::light() };
            pool.shutdown(how).expect("this thread is no worker");
            // Its files are in no set, and nobody knows which: worth more than a line in a log.
            for _ in 0..pool.snapshot().panicked {
                self.live.problems.add(&self.live.tally, pool.name().into(), Kind::Bug);
            }
        }
        !self.live.stop.is_asked()
    }

    /// First what really lies below the roots, then what links lead to: a folder that can be reached
    /// by both goes by its own path, in every run. False: it is to stop.
    fn walk_all(self: &Arc<Run>) -> bool {
        let walk = self.walk();
        let (start, run) = (Arc::clone(walk), Arc::clone(self));
        // By a worker: a root may lie where nobody answers.
        if walk.pool.spawn(move || start.start(&run.options.roots)).is_err() {
            return false; // only a run that stops closes its pools
        }
        while self.wait(&walk.pool) {
            self.hand_over_the_rest();
            if !walk.go_on_behind_a_link() {
                return true;
            }
        }
        false
    }

    /// By a worker, as a walk does it: whoever waits for room does not see that it is to stop.
    fn give(self: &Arc<Run>, folders: Vec<Arc<Folder>>) -> bool {
        let (pool, run) = (&self.walk().pool, Arc::clone(self));
        let give = move || {
            let mut folders = folders.into_iter();
            while let Some(folder) = folders.next().filter(|_| !run.live.stop.is_asked()) {
                run.files_found(&[folder]);
            }
        };
        if pool.spawn(give).is_err() || !self.wait(pool) {
            return false;
        }
        self.hand_over_the_rest();
        true
    }

    /// False: it is to stop.
    fn wait(self: &Arc<Run>, pool: &Pool) -> bool {
        while !self.live.stop.is_asked() {
            if pool.wait_idle_timeout(LOOK).expect("this thread is no worker") {
                return true;
            }
            // Whoever reads does so after each batch; there may be none for long.
            self.mind_classes(false);
            self.hand_over(Vec::new());
        }
        false
    }

    fn into_sets(self: Arc<Run>) -> Sets {
        let classes = std::mem::take(&mut *lock(&self.classes));
        let sampled = classes.into_values().filter_map(|sampled| match sampled {
            Sampled::One(_) | Sampled::Known => None,
            Sampled::Many(class) => Some((class.size(), class.kin())),
        });
        let sampled = sampled.flat_map(|(size, kin)| kin.into_iter().map(move |kin| (size, kin)));
        Sets::new(Gathered {
            folders: self.folders.all(),
            tally: &self.live.tally,
            options: &self.options,
            small: self.contents.take_sets(),
            large: sampled,
            names: std::mem::take(&mut *lock(&self.names)),
            unread: std::mem::take(&mut *lock(&self.unread)),
        })
    }

    // ------------------------------------------------------------ sizes

    /// Folders, or parts of them, were looked into.
    fn files_found(self: &Arc<Run>, folders: &[Arc<Folder>]) {
        let mut wanted = Vec::new();
        folders.iter().for_each(|folder| self.add_wanted(folder, &mut wanted));
        let Some(memory) = &self.memory else { return self.hand_over(wanted) };
        memory.expect(&mut wanted.iter().map(|(_, wanted)| wanted.file));
        self.hand_over(wanted);
        folders.iter().for_each(|folder| memory.handed_over(folder));
    }

    fn add_wanted(&self, folder: &Arc<Folder>, wanted: &mut Vec<(u64, Wanted)>) {
        let known = self.memory.as_ref().map(|memory| memory.recall(folder)).unwrap_or_default();
        if self.memory.as_ref().is_some_and(|memory| !memory.reads()) {
            return;
        }
        let known = |file: FileId| known.get(file.entry as usize).copied().unwrap_or_default();
        let wants_all = self.wants_all();
        let is_elsewhere = |size| {
            self.memory.as_ref().is_some_and(|memory| wants_all || memory.is_elsewhere(size))
        };
        let (mut samples, mut sampled) = (Vec::new(), Vec::new());
        let mut files = self.new_files(folder);
        // On many disks files lie in the order of their inodes.
        files.sort_unstable_by_key(|file| folder.seen(file.entry).inode);
        wanted.reserve(files.len());
        {
            let mut sizes = lock(&self.sizes);
            for file in files {
                let seen = folder.seen(file.entry);
                let (size, this) = (seen.size, Wanted { file, device: seen.device });
                let known = known(file);
                // Who is known need not be read, but others of its size must be.
                let is_read = known.digest.is_none();
                match sizes.entry(size) {
                    Entry::Vacant(none) if is_read && !is_elsewhere(size) => {
                        none.insert(First::Waits(this));
                        if let Some(sample) = known.sample {
                            lock(&self.samples).insert(file, sample);
                        }
                        continue;
                    }
                    Entry::Vacant(none) => drop(none.insert(First::HasGone)),
                    Entry::Occupied(mut entry) => {
                        if let First::Waits(first) = entry.insert(First::HasGone) {
                            match lock(&self.samples).remove(&first.file) {
                                Some(sample) => sampled.push(((size, sample), first.file)),
                                None => wanted.push((size, first)),
                            }
                        }
                    }
                }
                match known {
                    Known { digest: Some(_), sample: Some(sample) } => samples.push((size, sample)),
                    Known { digest: Some(_), sample: None } => {}
                    Known { digest: None, sample: Some(sample) } => {
                        sampled.push(((size, sample), file));
                    }
                    Known { digest: None, sample: None } => wanted.push((size, this)),
                }
            }
        }
        self.add_known_samples(samples);
        self.add_samples(sampled);
    }

    /// Without further names of files that were seen before.
    fn new_files(&self, folder: &Folder) -> Vec<FileId> {
        let all = (0..folder.len()).map(|entry| FileId { folder: folder.number, entry });
        // A symbolic link that is followed is a further name that the file does not count, and one
        // that was given may also be found.
        let is_simple = !self.options.filter.follow && !self.gives_files(folder);
        let has_one = |seen: &Seen| seen.links() <= 1 && is_simple;
        if (0..folder.len()).all(|entry| has_one(folder.seen(entry))) {
            return all.collect();
        }
        let (mut inodes, mut names) = (lock(&self.inodes), lock(&self.names));
        all.filter(|file| {
            let seen = folder.seen(file.entry);
            if has_one(seen) {
                return true;
            }
            match inodes.entry((seen.device, seen.inode)) {
                Entry::Vacant(none) => {
                    none.insert(*file);
                    true
                }
                // A file that is new under an old number is another one.
                Entry::Occupied(first) if !self.is_same(*first.get(), seen) => true,
                Entry::Occupied(first) => {
                    match &self.memory {
                        Some(memory) => memory.another_name(*first.get(), *file),
                        None => names.push((*first.get(), *file)),
                    }
                    false
                }
            }
        })
        .collect()
    }

    fn is_same(&self, file: FileId, other: &Seen) -> bool {
        let folder = self.folders.folder(file.folder);
        let seen = folder.seen(file.entry);
        (seen.size, seen.mtime, seen.ctime) == (other.size, other.mtime, other.ctime)
    }

    /// Whether single files were given. They come before anything that is found.
    fn gives_files(&self, folder: &Folder) -> bool {
        if folder.is_given_file {
            self.gives_files.store(true, Relaxed);
        }
        self.gives_files.load(Relaxed)
    }

    /// Waits while there is no room for more. Files of small folders come together in one task, unless there
    /// are readers that have nothing else to do.
    fn hand_over(self: &Arc<Run>, wanted: Vec<(u64, Wanted)>) {
        let mut ready = Vec::new();
        {
            let mut collected = lock(&self.collected);
            for (size, Wanted { file, device }) in wanted {
                let batch = collected.entry(device).or_default();
                batch.bytes += if size <= WHOLE { size } else { SAMPLED };
                batch.files.push(file);
                if batch.files.len() == BATCH || batch.bytes >= BATCH_BYTES {
                    ready.push((device, std::mem::take(batch)));
                }
            }
            for (device, batch) in collected.iter_mut().filter(|(_, batch)| !batch.files.is_empty())
            {
                if self.readers.of(*device).is_hungry() {
                    ready.push((*device, std::mem::take(batch)));
                }
            }
        }
        ready.into_iter().for_each(|(device, batch)| self.submit(device, batch));
    }

    /// There will be no more of them.
    fn hand_over_the_rest(self: &Arc<Run>) {
        let rest = std::mem::take(&mut *lock(&self.collected));
        let rest = rest.into_iter().filter(|(_, batch)| !batch.files.is_empty());
        rest.for_each(|(device, batch)| self.submit(device, batch));
    }

    fn submit(self: &Arc<Run>, device: u16, batch: Batch) {
        let Batch { files, bytes } = batch;
        Tally::add(&self.live.tally.reads_wanted, files.len() as u64);
        Tally::add(&self.live.tally.read_bytes_wanted, bytes);
        let (run, files) = (Arc::clone(self), files.into_boxed_slice());
        let reader = self.readers.of(device);
        reader.is_to_have_one_more();
        if reader.pool.spawn(move || run.read(device, &files)).is_err() {
            debug_assert!(self.live.stop.is_asked(), "only a run that stops closes its pools");
        }
    }

    // ------------------------------------------------------------ samples

    /// Reads a batch: small files whole, samples of the others.
    fn read(self: &Arc<Run>, device: u16, batch: &[FileId]) {
        let reader = self.readers.of(device);
        reader.has_taken_one();
        let begun = reader.gauge.begin();
        let mut finder = Finder::new(&self.folders, self.options.filter.follow);
        let algorithm = self.options.hash.unwrap_or_default();
        let mut hashed = Vec::with_capacity(batch.len());
        let (mut samples, mut unread) = (Vec::new(), Vec::new());
        for file in batch {
            if self.live.stop.is_asked() {
                break;
            }
            let target = finder.target(*file);
            let size = target.seen.size;
            let (end, bytes) = if size <= WHOLE {
                let digest = target.whole(|bytes| algorithm.digest(bytes));
                (digest.map(|digest| hashed.push((digest, *file))), size)
            } else {
                let sample = target.samples(|bytes| self.splitter.value(bytes));
                (sample.map(|sample| samples.push(((size, sample), *file))), SAMPLED)
            };
            // One by one: with a slow disk a batch takes seconds, and somebody watches.
            Tally::add(&self.live.tally.reads_done, 1);
            match end {
                Ok(()) => Tally::add(&self.live.tally.read_bytes_done, bytes),
                Err(why) => unread.push((*file, why)),
            }
        }
        // From here on it waits for others, not for the disk.
        reader.gauge.end(&reader.pool, begun);
        unread.iter().for_each(|(file, why)| self.unread(*file, *why));
        match &self.memory {
            None => self.contents.add(hashed),
            Some(memory) => {
                let unread = unread.into_iter().map(|(file, why)| (file, Learned::Nothing(why)));
                let hashed =
                    hashed.into_iter().map(|(digest, file)| (file, Learned::Digest(digest)));
                let samples =
                    samples.iter().map(|((_, sample), file)| (*file, Learned::Sample(*sample)));
                memory.learned(unread.chain(hashed).chain(samples).collect());
            }
        }
        self.add_samples(samples);
        self.mind_classes(false);
    }

    fn unread(&self, file: FileId, why: Unread) {
        if self.memory.as_ref().is_some_and(|memory| !memory.minds(file, why)) {
            return;
        }
        let path = Finder::new(&self.folders, false).path(file);
        self.live.problems.add(&self.live.tally, path, why.kind());
        lock(&self.unread).push(file);
    }

    /// Of files that need no reading: whoever has the same does.
    fn add_known_samples(&self, samples: Vec<(u64, u64)>) {
        if samples.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut classes = lock(&self.classes);
        for key in samples {
            match classes.entry(key) {
                Entry::Vacant(none) => drop(none.insert(Sampled::Known)),
                Entry::Occupied(mut entry) => {
                    if let Sampled::One(first) = *entry.get() {
                        let class = self.new_class(now, key.0, vec![first]);
                        entry.insert(Sampled::Many(class));
                    }
                }
            }
        }
    }

    fn new_class(&self, now: Instant, size: u64, files: Vec<FileId>) -> Arc<Class> {
        self.want_to_the_end(size, files.len() as u64);
        let class = Class::of(size, files);
        lock(&self.ready).push_back((now, Arc::clone(&class)));
        class
    }

    fn wants_all(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.wants_all())
    }

    fn add_samples(&self, samples: Vec<Sample>) {
        let (now, wants_all) = (Instant::now(), self.wants_all());
        let mut classes = lock(&self.classes);
        for (key, file) in samples {
            let mut entry = match classes.entry(key) {
                Entry::Vacant(none) if wants_all => {
                    none.insert(Sampled::Many(self.new_class(now, key.0, vec![file])));
                    continue;
                }
                Entry::Vacant(none) => {
                    none.insert(Sampled::One(file));
                    continue;
                }
                Entry::Occupied(entry) => entry,
            };
            let files = match entry.get() {
                Sampled::Many(class) => {
                    self.want_to_the_end(key.0, 1);
                    if class.add(file) {
                        lock(&self.ready).push_back((now, Arc::clone(class)));
                    }
                    continue;
                }
                Sampled::One(first) => vec![*first, file],
                Sampled::Known => vec![file],
            };
            entry.insert(Sampled::Many(self.new_class(now, key.0, files)));
        }
    }

    fn want_to_the_end(&self, size: u64, files: u64) {
        Tally::add(&self.live.tally.reads_wanted, files);
        Tally::add(&self.live.tally.read_bytes_wanted, files * size);
    }

    // ------------------------------------------------------------ contents

    /// Begins with classes that have waited for more files long enough. Where there is no room for
    /// them they wait on: who reads small files has something else to do than to wait for large ones.
    fn mind_classes(self: &Arc<Run>, all: bool) {
        while !self.live.stop.is_asked() {
            let class = {
                let mut ready = lock(&self.ready);
                match ready.front() {
                    Some((since, _)) if all || since.elapsed() >= GATHER => ready.pop_front(),
                    _ => None,
                }
            };
            let Some((since, class)) = class else { return };
            let (run, task) = (Arc::clone(self), Arc::clone(&class));
            let read = move || run.read_to_the_end(&task);
            let refused = if all {
                self.sequential.task("class").wait_at_most(LOOK).spawn(move |_| read()).is_err()
            } else {
                self.sequential.try_spawn(read).is_err()
            };
            if refused {
                lock(&self.ready).push_front((since, class));
                if !all {
                    return;
                }
            }
        }
    }

    fn read_to_the_end(&self, class: &Class) {
        class.work(&Work {
            pool: &self.sequential,
            hash: self.options.hash,
            is_kept: self.memory.is_none(),
            folders: &self.folders,
            follow: self.options.filter.follow,
            stop: &self.live.stop,
            tally: &self.live.tally,
            unread: &|file, why| {
                self.unread(file, why);
                self.learned_more(file, Learned::Nothing(why));
            },
            hashed: &|file, digest| self.learned_more(file, Learned::Digest(digest)),
        });
    }

    fn learned_more(&self, file: FileId, what: Learned) {
        if let Some(memory) = &self.memory {
            memory.learned_more(file, what);
        }
    }
}

/// Where the walk brings what it finds.
struct Entrance {
    run: Weak<Run>,
    memory: Option<Arc<dyn Memory>>,
}

impl Sink for Entrance {
    fn files(&self, folders: &[Arc<Folder>]) {
        if let Some(run) = self.run.upgrade() {
            run.files_found(folders);
        }
    }

    fn enters(&self, folder: &Folder) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.enters(folder))
    }

    fn opened(&self, folder: &Arc<Folder>, stat: &Stat) -> Option<Kind> {
        self.memory.as_ref().and_then(|memory| memory.opened(folder, stat))
    }

    fn listed(&self, folder: &Arc<Folder>, inside: Inside<'_>) {
        if let Some(memory) = &self.memory {
            memory.listed(folder, inside);
        }
    }

    fn left(&self, folder: &Arc<Folder>, end: End) {
        if let Some(memory) = &self.memory {
            memory.left(folder, end);
        }
    }
}

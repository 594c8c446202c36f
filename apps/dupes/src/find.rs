//! A run: pools that walk, read and compare, from roots to sets.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidegate::{Pool, Shutdown};

use crate::class::{Class, Work};
use crate::contents::Contents;
use crate::descriptors;
use crate::folders::{FileId, Folder, Folders, Seen};
use crate::io::{self, Gauge};
use crate::options::Options;
use crate::problems::{Kind, Problems};
use crate::read::{Finder, SAMPLED, Unread, WHOLE};
use crate::readers::{self, Readers};
use crate::sets::{Gathered, Sets};
use crate::split::Splitter;
use crate::stop::Stop;
use crate::tally::Tally;
use crate::walk::{Setting, Walk};

/// Files that one task reads, and their bytes: about a millisecond's work.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 4 << 20;
/// Tasks that wait in each pool: enough that nobody runs dry, few enough to take no memory.
const QUEUE: usize = 64;
/// A class waits so long for more files while others are still being found: who comes later costs
/// another read of one that was there.
const GATHER: Duration = Duration::from_millis(50);
/// How often whoever waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long a worker may take to hear that the run is over. With the rest of the way out less
/// than the 5 s that are promised.
const GRACE: Duration = Duration::from_secs(3);

/// What a run shares with those who watch it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// How far it has come.
    pub tally: Arc<Tally>,
    /// What went wrong.
    pub problems: Arc<Problems>,
    /// Whether it is to stop.
    pub stop: Stop,
}

/// The pools of a run that there are by now, in the order in which work goes through them.
pub type Pools = Arc<dyn Fn() -> Vec<Pool> + Send + Sync>;

/// One search for duplicates.
#[derive(Debug)]
pub struct Run {
    options: Options,
    live: Live,
    folders: Arc<Folders>,
    splitter: Splitter,
    readers: Arc<Readers>,
    sequential: Pool,
    walk: OnceLock<Arc<Walk>>,
    sizes: Mutex<HashMap<u64, First>>,
    /// Files with several names, by device and inode, and their further names.
    inodes: Mutex<HashMap<(u16, u64), FileId>>,
    names: Mutex<Vec<(FileId, FileId)>>,
    contents: Contents,
    classes: Mutex<HashMap<(u64, u128), Sampled>>,
    /// Classes with work to do, and since when.
    ready: Mutex<VecDeque<(Instant, Arc<Class>)>>,
    unread: Mutex<Vec<FileId>>,
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

/// Files with the same samples.
#[derive(Debug)]
enum Sampled {
    One(FileId),
    Many(Arc<Class>),
}

impl Run {
    /// Nothing is read yet. An error: workers could not be started.
    pub fn new(
        options: Options,
        splitter: Splitter,
        live: Live,
    ) -> Result<Arc<Run>, Box<dyn Error>> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = options.threads.map_or(cores, NonZeroUsize::get);
        let builder = |name: &str| Pool::builder(name).queue(QUEUE).grace(GRACE);
        let room = descriptors::raise(threads.min(io::MOST));
        let most = room.reading;
        // A walk waits for the disk as reading does; `--threads` says what may be computed at a time.
        let fixed = options.io_threads.or(options.threads);
        let gauge = Gauge::new(threads, fixed, most);
        let walk = builder("walk").workers(gauge.workers()).build()?;
        let readers = Readers::new(readers::Setting { threads, fixed, most, builder })?;
        let run = Arc::new(Run {
            live: live.clone(),
            folders: Arc::default(),
            splitter,
            readers: Arc::new(readers),
            sequential: builder("sequential").workers(room.comparing).build()?,
            walk: OnceLock::new(),
            sizes: Mutex::default(),
            inodes: Mutex::default(),
            names: Mutex::default(),
            contents: Contents::default(),
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
        let to = Arc::downgrade(&run);
        let sink = move |folders: &[Arc<Folder>]| {
            if let Some(run) = to.upgrade() {
                run.files_found(folders);
            }
        };
        let walk = Walk::new(setting, Box::new(sink));
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
        if self.walk_all() && self.readers.pools().all(|pool| self.wait(pool)) {
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
        (!self.live.stop.is_asked()).then(|| self.into_sets())
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
            if !walk.go_on_behind_a_link() {
                return true;
            }
        }
        false
    }

    /// False: it is to stop.
    fn wait(&self, pool: &Pool) -> bool {
        while !self.live.stop.is_asked() {
            if pool.wait_idle_timeout(LOOK).expect("this thread is no worker") {
                return true;
            }
        }
        false
    }

    fn into_sets(self: Arc<Run>) -> Sets {
        let classes = std::mem::take(&mut *lock(&self.classes));
        let sampled = classes.into_values().filter_map(|sampled| match sampled {
            Sampled::One(_) => None,
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
        self.hand_over(wanted);
    }

    fn add_wanted(&self, folder: &Folder, wanted: &mut Vec<(u64, Wanted)>) {
        let mut files = self.new_files(folder);
        // On many disks files lie in the order of their inodes.
        files.sort_unstable_by_key(|file| folder.seen(file.entry).inode);
        wanted.reserve(files.len());
        {
            let mut sizes = lock(&self.sizes);
            for file in files {
                let seen = folder.seen(file.entry);
                let (size, this) = (seen.size, Wanted { file, device: seen.device });
                match sizes.entry(size) {
                    Entry::Vacant(none) => drop(none.insert(First::Waits(this))),
                    Entry::Occupied(mut entry) => {
                        if let First::Waits(first) = entry.insert(First::HasGone) {
                            wanted.push((size, first));
                        }
                        wanted.push((size, this));
                    }
                }
            }
        }
    }

    /// Without further names of files that were seen before.
    fn new_files(&self, folder: &Folder) -> Vec<FileId> {
        let all = (0..folder.len()).map(|entry| FileId { folder: folder.number, entry });
        // A symbolic link that is followed is a further name that the file does not count.
        let has_one = |seen: &Seen| seen.links() <= 1 && !self.options.filter.follow;
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
                Entry::Occupied(first) => {
                    names.push((*first.get(), *file));
                    false
                }
            }
        })
        .collect()
    }

    /// In batches, each of which is a task. Waits while there is no room.
    fn hand_over(self: &Arc<Run>, mut wanted: Vec<(u64, Wanted)>) {
        wanted.sort_by_key(|(_, wanted)| wanted.device);
        for on_one_device in wanted.chunk_by(|(_, one), (_, other)| one.device == other.device) {
            let device = on_one_device[0].1.device;
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for (size, wanted) in on_one_device {
                bytes += if *size <= WHOLE { *size } else { SAMPLED };
                batch.push(wanted.file);
                if batch.len() == BATCH || bytes >= BATCH_BYTES {
                    self.submit(device, std::mem::take(&mut batch), std::mem::take(&mut bytes));
                }
            }
            if !batch.is_empty() {
                self.submit(device, batch, bytes);
            }
        }
    }

    fn submit(self: &Arc<Run>, device: u16, batch: Vec<FileId>, bytes: u64) {
        Tally::add(&self.live.tally.reads_wanted, batch.len() as u64);
        Tally::add(&self.live.tally.read_bytes_wanted, bytes);
        let run = Arc::clone(self);
        let batch = batch.into_boxed_slice();
        if self.readers.of(device).pool.spawn(move || run.read(device, &batch)).is_err() {
            debug_assert!(self.live.stop.is_asked(), "only a run that stops closes its pools");
        }
    }

    // ------------------------------------------------------------ samples

    /// Reads a batch: small files whole, samples of the others.
    fn read(self: &Arc<Run>, device: u16, batch: &[FileId]) {
        let reader = self.readers.of(device);
        let begun = reader.gauge.begin();
        let mut finder = Finder::new(&self.folders, self.options.filter.follow);
        let algorithm = self.options.hash.unwrap_or_default();
        let (mut samples, mut bytes) = (Vec::new(), 0);
        for file in batch {
            if self.live.stop.is_asked() {
                return;
            }
            let target = finder.target(*file);
            let size = target.seen.size;
            let end = if size <= WHOLE {
                bytes += size;
                let digest = target.whole(|bytes| algorithm.digest(bytes));
                digest.map(|digest| self.contents.add(&digest, *file))
            } else {
                bytes += SAMPLED;
                let sample = target.samples(|bytes| self.splitter.value(bytes));
                sample.map(|sample| samples.push(((size, sample), *file)))
            };
            if let Err(why) = end {
                self.unread(*file, why);
            }
        }
        Tally::add(&self.live.tally.reads_done, batch.len() as u64);
        Tally::add(&self.live.tally.read_bytes_done, bytes);
        reader.gauge.end(&reader.pool, begun);
        self.add_samples(samples);
        self.mind_classes(false);
    }

    fn unread(&self, file: FileId, why: Unread) {
        let path = Finder::new(&self.folders, false).path(file);
        self.live.problems.add(&self.live.tally, path, why.kind());
        lock(&self.unread).push(file);
    }

    fn add_samples(&self, samples: Vec<((u64, u128), FileId)>) {
        let now = Instant::now();
        let mut classes = lock(&self.classes);
        for (key, file) in samples {
            let new = match classes.entry(key) {
                Entry::Vacant(none) => {
                    none.insert(Sampled::One(file));
                    continue;
                }
                Entry::Occupied(mut entry) => match entry.get_mut() {
                    Sampled::Many(class) => {
                        self.want_to_the_end(key.0, 1);
                        class.add(file).then(|| Arc::clone(class))
                    }
                    sampled @ Sampled::One(_) => {
                        let Sampled::One(first) = *sampled else { unreachable!("just matched") };
                        self.want_to_the_end(key.0, 2);
                        let class = Class::of(key.0, first, file);
                        *sampled = Sampled::Many(Arc::clone(&class));
                        Some(class)
                    }
                },
            };
            if let Some(class) = new {
                lock(&self.ready).push_back((now, class));
            }
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
        class.work(&mut Work {
            pool: &self.sequential,
            hash: self.options.hash,
            finder: Finder::new(&self.folders, self.options.filter.follow),
            stop: &self.live.stop,
            tally: &self.live.tally,
            unread: &|file, why| self.unread(file, why),
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

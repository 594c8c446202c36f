//! Large files that samples can't tell apart: read to their last byte.
//!
//! A class is worked on by one task at a time. Who comes meanwhile waits in it, and is compared
//! with one file of each set that was found.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::Pool;

use crate::compare::{self, Ranges, compare};
use crate::digest::{Algorithm, Digest, Verified};
use crate::folders::{FileId, Folders};
use crate::hashing::{self, hash};
use crate::read::{Finder, Opened, Unread};
use crate::stop::Stop;
use crate::tally::Tally;

/// Files of one size with the same samples.
#[derive(Debug)]
pub struct Class {
    size: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<FileId>,
    /// A task works on it, or will.
    is_minded: bool,
    kin: Vec<Kin>,
}

/// Files of a class that are known to be equal; perhaps only one.
#[derive(Clone, Debug)]
pub struct Kin {
    /// At least one.
    pub files: Vec<FileId>,
    /// If they were hashed.
    pub digest: Option<Digest>,
    /// What the claim rests on.
    pub verified: Verified,
}

/// What a class needs of its run.
pub struct Work<'a> {
    /// Where ranges of large files are shared.
    pub pool: &'a Pool,
    /// A hash that every set must have.
    pub hash: Option<Algorithm>,
    /// Somebody asks for what was found; else whoever hears of hashes knows enough, and it takes no memory.
    pub is_kept: bool,
    /// Where files are.
    pub folders: &'a Folders,
    /// Names may be links.
    pub follow: bool,
    /// Whether to stop.
    pub stop: &'a Stop,
    /// What is counted.
    pub tally: &'a Tally,
    /// Who hears of files that could not be read.
    pub unread: &'a (dyn Fn(FileId, Unread) + Sync),
    /// And of hashes.
    pub hashed: &'a (dyn Fn(FileId, Digest) + Sync),
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Class {
    /// With its first files; somebody minds it.
    pub fn of(size: u64, first: Vec<FileId>) -> Arc<Class> {
        let state = State { waiting: first, is_minded: true, kin: Vec::new() };
        Arc::new(Class { size, state: Mutex::new(state) })
    }

    /// One more file. True: somebody must mind the class.
    pub fn add(&self, file: FileId) -> bool {
        let mut state = self.state();
        state.waiting.push(file);
        !std::mem::replace(&mut state.is_minded, true)
    }

    /// Bytes of each file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What was found, when nobody works on it any more.
    pub fn kin(&self) -> Vec<Kin> {
        self.state().kin.clone()
    }

    /// Reads those that wait, until there are none.
    pub fn work(&self, work: &Work<'_>) {
        loop {
            let (mut kin, waiting) = {
                let mut state = self.state();
                if state.waiting.is_empty() || work.stop.is_asked() {
                    state.is_minded = false;
                    return;
                }
                (std::mem::take(&mut state.kin), std::mem::take(&mut state.waiting))
            };
            let count = kin.len() + waiting.len();
            let is_hashed = kin.iter().any(|kin| kin.digest.is_some());
            let again = if work.hash.is_some() || is_hashed || count > compare::MOST {
                self.hash(&mut kin, waiting, work);
                Vec::new()
            } else {
                self.compare(&mut kin, waiting, work)
            };
            kin.retain(|kin| !kin.files.is_empty());
            let mut state = self.state();
            state.kin = kin;
            state.waiting.extend(again);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back those that must be compared again, because whom they were compared with is gone.
    fn compare(&self, kin: &mut Vec<Kin>, new: Vec<FileId>, work: &Work<'_>) -> Vec<FileId> {
        let known = kin.len();
        let all: Vec<FileId> = kin.iter().map(|kin| kin.files[0]).chain(new).collect();
        let (mut ids, mut files) = (Vec::new(), Vec::new());
        let mut finder = Finder::new(work.folders, work.follow);
        let mut lost = false;
        for (at, id) in all.iter().enumerate() {
            match finder.target(*id).open() {
                Ok(file) => {
                    ids.push(at);
                    files.push(file);
                }
                Err(why) => {
                    (work.unread)(*id, why);
                    lost |= remove_known(kin, at, known);
                }
            }
        }
        let shared = ByPool { pool: work.pool, stop: work.stop };
        let read = AtomicU64::new(0);
        let on_read = |bytes| {
            read.fetch_add(bytes, Relaxed);
            Tally::add(&work.tally.read_bytes_done, bytes);
        };
        let labels = compare(&files, self.size, &shared, work.stop, &on_read);
        if work.stop.is_asked() {
            return Vec::new();
        }
        // Files that differ early are not read to their end.
        let wanted = (all.len() - known) as u64 * self.size;
        let spared = wanted.saturating_sub(read.into_inner());
        Tally::add(&work.tally.read_bytes_spared, spared);
        let mut equal: Vec<Vec<usize>> = vec![Vec::new(); labels.len()];
        for (at, label) in ids.iter().zip(labels) {
            match label {
                Ok(label) => equal[label].push(*at),
                Err(why) => {
                    (work.unread)(all[*at], why);
                    lost |= remove_known(kin, *at, known);
                }
            }
        }
        if lost {
            let left = equal.into_iter().flatten().filter(|at| *at >= known);
            return left.map(|at| all[at]).collect();
        }
        for group in equal.into_iter().filter(|group| !group.is_empty()) {
            Tally::add(
                &work.tally.reads_done,
                group.iter().filter(|at| **at >= known).count() as u64,
            );
            match group[0] < known {
                true => kin[group[0]].files.extend(group[1..].iter().map(|at| all[*at])),
                false => kin.push(Kin {
                    files: group.iter().map(|at| all[*at]).collect(),
                    digest: None,
                    verified: Verified::Bytes,
                }),
            }
        }
        Vec::new()
    }

    fn hash(&self, kin: &mut Vec<Kin>, new: Vec<FileId>, work: &Work<'_>) {
        let algorithm = work.hash.unwrap_or_default();
        if !work.is_kept {
            self.digests(new, algorithm, work);
            return;
        }
        // Those that were compared so far need a hash as well: that of one of them.
        for kin in kin.iter_mut().filter(|kin| kin.digest.is_none()) {
            while let Some(first) = kin.files.first() {
                match self.digest(*first, algorithm, work) {
                    Some(digest) => {
                        (kin.digest, kin.verified) = (Some(digest), Verified::by(algorithm));
                        break;
                    }
                    None if work.stop.is_asked() => return,
                    None => drop(kin.files.remove(0)),
                }
            }
        }
        let of = |(at, kin): (usize, &Kin)| Some((kin.digest?, at));
        let mut places: HashMap<Digest, usize> = kin.iter().enumerate().filter_map(of).collect();
        for (file, digest) in self.digests(new, algorithm, work) {
            let at = *places.entry(digest).or_insert(kin.len());
            if at == kin.len() {
                let verified = Verified::by(algorithm);
                kin.push(Kin { files: Vec::new(), digest: Some(digest), verified });
            }
            kin[at].files.push(file);
        }
    }

    /// Of those that could be read. A file that can't be shared out, or is too small for that, has a
    /// worker for itself, and its neighbours have others.
    fn digests(
        &self,
        files: Vec<FileId>,
        algorithm: Algorithm,
        work: &Work<'_>,
    ) -> Vec<(FileId, Digest)> {
        let is_shared = hashing::can_share(self.size, algorithm);
        let mut all = Vec::with_capacity(files.len());
        for portion in files.chunks(if is_shared { 1 } else { PORTION as usize }) {
            if work.stop.is_asked() {
                break;
            }
            let one = |file: &FileId| self.digest(*file, algorithm, work);
            let digests = match portion {
                [file] => vec![one(file)],
                several => match work.pool.map_slice(several, one) {
                    Ok(digests) => digests,
                    Err(error) => {
                        assert!(work.stop.is_asked(), "files were not hashed: {error}");
                        break;
                    }
                },
            };
            Tally::add(&work.tally.reads_done, portion.len() as u64);
            let digests = portion.iter().zip(digests);
            all.extend(digests.filter_map(|(file, digest)| Some((*file, digest?))));
        }
        all
    }

    fn digest(&self, file: FileId, algorithm: Algorithm, work: &Work<'_>) -> Option<Digest> {
        let shared = ByPool { pool: work.pool, stop: work.stop };
        let on_read = |bytes| Tally::add(&work.tally.read_bytes_done, bytes);
        let opened: Result<Opened, Unread> =
            Finder::new(work.folders, work.follow).target(file).open();
        let digest = opened
            .and_then(|opened| hash(&opened, self.size, algorithm, &shared, work.stop, &on_read));
        match digest {
            Ok(digest) => digest.inspect(|digest| (work.hashed)(file, *digest)),
            Err(why) => {
                (work.unread)(file, why);
                None
            }
        }
    }
}

/// True if it stood for a set: then the next one does.
fn remove_known(kin: &mut [Kin], at: usize, known: usize) -> bool {
    if at < known {
        kin[at].files.remove(0);
    }
    at < known
}

/// Ranges, or files, that are shared out at a time. In between, workers that have helped look whether another
/// class waits: a pair of huge files holds up nobody for long.
const PORTION: u64 = 16;

/// Ranges by all workers of the pool that have nothing else to do.
struct ByPool<'a> {
    pool: &'a Pool,
    stop: &'a Stop,
}

impl Ranges for ByPool<'_> {
    fn run(&self, ranges: u64, f: &(dyn Fn(u64) + Sync)) {
        if ranges <= 1 {
            return (0..ranges).for_each(f);
        }
        for from in (0..ranges).step_by(PORTION as usize) {
            let portion: Vec<u64> = (from..ranges.min(from + PORTION)).collect();
            let run = self.pool.map_slice(&portion, |range| {
                if !self.stop.is_asked() {
                    f(*range);
                }
            });
            // Refused or cut off only when the pool is told to stop, and so are we; a panic goes on.
            if let Err(error) = run {
                assert!(self.stop.is_asked(), "a range was not read: {error}");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;
    use std::sync::Condvar;
    use std::time::Duration;

    use tidegate::Shutdown;

    use super::*;
    use crate::read::seen;

    const SIZE: usize = 200_000;

    struct Bench {
        dir: tempfile::TempDir,
        folders: Folders,
        files: Vec<FileId>,
        unread: Mutex<Vec<(FileId, Unread)>>,
    }

    /// Files of one size, each filled with its letter.
    fn bench(fills: &str) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..fills.len()).map(|n| n.to_string()).collect();
        for (name, fill) in names.iter().zip(fills.bytes()) {
            fs::write(dir.path().join(name), vec![fill; SIZE]).unwrap();
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (folders, files) = seen::files(dir.path(), &names);
        Bench { dir, folders, files, unread: Mutex::default() }
    }

    impl Bench {
        fn path(&self, n: usize) -> std::path::PathBuf {
            self.dir.path().join(n.to_string())
        }

        fn work(&self, class: &Class, hash: Option<Algorithm>) {
            let pool = Pool::builder("class").workers(2).build().unwrap();
            class.work(&Work {
                pool: &pool,
                hash,
                is_kept: true,
                folders: &self.folders,
                follow: false,
                stop: &Stop::new(),
                tally: &Tally::default(),
                unread: &|file, why| self.unread.lock().unwrap().push((file, why)),
                hashed: &|_, _| (),
            });
            pool.shutdown(Shutdown::default()).unwrap();
        }

        /// Sets of the numbers of files; those that are alone, too.
        fn sets(&self, class: &Class) -> Vec<Vec<u32>> {
            let mut sets: Vec<Vec<u32>> = class
                .kin()
                .iter()
                .map(|kin| {
                    let mut set: Vec<u32> = kin.files.iter().map(|file| file.entry).collect();
                    set.sort_unstable();
                    set
                })
                .collect();
            sets.sort();
            sets
        }
    }

    fn touch(path: &Path) {
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
        fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
    }

    #[test]
    fn late_comers_join_the_set_that_they_are_equal_to() {
        for hash in [None, Some(Algorithm::Blake3), Some(Algorithm::Sha256)] {
            let bench = bench("abaab");
            let class = Class::of(SIZE as u64, bench.files[..2].to_vec());
            bench.work(&class, hash);
            assert_eq!(bench.sets(&class), [vec![0], vec![1]]);
            for late in 2..5 {
                assert!(class.add(bench.files[late]), "nobody minds it");
                bench.work(&class, hash);
            }
            assert_eq!(bench.sets(&class), [vec![0, 2, 3], vec![1, 4]], "{hash:?}");
            assert!(bench.unread.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn who_stands_for_a_set_may_vanish() {
        let bench = bench("aaa");
        let class = Class::of(SIZE as u64, bench.files[..2].to_vec());
        bench.work(&class, None);
        fs::remove_file(bench.path(0)).unwrap();
        class.add(bench.files[2]);
        bench.work(&class, None);
        assert_eq!(bench.sets(&class), [[1, 2]]);
        assert_eq!(bench.unread.lock().unwrap().len(), 1);
    }

    #[test]
    fn more_than_can_be_compared_are_hashed() {
        let bench = bench("aaaaabaaaaab");
        let class = Class::of(SIZE as u64, bench.files[..2].to_vec());
        for file in &bench.files[2..] {
            class.add(*file);
        }
        bench.work(&class, None);
        assert_eq!(bench.sets(&class), [vec![0, 1, 2, 3, 4, 6, 7, 8, 9, 10], vec![5, 11]]);
        assert!(class.kin().iter().all(|kin| kin.verified == Verified::by(Algorithm::Blake3)));
    }

    /// The first to have hashed one waits for another: alone it would never come to an end.
    #[test]
    fn several_files_are_hashed_at_a_time() {
        let bench = bench("aaaaaaaaaaaa");
        for hash in [None, Some(Algorithm::Sha256)] {
            let class = Class::of(SIZE as u64, bench.files.clone());
            let (threads, changed) = (Mutex::new(HashSet::new()), Condvar::new());
            let pool = Pool::builder("class").workers(2).build().unwrap();
            class.work(&Work {
                pool: &pool,
                hash,
                is_kept: true,
                folders: &bench.folders,
                follow: false,
                stop: &Stop::new(),
                tally: &Tally::default(),
                unread: &|file, why| panic!("{file:?}: {why:?}"),
                hashed: &|_, _| {
                    let mut threads = threads.lock().unwrap();
                    threads.insert(std::thread::current().id());
                    changed.notify_all();
                    let limit = Duration::from_secs(30);
                    let met = changed.wait_timeout_while(threads, limit, |met| met.len() < 2);
                    assert!(!met.unwrap().1.timed_out(), "nobody else hashes");
                },
            });
            pool.shutdown(Shutdown::default()).unwrap();
            assert_eq!(bench.sets(&class).concat().len(), 12);
        }
    }

    /// After it was opened nobody looks at it before the end: the last look must see it.
    #[test]
    fn what_changes_while_it_is_read_is_in_no_set() {
        let bench = bench("aaa");
        let mut finder = Finder::new(&bench.folders, false);
        let opened: Vec<Opened> =
            bench.files.iter().map(|file| finder.target(*file).open().unwrap()).collect();
        touch(&bench.path(1));
        let pool = Pool::builder("class").workers(2).build().unwrap();
        let stop = Stop::new();
        let shared = ByPool { pool: &pool, stop: &stop };
        let size = SIZE as u64;
        let labels = compare(&opened, size, &shared, &stop, &|_| ());
        assert_eq!(labels, [Ok(0), Err(Unread::Changed), Ok(0)]);
        let digests: Vec<_> = opened
            .iter()
            .map(|file| hash(file, size, Algorithm::Blake3, &shared, &stop, &|_| ()))
            .collect();
        assert_eq!(digests[1], Err(Unread::Changed));
        assert!(digests[0].is_ok() && digests[0] == digests[2]);
        pool.shutdown(Shutdown::default()).unwrap();
    }
}

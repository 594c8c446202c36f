//! What a report costs, counted instead of timed: steps of SQLite's machine, of all questions together.
//! They are the same on every machine. How long they take the last test here prints, which asserts nothing of
//! that; with all around it, `bench/dupes` does (`b-report`):
//!
//! ```sh
//! cargo test --release --locked -p dupes --test report_cost -- --nocapture
//! ```

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use dupes::alike::Likeness;
use dupes::digest::Algorithm;
use dupes::listing::Set;
use dupes::options::Format;
use dupes::output::printer;
use dupes::report::{self, Place};
use dupes::stop::Stop;
use dupes::store::Store;
use dupes::store::rows::{FileRow, FolderRow};
use dupes::store::write::{Record, Writer};
use rustix::time::{ClockId, clock_gettime};
use scans::Bench;

/// Steps for each file that is recorded, listed or not. Whoever makes reports cheaper lowers these two, or
/// the next change could use it up unseen.
const OF_A_FILE: u64 = 12;
/// Steps for each file that is listed, besides.
const OF_A_LISTED_FILE: u64 = 1;
/// Steps for each file in a report of folders, if the last name of all has to be looked up.
const OF_A_FILE_IN_FOLDERS: u64 = 28;
/// How many steps there are between two looks.
const GRAIN: i32 = 10;

/// A database of so many files of one size, with so many pairs among them.
fn scanned(files: usize, pairs: usize) -> Bench {
    let bench = Bench::new();
    for n in 0..files {
        let content = if n < 2 * pairs { n / 2 } else { n };
        bench.write(&format!("{}/{n}", n % 10), format!("{content:100}"));
    }
    bench.scan(&[]);
    bench
}

/// Its steps, from now on.
fn counted(store: &mut Store) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let count_one = move || {
        counted.fetch_add(GRAIN as u64, Relaxed);
        false
    };
    store.connection_mut().progress_handler(GRAIN, Some(count_one)).unwrap();
    count
}

/// The steps of a report, and how many sets it has listed.
fn steps(bench: &Bench) -> (u64, usize) {
    let mut store = Store::open(&bench.database()).unwrap();
    let count = counted(&mut store);
    let mut listing = Vec::new();
    let mut json = printer(Format::Json, false, Box::new(&mut listing));
    report::files(&store, 1, &mut *json, &Stop::new()).unwrap();
    drop(json);
    let listing: serde_json::Value = serde_json::from_slice(&listing).unwrap();
    (count.load(Relaxed), listing["groups"].as_array().unwrap().len())
}

#[test]
fn each_file_is_looked_at_a_few_times_however_many_there_are() {
    let [few, more, most] = [500, 1_000, 2_000].map(|files| steps(&scanned(files, 5)));
    assert_eq!([few.1, more.1, most.1], [5, 5, 5]);
    let (first, second) = (more.0 - few.0, most.0 - more.0);
    let per_file = second / 1_000;
    assert!(per_file > 0, "nothing was counted");
    assert!(per_file <= OF_A_FILE, "{per_file} steps for each file");
    assert!(second <= first * 21 / 10, "twice the files: {first}, then {second} steps");
}

#[test]
fn what_is_listed_is_found_without_looking_for_it() {
    let [few, more] = [100, 600].map(|pairs| steps(&scanned(2_000, pairs)));
    assert_eq!([few.1, more.1], [100, 600]);
    let per_file = (more.0 - few.0) / 1_000;
    assert!(per_file <= OF_A_LISTED_FILE, "{per_file} steps for each file that is listed");
}

/// Folders are compared in memory; the database is read from one end to the other for it.
#[test]
fn a_report_of_folders_reads_each_file_a_few_times() {
    let [few, more, most] = [500, 1_000, 2_000].map(|files| {
        let bench = scanned(files, 5);
        for name in ["zz/one/a", "zz/two/a", "zz/one/b", "zz/two/b", "zz/two/only"] {
            bench.write(name, format!("in two folders, mostly: {}", &name[6..]));
        }
        bench.scan(&[]);
        let mut store = Store::open(&bench.database()).unwrap();
        let count = counted(&mut store);
        let found = report::folders::folders(&store, &Likeness::default()).unwrap().json();
        assert_eq!(found["partial"][0]["only_in"][0]["names"][0], "only", "{found}");
        count.load(Relaxed)
    });
    let (first, second) = (more - few, most - more);
    let per_file = second / 1_000;
    assert!((1..=OF_A_FILE_IN_FOLDERS).contains(&per_file), "{per_file} steps for each file");
    assert!(second <= first * 21 / 10, "twice the files: {first}, then {second} steps");
}

/// What a debug build takes says nothing.
const FOLDERS: i64 = if cfg!(debug_assertions) { 30 } else { 1_000 };
const FILES_OF_EACH: u64 = 100;
const ROUNDS: usize = 5;
/// Of 100 files so many are in sets, of three or four. All are hashed, which a scan would not do.
const IN_SETS: u64 = 45;

/// Files as a scan would record them, 100,000 of them; none is there.
fn recorded(dir: &Path) -> Store {
    let store = Store::open_or_make(&dir.join("dupes.db")).unwrap();
    store.use_algorithm(None).unwrap();
    let root = store.add_root(dir, &[]).unwrap().id;
    let writer = Writer::start(store.path(), 0, Stop::new()).unwrap();
    let all = FOLDERS as u64 * FILES_OF_EACH;
    let row = FolderRow { device: Some(dir.metadata().unwrap().dev()), left_out: 0, error: None };
    let folder = |id: i64, parent: Option<i64>| {
        let name = if parent.is_some() { format!("folder {id}") } else { String::new() };
        let name = name.into_bytes().into();
        [Record::Folder { id, root, parent, name }, Record::Listed(id, row)]
    };
    writer.add(folder(1, None));
    for id in 2..=FOLDERS {
        writer.add(folder(id, Some(id / 10 + 1).filter(|above| *above < id)));
    }
    let file = |n: u64| {
        let is_copy = n % 100 < IN_SETS;
        // Copies lie in three folders far from each other.
        let content = if is_copy { n % (all / 300 * 100) } else { all + n };
        let size = 1 + content * 7_919 % 1_000_000;
        let row = FileRow {
            device: None,
            inode: 1_000 + n,
            size,
            blocks: size.div_ceil(4_096) * 8,
            links: 1,
            mtime: 0,
            ctime: 0,
            racy: false,
            sample: None,
            digest: Some(Algorithm::Blake3.digest(&content.to_le_bytes())),
            error: None,
        };
        let id = 1 + (n / FILES_OF_EACH) as i64;
        Record::File(id, format!("picture {n}.jpeg").into_bytes().into(), row)
    };
    writer.add((0..all).map(file));
    writer.finish().unwrap();
    store.make_indexes().unwrap();
    store
}

#[test]
fn how_long_the_question_takes_by_itself_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = recorded(dir.path());
    // Whether files can share blocks there is asked of the first that could go, and of the next if that is gone.
    let mut first = None;
    let note = |set: &Set, _: &[Place]| {
        first.get_or_insert_with(|| set.files[1].paths[0].clone());
        Ok(())
    };
    report::sets(&store, 1, true, &Stop::new(), note).unwrap();
    let first = PathBuf::from(OsString::from_vec(first.unwrap()));
    fs::create_dir_all(first.parent().unwrap()).unwrap();
    fs::write(first, "x").unwrap();
    let mut took = [(); ROUNDS].map(|()| {
        let (begun, ran) = (Instant::now(), clock_gettime(ClockId::ThreadCPUTime));
        report::sets(&store, 1, true, &Stop::new(), |_, _| Ok(())).unwrap();
        let ran = clock_gettime(ClockId::ThreadCPUTime) - ran;
        [begun.elapsed(), Duration::try_from(ran).unwrap()].map(|time| time.as_secs_f64() * 1e3)
    });
    took.sort_unstable_by(|one, other| one[0].total_cmp(&other[0]));
    let [median, ran] = took[ROUNDS / 2];
    let ([least, _], [most, _]) = (took[0], took[ROUNDS - 1]);
    let steps = counted(&mut store);
    let totals = report::sets(&store, 1, true, &Stop::new(), |_, _| Ok(())).unwrap();
    println!(
        "{} files, {} sets: {median:.1} ms, {ran:.1} of them on a core (median of {ROUNDS}, from {least:.1} to \
         {most:.1}), {} steps",
        totals.files,
        totals.sets,
        steps.load(Relaxed),
    );
    assert_eq!(totals.files, FOLDERS as u64 * FILES_OF_EACH);
    assert_eq!(totals.sets, totals.files / 300 * IN_SETS);
}

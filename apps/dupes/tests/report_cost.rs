//! What a report costs, counted instead of timed: steps of SQLite's machine, of all questions together.
//! They are the same on every machine; `bench/dupes` says how long they take (`b-report`).

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dupes::options::Format;
use dupes::output::printer;
use dupes::report;
use dupes::stop::Stop;
use dupes::store::Store;
use scans::Bench;

/// Steps for each file that is recorded, listed or not. Whoever makes reports cheaper lowers these two, or
/// the next change could use it up unseen.
const OF_A_FILE: u64 = 24;
/// Steps for each file that is listed, besides.
const OF_A_LISTED_FILE: u64 = 1;
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

/// The steps of a report, and how many sets it has listed.
fn steps(bench: &Bench) -> (u64, usize) {
    let mut store = Store::open(&bench.database()).unwrap();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let count_one = move || {
        counted.fetch_add(GRAIN as u64, Relaxed);
        false
    };
    store.connection_mut().progress_handler(GRAIN, Some(count_one)).unwrap();
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

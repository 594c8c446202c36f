//! Several roots, scanned together or one by one, whenever: what is reported is what a search of all of them
//! would find.

mod support;

#[path = "support/scans.rs"]
mod scans;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use dupes::cli::{self, Command as Verb};
use dupes::find::Live;
use dupes::scan::{self, Scan, Turn};
use dupes::store::Store;
use proptest::prelude::*;
use scans::{Bench, number, until_the_clock_of_files_has_moved};
use serde_json::Value;
use support::{can_inject, json, stderr};

const SMALL: usize = 100;
const LARGE: usize = 100_000;

/// A root, and what counts there.
struct Place {
    path: PathBuf,
    words: Vec<String>,
}

fn place(bench: &Bench, name: &str, words: &[&str]) -> Place {
    let path = bench.dir.path().join(name);
    fs::create_dir_all(&path).unwrap();
    Place { path, words: words.iter().map(ToString::to_string).collect() }
}

fn write(place: &Place, name: &str, bytes: impl AsRef<[u8]>) {
    let path = place.path.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// As `dupes scan` with these roots, ten seconds later; what each of its scans has counted.
fn scan(bench: &Bench, places: &[&Place], words: &[&str]) -> Vec<Value> {
    let store = Store::open_or_make(&bench.database()).unwrap();
    let lock = store.lock("a test").unwrap();
    let mut roots: Vec<_> =
        places.iter().map(|place| scan::root(&store, &place.path, &place.words).unwrap()).collect();
    roots.sort_by(|one, other| one.path.cmp(&other.path));
    let groups: Vec<_> = roots.chunk_by(|one, other| one.words == other.words).collect();
    let (mut summaries, mut scanned) = (Vec::new(), Vec::new());
    for (at, roots) in groups.iter().enumerate() {
        let line = ["dupes", "--no-config", "scan"].iter().chain(words).map(Into::into);
        let Ok(Verb::Scan(mut asked)) = cli::parse(line, &mut std::io::empty()) else {
            panic!("it is a good command line")
        };
        asked.request.now = SystemTime::now() + Duration::from_secs(10);
        let filter = cli::recorded_filter(&roots[0].words).unwrap();
        let begun =
            Scan::begin(&store, &lock, asked.request, roots.to_vec(), filter, Live::default());
        let is_last = at + 1 == groups.len();
        let turn = if is_last { Turn::Last(scanned.clone()) } else { Turn::First };
        summaries.push(begun.unwrap().finish_as(turn).unwrap().json());
        scanned.extend(roots.iter().map(|root| root.id));
    }
    until_the_clock_of_files_has_moved(bench.dir.path());
    summaries
}

fn sum(summaries: &[Value], what: &str) -> u64 {
    summaries.iter().map(|summary| number(summary, what)).sum()
}

/// Sets of sets of names, those of one file together.
type Sets = BTreeSet<BTreeSet<BTreeSet<String>>>;

fn sets(output: &Output) -> Sets {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let listing = json(output);
    let name = |path: &Value| path.as_str().unwrap().to_owned();
    let files = |group: &Value| {
        let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in group["paths"].as_array().unwrap() {
            files.entry(name(path)).or_default().insert(name(path));
        }
        for link in group["links"].as_array().unwrap() {
            files.get_mut(&name(&link["of"])).unwrap().insert(name(&link["path"]));
        }
        files.into_values().collect()
    };
    listing["groups"].as_array().unwrap().iter().map(files).collect()
}

fn reported(bench: &Bench) -> Sets {
    sets(&bench.dupes(&["report", "files", "--json"]))
}

fn found(places: &[&Place]) -> Sets {
    let mut find = Command::new(env!("CARGO_BIN_EXE_dupes"));
    find.args(["find", "--no-config", "--format", "json"]);
    sets(&find.args(places.iter().map(|place| &place.path)).output().unwrap())
}

// ------------------------------------------------------------ any order

/// Where a name begins with `c` it does not count below a root with this filter.
const FILTER: &str = "--exclude=c*";

/// By reading everything.
fn naive(places: &[&Place]) -> Sets {
    let mut files: BTreeMap<Vec<u8>, BTreeMap<u64, BTreeSet<String>>> = BTreeMap::new();
    let mut folders: Vec<(PathBuf, bool)> =
        places.iter().map(|place| (place.path.clone(), !place.words.is_empty())).collect();
    while let Some((folder, is_filtered)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if is_filtered && entry.file_name().to_str().unwrap().starts_with('c') {
                continue;
            }
            let (path, found) = (entry.path(), entry.metadata().unwrap());
            if found.is_dir() {
                folders.push((path, is_filtered));
            } else if found.len() > 0 {
                let content = files.entry(fs::read(&path).unwrap()).or_default();
                let names = content.entry(found.ino()).or_default();
                names.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    let several = files.into_values().filter(|files| files.len() > 1);
    several.map(|files| files.into_values().collect()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, String, usize, u8),
    Remove(usize, String),
    Rename((usize, String), (usize, String)),
    Link((usize, String), (usize, String)),
    Scan(Vec<usize>, &'static str),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let root = || 0_usize..3;
    let place = || (root(), "[abc](/[abc])?");
    let len = prop_oneof![2 => 0_usize..3, 2 => Just(5_000_usize), 3 => Just(70_000_usize)];
    let modes = vec!["all", "all", "all", "files", "folders", "--restart"];
    let step = prop_oneof![
        6 => (place(), len, 0_u8..3).prop_map(|((root, name), len, fill)| Step::Write(root, name, len, fill)),
        1 => place().prop_map(|(root, name)| Step::Remove(root, name)),
        1 => (place(), place()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Step::Link(from, to)),
        4 => (prop::collection::vec(root(), 1..4), prop::sample::select(modes))
            .prop_map(|(roots, mode)| Step::Scan(roots, mode)),
    ];
    prop::collection::vec(step, 1..25)
}

fn apply(bench: &Bench, places: &[Place], step: &Step) {
    let path = |(root, name): &(usize, String)| places[*root].path.join(name);
    // Most fail at times, since what they are about is not there, or is something else.
    match step {
        Step::Write(root, name, len, fill) => {
            let path = path(&(*root, name.clone()));
            let _ = fs::create_dir_all(path.parent().unwrap());
            // The middle and the end are as those of others.
            let mut bytes = vec![0; *len];
            if let Some(byte) = bytes.get_mut(len / 3) {
                *byte = *fill;
            }
            let _ = fs::write(path, bytes);
        }
        Step::Remove(root, name) => {
            let path = path(&(*root, name.clone()));
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
        }
        Step::Rename(from, to) => drop(fs::rename(path(from), path(to))),
        Step::Link(from, to) => drop(fs::hard_link(path(from), path(to))),
        Step::Scan(roots, mode) => {
            let roots: BTreeSet<usize> = roots.iter().copied().collect();
            let roots: Vec<&Place> = roots.iter().map(|root| &places[*root]).collect();
            scan(bench, &roots, &[mode]);
        }
    }
}

fn cases() -> u32 {
    let cases = std::env::var("TIDEGATE_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.unwrap_or(40)
}

/// Each of three roots once, in any order, some together.
fn rounds() -> impl Strategy<Value = Vec<Vec<usize>>> {
    prop::sample::select(vec![
        vec![vec![0, 1, 2]],
        vec![vec![0], vec![1], vec![2]],
        vec![vec![2], vec![1], vec![0]],
        vec![vec![0, 1], vec![2]],
        vec![vec![1], vec![0, 2]],
        vec![vec![1, 2], vec![0]],
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_scans_of_any_roots_find_what_one_search_does(
        steps in steps(),
        rounds in rounds(),
        filters in prop::collection::vec(any::<bool>(), 3),
    ) {
        let bench = Bench::new();
        let places: Vec<Place> = ["one", "three", "two"]
            .iter()
            .zip(&filters)
            .map(|(name, is_filtered)| place(&bench, name, if *is_filtered { &[FILTER] } else { &[] }))
            .collect();
        steps.iter().for_each(|step| apply(&bench, &places, step));
        for round in &rounds {
            scan(&bench, &round.iter().map(|root| &places[*root]).collect::<Vec<_>>(), &[]);
        }
        let all: Vec<&Place> = places.iter().collect();
        prop_assert_eq!(reported(&bench), naive(&all));
        if filters.iter().all(|is_filtered| !is_filtered) {
            prop_assert_eq!(reported(&bench), found(&all));
        }
        // A file with names in two roots that are scanned apart is read once by each of them, one scan later.
        for is_last in [false, true] {
            for round in &rounds {
                let again = scan(&bench, &round.iter().map(|root| &places[*root]).collect::<Vec<_>>(), &[]);
                prop_assert!(!is_last || sum(&again, "reads") == 0, "nothing has changed");
            }
        }
        prop_assert_eq!(reported(&bench), naive(&all));
    }
}

// ------------------------------------------------------------ by the program

fn scanned(bench: &Bench, places: &[&Place], words: &[&str]) -> Output {
    let paths = places.iter().map(|place| place.path.to_str().unwrap());
    let words: Vec<&str> =
        ["scan", "--progress", "never"].into_iter().chain(words.iter().copied()).collect();
    bench.dupes(&words.into_iter().chain(paths).collect::<Vec<_>>())
}

/// Two roots with a small and a large file each that are equal, and one of each size that is not.
fn two(bench: &Bench) -> [Place; 2] {
    let places = [place(bench, "one", &[]), place(bench, "two", &[])];
    for (place, fill) in places.iter().zip([1, 2]) {
        write(place, "small", [0; SMALL]);
        write(place, "other", [fill; SMALL + 1]);
        write(place, "large", vec![0; LARGE]);
        write(place, "other-large", vec![fill; LARGE + 1]);
        let mut bytes = vec![0; LARGE + 2];
        bytes[LARGE / 3] = fill;
        write(place, "like-a-large", bytes);
    }
    places
}

#[test]
fn roots_that_are_scanned_one_by_one_have_their_sets() {
    let bench = Bench::new();
    let [one, two] = two(&bench);
    assert_eq!(scanned(&bench, &[&one], &[]).status.code(), Some(0));
    let output = scanned(&bench, &[&two], &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(number(&json(&output), "read_in_other_roots"), 4, "{output:?}");
    assert_eq!(reported(&bench).len(), 2);
    assert_eq!(reported(&bench), found(&[&one, &two]));
}

#[test]
fn roots_with_different_filters_have_their_sets() {
    let bench = Bench::new();
    let [one, two] = two(&bench);
    let add = |place: &Place, words: &[&str]| {
        let path = place.path.to_str().unwrap();
        bench.dupes(&[&["roots", "add"], words, &[path]].concat()).status.code()
    };
    assert_eq!((add(&one, &["--exclude=x"]), add(&two, &[])), (Some(0), Some(0)));
    let output = bench.dupes(&["scan", "--progress", "never"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("2 roots, "), "one after the other, and told as one: {said}");
    assert_eq!(reported(&bench), found(&[&one, &two]));
}

/// What was recorded of them does not hold any more: it is neither read nor taken for gone.
#[test]
fn files_of_other_roots_that_have_changed_are_left_to_the_scan_of_those() {
    let bench = Bench::new();
    let [one, two] = two(&bench);
    scan(&bench, &[&one], &[]);
    write(&one, "small", [3; SMALL]);
    fs::remove_file(one.path.join("large")).unwrap();
    let before = bench.dump();
    let output = scanned(&bench, &[&two], &["--json"]);
    assert_eq!(output.status.code(), Some(0), "that is no problem of this scan: {output:?}");
    assert_eq!(number(&json(&output), "changed_in_other_roots"), 2);
    assert!(stderr(&output).contains("2 files of other roots changed"), "{output:?}");
    let after = bench.dump();
    let path = |name: &str| one.path.join(name).into_os_string().into_encoded_bytes();
    for name in ["small", "large"] {
        assert_eq!(after.files[&path(name)], before.files[&path(name)]);
    }
    assert_eq!(reported(&bench), Sets::new());
    scan(&bench, &[&one], &[]);
    assert_eq!(reported(&bench), found(&[&one, &two]));
}

#[test]
fn a_file_of_another_root_that_can_not_be_read_is_said_and_tried_again() {
    if !can_inject() {
        return;
    }
    let bench = Bench::new();
    let [one, two] = two(&bench);
    scan(&bench, &[&one], &[]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-P"]).arg(one.path.join("small"));
    command.args(["-e", "trace=open,openat", "-e", "inject=open,openat:error=EIO"]);
    command.args([env!("CARGO_BIN_EXE_dupes"), "scan", "--no-config", "--json", "--database"]);
    let output = command.arg(bench.database()).arg(&two.path).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("one/small: file not read"), "{output:?}");
    assert_eq!(reported(&bench).len(), 1, "the large ones");
    assert_eq!(scanned(&bench, &[&two], &[]).status.code(), Some(0));
    assert_eq!(reported(&bench), found(&[&one, &two]));
}

// ------------------------------------------------------------ in a drawer

fn put_away(place: &Place) -> PathBuf {
    let away = place.path.with_extension("away");
    fs::rename(&place.path, &away).unwrap();
    away
}

fn unread_offline(bench: &Bench) -> u64 {
    let output = bench.dupes(&["report", "files", "--json"]);
    let count = number(&json(&output)["totals"], "unread_offline");
    let is_said = stderr(&output).contains(&format!("dupes: {count} file"))
        && stderr(&output).contains("of roots that are offline");
    assert_eq!(is_said, count > 0, "{output:?}");
    count
}

#[test]
fn what_is_offline_is_matched_by_its_hashes_and_the_rest_is_said() {
    let bench = Bench::new();
    let [one, two] = two(&bench);
    write(&one, "another-large", vec![0; LARGE]);
    scan(&bench, &[&one], &[]);
    let away = put_away(&one);
    let output = scanned(&bench, &[&two], &["--json"]);
    assert_eq!(output.status.code(), Some(3), "not all could be read: {output:?}");
    // Of one size with those here, and nobody knows more: small, other, other-large, like-a-large.
    assert_eq!(number(&json(&output), "unread_offline"), 4);
    assert!(stderr(&output).contains("4 files of roots that are offline"), "{output:?}");
    let sets = reported(&bench);
    assert_eq!(sets.len(), 1, "{sets:?}");
    assert_eq!(sets.first().unwrap().len(), 3, "{sets:?}");
    assert_eq!(unread_offline(&bench), 4);
    fs::rename(away, &one.path).unwrap();
    assert_eq!(scanned(&bench, &[&one], &[]).status.code(), Some(0));
    assert_eq!(unread_offline(&bench), 0);
    assert_eq!(reported(&bench), found(&[&one, &two]));
}

#[test]
fn of_a_root_with_all_hashes_everything_can_be_told_later() {
    let bench = Bench::new();
    let [one, two] = two(&bench);
    write(&one, "alone", [1; 7]);
    write(&one, "large-alone", [1; LARGE + 7]);
    assert_eq!(sum(&scan(&bench, &[&one], &[]), "reads"), 0);
    // Small ones once, large ones also for their samples.
    assert_eq!(sum(&scan(&bench, &[&one], &["--all-hashes"]), "reads"), 3 + 2 * 4);
    assert!(bench.dump().files.values().all(|(_, hash)| hash.is_some()));
    assert_eq!(sum(&scan(&bench, &[&one], &["--all-hashes"]), "reads"), 0);
    let all = found(&[&one, &two]);
    put_away(&one);
    assert_eq!(scanned(&bench, &[&two], &[]).status.code(), Some(0));
    assert_eq!((unread_offline(&bench), reported(&bench)), (0, all));
}

#[test]
fn a_sample_that_no_file_here_has_needs_no_more() {
    let bench = Bench::new();
    let [one, two] = [place(&bench, "one", &[]), place(&bench, "two", &[])];
    for (name, fill) in [("a", 1), ("b", 2)] {
        write(&one, name, vec![fill; LARGE]);
    }
    scan(&bench, &[&one], &[]);
    put_away(&one);
    write(&two, "c", vec![3; LARGE]);
    assert_eq!(scanned(&bench, &[&two], &[]).status.code(), Some(0));
    assert_eq!(unread_offline(&bench), 0);
    write(&two, "d", vec![2; LARGE]);
    assert_eq!(scanned(&bench, &[&two], &[]).status.code(), Some(3));
    assert_eq!(unread_offline(&bench), 1, "it may be a copy of b");
}

/// By whichever way it was scanned last.
#[test]
fn a_folder_behind_a_link_is_told_as_it_is_and_is_no_copy_of_itself() {
    let bench = Bench::new();
    let (one, two) = (place(&bench, "one", &["--follow"]), place(&bench, "two", &[]));
    write(&two, "in/1", [1; SMALL]);
    write(&two, "in/2", [2; SMALL + 1]);
    write(&two, "other", [1; SMALL]);
    std::os::unix::fs::symlink("../two/in", one.path.join("link")).unwrap();
    let folders = || {
        let said = bench.dupes(&["report", "folders", "--json"]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        json(&said)["exact"].as_array().unwrap().len()
    };
    scan(&bench, &[&one], &[]);
    scan(&bench, &[&two], &[]);
    assert_eq!((reported(&bench).len(), folders()), (1, 0));
    // Links elsewhere do not make it two folders.
    for name in ["1", "2"] {
        fs::hard_link(two.path.join("in").join(name), bench.dir.path().join(name)).unwrap();
    }
    scan(&bench, &[&one, &two], &[]);
    assert_eq!((reported(&bench).len(), folders()), (1, 0), "the folder is no copy of itself");
    write(&two, "in/1", [3; SMALL]);
    scan(&bench, &[&one, &two], &[]);
    assert_eq!(reported(&bench), found(&[&one, &two]), "it has changed");
    fs::remove_file(two.path.join("in/1")).unwrap();
    scan(&bench, &[&one, &two], &[]);
    assert_eq!(reported(&bench), found(&[&one, &two]), "it is gone");
}

//! What is found is what a naive search finds: on random trees, with one thread and with many, with a
//! splitter that tells nothing apart, with every hash.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use dupes::cli::{self, Command};
use dupes::find::{Live, Run};
use dupes::listing::{Set, Totals};
use dupes::output::Printer;
use dupes::split::Splitter;
use proptest::prelude::*;
use tempfile::TempDir;

type Sets = BTreeSet<BTreeSet<BTreeSet<Vec<u8>>>>;

/// Keeps what it is told.
#[derive(Default)]
struct Kept(Vec<Set>);

impl Printer for Kept {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        self.0.push(set.clone());
        Ok(())
    }

    fn end(&mut self, _: &Totals) -> io::Result<()> {
        Ok(())
    }
}

fn find(root: &Path, more: &[&str], splitter: Splitter) -> (Vec<Set>, Totals, Live) {
    let mut args: Vec<OsString> =
        ["dupes", "find", "--progress", "never"].map(OsString::from).into();
    args.extend(more.iter().map(OsString::from));
    args.push(root.into());
    let command = cli::parse(args, &mut io::empty());
    let Ok(Command::Find(options)) = command else { panic!("it is a good command line") };
    let live = Live::default();
    let run = Run::new(*options, splitter, live.clone(), None).expect("workers start");
    let sets = run.finish().expect("nobody stops it");
    let mut kept = Kept::default();
    let totals = sets.print(&mut kept, &live.stop).expect("nothing is written");
    (kept.0, totals, live)
}

fn names(sets: &[Set]) -> Sets {
    sets.iter()
        .map(|set| set.files.iter().map(|file| file.paths.iter().cloned().collect()).collect())
        .collect()
}

/// Every file by its content, read whole.
fn naive(root: &Path, least: u64) -> Sets {
    let mut contents: BTreeMap<Vec<u8>, BTreeMap<(u64, u64), BTreeSet<Vec<u8>>>> = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let seen = fs::symlink_metadata(&path).unwrap();
            if seen.is_dir() {
                folders.push(path);
            } else if seen.is_file() && seen.len() >= least {
                let files = contents.entry(fs::read(&path).unwrap()).or_default();
                let names = files.entry((seen.dev(), seen.ino())).or_default();
                names.insert(path.into_os_string().into_vec());
            }
        }
    }
    let sets = contents.into_values().filter(|files| files.len() > 1);
    sets.map(|files| files.into_values().collect()).collect()
}

/// What a file is made of.
#[derive(Clone, Debug)]
enum Thing {
    /// `len` bytes that are the same but for one at `odd`, which is `which`.
    File {
        len: usize,
        odd: usize,
        which: u8,
    },
    /// Another name of a file that was there before.
    Link(usize),
    /// A symbolic link to it.
    Symlink(usize),
    Folder,
}

/// Lengths around what is read whole, a sample, a piece and a range.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0_usize..5,
        3 => Just(4_096_usize),
        2 => Just(65_536_usize),
        2 => Just(65_537_usize),
        2 => Just(70_000_usize),
        1 => Just(300_000_usize),
    ]
}

fn things() -> impl Strategy<Value = Vec<(Vec<u8>, u8, Thing)>> {
    let file = (lengths(), any::<prop::sample::Index>(), 0_u8..3).prop_map(|(len, odd, which)| {
        // Few places, so that some are equal and some differ just there.
        let places = [0, len / 3, len / 2, len.saturating_sub(1), len * 5 / 6];
        Thing::File { len, odd: places[odd.index(places.len())], which }
    });
    let thing = prop_oneof![
        12 => file,
        1 => any::<u8>().prop_map(|n| Thing::Link(n.into())),
        1 => any::<u8>().prop_map(|n| Thing::Symlink(n.into())),
        2 => Just(Thing::Folder),
    ];
    let name = prop_oneof![
        4 => "[a-c]{1,3}".prop_map(String::into_bytes),
        1 => prop::collection::vec(1_u8..=255, 1..20).prop_map(|name| {
            let mut name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'/').collect();
            name.push(b'x');
            name
        }),
    ];
    prop::collection::vec((name, any::<u8>(), thing), 0..40)
}

fn build(things: &[(Vec<u8>, u8, Thing)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut folders = vec![dir.path().to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, at, thing) in things {
        let folder = &folders[usize::from(*at) % folders.len()];
        let path = folder.join(OsString::from_vec(name.clone()));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match thing {
            Thing::File { len, odd, which } => {
                let mut bytes = vec![7; *len];
                if let Some(byte) = bytes.get_mut(*odd) {
                    *byte = *which;
                }
                fs::write(&path, bytes).unwrap();
                files.push(path);
            }
            Thing::Link(of) if !files.is_empty() => {
                fs::hard_link(&files[of % files.len()], path).unwrap();
            }
            Thing::Symlink(to) if !files.is_empty() => {
                symlink(&files[to % files.len()], path).unwrap();
            }
            Thing::Folder => {
                fs::create_dir(&path).unwrap();
                folders.push(path);
            }
            Thing::Link(_) | Thing::Symlink(_) => {}
        }
    }
    dir
}

fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn random_trees_give_the_sets_of_a_naive_search(things in things()) {
        let tree = build(&things);
        let expected = [0, 1].map(|least| naive(tree.path(), least));
        let ways: [(&[&str], Splitter, usize); 6] = [
            (&[], Splitter::default(), 1),
            (&["--threads", "1", "--min-size", "0"], Splitter::default(), 0),
            (&["--threads", "4", "--io-threads", "7"], Splitter::blind(), 1),
            (&["--hash", "blake3"], Splitter::blind(), 1),
            (&["--hash", "sha512"], Splitter::default(), 1),
            (&["--hash", "xxh3"], Splitter::default(), 1),
        ];
        for (more, splitter, least) in ways {
            let (sets, totals, live) = find(tree.path(), more, splitter);
            prop_assert_eq!(&names(&sets), &expected[least], "{:?}", more);
            prop_assert_eq!(live.problems.count(), 0);
            prop_assert_eq!(totals.sets, sets.len() as u64);
        }
    }

    #[test]
    fn whatever_is_in_no_set_is_unique(things in things()) {
        let tree = build(&things);
        let (sets, ..) = find(tree.path(), &[], Splitter::default());
        let (alone, ..) = find(tree.path(), &["--unique"], Splitter::default());
        let (all, ..) = find(tree.path(), &["--rf-over", "0"], Splitter::default());
        prop_assert!(alone.iter().all(|set| set.files.len() == 1));
        let mut both = names(&sets);
        both.extend(names(&alone));
        prop_assert_eq!(names(&all), both);
    }
}

/// More of a class than are compared side by side, and files of several ranges.
#[test]
fn many_and_large_files_of_one_class() {
    let dir = tempfile::tempdir().unwrap();
    let large = (40 << 20) + 4_321;
    for n in 0_u8..5 {
        let mut bytes = vec![1; large];
        // Not where samples are taken from.
        bytes[(33 << 20) + 77] = n / 2;
        fs::write(dir.path().join(format!("large{n}")), bytes).unwrap();
    }
    for n in 0_u8..30 {
        let mut bytes = vec![2; 200_000];
        bytes[50_000] = n % 10;
        fs::write(dir.path().join(format!("many{n}")), bytes).unwrap();
    }
    let expected = naive(dir.path(), 1);
    assert_eq!(expected.len(), 12);
    for more in [&[][..], &["--hash", "blake3"], &["--hash", "sha256"], &["--threads", "1"]] {
        let (sets, ..) = find(dir.path(), more, Splitter::default());
        assert_eq!(names(&sets), expected, "{more:?}");
        for set in &sets {
            let known = (!more.contains(&"--hash"), set.size == large as u64);
            let verified = set.verified.name();
            match known {
                (true, true) => assert_eq!((verified, set.digest), ("bytes", None)),
                (true, false) => assert_eq!(verified, "blake3"),
                (false, _) => {
                    assert_eq!(verified, more[1]);
                    let bytes =
                        fs::read(PathBuf::from(OsString::from_vec(set.files[0].paths[0].clone())));
                    let algorithm = dupes::digest::Algorithm::NAMES
                        .iter()
                        .find(|(name, _)| *name == more[1])
                        .unwrap();
                    assert_eq!(set.digest, Some(algorithm.1.digest(&bytes.unwrap())));
                }
            }
        }
    }
}

/// Where samples are not taken from, and long before their end.
#[test]
fn files_that_differ_early_are_not_read_to_their_end() {
    let dir = tempfile::tempdir().unwrap();
    const SIZE: usize = 64 << 20;
    for n in 0_u8..2 {
        let mut bytes = vec![1; SIZE];
        bytes[100_000] = n;
        fs::write(dir.path().join(n.to_string()), bytes).unwrap();
    }
    let (sets, totals, _) = find(dir.path(), &["--threads", "1"], Splitter::default());
    assert_eq!(sets.len(), 0);
    assert!(totals.bytes_read < SIZE as u64 / 8, "{} bytes were read", totals.bytes_read);
}

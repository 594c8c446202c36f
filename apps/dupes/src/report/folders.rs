//! Folders that are alike, as of the last scans. What makes them so is in `alike.rs`; here is where it
//! comes from, and how it is told.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Paths;
use super::gather::{Gathered, each_file};
use crate::alike::{Alike, Likeness, PartialPair, Sample, find};
use crate::count::Count;
use crate::escape::escaped;
use crate::output::{OFFLINE, json_path};
use crate::size::Size;
use crate::store::roots::Root;
use crate::store::{Error, Store};

/// In the order of the files that were gathered.
const NAMES: &str = "SELECT folder, name FROM files WHERE removed IS NULL ORDER BY folder, name";

/// What was found, with the names of what is told.
#[derive(Debug, Default)]
pub struct Report {
    pub(super) alike: Alike,
    /// The folders that are told, as the database numbers them.
    pub(super) ids: HashMap<u32, i64>,
    /// Of these, those that can't be looked at now.
    pub(super) offline: HashSet<u32>,
    /// Of folders.
    paths: HashMap<u32, Vec<u8>>,
    /// Of files, from the folder on that they are told of.
    files: HashMap<u32, Vec<u8>>,
}

/// Looks through the whole database, as of one moment.
pub fn folders(store: &Store, likeness: &Likeness) -> Result<Report, Error> {
    let _moment = store.moment()?;
    let roots = store.roots()?;
    store.wrap(look(store.connection(), roots, likeness))
}

fn look(
    connection: &Connection,
    roots: Vec<Root>,
    likeness: &Likeness,
) -> rusqlite::Result<Report> {
    let Gathered { trees, numbers, ids, further, .. } = Gathered::new(connection, &roots)?;
    let mut report = Report { alike: find(&trees, likeness), ..Report::default() };
    let told = report.told_folders();
    report.offline = told.iter().copied().filter(|folder| !trees.is_online(*folder)).collect();
    drop(trees);
    let roots = roots.into_iter().map(|root| (root.id, root.path.into_os_string().into_vec()));
    let paths = Paths::new(connection, roots.collect())?;
    for folder in told {
        report.paths.insert(folder, paths.of(ids[folder as usize]));
        report.ids.insert(folder, ids[folder as usize]);
    }
    let told = report.told_files();
    let (mut files, mut further) = (0, further.into_iter().peekable());
    let mut number = 0;
    each_file(connection, NAMES, &numbers, |folder, name, _| {
        files += 1;
        if further.next_if_eq(&(files - 1)).is_some() {
            return Ok(true);
        }
        if told.contains(&number) {
            let mut path = paths.of(ids[folder as usize]);
            crate::folders::join(&mut path, name);
            report.files.insert(number, path);
        }
        number += 1;
        Ok(report.files.len() < told.len())
    })?;
    Ok(report)
}

impl Report {
    fn told_folders(&self) -> HashSet<u32> {
        let Alike { exact, partial, contained, .. } = &self.alike;
        let exact = exact.iter().flat_map(|set| set.folders.iter().copied());
        let partial = partial.iter().flat_map(|pair| pair.folders);
        let contained = contained.iter().flat_map(|held| [held.folder, held.within]);
        exact.chain(partial).chain(contained).collect()
    }

    fn told_files(&self) -> HashSet<u32> {
        let pairs = self.alike.partial.iter();
        let told = pairs.flat_map(|pair| {
            let single = pair.only.iter().chain(&pair.not_compared);
            let single = single.flat_map(|files| files.examples.iter().copied());
            let both = [&pair.other_content, &pair.other_time];
            single.chain(both.into_iter().flat_map(|both| both.examples.iter().flatten().copied()))
        });
        told.collect()
    }

    fn path(&self, folder: u32) -> &[u8] {
        self.paths.get(&folder).map_or(b"?", Vec::as_slice)
    }

    /// From a folder on that it lies in.
    pub(super) fn name(&self, file: u32, folder: u32) -> &[u8] {
        let path = self.files.get(&file).map_or(&b"?"[..], Vec::as_slice);
        let below = path.strip_prefix(self.path(folder)).unwrap_or(path);
        below.strip_prefix(b"/").unwrap_or(below)
    }

    // ------------------------------------------------------------ for programs

    /// One object; lists of names have the first ones of as many as `count` says.
    pub fn json(&self) -> Value {
        let path = |folder: &u32| json_path(self.path(*folder));
        let offline = |folders: &[u32]| self.offline(folders);
        let exact = self.alike.exact.iter().map(|set| {
            json!({
                "folders": set.folders.iter().map(path).collect::<Vec<_>>(),
                "offline": offline(&set.folders),
                "files": set.files,
                "bytes": set.bytes,
                "reclaimable": set.winnings,
                "in_pair": set.is_in_pair,
            })
        });
        let contained = self.alike.contained.iter().map(|held| {
            json!({
                "folder": path(&held.folder),
                "within": path(&held.within),
                "offline": offline(&[held.folder, held.within]),
                "files": held.files,
                "bytes": held.bytes,
                "reclaimable": held.winnings,
                "in_pair": held.is_in_pair,
            })
        });
        json!({
            "exact": exact.collect::<Vec<_>>(),
            "partial": self.alike.partial.iter().map(|pair| self.pair(pair)).collect::<Vec<_>>(),
            "contained": contained.collect::<Vec<_>>(),
            "complete": self.alike.is_complete,
            "totals": {
                "exact": self.alike.exact.len(),
                "partial": self.alike.partial.len(),
                "contained": self.alike.contained.len(),
            },
        })
    }

    /// Of these folders, as of files in a listing.
    fn offline(&self, folders: &[u32]) -> Vec<Value> {
        let offline = folders.iter().filter(|folder| self.offline.contains(folder));
        offline.map(|folder| json_path(self.path(*folder))).collect()
    }

    fn pair(&self, pair: &PartialPair) -> Value {
        let [one, other] = pair.folders;
        let of_side = |(sample, folder): (&Sample<u32>, u32)| {
            let names = sample.examples.iter().map(|file| json_path(self.name(*file, folder)));
            json!({ "count": sample.count, "names": names.collect::<Vec<_>>() })
        };
        let of_both = |samples: &[Sample<u32>; 2]| -> Vec<Value> {
            samples.iter().zip(pair.folders).map(of_side).collect()
        };
        let both = |sample: &Sample<[u32; 2]>| {
            let names = sample.examples.iter().map(|[file, _]| json_path(self.name(*file, one)));
            json!({ "count": sample.count, "names": names.collect::<Vec<_>>() })
        };
        json!({
            "folders": [json_path(self.path(one)), json_path(self.path(other))],
            "offline": self.offline(&pair.folders),
            "similarity": similarity(pair),
            "files": pair.files,
            "shared": pair.shared,
            "shared_bytes": pair.shared_bytes,
            "reclaimable": pair.winnings,
            "only_in": of_both(&pair.only),
            "not_compared": of_both(&pair.not_compared),
            "other_content": both(&pair.other_content),
            "other_time": both(&pair.other_time),
        })
    }

    // ------------------------------------------------------------ for people

    /// Some lines for each, the largest winnings first.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let shown = |folder: u32| {
            let mark = if self.offline.contains(&folder) { "  O " } else { "    " };
            format!("{mark}{}", escaped(self.path(folder)))
        };
        // Writing to a String can't fail; neither here nor below.
        for set in &self.alike.exact {
            let files = Count(set.files.into(), "file");
            let (bytes, free) = (Size(set.bytes), Size(set.winnings));
            let _ = writeln!(text, "equal: {files}, {bytes} in each, {free} reclaimable");
            for folder in &set.folders {
                let _ = writeln!(text, "{}", shown(*folder));
            }
            text.push('\n');
        }
        for pair in &self.alike.partial {
            let all = all_files(pair);
            let (all, free) = (Count(all.into(), "file"), Size(pair.winnings));
            let percent = (similarity(pair) * 100.0).floor();
            let _ = writeln!(
                text,
                "{percent} % alike: {} of {all} shared, {free} reclaimable",
                pair.shared
            );
            for side in 0..2 {
                let _ = writeln!(text, "{}", shown(pair.folders[side]));
                // What has other content has a line of its own.
                let both = [
                    ("only here", &pair.only, pair.other_content.count),
                    ("not compared", &pair.not_compared, 0),
                ];
                for (what, files, elsewhere) in both {
                    let Sample { count, examples } = &files[side];
                    let names = examples.iter().map(|file| self.name(*file, pair.folders[side]));
                    tell(&mut text, what, count.saturating_sub(elsewhere), names);
                }
            }
            let one = |[file, _]: &[u32; 2]| self.name(*file, pair.folders[0]);
            for (what, both) in
                [("other content", &pair.other_content), ("other time", &pair.other_time)]
            {
                tell(&mut text, what, both.count, both.examples.iter().map(one));
            }
            text.push('\n');
        }
        for held in &self.alike.contained {
            let (files, free) = (Count(held.files[0].into(), "file"), Size(held.winnings));
            let _ =
                writeln!(text, "held: {files} of the first, all in the second, {free} reclaimable");
            let _ = writeln!(text, "{}\n{}\n", shown(held.folder), shown(held.within));
        }
        if !self.alike.exact.is_empty() {
            text.push_str(
                "of equal folders the first in path order stays, and the others are reclaimable\n",
            );
        }
        if !self.offline.is_empty() {
            let _ = writeln!(text, "{OFFLINE}");
        }
        let Alike { exact, partial, contained, is_complete, .. } = &self.alike;
        let _ = write!(
            text,
            "{} of equal folders, {} of folders that are alike, {} held by another one",
            Count(exact.len() as u64, "set"),
            Count(partial.len() as u64, "pair"),
            Count(contained.len() as u64, "folder")
        );
        if !is_complete {
            text.push_str("; there are so many that not all were compared");
        }
        text
    }
}

pub(super) fn similarity(pair: &PartialPair) -> f64 {
    f64::from(pair.shared) / f64::from(all_files(pair).max(1))
}

/// Those that both have counted once.
fn all_files(pair: &PartialPair) -> u32 {
    pair.files[0] + pair.files[1] - pair.shared
}

fn tell<'a>(text: &mut String, what: &str, count: u32, names: impl Iterator<Item = &'a [u8]>) {
    const SHOWN: usize = 5;
    if count == 0 {
        return;
    }
    let names: Vec<String> = names.take(SHOWN).map(|name| escaped(name).to_string()).collect();
    let _ = write!(text, "      {what}: {count}");
    if !names.is_empty() {
        let more = if names.len() < count as usize { ", …" } else { "" };
        let _ = write!(text, " ({}{more})", names.join(", "));
    }
    text.push('\n');
}

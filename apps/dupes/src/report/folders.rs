//! Folders that are alike, as of the last scans. What makes them so is in `alike.rs`; here is where it
//! comes from, and how it is told.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Paths;
use crate::alike::{Alike, Facts, Likeness, PartialPair, Sample, Trees, find};
use crate::escape::escaped;
use crate::output::json_path;
use crate::size::Size;
use crate::store::{Error, Store};

/// A folder that was not listed whole, or of which something is recorded nowhere, is not fully known.
/// Whatever lies in another one has a higher number.
const FOLDERS: &str =
    "SELECT id, parent, name, error IS NULL AND left_out = 0 AND device IS NOT NULL
    FROM folders WHERE removed IS NULL ORDER BY id";

/// What has further names does not come free by itself.
const FILES: &str = "SELECT folder, name, size, mtime, iif(links > 1, 0, blocks * 512), hash
    FROM files WHERE removed IS NULL ORDER BY folder, name";

/// What was found, with the names of what is told.
#[derive(Debug)]
pub struct Report {
    pub(super) alike: Alike,
    /// The folders that are told, as the database numbers them.
    pub(super) ids: HashMap<u32, i64>,
    /// Of folders.
    paths: HashMap<u32, Vec<u8>>,
    /// Of files, from the folder on that they are told of.
    files: HashMap<u32, Vec<u8>>,
}

/// Looks through the whole database.
pub fn folders(store: &Store, likeness: &Likeness) -> Result<Report, Error> {
    let roots = super::root_paths(store)?;
    store.wrap(look(store.connection(), roots, likeness))
}

fn look(
    connection: &Connection,
    roots: HashMap<i64, Vec<u8>>,
    likeness: &Likeness,
) -> rusqlite::Result<Report> {
    let mut trees = Trees::default();
    let (mut numbers, mut ids) = (HashMap::new(), Vec::new());
    let mut statement = connection.prepare(FOLDERS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        let above = parent.map(|parent| numbers.get(&parent).copied());
        if above == Some(None) {
            continue; // what hangs in the air is for `verify`
        }
        let name = row.get_ref(2)?.as_blob()?;
        numbers.insert(id, trees.add_folder(above.flatten(), name, row.get(3)?));
        ids.push(id);
    }
    let mut contents: HashMap<(u64, Box<[u8]>), u32> = HashMap::new();
    each_file(connection, &numbers, |folder, name, row| {
        let size = row.get::<_, i64>(2)?.cast_unsigned();
        let next = contents.len() as u32; // no more than there are files, which are counted below
        let hash = row.get_ref(5)?.as_blob_or_null()?;
        let content = hash.map(|hash| *contents.entry((size, hash.into())).or_insert(next));
        let on_disk = row.get::<_, i64>(4)?.cast_unsigned();
        trees.add_file(folder, name, Facts { size, mtime: row.get(3)?, on_disk, content });
        Ok(())
    })?;
    drop(contents);
    let alike = find(&trees, likeness);
    drop(trees);
    let paths = Paths::new(connection, roots)?;
    let mut report =
        Report { alike, ids: HashMap::new(), paths: HashMap::new(), files: HashMap::new() };
    for folder in report.told_folders() {
        report.paths.insert(folder, paths.of(ids[folder as usize]));
        report.ids.insert(folder, ids[folder as usize]);
    }
    let told = report.told_files();
    let mut number = 0;
    each_file(connection, &numbers, |folder, name, _| {
        if told.contains(&number) {
            let mut path = paths.of(ids[folder as usize]);
            crate::folders::join(&mut path, name);
            report.files.insert(number, path);
        }
        number += 1;
        Ok(())
    })?;
    Ok(report)
}

/// In the order that gives them their numbers.
fn each_file(
    connection: &Connection,
    numbers: &HashMap<i64, u32>,
    mut f: impl FnMut(u32, &[u8], &rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(FILES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(folder) = numbers.get(&row.get(0)?) {
            f(*folder, row.get_ref(1)?.as_blob()?, row)?;
        }
    }
    Ok(())
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
            let only = pair.only.iter().flat_map(|only| only.examples.iter().copied());
            let both = [&pair.other_content, &pair.other_time];
            only.chain(both.into_iter().flat_map(|both| both.examples.iter().flatten().copied()))
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
        let exact = self.alike.exact.iter().map(|set| {
            json!({
                "folders": set.folders.iter().map(path).collect::<Vec<_>>(),
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
        })
    }

    fn pair(&self, pair: &PartialPair) -> Value {
        let [one, other] = pair.folders;
        let only = |side: usize| {
            let Sample { count, examples } = &pair.only[side];
            let names = examples.iter().map(|file| json_path(self.name(*file, pair.folders[side])));
            json!({ "count": count, "names": names.collect::<Vec<_>>() })
        };
        let both = |sample: &Sample<[u32; 2]>| {
            let names = sample.examples.iter().map(|[file, _]| json_path(self.name(*file, one)));
            json!({ "count": sample.count, "names": names.collect::<Vec<_>>() })
        };
        json!({
            "folders": [json_path(self.path(one)), json_path(self.path(other))],
            "similarity": similarity(pair),
            "files": pair.files,
            "shared": pair.shared,
            "shared_bytes": pair.shared_bytes,
            "reclaimable": pair.winnings,
            "only_in": [only(0), only(1)],
            "other_content": both(&pair.other_content),
            "other_time": both(&pair.other_time),
        })
    }

    // ------------------------------------------------------------ for people

    /// Some lines for each, the largest winnings first.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let shown = |folder: u32| escaped(self.path(folder)).to_string();
        // Writing to a String can't fail; neither here nor below.
        for set in &self.alike.exact {
            let (files, bytes, free) = (set.files, Size(set.bytes), Size(set.winnings));
            let _ = writeln!(text, "equal: {files} files, {bytes} in each, {free} reclaimable");
            for folder in &set.folders {
                let _ = writeln!(text, "    {}", shown(*folder));
            }
            text.push('\n');
        }
        for pair in &self.alike.partial {
            let (all, free) =
                (pair.shared + pair.only[0].count + pair.only[1].count, Size(pair.winnings));
            let percent = (similarity(pair) * 100.0).floor();
            let _ = writeln!(
                text,
                "{percent} % alike: {} of {all} files shared, {free} reclaimable",
                pair.shared
            );
            for side in 0..2 {
                let _ = writeln!(text, "    {}", shown(pair.folders[side]));
                let names =
                    pair.only[side].examples.iter().map(|f| self.name(*f, pair.folders[side]));
                tell(&mut text, "only here", pair.only[side].count, names);
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
            let (files, free) = (held.files[0], Size(held.winnings));
            let _ = writeln!(
                text,
                "all {files} files of the first are in the second, {free} reclaimable"
            );
            let _ = writeln!(text, "    {}\n    {}\n", shown(held.folder), shown(held.within));
        }
        let Alike { exact, partial, contained, is_complete, .. } = &self.alike;
        let _ = write!(
            text,
            "{} sets of equal folders, {} pairs that are alike, {} folders that another one holds",
            exact.len(),
            partial.len(),
            contained.len()
        );
        if !is_complete {
            text.push_str("; there are so many that not all were compared");
        }
        text
    }
}

pub(super) fn similarity(pair: &PartialPair) -> f64 {
    let all = pair.shared + pair.only[0].count + pair.only[1].count;
    f64::from(pair.shared) / f64::from(all.max(1))
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

//! Folders that are alike, as of the last scans. What makes them so is in `alike.rs`; here is where it
//! comes from, and how it is told.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::Paths;
use super::contents::{Contents, Row, Ways};
use crate::alike::{Alike, Facts, Likeness, PartialPair, Sample, Trees, find};
use crate::count::Count;
use crate::escape::escaped;
use crate::output::{OFFLINE, json_path};
use crate::size::Size;
use crate::store::roots::{AWAY, Presence, Root};
use crate::store::{Error, Store};

/// A folder that was not listed whole, or of which something is recorded nowhere, is not fully known.
/// Whatever lies in another one has a higher number.
const FOLDERS: &str =
    "SELECT id, parent, name, error IS NULL AND left_out = 0 AND device IS NOT NULL, device, root, error
    FROM folders WHERE removed IS NULL ORDER BY id";

const FILES: &str =
    "SELECT folder, name, size, mtime, blocks, hash, sample, device, inode, ctime, links
    FROM files WHERE removed IS NULL ORDER BY folder, name";
/// In the same order.
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

/// What is below all roots.
#[derive(Default)]
struct Gathered {
    trees: Trees,
    /// Of folders, by those of the database.
    numbers: HashMap<i64, u32>,
    /// And the other way round.
    ids: Vec<i64>,
    /// Of each: its device, and its root.
    places: Vec<(Option<i64>, i64)>,
    /// Which files of the database are none of these, in its order: other ways to one that is.
    further: Vec<u32>,
}

impl Gathered {
    fn new(connection: &Connection, roots: &[Root]) -> rusqlite::Result<Gathered> {
        let mut gathered = Gathered::default();
        gathered.add_folders(connection, roots)?;
        gathered.add_files(connection, roots)?;
        Ok(gathered)
    }

    fn add_folders(&mut self, connection: &Connection, roots: &[Root]) -> rusqlite::Result<()> {
        let offline = roots.iter().filter(|root| root.presence() == Presence::Offline);
        let offline: HashSet<i64> = offline.map(|root| root.id).collect();
        let mut statement = connection.prepare(FOLDERS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, parent): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let above = parent.map(|parent| self.numbers.get(&parent).copied());
            if above == Some(None) {
                continue; // what hangs in the air is for `verify`
            }
            let (name, is_known, root) = (row.get_ref(2)?.as_blob()?, row.get(3)?, row.get(5)?);
            let is_away = row.get::<_, Option<i32>>(6)? == Some(AWAY);
            let number = match above.flatten() {
                None if offline.contains(&root) => self.trees.add_offline_root(name, is_known),
                // What was mounted there is a tree of its own, and what it lay in is not all there.
                Some(above) if is_away && self.trees.is_online(above) => {
                    self.trees.doubt(above);
                    self.trees.add_offline_root(name, is_known)
                }
                above => self.trees.add_folder(above, name, is_known),
            };
            self.numbers.insert(id, number);
            self.ids.push(id);
            self.places.push((row.get(4)?, root));
        }
        Ok(())
    }

    fn add_files(&mut self, connection: &Connection, roots: &[Root]) -> rusqlite::Result<()> {
        let (mut contents, mut ways) = (Contents::new(connection)?, Ways::default());
        let of_another_time = roots.iter().filter(|root| !root.has_its_numbers());
        let of_another_time: HashSet<i64> = of_another_time.map(|root| root.id).collect();
        let mut files = 0;
        let Gathered { trees, numbers, places, further, .. } = self;
        each_file(connection, FILES, numbers, |folder, name, row| {
            let (device, root) = places[folder as usize];
            let device = row.get::<_, Option<i64>>(7)?.or(device);
            let inode = (of_another_time.get(&root).copied(), device, row.get(8)?);
            let links = row.get::<_, u16>(10)?;
            let (size, mtime) = (row.get::<_, i64>(2)?.cast_unsigned(), row.get(3)?);
            let is_further = roots.len() > 1
                && contents.is_shared(size)
                && ways.is_further(root, inode, (mtime, row.get(9)?), links);
            if is_further {
                trees.doubt(folder);
                further.push(files);
            } else {
                let (hash, sample) = (row.get_ref(5)?.as_blob_or_null()?, row.get(6)?);
                let number = files - further.len() as u32;
                let content = contents.of(number, &Row { size, hash, sample, inode });
                // What has further names does not come free by itself.
                let blocks = if links > 1 { 0 } else { row.get::<_, i64>(4)?.cast_unsigned() };
                let on_disk = blocks * 512;
                trees.add_file(folder, name, Facts { size, mtime, on_disk, content });
            }
            files += 1;
            Ok(true)
        })?;
        contents.settle().into_iter().for_each(|(file, content)| trees.know(file, content));
        Ok(())
    }
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

/// Of folders that are known, in the order that gives them their numbers, for as long as it says true.
fn each_file(
    connection: &Connection,
    sql: &str,
    numbers: &HashMap<i64, u32>,
    mut f: impl FnMut(u32, &[u8], &rusqlite::Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(folder) = numbers.get(&row.get(0)?)
            && !f(*folder, row.get_ref(1)?.as_blob()?, row)?
        {
            break;
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

//! Files on disk, by all cores, and the account of what they hold.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, thread};

use crate::random::hash;

/// A file as it was written; its path begins below `files/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Written {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) content: u128,
}

/// The whole tree, in the order of paths.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) files: Vec<Written>,
    /// A further name, and the one that is in `files`.
    pub(crate) links: Vec<(String, String)>,
}

impl Made {
    /// Files of at least one byte that are equal, with at least two in each set.
    pub(crate) fn classes(&self) -> Vec<Vec<&str>> {
        let mut by_content = BTreeMap::<_, Vec<&str>>::new();
        for file in self.files.iter().filter(|file| file.size > 0) {
            by_content.entry((file.size, file.content)).or_default().push(&file.path);
        }
        let mut sets: Vec<_> = by_content.into_values().filter(|set| set.len() > 1).collect();
        sets.sort_unstable();
        sets
    }

    pub(crate) fn redundant(&self) -> usize {
        self.classes().iter().map(|set| set.len() - 1).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Of all names and contents: who has the same number has the same tree.
    pub(crate) fn hash(&self) -> u128 {
        let mut all = Vec::new();
        for Written { path, content, .. } in &self.files {
            all.extend_from_slice(path.as_bytes());
            all.extend_from_slice(&content.to_le_bytes());
        }
        hash(&all)
    }

    pub(crate) fn sets(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for set in self.classes() {
            for path in set {
                text.extend_from_slice(path.as_bytes());
                text.push(0);
            }
            text.push(0);
        }
        text
    }

    pub(crate) fn links(&self) -> Vec<u8> {
        let names = self.links.iter().flat_map(|(alias, path)| [alias, path]);
        names.flat_map(|name| name.bytes().chain([0])).collect()
    }
}

/// What one thread writes.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    root: &'a Path,
    made: Made,
    folders: HashSet<PathBuf>,
}

impl Writer<'_> {
    pub(crate) fn file(&mut self, path: String, bytes: &[u8]) -> io::Result<()> {
        let content = hash(bytes);
        self.known_file(path, bytes, content)
    }

    /// For who writes the same bytes again.
    pub(crate) fn known_file(
        &mut self,
        path: String,
        bytes: &[u8],
        content: u128,
    ) -> io::Result<()> {
        fs::write(self.place(&path)?, bytes)?;
        self.made.files.push(Written { path, size: bytes.len() as u64, content });
        Ok(())
    }

    pub(crate) fn link(&mut self, alias: String, path: &str) -> io::Result<()> {
        fs::hard_link(self.root.join(path), self.place(&alias)?)?;
        self.made.links.push((alias, path.to_owned()));
        Ok(())
    }

    fn place(&mut self, path: &str) -> io::Result<PathBuf> {
        let place = self.root.join(path);
        let folder = place.parent().expect("every file is below the root");
        if !self.folders.contains(folder) {
            fs::create_dir_all(folder)?;
            self.folders.insert(folder.to_owned());
        }
        Ok(place)
    }
}

/// Calls `make` for each number below `count`, on all cores, a few numbers at a time.
pub(crate) fn write_all(
    root: &Path,
    count: u64,
    make: impl Fn(&mut Writer, u64) -> io::Result<()> + Sync,
) -> io::Result<Made> {
    const AT_ONCE: u64 = 64;
    let cores = thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    let at_once = (count / cores).clamp(1, AT_ONCE);
    let next = AtomicU64::new(0);
    let work = || -> io::Result<Made> {
        let mut writer = Writer { root, made: Made::default(), folders: HashSet::new() };
        loop {
            let first = next.fetch_add(at_once, Ordering::Relaxed);
            if first >= count {
                return Ok(writer.made);
            }
            for number in first..(first + at_once).min(count) {
                make(&mut writer, number)?;
            }
        }
    };
    let mut all = Made::default();
    thread::scope(|scope| -> io::Result<()> {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let made = thread.join().expect("a writer panicked")?;
            all.files.extend(made.files);
            all.links.extend(made.links);
        }
        Ok(())
    })?;
    all.files.sort_unstable();
    all.links.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[(&str, &[u8])]) -> Made {
        let written = |&(path, bytes): &(&str, &[u8])| Written {
            path: path.to_owned(),
            size: bytes.len() as u64,
            content: hash(bytes),
        };
        Made { files: files.iter().map(written).collect(), links: Vec::new() }
    }

    #[test]
    fn sets_are_those_of_equal_bytes_and_the_empty_are_none() {
        let made = made(&[("a", b"x"), ("b", b""), ("c", b"y"), ("d", b"x"), ("e", b"")]);
        assert_eq!(made.sets(), b"a\0d\0\0");
        assert_eq!(made.redundant(), 1);
    }

    #[test]
    fn the_hash_tells_names_and_bytes_apart() {
        let first = made(&[("a", b"x")]).hash();
        assert_ne!(first, made(&[("b", b"x")]).hash());
        assert_ne!(first, made(&[("a", b"y")]).hash());
    }
}

//! Files by the hash of all of their bytes.
//!
//! A million of them have to fit: a file takes its hash, its number and five bytes of a table.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use hashbrown::HashTable;

use crate::digest::Digest;
use crate::folders::FileId;
use crate::locking::lock;

const SHARDS: usize = 64;

/// All of them. Threads meet only where their hashes begin alike.
#[derive(Debug)]
pub struct Contents {
    shards: Vec<Mutex<Shard>>,
    /// Somebody who chooses contents must not choose where they go.
    key: u64,
}

#[derive(Debug, Default)]
struct Shard {
    table: HashTable<u32>,
    /// Of each content: its hash, one after the other, and who has it.
    hashes: Vec<u8>,
    holders: Vec<Holders>,
    sets: Vec<Vec<FileId>>,
}

#[derive(Clone, Copy, Debug)]
enum Holders {
    One(FileId),
    Many(u32),
}

impl Default for Contents {
    fn default() -> Contents {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Contents { shards, key: RandomState::new().hash_one(0) }
    }
}

impl Contents {
    /// Files have these contents. All digests of a run have the same length.
    pub fn add(&self, files: Vec<(Digest, FileId)>) {
        let hash = |digest: &[u8]| place(digest, self.key);
        let mut places: Vec<(usize, u64, usize)> = Vec::with_capacity(files.len());
        for (at, (digest, _)) in files.iter().enumerate() {
            let hash = hash(digest.as_bytes());
            // Other bits than those by which a table has its places.
            places.push(((hash >> 40) as usize % SHARDS, hash, at));
        }
        // Those of one shard together: it is locked once.
        places.sort_unstable();
        for of_one in places.chunk_by(|one, other| one.0 == other.0) {
            let mut shard = lock(&self.shards[of_one[0].0]);
            for (_, value, at) in of_one {
                let (digest, file) = &files[*at];
                shard.add(digest.as_bytes(), *value, *file, hash);
            }
        }
    }

    /// All contents that more than one file has. Nothing is left: a shard is given up when it was
    /// looked through.
    pub fn take_sets(&self) -> impl Iterator<Item = (Digest, Vec<FileId>)> {
        self.shards.iter().flat_map(|shard| std::mem::take(&mut *lock(shard)).into_sets())
    }
}

/// A digest is as good as random already; it only has to be so for those as well who chose what it is of.
fn place(digest: &[u8], key: u64) -> u64 {
    let word = |at: usize| u64::from_le_bytes(digest[at..at + 8].try_into().expect("8 bytes"));
    let product = u128::from(word(0) ^ key) * u128::from((word(8) ^ key.rotate_left(32)) | 1);
    (product ^ (product >> 64)) as u64
}

impl Shard {
    fn add(&mut self, key: &[u8], hash: u64, file: FileId, rehash: impl Fn(&[u8]) -> u64) {
        let len = key.len();
        let of = |at: u32| at as usize * len..(at as usize + 1) * len;
        let hashes = &self.hashes;
        if let Some(at) = self.table.find(hash, |at| &hashes[of(*at)] == key) {
            return self.add_to(*at as usize, file);
        }
        let at = u32::try_from(self.holders.len()).expect("more than 2^38 contents");
        self.hashes.extend_from_slice(key);
        self.holders.push(Holders::One(file));
        let hashes = &self.hashes;
        self.table.insert_unique(hash, at, |at| rehash(&hashes[of(*at)]));
    }

    fn add_to(&mut self, at: usize, file: FileId) {
        match self.holders[at] {
            Holders::Many(set) => self.sets[set as usize].push(file),
            Holders::One(first) => {
                self.holders[at] = Holders::Many(self.sets.len() as u32);
                self.sets.push(vec![first, file]);
            }
        }
    }

    fn into_sets(mut self) -> impl Iterator<Item = (Digest, Vec<FileId>)> {
        let len = self.hashes.len().checked_div(self.holders.len()).unwrap_or(1);
        let mut sets = std::mem::take(&mut self.sets);
        let all = self.holders.into_iter().enumerate();
        all.filter_map(move |(at, holders)| match holders {
            Holders::One(_) => None,
            Holders::Many(set) => {
                let digest = Digest::of(&self.hashes[at * len..][..len]);
                Some((digest, std::mem::take(&mut sets[set as usize])))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::digest::Algorithm;

    #[test]
    fn contents_that_several_have_are_sets() {
        for (_, algorithm) in Algorithm::NAMES {
            let contents = Contents::default();
            let mut expected: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            let all: Vec<u32> = (0..5_000).collect();
            for some in all.chunks(100) {
                let digest = |n: u32| algorithm.digest(&(n * n % 3_001).to_le_bytes());
                let file = |n: &u32| (digest(*n), FileId { folder: 0, entry: *n });
                contents.add(some.iter().map(file).collect());
                some.iter().for_each(|n| {
                    expected.entry(digest(*n).to_string()).or_default().push(*n);
                });
            }
            expected.retain(|_, files| files.len() > 1);
            let sets = contents.take_sets().map(|(digest, files)| {
                (digest.to_string(), files.into_iter().map(|file| file.entry).collect())
            });
            assert_eq!(sets.collect::<BTreeMap<_, Vec<u32>>>(), expected);
        }
    }
}

//! Tells files apart, quickly. Nothing is claimed by it: files with the same value may differ.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seeded at random: nobody can choose files that it can't tell apart.
#[derive(Clone, Copy, Debug)]
pub struct Splitter {
    seed: Option<u64>,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter { seed: Some(RandomState::new().hash_one(0)) }
    }
}

impl Splitter {
    /// One that tells nothing apart: the result must be the same.
    pub fn blind() -> Splitter {
        Splitter { seed: None }
    }

    /// With a seed that somebody keeps, so that values can be kept as well.
    pub fn seeded(seed: u64) -> Splitter {
        Splitter { seed: Some(seed) }
    }

    /// Of some bytes.
    pub fn value(&self, bytes: &[u8]) -> u64 {
        self.seed.map_or(0, |seed| xxh3_64_with_seed(bytes, seed))
    }
}

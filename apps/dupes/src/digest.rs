//! Hashes that claim, and what a claim can rest on.

use std::fmt;

use sha2::Digest as _;

/// A hash function of which equal values are taken for equal contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// BLAKE3, 256 bits.
    #[default]
    Blake3,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA3-256.
    Sha3,
    /// XXH3, 128 bits: fast, and no proof. Sets are marked as unverified.
    Xxh3,
}

impl Algorithm {
    /// All of them, by the names they have on the command line and in listings.
    pub const NAMES: [(&'static str, Algorithm); 5] = [
        ("blake3", Algorithm::Blake3),
        ("sha256", Algorithm::Sha256),
        ("sha512", Algorithm::Sha512),
        ("sha3-256", Algorithm::Sha3),
        ("xxh3", Algorithm::Xxh3),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Algorithm::NAMES.iter().find(|(_, algorithm)| *algorithm == self);
        found.map_or("", |(name, _)| name)
    }

    /// The one with that name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        let found = Algorithm::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, algorithm)| *algorithm)
    }

    /// Of bytes that are all there.
    pub fn digest(self, bytes: &[u8]) -> Digest {
        if self == Algorithm::Blake3 {
            return Digest::of(blake3::hash(bytes).as_bytes());
        }
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish()
    }
}

/// What the claim that files are equal rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verified {
    /// Every byte of the files was compared.
    Bytes,
    /// Every byte was hashed, with a function that nobody knows collisions of.
    Hash(Algorithm),
    /// Every byte was hashed, with one that is only fast.
    Unverified,
    /// Nothing had to be compared: no other file has this content.
    Unique,
}

impl Verified {
    /// By a hash of all bytes.
    pub fn by(algorithm: Algorithm) -> Verified {
        if algorithm == Algorithm::Xxh3 { Verified::Unverified } else { Verified::Hash(algorithm) }
    }

    /// As listings say it.
    pub fn name(self) -> &'static str {
        match self {
            Verified::Bytes => "bytes",
            Verified::Hash(algorithm) => algorithm.name(),
            Verified::Unverified => "unverified",
            Verified::Unique => "unique",
        }
    }
}

/// The value of a hash function, of up to 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    bytes: [u8; 64],
    len: u8,
}

impl Digest {
    /// Of a hash function that has given these bytes: at most 64.
    pub(crate) fn of(value: &[u8]) -> Digest {
        let mut bytes = [0; 64];
        bytes[..value.len()].copy_from_slice(value);
        Digest { bytes, len: value.len() as u8 }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let digits = self.as_bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = digits.map(|digit| DIGITS[usize::from(digit)]).collect();
        f.write_str(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Of bytes that come piece by piece.
pub struct Hasher(Inside);

enum Inside {
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
    Sha3(sha3::Sha3_256),
    Xxh3(Box<xxhash_rust::xxh3::Xxh3>),
}

impl Hasher {
    /// Before the first byte.
    pub fn new(algorithm: Algorithm) -> Hasher {
        Hasher(match algorithm {
            Algorithm::Blake3 => Inside::Blake3(Box::default()),
            Algorithm::Sha256 => Inside::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Inside::Sha512(sha2::Sha512::new()),
            Algorithm::Sha3 => Inside::Sha3(sha3::Sha3_256::new()),
            Algorithm::Xxh3 => Inside::Xxh3(Box::default()),
        })
    }

    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Inside::Blake3(hasher) => drop(hasher.update(bytes)),
            Inside::Sha256(hasher) => hasher.update(bytes),
            Inside::Sha512(hasher) => hasher.update(bytes),
            Inside::Sha3(hasher) => hasher.update(bytes),
            Inside::Xxh3(hasher) => hasher.update(bytes),
        }
    }

    /// After the last.
    pub fn finish(self) -> Digest {
        match self.0 {
            Inside::Blake3(hasher) => Digest::of(hasher.finalize().as_bytes()),
            Inside::Sha256(hasher) => Digest::of(&hasher.finalize()),
            Inside::Sha512(hasher) => Digest::of(&hasher.finalize()),
            Inside::Sha3(hasher) => Digest::of(&hasher.finalize()),
            Inside::Xxh3(hasher) => Digest::of(&hasher.digest128().to_be_bytes()),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of nothing and of "abc", as published for each function.
    const KNOWN: [(Algorithm, &str, &str); 5] = [
        (
            Algorithm::Blake3,
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ),
        (
            Algorithm::Sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Algorithm::Sha512,
            "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
             47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            Algorithm::Sha3,
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
            "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
        ),
        (Algorithm::Xxh3, "99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950"),
    ];

    #[test]
    fn digests_are_those_that_others_compute() {
        for (algorithm, empty, abc) in KNOWN {
            assert_eq!(algorithm.digest(b"").to_string(), empty, "{}", algorithm.name());
            assert_eq!(algorithm.digest(b"abc").to_string(), abc, "{}", algorithm.name());
        }
    }

    #[test]
    fn piece_by_piece_is_the_same() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        for (_, algorithm) in Algorithm::NAMES {
            let mut hasher = Hasher::new(algorithm);
            bytes.chunks(977).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish(), algorithm.digest(&bytes), "{}", algorithm.name());
        }
    }
}

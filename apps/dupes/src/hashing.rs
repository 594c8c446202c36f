//! Hashes files that are read piece by piece; a large one by several workers, where the function
//! allows it.

use std::sync::{Mutex, PoisonError};

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::buffers::with_buffer;
use crate::compare::Ranges;
use crate::digest::{Algorithm, Digest, Hasher};
use crate::read::{Opened, Unread};
use crate::stop::Stop;

/// Read at once.
const PIECE: usize = 256 << 10;
/// What one worker hashes: a subtree of BLAKE3, so a power of two of its chunks.
const RANGE: u64 = 16 << 20;
/// Ranges that are handed out at a time.
const PORTION: u64 = 16;

/// Whether several workers can hash one file of that size.
pub fn can_share(size: u64, algorithm: Algorithm) -> bool {
    algorithm == Algorithm::Blake3 && size > RANGE
}

/// The hash of all bytes of a file of that size; None if the run is to stop.
pub fn hash(
    file: &Opened,
    size: u64,
    algorithm: Algorithm,
    ranges: &dyn Ranges,
    stop: &Stop,
    on_read: &(dyn Fn(u64) + Sync),
) -> Result<Option<Digest>, Unread> {
    let reading = Reading { file, stop, on_read };
    let digest = if can_share(size, algorithm) {
        reading.in_ranges(size, ranges)?
    } else {
        let mut hasher = Hasher::new(algorithm);
        reading.pieces(0, size, |piece| hasher.update(piece))?.then(|| hasher.finish())
    };
    file.check()?;
    Ok(digest)
}

struct Reading<'a> {
    file: &'a Opened,
    stop: &'a Stop,
    on_read: &'a (dyn Fn(u64) + Sync),
}

impl Reading<'_> {
    /// False: the run is to stop.
    fn pieces(&self, from: u64, to: u64, mut f: impl FnMut(&[u8])) -> Result<bool, Unread> {
        let mut at = from;
        while at < to {
            if self.stop.is_asked() {
                return Ok(false);
            }
            let len = (to - at).min(PIECE as u64) as usize;
            with_buffer(PIECE, |buffer| {
                self.file.fill(&mut buffer[..len], at)?;
                f(&buffer[..len]);
                Ok(())
            })?;
            (self.on_read)(len as u64);
            at += len as u64;
        }
        Ok(true)
    }

    /// By the tree that BLAKE3 is: each range is a subtree. A portion at a time, so that what is kept
    /// does not grow with the file.
    fn in_ranges(&self, size: u64, ranges: &dyn Ranges) -> Result<Option<Digest>, Unread> {
        let count = size.div_ceil(RANGE);
        let mut tree = Tree::default();
        for from in (0..count).step_by(PORTION as usize) {
            let subtrees = Mutex::new(vec![None; (count - from).min(PORTION) as usize]);
            ranges.run((count - from).min(PORTION), &|at| {
                let begin = (from + at) * RANGE;
                let subtree = self.subtree(begin, (begin + RANGE).min(size));
                let mut subtrees = subtrees.lock().unwrap_or_else(PoisonError::into_inner);
                subtrees[at as usize] = Some(subtree);
            });
            for subtree in subtrees.into_inner().unwrap_or_else(PoisonError::into_inner) {
                match subtree {
                    Some(Ok(Some(value))) => tree.push(value),
                    Some(Err(why)) => return Err(why),
                    None | Some(Ok(None)) => return Ok(None),
                }
            }
        }
        Ok(Some(tree.root()))
    }

    fn subtree(&self, from: u64, to: u64) -> Result<Option<ChainingValue>, Unread> {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(from);
        let all = self.pieces(from, to, |piece| {
            hasher.update(piece);
        })?;
        Ok(all.then(|| hasher.finalize_non_root()))
    }
}

/// Subtrees from left to right, merged as soon as it is known that more follow: no more than the
/// logarithm of their number are kept.
#[derive(Default)]
struct Tree {
    pushed: u64,
    /// Complete trees, each of at least twice as many subtrees as the next.
    right_edge: Vec<ChainingValue>,
}

impl Tree {
    fn push(&mut self, value: ChainingValue) {
        while self.right_edge.len() > self.pushed.count_ones() as usize {
            let right = self.right_edge.pop().expect("there are two at least");
            let left = self.right_edge.pop().expect("there are two at least");
            self.right_edge.push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
        self.right_edge.push(value);
        self.pushed += 1;
    }

    /// Of two subtrees at least.
    fn root(mut self) -> Digest {
        let mut right = self.right_edge.pop().expect("a file that has two ranges");
        while self.right_edge.len() > 1 {
            let left = self.right_edge.pop().expect("just seen");
            right = merge_subtrees_non_root(&left, &right, Mode::Hash);
        }
        let left = self.right_edge.pop().expect("a file that has two ranges");
        Digest::of(merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of BLAKE3 in the place of ranges: it is the same tree.
    #[test]
    fn subtrees_make_the_hash_of_the_whole() {
        const CHUNK: usize = 1024;
        for chunks in 2..70 {
            let bytes: Vec<u8> = (0..chunks * CHUNK - 3).map(|n| (n / 7) as u8).collect();
            let mut tree = Tree::default();
            for (at, chunk) in bytes.chunks(CHUNK).enumerate() {
                let mut hasher = blake3::Hasher::new();
                hasher.set_input_offset((at * CHUNK) as u64);
                hasher.update(chunk);
                tree.push(hasher.finalize_non_root());
                assert!(tree.right_edge.len() <= 8, "it grows with the file");
            }
            assert_eq!(tree.root(), Algorithm::Blake3.digest(&bytes), "{chunks} chunks");
        }
    }
}

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
    let digest = if algorithm == Algorithm::Blake3 && size > RANGE {
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

    /// By the tree that BLAKE3 is: each range is a subtree.
    fn in_ranges(&self, size: u64, ranges: &dyn Ranges) -> Result<Option<Digest>, Unread> {
        let count = size.div_ceil(RANGE);
        let subtrees = Mutex::new(vec![None; count as usize]);
        ranges.run(count, &|range| {
            let subtree = self.subtree(range * RANGE, (range * RANGE + RANGE).min(size));
            let mut subtrees = subtrees.lock().unwrap_or_else(PoisonError::into_inner);
            subtrees[range as usize] = Some(subtree);
        });
        let subtrees = subtrees.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut values = Vec::with_capacity(subtrees.len());
        for subtree in subtrees {
            match subtree {
                Some(Ok(Some(value))) => values.push(value),
                Some(Err(why)) => return Err(why),
                None | Some(Ok(None)) => return Ok(None),
            }
        }
        let (left, right) = values.split_at(left(values.len()));
        let root = merge_subtrees_root(&merge(left), &merge(right), Mode::Hash);
        Ok(Some(Digest::of(root.as_bytes())))
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

fn merge(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [one] => *one,
        _ => {
            let (left, right) = values.split_at(left(values.len()));
            merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

/// How many of `n` subtrees are on the left: the largest power of two below.
fn left(n: usize) -> usize {
    n.next_power_of_two() / 2
}

//! Items shared out between participants; who has none left takes from the others.
//!
//! Each participant has a range in one word: `next << 32 | end`. The owner takes the front
//! item, a thief the back half, both by CAS. An item is in one range or has been taken, and
//! every CAS takes at least one, so no word ever comes back: finding the word that was read
//! means that nothing happened to that range. Nothing is published through these words,
//! hence `Relaxed`.

use crate::sync::Padded;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;

pub(crate) struct Ranges {
    words: Box<[Padded<AtomicU64>]>,
}

fn pack(next: u32, end: u32) -> u64 {
    u64::from(next) << 32 | u64::from(end)
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Ranges {
    /// The items `0..items`, in equal parts.
    pub(crate) fn new(items: u32, participants: usize) -> Self {
        let part = |n: usize| (items as usize * n / participants) as u32;
        let word = |n| Padded(AtomicU64::new(pack(part(n), part(n + 1))));
        Ranges { words: (0..participants).map(word).collect() }
    }

    /// An item for participant `me`, who alone takes by this number. None: all are taken.
    #[inline]
    pub(crate) fn take(&self, me: usize) -> Option<u32> {
        let own = &self.words[me].0;
        let mut seen = own.load(Relaxed);
        loop {
            let (next, end) = unpack(seen);
            if next >= end {
                return self.steal(me);
            }
            match own.compare_exchange_weak(seen, pack(next + 1, end), Relaxed, Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => seen = now,
            }
        }
    }

    #[cold]
    fn steal(&self, me: usize) -> Option<u32> {
        let all = self.words.len();
        for victim in (1..all).map(|n| &self.words[(me + n) % all].0) {
            let mut seen = victim.load(Relaxed);
            loop {
                let (next, end) = unpack(seen);
                if next >= end {
                    break;
                }
                let middle = next + (end - next) / 2;
                match victim.compare_exchange_weak(seen, pack(next, middle), Relaxed, Relaxed) {
                    Ok(_) => {
                        // Ours is empty, and nobody touches an empty one.
                        self.words[me].0.store(pack(middle + 1, end), Relaxed);
                        return Some(middle);
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }
}

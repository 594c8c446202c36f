//! Items shared out between participants; who has none left takes from the others.
//!
//! Each participant has a range in one word: `next << 32 | end`. The owner takes the front
//! item, a thief the back half, both by CAS. An item is in one range or has been taken, and
//! every CAS takes at least one, so no word ever comes back: finding the word that was read
//! means that nothing happened to that range. Nothing is published through these words,
//! hence `Relaxed`.
//!
//! What a thief has taken is in no word for a moment. Who finds nothing while somebody moves
//! something looks again, a bounded number of times, and lets others have the core meanwhile:
//! the items may be long, and the thief may have lost its own.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::{Padded, snooze, steps};

/// How often to look again while a range is on its way.
const LOOKS: u32 = steps(200);

pub(crate) struct Ranges {
    words: Box<[Padded<AtomicU64>]>,
    /// How many moves were begun, and how many are over.
    begun: AtomicU64,
    over: AtomicU64,
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
        let part = |n: usize| (u64::from(items) * n as u64 / participants as u64) as u32;
        let word = |n| Padded(AtomicU64::new(pack(part(n), part(n + 1))));
        let words = (0..participants).map(word).collect();
        Ranges { words, begun: AtomicU64::new(0), over: AtomicU64::new(0) }
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
        for step in 0..LOOKS {
            let over = self.over.load(SeqCst);
            if let Some(found) = self.steal_once(me) {
                return Some(found);
            }
            if self.begun.load(SeqCst) == over {
                return None;
            }
            snooze(step);
        }
        None
    }

    fn steal_once(&self, me: usize) -> Option<u32> {
        let all = self.words.len();
        for victim in (1..all).map(|n| &self.words[(me + n) % all].0) {
            let mut seen = victim.load(Relaxed);
            while unpack(seen).0 < unpack(seen).1 {
                let (next, end) = unpack(seen);
                let middle = next + (end - next) / 2;
                self.begun.fetch_add(1, SeqCst);
                let taken = victim.compare_exchange(seen, pack(next, middle), Relaxed, Relaxed);
                if taken.is_ok() {
                    // Ours is empty, and nobody touches an empty one.
                    self.words[me].0.store(pack(middle + 1, end), Relaxed);
                }
                self.over.fetch_add(1, SeqCst);
                match taken {
                    Ok(_) => return Some(middle),
                    Err(now) => seen = now,
                }
            }
        }
        None
    }
}

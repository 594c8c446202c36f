//! Values that notice what happens to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts its drops.
#[derive(Debug, Default)]
pub struct Tracked {
    drops: Arc<AtomicUsize>,
}

impl Tracked {
    /// A value and the counter of its drops.
    pub fn new() -> (Tracked, Arc<AtomicUsize>) {
        let tracked = Tracked::default();
        let drops = Arc::clone(&tracked.drops);
        (tracked, drops)
    }

    /// One more that counts there.
    pub fn sharing(drops: &Arc<AtomicUsize>) -> Tracked {
        Tracked { drops: Arc::clone(drops) }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
    }
}

/// How many were inside at once, at most.
#[derive(Debug, Default)]
pub struct Peak {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Peak {
    /// Nobody inside yet.
    pub fn new() -> Arc<Peak> {
        Arc::default()
    }

    /// Runs `f` inside, also if it panics.
    pub fn during<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a AtomicUsize);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        let _leave = Leave(&self.now);
        f()
    }

    /// The most that were ever inside together.
    pub fn most(&self) -> usize {
        self.most.load(SeqCst)
    }
}

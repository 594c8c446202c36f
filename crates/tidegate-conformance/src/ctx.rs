//! What a test gets: a way to open pools of the kind it runs on.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tidegate::WhenFull;

use crate::port::{Kind, SuitePool};

/// How a test would like its pool.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Unique in this process; worker threads are called `<name>-<n>`.
    pub name: String,
    /// How many worker threads.
    pub workers: usize,
    /// How many tasks may wait; None: the kind's own default.
    pub queue: Option<usize>,
    /// What `submit` does when the queue is full. Kinds without policies know only `Wait`.
    pub when_full: WhenFull,
}

impl Wish {
    /// With a queue of this length.
    pub fn queue(mut self, length: usize) -> Wish {
        self.queue = Some(length);
        self
    }

    /// With this many workers.
    pub fn workers(mut self, workers: usize) -> Wish {
        self.workers = workers;
        self
    }
}

/// The ground that one test stands on.
pub struct Ctx {
    kind: Arc<dyn Kind>,
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("kind", &self.kind.name()).finish()
    }
}

/// Carried by the panic that ends a test which cannot run here.
pub(crate) struct Skip(pub(crate) String);

impl Ctx {
    pub(crate) fn new(kind: Arc<dyn Kind>) -> Ctx {
        Ctx { kind }
    }

    /// How many tasks run at once in a pool of this kind.
    pub fn workers(&self) -> usize {
        self.kind.workers()
    }

    /// The kind's own settings under a fresh name.
    pub fn wish(&self) -> Wish {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        // Short: Linux keeps 15 characters of a thread's name.
        let name = format!("c{}", SERIAL.fetch_add(1, Relaxed));
        Wish { name, workers: self.workers(), queue: None, when_full: WhenFull::Wait }
    }

    /// A pool with the kind's own settings.
    pub fn open(&self) -> Arc<dyn SuitePool> {
        self.open_with(self.wish())
    }

    /// A pool as wished.
    #[track_caller]
    pub fn open_with(&self, wish: Wish) -> Arc<dyn SuitePool> {
        self.kind.open(&wish).expect("the kind opens a pool")
    }

    /// What opening a pool as wished says.
    pub fn try_open(&self, wish: Wish) -> Result<Arc<dyn SuitePool>, String> {
        self.kind.open(&wish)
    }

    /// tidegate's builder with the kind's settings under a fresh name.
    pub fn builder(&self) -> tidegate::Builder {
        let wish = self.wish();
        match self.kind.tidegate(&wish) {
            Some(builder) => builder,
            None => self.skip("needs tidegate's own interface"),
        }
    }

    /// Ends the test as skipped.
    pub fn skip(&self, reason: &str) -> ! {
        panic_any(Skip(reason.to_owned()))
    }

    /// Ends the test as skipped if the kind has fewer workers.
    pub fn needs_workers(&self, at_least: usize) {
        if self.workers() < at_least {
            self.skip(&format!("needs {at_least} workers"));
        }
    }
}

//! Those who read here and there: a pool for each device, with as many workers as pay there. A slow
//! disk holds up nobody else's files.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use tidegate::{BuildError, Builder, Clock, Pool};

use crate::io::Gauge;

/// Devices beyond share: to a file system with hundreds of subvolumes each is a device.
pub const MOST: usize = 8;

/// A pool, and what watches over its size.
#[derive(Debug)]
pub struct Reader {
    /// Where batches are read.
    pub pool: Pool,
    /// How many of them at a time.
    pub gauge: Gauge,
    /// Batches that nobody has begun to read.
    waiting: AtomicUsize,
}

impl Reader {
    /// Nothing waits for it.
    pub fn is_hungry(&self) -> bool {
        self.waiting.load(Relaxed) == 0
    }

    /// Before a batch is handed over.
    pub fn is_to_have_one_more(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// When it is begun with.
    pub fn has_taken_one(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }
}

/// All of them. A pool is started when the first file on its device turns up.
#[derive(Debug)]
pub struct Readers {
    by_device: [OnceLock<Reader>; MOST],
    /// Who starts one.
    starting: Mutex<()>,
    setting: Setting,
}

/// What they have in common.
#[derive(Clone, Debug)]
pub struct Setting {
    /// While everything comes from memory.
    pub threads: usize,
    /// What somebody has asked for.
    pub fixed: Option<NonZeroUsize>,
    /// However much they are blocked.
    pub most: usize,
    /// What they go by.
    pub clock: Clock,
    /// Makes a pool, but for its workers.
    pub builder: fn(&str) -> Builder<()>,
}

impl Readers {
    /// With one: who can't start that can't read anything.
    pub fn new(setting: Setting) -> Result<Readers, BuildError> {
        let readers =
            Readers { by_device: Default::default(), starting: Mutex::default(), setting };
        let first = readers.start("random")?;
        readers.by_device[0].set(first).expect("there is none yet");
        Ok(readers)
    }

    /// For files on that device. The first one's, if no more threads can be started.
    pub fn of(&self, device: u16) -> &Reader {
        let at = usize::from(device) % MOST;
        let known = || self.by_device[at].get();
        if let Some(reader) = known() {
            return reader;
        }
        let _one_at_a_time = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if known().is_none()
            && let Ok(reader) = self.start(&format!("random-{}", at + 1))
        {
            self.by_device[at].set(reader).expect("only we start one");
        }
        known().or(self.by_device[0].get()).expect("there is one at least")
    }

    fn start(&self, name: &str) -> Result<Reader, BuildError> {
        let Setting { threads, fixed, most, ref clock, builder } = self.setting;
        let gauge = Gauge::new(threads, fixed, most);
        let pool = builder(name).workers(gauge.workers()).clock(clock.clone()).build()?;
        Ok(Reader { pool, gauge, waiting: AtomicUsize::new(0) })
    }

    /// Those that there are by now.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.by_device.iter().filter_map(OnceLock::get).map(|reader| &reader.pool)
    }
}

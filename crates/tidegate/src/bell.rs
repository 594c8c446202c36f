//! The bell that a submit rings when the supervisor of a pool with a range of workers sleeps.
//!
//! ```text
//!  submit:      publish by RMW, then read `armed`; who takes it down wakes     one of the two
//!  supervisor:  arm the bell, then look at the queue once more                sees the other
//! ```
//!
//! In a pool with a fixed number of workers nobody ever arms it: a submit pays for one load
//! of a line that is never written, and for a branch that always goes the same way.

use crate::sync::Padded;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;

#[derive(Debug)]
pub(crate) struct Bell {
    armed: Padded<AtomicBool>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Bell { armed: Padded(AtomicBool::new(false)) }
    }

    /// From now on the next task wakes the supervisor. True if it would have before.
    pub(crate) fn arm(&self) -> bool {
        self.armed.swap(true, SeqCst)
    }

    /// The supervisor looks by itself for the time being.
    pub(crate) fn disarm(&self) {
        if self.is_armed() {
            self.armed.store(false, SeqCst);
        }
    }

    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(SeqCst)
    }

    /// True for the one who must wake the supervisor.
    #[cold]
    pub(crate) fn ring(&self) -> bool {
        self.armed.swap(false, SeqCst)
    }
}

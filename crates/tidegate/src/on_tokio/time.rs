//! The time of a runtime, which its user may have paused.

use std::fmt;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// The time of one runtime.
#[derive(Clone)]
pub(crate) struct TokioTime {
    /// None where nobody can pause it: with several threads the runtime's time is the system's.
    handle: Option<Handle>,
    origin: Instant,
}

impl TokioTime {
    pub(crate) fn new(handle: Handle) -> TokioTime {
        let origin = {
            let _inside = handle.enter();
            Instant::now()
        };
        let may_pause = handle.runtime_flavor() != RuntimeFlavor::MultiThread;
        TokioTime { handle: may_pause.then_some(handle), origin }
    }

    /// So long from now.
    pub(crate) fn after(&self, left: Duration) -> Instant {
        self.origin + self.elapsed() + left
    }

    pub(crate) fn elapsed(&self) -> Duration {
        match &self.handle {
            Some(handle) if may_enter() => {
                // A paused clock is found through the runtime that the thread is in.
                let _inside = handle.enter();
                self.origin.elapsed()
            }
            _ => self.origin.into_std().elapsed(),
        }
    }
}

/// Not in the destructor of a thread-local that comes after tokio's own.
fn may_enter() -> bool {
    !Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

impl fmt::Debug for TokioTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokioTime")
    }
}

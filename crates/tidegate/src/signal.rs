//! Shutting down on SIGINT and SIGTERM (feature `signal`).
//!
//! The handler itself only writes to a pipe (signal-hook); a thread of ours reads it, so
//! nothing here runs where a signal interrupted somebody else's lock (hazard 20).

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::pool::Pool;
use crate::report::Shutdown;
use crate::settle::Who;
use crate::spawn::{self, Joiner};

/// Keeps the signal thread; dropping it restores nothing but ends the thread.
#[derive(Debug)]
#[must_use = "dropping it stops listening for signals"]
pub struct SignalGuard {
    handle: signal_hook::iterator::Handle,
    thread: Option<Joiner>,
}

impl<S: 'static> Pool<S> {
    /// Begins `how` at the first SIGINT or SIGTERM, and turns it Hard at the second. `main`
    /// then waits as usual: `pool.shutdown(how)` returns the same report.
    pub fn shutdown_on_signals(&self, how: Shutdown) -> io::Result<SignalGuard> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let core = std::sync::Arc::downgrade(self.core());
        let name = format!("{}-signals", self.name());
        let body = move || {
            for (count, _) in signals.forever().enumerate() {
                let Some(core) = core.upgrade() else { return };
                let how = if count == 0 { how } else { Shutdown::hard() };
                core.begin_shutdown(how, Who::Watcher);
            }
        };
        let thread = spawn::spawn(name, None, self.core().config.spawner.as_ref(), body)?;
        Ok(SignalGuard { handle, thread: Some(thread) })
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take()
            && !thread.is_current()
        {
            thread.join();
        }
    }
}

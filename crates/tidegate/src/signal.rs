//! Shutting down on SIGINT and SIGTERM (feature `signal`).
//!
//! The handler itself only writes to a pipe (signal-hook); a thread of ours reads it, so
//! nothing here runs where a signal interrupted somebody else's lock (hazard 20).

use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::pool::Pool;
use crate::report::Shutdown;
use crate::settle::Who;
use crate::spawn::{self, Joiner};

/// Listens for signals until it is dropped. Once no guard is left, or the pool of the last
/// one has gone, they end the process, as they do by default.
#[derive(Debug)]
#[must_use = "dropping it stops listening for signals"]
pub struct SignalGuard {
    handle: Option<signal_hook::iterator::Handle>,
    thread: Option<Joiner>,
    by_default: Arc<AtomicBool>,
}

/// The guards of this process. Hooks are never taken out: without any, signal-hook would
/// swallow the signals for good.
static GUARDS: Mutex<Guards> = Mutex::new(Guards { live: 0, by_default: None });

struct Guards {
    live: usize,
    /// Whether signals do what they do by default.
    by_default: Option<Arc<AtomicBool>>,
}

fn guards() -> MutexGuard<'static, Guards> {
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One more guard: signals are ours.
fn take_over() -> io::Result<Arc<AtomicBool>> {
    let mut guards = guards();
    let switch = match &guards.by_default {
        Some(switch) => Arc::clone(switch),
        None => {
            // Before the listeners' own hooks, so that a third signal finds it turned.
            let switch = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                register_conditional_default(signal, Arc::clone(&switch))?;
            }
            guards.by_default = Some(Arc::clone(&switch));
            switch
        }
    };
    guards.live += 1;
    switch.store(false, SeqCst);
    Ok(switch)
}

/// One guard less: with the last, signals do what they did before.
fn give_back(switch: &AtomicBool) {
    let mut guards = guards();
    guards.live -= 1;
    if guards.live == 0 {
        switch.store(true, SeqCst);
    }
}

impl<S: 'static> Pool<S> {
    /// Begins `how` at the first SIGINT or SIGTERM, and turns it Hard at the second. A third
    /// ends the process, as it would have without us. `main` then waits as usual:
    /// `pool.shutdown(how)` returns the same report.
    pub fn shutdown_on_signals(&self, how: Shutdown) -> io::Result<SignalGuard> {
        let by_default = take_over()?;
        let mut guard = SignalGuard { handle: None, thread: None, by_default };
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let switch = Arc::clone(&guard.by_default);
        let core = Arc::downgrade(self.core());
        let name = format!("{}-signals", self.name());
        let body = move || {
            for (count, signal) in signals.forever().enumerate() {
                let Some(core) = core.upgrade() else {
                    // Nobody to shut down here; others may listen.
                    if guards().live <= 1 {
                        let _ = emulate_default_handler(signal);
                    }
                    continue;
                };
                let how = if count == 0 { how } else { Shutdown::hard() };
                core.begin_shutdown(how, Who::Watcher);
                if count > 0 {
                    switch.store(true, SeqCst);
                }
            }
        };
        let thread = spawn::spawn(name, None, self.core().config.spawner.as_ref(), body)?;
        guard.handle = Some(handle);
        guard.thread = Some(thread);
        Ok(guard)
    }
}

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
impl crate::on_tokio::AsyncPool {
    /// As [`Pool::shutdown_on_signals`]. `main` then waits as usual: `pool.shutdown(how).await`
    /// returns the same report.
    pub fn shutdown_on_signals(&self, how: Shutdown) -> io::Result<SignalGuard> {
        self.as_ref().shutdown_on_signals(how)
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        give_back(&self.by_default);
        if let Some(handle) = self.handle.take() {
            handle.close();
        }
        if let Some(thread) = self.thread.take()
            && !thread.is_current()
        {
            thread.join();
        }
    }
}

//! Ending early: because somebody pressed Ctrl-C, or because the run has no use any more.
//!
//! A signal does two things. In its handler it sets a flag, which whoever reads files looks at
//! between two of them, and writes a byte to a socket. A worker of a pool of its own sleeps in a
//! read of the other end; it cancels the token, which wakes those who wait for room in a pool.
//! Why so: a handler may take no lock, and the token has some; polling the flag instead would wake
//! an idle process twenty times a second, or react too late; and the progress line, which wakes up
//! anyway, is not always there.

use std::fs;
use std::io::{self, Read};
use std::net::Shutdown as Half;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use tidegate::{Pool, Shutdown, Token};

/// What is promised: the first signal ends a run within this time.
pub const PROMISED: Duration = Duration::from_secs(5);

/// The exit code of a run that was ended by a signal.
pub const INTERRUPTED: u8 = 130;

/// Whether the run is to end. Clones are the same.
#[derive(Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    token: Token,
    signals: Option<Arc<Signals>>,
    /// After so many looks.
    #[cfg(test)]
    looks: Option<Arc<std::sync::atomic::AtomicU64>>,
}

impl Stop {
    /// One that no signal reaches: only [`ask`](Stop::ask).
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asked by the first SIGINT, SIGTERM or SIGHUP; the second ends the process at once, with
    /// [`INTERRUPTED`], and so does the first after the last clone has gone. Those that the
    /// process was told to ignore when it was started (`nohup`) stay ignored.
    pub fn on_signals() -> io::Result<Stop> {
        let mut stop = Stop::new();
        let signals = Signals::watch(&stop.asked, &stop.token)?;
        stop.signals = Some(Arc::new(signals));
        Ok(stop)
    }

    /// Asks for the end. Later calls do nothing.
    pub fn ask(&self) {
        self.asked.store(true, SeqCst);
        self.token.cancel();
    }

    /// What [`is_asked`](Stop::is_asked) looks at, for those who outlive it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// One relaxed load: for between two files, or two chunks of one.
    #[inline]
    pub fn is_asked(&self) -> bool {
        #[cfg(test)]
        if let Some(looks) = &self.looks
            && looks.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err()
        {
            self.ask();
        }
        self.asked.load(Relaxed)
    }

    /// One that is asked when somebody has looked so often whether it is: a signal at any moment, without a clock.
    #[cfg(test)]
    pub fn after(looks: u64) -> Stop {
        Stop { looks: Some(Arc::new(looks.into())), ..Stop::default() }
    }

    /// Cancelled when the end is asked for, after a signal a moment later than
    /// [`is_asked`](Stop::is_asked) says so. Cancelling it asks for nothing.
    pub fn token(&self) -> Token {
        self.token.child()
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("asked", &self.is_asked()).finish_non_exhaustive()
    }
}

/// Handlers, and a worker that waits for what they write.
struct Signals {
    asked: Arc<AtomicBool>,
    /// What the worker reads from ends when this does.
    end: UnixStream,
    pool: Pool,
}

impl Signals {
    fn watch(asked: &Arc<AtomicBool>, token: &Token) -> io::Result<Signals> {
        let (end, mut bell) = UnixStream::pair()?;
        let pool =
            Pool::builder("signals").workers(1).queue(1).build().map_err(io::Error::other)?;
        let token = token.clone();
        let wait = move || {
            if let Ok(1) = read_one(&mut bell) {
                token.cancel();
            }
        };
        // Before the handlers are there: if one can't be set, the drop of this undoes the rest.
        let signals = Signals { asked: Arc::clone(asked), end, pool };
        signals.pool.spawn(wait).map_err(|refused| io::Error::other(refused.to_string()))?;
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if !is_in(ignored, signal) {
                signals.handle(signal)?;
            }
        }
        Ok(signals)
    }

    /// The handlers of a signal run in this order: the first one sees whether it is the second
    /// signal before the next notes that it was the first.
    fn handle(&self, signal: i32) -> io::Result<()> {
        flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&self.asked),
        )?;
        flag::register(signal, Arc::clone(&self.asked))?;
        pipe::register(signal, self.end.try_clone()?)?;
        Ok(())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Handlers can't be taken back to what was there before. From now on they end the process,
        // which is what it would do without them.
        self.asked.store(true, SeqCst);
        // An error would mean that it has ended already.
        let _ = self.end.shutdown(Half::Both);
        // Not if we are inside one of its tasks, and its only one has no `Stop`.
        let _ = self.pool.shutdown(Shutdown::light());
    }
}

/// How many bytes there were: 1, or 0 at the end.
fn read_one(bell: &mut UnixStream) -> io::Result<usize> {
    loop {
        match bell.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The signals that this process ignores, a bit each. To ask for the handler of a signal takes
/// unsafe code; the kernel shows the same here. Where it does not, none is taken for ignored.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignored(&status).unwrap_or(0)
}

fn parse_ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

fn is_in(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_reaches_clones_and_tokens() {
        let stop = Stop::new();
        let (clone, before) = (stop.clone(), stop.token());
        assert!(!clone.is_asked() && !before.is_cancelled());
        stop.ask();
        stop.ask();
        assert!(clone.is_asked() && before.is_cancelled() && clone.token().is_cancelled());
    }

    #[test]
    fn cancelling_a_token_asks_for_nothing() {
        let stop = Stop::new();
        stop.token().cancel();
        assert!(!stop.is_asked() && !stop.token().is_cancelled());
    }

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let mask = parse_ignored("Name:\tx\nSigBlk:\tffff\nSigIgn:\t0000000000001001\n").unwrap();
        assert!(is_in(mask, SIGHUP) && is_in(mask, signal_hook::consts::SIGPIPE));
        assert!(!is_in(mask, SIGINT) && !is_in(mask, SIGTERM));
        for odd in ["", "SigIgn:", "SigIgn:\tx\n", "SigIgn:\t11112222333344445\n"] {
            assert_eq!(parse_ignored(odd), None, "{odd:?}");
        }
    }
}

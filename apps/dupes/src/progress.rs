//! What is shown on stderr while it runs: a line for people, or objects for machines.
//!
//! Looking (here), speed (`speed.rs`), what it looks like (`view.rs`) and a stderr that may be full
//! or gone (`sink.rs`) know nothing of each other's business. One worker of a pool of its own does
//! it all; it reads counters and holds nobody up.

mod board;
mod sink;
mod speed;
mod view;

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tidegate::{Pool, Shutdown, Snapshot, Token};

use crate::find::Pools;
use crate::options::Progress;
use crate::stop::Stop;
use crate::tally::Tally;
pub use board::{Published, publish, read};
use sink::Sink;
use speed::Speed;
pub use view::{Stage, View};

/// Shows what `tally` and `pools` say until the guard is dropped; the first pool is the one that
/// walks. Where there is nothing to show it starts nothing, and if it can't be started nothing is
/// shown: a run does not depend on it.
pub fn start(mode: Progress, tally: Arc<Tally>, pools: Pools) -> Shown {
    let how = match mode {
        Progress::Never => None,
        Progress::Auto => can_draw().then_some(How::Line),
        Progress::Json => Some(How::Objects),
    };
    Shown { _ticking: how.and_then(|how| Ticking::start(how, Eye::new(tally, pools))) }
}

/// Progress is shown while this lives; its drop takes the line away, or prints the last object.
#[derive(Debug)]
#[must_use = "dropping it ends the display"]
pub struct Shown {
    _ticking: Option<Ticking>,
}

/// Prints a line of text on stderr, in the place of the progress line if there is one; that comes
/// again below it. Everything that goes to stderr while a guard lives should go this way. The text
/// is taken as it is: names in it must have been escaped.
///
/// Waits for a stderr that takes nothing, but not when the end is asked for ([`heed`]).
pub fn say(text: &str) {
    let mut drawn = drawn();
    let erase = if *drawn { ERASE } else { "" };
    *drawn = false;
    if NOBODY_READS.load(Relaxed) {
        return;
    }
    let mut sink = Sink::new(io::stderr());
    let mut line = format!("{erase}{text}\n").into_bytes();
    loop {
        // One that is gone is no reason to end.
        let Ok(()) = sink.insist(&line, LAST_WORDS) else { return };
        line.clear();
        if sink.is_done() {
            return;
        }
        if END.get().is_some_and(|asked| asked.load(Relaxed)) {
            NOBODY_READS.store(true, Relaxed);
            return;
        }
    }
}

/// From now on nothing that is said holds up an end that is asked for.
pub fn heed(stop: &Stop) {
    // Once: a process has one command.
    let _ = END.set(stop.flag());
}

static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Seen when the end was asked for; what comes after that is for nobody.
static NOBODY_READS: AtomicBool = AtomicBool::new(false);

/// To the start of the row, and nothing from there on.
const ERASE: &str = "\r\x1b[K";

/// Whether the line is on the terminal. There is one stderr, so there is one of these.
static DRAWN: Mutex<bool> = Mutex::new(false);

fn drawn() -> MutexGuard<'static, bool> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In which way it is shown.
#[derive(Clone, Copy)]
enum How {
    Line,
    Objects,
}

impl How {
    fn every(self) -> Duration {
        Duration::from_millis(match self {
            How::Line => 200,
            How::Objects => 500,
        })
    }

    fn show(self, view: &View, sink: &mut Sink<io::Stderr>) -> io::Result<()> {
        match self {
            How::Line => draw(view, sink),
            How::Objects => sink.offer(object(view, false).as_bytes()),
        }
    }

    /// The last words.
    fn finish(self, view: &View, sink: &mut Sink<io::Stderr>) -> io::Result<()> {
        match self {
            How::Line if !std::mem::take(&mut *drawn()) || is_in_background() => Ok(()),
            How::Line => sink.insist(ERASE.as_bytes(), LAST_WORDS),
            How::Objects => sink.insist(object(view, true).as_bytes(), LAST_WORDS),
        }
    }
}

fn object(view: &View, done: bool) -> String {
    format!("{}\n", view.json(done))
}

fn draw(view: &View, sink: &mut Sink<io::Stderr>) -> io::Result<()> {
    if is_in_background() {
        return Ok(());
    }
    // The last column stays empty: some terminals go to the next row when it is filled.
    let line = view.line(columns().saturating_sub(1));
    let mut drawn = drawn();
    *drawn = true;
    sink.offer(format!("\r{line}\x1b[K").as_bytes())
}

/// How long the end of a run may wait for a stderr that takes nothing, and for a write to it that
/// does not return.
const LAST_WORDS: Duration = Duration::from_millis(250);
pub(crate) const AT_LAST: Duration = Duration::from_secs(1);

/// A worker that looks and shows, again and again.
#[derive(Debug)]
struct Ticking {
    over: Token,
    pool: Pool,
}

impl Ticking {
    fn start(how: How, mut eye: Eye) -> Option<Ticking> {
        // It may have to be left behind in a write; that is no news, least of all for stderr.
        let pool = Pool::builder("progress").workers(1).queue(1).on_unobserved(|_| ()).build();
        let ticking = Ticking { over: Token::new(), pool: pool.ok()? };
        let over = ticking.over.clone();
        let tick = move || {
            let mut sink = Sink::new(io::stderr());
            while !over.wait_timeout(how.every()) {
                how.show(&eye.look(), &mut sink)?;
            }
            how.finish(&eye.look(), &mut sink)
        };
        // An error says that there is no stderr to show anything on.
        ticking.pool.spawn_result(tick).ok()?;
        Some(ticking)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.over.cancel();
        // Only a task of its own would be refused, and it has no guard.
        let _ = self.pool.shutdown(Shutdown::light().within(AT_LAST).grace(Duration::ZERO));
    }
}

/// Sees how far the run is.
struct Eye {
    tally: Arc<Tally>,
    pools: Pools,
    since: Instant,
    speed: Speed,
}

impl Eye {
    fn new(tally: Arc<Tally>, pools: Pools) -> Eye {
        Eye { tally, pools, since: Instant::now(), speed: Speed::default() }
    }

    fn look(&mut self) -> View {
        let elapsed = self.since.elapsed();
        let snapshots: Vec<_> = (self.pools)().iter().map(Pool::snapshot).collect();
        // After them: once the walk is idle, what it wanted is all counted.
        let tally = &self.tally;
        let read_bytes_done = Tally::get(&tally.read_bytes_done);
        self.speed.note(elapsed, read_bytes_done);
        View {
            elapsed,
            walking: snapshots.first().is_some_and(is_walking),
            folders: Tally::get(&tally.folders),
            files: Tally::get(&tally.files),
            bytes: Tally::get(&tally.bytes),
            reads_wanted: Tally::get(&tally.reads_wanted),
            reads_done: Tally::get(&tally.reads_done),
            read_bytes_wanted: Tally::get(&tally.read_bytes_wanted)
                .saturating_sub(Tally::get(&tally.read_bytes_spared)),
            read_bytes_done,
            unread: Tally::get(&tally.unread),
            unstable: Tally::get(&tally.unstable),
            rate: self.speed.per_second(),
            stages: snapshots.iter().map(Stage::of).collect(),
        }
    }
}

/// It has not begun, or is not through.
fn is_walking(walk: &Snapshot) -> bool {
    walk.accepted == 0 || walk.queued + walk.running > 0
}

/// A terminal that can erase what is on it.
fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The shell has the terminal, and what we draw would get between what is typed there.
fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|front| front != getpgrp())
}

/// 80 where the terminal does not say.
fn columns() -> usize {
    match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two looks at a run, of which so much has passed in between.
    fn after(seconds: u64, wanted: u64, spared: u64, read: u64) -> View {
        let tally = Arc::new(Tally::default());
        let mut eye = Eye::new(Arc::clone(&tally), Arc::new(Vec::new));
        Tally::add(&tally.read_bytes_wanted, wanted);
        assert_eq!(eye.look().left().map(|left| left.as_secs()), None, "no speed yet");
        Tally::add(&tally.read_bytes_done, read);
        Tally::add(&tally.read_bytes_spared, spared);
        let now = eye.since;
        eye.since = now.checked_sub(Duration::from_secs(seconds)).expect("the machine is up");
        eye.look()
    }

    #[test]
    fn the_line_tells_how_long_the_rest_takes_at_the_speed_of_late() {
        const MIB: u64 = 1 << 20;
        // 10 MiB/s, and 90 MiB to go. The looks themselves take a moment, so it is a little slower.
        let view = after(10, 190 * MIB, 0, 100 * MIB);
        let left = view.left().unwrap().as_secs();
        assert!((9..=12).contains(&left), "{left} s, {view:?}");
        // Whatever turned out not to be needed is not waited for.
        let view = after(10, 1_090 * MIB, 900 * MIB, 100 * MIB);
        let left = view.left().unwrap().as_secs();
        assert!((9..=12).contains(&left), "{left} s, {view:?}");
        assert!(view.line(200).contains(" left"), "{}", view.line(200));
        assert_eq!(after(10, 100 * MIB, 0, 100 * MIB).left(), Some(Duration::ZERO));
        assert_eq!(after(10, 100 * MIB, 0, 0).left(), None, "it stands still");
    }
}

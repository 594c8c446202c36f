//! `dupes scan`.

use std::error::Error;
use std::os::unix::ffi::OsStrExt;

use super::{refused, roots, say, stop_on_signals, tell, tell_problems, watched};
use crate::cli::{self, Scan as Asked};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::find::Live;
use crate::progress;
use crate::remember::Mode;
use crate::scan::{self, Scan};
use crate::stop::Stop;
use crate::store::Store;
use crate::store::roots::Root;
use crate::store::scans::State;

pub(super) fn scan(mut asked: Asked) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let store = Store::open_or_make(&asked.database)?;
    let mode = asked.request.mode;
    let lock = store.lock(&format!("scan {}", mode.name()))?;
    if let Some(exit) = keeps_hashes(&store, &mut asked)? {
        return Ok(exit);
    }
    let roots = match asked.paths.is_empty() {
        true => store.roots()?,
        // A mistake in one of them leaves none behind.
        false => store.all_or_nothing(|| asked_roots(&store, &asked))?,
    };
    if roots.is_empty() {
        return Err("no root is registered yet: dupes scan PATH".into());
    }
    let (online, offline) = scan::by_presence(roots);
    for path in &offline {
        let path = escaped(path.as_os_str().as_bytes());
        say(&format!(
            "dupes: {path}: offline: nothing of it was looked at, and nothing is taken for gone"
        ));
    }
    if online.is_empty() {
        return Err("there is nowhere to look".into());
    }
    let mut exit = if offline.is_empty() { Exit::Complete } else { Exit::Unread };
    // What counts is the same in one walk.
    for roots in online.chunk_by(|one, other| one.words == other.words) {
        match one(&asked, &store, &lock, roots.to_vec(), &stop)? {
            Exit::Complete => {}
            Exit::Unread => exit = Exit::Unread,
            ended => return Ok(ended),
        }
    }
    Ok(exit)
}

fn asked_roots(store: &Store, asked: &Asked) -> Result<Vec<Root>, Box<dyn Error>> {
    let mut roots = Vec::new();
    for path in &asked.paths {
        let root = match asked.request.mode {
            Mode::Refresh => scan::known_root(store, path)?,
            _ => roots::root(store, path, &asked.words)?,
        };
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    Ok(roots)
}

/// Another hash makes those that are stored void, also of what is gone or offline. How to end if nobody wants
/// that; one that is only a default does not do it.
fn keeps_hashes(store: &Store, asked: &mut Asked) -> Result<Option<Exit>, Box<dyn Error>> {
    let (Some(stored), Some(wanted)) = (store.algorithm()?, asked.request.hash) else {
        return Ok(None);
    };
    if stored == wanted || !store.has_hashes()? {
        return Ok(None);
    }
    if !asked.may_change_hash {
        asked.request.hash = None;
        return Ok(None);
    }
    let (stored, wanted) = (stored.name(), wanted.name());
    let question =
        format!("Make all {stored} hashes void, and read everything again for {wanted}?");
    Ok(refused(&question, asked.consent)?)
}

fn one(
    asked: &Asked,
    store: &Store,
    lock: &crate::store::WriteLock,
    roots: Vec<Root>,
    stop: &Stop,
) -> Result<Exit, Box<dyn Error>> {
    let live = Live { stop: stop.clone(), ..Live::default() };
    if let Some(most) = asked.max_errors {
        live.problems.stop_above(most, live.stop.clone());
    }
    let filter = cli::recorded_filter(&roots[0].words).map_err(|failure| {
        format!("the filters of a root can't be used any more: {}", failure.text.trim_end())
    })?;
    let scan = Scan::begin(store, lock, asked.request.clone(), roots, filter, live.clone())?;
    if let Some(killed) = scan.resumes {
        say(&format!("dupes: scan {killed} was cut off: what it has recorded is used"));
    }
    let watched = watched(&asked.request.options, &live, &scan.pools())?;
    let board = lock.board().ok();
    let published = board.map(|board| progress::publish(board, &live.tally, &scan.pools()));
    let summary = scan.finish();
    drop((watched, published));
    tell_problems(&live.problems, "what was not read is tried again by the next scan");
    let summary = summary?;
    let told = tell(asked.style, &summary.to_string(), &summary.json());
    Ok(match summary.state {
        State::Complete => told,
        State::Unread if told == Exit::Complete => Exit::Unread,
        State::Unread => told,
        State::Interrupted => {
            say("dupes: interrupted: what was found so far is recorded; the same command goes on");
            Exit::Interrupted
        }
        State::Failed | State::Active => {
            say("dupes: given up: more problems than --max-errors allows");
            Exit::CouldNotRun
        }
    })
}

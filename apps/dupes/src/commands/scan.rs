//! `dupes scan`.

use std::error::Error;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{refused, roots, say, stop_on_signals, tell, tell_problems, watched};
use crate::across::Met;
use crate::cli::{self, Scan as Asked, Style};
use crate::count::Count;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::find::Live;
use crate::output::json_path;
use crate::progress;
use crate::remember::Mode;
use crate::report;
use crate::scan::{self, Scan, Summary, Turn};
use crate::stop::Stop;
use crate::store::Store;
use crate::store::roots::Root;
use crate::store::scans::State;

pub(super) fn scan(mut asked: Asked) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let mode = asked.request.mode;
    let mut store = match asked.paths.is_empty() || matches!(mode, Mode::Refresh | Mode::Files) {
        true => Store::open(&asked.database)?,
        false => Store::open_or_make(&asked.database)?,
    };
    store.heed(&stop)?;
    let lock = store.lock(&format!("scan {}", mode.name()))?;
    if let Some(exit) = keeps_hashes(&store, &mut asked, &stop)? {
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
    for root in &offline {
        let why = root.why_offline().unwrap_or_default();
        // There is a folder, but not that which was scanned.
        let hint = match root.path.is_dir() {
            true => {
                ", or `dupes roots add` it if the folder that is there is that root from now on"
            }
            false => "",
        };
        say(&format!(
            "dupes: {}: offline ({why}): nothing of it was looked at, and nothing is taken for gone; scan it \
            again once it is back, or `dupes roots remove` it{hint}",
            shown(&root.path)
        ));
    }
    let (online, again) = scan::once_each(online);
    for (path, first) in &again {
        let [path, first] = [path, first].map(|path| shown(path));
        say(&format!(
            "dupes: {path}: not scanned: it is the folder of the root {first}; `dupes roots remove` one of both"
        ));
    }
    let (online, unseen) = seen_before(&store, mode, online)?;
    for root in &unseen {
        let path = shown(&root.path);
        say(&format!(
            "dupes: {path}: never scanned, so that nothing is known of it: dupes scan {path}"
        ));
    }
    if online.is_empty() {
        return Err("there is nowhere to look".into());
    }
    // How each of them ended.
    let mut ends: Vec<(PathBuf, &str)> = Vec::new();
    ends.extend(offline.into_iter().map(|root| (root.path, "offline")));
    ends.extend(unseen.into_iter().map(|root| (root.path, "never scanned")));
    ends.extend(again.into_iter().map(|(path, _)| (path, "left out")));
    let is_all = ends.is_empty();
    let (mut sum, mut problems) = (None::<Summary>, 0);
    // What counts is the same in one walk.
    let mut groups =
        online.chunk_by(|one, other| one.words == other.words).map(<[Root]>::to_vec).peekable();
    let mut scanned = Vec::new();
    while let Some(roots) = groups.next() {
        let turn = match groups.peek() {
            Some(_) => Turn::First,
            None => Turn::Last(scanned.clone()),
        };
        scanned.extend(roots.iter().map(|root| root.id));
        let end = match &sum {
            Some(sum) if sum.is_cut_off() => "not begun",
            _ => {
                let roots = roots.clone();
                let summary = one(&asked, &store, &lock, roots, turn, &stop, &mut problems);
                if summary.as_ref().is_err_and(|error| scan::is_interruption(&**error)) {
                    say(
                        "dupes: interrupted: what is recorded is as it was before; the same command begins anew",
                    );
                    return Ok(Exit::Interrupted);
                }
                let summary = summary?;
                let state = summary.state.name();
                sum = Some(match sum {
                    Some(before) => before.and(&summary),
                    None => summary,
                });
                state
            }
        };
        ends.extend(roots.iter().map(|root| (root.path.clone(), end)));
    }
    let sum = sum.expect("there is a root to look at");
    Ok(tell_end(&sum, ends, is_all, asked.style))
}

/// One text, or one object, for all roots.
fn tell_end(sum: &Summary, mut ends: Vec<(PathBuf, &str)>, is_all: bool, style: Style) -> Exit {
    let mut object = sum.json();
    ends.sort();
    object["roots"] = ends
        .iter()
        .map(|(path, end)| json!({ "path": json_path(path.as_os_str().as_bytes()), "state": end }))
        .collect();
    let told = tell(style, &sum.to_string(), &object);
    let Met { changed, unread_offline, .. } = sum.met();
    if changed > 0 {
        let files = Count(changed, "file");
        say(&format!(
            "dupes: {files} of other roots changed since those were scanned, and may be copies: scan them, too"
        ));
    }
    if let Some(said) = report::of_unread_offline(unread_offline) {
        say(&said);
    }
    match sum.state {
        State::Complete | State::Unread if told != Exit::Complete => told,
        State::Complete if is_all && unread_offline == 0 => told,
        State::Complete | State::Unread => Exit::Unread,
        State::Interrupted => {
            say("dupes: interrupted: what was found so far is recorded; the same command goes on");
            Exit::Interrupted
        }
        State::Failed | State::Active => {
            say("dupes: given up: more problems than --max-errors allows");
            Exit::CouldNotRun
        }
    }
}

fn shown(path: &Path) -> String {
    escaped(path.as_os_str().as_bytes()).to_string()
}

/// Those in which this mode can find something, and those of which nothing is known.
fn seen_before(
    store: &Store,
    mode: Mode,
    roots: Vec<Root>,
) -> Result<(Vec<Root>, Vec<Root>), Box<dyn Error>> {
    if matches!(mode, Mode::All | Mode::Folders) {
        return Ok((roots, Vec::new()));
    }
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    for root in roots {
        match store.folder_of_root(root.id)? {
            Some(_) => seen.push(root),
            None => unseen.push(root),
        }
    }
    Ok((seen, unseen))
}

fn asked_roots(store: &Store, asked: &Asked) -> Result<Vec<Root>, Box<dyn Error>> {
    let mut roots = Vec::new();
    for path in &asked.paths {
        let root = match asked.request.mode {
            // They look at what is known, and add nothing.
            Mode::Refresh | Mode::Files => scan::known_root(store, path)?,
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
fn keeps_hashes(
    store: &Store,
    asked: &mut Asked,
    stop: &Stop,
) -> Result<Option<Exit>, Box<dyn Error>> {
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
    Ok(refused(&question, asked.consent, stop)?)
}

/// `problems`: how many there were before, and then after it.
fn one(
    asked: &Asked,
    store: &Store,
    lock: &crate::store::WriteLock,
    roots: Vec<Root>,
    turn: Turn,
    stop: &Stop,
    problems: &mut u64,
) -> Result<Summary, Box<dyn Error>> {
    let live = Live { stop: stop.clone(), ..Live::default() };
    if let Some(most) = asked.max_errors {
        live.problems.stop_above(most.saturating_sub(*problems), live.stop.clone());
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
    let summary = scan.finish_as(turn);
    drop((watched, published));
    *problems += live.problems.count();
    tell_problems(&live.problems, "what was not read is tried again by the next scan");
    summary
}

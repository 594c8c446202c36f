//! `dupes find`.

use std::error::Error;

use super::{end, list, say, stop_on_signals, tell_problems, watched};
use crate::count::Count;
use crate::exit::Exit;
use crate::find::{Live, Run};
use crate::options::Options;
use crate::size::Size;
use crate::split::Splitter;
use crate::tally::Tally;

const SO: &str = "what was not read is in no set";

pub(super) fn find(options: Options) -> Result<Exit, Box<dyn Error>> {
    let live = Live { stop: stop_on_signals()?, ..Live::default() };
    let (format, nul, roots) = (options.format, options.nul, options.roots.len() as u64);
    let run = Run::new(options.clone(), Splitter::default(), live.clone(), None);
    let run = run.map_err(|error| {
        format!(
            "workers could not be started: {error}; the limits of this user (ulimit -u) or of the \
             machine are reached: --threads 1 needs the fewest"
        )
    })?;
    let watched = watched(&options, &live, &run.pools())?;
    let sets = run.finish();
    drop(watched);

    let Some(sets) = sets else {
        tell_problems(&live.problems, SO);
        say(&interrupted(&live.tally));
        return Ok(Exit::Interrupted);
    };
    if live.problems.wrong_roots() == roots {
        tell_problems(&live.problems, SO);
        return Err("there is nowhere to look".into());
    }
    let asked = live.stop.clone();
    let print =
        move |printer: &mut dyn crate::output::Printer| sets.print(printer, &asked).map(drop);
    let printed = list(format, nul, &live.stop, print);
    tell_problems(&live.problems, SO);
    Ok(end(printed?, &live.problems, &live.stop))
}

/// What was done before the end that somebody asked for.
fn interrupted(tally: &Tally) -> String {
    let (folders, files) = (Tally::get(&tally.folders), Tally::get(&tally.files));
    let (folders, files) = (Count(folders, "folder"), Count(files, "file"));
    let read = Size(Tally::get(&tally.read_bytes_done));
    let [wanted, done] = [&tally.reads_wanted, &tally.reads_done].map(Tally::get);
    format!(
        "dupes: interrupted: {folders} and {files} were seen, {done} of {wanted} \
         reads were done ({read}); nothing is listed"
    )
}

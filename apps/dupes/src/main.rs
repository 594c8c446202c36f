//! `dupes`: finds files with the same content.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;
use std::time::Duration;

use dupes::cli::{self, Command};
use dupes::exit::Exit;
use dupes::find::{Live, Run};
use dupes::options::{Format, Options};
use dupes::output::Stdout;
use dupes::problems::Problems;
use dupes::sets::Sets;
use dupes::size::Size;
use dupes::split::Splitter;
use dupes::stop::Stop;
use dupes::tally::Tally;
use dupes::{metrics, output, progress};
use tidegate::{Pool, TaskError};

fn main() -> ExitCode {
    let mut stdin: Box<dyn BufRead> = Box::new(BufReader::new(io::stdin()));
    let exit = match cli::parse(std::env::args_os(), &mut stdin) {
        Ok(Command::Find(options)) => find(*options),
        Ok(Command::Print(text)) => print(&text),
        Err(failure) if failure.stdout => match print(failure.text.as_bytes()) {
            Exit::Complete => failure.exit,
            other => other,
        },
        Err(failure) => {
            say(failure.text.trim_end());
            failure.exit
        }
    };
    exit.into()
}

fn print(text: &[u8]) -> Exit {
    match Stdout.write_all(text) {
        Ok(()) => Exit::Complete,
        Err(error) => could_not_write(&error),
    }
}

fn find(options: Options) -> Exit {
    match try_to_find(options) {
        Ok(exit) => exit,
        Err(error) => {
            say(&format!("dupes: {error}"));
            Exit::CouldNotRun
        }
    }
}

fn try_to_find(options: Options) -> Result<Exit, Box<dyn Error>> {
    let live = Live { stop: Stop::on_signals()?, ..Live::default() };
    let (format, nul) = (options.format, options.nul);
    let (shown, served, roots) = (options.progress, options.metrics, options.roots.len() as u64);
    let run = Run::new(options, Splitter::default(), live.clone()).map_err(|error| {
        format!("workers could not be started: {error}; --threads 1 needs the fewest")
    })?;
    let served = served
        .map(|address| metrics::serve(address, run.pools(), live.tally.clone()))
        .transpose()?;
    if let Some(served) = &served {
        say(&format!("dupes: metrics on http://{}/metrics", served.addr()));
    }
    let shown = progress::start(shown, live.tally.clone(), run.pools());
    let sets = run.finish();
    drop((shown, served));

    let Some(sets) = sets else {
        tell_problems(&live.problems);
        say(&interrupted(&live.tally));
        return Ok(Exit::Interrupted);
    };
    if live.problems.wrong_roots() == roots {
        tell_problems(&live.problems);
        return Err("there is nowhere to look".into());
    }
    let printed = list(sets, format, nul, &live.stop);
    tell_problems(&live.problems);
    match printed? {
        Ok(_) if live.problems.count() > 0 => Ok(Exit::Unread),
        Ok(_) => Ok(Exit::Complete),
        Err(_) if live.stop.is_asked() => {
            say("dupes: interrupted while the listing was printed: it is not complete");
            Ok(Exit::Interrupted)
        }
        Err(error) => Ok(could_not_write(&error)),
    }
}

/// By a worker: whoever reads the listing may stop in the middle, and then a write never returns. The
/// end that somebody asks for does not wait for them.
fn list(
    sets: Sets,
    format: Format,
    nul: bool,
    stop: &Stop,
) -> Result<io::Result<()>, Box<dyn Error>> {
    const LOOK: Duration = Duration::from_millis(20);
    const PATIENCE: Duration = Duration::from_secs(2);
    let pool = Pool::builder("listing").workers(1).queue(1).grace(PATIENCE).build()?;
    let asked = stop.clone();
    let print = move || {
        let mut printer = output::printer(format, nul, Box::new(Stdout));
        sets.print(&mut *printer, &asked).map(drop)
    };
    let mut listing = pool.submit(print).map_err(|refused| refused.to_string())?;
    loop {
        match listing.wait_timeout(LOOK) {
            Some(Ok(printed)) => return Ok(printed),
            Some(Err(TaskError::Abandoned(_) | TaskError::Cancelled { .. })) => {
                return Ok(Err(io::ErrorKind::Interrupted.into()));
            }
            Some(Err(error)) => return Err(error.into()),
            None if stop.is_asked() => drop(listing.cancel()), // it has its grace
            None => {}
        }
    }
}

/// What was done before the end that somebody asked for.
fn interrupted(tally: &Tally) -> String {
    let [folders, files] = [&tally.folders, &tally.files].map(Tally::get);
    let read = Size(Tally::get(&tally.read_bytes_done));
    let [wanted, done] = [&tally.reads_wanted, &tally.reads_done].map(Tally::get);
    format!(
        "dupes: interrupted: {folders} folders and {files} files were seen, {done} of {wanted} \
         reads were done ({read}); nothing is listed"
    )
}

fn tell_problems(problems: &Problems) {
    let (kept, all) = (problems.kept(), problems.count());
    for problem in &kept {
        say(&format!("dupes: {problem}"));
    }
    let more = all - kept.len() as u64;
    if more > 0 {
        say(&format!("dupes: {more} more problems like these are not shown"));
    }
    if all > 0 {
        let what = if all == 1 { "1 problem" } else { &format!("{all} problems") };
        say(&format!("dupes: {what}: what was not read is in no set"));
    }
}

/// A listing that nobody wants any more is no failure of ours, but it is not complete.
fn could_not_write(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::ClosedPipe;
    }
    say(&format!("dupes: the listing could not be written: {error}"));
    Exit::CouldNotRun
}

/// To stderr, if it is still there.
fn say(text: &str) {
    progress::say(text);
}

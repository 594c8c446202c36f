//! What each verb does, from its words to its exit code.

mod act;
mod config;
mod find;
mod report;
mod roots;
mod scan;
mod status;
mod upkeep;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tidegate::{Clock, Pool, TaskError};

use crate::cli::{Command, Consent, Style};
use crate::count::Count;
use crate::exit::Exit;
use crate::find::{Live, Pools};
use crate::metrics::{self, Served};
use crate::options::{Format, Options};
use crate::output::{self, Printer, Stdout};
use crate::problems::Problems;
use crate::progress::{self, Shown};
use crate::stop::Stop;

/// Does it.
pub fn run(command: Command) -> Exit {
    let done = match command {
        Command::Find(options) => find::find(*options),
        Command::Scan(scan) => scan::scan(*scan),
        Command::AddRoot(database, path, words, consent) => {
            roots::add(&database, &path, &words, consent)
        }
        Command::ListRoots(database, style) => roots::list(&database, style),
        Command::RemoveRoot(database, path, consent) => roots::remove(&database, &path, consent),
        Command::ReportFiles(database, listing) => report::files(&database, listing),
        Command::ReportFolders(database, likeness, style) => {
            report::folders(&database, &likeness, style)
        }
        Command::ReportPage(database, file) => report::page(&database, &file),
        Command::Purge(database, before, consent) => upkeep::purge(&database, before, consent),
        Command::Verify(database, remedy, consent) => upkeep::verify(&database, remedy, consent),
        Command::Plan(subject, file) => act::plan(*subject, &file),
        Command::Apply(apply) => act::apply(*apply),
        Command::Undo(journal, id, style) => act::undo(&journal, id.as_deref(), style),
        Command::Recover(journal, way, style) => act::recover(&journal, way, style),
        Command::Log(journal, id, style) => act::log(&journal, id.as_deref(), style),
        Command::PurgeQuarantine(purge) => act::purge_quarantine(&purge),
        Command::Status(database, style) => status::status(&database, style),
        Command::CheckConfig(checked, style) => return config::check(&checked, style),
        Command::Print(text) => return print(&text),
    };
    done.unwrap_or_else(|error| {
        say(&format!("dupes: {error}"));
        Exit::CouldNotRun
    })
}

/// Whether to end early, by signals; whatever is said does not hold that up.
fn stop_on_signals() -> io::Result<Stop> {
    let stop = Stop::on_signals()?;
    progress::heed(&stop);
    Ok(stop)
}

/// All of it to stdout.
pub fn print(text: &[u8]) -> Exit {
    match Stdout.write_all(text) {
        Ok(()) => Exit::Complete,
        Err(error) => could_not_write(&error),
    }
}

/// To stderr, if it is still there.
pub fn say(text: &str) {
    progress::say(text);
}

/// A text for people, or an object for programs.
fn tell(style: Style, text: &str, object: &serde_json::Value) -> Exit {
    match style {
        Style::Text => print(format!("{text}\n").as_bytes()),
        Style::Json => print(format!("{object}\n").as_bytes()),
    }
}

/// What is shown and served while something runs.
fn watched(
    options: &Options,
    live: &Live,
    pools: &Pools,
) -> Result<(Shown, Option<Served>), Box<dyn Error>> {
    let served = options
        .metrics
        .map(|address| metrics::serve(address, Arc::clone(pools), Arc::clone(&live.tally)))
        .transpose()?;
    if let Some(served) = &served {
        say(&format!("dupes: metrics on http://{}/metrics", served.addr()));
    }
    let shown = progress::start(options.progress, Arc::clone(&live.tally), Arc::clone(pools));
    Ok((shown, served))
}

fn tell_problems(problems: &Problems, so: &str) {
    problems.tell_the_rest();
    let count = problems.count();
    if count > 0 {
        say(&format!("dupes: {}: {so}", Count(count, "problem")));
    }
}

/// Prints a listing by a worker.
fn list(
    format: Format,
    nul: bool,
    stop: &Stop,
    all: impl FnOnce(&mut dyn Printer) -> io::Result<()> + Send + 'static,
) -> Result<io::Result<()>, Box<dyn Error>> {
    let print = move || all(&mut *output::printer(format, nul, Box::new(Stdout)));
    let printed = by_worker("listing", &Clock::system(), stop, print)?;
    Ok(printed.unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into())))
}

/// How often whoever waits for a worker looks whether it is to stop, and how long a write may take then.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(2);

/// Has something done by a worker that may never return: whoever reads a listing may stop in the middle, and
/// then no write does. The end that somebody asks for does not wait for that; None then.
fn by_worker<T: Send + 'static>(
    name: &'static str,
    clock: &Clock,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Box<dyn Error>> {
    let pool =
        Pool::builder(name).workers(1).queue(1).grace(PATIENCE).clock(clock.clone()).build()?;
    let mut done = pool.submit(work).map_err(|refused| refused.to_string())?;
    loop {
        match done.wait_timeout(LOOK) {
            Some(Ok(done)) => return Ok(Some(done)),
            Some(Err(TaskError::Abandoned(_) | TaskError::Cancelled { .. })) => return Ok(None),
            Some(Err(error)) => return Err(error.into()),
            None if stop.is_asked() => drop(done.cancel()), // it has its grace
            None => {}
        }
    }
}

/// How a run ends whose listing was printed so.
fn end(printed: io::Result<()>, problems: &Problems, stop: &Stop) -> Exit {
    match printed {
        Ok(()) if problems.count() > 0 => Exit::Unread,
        Ok(()) => Exit::Complete,
        Err(_) if stop.is_asked() => {
            say("dupes: interrupted while the listing was printed: it is not complete");
            Exit::Interrupted
        }
        Err(error) => could_not_write(&error),
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

/// How to end if nobody agrees to what can't be taken back. Where there is nobody to ask, the command line
/// must have said so.
fn refused(question: &str, consent: Consent, stop: &Stop) -> io::Result<Option<Exit>> {
    if consent == Consent::Given {
        return Ok(None);
    }
    // A question that nobody sees would wait for ever.
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        say(&format!(
            "dupes: {question} There is no terminal to ask at, and this can't be taken back: \
            nothing was changed. If that is what you want, add --yes"
        ));
        return Ok(Some(Exit::Usage));
    }
    say(&format!("{question} This can't be taken back. [y/N]"));
    let Some(answer) = answer(stop)? else {
        say("dupes: interrupted: nothing was changed");
        return Ok(Some(Exit::Interrupted));
    };
    if matches!(answer.trim(), "y" | "Y" | "yes" | "Yes") {
        return Ok(None);
    }
    say("dupes: nothing was changed");
    Ok(Some(Exit::Usage))
}

/// A line that somebody types; None: the end is asked for instead.
fn answer(stop: &Stop) -> io::Result<Option<String>> {
    let look = Timespec::try_from(LOOK).expect("it is short");
    while !stop.is_asked() {
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&look)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let mut answer = String::new();
                stdin.read_line(&mut answer)?;
                return Ok(Some(answer));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::{find, stop};

    /// Far more than anything here takes, on a machine that is busy with something else.
    const LIMIT: Duration = Duration::from_secs(30);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let since = std::time::Instant::now();
        while !is_so() {
            assert!(since.elapsed() < LIMIT, "{what}");
            thread::yield_now();
        }
    }

    /// Whoever reads the listing has stopped: exactly so long, by a clock that is turned by hand.
    #[test]
    fn a_write_that_does_not_return_is_left_behind_after_its_grace() {
        let (clock, hand) = Clock::manual();
        let stop = Stop::new();
        let (_open, gate) = mpsc::channel::<()>();
        let waiting = thread::spawn({
            let stop = stop.clone();
            move || {
                let stuck = move || assert!(gate.recv().is_err());
                by_worker("listing", &clock, &stop, stuck).unwrap()
            }
        });
        until("nobody waits", || hand.sleepers() > 0);
        stop.ask();
        // It looks, hears of it, and looks on until the grace is over.
        let most = LOOK + PATIENCE + LOOK;
        let mut passed = Duration::ZERO;
        while passed < most && !waiting.is_finished() {
            until("it hangs", || hand.sleepers() > 0 || waiting.is_finished());
            hand.advance(LOOK);
            passed += LOOK;
        }
        until("it is still there after its grace", || waiting.is_finished());
        assert_eq!(waiting.join().unwrap(), None);
    }

    /// Each of these is kept by somebody's test; together they are what a user is told.
    #[test]
    fn all_waits_of_an_interrupted_run_are_within_what_is_promised() {
        let pools = find::LOOK + find::GRACE;
        let watchers = progress::AT_LAST + metrics::LAST_PAGES + metrics::LAST_GRACE;
        assert!(pools + watchers < stop::PROMISED, "{pools:?} and {watchers:?}");
        assert!(LOOK + PATIENCE + LOOK < stop::PROMISED);
    }
}

//! A plan from what is found now, or was found by the last scans.

use std::error::Error;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::super::{say, tell_problems, watched};
use crate::act::why::Why;
use crate::cli::{Source, Subject};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::find::{Live, Run};
use crate::listing::{Set, Totals};
use crate::options::{Options, Root};
use crate::output::Printer;
use crate::own::Own;
use crate::plan::{Maker, Plan};
use crate::report;
use crate::scan;
use crate::split::Splitter;
use crate::store::Store;

/// With how it ends, if all that follows goes well; or how it has ended.
type Made = Result<(Plan, Exit), Exit>;

/// `own`: not for acting on.
pub(super) fn plan(subject: Subject, own: &Own, live: &Live) -> Result<Made, Box<dyn Error>> {
    let Subject { source, mut options, keep, grain, .. } = subject;
    options.filter.never = own.ids();
    let maker = |roots: &[Root]| Maker::new(roots, keep, grain).sparing(own.clone());
    let made = match source {
        Source::Find => found(options, maker, live)?,
        Source::Report(database) => {
            recorded(&Store::open_to_read(&database)?, &options, maker, live)?
        }
        Source::Plan(_) => unreachable!("a plan needs no plan"),
    };
    Ok(made.map(|(maker, exit)| {
        let (plan, left_out) = maker.finish();
        for (path, why) in &left_out {
            say(&format!("dupes: {}: left as it is: {why}", escaped(path)));
        }
        // What is ours is nobody's copy: to leave it out is no failure.
        let is_whole = left_out.iter().all(|(_, why)| *why == Why::Own);
        (plan, if is_whole { exit } else { Exit::Unread })
    }))
}

fn found(
    options: Options,
    maker: impl FnOnce(&[Root]) -> Maker,
    live: &Live,
) -> Result<Result<(Maker, Exit), Exit>, Box<dyn Error>> {
    let roots = options.roots.clone();
    let run = Run::new(options.clone(), Splitter::default(), live.clone(), None)?;
    let watched = watched(&options, live, &run.pools())?;
    let sets = run.finish();
    drop(watched);
    tell_problems(&live.problems, "what was not read is not touched");
    let Some(sets) = sets else { return Ok(Err(Exit::Interrupted)) };
    if live.problems.wrong_roots() == roots.len() as u64 {
        return Err("there is nowhere to look".into());
    }
    let mut collected = Collected(maker(&roots));
    if let Err(error) = sets.print(&mut collected, &live.stop) {
        return if live.stop.is_asked() { Ok(Err(Exit::Interrupted)) } else { Err(error.into()) };
    }
    let exit = if live.problems.count() == 0 { Exit::Complete } else { Exit::Unread };
    Ok(Ok((collected.0, exit)))
}

fn recorded(
    store: &Store,
    options: &Options,
    maker: impl FnOnce(&[Root]) -> Maker,
    live: &Live,
) -> Result<Result<(Maker, Exit), Exit>, Box<dyn Error>> {
    let (online, offline) = scan::by_presence(store.roots()?);
    for root in &offline {
        let path = escaped(root.path.as_os_str().as_bytes());
        say(&format!("dupes: {path}: offline: its files neither stay for others nor go"));
    }
    let roots: Vec<Root> =
        online.into_iter().map(|root| Root { path: root.path, reference: false }).collect();
    let mut maker = maker(&roots);
    let least = *options.filter.size.start();
    let told = report::sets(store, least, false, &live.stop, |set, _| {
        // Those that nobody can look at now.
        let mut set = set.clone();
        set.files.retain(|file| !file.reference);
        maker.add(&set);
        Ok(())
    });
    match told {
        Ok(_) => Ok(Ok((maker, Exit::Complete))),
        Err(_) if live.stop.is_asked() => Ok(Err(Exit::Interrupted)),
        Err(error) => Err(error.into()),
    }
}

/// Takes sets where others print them.
struct Collected(Maker);

impl Printer for Collected {
    fn set(&mut self, set: &Set) -> io::Result<()> {
        self.0.add(set);
        Ok(())
    }

    fn counts_bytes(&self) -> bool {
        false
    }

    fn end(&mut self, _: &Totals) -> io::Result<()> {
        Ok(())
    }
}

//! A plan from what is found now, or was found by the last scans.

use std::error::Error;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::super::{say, tell_problems, watched};
use crate::act::ground::Base;
use crate::act::why::Why;
use crate::cli::{Source, Subject};
use crate::escape::escaped;
use crate::exit::Exit;
use crate::find::{Live, Run};
use crate::journal::Story;
use crate::listing::{Set, Totals};
use crate::options::{Options, Root};
use crate::output::Printer;
use crate::own::Own;
use crate::plan::{self, Maker, Plan};
use crate::report::{self, Recorded};
use crate::scan;
use crate::split::Splitter;
use crate::store::Store;

/// With how many names are not in it that were found, and how it ends if all that follows goes well; or how it has
/// ended.
type Made = Result<(Plan, u64, Exit), Exit>;

/// `own`: not for acting on; nor is what lies below `to`. `stories`: of the runs before.
pub(super) fn plan(
    subject: Subject,
    own: &mut Own,
    to: Option<&Base>,
    stories: &[Story],
    live: &Live,
) -> Result<Made, Box<dyn Error>> {
    let Subject { source, mut options, keep, grain, .. } = subject;
    if let Source::Find = source {
        spare(own, to, &plan::bases(&options.roots));
    }
    options.filter.never = own.ids();
    let maker = |roots: &[Root]| {
        if let Source::Report(_) = source {
            spare(own, to, &plan::bases(roots));
        }
        Maker::new(roots, keep, grain).sparing(own.clone()).keeping(super::whole(stories))
    };
    let made = match &source {
        Source::Find => found(options, maker, live)?,
        Source::Report(database) => {
            recorded(&Store::open_to_read(database)?, &options, stories, maker, live)?
        }
        Source::Plan(_) => unreachable!("a plan needs no plan"),
    };
    Ok(made.map(|(mut maker, exit)| {
        for rule in maker.idle_rules() {
            say(&format!("dupes: --keep {rule}: none of the files that are there twice matches"));
        }
        let (plan, left_out) = maker.finish();
        for (path, why) in left_out.iter().filter(|(_, why)| *why != Why::Target) {
            say(&format!("dupes: {}: left as it is: {why}", escaped(path)));
        }
        // What is ours is nobody's copy: to leave it out is no failure.
        let is_left = |(_, why): &&(_, Why)| !matches!(why, Why::Own | Why::PutAside | Why::Target);
        let left = left_out.iter().filter(is_left).count() as u64;
        (plan, left, if left == 0 { exit } else { Exit::Unread })
    }))
}

/// What files are moved to is not where they come from: said once.
pub(super) fn spare(own: &mut Own, to: Option<&Base>, bases: &[(Base, bool)]) {
    if let Some(to) = to.filter(|to| own.add_target(to, bases)) {
        let to = escaped(&to.path);
        say(&format!("dupes: --to {to}: what is there already neither goes nor stays for others"));
    }
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
    stories: &[Story],
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
    let put_back = super::put_back(stories);
    let told = report::sets(store, least, false, &live.stop, |set, places| {
        let recorded = Recorded::of(store, (set, places), &put_back).map_err(io::Error::other)?;
        // Those that nobody can look at now.
        let mut set = set.clone();
        set.files.retain(|file| !file.reference);
        maker.add_recorded(&set, recorded);
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

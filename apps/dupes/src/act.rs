//! Carries out a plan: verify, intend, act, look again, sync, done. `ARCHITECTURE.md` says why so.
//!
//! Batch by batch, so that what makes a line durable is paid for once for many files. Within a batch all
//! files are verified side by side, then all intents are made durable, then all is done side by side; names of one file
//! one after the other.

pub mod aside;
pub mod deed;
pub mod facts;
pub mod ground;
pub mod held;
pub mod led;
pub mod made;
pub mod purge;
pub mod quarantine;
pub mod recover;
pub mod settle;
pub mod steps;
pub mod trees;
pub mod undo;
pub mod verify;
pub mod why;

mod apart;
mod check;
mod copy;
pub mod last_look;
mod outlook;
mod spare;
mod sync;
pub(crate) use self::sync::sync_folder;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use tidegate::Pool;

use self::deed::{Action, Again, Deed, Extent};
use self::facts::{Aspect, Facts, Time};
use self::ground::{Base, Ground, Place, look};
use self::last_look::LastLook;
use self::led::Links;
use self::made::{Made, make_folders};
use self::outlook::Outlook;
use self::quarantine::{Mount, Quarantines};
use self::steps::{End, act_and_see, finish, put_back, swap_back};
use self::sync::Folders;
use self::why::Why;
use crate::journal::{Journal, Line, NO_TIME};
use crate::own::Own;
use crate::plan::{self, Member, Plan, PlannedSet};
use crate::stop::Stop;
use crate::tally::Tally;

/// Files of a batch, and bytes of them: what is verified and not yet done. A larger file is a batch of its own.
const BATCH: usize = 64;
const BATCH_BYTES: u64 = 256 << 20;

/// What is to be done with the files that go.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// That.
    pub action: Action,
    /// Where `move` moves to.
    pub to: Option<Base>,
    /// Where to make the quarantine, if somebody has said so: a whole path.
    pub quarantine: Option<Vec<u8>>,
    /// Files that an earlier run has put back, by what they were known by before. Who knows them by a plan of then
    /// is not to take that for a change.
    pub put_back: HashMap<Before, Again>,
    /// Paths of which earlier runs have taken what was there, in full.
    pub gone: HashSet<Vec<u8>>,
    /// Symbolic links that earlier runs have made.
    pub links: Links,
    /// In what a file may differ from the one it becomes a link to.
    pub allow: HashSet<Aspect>,
    /// What is not touched, whatever the plan says.
    pub own: Own,
    /// Side by side.
    pub threads: NonZeroUsize,
}

/// Device, inode and ctime: those of another file may have the same inode later.
pub type Before = (u64, u64, Time);

/// Of a file.
pub fn before(facts: &Facts) -> Before {
    (facts.device, facts.inode, facts.ctime)
}

/// What has become of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It need not be done.
    Already(Why),
    /// It is as it was.
    Refused(Why),
    /// It is neither: `dupes recover` knows what to do.
    Open(Why),
}

/// Told of everything that happens, in the order of the plan within a batch.
pub trait Witness {
    /// What has become of a name. With the last name of a file, what comes free.
    fn saw(&mut self, what: &Seen<'_>, outcome: &Outcome, frees: u64);
}

/// A name, in full.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// That.
    pub path: &'a [u8],
    /// It is a whole folder, with this in it.
    pub tree: Option<Extent>,
    /// What stays.
    pub keeper: Option<&'a [u8]>,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Names.
    pub done: u64,
    /// Of these, whole folders.
    pub folders: u64,
    /// Files in them.
    pub in_folders: u64,
    /// Names.
    pub already: u64,
    /// Names.
    pub refused: u64,
    /// Names: it was to stop before.
    pub not_begun: u64,
    /// Names.
    pub open: u64,
    /// Bytes on disk, of files of which all names are done.
    pub frees: u64,
    /// It was to stop before all was done.
    pub stopped: bool,
}

/// A run that may change something, or only look what it would do.
struct Run<'a> {
    wanted: &'a Wanted,
    ground: Ground,
    /// What is only compared with.
    never: Vec<Vec<u8>>,
    stop: &'a Stop,
    tally: &'a Tally,
    witness: &'a mut dyn Witness,
    sums: Sums,
}

type Item<'p> = (&'p PlannedSet, &'p Member);

/// What would be done, as far as that can be seen. Everything is looked at, and nothing read or changed.
pub fn rehearse(
    plan: &Plan,
    wanted: &Wanted,
    stop: &Stop,
    tally: &Tally,
    witness: &mut dyn Witness,
) -> Sums {
    let mut run = Run::new(plan, wanted, stop, tally, witness);
    let never = run.never.clone();
    let mut outlook = Outlook::new(wanted, &never, &mut run.ground);
    for (set, victim) in plan.victims() {
        if stop.is_asked() {
            run.sums.stopped = true;
            run.sums.not_begun += victim.names.len() as u64;
            continue;
        }
        match check::check(set, victim, &run.ground, wanted, None) {
            Err(why) => run.tell_all(victim, &why),
            Ok(checked) => {
                run.tell_names(victim, &checked.left);
                match outlook.of(&checked.deeds, &run.ground) {
                    Err(left) => run.tell_names(victim, &left),
                    Ok(()) => {
                        let ends = checked.deeds.iter().map(|(deed, _)| (deed, End::Done));
                        run.tell_ends(ends.collect(), checked.frees);
                    }
                }
            }
        }
    }
    run.sums
}

/// Does it. An error is one of the journal or of the pool: what is open then is known to the next run.
pub fn apply(
    plan: &Plan,
    wanted: &Wanted,
    (journal, pool): (&mut Journal, &Pool),
    stop: &Stop,
    tally: &Tally,
    witness: &mut dyn Witness,
) -> Result<Sums, Why> {
    let mut run = Run::new(plan, wanted, stop, tally, witness);
    let never = run.never.clone();
    let outlook = Outlook::new(wanted, &never, &mut run.ground);
    run.ground.bases().for_each(|base| journal.add(&Line::Base(base.clone())));
    let mut work = Work {
        quarantines: Quarantines::new(journal.id(), wanted.quarantine.clone()),
        outlook,
        made: Made::default(),
        next: 1,
        pool,
    };
    let mut victims = plan.victims().peekable();
    while victims.peek().is_some() && !stop.is_asked() {
        let mut batch: Vec<Item<'_>> = Vec::new();
        let mut bytes = 0;
        while let Some((_, victim)) = victims.peek() {
            bytes = victim.bytes().saturating_add(bytes);
            if !batch.is_empty() && (batch.len() == BATCH || bytes > BATCH_BYTES) {
                break;
            }
            batch.extend(victims.next());
        }
        run.batch(&batch, &mut work, journal)?;
    }
    work.made.open_up(&run.ground);
    run.sums.stopped = stop.is_asked();
    run.sums.not_begun += victims.map(|(_, victim)| victim.names.len() as u64).sum::<u64>();
    if run.sums.open == 0 {
        journal.add(&match run.sums.not_begun {
            0 => Line::End,
            not_begun => Line::Stopped(not_begun),
        });
    }
    durable(journal)?;
    Ok(run.sums)
}

/// What goes on from batch to batch.
struct Work<'a> {
    quarantines: Quarantines,
    outlook: Outlook<'a>,
    /// Folders that the journal says we may have made.
    made: Made,
    /// The number of the next deed.
    next: u64,
    pool: &'a Pool,
}

impl<'a> Run<'a> {
    fn new(
        plan: &Plan,
        wanted: &'a Wanted,
        stop: &'a Stop,
        tally: &'a Tally,
        witness: &'a mut dyn Witness,
    ) -> Run<'a> {
        let never = plan.bases.iter().filter(|(_, reference)| *reference);
        let never = never.map(|(base, _)| base.path.clone()).collect();
        let ground = Ground::new(plan.bases.iter().map(|(base, _)| base.clone()));
        let (files, bytes) = plan.victims().fold((0, 0u64), |(files, bytes), (_, it)| {
            (files + 1, bytes.saturating_add(it.bytes()))
        });
        Tally::add(&tally.reads_wanted, files);
        Tally::add(&tally.read_bytes_wanted, bytes);
        Run { wanted, ground, never, stop, tally, witness, sums: Sums::default() }
    }

    fn batch(
        &mut self,
        batch: &[Item<'_>],
        work: &mut Work<'_>,
        journal: &mut Journal,
    ) -> Result<(), Why> {
        let (ground, wanted, stop, tally) = (&self.ground, self.wanted, self.stop, self.tally);
        let verified = work.pool.map_slice(batch, |(set, victim)| {
            let checked = check::check(set, victim, ground, wanted, Some(stop));
            Tally::add(&tally.reads_done, 1);
            Tally::add(&tally.read_bytes_done, victim.bytes());
            checked
        });
        let mut files: Vec<(Vec<Deed>, u64)> = Vec::new();
        for ((_, victim), checked) in batch.iter().zip(verified.map_err(|error| bug(&error))?) {
            match checked {
                Err(why) => self.tell_all(victim, &why),
                Ok(checked) => {
                    self.tell_names(victim, &checked.left);
                    match self.intend(checked.deeds, work, journal) {
                        Ok(deeds) => files.push((deeds, checked.frees)),
                        Err(left) => self.tell_names(victim, &left),
                    }
                }
            }
        }
        durable(journal)?;
        self.tell(self.carry_out(files, work.pool, journal)?);
        Ok(())
    }

    /// The deeds on one file, if nothing that can be seen is against one of them: says so to the journal.
    fn intend(
        &mut self,
        deeds: Vec<(Deed, Mount)>,
        work: &mut Work<'_>,
        journal: &mut Journal,
    ) -> Result<Vec<Deed>, Vec<(Place, Why)>> {
        work.outlook.of(&deeds, &self.ground)?;
        let ready = self.with_places(&deeds, work, journal).map_err(|why| {
            deeds.iter().map(|(deed, _)| (deed.at.clone(), why.clone())).collect::<Vec<_>>()
        })?;
        ready.iter().for_each(|deed| journal.add(&Line::Intent(Box::new(deed.clone()))));
        work.next += ready.len() as u64;
        Ok(ready)
    }

    /// With their numbers and their places aside.
    fn with_places(
        &mut self,
        deeds: &[(Deed, Mount)],
        work: &mut Work<'_>,
        journal: &mut Journal,
    ) -> Result<Vec<Deed>, Why> {
        let mut ready = Vec::new();
        for (deed, mount) in deeds {
            let number = work.next + ready.len() as u64;
            let aside = match self.wanted.action {
                Action::Reflink => deed.at.clone(),
                Action::Hardlink | Action::Symlink => {
                    deed.at.beside(aside::name(journal.id(), number).as_bytes())
                }
                Action::Remove => {
                    let path = self.ground.path(&deed.at);
                    let end = path.len() - deed.at.split().1.len() - 1;
                    let base = work.quarantines.of(*mount, &path[..end.max(1)], &self.never)?;
                    Place { root: self.base(base, journal), path: number.to_string().into() }
                }
                Action::Move => {
                    let to = self.wanted.to.clone().expect("who moves says where to");
                    Place { root: self.base(to, journal), path: deed.at.path.clone() }
                }
            };
            ready.push(Deed { number, aside, ..deed.clone() });
        }
        for deed in ready.iter().filter(|deed| deed.action == Action::Move) {
            work.made.announce(deed, &self.ground, journal)?;
        }
        Ok(ready)
    }

    /// Its number.
    fn base(&mut self, base: Base, journal: &mut Journal) -> usize {
        self.ground.number(&base).unwrap_or_else(|| {
            journal.add(&Line::Base(base.clone()));
            self.ground.add(base)
        })
    }

    /// All that is intended, which is durable by now. Until the journal says how each has ended.
    fn carry_out(
        &self,
        files: Vec<(Vec<Deed>, u64)>,
        pool: &Pool,
        journal: &mut Journal,
    ) -> Result<Vec<Ended>, Why> {
        let (ground, stop) = (&self.ground, self.stop);
        let ends = pool.map_slice(&files, |(deeds, _)| do_all(deeds, ground, stop));
        let ends = ends.map_err(|error| bug(&error))?;
        let mut last = LastLook::heeding(stop);
        for ((deeds, _), ends) in files.iter().zip(&ends) {
            for (deed, (_, seen)) in deeds.iter().zip(ends) {
                seen.iter().for_each(|keeper| last.compared(&deed.keeper, *keeper));
            }
        }
        let mut all: Vec<Ended> = files
            .into_iter()
            .zip(ends)
            .map(|((deeds, frees), ends)| Ended {
                deeds: deeds.into_iter().zip(ends.into_iter().map(|(end, _)| end)).collect(),
                frees,
            })
            .collect();
        let mut deeds: Vec<&mut (Deed, End)> =
            all.iter_mut().flat_map(|file| &mut file.deeds).collect();
        settle_durably(&mut deeds, ground, Some(pool), journal, last)?;
        Ok(all)
    }

    // ------------------------------------------------------------ telling

    fn tell(&mut self, all: Vec<Ended>) {
        for Ended { deeds, frees } in all {
            self.tell_ends(deeds.iter().map(|(deed, end)| (deed, end.clone())).collect(), frees);
        }
    }

    /// All names of one file.
    fn tell_ends(&mut self, ends: Vec<(&Deed, End)>, frees: u64) {
        let all_done = ends.iter().all(|(_, end)| *end == End::Done);
        let last = ends.len();
        for (at, (deed, end)) in ends.into_iter().enumerate() {
            let frees = if all_done && at + 1 == last { frees } else { 0 };
            let outcome = match end {
                End::Done => Outcome::Done,
                End::Back(why) if why.is_done() => Outcome::Already(why),
                End::Back(why) => Outcome::Refused(why),
                // Only who recovers gives up to put it back.
                End::Aside(why) | End::Open(why) => Outcome::Open(why),
            };
            let keeper = self.ground.path(&deed.keeper);
            self.tell_one((&deed.at, deed.tree), Some(&keeper), &outcome, frees);
        }
    }

    fn tell_names(&mut self, victim: &Member, names: &[(Place, Why)]) {
        let extent = victim.tree.as_ref().map(|tree| tree.extent);
        for (place, why) in names {
            let outcome = match why.is_done() {
                true => Outcome::Already(why.clone()),
                false => Outcome::Refused(why.clone()),
            };
            self.tell_one((place, extent), None, &outcome, 0);
        }
    }

    fn tell_all(&mut self, victim: &Member, why: &Why) {
        let names: Vec<_> = victim.names.iter().map(|name| (name.clone(), why.clone())).collect();
        self.tell_names(victim, &names);
    }

    fn tell_one(
        &mut self,
        (at, tree): (&Place, Option<Extent>),
        keeper: Option<&[u8]>,
        outcome: &Outcome,
        frees: u64,
    ) {
        let path = self.ground.path(at);
        // That nothing is there is what was wanted, if it is we who have taken it away.
        let is_ours = || plan::ways_to(&path).any(|way| self.wanted.gone.contains(way));
        let outcome = match outcome {
            Outcome::Already(Why::Gone) if !is_ours() => &Outcome::Refused(Why::Gone),
            outcome => outcome,
        };
        let counter = match outcome {
            Outcome::Refused(Why::Stopped) => &mut self.sums.not_begun,
            Outcome::Done => &mut self.sums.done,
            Outcome::Already(_) => &mut self.sums.already,
            Outcome::Refused(_) => &mut self.sums.refused,
            Outcome::Open(_) => &mut self.sums.open,
        };
        *counter += 1;
        if let (Outcome::Done, Some(extent)) = (outcome, tree) {
            self.sums.folders += 1;
            self.sums.in_folders += extent.files;
        }
        self.sums.frees = self.sums.frees.saturating_add(frees);
        let seen = Seen { path: &path, tree, keeper };
        self.witness.saw(&seen, outcome, frees);
    }
}

/// All names of one file, and how it went.
struct Ended {
    deeds: Vec<(Deed, End)>,
    frees: u64,
}

/// All names of one file, one after the other. **They go together, or none does**: if one can't go, and nobody could see
/// that before, those that have gone already are taken back. (Of blocks that are shared there is nothing to take back.)
fn do_all(deeds: &[Deed], ground: &Ground, stop: &Stop) -> Vec<(End, Option<Facts>)> {
    let mut ends: Vec<(End, Option<Facts>)> = Vec::new();
    for deed in deeds {
        let end = do_and_see(deed, ground, stop);
        let held =
            if deed.action == Action::Reflink { None } else { held_by(deed, &end.0, ground) };
        ends.push(end);
        let Some(why) = held else { continue };
        let done = ends.len() - 1;
        for (deed, end) in deeds[..done].iter().zip(&mut ends).rev() {
            *end = (take_back(deed, ground, why.clone(), stop), None);
        }
        ends.resize(deeds.len(), (End::Back(why), None));
        break;
    }
    ends
}

/// Why the other names of its file stay, if this one has not gone.
fn held_by(deed: &Deed, end: &End, ground: &Ground) -> Option<Why> {
    match end {
        End::Done => None,
        End::Back(why) | End::Aside(why) | End::Open(why) => {
            Some(why.clone().with(&deed.at, ground))
        }
    }
}

/// What is done but for [`finish`].
fn take_back(deed: &Deed, ground: &Ground, why: Why, stop: &Stop) -> End {
    match deed.action.links() {
        true => swap_back(deed, ground, why, stop),
        false => put_back(deed, ground, why),
    }
}

fn do_one(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    do_and_see(deed, ground, stop).0
}

fn do_and_see(deed: &Deed, ground: &Ground, stop: &Stop) -> (End, Option<Facts>) {
    if stop.is_asked() {
        return (End::Back(Why::Stopped), None);
    }
    if deed.action == Action::Move
        && let Err(why) = make_folders(ground, &deed.aside)
    {
        return (End::Back(why), None);
    }
    act_and_see(deed, ground, stop)
}

/// Folders are synced, what can't be taken back is done and synced, and only then the journal says so.
pub(crate) fn settle_durably(
    deeds: &mut [&mut (Deed, End)],
    ground: &Ground,
    pool: Option<&Pool>,
    journal: &mut Journal,
    mut last: LastLook,
) -> Result<(), Why> {
    let folders = Folders::sync(deeds, ground, pool);
    folders.judge(deeds);
    let is_link = |pair: &(Deed, End)| pair.1 == End::Done && pair.0.action.links();
    let any = deeds.iter().any(|pair| is_link(pair));
    for names in deeds.chunk_by_mut(|one, other| one.0.facts.is_file(&other.0.facts)) {
        finish_all(names, ground, &mut last);
    }
    let folders = if any { Folders::sync(deeds, ground, pool) } else { folders };
    folders.judge(deeds);
    for (deed, end) in deeds.iter().map(|pair| &**pair) {
        match end {
            End::Done => journal.add(&Line::Done(deed.number, folders.time(&deed.at))),
            // The journal goes on naming the place.
            End::Back(Why::Aside(_)) => journal.add(&Line::Left(deed.number)),
            End::Back(_) => journal.add(&Line::Back(deed.number, ctime_of(deed, ground))),
            End::Aside(_) => journal.add(&Line::Done(deed.number, NO_TIME)),
            End::Open(_) => {}
        }
    }
    durable(journal)
}

/// All names of one file that have become links. Each is looked at before the old file loses the first of them.
fn finish_all(names: &mut [&mut (Deed, End)], ground: &Ground, last: &mut LastLook) {
    let mut held = None;
    if names.len() > 1 {
        held = names.iter().find_map(|pair| match &pair.1 {
            End::Done if pair.0.action.links() => {
                Some(last.at(&pair.0, ground).err()?.with(&pair.0.at, ground))
            }
            end => held_by(&pair.0, end, ground),
        });
    }
    for (deed, end) in names.iter_mut().map(|pair| &mut **pair) {
        if *end == End::Done && deed.action.links() {
            *end = match &held {
                Some(why) => swap_back(deed, ground, why.clone(), last.stop()),
                None => finish(deed, ground, last),
            };
            held = held.or_else(|| held_by(deed, end, ground));
        }
    }
}

/// What was put back has another ctime by that, which the plan does not know.
fn ctime_of(deed: &Deed, ground: &Ground) -> Time {
    let stat = ground.folder(&deed.at).and_then(|folder| look(&folder, deed.at.split().1));
    match stat {
        Ok(Some(stat)) if Facts::new(&stat).is_as_written(&deed.facts) => Facts::new(&stat).ctime,
        _ => NO_TIME,
    }
}

pub(crate) fn durable(journal: &mut Journal) -> Result<(), Why> {
    journal.sync().map_err(|error| Why::Journal(error.to_string()))
}

fn bug(error: &dyn std::fmt::Display) -> Why {
    Why::Journal(format!("a task of ours has not come to its end ({error}); please report this"))
}

//! `dupes plan`, `apply`, `undo`, `recover`, `log` and `purge-quarantine`.

mod back;
mod sets;
mod telling;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use tidegate::{Pool, Shutdown};

pub(super) use self::back::{log, purge_quarantine, recover, undo};
use self::telling::Teller;
use super::{refused, say, stop_on_signals, watched};
use crate::act::deed::{Again, Deed, Stage};
use crate::act::ground::{Base, Ground, Place};
use crate::act::held::Held;
use crate::act::led::Links;
use crate::act::made::Made;
use crate::act::purge::Copies;
use crate::act::steps::End;
use crate::act::trees;
use crate::act::why::Why;
use crate::act::{self, Before, Sums, Wanted};
use crate::cli::{Apply, Source, Subject};
use crate::count::Count;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::find::{Live, Pools};
use crate::journal::{self, Line, Shelf, Story};
use crate::own::Own;
use crate::plan::{self, Member, Plan, Protect, References};
use crate::replace::replace;
use crate::size::Size;
use crate::stop::Stop;
use crate::store::now;

pub(super) fn plan(subject: Subject, file: &Path) -> Result<Exit, Box<dyn Error>> {
    let live = Live { stop: stop_on_signals()?, ..Live::default() };
    may_be_replaced(file)?;
    let mut own = Own::new(None, subject.database.as_deref());
    // Those that are used if nobody says otherwise.
    let shelf = journal::usual_path().and_then(|folder| Shelf::open(&folder).ok());
    let stories = shelf.and_then(|shelf| shelf.all().ok()).unwrap_or_default().0;
    let protect = subject.keep.protect.clone();
    let (plan, _, exit) = match sets::plan(subject, &mut own, None, &stories, &live)? {
        Ok(made) => made,
        Err(exit) => return Ok(exit),
    };
    idle(&protect, &plan, "it protects nothing in this plan");
    replace(file, |out| plan::write(&plan, out)).map_err(|error| error.to_string())?;
    let shown = escaped(file.as_os_str().as_bytes()).to_string();
    say(&format!(
        "dupes: wrote {shown}: of {}, {} that can go, {} on disk. \
         dupes apply ACTION --plan {shown} says what would happen, and changes nothing",
        Count(plan.sets.len() as u64, "set"),
        counts(&plan),
        Size(plan.frees()),
    ));
    Ok(exit)
}

/// What goes: files, and folders with how many files are in them.
fn counts(plan: &Plan) -> String {
    let trees = || plan.victims().filter_map(|(_, victim)| victim.tree.as_ref());
    let (all, folders) = (plan.victims().count() as u64, trees().count() as u64);
    let inside = trees().fold(0u64, |sum, tree| tree.extent.files.saturating_add(sum));
    let folders_with =
        format!("{} with {} in all", Count(folders, "folder"), Count(inside, "file"));
    match (all - folders, folders) {
        (files, 0) => Count(files, "file").to_string(),
        (0, _) => folders_with,
        (files, _) => format!("{} and {folders_with}", Count(files, "file")),
    }
}

/// So that a word too few on the command line costs nobody a file.
fn may_be_replaced(file: &Path) -> Result<(), Box<dyn Error>> {
    let shown = escaped(file.as_os_str().as_bytes());
    let found = match file.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| format!("{shown}: {error}"))?,
    };
    // One that was made for it is empty; what is no file at all is refused by who replaces it.
    if !found.is_file() || found.len() == 0 {
        return Ok(());
    }
    let opened = File::open(file).map_err(|error| format!("{shown}: {error}"))?;
    match plan::is_one(&mut BufReader::new(opened)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{shown} is there, and is no plan: it is not replaced").into()),
        Err(error) => Err(format!("{shown}: {error}").into()),
    }
}

pub(super) fn apply(asked: Apply) -> Result<Exit, Box<dyn Error>> {
    let live = Live { stop: stop_on_signals()?, ..Live::default() };
    // Before anything is read: who can't act need not wait to be told.
    let to = asked.to.as_deref().map(|path| folder("--to", path)).transpose()?;
    let quarantine = asked.quarantine.as_deref();
    let quarantine = quarantine.map(|path| folder("--quarantine", path)).transpose()?;
    let places = [("--to", to.as_ref()), ("--quarantine", quarantine.as_ref())];
    if let Some(exit) = below_reference(&places, &plan::bases(&asked.subject.options.roots)) {
        return Ok(exit);
    }
    let shelf = if asked.execute { Some(writable(&asked.journal, "apply")?) } else { None };
    let threads = asked.subject.options.threads;
    let threads =
        threads.or(std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let running = asked.subject.options.clone();
    let mut own = Own::new(Some(&asked.journal), asked.subject.database.as_deref());
    let stories = match &shelf {
        Some((shelf, _)) => {
            let stories = shelf.stories()?;
            stories.iter().filter_map(to_delete).for_each(|text| say(&text));
            stories
        }
        None => as_it_would_be(&asked.journal)?,
    };
    let protect = asked.subject.keep.protect.clone();
    let (mut plan, left_out, exit) = match &asked.subject.source {
        Source::Plan(file) => {
            let mut plan = read_plan(file)?;
            leave_protected(&mut plan, &protect);
            sets::spare(&mut own, to.as_ref(), &plan.bases);
            drop_what_was_moved(&mut plan, &own);
            (plan, 0, Exit::Complete)
        }
        Source::Find | Source::Report(_) => {
            match sets::plan(asked.subject, &mut own, to.as_ref(), &stories, &live)? {
                Ok(made) => made,
                Err(exit) => return Ok(exit),
            }
        }
    };
    plan.check()?;
    plan.check_ground()?;
    let then = if asked.execute { "nothing was done" } else { "--execute would refuse" };
    if idle(&protect, &plan, then) && asked.execute {
        return Ok(Exit::Usage);
    }
    if let Some(exit) = below_reference(&places, &plan.bases) {
        return Ok(exit);
    }
    if !asked.action.sets_aside() && plan.victims().any(|(_, victim)| victim.tree.is_some()) {
        return Err("the plan has whole folders, which can be removed or moved: for links make one without --folders".into());
    }
    let wanted = Wanted {
        action: asked.action,
        put_back: put_back(&stories),
        gone: gone(&stories),
        links: Links::of(&stories),
        to,
        quarantine: quarantine.map(|base| base.path),
        allow: asked.allow,
        own,
        threads,
    };
    let mut teller = Teller::new(asked.action, asked.execute, asked.for_good, asked.style);
    // Its own: those of the search are done.
    let live = Live { stop: live.stop, ..Live::default() };
    let Some((shelf, _lock)) = shelf else {
        let sums = act::rehearse(&plan, &wanted, &live.stop, &live.tally, &mut teller);
        let sums = Sums { refused: sums.refused + left_out, ..sums };
        return Ok(worse(exit, teller.end(&sums, None, None)));
    };
    // What a run of before was to delete, too, and had not come to.
    let mut earlier = stories;
    earlier.retain(|story| asked.for_good && story.to_delete() > 0);
    if asked.for_good && !(plan.sets.is_empty() && earlier.is_empty()) {
        let held = Held::by(&earlier);
        let folders = plan.victims().filter(|(_, victim)| victim.tree.is_some()).count() as u64;
        let files = plan.victims().count() as u64 - folders;
        let bytes = plan.frees().saturating_add(held.bytes);
        let question = for_good(files + held.files, folders + held.folders, bytes);
        if let Some(exit) = refused(&question, asked.consent, &live.stop)? {
            return Ok(exit);
        }
    }
    let mut journal = shelf.begin_as(asked.action, now(), asked.for_good)?;
    let id = journal.id().to_owned();
    let pool = Pool::builder("acting").workers(threads.get()).queue(2 * threads.get()).build()?;
    let pools: Pools = {
        let pool = pool.clone();
        Arc::new(move || vec![pool.clone()])
    };
    let shown = watched(&running, &live, &pools)?;
    let sums =
        act::apply(&plan, &wanted, (&mut journal, &pool), &live.stop, &live.tally, &mut teller);
    drop(shown);
    pool.shutdown(Shutdown::light()).expect("this thread is no worker of it");
    let sums = sums.map_err(|why| format!("{why}: {}", interrupted(&id)))?;
    let purged = match asked.for_good && !sums.stopped {
        true => {
            drop(journal);
            let story = story(&shelf, &id)?;
            let copies = Copies::of(&shelf.stories()?);
            let mut purged =
                teller.purged(&deleted(&shelf, &story, &copies, &live.stop)?, &story.ground());
            for story in &earlier {
                let bytes = || Held::by(std::slice::from_ref(story)).bytes;
                let before = bytes();
                let ends = deleted(&shelf, story, &copies, &live.stop)?;
                let these = teller.purged(&ends, &story.ground());
                purged.and_earlier(these, story.to_delete(), (before, bytes()));
            }
            Some(purged)
        }
        false => None,
    };
    let is_left = purged.is_some_and(|purged| purged.is_left(sums.done));
    let stopped = sums.stopped || is_left && live.stop.is_asked();
    let sums = Sums { stopped, refused: sums.refused + left_out, ..sums };
    Ok(worse(exit, teller.end(&sums, Some(&id), purged)))
}

/// Whatever would be put there would change what is never touched.
fn below_reference(places: &[(&str, Option<&Base>); 2], bases: &[(Base, bool)]) -> Option<Exit> {
    let mut references = References::of(bases);
    let mut is_below = |place: &&Base| references.hold(&place.path, false);
    let (option, place) =
        places.iter().find_map(|(option, place)| Some((option, place.filter(&mut is_below)?)))?;
    say(&format!(
        "dupes: {option} {} lies below a reference: nothing there is ever touched",
        escaped(&place.path)
    ));
    Some(Exit::Usage)
}

/// The one that says more.
fn worse(one: Exit, other: Exit) -> Exit {
    let weight = |exit: Exit| match exit {
        Exit::Complete => 0,
        Exit::Unread => 1,
        Exit::Usage => 2,
        Exit::CouldNotRun => 3,
        Exit::ClosedPipe => 4,
        Exit::Interrupted => 5,
    };
    if weight(other) > weight(one) { other } else { one }
}

/// The question before what can't be taken back.
fn for_good(files: u64, folders: u64, bytes: u64) -> String {
    let counts = [Count(files, "file"), Count(folders, "folder")];
    let what: Vec<String> =
        counts.iter().filter(|count| count.0 > 0).map(ToString::to_string).collect();
    format!("Delete {} ({}) for good?", what.join(" and "), Size(bytes))
}

fn interrupted(id: &str) -> String {
    format!("{id} was interrupted: `dupes recover finish` or `dupes recover roll-back`")
}

fn cut_off(story: &Story) -> String {
    let (id, done) = (&story.id, story.count(Stage::is_aside));
    let names = Count(done, "name");
    format!(
        "dupes: {id} was cut off between two actions, {names} done and none halfway: the same command does the \
         rest, and dupes undo {id} takes back what is done"
    )
}

/// Of what was to be deleted at once: it is not told as done when it is not.
fn to_delete(story: &Story) -> Option<String> {
    let (id, names) = (&story.id, story.to_delete());
    let (are, them) = if names == 1 { ("is", "it") } else { ("are", "them") };
    let what = Count(names, "name");
    (names > 0).then(|| {
        format!(
            "dupes: {id} was to delete what it removed, and {what} {are} in the quarantine: dupes purge-quarantine \
             {id} deletes {them}, and so does dupes apply remove --no-undo --execute"
        )
    })
}

/// All that a run has put into the quarantine, as far as it may be.
fn deleted(
    shelf: &Shelf,
    story: &Story,
    copies: &Copies,
    stop: &Stop,
) -> Result<Vec<(Deed, End)>, Box<dyn Error>> {
    let (ground, mut journal) = (story.ground(), shelf.resume(&story.id)?);
    let ends = act::purge::purge(story, copies, &ground, &mut journal, stop);
    Ok(ends.map_err(|why| format!("{why}: {}", interrupted(&story.id)))?)
}

/// What was put back may have been acted on and put back again.
fn put_back(stories: &[Story]) -> HashMap<Before, Again> {
    let mut all: HashMap<Before, Again> = HashMap::new();
    // By what a file is known now: all that it was known by.
    let mut files: HashMap<Before, Vec<Before>> = HashMap::new();
    for story in stories {
        let mut of_run: HashMap<Before, Again> = HashMap::new();
        for (deed, stage) in &story.deeds {
            let again = match stage {
                Stage::Back(ctime) => Again { inode: deed.facts.inode, ctime: *ctime },
                Stage::Undone(Some(again)) => *again,
                _ => continue,
            };
            // Of a file with several names, the one that was put back last.
            let known = of_run.entry(act::before(&deed.facts)).or_insert(again);
            known.ctime = known.ctime.max(again.ctime);
        }
        for (before, again) in of_run {
            let mut was = files.remove(&before).unwrap_or_default();
            was.push(before);
            all.extend(was.iter().map(|before| (*before, again)));
            files.insert((before.0, again.inode, again.ctime), was);
        }
    }
    all
}

/// Paths that we have taken away: that nothing is there is what was wanted.
fn gone(stories: &[Story]) -> HashSet<Vec<u8>> {
    let mut gone = HashSet::new();
    for story in stories {
        let ground = story.ground();
        let is_gone = |(deed, stage): &&(Deed, Stage)| {
            deed.action.sets_aside() && !matches!(stage, Stage::Back(_) | Stage::Undone(_))
        };
        let deeds = story.deeds.iter().filter(is_gone);
        gone.extend(deeds.map(|(deed, _)| ground.path(&deed.at)));
    }
    gone
}

/// Folders that have stayed for others that went as one, and are not purged or put back: these are compared with
/// them once more.
fn whole(stories: &[Story]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for story in stories {
        let ground = story.ground();
        for (deed, stage) in story.deeds.iter().filter(|(deed, _)| deed.tree.is_some()) {
            let path = ground.path(&deed.keeper);
            let is_it = fs::symlink_metadata(OsStr::from_bytes(&path)).is_ok_and(|found| {
                (found.dev(), found.ino()) == (deed.keeper_facts.device, deed.keeper_facts.inode)
            });
            if is_it && stage.is_aside() {
                all.push(path);
            }
        }
    }
    all
}

/// For who only says what it would do: it is to know what it would know then. Makes nothing, and refuses nothing.
fn as_it_would_be(folder: &Path) -> Result<Vec<Story>, Box<dyn Error>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let shelf = Shelf::open(folder)?;
    let (all, acting) = shelf.beside_who_acts(|| shelf.all());
    let (stories, unreadable) = all?;
    for one in unreadable.iter().filter(|one| !one.is_copy) {
        say(&format!("dupes: --execute would refuse: {}", one.why));
    }
    if let Some(acting) = &acting {
        let who = escaped(acting.who.as_bytes());
        say(&format!("dupes: somebody is acting just now ({who}): --execute would refuse"));
    }
    for story in stories.iter().filter(|story| !story.is_running(acting.as_ref())) {
        if story.is_open() {
            say(&format!("dupes: --execute would refuse: {}", interrupted(&story.id)));
        } else if story.is_cut_off() {
            say(&cut_off(story));
        }
        to_delete(story).iter().for_each(|text| say(text));
    }
    Ok(stories)
}

fn read_plan(file: &Path) -> Result<Plan, Box<dyn Error>> {
    let shown = escaped(file.as_os_str().as_bytes()).to_string();
    // Nobody waits for whoever writes to a pipe.
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits();
    let opened = File::options().read(true).custom_flags(flags.cast_signed()).open(file);
    let opened = opened.map_err(|error| format!("{shown}: {error}"))?;
    if !opened.metadata()?.is_file() {
        return Err(format!("{shown} is no regular file: a plan is read from one").into());
    }
    plan::read(&mut BufReader::new(opened)).map_err(|error| format!("{shown}: {error}").into())
}

/// What lies where files are moved to neither goes nor stays, whoever has made the plan.
fn drop_what_was_moved(plan: &mut Plan, own: &Own) {
    let ground = Ground::new(plan.bases.iter().map(|(base, _)| base.clone()));
    let is_target = |name: &Place| own.meets(&ground.path(name)) == Some(Why::Target);
    for set in &mut plan.sets {
        for members in [&mut set.keepers, &mut set.victims] {
            members.retain(|member| !member.names.iter().any(is_target));
        }
    }
    plan.sets.retain(|set| !set.keepers.is_empty() && !set.victims.is_empty());
}

/// Files that stay whoever has made the plan.
fn leave_protected(plan: &mut Plan, protect: &Protect) {
    if protect.is_empty() {
        return;
    }
    let ground = Ground::new(plan.bases.iter().map(|(base, _)| base.clone()));
    let is_protected = |member: &Member| {
        let paths = member.names.iter().map(|name| ground.path(name));
        let by_name = paths.fold(false, |is, path| is | protect.holds(&path));
        // All that is in a folder is asked for, so that it is known which patterns hold for nothing.
        let is_inside = Cell::new(false);
        let see = |path: &[u8]| {
            is_inside.set(is_inside.get() | protect.holds(path));
            false
        };
        let is_unknown = member.tree.is_some() && trees::holds(&member.names[0], &ground, &see);
        by_name || is_unknown || is_inside.get()
    };
    for set in &mut plan.sets {
        for keeper in &set.keepers {
            is_protected(keeper);
        }
        set.victims.retain(|victim| !is_protected(victim));
    }
    plan.sets.retain(|set| !set.victims.is_empty());
}

/// Whether something goes, and a pattern holds for nothing: somebody may have meant what goes. It is said.
fn idle(protect: &Protect, plan: &Plan, then: &str) -> bool {
    let mut idle = protect.idle().filter(|_| !plan.sets.is_empty()).peekable();
    let is_one = idle.peek().is_some();
    for text in idle {
        let text = escaped(text.as_bytes());
        say(&format!(
            "dupes: --protect {text}: none of the files that are there twice matches: {then}"
        ));
    }
    is_one
}

fn folder(option: &str, path: &Path) -> Result<Base, Box<dyn Error>> {
    let shown = escaped(path.as_os_str().as_bytes()).to_string();
    let whole = path.canonicalize().map_err(|error| format!("{option} {shown}: {error}"))?;
    if !whole.is_dir() {
        return Err(format!("{option} {shown} is no folder").into());
    }
    Ok(Base::of(whole.into_os_string().into_vec())?)
}

/// The shelf, locked, with nothing on it that was interrupted.
fn writable(
    folder: &Path,
    why: &str,
) -> Result<(Shelf, crate::store::lock::WriteLock), Box<dyn Error>> {
    let (shelf, lock) = locked(folder, why)?;
    let stories = shelf.stories()?;
    if let Some(story) = stories.iter().find(|story| story.is_open()) {
        let id = &story.id;
        return Err(format!("{}, then again", interrupted(id)).into());
    }
    stories.iter().filter(|story| story.is_cut_off()).try_for_each(|it| told_once(&shelf, it))?;
    Ok((shelf, lock))
}

/// Where nobody has ever written a journal there is nothing to do; where somebody says that one is, there must be one.
fn is_known(folder: &Path) -> Result<(), Box<dyn Error>> {
    if journal::usual_path().is_some_and(|usual| usual == folder)
        || folder.symlink_metadata().is_ok()
    {
        return Ok(());
    }
    let shown = escaped(folder.as_os_str().as_bytes());
    Err(format!("{shown}: there is no such folder of journals").into())
}

/// There is nothing to settle: it is said, and the journal gets its end.
fn told_once(shelf: &Shelf, story: &Story) -> Result<(), Box<dyn Error>> {
    say(&cut_off(story));
    Made::of(story).open_up(&story.ground());
    let mut journal = shelf.resume(&story.id)?;
    journal.add(&Line::End);
    Ok(act::durable(&mut journal)?)
}

fn locked(
    folder: &Path,
    why: &str,
) -> Result<(Shelf, crate::store::lock::WriteLock), Box<dyn Error>> {
    if why != "apply" {
        is_known(folder)?;
    }
    let shelf = Shelf::open_or_make(folder)?;
    let lock = shelf.lock(why)?;
    Ok((shelf, lock))
}

/// Whatever the others are.
fn story(shelf: &Shelf, id: &str) -> Result<Story, Box<dyn Error>> {
    let found = shelf.story(id)?;
    let shown = escaped(id.as_bytes());
    found.ok_or_else(|| format!("there is no {shown}: dupes log lists what there is").into())
}

/// How it ends for the shell.
fn exit_of(sums: &Sums) -> Exit {
    match (sums.stopped, sums.refused + sums.open) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Complete,
        (false, _) => Exit::Unread,
    }
}

/// Whoever reads what is printed may have gone.
fn printed(text: &str) -> io::Result<()> {
    io::Write::write_all(&mut crate::output::Stdout, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_ends_is_the_worst_that_happened() {
        use Exit::{ClosedPipe, Complete, CouldNotRun, Interrupted, Unread};
        let rising = [Complete, Unread, CouldNotRun, ClosedPipe, Interrupted];
        for (at, one) in rising.into_iter().enumerate() {
            for other in &rising[..=at] {
                assert_eq!((worse(one, *other), worse(*other, one)), (one, one));
            }
        }
    }
}

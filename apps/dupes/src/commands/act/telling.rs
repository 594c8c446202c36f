//! What is told of what was done: lines for people, or an object a line for programs.

use std::collections::{HashMap, HashSet};
use std::io;

use serde_json::{Value, json};

use super::super::could_not_write;
use super::{exit_of, printed, say, worse};
use crate::act::deed::{Action, Deed, Stage};
use crate::act::ground::{Ground, Place, look};
use crate::act::steps::End;
use crate::act::why::Why;
use crate::act::{Outcome, Seen, Sums, Witness};
use crate::cli::Style;
use crate::cli::dates;
use crate::count::Count;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::journal::{Acting, Story, Unreadable};
use crate::output::json_path;
use crate::size::Size;

/// Prints as long as somebody reads it: what was begun goes on all the same.
#[derive(Default)]
struct Out {
    failed: Option<io::Error>,
}

impl Out {
    fn print(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = printed(text).err();
        }
    }

    /// How it ends, if all that was done says that.
    fn end(self, exit: Exit) -> Exit {
        self.failed.map_or(exit, |error| worse(exit, could_not_write(&error)))
    }
}

/// Tells as it happens.
pub(super) struct Teller {
    action: Action,
    execute: bool,
    /// What is removed is deleted at once.
    for_good: bool,
    style: Style,
    out: Out,
    /// If it is deleted at once: bytes on disk that come free with the last name of a file, by its path.
    frees: HashMap<Vec<u8>, u64>,
}

/// What was deleted at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purged {
    /// Names.
    pub(super) names: u64,
    /// Bytes on disk.
    frees: u64,
    /// Names that could not be: they stay in the quarantine.
    left: u64,
    /// Of these, folders of which some is gone.
    partly: u64,
    /// What earlier runs were to delete at once.
    earlier: Earlier,
}

/// What was in the quarantine already, and deleted with the rest.
#[derive(Clone, Copy, Debug, Default)]
struct Earlier {
    /// Names.
    names: u64,
    /// Bytes on disk.
    frees: u64,
    /// Names that stay there.
    left: u64,
    /// Bytes of these.
    holds: u64,
}

impl Purged {
    /// And what an earlier run has left: of so many names, with its bytes in the quarantine before and after.
    pub(super) fn and_earlier(&mut self, these: Purged, of: u64, (before, after): (u64, u64)) {
        self.left += these.left;
        let all = &mut self.earlier;
        all.names += these.names;
        all.frees += before.saturating_sub(after);
        all.left += of.saturating_sub(these.names);
        all.holds += after;
    }

    /// Whether something is in the quarantine still.
    pub(super) fn is_left(&self, done: u64) -> bool {
        self.names < done || self.earlier.left > 0
    }
}

impl Teller {
    pub(super) fn new(action: Action, execute: bool, for_good: bool, style: Style) -> Teller {
        let (out, frees) = Default::default();
        Teller { action, execute, for_good, style, out, frees }
    }

    /// What was removed a moment ago is deleted, if no end says otherwise.
    pub(super) fn purged(&mut self, ends: &[(Deed, End)], ground: &Ground) -> Purged {
        let mut purged =
            Purged { names: 0, frees: 0, left: 0, partly: 0, earlier: Earlier::default() };
        let mut kept = HashSet::new();
        for (deed, end) in ends {
            let (End::Back(why) | End::Aside(why) | End::Open(why)) = end else { continue };
            purged.left += 1;
            purged.partly += u64::from(matches!(why, Why::Partly(_)));
            kept.insert((deed.facts.device, deed.facts.inode));
            // The sum says how many are in the quarantine.
            if *end == End::Back(Why::Stopped) {
                continue;
            }
            let path = ground.path(&deed.at);
            match self.style {
                Style::Json => {
                    let event = json!({
                        "event": if matches!(why, Why::Partly(_)) { "partly" } else { "kept" }, "action": self.action.name(), "path": json_path(&path),
                        "why": why.word(), "text": why.to_string(),
                    });
                    self.out.print(&format!("{event}\n"));
                }
                Style::Text => {
                    let stays = match why {
                        Why::Partly(_) => "not all of it deleted",
                        Why::Gone => "not deleted",
                        _ => "stays in the quarantine",
                    };
                    say(&format!("dupes: {}: {stays}: {why}", escaped(&path)))
                }
            }
        }
        for (deed, _) in ends.iter().filter(|(_, end)| *end == End::Done) {
            purged.names += 1;
            // A file with another name in the quarantine has its blocks still.
            if !kept.contains(&(deed.facts.device, deed.facts.inode)) {
                purged.frees += self.frees.get(&ground.path(&deed.at)).copied().unwrap_or(0);
            }
        }
        purged
    }

    /// The sums, and how it ends. `id`: of the journal, if something was done.
    pub(super) fn end(self, sums: &Sums, id: Option<&str>, purged: Option<Purged>) -> Exit {
        let now = match (self.execute && self.for_good, purged) {
            // It was to stop before that.
            (true, None) => 0,
            (true, Some(purged)) => purged.frees,
            (false, _) => freed_now(self.action, sums.frees, self.for_good),
        };
        let later = if self.action == Action::Remove { sums.frees - now } else { 0 };
        let earlier = purged.map_or(Earlier::default(), |purged| purged.earlier);
        let (now, later) = (now + earlier.frees, later + earlier.holds);
        let Teller { action, execute, mut out, .. } = self;
        match self.style {
            Style::Json => {
                let event = json!({
                    "event": "end", "action": action.name(), "executed": execute, "id": id,
                    "done": sums.done, "already": sums.already, "refused": sums.refused,
                    "not_begun": sums.not_begun, "open": sums.open,
                    "folders": sums.folders, "files_in_folders": sums.in_folders,
                    "deleted": purged.map(|purged| purged.names + purged.earlier.names), "stopped": sums.stopped,
                    "freed_now": now, "freed_by_purge": later,
                });
                out.print(&format!("{event}\n"));
            }
            Style::Text => out.print(&summary(action, execute, sums, id, (now, later), purged)),
        }
        if sums.open > 0 {
            say(
                "dupes: some are neither done nor as they were: dupes recover finish, or roll-back",
            );
        }
        if let (true, Some(id), true) = (out.failed.is_some(), id, sums.done > 0) {
            let names = Count(sums.done, "name");
            say(&format!("dupes: {} {names} all the same: dupes log {id} has them", did(action)));
        }
        let left = purged.is_some_and(|purged| purged.left > 0);
        out.end(worse(exit_of(sums), if left { Exit::Unread } else { Exit::Complete }))
    }
}

fn summary(
    action: Action,
    execute: bool,
    sums: &Sums,
    id: Option<&str>,
    (now, later): (u64, u64),
    purged: Option<Purged>,
) -> String {
    let Sums { done, already, refused, not_begun, stopped, .. } = sums;
    let mut text = match (execute, purged) {
        (true, Some(purged)) => {
            format!("deleted {}", Count(purged.names + purged.earlier.names, "name"))
        }
        (true, None) => format!("{} {}", did(action), Count(*done, "name")),
        (false, _) => {
            let names = Count(*done, "name");
            format!("Dry run: nothing was changed. --execute would {action} {names}")
        }
    };
    if sums.folders > 0 {
        let (folders, files) = (Count(sums.folders, "folder"), Count(sums.in_folders, "file"));
        text += &format!(" ({folders} with {files} in all)");
    }
    let in_quarantine = purged.map(|purged| done - purged.names - purged.partly);
    let partly = purged.map_or(0, |purged| purged.partly);
    let earlier = purged.map_or(0, |purged| purged.earlier.names);
    let counts = [
        (earlier, "was left by an earlier run", "were left by an earlier run"),
        (partly, "is deleted in part", "are deleted in part"),
        (in_quarantine.unwrap_or(0), "is in the quarantine", "are in the quarantine"),
        (*already, "is gone, linked or shared already", "are gone, linked or shared already"),
        (*refused, "is left as it is", "are left as they are"),
        (*not_begun, "was not begun", "were not begun"),
    ];
    for (count, one, many) in counts {
        if count > 0 {
            text += &format!(", {count} {}", if count == 1 { one } else { many });
        }
    }
    let verb = if execute { "freed" } else { "would be freed" };
    text += &format!("; {} {verb} now, {} by dupes purge-quarantine\n", Size(now), Size(later));
    if *stopped {
        text += match purged {
            Some(_) => "Stopped before all was deleted: dupes purge-quarantine goes on\n",
            None => "Stopped before all was done: the same command goes on\n",
        };
    }
    if let Some(id) = id.filter(|_| in_quarantine.unwrap_or(*done) > 0) {
        text += &format!("To take it back: dupes undo {id}\n");
    }
    text
}

/// The rest comes free when the quarantine is purged.
fn freed_now(action: Action, bytes: u64, for_good: bool) -> u64 {
    match action {
        Action::Remove if for_good => bytes,
        // They take the same room elsewhere.
        Action::Remove | Action::Move => 0,
        Action::Hardlink | Action::Symlink | Action::Reflink => bytes,
    }
}

fn did(action: Action) -> &'static str {
    match action {
        Action::Remove => "removed",
        Action::Move => "moved",
        Action::Hardlink => "hard-linked",
        Action::Symlink => "symlinked",
        Action::Reflink => "reflinked",
    }
}

impl Witness for Teller {
    fn saw(&mut self, what: &Seen<'_>, outcome: &Outcome, frees: u64) {
        let Seen { path: at, tree, keeper } = *what;
        if self.execute && self.for_good && frees > 0 {
            self.frees.insert(at.to_vec(), frees);
        }
        let (word, why) = match outcome {
            Outcome::Done if self.execute => ("done", None),
            Outcome::Done => ("would", None),
            Outcome::Already(why) => ("already", Some(why)),
            Outcome::Refused(why @ Why::Stopped) => ("not-begun", Some(why)),
            Outcome::Refused(why) => ("refused", Some(why)),
            Outcome::Open(why) => ("open", Some(why)),
        };
        if self.style == Style::Json {
            let event = json!({
                "event": word, "action": self.action.name(), "path": json_path(at),
                "keeper": keeper.map(json_path), "frees": frees,
                "files": tree.map(|tree| tree.files),
                "why": why.map(|why| why.word()), "text": why.map(ToString::to_string),
            });
            return self.out.print(&format!("{event}\n"));
        }
        match (outcome, why, keeper) {
            (Outcome::Done, _, Some(keeper)) => {
                let word = if self.execute { did(self.action) } else { self.action.name() };
                let of = tree.map(|tree| format!("/  of {}", Count(tree.files, "file")));
                let of = of.unwrap_or_default();
                self.out.print(&format!(
                    "{word} {}{of}  (stays: {})\n",
                    escaped(at),
                    escaped(keeper)
                ));
            }
            (Outcome::Already(_) | Outcome::Refused(Why::Stopped), _, _) => {}
            (Outcome::Open(_), Some(why), _) => {
                say(&format!("dupes: {}: neither done nor as it was: {why}", escaped(at)));
            }
            (_, Some(why), keeper) => {
                let mut text = match why {
                    Why::Keeper(it) if tree.is_some() && **it == Why::NotAFile => {
                        "the folder that stays has a link in it, or something else that is no file"
                            .into()
                    }
                    Why::NotAFile if tree.is_some() => {
                        "has a link in it, or something else that is no file".into()
                    }
                    why => why.to_string(),
                };
                // It may be that one which can't be linked to.
                if let (Action::Hardlink, Why::Failed(..) | Why::Unsupported(_), Some(keeper)) =
                    (self.action, why, keeper)
                {
                    text += &format!("; it was to be a link to {}", escaped(keeper));
                }
                say(&format!("dupes: {}: left as it is: {text}", escaped(at)));
            }
            (_, None, _) => {}
        }
    }
}

/// Of a link that is a file again: whether it was one with others, and is not.
fn is_apart(deed: &Deed, done: &str, ground: &Ground) -> Option<String> {
    if done != "restored" || !deed.action.links() || deed.names == u64::MAX {
        return None;
    }
    let stat = look(ground.folder(&deed.at).ok()?, deed.at.split().1).ok()??;
    let (now, before) = (stat.st_nlink as usize, usize::try_from(deed.names).ok()?);
    (now < before).then(|| {
        format!(
            "is a file of its own now: it was one with {before} names, of which it has {now}. The others are on \
             another mount, where no link leads to, or were not restored"
        )
    })
}

/// Of undo, recover and purge-quarantine: a line for each, and one for all.
pub(super) fn tell_ends(
    id: &str,
    ends: &[(Deed, End)],
    ground: &Ground,
    done: &str,
    style: Style,
) -> Exit {
    let (mut good, mut partly, mut missing, mut bad) = (0u64, 0u64, 0u64, 0u64);
    let mut out = Out::default();
    let is_begun = |(_, end): &&(Deed, End)| *end != End::Back(Why::Stopped);
    let not_begun = (ends.len() - ends.iter().filter(is_begun).count()) as u64;
    for (deed, end) in ends.iter().filter(is_begun) {
        let path = ground.path(&deed.at);
        let why = match end {
            End::Done => None,
            End::Back(why) | End::Aside(why) | End::Open(why) => Some(why),
        };
        let apart = if why.is_none() { is_apart(deed, done, ground) } else { None };
        let text = match end {
            End::Open(Why::Stopped) => Some("was stopped in the middle".to_owned()),
            _ => why.map(|why| because(deed, why, ground)).or_else(|| apart.clone()),
        };
        let is_partly = done == "deleted" && matches!(why, Some(Why::Partly(_)));
        // That is what was wanted, and somebody else has done it.
        let is_missing = done == "deleted" && why == Some(&Why::Gone);
        // As was asked for, and there is a place to be told.
        let left = match why {
            Some(Why::Aside(place)) if done == "given up" => Some(place),
            _ => None,
        };
        *(match why {
            None => &mut good,
            Some(_) if left.is_some() => &mut good,
            Some(_) if is_partly => &mut partly,
            Some(_) if is_missing => &mut missing,
            Some(_) => &mut bad,
        }) += 1;
        match (style, why) {
            (Style::Json, why) => {
                let event = json!({
                    "event": match why {
                        None => done,
                        Some(_) if left.is_some() => done,
                        Some(_) if is_partly => "partly",
                        Some(_) if is_missing => "missing",
                        Some(_) => "refused",
                    }, "id": id, "path": json_path(&path),
                    "why": why.map(|why| why.word()), "text": text,
                });
                out.print(&format!("{event}\n"));
            }
            (Style::Text, None) => {
                out.print(&format!("{done} {}\n", escaped(&path)));
                apart.iter().for_each(|text| say(&format!("dupes: {}: {text}", escaped(&path))));
            }
            (Style::Text, Some(_)) if left.is_some() => {
                let place = left.expect("as was asked");
                let may = if ground.folder(&deed.aside).is_ok() { "is" } else { "may be" };
                out.print(&format!(
                    "{done} {}: what was put aside {may} {place}\n",
                    escaped(&path)
                ));
            }
            (Style::Text, Some(_)) => {
                let text = text.unwrap_or_default();
                let not = if is_partly { "not all of it" } else { "not" };
                say(&format!("dupes: {}: {not} {done}: {text}", escaped(&path)))
            }
        }
    }
    out.print(&match style {
        Style::Json => {
            let mut event = json!({"event": "end", "id": id, done: good, "refused": bad});
            if partly > 0 {
                event["partly"] = partly.into();
            }
            if missing > 0 {
                event["missing"] = missing.into();
            }
            if not_begun > 0 {
                event["not_begun"] = not_begun.into();
            }
            format!("{event}\n")
        }
        Style::Text => {
            let counts = [("in part", partly), ("missing", missing), ("not", bad)];
            let counts = counts.into_iter().filter(|(_, count)| *count > 0);
            let mut rest: String =
                counts.map(|(word, count)| format!(", {word}: {count}")).collect();
            if not_begun > 0 {
                let were = if not_begun == 1 { "was" } else { "were" };
                rest += &format!(", {not_begun} {were} not begun");
            }
            format!("{done}: {good}{rest}\n")
        }
    });
    out.end(if bad + partly == 0 { Exit::Complete } else { Exit::Unread })
}

/// Why a deed was not taken back, deleted or settled: what is not as it was may be the file, its folder, what was put
/// aside or the file that stays.
fn because(deed: &Deed, why: &Why, ground: &Ground) -> String {
    let shown = |place: &Place| escaped(&ground.path(place)).to_string();
    let folder = |place: &Place| {
        let way = ground.path(place);
        let end = way.len() - place.split().1.len() - 1;
        escaped(&way[..end.max(1)]).to_string()
    };
    let places = [&deed.at, &deed.aside];
    let lies_in =
        |is: Why| places.into_iter().find(|it| ground.folder(it).err().as_ref() == Some(&is));
    match why {
        Why::OtherRoot => {
            let base = lies_in(Why::OtherRoot).and_then(|place| ground.bases().nth(place.root));
            let Some(base) = base else { return why.to_string() };
            let base = escaped(&base.path);
            format!(
                "{base} is not there, or another folder is in its place: was it deleted, or is it mounted?"
            )
        }
        Why::Gone => match lies_in(Why::Gone) {
            Some(place) => format!("the folder {} is not there any more", folder(place)),
            None if deed.action.sets_aside() => {
                format!("what was put aside, {}, is not there any more", shown(&deed.aside))
            }
            None => why.to_string(),
        },
        Why::Changed => "was changed since".into(),
        Why::Keeper(why) => {
            let what = match &**why {
                Why::Changed => "was changed since".into(),
                why => why.to_string(),
            };
            format!("the file that stays, {}: {what}", shown(&deed.keeper))
        }
        why => why.to_string(),
    }
}

/// All runs, or each file of one; and those of which nobody knows what they were.
pub(super) fn log(
    stories: &[Story],
    unreadable: &[Unreadable],
    acting: Option<&Acting>,
    with_files: bool,
    style: Style,
) -> Exit {
    let is_read = unreadable.iter().all(|one| one.is_copy);
    let exit = if is_read { Exit::Complete } else { Exit::Unread };
    if style == Style::Json {
        let runs = stories.iter().map(|story| run_json(story, acting, with_files));
        let others = unreadable
            .iter()
            .map(|other| json!({"id": other.id, "unreadable": other.why.to_string(), "copy": other.is_copy}));
        let runs: Vec<Value> = runs.chain(others).collect();
        return worse(
            exit,
            super::super::print(format!("{}\n", json!({ "runs": runs })).as_bytes()),
        );
    }
    let mut text = String::new();
    for story in stories {
        text += &line(story, acting);
        if with_files {
            let ground = story.ground();
            for (deed, stage) in &story.deeds {
                let path = ground.path(&deed.at);
                let word = stage_word(*stage, story.is_running(acting));
                text += &format!("  {word:<12} {}", escaped(&path));
                if *stage == Stage::Left {
                    text += &format!("  (see {})", escaped(&ground.path(&deed.aside)));
                }
                text += "\n";
            }
        }
    }
    for Unreadable { id, why, is_copy } in unreadable {
        let word = if *is_copy { "COPY" } else { "UNREADABLE" };
        text += &format!("{}  {word}: {why}\n", escaped(id.as_bytes()));
    }
    if text.is_empty() {
        say("dupes: nothing was ever done");
    }
    worse(exit, super::super::print(text.as_bytes()))
}

fn line(story: &Story, acting: Option<&Acting>) -> String {
    let (days, seconds) = (story.when.div_euclid(86_400), story.when.rem_euclid(86_400));
    let (year, month, day) = dates::of_days(days);
    let (hour, minute) = (seconds / 3_600, seconds / 60 % 60);
    let mut text = format!(
        "{}  {year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC  {}",
        story.id, story.action
    );
    let running = acting.filter(|_| story.is_running(acting));
    for (word, count) in counts(story, running.is_some()) {
        text += &format!("  {word} {count}");
    }
    if let Some(Acting { who, .. }) = running {
        text += &format!("  RUNNING ({})", escaped(who.as_bytes()));
    } else if story.is_open() {
        text += "  INTERRUPTED: dupes recover finish, or roll-back";
    } else if story.is_cut_off() {
        text += "  CUT OFF between two actions: the same command does the rest";
    }
    text + "\n"
}

fn run_json(story: &Story, acting: Option<&Acting>, with_files: bool) -> Value {
    let running = story.is_running(acting);
    let counts = counts(story, running).into_iter();
    let counts: serde_json::Map<String, Value> =
        counts.map(|(word, count)| (word.into(), count.into())).collect();
    let mut value = json!({
        "id": story.id, "when": story.when, "action": story.action.name(),
        "running": running, "interrupted": !running && story.is_open(),
        "cut_off": !running && story.is_cut_off(), "files": counts,
    });
    if with_files {
        let ground = story.ground();
        let file = |(deed, stage): &(Deed, Stage)| {
            json!({
                "path": json_path(&ground.path(&deed.at)), "aside": json_path(&ground.path(&deed.aside)),
                "keeper": json_path(&ground.path(&deed.keeper)), "stage": stage_word(*stage, running),
                "size": deed.bytes(), "files": deed.tree.map(|tree| tree.files), "blake3": deed.digest.to_string(),
            })
        };
        value["deeds"] = story.deeds.iter().map(file).collect();
    }
    value
}

/// Those that there are. Of one that was told to stop, what was intended and not done is among what was not begun.
fn counts(story: &Story, is_running: bool) -> Vec<(&'static str, u64)> {
    let words = [
        "done",
        "not done",
        "not begun",
        "undone",
        "purged",
        "partly purged",
        "missing",
        "left aside",
        "begun",
        "interrupted",
    ];
    let count = |word: &'static str| {
        let count = match (word, story.not_begun) {
            ("not done", 1..) => 0,
            ("not begun", not_begun) => not_begun,
            _ => story.count(|stage| stage_word(stage, is_running) == word),
        };
        (word, count)
    };
    words.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
}

fn stage_word(stage: Stage, is_running: bool) -> &'static str {
    match stage {
        Stage::Done(_) => "done",
        Stage::Back(_) => "not done",
        Stage::Undone(_) => "undone",
        Stage::Purged => "purged",
        Stage::Partly => "partly purged",
        Stage::Missing => "missing",
        Stage::Left => "left aside",
        Stage::Intended | Stage::Undoing(_) | Stage::Purging if is_running => "begun",
        Stage::Intended | Stage::Undoing(_) | Stage::Purging => "interrupted",
    }
}

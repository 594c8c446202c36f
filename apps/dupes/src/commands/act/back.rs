//! The ways back, and the one from which there is none: `dupes undo`, `recover`, `log` and `purge-quarantine`.

use std::error::Error;
use std::path::Path;

use super::super::{refused, say, stop_on_signals};
use super::telling::{self, tell_ends};
use super::{
    deleted, for_good, interrupted, is_known, locked, story, to_delete, told_once, worse, writable,
};
use crate::act;
use crate::act::deed::{Action, Deed, Stage};
use crate::act::held::Held;
use crate::act::purge::Copies;
use crate::act::recover::{Way, settle};
use crate::act::steps::End;
use crate::cli::{Consent, PurgeQuarantine, Style};
use crate::exit::Exit;
use crate::journal::{Line, Shelf, Story};
use crate::stop::Stop;

pub(in crate::commands) fn undo(
    folder: &Path,
    id: Option<&str>,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let (shelf, _lock, story) = match id {
        Some(id) => {
            let (shelf, lock) = locked(folder, "undo")?;
            let story = story(&shelf, id)?;
            if story.is_open() {
                return Err(format!("{}, then again", interrupted(id)).into());
            }
            (shelf, lock, story)
        }
        // Nobody knows whether it would be the last one, if one can't be read.
        None => {
            let (shelf, lock) = writable(folder, "undo")?;
            let is_done = |story: &Story| story.count(Stage::is_aside) > 0;
            let last = shelf.stories()?.into_iter().rev().find(is_done);
            let last = last.ok_or("there is nothing to undo: dupes log lists what was done")?;
            if style == Style::Text {
                say(&format!("dupes: takes back the last run, {}: {}", last.id, last.action));
            }
            (shelf, lock, last)
        }
    };
    if story.count(|stage| stage.is_aside() || stage == Stage::Left) == 0 {
        say(&format!("dupes: nothing of {} is left to undo", story.id));
        return Ok(Exit::Complete);
    }
    if story.action == Action::Reflink {
        say("dupes: files that share blocks are files of their own: there is nothing to give back");
    }
    let exit = undo_story(&shelf, &story, &stop, style)?;
    let left = || super::story(&shelf, &story.id).map(|now| now.count(Stage::is_aside));
    // It would be the last one each time.
    let is_asked = id.is_none() && style == Style::Text && exit == Exit::Unread;
    if is_asked && left()? == story.count(Stage::is_aside) {
        say(&another(&shelf, &story)?);
    }
    Ok(exit)
}

/// What to do if the last run can't be taken back.
fn another(shelf: &Shelf, last: &Story) -> Result<String, Box<dyn Error>> {
    let is_before = |story: &Story| story.id != last.id && story.count(Stage::is_aside) > 0;
    let before = shelf.stories()?.into_iter().rev().find(is_before);
    let how = before.map_or("dupes log lists what was done".to_owned(), |it| {
        format!("dupes undo {} takes back the one before it, and dupes log lists all", it.id)
    });
    Ok(format!(
        "dupes: nothing of {} could be taken back, and it is the last run still: {how}",
        last.id
    ))
}

/// By all journals that can be read: whatever they say is looked at.
fn copies(shelf: &Shelf) -> Result<Copies, Box<dyn Error>> {
    Ok(Copies::of(&shelf.all()?.0))
}

fn undo_story(
    shelf: &Shelf,
    story: &Story,
    stop: &Stop,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    let (ground, mut journal) = (story.ground(), shelf.resume(&story.id)?);
    let ends = act::undo::undo(story, &copies(shelf)?, &ground, &mut journal, stop)
        .map_err(|why| format!("{why}: {}", interrupted(&story.id)))?;
    let exit = tell_ends(&story.id, &ends, &ground, "restored", style);
    told_to_stop(&ends, "restored", stop);
    Ok(if stop.is_asked() { Exit::Interrupted } else { exit })
}

/// What to do about the rest.
fn told_to_stop(ends: &[(Deed, End)], done: &str, stop: &Stop) {
    let is_left = ends.iter().any(|(_, end)| *end != End::Done);
    if stop.is_asked() && is_left {
        let is_open = ends.iter().any(|(_, end)| matches!(end, End::Open(_)));
        let first = if is_open { "dupes recover finish, and then " } else { "" };
        say(&format!("dupes: stopped before all was {done}: {first}the same command goes on"));
    }
}

pub(in crate::commands) fn recover(
    folder: &Path,
    way: Way,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let (shelf, _lock) = locked(folder, "recover")?;
    let (stories, unreadable) = shelf.all()?;
    let open: Vec<Story> =
        stories.into_iter().filter(|story| story.is_open() || story.is_cut_off()).collect();
    let mut exit = Exit::Complete;
    for one in &unreadable {
        say(&format!("dupes: {}", one.why));
        exit = if one.is_copy { exit } else { Exit::CouldNotRun };
    }
    if open.is_empty() && exit == Exit::Complete {
        say("dupes: nothing was interrupted");
    }
    for cut_off in open {
        if cut_off.is_cut_off() && way != Way::RollBack {
            told_once(&shelf, &cut_off)?;
            to_delete(&cut_off).iter().for_each(|text| say(text));
            continue;
        }
        // What is being taken back is taken back.
        let way = if cut_off.rolling_back && way == Way::Finish { Way::RollBack } else { way };
        let ends = recover_one(&shelf, &cut_off, way, &stop)
            .map_err(|why| format!("{why}: {}", interrupted(&cut_off.id)))?;
        // Afterwards: nobody who reads it, or does not, has a say in it.
        for (ends, done) in ends {
            exit = worse(exit, tell_ends(&cut_off.id, &ends, &cut_off.ground(), done, style));
        }
        let story = story(&shelf, &cut_off.id)?;
        if stop.is_asked() && story.is_open() {
            say("dupes: stopped before all was settled: the same command goes on");
        } else if let Some(rest) = rest(&cut_off, &story).or_else(|| to_delete(&story)) {
            say(&rest);
        }
    }
    Ok(if stop.is_asked() { Exit::Interrupted } else { exit })
}

/// All that was settled, and all that was taken back then, each with a word for it.
fn recover_one(
    shelf: &Shelf,
    cut_off: &Story,
    way: Way,
    stop: &Stop,
) -> Result<Vec<(Vec<(Deed, End)>, &'static str)>, Box<dyn Error>> {
    let (mut journal, copies) = (shelf.resume(&cut_off.id)?, copies(shelf)?);
    // Of an undo or a purge there is nothing more to take back than what was open.
    let all_goes_back = way == Way::RollBack
        && (cut_off.rolling_back
            || cut_off.is_cut_off()
            || cut_off.count(|stage| stage == Stage::Intended) > 0);
    if all_goes_back {
        journal.add(&Line::RollingBack);
        act::durable(&mut journal)?;
    }
    let ends = settle(cut_off, &copies, &cut_off.ground(), way, &mut journal, stop)?;
    let is_open = ends.iter().any(|(_, end)| matches!(end, End::Open(_)));
    let mut all = vec![(ends, if way == Way::GiveUp { "given up" } else { "settled" })];
    if all_goes_back {
        drop(journal);
        let (story, mut journal) = (story(shelf, &cut_off.id)?, shelf.resume(&cut_off.id)?);
        let ends = act::undo::undo(&story, &copies, &story.ground(), &mut journal, stop)?;
        all.push((ends, "restored"));
    } else if way == Way::RollBack && !is_open {
        journal.add(&Line::End);
        act::durable(&mut journal)?;
    }
    Ok(all)
}

/// What an undo or a purge that was cut off has not come to.
fn rest(cut_off: &Story, now: &Story) -> Option<String> {
    let was = |is: fn(Stage) -> bool| cut_off.count(is) > 0;
    let left = now.count(Stage::is_aside);
    let (id, again) = (
        &now.id,
        match () {
            () if left == 0 || cut_off.rolling_back => return None,
            () if was(|stage| matches!(stage, Stage::Undoing(_))) => "undo",
            () if was(|stage| stage == Stage::Purging) => "purge-quarantine",
            () => return None,
        },
    );
    let others = if left == 1 { "one that is" } else { &format!("{left} that are") };
    Some(format!(
        "dupes: {id} was cut off in the middle: dupes {again} {id} goes on with the {others} left"
    ))
}

pub(in crate::commands) fn purge_quarantine(
    asked: &PurgeQuarantine,
) -> Result<Exit, Box<dyn Error>> {
    let stop = stop_on_signals()?;
    let (shelf, _lock) = writable(&asked.journal, "purge-quarantine")?;
    let stories = shelf.stories()?;
    let copies = Copies::of(&stories);
    let stories: Vec<Story> = match &asked.id {
        Some(id) => vec![story(&shelf, id)?],
        None => stories,
    };
    let stories: Vec<Story> = stories
        .into_iter()
        .filter(|story| story.when < asked.before && story.deeds.iter().any(act::purge::is_there))
        .collect();
    if stories.is_empty() {
        say("dupes: there is nothing in the quarantine to purge");
        return Ok(Exit::Complete);
    }
    // Nobody is asked who has said yes: what there is need not be counted.
    let question = match asked.consent {
        Consent::Given => String::new(),
        Consent::Asked => {
            let Held { files, folders, bytes } = Held::by(&stories);
            for_good(files, folders, bytes)
        }
    };
    if let Some(exit) = refused(&question, asked.consent, &stop)? {
        return Ok(exit);
    }
    let mut exit = Exit::Complete;
    let mut all = Vec::new();
    for story in stories {
        let ends = deleted(&shelf, &story, &copies, &stop)?;
        exit = worse(exit, tell_ends(&story.id, &ends, &story.ground(), "deleted", asked.style));
        all.extend(ends);
    }
    told_to_stop(&all, "deleted", &stop);
    Ok(if stop.is_asked() { Exit::Interrupted } else { exit })
}

pub(in crate::commands) fn log(
    folder: &Path,
    id: Option<&str>,
    style: Style,
) -> Result<Exit, Box<dyn Error>> {
    is_known(folder)?;
    if !folder.exists() {
        return Ok(telling::log(&[], &[], None, false, style));
    }
    let shelf = Shelf::open_or_make(folder)?;
    match id {
        Some(id) => {
            let (story, acting) = shelf.beside_who_acts(|| story(&shelf, id));
            Ok(telling::log(&[story?], &[], acting.as_ref(), true, style))
        }
        None => {
            let (all, acting) = shelf.beside_who_acts(|| shelf.all());
            let (mut stories, unreadable) = all?;
            stories.retain(|story| !story.deeds.is_empty());
            Ok(telling::log(&stories, &unreadable, acting.as_ref(), false, style))
        }
    }
}

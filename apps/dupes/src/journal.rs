//! What was done, in a file of lines for each run: only ever appended to, each line with its checksum.
//!
//! ```text
//! 5f0c9a1e {"begin":{"version":1,"id":"20261118-170501-3fa9c1","action":"remove","when":1795021501}}
//! 81b2d0c4 {"base":{"path":"/srv/ann/Pictures","device":2049,"inode":131}}
//! a90e4f17 {"intent":{"number":1, "at":{…}, "aside":{…}, "keeper":{…}, …}}
//! 0be1c2d3 {"done":1,"folder":[1795021501,123]}
//! ```
//!
//! The first eight digits of the BLAKE3 of what follows them. A last line that is not whole is one of a run that was
//! killed while it wrote: it says nothing. Any other line that does not fit its checksum makes the
//! journal one that nobody acts on.
//!
//! **A line that says what is going to happen is durable before it happens.**

mod lines;
mod shelf;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

pub use self::lines::{
    Line, from_base, from_extent, from_facts, from_place, to_base, to_digest, to_extent, to_facts,
    to_place,
};
pub use self::shelf::{Acting, Shelf, Unreadable, usual_path};
use crate::act::deed::{Action, Deed, Stage};
use crate::act::facts::Time;
use crate::act::ground::{Base, Ground, Place};

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    file: File,
    id: String,
    /// What was written and is not durable yet.
    pending: Vec<u8>,
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Of the run.
    pub id: String,
    /// What it did.
    pub action: Action,
    /// When it began: seconds since 1970.
    pub when: i64,
    /// Its number among all runs of its folder: clocks go back. 0: of before there were such numbers.
    pub order: u64,
    /// What it removed was to be deleted at once, and nobody has begun to take it back since.
    pub for_good: bool,
    /// What places refer to, by number.
    pub bases: Vec<Base>,
    /// Folders that it may have made, in this order.
    pub made: Vec<Place>,
    /// Each with how far it is, by rising numbers.
    pub deeds: Vec<(Deed, Stage)>,
    /// It came to its end, or was told to stop: nothing was cut off.
    pub ended: bool,
    /// It has come to its end at least once, whatever was done by it since.
    pub finished: bool,
    /// All of it is being taken back, and that has not come to its end.
    pub rolling_back: bool,
    /// Names that it was to come to when it was told to stop.
    pub not_begun: u64,
}

impl Journal {
    /// Whose.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// One more line, not durable yet.
    pub fn add(&mut self, line: &Line) {
        self.pending.extend_from_slice(line.to_text().as_bytes());
    }

    /// All that was added is durable after this. After an error nothing more can be said of it, and
    /// nothing more is to be done.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.pending)?;
        self.pending.clear();
        self.file.sync_data()
    }
}

impl Story {
    /// Reads one to its end. `None`: it was killed before it had written its first line.
    pub fn read(path: &Path) -> io::Result<Option<Story>> {
        let shown = shelf::shown(path);
        let text = contents(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))?;
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut story: Option<Story> = None;
        let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let number = number + 1;
            let text = line;
            let Some(line) = Line::from_text(text) else {
                if let Some(why) = Line::unknown(text) {
                    return Err(wrong(format!("line {number} of {shown}: {why}")));
                }
                // Cut off in the middle.
                if lines.peek().is_none() {
                    break;
                }
                return Err(wrong(format!(
                    "line {number} of {shown} is damaged: nothing is done by it. Its lines are text: what they \
                     say can be done by hand"
                )));
            };
            let taken = match (&mut story, line) {
                (None, Line::Begin { id, action, when, order, for_good }) => {
                    story = Some(Story {
                        id,
                        action,
                        when,
                        order,
                        for_good,
                        bases: Vec::new(),
                        made: Vec::new(),
                        deeds: Vec::new(),
                        ended: false,
                        finished: false,
                        rolling_back: false,
                        not_begun: 0,
                    });
                    Ok(())
                }
                (Some(story), line) => story.take(line),
                (None, _) => Err("it does not begin with a beginning"),
            };
            taken.map_err(|why| wrong(format!("line {number} of {shown}: {why}")))?;
        }
        Ok(story)
    }

    /// The name of a run and its number among the others, from its first line alone.
    fn begun(path: &Path) -> io::Result<Option<(String, u64)>> {
        let mut line = Vec::new();
        BufReader::new(opened(path)?).read_until(b'\n', &mut line)?;
        Ok(match Line::from_text(&line) {
            Some(Line::Begin { id, order, .. }) => Some((id, order)),
            _ => None,
        })
    }

    /// With devices as they are numbered now: a disk may have got another number since, by a reboot or because it
    /// was mounted again. A base that has its inode still, and was made when it was made, is the same folder.
    pub fn as_mounted(mut self) -> Story {
        let mut now = HashMap::new();
        for base in &mut self.bases {
            let Ok(found) = Base::of(base.path.clone()) else { continue };
            let is_it =
                found.inode == base.inode && base.birth.is_some() && found.birth == base.birth;
            if is_it && found.device != base.device {
                now.entry(base.device).or_insert(found.device);
                base.device = found.device;
            }
        }
        for (deed, _) in &mut self.deeds {
            for facts in [&mut deed.facts, &mut deed.keeper_facts] {
                facts.device = now.get(&facts.device).copied().unwrap_or(facts.device);
            }
        }
        self
    }

    fn take(&mut self, line: Line) -> Result<(), &'static str> {
        self.ended = false;
        let (number, stage) = match line {
            Line::Begin { .. } => return Err("it begins a second time"),
            Line::Base(base) => {
                self.bases.push(base);
                return Ok(());
            }
            Line::Made(place) => {
                self.knows(&place)?;
                self.made.push(place);
                return Ok(());
            }
            Line::Intent(deed) => {
                [&deed.at, &deed.aside, &deed.keeper]
                    .into_iter()
                    .try_for_each(|p| self.knows(p))?;
                if deed.number != self.deeds.len() as u64 + 1 {
                    return Err("its number is not the next one");
                }
                self.deeds.push((*deed, Stage::Intended));
                return Ok(());
            }
            Line::End | Line::Stopped(_) => {
                (self.ended, self.rolling_back, self.finished) = (true, false, true);
                if let Line::Stopped(not_begun) = line {
                    self.not_begun = not_begun;
                }
                return Ok(());
            }
            Line::RollingBack => {
                (self.rolling_back, self.for_good) = (true, false);
                return Ok(());
            }
            Line::Done(number, folder) => (number, Stage::Done(folder)),
            Line::Back(number, ctime) => (number, Stage::Back(ctime)),
            Line::Undoing(number) => {
                self.for_good = false;
                match self.stage(number) {
                    Some(Stage::Done(folder) | Stage::Undoing(folder)) => {
                        (number, Stage::Undoing(folder))
                    }
                    Some(Stage::Left) => (number, Stage::Undoing(NO_TIME)),
                    _ => return Err("it takes back what is not done"),
                }
            }
            Line::Undone(number, again) => (number, Stage::Undone(again)),
            Line::Purging(number) => (number, Stage::Purging),
            Line::Purged(number) => (number, Stage::Purged),
            Line::Partly(number) => (number, Stage::Partly),
            Line::Missing(number) => (number, Stage::Missing),
            Line::Left(number) => (number, Stage::Left),
        };
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let known = at.and_then(|at| self.deeds.get_mut(at)).ok_or("there is no such deed")?;
        known.1 = stage;
        Ok(())
    }

    fn knows(&self, place: &Place) -> Result<(), &'static str> {
        if place.root < self.bases.len() { Ok(()) } else { Err("there is no such base") }
    }

    fn stage(&self, number: u64) -> Option<Stage> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.deeds.get(at).map(|(_, stage)| *stage)
    }

    /// Whether it was cut off in the middle of a deed, or of its way back.
    pub fn is_open(&self) -> bool {
        self.rolling_back || self.deeds.iter().any(|(_, stage)| stage.is_open())
    }

    /// Whether it was cut off between two deeds, before it had done all: nothing is open, but the rest was not begun.
    pub fn is_cut_off(&self) -> bool {
        !self.finished && !self.is_open() && !self.deeds.is_empty()
    }

    /// Whether somebody acts on it just now: nothing was cut off then.
    pub fn is_running(&self, acting: Option<&Acting>) -> bool {
        acting.is_some_and(|it| it.run.as_deref() == Some(&self.id))
    }

    /// Names that are in the quarantine, and were to be deleted at once.
    pub fn to_delete(&self) -> u64 {
        if self.for_good && !self.is_open() { self.count(Stage::is_aside) } else { 0 }
    }

    /// Where all of it is.
    pub fn ground(&self) -> Ground {
        Ground::new(self.bases.iter().cloned())
    }

    /// How many are so.
    pub fn count(&self, is_so: impl Fn(Stage) -> bool) -> u64 {
        self.deeds.iter().filter(|(_, stage)| is_so(*stage)).count() as u64
    }
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opened(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that is ours: nobody waits for a pipe, or goes where a link leads.
fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("is no file of yours: what a journal says is acted on"));
    }
    Ok(file)
}

/// The time of a folder that nobody asks for, or of a file that nobody could look at.
pub const NO_TIME: Time = (0, 0);

#[cfg(test)]
mod tests;

//! The folder that journals are kept in, and who may write there: one process at a time.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, fsync, open};
use rustix::io::Errno;

use super::{Journal, Line, Story};
use crate::act::deed::Action;
use crate::escape::{Escaped, escaped};
use crate::store::lock::{Board, Refusal, WriteLock};

/// What the name of a journal ends with.
const END: &str = ".journal";

/// So often a name is tried.
const MOST: u32 = 1_000;

/// All journals. Whoever has it may read; to write takes [`Shelf::lock`].
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
    /// Of the one process that acts, if that is this one: which run it acts on.
    board: OnceLock<Board>,
}

/// One who acts just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acting {
    /// What it says of itself.
    pub who: String,
    /// The run that it does, takes back or deletes. None: it has none yet.
    pub run: Option<String>,
}

/// A journal that nobody acts by.
#[derive(Debug)]
pub struct Unreadable {
    /// Of the run, by the name of the file.
    pub id: String,
    /// It is damaged, of a newer version, no file of ours, or a copy.
    pub why: io::Error,
    /// It is that of a run that has a journal of another name. Nobody need know what it says.
    pub is_copy: bool,
}

/// Where they are if nobody says otherwise: beside the database. None: there is no home folder.
pub fn usual_path() -> Option<PathBuf> {
    Some(crate::store::usual_path()?.with_file_name("journal"))
}

impl Shelf {
    /// Makes the folder if there is none: 0700, since journals tell the names of files.
    pub fn open_or_make(folder: &Path) -> io::Result<Shelf> {
        if fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
            let shown = shown(folder);
            return Err(io::Error::other(format!(
                "{shown} is a link, which leads elsewhere tomorrow: use --journal DIR with the folder itself"
            )));
        }
        make(folder)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", shown(folder))))?;
        Shelf::open(folder)
    }

    /// One that is there.
    pub fn open(folder: &Path) -> io::Result<Shelf> {
        let found = fs::metadata(folder)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let shown = shown(folder);
            return Err(io::Error::other(format!(
                "{shown} is not yours alone to write to: what a journal says is acted on. Use \
                 --journal DIR, or chmod 700"
            )));
        }
        Ok(Shelf { folder: folder.to_owned(), board: OnceLock::new() })
    }

    /// The one process that acts. Who is refused is told who it is.
    pub fn lock(&self, why: &str) -> io::Result<WriteLock> {
        let path = self.folder.join("lock");
        let lock = WriteLock::take(&path, why).map_err(|refusal| match refusal {
            Refusal::Held(owner) => io::Error::other(format!(
                "somebody else is acting ({}): one at a time",
                escaped(owner.trim_end().as_bytes())
            )),
            Refusal::Failed(error) => {
                io::Error::other(format!("{} can't be locked: {error}", shown(&path)))
            }
        })?;
        let _ = self.board.set(lock.board()?);
        Ok(lock)
    }

    /// Who acts just now, and on which run. Who can't be seen is nobody.
    pub fn acting(&self) -> Option<Acting> {
        let owner = WriteLock::owner(&self.folder.join("lock")).ok().flatten()?;
        Some(Acting { who: owner.note, run: owner.board })
    }

    /// What is read of it, and who acts meanwhile: also one that begins to, or ends, while it is read.
    pub fn beside_who_acts<T>(&self, read: impl FnOnce() -> T) -> (T, Option<Acting>) {
        let before = self.acting();
        let read = read();
        (read, self.acting().or(before))
    }

    /// A board that can't be written (a full disk) is no reason not to act.
    fn act_on(&self, id: &str) {
        let _ = self.board.get().map(|board| board.show(id));
    }

    /// All of them, in the order in which they were begun, those that say nothing left out; and those that can't be
    /// read.
    pub fn all(&self) -> io::Result<(Vec<Story>, Vec<Unreadable>)> {
        let (mut stories, mut unreadable) = (Vec::new(), Vec::new());
        for path in self.journals()? {
            match read(&path) {
                Ok(story) => stories.extend(story),
                Err(one) => unreadable.push(one),
            }
        }
        // Those of before there was such a number are the oldest.
        stories.sort_by_cached_key(|story| (story.order, story.when, story.id.clone()));
        unreadable.sort_by(|one, other| one.id.cmp(&other.id));
        Ok((stories, unreadable))
    }

    /// All of them, if all can be read that are no copies.
    pub fn stories(&self) -> io::Result<Vec<Story>> {
        let (stories, unreadable) = self.all()?;
        let mut stops = unreadable.into_iter().filter(|one| !one.is_copy);
        stops.next().map_or(Ok(stories), |one| Err(one.why))
    }

    /// Their paths. Whatever the folder is called: only the name of the file counts.
    fn journals(&self) -> io::Result<Vec<PathBuf>> {
        let paths = fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path()));
        let mut all: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
        all.retain(|path| name(path).is_some());
        Ok(all)
    }

    /// The one of this name, whatever the others are.
    pub fn story(&self, id: &str) -> io::Result<Option<Story>> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !id.bytes().all(is_name) || fs::symlink_metadata(self.path(id)).is_err() {
            return Ok(None);
        }
        read(&self.path(id)).map_err(|one| one.why)
    }

    /// Begins one, durably. Only whoever holds the lock.
    pub fn begin(&self, action: Action, when: i64) -> io::Result<Journal> {
        self.begin_as(action, when, false)
    }

    /// And of one that may delete at once what it has removed.
    pub fn begin_as(&self, action: Action, when: i64, for_good: bool) -> io::Result<Journal> {
        self.begun(action, when, for_good).map_err(|error| {
            let shown = shown(&self.folder);
            let what =
                format!("{shown}: no journal can be begun there, so nothing was done: {error}");
            io::Error::new(error.kind(), what)
        })
    }

    fn begun(&self, action: Action, when: i64, for_good: bool) -> io::Result<Journal> {
        let order = self.last_order()? + 1;
        for _ in 0..MOST {
            // Whoever has another folder of journals may begin one in this second, too: they are not to meet in a
            // quarantine.
            let id = format!("{}-{:06x}", stamp(when), RandomState::new().hash_one(0) >> 40);
            let flags = OFlags::CREATE
                | OFlags::EXCL
                | OFlags::WRONLY
                | OFlags::APPEND
                | OFlags::NOFOLLOW
                | OFlags::CLOEXEC;
            match open(self.path(&id), flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => {}
                opened => {
                    let file = File::from(opened?);
                    self.act_on(&id);
                    let mut journal = Journal { file, id: id.clone(), pending: Vec::new() };
                    journal.add(&Line::Begin { id, action, when, order, for_good });
                    journal.sync()?;
                    fsync(File::open(&self.folder)?)?;
                    return Ok(journal);
                }
            }
        }
        Err(io::Error::other("no name for a journal is free"))
    }

    /// Of the run that was begun last, whatever the clock has said since.
    fn last_order(&self) -> io::Result<u64> {
        let mut last = 0;
        for path in self.journals()? {
            if let Ok(Some((_, order))) = Story::begun(&path) {
                last = last.max(order);
            }
        }
        Ok(last)
    }

    /// To go on with one. What a killed run has left of its last line goes.
    pub fn resume(&self, id: &str) -> io::Result<Journal> {
        self.act_on(id);
        let path = self.path(id);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(open(&path, flags, Mode::empty())?);
        let len = file.metadata()?.len();
        let mut text = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        file.read_exact_at(&mut text, 0)?;
        let last = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default();
        if Line::from_text(last).is_none() {
            if let Some(why) = Line::unknown(last) {
                let shown = shown(&path);
                return Err(io::Error::other(format!("the last line of {shown}: {why}")));
            }
            file.set_len(len - last.len() as u64)?;
            file.sync_data()?;
        }
        Ok(Journal { file, id: id.to_owned(), pending: Vec::new() })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}{END}"))
    }
}

/// Of a run, if that is what the file is called.
fn name(path: &Path) -> Option<&[u8]> {
    path.file_name()?.as_bytes().strip_suffix(END.as_bytes())
}

fn read(path: &Path) -> Result<Option<Story>, Unreadable> {
    let name = name(path).unwrap_or_default();
    // Also of one that is damaged further down.
    let original = Story::begun(path).ok().flatten();
    let original = original.map(|(id, _)| id).filter(|id| id.as_bytes() != name);
    let story = match &original {
        None => Story::read(path),
        Some(id) => Err(io::Error::other(format!(
            "{}: a copy of {}{END}, by its first line: nothing is done by it",
            shown(path),
            escaped(id.as_bytes())
        ))),
    };
    let is_copy = original.is_some();
    let id = || String::from_utf8_lossy(name).into_owned();
    story.map(|story| story.map(Story::as_mounted)).map_err(|why| Unreadable {
        id: id(),
        why,
        is_copy,
    })
}

pub(super) fn shown(path: &Path) -> Escaped<'_> {
    escaped(path.as_os_str().as_bytes())
}

/// The folder and those above it, as far as they are not there: each durably.
fn make(folder: &Path) -> io::Result<()> {
    if fs::metadata(folder).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    make(above)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        // Somebody else has made it in between: he may not have come to this.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !folder.is_dir() => {
            Err(io::Error::new(error.kind(), "is no folder, as that of the journals is"))
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => crate::act::sync_folder(&File::open(above)?.into()).map_err(io::Error::from),
    }
}

/// Day and time, in UTC, so that names sort as their runs began.
fn stamp(when: i64) -> String {
    let (days, seconds) = (when.div_euclid(86_400), when.rem_euclid(86_400));
    let (year, month, day) = crate::cli::dates::of_days(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

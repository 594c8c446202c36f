//! Files in memory that can be changed, on a file system with the habits that a test wants: one file under two
//! names with two numbers, names in any case, numbers that are given again, a clock that stands.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::sync::{Arc, Mutex, MutexGuard};

/// A disk that is served, and looked at by a test.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

/// What it does otherwise than others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Habits {
    /// A name finds a file that is spelled in another case.
    pub(crate) folds_case: bool,
    /// Spelled otherwise than it is stored, a file has another number.
    pub(crate) numbers_by_spelling: bool,
    /// A new file has the number of the one that was deleted last.
    pub(crate) gives_numbers_again: bool,
    /// Whatever is changed, its ctime stays.
    pub(crate) clock_stands: bool,
    /// Whatever is changed has an earlier ctime than what was changed before.
    pub(crate) clock_goes_back: bool,
    /// Whoever has looked at something may go on with what he has seen for an hour.
    pub(crate) is_remembered: bool,
    /// When its clock begins, in seconds.
    pub(crate) begins: u64,
}

/// A file or folder, seen in one of the ways in which it is shown: each has numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) view: u64,
    pub(crate) object: usize,
}

/// The folder of all.
pub(crate) const TOP: Node = Node { view: 0, object: 0 };

pub(crate) struct State {
    objects: Vec<Object>,
    habits: Habits,
    /// Of files that are gone.
    numbers: Vec<u64>,
    now: u64,
}

/// Seconds and nanoseconds.
type Time = (u64, u32);

#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) links: u32,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

#[derive(Clone)]
pub(crate) enum Kind {
    File(Vec<u8>),
    Folder(Vec<Entry>),
    Link(Vec<u8>),
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    object: usize,
    /// In which way what it leads to is seen, against that in which its folder is.
    turn: u64,
}

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;

/// The other way to see a folder, and the other way to see a name.
const DOUBLED: u64 = 1;
const SPELLED: u64 = 2;

/// Of `renameat2`.
const NOREPLACE: u32 = 1;
const EXCHANGE: u32 = 2;

/// All files are of one age at first: links would take that from them otherwise.
const OF_OLD: Time = (1_000, 0);

impl Disk {
    pub(crate) fn new(habits: Habits) -> Disk {
        let state = State { objects: Vec::new(), habits, numbers: Vec::new(), now: habits.begins };
        let disk = Disk(Arc::new(Mutex::new(state)));
        disk.state().make(Kind::Folder(Vec::new()), 0o755);
        disk
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// With a file; its folders are made.
    pub(crate) fn with(self, path: &str, text: &str) -> Disk {
        self.put(path, Kind::File(text.into()));
        self
    }

    /// With a folder that is the same one as another, and looks like one of its own.
    pub(crate) fn doubled(self, path: &str, same_as: &str) -> Disk {
        let mut state = self.state();
        let same = state.at(same_as).expect("a folder that is there");
        state.enter(TOP, path.as_bytes(), Node { view: DOUBLED, ..same });
        drop(state);
        self
    }

    fn put(&self, path: &str, kind: Kind) {
        let (mut state, mut folder) = (self.state(), TOP);
        let mut names = path.split('/').map(str::as_bytes).peekable();
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            folder = match state.find(folder, name) {
                Ok((_, node)) => node,
                Err(_) => {
                    let (kind, mode) = if is_last {
                        (kind.clone(), 0o644)
                    } else {
                        (Kind::Folder(Vec::new()), 0o755)
                    };
                    let node = state.make(kind, mode);
                    state.enter(folder, name, node);
                    node
                }
            };
        }
    }

    /// What is in a file by now; None: there is none.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let mut state = self.state();
        let node = state.at(path)?;
        match &state.object(node).kind {
            Kind::File(bytes) => Some(String::from_utf8(bytes.clone()).unwrap()),
            _ => None,
        }
    }

    /// Names in a folder, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let mut state = self.state();
        let node = if path.is_empty() { TOP } else { state.at(path).unwrap() };
        let entries = state.entries(node).unwrap().clone();
        let name = |entry: Entry| String::from_utf8(entry.name).unwrap();
        let mut names: Vec<String> = entries.into_iter().map(name).collect();
        names.sort();
        names
    }

    /// Contents of all files that have a name.
    pub(crate) fn contents(&self) -> Vec<String> {
        let state = self.state();
        let of = |object: &Object| match &object.kind {
            Kind::File(bytes) if object.links > 0 => {
                Some(String::from_utf8(bytes.clone()).unwrap())
            }
            _ => None,
        };
        let mut all: Vec<String> = state.objects.iter().filter_map(of).collect();
        all.sort();
        all
    }
}

impl State {
    /// In which way that is seen.
    pub(crate) fn number(&self, node: Node) -> u64 {
        self.objects[node.object].number + 1_000_000 * node.view
    }

    pub(crate) fn object(&mut self, node: Node) -> &mut Object {
        &mut self.objects[node.object]
    }

    fn at(&mut self, path: &str) -> Option<Node> {
        let mut names = path.split('/');
        names.try_fold(TOP, |folder, name| Some(self.find(folder, name.as_bytes()).ok()?.1))
    }

    pub(crate) fn entries(&mut self, folder: Node) -> Result<&mut Vec<Entry>, i32> {
        match &mut self.object(folder).kind {
            Kind::Folder(entries) => Ok(entries),
            _ => Err(ENOTDIR),
        }
    }

    /// What an entry leads to, by the name that it is asked for.
    pub(crate) fn seen(&self, folder: Node, entry: &Entry, name: &[u8]) -> Node {
        let spelled = self.habits.numbers_by_spelling && entry.name != name;
        let view = folder.view ^ entry.turn ^ if spelled { SPELLED } else { 0 };
        Node { view, object: entry.object }
    }

    /// Its place in the folder, and what it is.
    pub(crate) fn find(&mut self, folder: Node, name: &[u8]) -> Result<(usize, Node), i32> {
        let folds = self.habits.folds_case;
        let is_it = |entry: &Entry| match folds {
            true => entry.name.eq_ignore_ascii_case(name),
            false => entry.name == name,
        };
        let entries = self.entries(folder)?;
        let at = entries.iter().position(is_it).ok_or(ENOENT)?;
        let entry = entries[at].clone();
        Ok((at, self.seen(folder, &entry, name)))
    }

    /// Something that has no name yet.
    pub(crate) fn make(&mut self, kind: Kind, mode: u32) -> Node {
        let number = if self.habits.gives_numbers_again { self.numbers.pop() } else { None };
        let number = number.unwrap_or(self.objects.len() as u64 + 1);
        let is_folder = matches!(kind, Kind::Folder(_));
        let ctime = (self.now, 0);
        self.objects.push(Object {
            kind,
            number,
            links: u32::from(is_folder),
            mode,
            owner: (0, 0),
            atime: OF_OLD,
            mtime: OF_OLD,
            ctime,
        });
        Node { view: 0, object: self.objects.len() - 1 }
    }

    /// Gives it this name, which nothing has. Seen by that it is what it was.
    pub(crate) fn enter(&mut self, folder: Node, name: &[u8], node: Node) {
        let entry =
            Entry { name: name.to_vec(), object: node.object, turn: folder.view ^ node.view };
        self.entries(folder).unwrap().push(entry);
        self.object(node).links += 1;
        self.changed(node);
    }

    /// Takes the name from it.
    pub(crate) fn leave(&mut self, folder: Node, name: &[u8]) -> Result<(), i32> {
        let (at, node) = self.find(folder, name)?;
        if matches!(&self.object(node).kind, Kind::Folder(inside) if !inside.is_empty()) {
            return Err(ENOTEMPTY);
        }
        self.entries(folder)?.remove(at);
        let object = self.object(node);
        object.links -= 1;
        if object.links == 0 {
            let number = object.number;
            self.numbers.push(number);
        }
        self.changed(node);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        (folder, name): (Node, &[u8]),
        (to, new): (Node, &[u8]),
        flags: u32,
    ) -> Result<(), i32> {
        let (_, node) = self.find(folder, name)?;
        let there = self.find(to, new);
        match flags {
            EXCHANGE => {
                let (at, other) = there?;
                let (from, _) = self.find(folder, name)?;
                self.point((folder, name), from, other)?;
                self.point((to, new), at, node)?;
                self.changed(other);
            }
            NOREPLACE if there.is_ok() => return Err(EEXIST),
            0 | NOREPLACE => {
                if there.is_ok() {
                    self.leave(to, new)?;
                }
                let (from, node) = self.find(folder, name)?;
                self.entries(folder)?.remove(from);
                self.object(node).links -= 1;
                self.enter(to, new, node);
            }
            _ => return Err(EINVAL),
        }
        self.changed(node);
        Ok(())
    }

    /// An entry leads to something else, which is what it was, seen by the name that was asked for.
    fn point(&mut self, (folder, name): (Node, &[u8]), at: usize, node: Node) -> Result<(), i32> {
        let entry = self.entries(folder)?[at].clone();
        let now = Entry { object: node.object, turn: 0, ..entry };
        let turn = self.seen(folder, &now, name).view ^ node.view;
        self.entries(folder)?[at] = Entry { turn, ..now };
        Ok(())
    }

    pub(crate) fn changed(&mut self, node: Node) {
        let Habits { clock_stands, clock_goes_back, .. } = self.habits;
        if !clock_stands {
            self.now = if clock_goes_back { self.now - 1 } else { self.now + 1 };
            self.object(node).ctime = (self.now, 0);
        }
    }

    /// For so many seconds what was seen may be kept.
    pub(crate) fn kept_for(&self) -> u64 {
        if self.habits.is_remembered { 3_600 } else { 0 }
    }

    pub(crate) fn now(&self) -> Time {
        (self.now, 0)
    }
}

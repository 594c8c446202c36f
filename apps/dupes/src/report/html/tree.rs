//! The folders of a page: the largest ones, with what they take, and those that sets and claims name.
//!
//! A folder takes at least as much as any in it and has a lower number, so the largest ones, in this order,
//! are a tree: with each comes what it lies in.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use rusqlite::Connection;

use crate::escape::escaped;
use crate::store::space::{Amount, Space};
use crate::store::{Error, Store};

/// Folders by their numbers in the page: what a folder lies in comes before it.
#[derive(Debug)]
pub(super) struct Tree {
    /// Of each, as the space numbers it.
    folders: Vec<u32>,
    /// The other way round.
    numbers: HashMap<u32, i64>,
    /// In the page; -1: a root.
    parents: Vec<i64>,
    /// Escaped; of a root, its path.
    names: Vec<String>,
    /// Of the first ones, which are those of the treemap.
    pub(super) space: Vec<Taken>,
    /// How many folders there are.
    pub(super) all: usize,
}

#[derive(Debug)]
pub(super) struct Taken {
    below: Amount,
    own: Amount,
    /// Folders that lie directly in it.
    children: u32,
}

impl Tree {
    pub(super) fn new(space: &Space, most: usize) -> Tree {
        let (below, children) = (space.below(), space.children());
        let mut shown: Vec<u32> = (0..space.len() as u32).collect();
        if shown.len() > most {
            let rank = |folder: &u32| (Reverse(below[*folder as usize].on_disk), *folder);
            shown.select_nth_unstable_by_key(most, rank);
            shown.truncate(most);
            shown.sort_unstable();
        }
        let mut tree = Tree {
            folders: Vec::new(),
            numbers: HashMap::new(),
            parents: Vec::new(),
            names: Vec::new(),
            space: Vec::new(),
            all: space.len(),
        };
        for folder in shown {
            tree.add(space, folder);
            let (below, children) = (below[folder as usize], children[folder as usize]);
            tree.space.push(Taken { below, own: space.own(folder), children });
        }
        assert_eq!(tree.folders.len(), tree.space.len(), "a folder came before what it lies in");
        tree
    }

    /// Of the folder that the database numbers so; -1 if it is not there.
    pub(super) fn number(&mut self, space: &Space, id: i64) -> i64 {
        space.number(id).map_or(-1, |folder| self.add(space, folder))
    }

    fn add(&mut self, space: &Space, folder: u32) -> i64 {
        let (mut missing, mut at, mut parent) = (Vec::new(), Some(folder), -1);
        while let Some(folder) = at {
            if let Some(known) = self.numbers.get(&folder) {
                parent = *known;
                break;
            }
            missing.push(folder);
            at = space.parent(folder);
        }
        for folder in missing.into_iter().rev() {
            let number = self.folders.len() as i64;
            self.folders.push(folder);
            self.parents.push(parent);
            self.numbers.insert(folder, number);
            parent = number;
        }
        parent
    }

    /// Looks up the names of all that are in it by now.
    pub(super) fn name_folders(&mut self, store: &Store, space: &Space) -> Result<(), Error> {
        let roots = store.roots()?.into_iter();
        let roots =
            roots.map(|root| (root.id, escaped(root.path.as_os_str().as_bytes()).to_string()));
        let ids = self.folders.iter().map(|folder| space.id(*folder));
        self.names = store.wrap(names(store.connection(), ids, &roots.collect()))?;
        Ok(())
    }

    /// Of a file in one of its folders.
    pub(super) fn path(&self, folder: i64, name: &str) -> String {
        let (mut names, mut at) = (vec![name], folder);
        while let Ok(folder) = usize::try_from(at) {
            names.push(&self.names[folder]);
            at = self.parents[folder];
        }
        let mut path = names.pop().unwrap_or_default().to_owned();
        for name in names.into_iter().rev() {
            if !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(name);
        }
        path
    }

    /// Columns: an array of each kind of number is shorter than an object for each folder.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"parent\":")?;
        serde_json::to_writer(&mut *out, &self.parents)?;
        out.write_all(b",\n\"name\":")?;
        serde_json::to_writer(&mut *out, &self.names)?;
        let columns: [(&str, fn(&Taken) -> u64); 10] = [
            ("files", |taken| taken.below.files),
            ("bytes", |taken| taken.below.bytes),
            ("disk", |taken| taken.below.on_disk),
            ("copied", |taken| taken.below.copied),
            ("reclaimable", |taken| taken.below.reclaimable),
            ("own_files", |taken| taken.own.files),
            ("own_disk", |taken| taken.own.on_disk),
            ("own_copied", |taken| taken.own.copied),
            ("own_reclaimable", |taken| taken.own.reclaimable),
            ("children", |taken| taken.children.into()),
        ];
        for (name, column) in columns {
            let values: Vec<u64> = self.space.iter().map(column).collect();
            write!(out, ",\n\"{name}\":")?;
            serde_json::to_writer(&mut *out, &values)?;
        }
        write!(out, ",\n\"all\":{}}}", self.all)
    }
}

fn names(
    connection: &Connection,
    ids: impl Iterator<Item = i64>,
    roots: &HashMap<i64, String>,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT parent IS NULL, name, root FROM folders WHERE id = ?1";
    let mut statement = connection.prepare(sql)?;
    let mut name = |id: i64| {
        statement.query_row([id], |row| {
            let root =
                roots.get(&row.get(2)?).filter(|_| row.get(0).is_ok_and(|is_root: bool| is_root));
            let own = || Ok::<_, rusqlite::Error>(escaped(row.get_ref(1)?.as_blob()?).to_string());
            root.cloned().map_or_else(own, Ok)
        })
    };
    ids.map(&mut name).collect()
}

//! How much room is taken by what waits in the quarantine.

use std::collections::{HashMap, HashSet};

use rustix::fs::Stat;

use super::ground::look;
use super::purge::is_there;
use super::trees;
use crate::journal::Story;
use crate::sharing::Sharing;

/// What would come free, and of how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Each once, however many names of it were removed; those in whole folders are not among these.
    pub files: u64,
    /// That were removed as one.
    pub folders: u64,
    /// On disk; a file with a name elsewhere frees none.
    pub bytes: u64,
}

/// A file, whatever its names.
type Id = (u64, u64);

/// Of a file: its path in the quarantine, names there, names in all, and bytes on disk.
type Known = (Vec<u8>, usize, usize, u64);

impl Held {
    /// By all these runs, as it is now.
    pub fn by(stories: &[Story]) -> Held {
        let (mut held, mut files, mut all) = (Held::default(), HashSet::new(), HashMap::new());
        for story in stories {
            let ground = story.ground();
            for (deed, _) in story.deeds.iter().filter(|pair| is_there(pair)) {
                let path = ground.path(&deed.aside);
                if deed.tree.is_some() {
                    held.folders += 1;
                    trees::each_file(deed, &ground, |way, stat| {
                        let mut path = path.clone();
                        crate::folders::join(&mut path, way);
                        add(&mut all, path, stat);
                    });
                    continue;
                }
                files.insert((deed.facts.device, deed.facts.inode));
                let found = ground.folder(&deed.aside);
                if let Ok(Some(stat)) = found.and_then(|above| look(&above, deed.aside.split().1)) {
                    add(&mut all, path, &stat);
                }
            }
        }
        held.files = files.len() as u64;
        let (mut sharing, mut numbers) = (Sharing::default(), HashMap::new());
        for ((device, _), (path, here, names, bytes)) in all {
            if here >= names {
                let next = numbers.len() as u16;
                held.bytes += sharing.own(&path, *numbers.entry(device).or_insert(next), bytes);
            }
        }
        held
    }
}

fn add(all: &mut HashMap<Id, Known>, path: Vec<u8>, stat: &Stat) {
    let bytes = stat.st_blocks.cast_unsigned() * 512;
    let known =
        all.entry((stat.st_dev, stat.st_ino)).or_insert((path, 0, stat.st_nlink as usize, bytes));
    known.1 += 1;
}

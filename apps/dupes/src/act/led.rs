//! Symbolic links that earlier runs have made. What one of them leads to does not go: it is the only way from there to
//! the bytes, and the way back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::deed::{Action, Stage};
use super::why::Why;
use crate::escape::escaped;
use crate::journal::Story;
use crate::plan::is_below;

/// By the path that they lead to: their own, and the run that made each.
#[derive(Clone, Debug, Default)]
pub struct Links(BTreeMap<Vec<u8>, Vec<(Vec<u8>, String)>>);

impl Links {
    /// Of all runs that are known, and were not undone there.
    pub fn of(stories: &[Story]) -> Links {
        let mut links = Links::default();
        for story in stories.iter().filter(|story| story.action == Action::Symlink) {
            let ground = story.ground();
            for (deed, stage) in &story.deeds {
                if matches!(stage, Stage::Done(_) | Stage::Left) {
                    let link = (ground.path(&deed.at), story.id.clone());
                    links.0.entry(ground.path(&deed.keeper)).or_default().push(link);
                }
            }
        }
        links
    }

    /// Why what is at a path stays: a link leads there, or below it, just now.
    pub fn lead_to(&self, path: &[u8]) -> Option<Why> {
        let some = self.0.range(path.to_vec()..).take_while(|(target, _)| target.starts_with(path));
        let some = some.filter(|(target, _)| is_below(target, path));
        let mut all = some.flat_map(|(target, links)| links.iter().map(move |it| (target, it)));
        let (_, (link, id)) = all.find(|(target, (link, _))| {
            let leads = fs::read_link(OsStr::from_bytes(link));
            leads.is_ok_and(|leads| leads.as_os_str().as_bytes() == target.as_slice())
        })?;
        Some(Why::LedTo { link: escaped(link).to_string(), id: id.clone() })
    }
}

//! The sets with the largest winnings, out of all that come by.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use super::Limits;
use crate::escape::escaped;
use crate::listing::Set;
use crate::report::Place;

/// What is shown of a set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Of each file, in bytes.
    pub(super) size: u64,
    pub(super) reclaimable: u64,
    /// Files.
    pub(super) copies: u64,
    pub(super) names: Vec<Name>,
    /// Names that are left out.
    pub(super) more: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// As the database numbers it; later, as the page does.
    pub(super) folder: i64,
    /// Escaped.
    pub(super) name: Box<str>,
    /// A further name of the file above.
    is_link: bool,
    is_offline: bool,
}

/// The larger comes first; among equals the larger files, then what came first.
type Rank = (u64, u64, Reverse<u64>);

#[derive(Debug)]
pub(super) struct Largest {
    limits: Limits,
    /// The smallest is at hand.
    rows: BinaryHeap<Reverse<(Rank, Ranked)>>,
    /// In them.
    names: usize,
    offered: u64,
    /// What was left out: nothing below it is taken, so that what is shown is the beginning of the list.
    floor: Option<Rank>,
}

/// The rank says it all.
#[derive(Debug)]
struct Ranked(Row);

impl PartialEq for Ranked {
    fn eq(&self, _: &Ranked) -> bool {
        true
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, _: &Ranked) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Largest {
    pub(super) fn new(limits: &Limits) -> Largest {
        let rows = BinaryHeap::new();
        Largest { limits: *limits, rows, names: 0, offered: 0, floor: None }
    }

    pub(super) fn offer(&mut self, set: &Set, places: &[Place]) {
        let rank = (set.reclaimable, set.size, Reverse(self.offered));
        self.offered += 1;
        if self.floor.is_some_and(|floor| rank < floor) {
            return;
        }
        let row = Row::new(set, places, self.limits.names_of_set);
        self.names += row.names.len();
        self.rows.push(Reverse((rank, Ranked(row))));
        while self.rows.len() > self.limits.sets || self.names > self.limits.names {
            let Some(Reverse((rank, Ranked(row)))) = self.rows.pop() else { return };
            self.names -= row.names.len();
            self.floor = self.floor.max(Some(rank));
        }
    }

    /// The largest first.
    pub(super) fn into_rows(self) -> Vec<Row> {
        let sorted = self.rows.into_sorted_vec().into_iter();
        sorted.map(|Reverse((_, Ranked(row)))| row).collect()
    }
}

impl Row {
    fn new(set: &Set, places: &[Place], most: usize) -> Row {
        let all: usize = set.files.iter().map(|file| file.paths.len()).sum();
        let names = set.files.iter().zip(places).flat_map(|(file, place)| {
            let paths = file.paths.iter().zip(&place.folders).enumerate();
            paths.map(|(at, (path, folder))| {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                let name = escaped(name).to_string().into();
                Name { folder: *folder, name, is_link: at > 0, is_offline: file.offline }
            })
        });
        Row {
            size: set.size,
            reclaimable: set.reclaimable,
            copies: set.files.len() as u64,
            names: names.take(most).collect(),
            more: all.saturating_sub(most) as u64,
        }
    }

    /// `[size, reclaimable, copies, names left out, [folder, name, kind, folder, name, kind, …]]`. A
    /// name is null if it is that of the one before. Kind: 1 for a further name of the file above, and
    /// 2 for one that is offline.
    pub(super) fn json(&self) -> Value {
        let (mut names, mut last) = (Vec::with_capacity(3 * self.names.len()), "");
        for name in &self.names {
            let kind = u8::from(name.is_link) + 2 * u8::from(name.is_offline);
            let spelled = if *name.name == *last { Value::Null } else { (*name.name).into() };
            names.extend([name.folder.into(), spelled, kind.into()]);
            last = &name.name;
        }
        json!([self.size, self.reclaimable, self.copies, self.more, names])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Verified;
    use crate::listing::Entry;

    fn offer(largest: &mut Largest, reclaimable: u64, files: usize) {
        let paths = |n| vec![format!("/in/{n}").into()];
        let entry = |n| Entry { paths: paths(n), reference: false, offline: false };
        let set = Set {
            size: 7,
            digest: None,
            verified: Verified::Bytes,
            files: (0..files).map(entry).collect(),
            reclaimable,
        };
        let place = Place { folders: vec![1], on_disk: 8, reclaimable: 0 };
        largest.offer(&set, &vec![place; files]);
    }

    fn told(limits: Limits, sets: &[(u64, usize)]) -> Vec<(u64, usize, u64)> {
        let mut largest = Largest::new(&limits);
        sets.iter().for_each(|(reclaimable, files)| offer(&mut largest, *reclaimable, *files));
        let rows = largest.into_rows();
        rows.iter().map(|row| (row.reclaimable, row.names.len(), row.more)).collect()
    }

    #[test]
    fn the_largest_come_first_and_the_smallest_not_at_all() {
        let limits = Limits { sets: 3, ..Limits::default() };
        let sets = [(5, 2), (9, 2), (1, 2), (7, 2), (3, 2)];
        assert_eq!(told(limits, &sets), [(9, 2, 0), (7, 2, 0), (5, 2, 0)]);
    }

    #[test]
    fn there_is_no_hole_in_what_is_told() {
        let limits = Limits { names: 10, ..Limits::default() };
        // The one with 8 names had to go; there is room for a smaller one then, which is not told, either.
        assert_eq!(told(limits, &[(5, 8), (9, 3), (1, 2), (9, 4)]), [(9, 3, 0), (9, 4, 0)]);
    }

    #[test]
    fn a_set_of_many_names_is_told_in_part() {
        let limits = Limits { names_of_set: 3, ..Limits::default() };
        assert_eq!(told(limits, &[(5, 8)]), [(5, 3, 5)]);
    }

    #[test]
    fn a_name_that_is_the_last_one_again_is_not_spelled() {
        let name = |folder, name: &str, is_link, is_offline| Name {
            folder,
            name: name.into(),
            is_link,
            is_offline,
        };
        let names =
            vec![name(1, "a", false, false), name(2, "a", true, false), name(3, "b", false, true)];
        let row = Row { size: 7, reclaimable: 8, copies: 2, names, more: 0 };
        assert_eq!(row.json().to_string(), r#"[7,8,2,0,[1,"a",0,2,null,1,3,"b",2]]"#);
    }
}

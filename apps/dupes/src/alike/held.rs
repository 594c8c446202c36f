//! Folders whose contents are all in another one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::forest::{Branch, Forest};
use super::similar::Partners;
use super::{Containment, Effort, NONE};

/// For each folder that is held: by whom. None of them lies in another one.
type Holders = BTreeMap<u32, Vec<u32>>;

/// Folders that are held.
#[derive(Default)]
pub(super) struct Held {
    /// They may go.
    going: Holders,
    /// They are online, and what holds them is not: they stay.
    staying: Holders,
}

impl Forest<'_> {
    /// All that is to be told of them.
    pub(super) fn contained(
        &self,
        held: &Held,
        partners: &Partners,
        effort: &mut Effort,
    ) -> Vec<Containment> {
        let all = held.going.iter().chain(&held.staying);
        let pairs = all.flat_map(|(a, by)| by.iter().map(|b| (*a, *b)));
        let is_told = |(a, b): &(u32, u32)| self.branch(*a).is_online || self.branch(*b).is_online;
        let told = pairs.filter(is_told).map(|(folder, within)| {
            let (a, b) = (self.branch(folder), self.branch(within));
            let may_go = a.is_online && b.is_online;
            Containment {
                folder: a.number,
                within: b.number,
                files: [a.len(), b.len()],
                bytes: a.bytes,
                winnings: if may_go { a.on_disk } else { 0 },
                is_in_pair: self.lie_in_pair(folder, within, partners, false, effort),
            }
        });
        let mut contained: Vec<Containment> = told.collect();
        contained.sort_unstable_by_key(|c| (Reverse(c.winnings), c.folder, c.within));
        contained
    }

    /// Largest first. What lies in a folder that is held goes with that: it is not asked, and
    /// holds nothing. Of folders that hold each other the first one stays.
    pub(super) fn held(&self, effort: &mut Effort) -> Held {
        let is_asked = |branch: &Branch| branch.is_spread && !branch.is_copy && branch.len() > 0;
        let all = (0..).zip(&self.branches).filter(|(at, b)| is_asked(b) && b.top == *at);
        let mut all: Vec<(u32, u32)> = all.map(|(at, branch)| (branch.len(), at)).collect();
        all.sort_unstable();
        let mut held = Held::default();
        for (_, folder) in all.into_iter().rev() {
            if self.goes(folder, &held) || self.is_only_in_copies(folder) {
                continue;
            }
            let mut by = self.holders(folder, effort);
            // Of what stays in a folder that holds it, the parts of that are not told, either.
            by.retain(|by| !self.goes(*by, &held) && !self.go_with_held(folder, *by, &held));
            let is_online = |folder: &u32| self.branch(*folder).is_online;
            if is_online(&folder) && self.held_with(folder, &held.staying).is_some() {
                by.retain(is_online); // by what is offline all that it lies in is held
            }
            let stays = is_online(&folder) && !by.iter().any(is_online);
            let holders = if stays { &mut held.staying } else { &mut held.going };
            if !by.is_empty() {
                holders.insert(folder, by);
            }
        }
        let without_going = |holders: &Holders| -> Holders {
            let stay =
                |by: &Vec<u32>| by.iter().copied().filter(|by| !self.goes(*by, &held)).collect();
            holders.iter().map(|(folder, by)| (*folder, stay(by))).collect()
        };
        Held { going: without_going(&held.going), staying: without_going(&held.staying) }
    }

    fn goes(&self, folder: u32, held: &Held) -> bool {
        self.held_with(folder, &held.going).is_some()
    }

    /// The folder that is held and that this one is, or lies in.
    fn held_with<'h>(&self, folder: u32, held: &'h Holders) -> Option<(u32, &'h Vec<u32>)> {
        let (other, by) = held.range(..=folder).next_back()?;
        self.is_in(folder, *other).then_some((*other, by))
    }

    /// Whether its first content is nowhere else: then only copies hold it. That is quickly said,
    /// and equal chains have a great many folders that only need to be asked this.
    fn is_only_in_copies(&self, folder: u32) -> bool {
        let branch = self.branch(folder);
        let set = &self.sets[branch.set as usize];
        let places = self.places(self.leaves[branch.files as usize].content);
        places.len() <= self.likeness.holders && {
            places.iter().all(|place| {
                let at = self.leaves[*place as usize].folder;
                let before = set.partition_point(|other| *other <= at);
                before > 0 && self.is_in(at, set[before - 1])
            })
        }
    }

    /// The smallest folders that have all contents of this one.
    fn holders(&self, folder: u32, effort: &mut Effort) -> Vec<u32> {
        if !effort.spend(self.branch(folder).len()) {
            return Vec::new();
        }
        let counts = self.counts(folder);
        if counts.iter().any(|(content, count)| self.places(*content).len() < 2 * count) {
            return Vec::new();
        }
        let mut starts: Vec<u32> = Vec::new();
        for place in self.places(counts[0].0) {
            let start = self.leaves[*place as usize].folder;
            if !self.is_in(start, folder) && starts.last() != Some(&start) {
                starts.push(start);
            }
            if starts.len() == self.likeness.holders {
                break;
            }
        }
        effort.thought_of += starts.len();
        let holder = |start| self.climb_to_hold(start, folder, &counts, effort);
        let mut holders: Vec<u32> = starts.into_iter().filter_map(holder).collect();
        holders.sort_unstable();
        holders.dedup();
        let smallest = |at: &usize| match holders.get(at + 1) {
            Some(next) => !self.is_in(*next, holders[*at]),
            None => true,
        };
        let holders = (0..holders.len()).filter(smallest).map(|at| holders[at]);
        let core = |folder| self.branch(self.branch(folder).core).set;
        let told = |b: &u32| {
            // Equal folders with nothing but folders around them say it all.
            let are_equal = core(folder) == core(*b);
            !are_equal && !self.branch(*b).is_copy && !self.lie_in_equals(folder, *b)
        };
        holders.filter(told).collect()
    }

    /// What is above a folder has all that it has: so each content is looked up once.
    fn climb_to_hold(
        &self,
        start: u32,
        folder: u32,
        counts: &[(u32, usize)],
        effort: &mut Effort,
    ) -> Option<u32> {
        effort.compared += 1;
        let mut at = start;
        for (content, count) in counts {
            while effort.spend(1) && self.places_in(*content, at).len() < *count {
                at = self.branch(at).parent;
                if at == NONE {
                    return None;
                }
            }
            if effort.is_spent || self.is_in(folder, at) {
                return None;
            }
        }
        Some(self.branch(at).top)
    }

    /// They lie in a folder that is held and in one that holds it, and are not just these.
    pub(super) fn go_with_held(&self, a: u32, b: u32, held: &Held) -> bool {
        let goes = |a: u32, b: u32| {
            [&held.going, &held.staying].into_iter().any(|held| {
                self.held_with(a, held).is_some_and(|(folder, by)| {
                    by.iter().any(|by| self.is_in(b, *by) && (a, b) != (folder, *by))
                })
            })
        };
        goes(a, b) || goes(b, a)
    }
}

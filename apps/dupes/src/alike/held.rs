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
    pub(super) fn held(&mut self, effort: &mut Effort) -> Held {
        let all = (0..).zip(&self.branches);
        let mut all: Vec<_> = all.map(|(at, branch)| (Reverse(branch.len()), at)).collect();
        all.sort_unstable();
        let mut held = Held::default();
        for of_a_size in all.chunk_by(|one, other| one.0 == other.0) {
            self.choose(of_a_size, &held);
            for (_, folder) in of_a_size.iter().copied().rev() {
                self.ask(folder, &mut held, effort);
            }
        }
        self.settle(&mut held);
        held
    }

    /// Of folders that hold each other, all but the first have gone since they were asked: what holds
    /// those holds who was held by them.
    fn settle(&self, held: &mut Held) {
        let is_online = |by: &u32| self.branch(*by).is_online;
        // Of those of one size the first was asked last.
        let going: Vec<u32> = held.going.keys().copied().collect();
        let staying: Vec<u32> = held.staying.keys().copied().collect();
        for (folders, is_going) in [(going, true), (staying, false)] {
            for folder in folders {
                let holders = if is_going { &held.going } else { &held.staying };
                let all = &holders[&folder];
                let goes = |by: &u32| self.goes(*by, held);
                if !all.iter().any(goes) {
                    continue;
                }
                let mut by: Vec<u32> = all.iter().copied().filter(|by| !goes(by)).collect();
                if !by.iter().any(is_online) {
                    let gone = all.iter().filter_map(|by| self.held_with(*by, &held.going));
                    by.extend(gone.flat_map(|(_, by)| by));
                    by = self.to_tell(folder, by, held);
                }
                let holders = if is_going { &mut held.going } else { &mut held.staying };
                match by.is_empty() {
                    true => holders.remove(&folder),
                    false => holders.insert(folder, by),
                };
            }
        }
    }

    /// Who stands for the sets of folders of one size, if larger ones are done: the first that does
    /// not go with a larger one, and lies in no copy; the first of all, if there is none.
    fn choose(&mut self, folders: &[(Reverse<u32>, u32)], held: &Held) {
        for (_, place) in folders.iter().copied() {
            let Branch { parent, set, .. } = self.branches[place as usize];
            let above = self.branches.get(parent as usize);
            let is_spare = above.is_some_and(|above| above.is_spare || above.is_copy)
                || self.goes(place, held);
            let is_member = set != NONE && !self.is_inner(place);
            if is_member && !is_spare && self.standing[set as usize] == NONE {
                self.standing[set as usize] = place;
            }
            let branch = &mut self.branches[place as usize];
            branch.is_spare = is_spare;
            branch.is_copy = is_member && self.standing[set as usize] != place;
        }
        for (_, place) in folders.iter().copied() {
            let Branch { parent, set, .. } = self.branches[place as usize];
            let parent_place = parent;
            let parent = self.branches.get(parent as usize).copied();
            let is_inner = self.is_inner(place);
            let is_copy = match (parent.filter(|_| is_inner), set) {
                (Some(parent), _) => parent.is_copy,
                (None, NONE) => false,
                (None, set) => {
                    let standing = &mut self.standing[set as usize];
                    if *standing == NONE {
                        *standing = place;
                    }
                    *standing != place
                }
            };
            let branch = &mut self.branches[place as usize];
            branch.is_copy = is_copy;
            branch.copy_above = parent.map_or(NONE, |parent| match parent.is_copy {
                true => parent_place,
                false => parent.copy_above,
            });
            branch.stand_in = match is_copy || is_inner {
                true => parent.map_or(NONE, |parent| parent.stand_in),
                false => place,
            };
        }
    }

    fn ask(&self, folder: u32, held: &mut Held, effort: &mut Effort) {
        let branch = self.branch(folder);
        let is_asked = branch.is_spread && !branch.is_copy && branch.len() > 0;
        if !is_asked
            || branch.top != folder
            || self.goes(folder, held)
            || self.is_only_in_copies(folder)
        {
            return;
        }
        let mut by = self.holders(folder, held, effort);
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

    /// The smallest folders that have all contents of this one and stay.
    fn holders(&self, folder: u32, held: &Held, effort: &mut Effort) -> Vec<u32> {
        let all = self.with_all_of(folder, effort);
        let near = all.iter().filter_map(|by| self.standing_for(*by, held).ok());
        let near = self.to_tell(folder, near.collect(), held);
        if near.iter().any(|by| self.branch(*by).is_online) {
            return near;
        }
        // Where all of these go, a part of what they lie in does, and the whole of it stays.
        let around = all.iter().filter_map(|by| self.staying_around(*by, folder, held));
        let around = self.to_tell(folder, around.collect(), held);
        let is_better = around.iter().any(|by| self.branch(*by).is_online) || near.is_empty();
        if is_better { around } else { near }
    }

    /// Itself or, if it is a copy, the one that stands for it; else what goes, of the two.
    fn standing_for(&self, folder: u32, held: &Held) -> Result<u32, u32> {
        let Branch { is_copy, set, .. } = *self.branch(folder);
        let standing = if is_copy { self.standing[set as usize] } else { folder };
        let going = [folder, standing].into_iter().find_map(|at| self.held_with(at, &held.going));
        going.map_or(Ok(standing), |(going, _)| Err(going))
    }

    /// The same of the nearest folder from itself on of which one stays; none if what goes here goes
    /// for what it holds, since that is as large.
    fn staying_around(&self, by: u32, folder: u32, held: &Held) -> Option<u32> {
        let mut at = by;
        loop {
            let going = match self.standing_for(at, held) {
                Ok(standing) => return Some(standing),
                Err(going) => going,
            };
            if self.branch(going).len() == self.branch(folder).len() {
                return None;
            }
            let lowest = if self.is_in(at, going) { going } else { at };
            at = self.branches.get(self.branch(lowest).parent as usize)?.top;
        }
    }

    /// Of folders that have all of this one the smallest, as far as nothing that is told says more.
    fn to_tell(&self, folder: u32, mut holders: Vec<u32>, held: &Held) -> Vec<u32> {
        holders.sort_unstable();
        holders.dedup();
        holders.retain(|by| {
            let are_apart = !self.is_in(*by, folder) && !self.is_in(folder, *by);
            are_apart && !self.are_equal_within(folder, *by)
        });
        let mut holders = self.smallest(&holders);
        // Of what stays in a folder that holds it, the parts of that are not told, either.
        holders
            .retain(|by| !self.lie_in_equals(folder, *by) && !self.go_with_held(folder, *by, held));
        holders
    }

    /// Those in which no other one lies.
    fn smallest(&self, sorted: &[u32]) -> Vec<u32> {
        let is_smallest = |at: &usize| match sorted.get(at + 1) {
            Some(next) => !self.is_in(*next, sorted[*at]),
            None => true,
        };
        (0..sorted.len()).filter(is_smallest).map(|at| sorted[at]).collect()
    }

    /// The smallest folders that have all contents of this one, but for those that are equal.
    fn with_all_of(&self, folder: u32, effort: &mut Effort) -> Vec<u32> {
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
        let mut holders = self.smallest(&holders);
        holders.retain(|by| !self.are_equal_within(folder, *by));
        holders
    }

    /// Equal folders with nothing but folders around them say it all.
    fn are_equal_within(&self, a: u32, b: u32) -> bool {
        let core = |folder| self.branch(self.branch(folder).core).set;
        core(a) == core(b)
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

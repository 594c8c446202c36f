//! Pairs of folders that have much in common.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::forest::{Branch, Forest, Leaf, span};
use super::held::Held;
use super::{By, Content, Effort, Facts, NONE, PartialPair, Sample};

/// For each folder of similar pairs: the others.
pub(super) type Partners = HashMap<u32, Vec<u32>>;

impl Forest<'_> {
    /// All that is to be told of them.
    pub(super) fn partial(&self, held: &Held, effort: &mut Effort) -> (Vec<PartialPair>, Partners) {
        let pairs = self.candidates(effort);
        let mut is_settled = vec![false; pairs.len()];
        let (mut partial, mut partners) = (Vec::new(), Partners::new());
        // Pairs above a pair come before it.
        for (at, (a, b)) in pairs.iter().copied().enumerate() {
            let mut above = self.above(a, b).into_iter().flatten();
            is_settled[at] =
                above.any(|pair| pairs.binary_search(&pair).is_ok_and(|above| is_settled[above]));
            let is_copy = self.branch(a).is_copy || self.branch(b).is_copy;
            let at_best = self.branch(a).matchable.min(self.branch(b).matchable);
            if is_settled[at]
                || is_copy
                || !self.is_enough(at_best, a, b)
                || self.lie_in_equals(a, b)
                || self.go_with_held(a, b, held)
            {
                continue;
            }
            if !effort.spend(self.branch(a).weight(a).min(self.branch(b).weight(b))) {
                break;
            }
            effort.compared += 1;
            if self.is_enough(self.shared(a, b), a, b) {
                is_settled[at] = true;
                if self.branch(a).is_online || self.branch(b).is_online {
                    partial.push(self.pair(a, b));
                }
                partners.entry(a).or_default().push(b);
                partners.entry(b).or_default().push(a);
            }
        }
        partial.sort_unstable_by_key(|pair| (Reverse(pair.winnings), pair.folders));
        (partial, partners)
    }

    /// Whether two folders lie in similar ones, and are not just these.
    pub(super) fn lie_in_pair(
        &self,
        a: u32,
        b: u32,
        partners: &Partners,
        at_same_place: bool,
        effort: &mut Effort,
    ) -> bool {
        let (mut x, mut y) = (a, b);
        while x != NONE && y != NONE && effort.spend(1) {
            let others = partners.get(&x).map_or(&[][..], |others| others);
            let is_in = |other: &u32| match at_same_place {
                true => *other == y,
                false => self.is_in(b, *other) && (x, *other) != (a, b),
            };
            if others.iter().any(is_in) {
                return true;
            }
            if at_same_place && self.branch(x).name != self.branch(y).name {
                return false;
            }
            x = self.branch(x).parent;
            y = if at_same_place { self.branch(y).parent } else { y };
        }
        false
    }

    /// Pairs that may be similar, in tree order.
    fn candidates(&self, effort: &mut Effort) -> Vec<(u32, u32)> {
        let (starts, folders) = self.starts();
        let mut pairs = HashSet::new();
        let mut waiting = Vec::new();
        'all: for (len, begin) in starts {
            let folders = &folders[begin..begin + len];
            let reach = if len <= self.likeness.holders { len } else { 1 };
            for (at, a) in folders.iter().enumerate() {
                waiting.extend(folders[at + 1..].iter().take(reach).map(|b| (*a, *b)));
                while let Some((a, b)) = waiting.pop() {
                    if self.branch(a).end > b || pairs.contains(&(a, b)) {
                        continue;
                    }
                    if pairs.len() == self.likeness.pairs {
                        effort.is_spent = true;
                        break 'all;
                    }
                    pairs.insert((a, b));
                    waiting.extend(self.above(a, b).into_iter().flatten());
                }
            }
        }
        effort.thought_of += pairs.len();
        let mut pairs: Vec<(u32, u32)> = pairs.into_iter().collect();
        pairs.sort_unstable();
        pairs
    }

    /// For each file that several folders have, with its name or without: how many, and where they
    /// begin in the list. Rarest first.
    fn starts(&self) -> (Vec<(usize, usize)>, Vec<u32>) {
        let (mut starts, mut folders) = (Vec::new(), Vec::new());
        let mut having = Vec::new();
        for content in 0..self.begins.len() as u32 - 1 {
            having.clear();
            having.extend(self.places(content).iter().map(|at| {
                let Leaf { name, folder, .. } = self.leaves[*at as usize];
                match self.likeness.by {
                    By::Names => (name, folder),
                    By::Contents => (0, self.branch(folder).stand_in),
                }
            }));
            having.retain(|(_, folder)| *folder != NONE);
            having.sort_unstable();
            having.dedup();
            for same in having.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
                starts.push((same.len(), folders.len()));
                folders.extend(same.iter().map(|(_, folder)| *folder));
            }
        }
        starts.sort_unstable();
        (starts, folders)
    }

    /// The next pairs with at least as much in common. Any pair that is similar can be reached from
    /// any pair in it: who is too large for the other side waits until that has grown.
    fn above(&self, a: u32, b: u32) -> [Option<(u32, u32)>; 2] {
        let (x, y) = (self.branch(a), self.branch(b));
        let pair = |a, b| (a != NONE && b != NONE).then_some((a, b));
        if self.likeness.by == By::Names {
            return [if x.name == y.name { pair(x.parent, y.parent) } else { None }, None];
        }
        let up = |branch: &Branch| self.branches.get(branch.parent as usize).map(|p| p.stand_in);
        let may_grow = |x: &Branch, y: &Branch| {
            u64::from(x.len()) * u64::from(self.likeness.percent) <= u64::from(y.len()) * 100
        };
        let up_if = |grows, branch| if grows { up(branch).unwrap_or(NONE) } else { NONE };
        [pair(up_if(may_grow(x, y), x), b), pair(a, up_if(may_grow(y, x), y))]
    }

    /// Whether two folders that share so many files are similar.
    fn is_enough(&self, shared: u32, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|folder| u64::from(self.branch(folder).len()));
        let shared = u64::from(shared);
        shared > 0 && shared * 100 >= u64::from(self.likeness.percent) * (a + b - shared)
    }

    /// How many files two folders share.
    fn shared(&self, a: u32, b: u32) -> u32 {
        let is_less = self.branch(a).weight(a) <= self.branch(b).weight(b);
        let (few, many) = if is_less { (a, b) } else { (b, a) };
        let mut shared = 0;
        if self.likeness.by == By::Contents {
            for (content, count) in self.counts(few) {
                shared += count.min(self.places_in(content, many).len());
            }
            return shared as u32;
        }
        self.side_by_side(few, many, |folder, twin| {
            let Some(twin) = twin else { return false };
            let set = self.branch(folder).set;
            if set != NONE && set == self.branch(twin).set {
                shared += self.branch(folder).len() as usize;
                return false;
            }
            let (x, y) = (self.own(folder), self.own(twin));
            let (few, many) = if x.len() <= y.len() { (x, y) } else { (y, x) };
            for same in few.chunk_by(|a, b| a.key() == b.key()) {
                if same[0].content != NONE {
                    shared += same.len().min(with_key(many, same[0].key()).len());
                }
            }
            true
        });
        shared as u32
    }

    /// All that there is to say about two folders.
    fn pair(&self, a: u32, b: u32) -> PartialPair {
        let size = |place| {
            let branch = self.branch(place);
            (branch.on_disk, branch.len(), Reverse(branch.number))
        };
        let (first, second) = if size(a) > size(b) { (a, b) } else { (b, a) };
        let mut pair = PartialPair {
            folders: [first, second].map(|folder| self.branch(folder).number),
            files: [first, second].map(|folder| self.branch(folder).len()),
            shared: 0,
            shared_bytes: 0,
            winnings: 0,
            only: [Sample::new(), Sample::new()],
            not_compared: [Sample::new(), Sample::new()],
            other_content: Sample::new(),
            other_time: Sample::new(),
        };
        let most = self.likeness.examples;
        let may_go = self.branch(a).is_online && self.branch(b).is_online;
        for (side, (a, b)) in [(first, second), (second, first)].into_iter().enumerate() {
            self.each_file(a, b, |file, is_shared, namesake| {
                let leaf = self.leaves[file as usize];
                let namesake = namesake.map(|other| (other, self.leaves[other as usize]));
                let facts = self.facts(file);
                let is_unread = |facts: &Facts| facts.content == Content::Unread;
                let is_in_doubt = namesake.is_some_and(|(place, _)| {
                    let other = self.facts(place);
                    facts.size == other.size && (is_unread(facts) || is_unread(other))
                });
                let is_changed = namesake.is_some_and(|(_, other)| {
                    !is_in_doubt && (leaf.content == NONE || leaf.content != other.content)
                });
                if let (0, Some((place, other))) = (side, namesake) {
                    let is_other_time = facts.mtime != self.facts(place).mtime;
                    let differing = match (is_changed, is_other_time) {
                        (true, _) => Some(&mut pair.other_content),
                        (false, true) if !is_in_doubt => Some(&mut pair.other_time),
                        (false, _) => None,
                    };
                    if let Some(sample) = differing {
                        sample.count += 1;
                        sample.show([leaf.number, other.number], most);
                    }
                }
                let is_unknown = match self.likeness.by {
                    By::Names => is_in_doubt,
                    By::Contents => is_unread(facts),
                };
                if !is_shared && is_unknown {
                    pair.not_compared[side].count += 1;
                    pair.not_compared[side].show(leaf.number, most);
                } else if !is_shared {
                    pair.only[side].count += 1;
                    if !is_changed {
                        pair.only[side].show(leaf.number, most);
                    }
                } else if side == 1 {
                    pair.shared += 1;
                    pair.shared_bytes = pair.shared_bytes.saturating_add(facts.size);
                    let won = if may_go { facts.on_disk } else { 0 };
                    pair.winnings = pair.winnings.saturating_add(won);
                }
            });
        }
        pair
    }

    /// Each file of a folder: whether the other folder has it, and which one there has its name.
    /// Of several equal ones, the first are those that the other has.
    fn each_file(&self, a: u32, b: u32, mut each: impl FnMut(u32, bool, Option<u32>)) {
        self.side_by_side(a, b, |folder, twin| {
            let own = self.own(folder);
            let theirs = twin.map_or(&[][..], |twin| self.own(twin));
            for (at, leaf) in own.iter().enumerate() {
                let place = self.branch(folder).files + at as u32;
                let is_shared = leaf.content != NONE
                    && match self.likeness.by {
                        By::Names => {
                            let before = at - with_key(own, leaf.key()).start;
                            before < with_key(theirs, leaf.key()).len()
                        }
                        By::Contents => {
                            let places = self.places_in(leaf.content, a);
                            let before = places.partition_point(|other| *other < place);
                            before < self.places_in(leaf.content, b).len()
                        }
                    };
                let before = at - with_name(own, leaf.name).start;
                let namesake = with_name(theirs, leaf.name).nth(before);
                let namesake = twin.zip(namesake).map(|(t, at)| self.branch(t).files + at as u32);
                each(place, is_shared, namesake);
            }
            self.branch(folder).len() > 0
        });
    }
}

fn with_key(leaves: &[Leaf], key: (u32, u32)) -> Range<usize> {
    span(leaves, |leaf| leaf.key() < key, |leaf| leaf.key() <= key)
}

fn with_name(leaves: &[Leaf], name: u32) -> Range<usize> {
    span(leaves, |leaf| leaf.name < name, |leaf| leaf.name <= name)
}

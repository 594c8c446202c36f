//! The same claims by their definitions: all pairs of everything. Slow, and easy to believe.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{By, Content, Facts, Likeness, Trees};

pub(super) struct Naive<'a> {
    trees: &'a Trees,
    likeness: Likeness,
    /// Of each folder, the numbers from its root on: in tree order if sorted.
    ways: Vec<Vec<u32>>,
    /// Of each file. Negative: no other file has it.
    content: Vec<i64>,
    /// Of each folder: what makes it alike, and its contents only.
    elements: Vec<Elements>,
    pub(super) contents: Vec<Elements>,
    pub(super) is_whole: Vec<bool>,
    /// Those that are equal to it.
    equal: Vec<Vec<usize>>,
    /// Who stands for it, if that is another one.
    original: Vec<Option<usize>>,
    /// All pairs, told or not; similar ones in both orders.
    held: Vec<(usize, usize)>,
    /// Of those that are held: they go.
    going: BTreeSet<usize>,
    similar: Vec<(usize, usize)>,
}

type Elements = BTreeMap<(Vec<u32>, i64), u32>;

fn common(a: &Elements, b: &Elements) -> u32 {
    a.iter().map(|(key, count)| *count.min(b.get(key).unwrap_or(&0))).sum()
}

fn len(a: &Elements) -> u32 {
    a.values().sum()
}

impl<'a> Naive<'a> {
    pub(super) fn new(trees: &'a Trees, likeness: Likeness) -> Naive<'a> {
        let mut ways: Vec<Vec<u32>> = Vec::new();
        for (number, folder) in trees.folders.iter().enumerate() {
            let mut way = ways.get(folder.parent as usize).cloned().unwrap_or_default();
            way.push(number as u32);
            ways.push(way);
        }
        let n = ways.len();
        let mut naive = Naive {
            trees,
            likeness,
            content: contents(trees),
            elements: vec![Elements::new(); n],
            contents: vec![Elements::new(); n],
            is_whole: vec![true; n],
            equal: Vec::new(),
            original: Vec::new(),
            held: Vec::new(),
            going: BTreeSet::new(),
            similar: Vec::new(),
            ways,
        };
        naive.fill();
        let equal = |a| naive.all().filter(|b| naive.are_equal(a, *b)).collect();
        naive.equal = naive.all().map(equal).collect();
        naive.find_held();
        naive.similar = naive.find_similar();
        naive
    }

    fn fill(&mut self) {
        for folder in self.all() {
            for above in &self.ways[folder] {
                self.is_whole[*above as usize] &= self.trees.folders[folder].is_known;
            }
        }
        for ((folder, name, _), content) in self.trees.files.iter().zip(&self.content) {
            let way = &self.ways[*folder as usize];
            for (at, above) in way.iter().map(|above| *above as usize).enumerate() {
                let path = match self.likeness.by {
                    By::Names => self.names(&way[at + 1..]).chain([*name]).collect(),
                    By::Contents => Vec::new(),
                };
                *self.elements[above].entry((path, *content)).or_default() += 1;
                *self.contents[above].entry((Vec::new(), *content)).or_default() += 1;
                self.is_whole[above] &= *content >= 0;
            }
        }
    }

    fn names(&self, folders: &[u32]) -> impl Iterator<Item = u32> {
        folders.iter().map(|folder| self.trees.folders[*folder as usize].name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        0..self.ways.len()
    }

    pub(super) fn is_in(&self, a: usize, b: usize) -> bool {
        self.ways[a].starts_with(&self.ways[b])
    }

    pub(super) fn are_apart(&self, a: usize, b: usize) -> bool {
        !self.is_in(a, b) && !self.is_in(b, a)
    }

    fn above(&self, a: usize) -> impl Iterator<Item = usize> {
        self.ways[a].iter().rev().skip(1).map(|above| *above as usize)
    }

    fn are_equal(&self, a: usize, b: usize) -> bool {
        let are_whole = self.is_whole[a] && self.is_whole[b];
        let are_same = self.elements[a] == self.elements[b] && !self.elements[a].is_empty();
        self.are_apart(a, b) && are_whole && are_same
    }

    pub(super) fn is_online(&self, a: usize) -> bool {
        self.trees.is_online(a as u32)
    }

    /// In tree order: what is offline comes last.
    fn rank(&self, a: usize) -> (bool, &[u32]) {
        (!self.is_online(a), &self.ways[a])
    }

    /// The topmost folder with the same files and nothing else.
    fn top(&self, a: usize) -> usize {
        let inner = |folder: &usize| self.is_inner(*folder);
        self.above(a)
            .zip([a].into_iter().chain(self.above(a)))
            .take_while(|(_, b)| inner(b))
            .last()
            .map_or(a, |(top, _)| top)
    }

    /// Who stands for it: the first of all that are equal that neither goes with a larger one nor lies
    /// in a copy; the first, if there is none.
    fn standing(&self, a: usize, known: &mut Vec<Option<usize>>) -> usize {
        if let Some(standing) = known[a] {
            return standing;
        }
        let standing = if self.is_skipped(a) {
            let top = self.top(a);
            let standing = self.standing(top, known);
            if standing == top { a } else { standing }
        } else {
            let equal = self.equal[a].iter().copied().filter(|b| !self.is_skipped(*b));
            let mut equal: Vec<usize> = equal.chain([a]).collect();
            equal.sort_by_key(|b| self.rank(*b));
            let mut is_spare = |b: usize| {
                let is_larger = |other: usize| len(&self.contents[other]) > len(&self.contents[b]);
                self.going(b).is_some_and(is_larger)
                    || self.above(b).any(|above| self.standing(above, known) != above)
            };
            let first = equal.iter().copied().find(|b| !is_spare(*b));
            first.unwrap_or(equal[0])
        };
        known[a] = Some(standing);
        standing
    }

    fn choose(&mut self) {
        let mut known = vec![None; self.ways.len()];
        let standing = self.all().map(|a| self.standing(a, &mut known));
        self.original = standing.enumerate().map(|(a, by)| (a != by).then_some(by)).collect();
    }

    /// The folder that goes, since it is held, and that this one is, or lies in.
    fn going(&self, folder: usize) -> Option<usize> {
        self.going.iter().copied().find(|a| self.is_in(folder, *a))
    }

    fn goes(&self, folder: usize) -> bool {
        self.going(folder).is_some()
    }

    fn is_copy(&self, a: usize) -> bool {
        self.original[a].is_some()
    }

    fn copy_above(&self, a: usize) -> Option<usize> {
        self.above(a).find(|above| self.is_copy(*above))
    }

    /// What is above has the same files, and nothing else.
    fn is_inner(&self, a: usize) -> bool {
        self.above(a).next().is_some_and(|parent| {
            let same = self.is_whole[parent] == self.is_whole[a];
            same && len(&self.contents[parent]) == len(&self.contents[a])
        })
    }

    /// It may not be told by itself.
    fn is_skipped(&self, a: usize) -> bool {
        self.likeness.by == By::Contents && self.is_inner(a)
    }

    fn goes_with_a_copy(&self, a: usize) -> bool {
        let original = self.copy_above(a).and_then(|copy| self.original[copy]);
        let is_same = |b: usize, original| self.is_in(b, original) && self.are_equal(a, b);
        original.is_some_and(|original| self.all().any(|b| is_same(b, original)))
    }

    fn lie_in_equals(&self, a: usize, b: usize) -> bool {
        [(a, b), (b, a)].into_iter().any(|(a, b)| {
            self.copy_above(a).is_some_and(|copy| {
                let equal = |other: usize| self.are_equal(copy, other);
                self.all()
                    .any(|other| equal(other) && self.is_in(b, other) && !self.is_in(a, other))
            })
        })
    }

    fn won(&self, folder: usize) -> u64 {
        let files = self.trees.files.iter();
        files.filter(|file| self.is_in(file.0 as usize, folder)).map(|file| file.2.on_disk).sum()
    }

    pub(super) fn exact(&self) -> BTreeSet<String> {
        let standing = self.all().filter(|a| !self.is_copy(*a) && !self.is_skipped(*a));
        let sets = standing.filter_map(|standing| {
            let members = [standing].into_iter().chain(self.equal[standing].iter().copied());
            let mut told: Vec<usize> =
                members.filter(|b| !self.is_skipped(*b) && !self.goes_with_a_copy(*b)).collect();
            told.sort_by_key(|b| self.rank(*b));
            let (first, rest) = told.split_first()?;
            let first = *first;
            let may_go = rest.iter().filter(|b| self.is_online(**b));
            let won: u64 = may_go.map(|b| self.won(*b)).sum();
            let covered = |b: usize| {
                let (here, there) = ((first, b), (b, first));
                let in_held = |pair| self.is_below(here, pair) || self.is_below(there, pair);
                self.similar.iter().any(|pair| self.is_covered(here, *pair))
                    || self.held.iter().any(|pair| in_held(*pair))
            };
            let is_in_pair = rest.iter().all(|b| covered(*b));
            let is_told = !rest.is_empty() && self.is_online(first);
            is_told.then(|| format!("{told:?} {won} {is_in_pair}"))
        });
        sets.collect()
    }

    pub(super) fn holds(&self, b: usize, a: usize) -> bool {
        common(&self.contents[a], &self.contents[b]) == len(&self.contents[a])
    }

    fn find_held(&mut self) {
        let mut folders: Vec<usize> = self.all().collect();
        folders.sort_by_key(|a| Reverse((len(&self.contents[*a]), self.rank(*a))));
        self.choose();
        for a in folders {
            let is_asked = !self.contents[a].is_empty() && !self.is_inner(a) && self.is_whole[a];
            if is_asked && !self.goes(a) && !self.is_copy(a) {
                let by = self.holders(a);
                // What is online goes only if something online has all of it.
                let may_go = by.iter().any(|b| self.is_online(*b)) || !self.is_online(a);
                self.going.extend([a].iter().filter(|_| may_go && !by.is_empty()));
                self.held.extend(by.into_iter().map(|b| (a, b)));
                self.choose();
            }
        }
        let asked: BTreeSet<usize> = self.held.iter().map(|(a, _)| *a).collect();
        let mut asked: Vec<usize> = asked.into_iter().collect();
        asked.sort_by_key(|a| (!self.going.contains(a), self.rank(*a)));
        asked.into_iter().for_each(|a| self.settle(a));
    }

    /// What holds those that have gone since holds who was held by them.
    fn settle(&mut self, a: usize) {
        let by = |a: usize| self.held.iter().filter(move |(x, _)| *x == a).map(|(_, b)| *b);
        let (gone, mut staying): (Vec<usize>, Vec<usize>) = by(a).partition(|b| self.goes(*b));
        if !gone.is_empty() && !staying.iter().any(|b| self.is_online(*b)) {
            let further = gone.iter().filter_map(|b| self.going(*b)).flat_map(by);
            staying = self.to_tell(a, staying.iter().copied().chain(further).collect());
        }
        if staying.is_empty() {
            self.going.remove(&a);
        }
        self.held.retain(|(x, _)| *x != a);
        self.held.extend(staying.into_iter().map(|b| (a, b)));
    }

    fn holders(&self, a: usize) -> Vec<usize> {
        let all: Vec<usize> = self.all().filter(|b| self.is_smallest_with_all(*b, a)).collect();
        let is_online = |by: &[usize]| by.iter().any(|b| self.is_online(*b));
        let near = self.to_tell(a, all.iter().filter_map(|b| self.standing_for(*b)).collect());
        let around = all.iter().filter_map(|b| self.staying_around(*b, a));
        let around = self.to_tell(a, around.collect());
        // By what is offline all that it lies in is held.
        let is_held = self.held.iter().any(|(x, _)| self.is_in(a, *x) && !self.going.contains(x));
        let mut by = match !is_online(&near) && (is_online(&around) || near.is_empty()) {
            true => around,
            false => near,
        };
        by.retain(|b| !self.is_online(a) || self.is_online(*b) || !is_held);
        by
    }

    /// Nothing smaller in `b` has all of `a`, nothing above is as small, and they are not equal.
    fn is_smallest_with_all(&self, b: usize, a: usize) -> bool {
        let is_smaller =
            |c: usize| self.is_in(c, b) && self.holds(c, a) && self.contents[c] != self.contents[b];
        // A folder that is not whole, around one that is.
        let is_around = |c: usize| {
            c != b
                && self.is_in(c, b)
                && self.contents[c] == self.contents[b]
                && self.is_whole[c] != self.is_whole[b]
        };
        self.are_apart(a, b)
            && self.holds(b, a)
            && !self.all().any(is_smaller)
            && !self.all().any(is_around)
            && !self.is_inner(b)
            && !self.are_equal_within(a, b)
    }

    /// Equal folders with nothing but folders around them.
    fn are_equal_within(&self, a: usize, b: usize) -> bool {
        let inner = |a: usize| {
            let all = self.all().filter(move |b| self.is_in(*b, a));
            all.filter(move |b| len(&self.contents[*b]) == len(&self.contents[a]))
        };
        inner(a).any(|x| inner(b).any(|y| self.are_equal(x, y)))
    }

    /// Itself or who stands for it, if that stays.
    fn standing_for(&self, b: usize) -> Option<usize> {
        let standing = self.original[b].unwrap_or(b);
        (!self.goes(b) && !self.goes(standing)).then_some(standing)
    }

    /// The same of the nearest folder from itself on of which one stays. What goes for `a` is as large.
    fn staying_around(&self, b: usize, a: usize) -> Option<usize> {
        self.standing_for(b).or_else(|| {
            let going = self.going(b).or_else(|| self.going(self.original[b]?))?;
            if len(&self.contents[going]) == len(&self.contents[a]) {
                return None;
            }
            let above = self.above(self.going(b).unwrap_or(b)).next()?;
            self.staying_around(self.top(above), a)
        })
    }

    fn to_tell(&self, a: usize, holders: Vec<usize>) -> Vec<usize> {
        let mut holders: BTreeSet<usize> = holders.into_iter().collect();
        holders.retain(|b| self.are_apart(a, *b) && !self.are_equal_within(a, *b));
        let is_smallest =
            |b: &usize| !holders.iter().any(|other| other != b && self.is_in(*other, *b));
        let smallest = holders.iter().copied().filter(is_smallest);
        let is_new = |b: &usize| {
            let held = |(x, y): &(usize, usize)| self.is_in(*b, *x) && self.is_in(a, *y);
            !self.lie_in_equals(a, *b) && !self.held.iter().any(held)
        };
        smallest.filter(is_new).collect()
    }

    pub(super) fn contained(&self) -> BTreeSet<String> {
        let told = |(a, b): &(usize, usize)| {
            let is_in_pair = self.similar.iter().any(|pair| self.is_below((*a, *b), *pair));
            let won = if self.is_online(*a) && self.is_online(*b) { self.won(*a) } else { 0 };
            format!("{a} < {b} {won} {is_in_pair}")
        };
        let is_told = |(a, b): &&(usize, usize)| self.is_online(*a) || self.is_online(*b);
        self.held.iter().filter(is_told).map(told).collect()
    }

    pub(super) fn are_similar(&self, a: usize, b: usize) -> bool {
        let shared = common(&self.elements[a], &self.elements[b]);
        let all = len(&self.elements[a]) + len(&self.elements[b]) - shared;
        self.are_apart(a, b) && shared > 0 && shared * 100 >= self.likeness.percent * all
    }

    fn is_below(&self, (a, b): (usize, usize), (x, y): (usize, usize)) -> bool {
        (a, b) != (x, y) && self.is_in(a, x) && self.is_in(b, y)
    }

    /// The pair lies in the other one, at the same place if names count.
    fn is_covered(&self, (a, b): (usize, usize), (x, y): (usize, usize)) -> bool {
        let names = |from: usize, to: usize| self.names(&self.ways[from][self.ways[to].len()..]);
        self.is_below((a, b), (x, y))
            && (self.likeness.by == By::Contents || names(a, x).eq(names(b, y)))
    }

    fn find_similar(&self) -> Vec<(usize, usize)> {
        let held: Vec<_> = self.held.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect();
        let pairs = self.all().flat_map(|a| self.all().map(move |b| (a, b)));
        let may_be = |a: usize| !self.is_copy(a) && !self.is_skipped(a);
        let similar = pairs.filter(|(a, b)| {
            self.are_similar(*a, *b)
                && may_be(*a)
                && may_be(*b)
                && !self.lie_in_equals(*a, *b)
                && !held.iter().any(|pair| self.is_below((*a, *b), *pair))
        });
        let similar: Vec<(usize, usize)> = similar.collect();
        let is_covered = |pair| similar.iter().any(|other| self.is_covered(pair, *other));
        similar.iter().copied().filter(|pair| !is_covered(*pair)).collect()
    }

    pub(super) fn partial(&self) -> BTreeSet<String> {
        let is_told = |a: usize, b: usize| self.is_online(a) || self.is_online(b);
        let told = self.similar.iter().filter(|(a, b)| a < b && is_told(*a, *b));
        told.map(|(a, b)| self.pair(*a, *b)).collect()
    }

    pub(super) fn pair(&self, a: usize, b: usize) -> String {
        let rank = |a: usize| (self.won(a), len(&self.elements[a]), Reverse(a));
        let (a, b) = if rank(a) > rank(b) { (a, b) } else { (b, a) };
        let shared = common(&self.elements[a], &self.elements[b]);
        // Equal files have as much on disk.
        let on_disk = |content: i64| {
            let file = self.content.iter().position(|other| *other == content).unwrap();
            self.trees.files[file].2.on_disk
        };
        let won = self.elements[b].iter().map(|(key, count)| {
            let count = count.min(self.elements[a].get(key).unwrap_or(&0));
            u64::from(*count) * on_disk(key.1)
        });
        let may_go = self.is_online(a) && self.is_online(b);
        let won: u64 = if may_go { won.sum() } else { 0 };
        let paths = |root: usize| -> Vec<(usize, Vec<u32>)> {
            let files = self.trees.files.iter().enumerate();
            let paths = files.filter_map(|(file, (folder, name, _))| {
                let below = self.ways[*folder as usize].strip_prefix(&self.ways[root][..])?;
                Some((file, self.names(below).chain([*name]).collect()))
            });
            paths.collect()
        };
        let (mut content, mut time, mut in_doubt) = (0, 0, [0, 0]);
        let facts = |file: usize| self.trees.files[file].2;
        let is_unread = |file: usize| facts(file).content == Content::Unread;
        let [ones, others] = [a, b].map(paths);
        let are_in_doubt =
            |x: usize, y: usize| facts(x).size == facts(y).size && (is_unread(x) || is_unread(y));
        for (x, path) in &ones {
            for (y, _) in others.iter().filter(|(_, other)| other == path) {
                let is_same = self.content[*x] == self.content[*y];
                let is_in_doubt = are_in_doubt(*x, *y);
                content += u32::from(!is_same && !is_in_doubt);
                time += u32::from(is_same && facts(*x).mtime != facts(*y).mtime);
            }
        }
        for (side, these, those) in [(0, &ones, &others), (1, &others, &ones)] {
            for (x, path) in these {
                let mut namesakes = those.iter().filter(|(_, other)| other == path);
                in_doubt[side] += u32::from(match self.likeness.by {
                    By::Names => namesakes.any(|(y, _)| are_in_doubt(*x, *y)),
                    By::Contents => is_unread(*x),
                });
            }
        }
        let only = |side: usize| len(&self.elements[[a, b][side]]) - shared - in_doubt[side];
        let only = [only(0), only(1)];
        format!("{a} ~ {b} {shared} {only:?} {in_doubt:?} {content} {time} {won}")
    }
}

fn contents(trees: &Trees) -> Vec<i64> {
    let content = |(file, (_, _, facts)): (usize, &(u32, u32, Facts))| {
        let same = trees.files.iter().filter(|other| other.2.content == facts.content);
        match facts.content {
            Content::Of(content) if same.count() > 1 => content.into(),
            _ => -1 - file as i64,
        }
    };
    trees.files.iter().enumerate().map(content).collect()
}

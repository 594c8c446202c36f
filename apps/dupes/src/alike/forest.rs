//! Folders and files in tree order, and which folders are equal.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::held::Held;
use super::similar::Partners;
use super::{By, Content, Effort, ExactSet, Facts, Likeness, NONE, Trees};

/// A folder. Other folders are named by their place in tree order.
#[derive(Clone, Copy, Default)]
pub(super) struct Branch {
    pub(super) number: u32,
    pub(super) parent: u32,
    /// Where the folders below it end.
    pub(super) end: u32,
    pub(super) name: u32,
    /// Where its files begin, where its own end, and those of its subtree.
    pub(super) files: u32,
    own_end: u32,
    pub(super) files_end: u32,
    pub(super) bytes: u64,
    pub(super) on_disk: u64,
    /// Files in it whose content others have.
    pub(super) matchable: u32,
    /// It can be looked at.
    pub(super) is_online: bool,
    /// All of it is known, and others have each content.
    pub(super) is_whole: bool,
    /// And not all of those are in it.
    pub(super) is_spread: bool,
    /// Its sum, as the number of a set; none if it is not whole or has no files.
    pub(super) set: u32,
    /// Another folder is equal, and stands for it; so says `held`, and what follows.
    pub(super) is_copy: bool,
    /// It goes with a larger one that is held, or lies in a copy: it stands for nothing.
    pub(super) is_spare: bool,
    /// The nearest copy above it.
    pub(super) copy_above: u32,
    /// The topmost folder with the same files and nothing else, and the lowest.
    pub(super) top: u32,
    pub(super) core: u32,
    /// The nearest folder that may be one of a pair by contents, from itself on.
    pub(super) stand_in: u32,
}

impl Branch {
    pub(super) fn len(&self) -> u32 {
        self.files_end - self.files
    }

    /// How long it takes to go through it, with its folders, at `place`.
    pub(super) fn weight(&self, place: u32) -> u32 {
        self.len() + (self.end - place)
    }
}

/// A file, in the order of folders, names and contents.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) number: u32,
    pub(super) folder: u32,
    pub(super) name: u32,
    pub(super) content: u32,
}

impl Leaf {
    pub(super) fn key(&self) -> (u32, u32) {
        (self.name, self.content)
    }
}

/// All that a search needs.
pub(super) struct Forest<'a> {
    trees: &'a Trees,
    pub(super) likeness: &'a Likeness,
    pub(super) branches: Vec<Branch>,
    pub(super) leaves: Vec<Leaf>,
    /// Folders by parent and name.
    children: Vec<(u32, u32, u32)>,
    /// Where each content is: places of leaves, and where those of each content begin.
    places: Vec<u32>,
    pub(super) begins: Vec<u32>,
    /// Equal folders, and many that are alone.
    pub(super) sets: Vec<Vec<u32>>,
    /// Who stands for each of those.
    pub(super) standing: Vec<u32>,
}

impl<'a> Forest<'a> {
    pub(super) fn new(trees: &'a Trees, likeness: &'a Likeness) -> Forest<'a> {
        let (mut branches, place_of) = branches(trees);
        let order = in_tree_order(trees, &place_of);
        let (contents, begins) = contents(trees, &order);
        let leaf = |number: &u32| {
            let (folder, name, _) = trees.files[*number as usize];
            let (number, folder) = (*number, place_of[folder as usize]);
            Leaf { number, folder, name, content: contents[number as usize] }
        };
        let mut leaves: Vec<Leaf> = order.iter().map(leaf).collect();
        number_names(trees, &mut branches, &mut leaves);
        leaves.sort_unstable_by_key(|leaf| (leaf.folder, leaf.key(), leaf.number));
        let mut places = vec![0; *begins.last().expect("it ends somewhere") as usize];
        let mut next = begins.clone();
        for (place, leaf) in (0..).zip(&leaves).filter(|(_, leaf)| leaf.content != NONE) {
            places[next[leaf.content as usize] as usize] = place;
            next[leaf.content as usize] += 1;
        }
        for own in leaves.chunk_by(|a, b| a.folder == b.folder) {
            branches[own[0].folder as usize].own_end = own.len() as u32;
        }
        let mut from = 0;
        for branch in &mut branches {
            branch.files = from;
            from += branch.own_end;
            branch.own_end = from;
        }
        for place in 0..branches.len() {
            branches[place].files_end = branches[branches[place].end as usize - 1].own_end;
        }
        let children = children(&mut branches, trees.names.len() as u32);
        let (sets, standing) = (Vec::new(), Vec::new());
        let mut forest =
            Forest { trees, likeness, branches, leaves, children, places, begins, sets, standing };
        forest.add_up();
        forest.find_sets();
        forest
    }

    /// From the last folder to the first: what is below is known when it is needed.
    fn add_up(&mut self) {
        // Somebody who chooses names and contents must not choose sums.
        let keys = [RandomState::new(), RandomState::new()];
        let by_names = self.likeness.by == By::Names;
        let part = |is_folder: bool, name: u32, sum: u128| {
            let part = (is_folder, if by_names { name } else { 0 }, sum);
            keys.iter().fold(0, |sum, key| sum << 64 | u128::from(key.hash_one(part)))
        };
        let mut sums = vec![0_u128; self.branches.len()];
        let mut sets = HashMap::new();
        // Of contents that begin at the leaf we are at or later: where the first of them ends.
        let mut first_end = NONE;
        for place in (0..self.branches.len()).rev() {
            let mut branch = self.branches[place];
            let mut sum = sums[place];
            for at in (branch.files..branch.own_end).rev() {
                let leaf = self.leaves[at as usize];
                let facts = self.facts(at);
                branch.bytes = branch.bytes.saturating_add(facts.size);
                branch.on_disk = branch.on_disk.saturating_add(facts.on_disk);
                if leaf.content == NONE {
                    branch.is_whole = false;
                    continue;
                }
                branch.matchable += 1;
                sum = sum.wrapping_add(part(false, leaf.name, leaf.content.into()));
                if let [first, .., last] = self.places(leaf.content)
                    && *first == at
                {
                    first_end = first_end.min(*last);
                }
            }
            branch.is_spread = branch.is_whole && first_end >= branch.files_end;
            branch.set = NONE;
            if branch.is_whole && branch.len() > 0 {
                let next = sets.len() as u32;
                branch.set = *sets.entry((sum, branch.len())).or_insert(next);
            }
            self.branches[place] = branch;
            if branch.parent == NONE {
                continue;
            }
            let parent = &mut self.branches[branch.parent as usize];
            if parent.len() == branch.len() {
                parent.core = branch.core;
            }
            parent.bytes = parent.bytes.saturating_add(branch.bytes);
            parent.on_disk = parent.on_disk.saturating_add(branch.on_disk);
            parent.matchable += branch.matchable;
            parent.is_whole &= branch.is_whole;
            if branch.len() > 0 {
                let sum = if by_names { part(true, branch.name, sum) } else { sum };
                let parent = &mut sums[branch.parent as usize];
                *parent = parent.wrapping_add(sum);
            }
        }
        self.sets = vec![Vec::new(); sets.len()];
    }

    /// From the first folder to the last: what is above is known when it is needed.
    fn find_sets(&mut self) {
        for place in 0..self.branches.len() as u32 {
            let branch = self.branches[place as usize];
            let parent = self.branches.get(branch.parent as usize);
            let same = parent.filter(|p| p.len() == branch.len() && p.is_whole == branch.is_whole);
            self.branches[place as usize].top = same.map_or(place, |parent| parent.top);
            if branch.set != NONE && !self.is_inner(place) {
                self.sets[branch.set as usize].push(place);
            }
        }
        self.standing = vec![NONE; self.sets.len()];
    }

    /// By contents, a folder is equal to one in which nothing else is: one of them counts.
    pub(super) fn is_inner(&self, place: u32) -> bool {
        self.likeness.by == By::Contents && self.branch(place).top != place
    }

    pub(super) fn branch(&self, place: u32) -> &Branch {
        &self.branches[place as usize]
    }

    pub(super) fn facts(&self, leaf: u32) -> &Facts {
        &self.trees.files[self.leaves[leaf as usize].number as usize].2
    }

    /// Whether it is the folder, or below it.
    pub(super) fn is_in(&self, place: u32, folder: u32) -> bool {
        (folder..self.branch(folder).end).contains(&place)
    }

    /// The files that lie directly in a folder.
    pub(super) fn own(&self, folder: u32) -> &[Leaf] {
        let branch = self.branch(folder);
        &self.leaves[branch.files as usize..branch.own_end as usize]
    }

    /// All places of a content.
    pub(super) fn places(&self, content: u32) -> &[u32] {
        let content = content as usize;
        &self.places[self.begins[content] as usize..self.begins[content + 1] as usize]
    }

    /// Those in the subtree of a folder.
    pub(super) fn places_in(&self, content: u32, folder: u32) -> &[u32] {
        let branch = self.branch(folder);
        let places = self.places(content);
        &places[span(places, |place| *place < branch.files, |place| *place < branch.files_end)]
    }

    /// How often a folder has each content, rarest first.
    pub(super) fn counts(&self, folder: u32) -> Vec<(u32, usize)> {
        let branch = self.branch(folder);
        let contents = (branch.files..branch.files_end).filter_map(|at| {
            let content = self.leaves[at as usize].content;
            let places = (content != NONE).then(|| self.places_in(content, folder))?;
            (places[0] == at).then_some((content, places.len()))
        });
        let mut counts: Vec<_> = contents.collect();
        counts.sort_unstable_by_key(|(content, _)| (self.places(*content).len(), *content));
        counts
    }

    /// Visits a folder and those below it, in tree order, each with the one at the same place below
    /// the other folder. False: not those below this one.
    pub(super) fn side_by_side(
        &self,
        a: u32,
        b: u32,
        mut visit: impl FnMut(u32, Option<u32>) -> bool,
    ) {
        let mut above: Vec<(u32, Option<u32>)> = Vec::new();
        let mut at = a;
        while at < self.branch(a).end {
            while above.last().is_some_and(|(folder, _)| self.branch(*folder).end <= at) {
                above.pop();
            }
            let twin = match above.last() {
                None => Some(b),
                Some((_, twin)) => twin.and_then(|twin| self.child(twin, self.branch(at).name)),
            };
            if visit(at, twin) {
                above.push((at, twin));
                at += 1;
            } else {
                at = self.branch(at).end;
            }
        }
    }

    fn child(&self, parent: u32, name: u32) -> Option<u32> {
        let found = self.children.binary_search_by_key(&(parent, name), |child| (child.0, child.1));
        found.ok().map(|at| self.children[at].2)
    }

    /// All sets of equal folders.
    pub(super) fn exact(
        &self,
        held: &Held,
        partners: &Partners,
        effort: &mut Effort,
    ) -> Vec<ExactSet> {
        let mut exact = Vec::new();
        for set in &self.sets {
            let told = set.iter().filter(|folder| !self.goes_with_a_copy(**folder, set));
            let told: Vec<u32> = told.copied().collect();
            let [first, rest @ ..] = &told[..] else { continue };
            if rest.is_empty() || !self.branch(*first).is_online {
                continue;
            }
            let at_same_place = self.likeness.by == By::Names;
            let mut is_in_pair = |other: &u32| {
                self.go_with_held(*first, *other, held)
                    || self.lie_in_pair(*first, *other, partners, at_same_place, effort)
            };
            let may_go = rest.iter().map(|folder| self.branch(*folder)).filter(|b| b.is_online);
            let on_disk = may_go.map(|branch| branch.on_disk);
            exact.push(ExactSet {
                folders: told.iter().map(|folder| self.branch(*folder).number).collect(),
                files: self.branch(*first).len(),
                bytes: self.branch(*first).bytes,
                winnings: on_disk.fold(0, u64::saturating_add),
                is_in_pair: rest.iter().all(&mut is_in_pair),
            });
        }
        exact.sort_unstable_by(|a, b| {
            (Reverse(a.winnings), &a.folders).cmp(&(Reverse(b.winnings), &b.folders))
        });
        exact
    }

    /// A folder above it is a copy, and what that is a copy of has the same one.
    fn goes_with_a_copy(&self, folder: u32, set: &[u32]) -> bool {
        let copy = self.branch(folder).copy_above;
        copy != NONE && {
            let original = self.standing[self.branch(copy).set as usize];
            let at = set.partition_point(|other| *other < original);
            set.get(at).is_some_and(|other| self.is_in(*other, original))
        }
    }

    /// They lie in different folders of a set. Among folders that are no copies, this happens by
    /// contents only: with names, all in a copy are copies.
    pub(super) fn lie_in_equals(&self, a: u32, b: u32) -> bool {
        let lies_in = |a: u32, b: u32| {
            let copy = self.branch(a).copy_above;
            copy != NONE && {
                let set = &self.sets[self.branch(copy).set as usize];
                let at = set.partition_point(|folder| *folder <= b);
                let folder = at.checked_sub(1).map(|at| set[at]);
                folder.is_some_and(|folder| self.is_in(b, folder) && !self.is_in(a, folder))
            }
        };
        lies_in(a, b) || lies_in(b, a)
    }
}

/// Folders in tree order, and the place of each. A folder's number is larger than its parent's: no
/// stack is needed, however deep they are.
fn branches(trees: &Trees) -> (Vec<Branch>, Vec<u32>) {
    let mut sizes = vec![1; trees.folders.len()];
    for (number, folder) in trees.folders.iter().enumerate().rev() {
        if folder.parent != NONE {
            sizes[folder.parent as usize] += sizes[number];
        }
    }
    let mut branches = vec![Branch::default(); sizes.len()];
    let mut places = vec![0; sizes.len()];
    // Where the next folder in each of them goes, and the next root: those that are offline after all others.
    let (mut next, mut next_root) = (vec![0; sizes.len()], 0);
    let mut next_offline = trees.folders.iter().filter(|folder| folder.is_online).count() as u32;
    for (number, folder) in trees.folders.iter().enumerate() {
        let parent = folder.parent as usize;
        let free = match (folder.parent, folder.is_online) {
            (NONE, true) => &mut next_root,
            (NONE, false) => &mut next_offline,
            _ => &mut next[parent],
        };
        let place = *free;
        *free += sizes[number];
        next[number] = place + 1;
        places[number] = place;
        branches[place as usize] = Branch {
            number: number as u32,
            parent: places.get(parent).copied().unwrap_or(NONE),
            end: place + sizes[number],
            core: place,
            name: folder.name,
            is_online: folder.is_online,
            is_whole: folder.is_known,
            ..Branch::default()
        };
    }
    (branches, places)
}

/// Files by the places of their folders, then in the order in which they were added.
fn in_tree_order(trees: &Trees, place_of: &[u32]) -> Vec<u32> {
    let mut next = vec![0; place_of.len() + 1];
    for (folder, ..) in &trees.files {
        next[place_of[*folder as usize] as usize + 1] += 1;
    }
    for place in 1..next.len() {
        next[place] += next[place - 1];
    }
    let mut order = vec![0; trees.files.len()];
    for (number, (folder, ..)) in (0..).zip(&trees.files) {
        let next = &mut next[place_of[*folder as usize] as usize];
        order[*next as usize] = number;
        *next += 1;
    }
    order
}

/// Names get numbers as they come in tree order: what is found does not hang on who was added first.
fn number_names(trees: &Trees, branches: &mut [Branch], leaves: &mut [Leaf]) {
    let (mut numbers, mut next) = (vec![NONE; trees.names.len()], 0);
    let mut number = |name: &mut u32| {
        let number = &mut numbers[*name as usize];
        if *number == NONE {
            *number = next;
            next += 1;
        }
        *name = *number;
    };
    let mut leaves = leaves.iter_mut().peekable();
    for (place, branch) in (0..).zip(branches) {
        number(&mut branch.name);
        while let Some(leaf) = leaves.next_if(|leaf| leaf.folder == place) {
            number(&mut leaf.name);
        }
    }
}

/// Contents that several files have, numbered without gaps as they come in that order: that of each
/// file, and where each would begin in a list of such files.
fn contents(trees: &Trees, order: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let content = |file: u32| match trees.files[file as usize].2.content {
        Content::Of(content) => Some(content),
        Content::Unique | Content::Unread => None,
    };
    let mut contents = vec![NONE; trees.files.len()];
    let mut files: Vec<u32> = order.to_vec();
    files.retain(|file| content(*file).is_some());
    files.sort_unstable_by_key(|file| content(*file));
    let mut sizes = Vec::new();
    for same in files.chunk_by(|a, b| content(*a) == content(*b)).filter(|same| same.len() > 1) {
        same.iter().for_each(|file| contents[*file as usize] = sizes.len() as u32);
        sizes.push(same.len() as u32);
    }
    let (mut numbers, mut begins) = (vec![NONE; sizes.len()], vec![0]);
    for file in order {
        let content = &mut contents[*file as usize];
        if *content == NONE {
            continue;
        }
        let number = &mut numbers[*content as usize];
        if *number == NONE {
            *number = begins.len() as u32 - 1;
            begins.push(begins[begins.len() - 1] + sizes[*content as usize]);
        }
        *content = *number;
    }
    (contents, begins)
}

/// Sorted by parent and name. Who has the name of another one beside it gets one of its own.
fn children(branches: &mut [Branch], names: u32) -> Vec<(u32, u32, u32)> {
    let all = (0..).zip(branches.iter()).filter(|(_, branch)| branch.parent != NONE);
    let mut children: Vec<_> =
        all.map(|(place, branch)| (branch.parent, branch.name, place)).collect();
    children.sort_unstable();
    children.dedup_by(|next, first| {
        let is_same = (next.0, next.1) == (first.0, first.1);
        if is_same {
            branches[next.2 as usize].name = names + next.2;
        }
        is_same
    });
    children
}

/// Those that are neither before nor after what is looked for.
pub(super) fn span<T>(
    sorted: &[T],
    before: impl FnMut(&T) -> bool,
    not_after: impl FnMut(&T) -> bool,
) -> Range<usize> {
    sorted.partition_point(before)..sorted.partition_point(not_after)
}

//! What has to be told by what it means, whatever the order in which folders come and the rules by
//! which they are looked for.

use super::Alike;
use super::naive::Naive;

impl Naive<'_> {
    /// A folder that stays although all of it is in another one that stays, too. If something in that
    /// one has the same contents, or as what it lies in, it is asked of these two.
    pub(super) fn untold(&self, alike: &Alike) -> Option<(usize, usize)> {
        let going = self.going_by(alike);
        let stays = |folder: usize| {
            self.is_online(folder) && !going.iter().any(|other| self.is_of(folder, *other))
        };
        let staying: Vec<usize> = self.all().filter(|folder| stays(*folder)).collect();
        let pairs = staying.iter().flat_map(|a| staying.iter().map(move |b| (*a, *b)));
        let mut contained = pairs.filter(|(a, b)| {
            let is_whole = self.is_whole[*a] && !self.contents[*a].is_empty();
            is_whole && self.are_apart(*a, *b) && self.holds(*b, *a)
        });
        contained.find(|(a, b)| {
            let above = || self.all().filter(|x| self.is_in(*a, *x));
            let below = self.all().filter(|y| self.is_in(*y, *b));
            let is_same = |x: usize, y: usize| {
                (x, y) != (*a, *b) && self.are_apart(x, y) && self.contents[x] == self.contents[y]
            };
            below.into_iter().all(|y| !above().any(|x| is_same(x, y)))
        })
    }

    /// All that may go by what is told: what something that is here holds, and of equal ones all but the
    /// first that does not go with a larger one.
    fn going_by(&self, alike: &Alike) -> Vec<usize> {
        let held = alike.contained.iter().map(|held| (held.folder as usize, held.within as usize));
        let held = held.filter(|(_, within)| self.is_online(*within));
        let mut going: Vec<usize> = held.map(|(folder, _)| folder).collect();
        let held = going.clone();
        let is_part = |folder: usize| {
            let of = |other: usize| self.contents[other] != self.contents[folder];
            held.iter().any(|other| self.is_in(folder, *other) && of(*other))
        };
        for set in &alike.exact {
            let folders = || set.folders.iter().map(|folder| *folder as usize);
            let staying = folders().find(|folder| !is_part(*folder));
            going.extend(folders().filter(|folder| Some(*folder) != staying));
        }
        going
    }

    /// It lies in the other one, or there is nothing but that in it.
    fn is_of(&self, folder: usize, other: usize) -> bool {
        let is_around = || self.contents[folder] == self.contents[other];
        self.is_in(folder, other) || self.is_in(other, folder) && is_around()
    }
}

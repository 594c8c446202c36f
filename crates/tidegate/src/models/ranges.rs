//! Ranges of a slice: every item once, whoever takes it.

use super::*;
use crate::fences::Fences;
use crate::ranges::Ranges;

fn ranges(items: u32, participants: usize) -> Arc<Ranges> {
    Arc::new(Ranges::new(items, participants, Fences::Even))
}

/// All that participant `me` gets, until it finds nothing.
fn all(ranges: &Ranges, me: usize) -> Vec<u32> {
    let mut hand = ranges.hand(me);
    std::iter::from_fn(|| hand.take()).collect()
}

#[test]
fn an_owner_and_a_thief_take_each_item_once() {
    explore(&["each its own", "one took it all", "a part was taken over"], |seen| {
        let ranges = ranges(6, 2);
        let (mine, yours) = together!([ranges] all(&ranges, 0), [ranges] all(&ranges, 1));
        let mut items = [mine.clone(), yours.clone()].concat();
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2, 3, 4, 5], "lost or doubled: {mine:?} {yours:?}");
        match (mine.as_slice(), yours.as_slice()) {
            ([0, 1, 2], [3, 4, 5]) => seen.met("each its own"),
            ([], _) | (_, []) => seen.met("one took it all"),
            _ => seen.met("a part was taken over"),
        }
    });
}

/// The first has no item of its own, and the others one each: two may want the same range. Each
/// asks once, which is as many steps as three of them can be followed through.
#[test]
fn two_thieves_and_an_owner_take_each_item_once() {
    explore(&["the thief found nothing", "the thief has one"], |seen| {
        let ranges = ranges(2, 3);
        let (thief, two, three) = together!(
            [ranges] ranges.hand(0).take(),
            [ranges] ranges.hand(1).take(),
            [ranges] ranges.hand(2).take()
        );
        let left = all(&ranges, 0);
        let mut items: Vec<u32> = [thief, two, three].into_iter().flatten().chain(left).collect();
        items.sort_unstable();
        assert_eq!(items, [0, 1], "lost or doubled: {thief:?} {two:?} {three:?}");
        match thief {
            None => seen.met("the thief found nothing"),
            Some(_) => seen.met("the thief has one"),
        }
    });
}

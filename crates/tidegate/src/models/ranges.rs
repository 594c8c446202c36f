//! Ranges of a slice: every item once, whoever takes it.

use super::*;
use crate::ranges::Ranges;

/// All that participant `me` gets, until it finds nothing.
fn all(ranges: &Ranges, me: usize) -> Vec<u32> {
    std::iter::from_fn(|| ranges.take(me)).collect()
}

#[test]
fn an_owner_and_a_thief_take_each_item_once() {
    explore(&["each its own", "one took it all", "a part was taken over"], |seen| {
        let ranges = Arc::new(Ranges::new(6, 2));
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

/// The first has no item of its own, and the others one each: two may want the same word.
#[test]
fn two_thieves_and_an_owner_take_each_item_once() {
    explore(&["the thief found nothing", "the thief has one"], |seen| {
        let ranges = Arc::new(Ranges::new(2, 3));
        let (thief, two, three) =
            together!([ranges] all(&ranges, 0), [ranges] all(&ranges, 1), [ranges] all(&ranges, 2));
        let mut items = [thief.clone(), two.clone(), three.clone()].concat();
        items.sort_unstable();
        assert_eq!(items, [0, 1], "lost or doubled: {thief:?} {two:?} {three:?}");
        match thief.len() {
            0 => seen.met("the thief found nothing"),
            _ => seen.met("the thief has one"),
        }
    });
}

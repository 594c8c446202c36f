//! Small trees for each rule, and random ones against a naive search.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::naive::Naive;
use super::*;

mod large;

/// Trees from a list of paths: `a/x/f=1@5` is a file with content 1 and time 5, `a/x/f=` one
/// like no other, `a/x/f=?` one that was not read, `a/x/` a folder, `a/x/!` a folder that is not
/// fully known. A root with a name in capitals is offline.
fn grow(paths: &str) -> (Trees, Vec<String>) {
    let (mut trees, mut folders) = (Trees::default(), Vec::<String>::new());
    for path in paths.split_whitespace() {
        let (folder, name) = path.rsplit_once('/').unwrap();
        let mut parent = None;
        for (end, _) in folder.match_indices('/').chain([(folder.len(), "")]) {
            let known = folders.iter().position(|known| *known == folder[..end]);
            parent = Some(known.map_or_else(
                || {
                    folders.push(folder[..end].to_owned());
                    let name = folder[..end].rsplit('/').next().unwrap();
                    match parent {
                        None if name.chars().all(char::is_uppercase) => {
                            trees.add_offline_root(name.as_bytes(), true)
                        }
                        _ => trees.add_folder(parent, name.as_bytes(), true),
                    }
                },
                |known| known as u32,
            ));
        }
        let Some((name, content)) = name.split_once('=') else {
            trees.folders[parent.unwrap() as usize].is_known &= name != "!";
            continue;
        };
        let (content, mtime) = content.split_once('@').unwrap_or((content, "0"));
        let (content, mtime) = (content_of(content), mtime.parse().unwrap());
        let facts = Facts { size: 10, mtime, on_disk: 1, content };
        trees.add_file(parent.unwrap(), name.as_bytes(), facts);
    }
    (trees, folders)
}

fn content_of(text: &str) -> Content {
    match text {
        "" => Content::Unique,
        "?" => Content::Unread,
        number => Content::Of(number.parse().unwrap()),
    }
}

/// What is found, a line each: `a = b`, `a ~ b shared/all`, `a < b`; `*`: in a similar pair.
fn told_by(by: By, paths: &str) -> Vec<String> {
    let (trees, folders) = grow(paths);
    let alike = find(&trees, &Likeness { by, ..Likeness::default() });
    assert!(alike.is_complete);
    let path = |folder: &u32| folders[*folder as usize].as_str();
    let exact = alike.exact.iter().map(|set| {
        let paths: Vec<&str> = set.folders.iter().map(path).collect();
        paths.join(" = ") + if set.is_in_pair { " *" } else { "" }
    });
    let partial = alike.partial.iter().map(|pair| {
        let [a, b] = pair.folders.each_ref().map(path);
        let all = pair.files[0] + pair.files[1] - pair.shared;
        format!("{a} ~ {b} {}/{all}", pair.shared)
    });
    let contained = alike.contained.iter().map(|held| {
        let mark = if held.is_in_pair { " *" } else { "" };
        format!("{} < {}{mark}", path(&held.folder), path(&held.within))
    });
    exact.chain(partial).chain(contained).collect()
}

fn told(paths: &str) -> Vec<String> {
    told_by(By::Names, paths)
}

#[test]
fn folders_with_the_same_names_and_contents_are_equal() {
    assert_eq!(told("a/x/f=1 a/g=2 b/x/f=1 b/g=2"), ["a = b"]);
    let (trees, _) = grow("a/x/f=1 a/g=2 b/x/f=1 b/g=2");
    let set = &find(&trees, &Likeness::default()).exact[0];
    assert_eq!((set.files, set.bytes, set.winnings), (2, 20, 2));
}

#[test]
fn by_content_names_do_not_matter_but_counts_do() {
    assert_eq!(told_by(By::Contents, "a/x/f=1 a/g=2 b/h=2 b/i=1"), ["a = b"]);
    assert_eq!(told("a/x/f=1 a/g=2 b/h=2 b/i=1"), ["b < a"]);
    let twice = told_by(By::Contents, "a/f=1 a/g=1 a/h=2 b/f=1 b/g=2 b/h=2");
    assert_eq!(twice, ["a ~ b 2/4"]);
}

#[test]
fn by_content_the_topmost_of_a_chain_counts() {
    assert_eq!(told_by(By::Contents, "a/x/y/f=1 b/z/g=1"), ["a = b"]);
    assert_eq!(told_by(By::Contents, "r/a/x/f=1 r/b/y/z/g=1"), ["r/a = r/b"]);
}

#[test]
fn what_is_not_known_spoils_all_above_it() {
    let same = "a/p/x/f=1 a/p/g=2 a/q/h=3 b/p/x/f=1 b/p/g=2 b/q/h=3";
    assert_eq!(told(same), ["a = b"]);
    // Below and beside it, folders are equal still; it may be similar, and hold others.
    let spoilt = told(&format!("{same} b/p/!"));
    assert_eq!(spoilt, ["a/p/x = b/p/x *", "a/q = b/q *", "a ~ b 3/3", "a < b"]);
}

#[test]
fn a_file_like_no_other_spoils_it_too() {
    assert_eq!(told("a/f=1 a/g= b/f=1 b/g="), [""; 0]);
    assert_eq!(told("a/f=1 a/g=7 b/f=1 b/g=8"), [""; 0]);
}

#[test]
fn similar_begins_at_the_threshold() {
    // Two of four, two of five.
    assert_eq!(told("a/f=1 a/g=2 a/h= b/f=1 b/g=2 b/i="), ["a ~ b 2/4"]);
    assert_eq!(told("a/f=1 a/g=2 a/h= b/f=1 b/g=2 b/i= b/j="), [""; 0]);
}

#[test]
fn similar_says_what_each_side_lacks_and_what_has_changed() {
    let (trees, _) =
        grow("a/f=1@1 a/g=2@1 a/x/h=3 a/x/old= a/c= b/f=1@1 b/g=2@9 b/x/h=3 b/x/new= b/c= b/y/n=");
    let pair = &find(&trees, &Likeness { percent: 30, ..Likeness::default() }).partial[0];
    let name = |file: &u32| {
        let name = trees.files[*file as usize].1;
        let (name, _) = trees.names.iter().find(|(_, number)| **number == name).unwrap();
        String::from_utf8(name.to_vec()).unwrap()
    };
    // The one with more on disk comes first.
    assert_eq!((pair.folders, pair.files), ([2, 0], [6, 5]));
    assert_eq!((pair.shared, pair.shared_bytes, pair.winnings), (3, 30, 3));
    assert_eq!(pair.only.each_ref().map(|only| only.count), [3, 2]);
    let only: Vec<String> = pair.only.iter().flat_map(|o| o.examples.iter().map(name)).collect();
    assert_eq!(only, ["new", "n", "old"], "a changed file is shown as such");
    let namesakes = |sample: &Sample<[u32; 2]>| -> Vec<String> {
        assert_eq!(sample.count as usize, sample.examples.len());
        sample.examples.iter().map(|files| files.each_ref().map(name).join(" ")).collect()
    };
    assert_eq!(namesakes(&pair.other_content), ["c c"]);
    assert_eq!(namesakes(&pair.other_time), ["g g"]);
}

#[test]
fn what_was_not_read_is_no_other_content_and_nowhere_else_missing() {
    // Of other sizes they are not the same, read or not: all here are of one.
    let (trees, _) = grow("a/f=1 a/g=2 a/c=? a/d=3 a/e=? b/f=1 b/g=2@9 b/c=4 b/d=? b/k=?");
    let pair = &find(&trees, &Likeness { percent: 20, ..Likeness::default() }).partial[0];
    assert_eq!((pair.shared, pair.other_content.count, pair.other_time.count), (2, 0, 1));
    // `e` and `k` have no namesake, whatever is in them.
    assert_eq!(pair.only.each_ref().map(|only| only.count), [1, 1]);
    assert_eq!(pair.not_compared.each_ref().map(|files| files.examples.len()), [2, 2]);
    let likeness = Likeness { by: By::Contents, percent: 20, ..Likeness::default() };
    let pair = &find(&trees, &likeness).partial[0];
    assert_eq!(pair.only.each_ref().map(|only| only.count), [1, 1], "3 and 4");
    assert_eq!(pair.not_compared.each_ref().map(|files| files.count), [2, 2]);
    // It is equal to nothing and held by nothing.
    assert_eq!(told("a/f=1 a/g=? b/f=1 b/g=?"), [""; 0]);
    let mut trees = grow("a/f=1 a/c=? b/f=1 b/c=2").0;
    trees.files[1].2.size = 11;
    let pair = &find(&trees, &Likeness { percent: 20, ..Likeness::default() }).partial[0];
    assert_eq!((pair.other_content.count, pair.not_compared[0].count), (1, 0));
}

#[test]
fn what_is_offline_neither_goes_nor_stays_for_others() {
    let winnings = |paths: &str| -> Vec<u64> {
        let alike = find(&grow(paths).0, &Likeness::default());
        let exact = alike.exact.iter().map(|set| set.winnings);
        let partial = alike.partial.iter().map(|pair| pair.winnings);
        exact.chain(partial).chain(alike.contained.iter().map(|held| held.winnings)).collect()
    };
    for (paths, expected, won) in [
        ("A/f=1 b/f=1 c/f=1", &["b = c = A"][..], 1),
        ("A/f=1 b/f=1", &["b = A"], 0),
        ("A/f=1 B/f=1", &[], 0),
        ("A/f=1 A/g= b/f=1 b/h=", &[], 0),
        ("A/f=1 A/g=2 A/h= b/f=1 b/g=2 b/i=", &["A ~ b 2/4"], 0),
        ("A/f=1 A/g=2 A/h= B/f=1 B/g=2 B/i=", &[], 0),
        ("A/p=1 A/q=2 A/r= b/f=1", &["b < A"], 0),
        ("A/p=1 b/f=1 b/g= b/h=", &["A < b"], 0),
        ("A/p=1 B/f=1 B/g= B/h=", &[], 0),
    ] {
        assert_eq!(told(paths), expected, "{paths}");
        assert_eq!(winnings(paths), vec![won; expected.len()], "{paths}");
    }
}

#[test]
fn what_only_a_disk_in_a_drawer_holds_stays_and_holds_others() {
    let away = "A/x/p=1 A/y/q=2 A/z=3 A/o=";
    let here = "b/f=1 b/g=2 b/h=3";
    assert_eq!(told(&format!("{away} {here}")), ["b < A"]);
    // `b` does not go with that.
    assert_eq!(told(&format!("{away} {here} c/i=1 c/j=2")), ["c < b", "b < A", "c < A"]);
    // What lies in it is held, too, and told where something that is here has it.
    let inner = "b/in/f=1 b/g=2 b/h=3";
    assert_eq!(told(&format!("{away} {inner}")), ["b < A"]);
    assert_eq!(told(&format!("{away} {inner} d/k=1 d/l= d/m=")), ["b/in < d", "A/x < d", "b < A"]);
}

#[test]
fn examples_are_bounded_and_counts_are_not() {
    let mut paths = String::new();
    for n in 0..100 {
        paths += &format!("a/s{n}={n} b/s{n}={n}@1 a/o{n}= b/c{n}= a/c{n}= ");
    }
    let (trees, _) = grow(&paths);
    let likeness = Likeness { percent: 20, examples: 3, ..Likeness::default() };
    let pair = &find(&trees, &likeness).partial[0];
    assert_eq!(pair.only.each_ref().map(|o| (o.count, o.examples.len())), [(200, 3), (100, 0)]);
    assert_eq!((pair.other_time.count, pair.other_time.examples.len()), (100, 3));
    assert_eq!((pair.other_content.count, pair.other_content.examples.len()), (100, 3));
}

#[test]
fn a_folder_is_held_wherever_its_contents_lie() {
    let b = "r/b/x/f=1 r/b/y/z/g=2 r/b/h=3 r/b/i=4 r/b/j=5 r/k=";
    assert_eq!(told(&format!("a/p=1 a/q/r=2 {b}")), ["a < r/b"]);
    // Not as often; but then parts of the other are.
    let more = told(&format!("a/p=1 a/q/r=2 a/q/s=2 {b}"));
    assert_eq!(more, ["r/b/x < a", "r/b/y < a/q"]);
    // In two, and not in one.
    assert_eq!(told("a/p=1 a/q=2 b/f=1 b/h= b/i= c/g=2 c/h= c/i="), [""; 0]);
    // The smallest: not all that is above it.
    assert_eq!(told("a/p=1 a/q=2 b/c/d/f=1 b/c/d/g=2 b/c/d/h= b/c/e/i="), ["a < b/c/d"]);
}

#[test]
fn an_unread_folder_is_not_held_but_may_hold() {
    assert_eq!(told("a/p=1 a/! b/f=1 b/g= b/h="), [""; 0]);
    assert_eq!(told("a/p=1 b/f=1 b/g= b/h= b/!"), ["a < b"]);
}

#[test]
fn nested_ones_are_folded_into_their_topmost() {
    assert_eq!(told("a/x/f=1 a/y/g=2 b/x/f=1 b/y/g=2"), ["a = b"]);
    // What is in a copy goes with it: c is like a/x.
    assert_eq!(told("a/x/f=1 a/y/g=2 b/x/f=1 b/y/g=2 c/f=1"), ["a = b", "a/x = c"]);
    // Similar in similar, held in held; equal or held in similar is told, with a mark.
    let similar = "a/x/f=1 a/x/g=2 a/x/h= a/y/i=4 b/x/f=1 b/x/g=2 b/x/k= b/y/i=4";
    assert_eq!(told(similar), ["a/y = b/y *", "a ~ b 3/5"]);
    let held = "a/x/f=1 a/y/g=2 b/x/p=1 b/x/q= b/y/r=2 b/y/s=";
    assert_eq!(told(held), ["a < b"]);
    let both = "a/x/f=1 a/x/g=2 a/h= b/x/f=1 b/x/g=2 b/x/i=";
    assert_eq!(told(both), ["a ~ b 2/4", "a/x < b *"]);
    assert_eq!(told("a/x/f=1 a/g=2 b/x/f=1 b/h=2 b/i= b/j="), ["a/x = b/x *", "a < b"]);
    // Elsewhere, it is not because of the pair.
    let moved = "a/x/f=1 a/g=2 a/h=3 a/i=4 a/k= b/y/f=1 b/g=2 b/h=3 b/i=4 b/j=";
    let (trees, _) = grow(moved);
    let alike = find(&trees, &Likeness { percent: 40, ..Likeness::default() });
    assert_eq!((alike.partial.len(), alike.exact[0].is_in_pair), (1, false));
}

#[test]
fn what_goes_holds_nothing() {
    // Each holds the others: the first one stays.
    assert_eq!(told("a/f=1 b/g=1 c/h=1"), ["b < a", "c < a"]);
    // Parts of the larger are in the smaller, but the smaller one goes.
    assert_eq!(told("a/p=1 a/q=2 b/x/f=1 b/y/g=2 b/h="), ["a < b"]);
}

/// Generations of a backup: which of them comes first decides nothing but names.
#[test]
fn what_stands_for_a_copy_holds_in_its_place() {
    let files: String = (0..10).map(|n| format!("ROOT/a/f{n}={n} ")).collect();
    let old = files.clone() + "ROOT/x=10 ";
    let new = old.clone() + "ROOT/more= ";
    let phone = "phone/p=0 phone/q=1 phone/r=2";
    let tell = |first: &str, second: &str| {
        let (first, second) = (first.replace("ROOT", "r1"), second.replace("ROOT", "r2"));
        told(&format!("{first} {second} {phone}"))
    };
    assert_eq!(tell(&old, &new), ["r1/a = r2/a *", "r2 ~ r1 11/12", "r1 < r2", "phone < r2/a"]);
    assert_eq!(tell(&new, &old), ["r1/a = r2/a *", "r1 ~ r2 11/12", "r2 < r1", "phone < r1/a"]);
}

/// And it is asked in its place, and is one of a pair.
#[test]
fn what_stands_for_a_copy_is_held_and_similar_in_its_place() {
    let generations = "1/a/f=1 1/a/g=2 1/x=3 2/a/f=1 2/a/g=2 2/x=3 2/y=";
    let kept = "r/p=1 r/q=2 r/k= r/l= r/m=";
    assert_eq!(
        told(&format!("{generations} {kept}")),
        ["1/a = 2/a *", "2 ~ 1 3/4", "1 < 2", "2/a < r"]
    );
    let edited = "e/f=1 e/g=2 e/h=";
    assert_eq!(
        told(&format!("{generations} {edited}")),
        ["1/a = 2/a *", "2 ~ 1 3/4", "e ~ 2/a 2/3", "1 < 2", "2/a < e"]
    );
}

/// Each of the two holds a part of the other, and what is in both parts.
#[test]
fn what_only_folders_that_go_have_is_held_by_what_they_lie_in() {
    let paths = "b/s/f=1 b/s/g=2 b/i=1 b/k=3 t/h/p=1 t/h/q=3 t/s=2 t/u= a/z=1";
    assert_eq!(told(paths), ["b/s < t", "t/h < b", "a < b", "a < t"]);
}

#[test]
fn similar_ones_in_different_places_are_told_beside_their_parents() {
    let paths = "a/x/f=1 a/x/g=2 a/x/h= a/i=4 a/j=5 a/k=6 a/l=7 a/m=8 \
                 b/z/f=1 b/z/g=2 b/z/n= b/i=4 b/j=5 b/k=6 b/l=7 b/m=8 b/o=";
    assert_eq!(told(paths), ["a/x ~ b/z 2/4"]);
    let (trees, _) = grow(paths);
    let alike = find(&trees, &Likeness { percent: 40, ..Likeness::default() });
    assert_eq!(alike.partial.len(), 2);
    let alike = find(&trees, &Likeness { percent: 40, by: By::Contents, ..Likeness::default() });
    assert_eq!(alike.partial.len(), 1, "places do not matter by contents");
}

#[test]
fn a_folder_is_never_paired_with_one_above_it() {
    for by in [By::Names, By::Contents] {
        assert_eq!(told_by(by, "a/x/f=1 a/x/g=2 a/f=1 a/g=2"), [""; 0]);
        assert_eq!(told_by(by, "a/a/a/a/f=1"), [""; 0]);
    }
}

#[test]
fn folders_without_files_are_not_told() {
    assert_eq!(told("a/ b/ a/x/ b/x/"), [""; 0]);
    assert_eq!(told("a/f=1 a/x/ b/f=1 b/y/z/"), ["a = b"], "nor do they make a difference");
    assert_eq!(told(""), [""; 0]);
}

#[test]
fn the_same_content_many_times_is_counted() {
    let many = |folder: &str, count: usize, content: &str| -> String {
        (0..count).map(|n| format!("{folder}/{n}={content} ")).collect()
    };
    let (a, b) = (many("a", 100, "1"), many("b", 60, "1"));
    assert_eq!(told_by(By::Contents, &format!("{a}{b}")), ["a ~ b 60/100", "b < a"]);
    assert_eq!(told(&format!("{a}{b}")), ["a ~ b 60/100", "b < a"]);
    assert_eq!(told_by(By::Contents, &format!("{a}{}", many("b", 40, "1"))), ["b < a"]);
}

#[test]
fn a_copy_of_a_sibling_without_one_file_is_similar_and_held() {
    let paths = "r/a/f=1 r/a/x/g=2 r/a/x/h=3 r/b/f=1 r/b/x/g=2";
    assert_eq!(told(paths), ["r/a ~ r/b 2/3", "r/b < r/a"]);
}

#[test]
fn three_equal_folders_are_one_set() {
    let three = "a/f=1 b/f=1 c/f=1";
    assert_eq!(told(three), ["a = b = c"]);
    assert_eq!(find(&grow(three).0, &Likeness::default()).exact[0].winnings, 2);
    // What is like all of them is told once.
    assert_eq!(told("a/f=1 b/f=1 c/f=1 d/f=1 d/g="), ["a = b = c", "d ~ a 1/2", "a < d"]);
}

#[test]
fn larger_winnings_come_first_then_lower_numbers() {
    let paths = "a/f=1 b/f=1 c/f=2 d/f=2 e/f=3 e/g=4 h/f=3 h/g=4";
    assert_eq!(told(paths), ["e = h", "a = b", "c = d"]);
}

#[test]
fn a_second_folder_of_the_same_name_does_no_harm() {
    let mut trees = Trees::default();
    for root in [b"a", b"b"] {
        let root = trees.add_folder(None, root, true);
        for content in [1, 2] {
            let folder = trees.add_folder(Some(root), b"x", true);
            let facts = Facts { content: Content::Of(content), ..Facts::default() };
            trees.add_file(folder, b"f", facts);
            trees.add_file(folder, b"f", facts);
        }
    }
    let alike = find(&trees, &Likeness::default());
    let sets: Vec<&[u32]> = alike.exact.iter().map(|set| &set.folders[..]).collect();
    assert_eq!(sets, [[1, 4], [2, 5]]);
    assert_eq!(find(&trees, &Likeness { by: By::Contents, ..Likeness::default() }).exact.len(), 1);
}

#[test]
fn a_file_takes_40_bytes_and_a_folder_12() {
    assert_eq!((size_of::<(u32, u32, Facts)>(), size_of::<Limb>()), (40, 12));
}

#[test]
#[should_panic(expected = "a folder comes after its parent")]
fn parents_come_first() {
    Trees::default().add_folder(Some(0), b"a", true);
}

#[test]
fn chains_may_be_very_deep() {
    const DEPTH: u32 = 200_000;
    for missing in [0, 1_000] {
        let mut trees = Trees::default();
        for side in 0..2 {
            let mut folder = trees.add_folder(None, b"root", true);
            for depth in 0..DEPTH {
                folder = trees.add_folder(Some(folder), b"x", true);
                if depth % 10 == 0 && (side == 0 || depth >= missing) {
                    let content = Content::Of(depth);
                    trees.add_file(folder, b"f", Facts { content, ..Facts::default() });
                }
            }
        }
        for by in [By::Names, By::Contents] {
            let alike = find(&trees, &Likeness { by, ..Likeness::default() });
            let found = (alike.exact.len(), alike.partial.len(), alike.contained.len());
            // By contents, the shorter one is a copy of the lower part of the other.
            let similar = usize::from(missing > 0 && by == By::Names);
            assert_eq!(found, (1, similar, 0), "{by:?}, {missing} missing");
            assert!(alike.is_complete);
        }
    }
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % sides
    }
}

/// Small trees with many copies in them, some of which are edited.
fn random_trees(dice: &mut Dice) -> Trees {
    let mut trees = Trees::default();
    let contents = 3 + dice.roll(8);
    let file = |trees: &mut Trees, dice: &mut Dice, folder: u32, name: u32| {
        let number = dice.roll(contents);
        let (content, on_disk) = match dice.roll(16) {
            0 => (Content::Unique, 1),
            1 => (Content::Unread, number * 3 + 1),
            _ => (Content::Of(number), number * 3 + 1),
        };
        let on_disk = on_disk.into();
        let facts = Facts { size: on_disk, mtime: dice.roll(3).into(), on_disk, content };
        trees.add_file(folder, &[name as u8], facts);
    };
    for _ in 0..2 + dice.roll(6) {
        let n = trees.folders.len() as u32;
        let parent = Some(dice.roll(n + 1)).filter(|parent| *parent < n);
        let name = free_name(&trees, parent, dice.roll(3) as u8);
        let folder = trees.add_folder(parent, &[name], dice.roll(20) > 0);
        for name in 0..4 {
            if dice.roll(2) == 0 {
                file(&mut trees, dice, folder, name);
            }
        }
    }
    for _ in 0..dice.roll(4) {
        let n = trees.folders.len() as u32;
        let from = dice.roll(n);
        let mut to = HashMap::new();
        let parent = Some(dice.roll(n + 1)).filter(|parent| *parent < n);
        let edits = [4, 10, 1_000][dice.roll(3) as usize];
        for folder in from..n {
            let old = &trees.folders[folder as usize];
            let (name, is_known) = (old.name, old.is_known);
            let above =
                if folder == from { Some(parent) } else { to.get(&old.parent).map(|at| Some(*at)) };
            let Some(above) = above else { continue };
            let name = match folder == from || dice.roll(edits) == 0 {
                true => dice.roll(3) as u8,
                false => byte(&trees, name),
            };
            let name = free_name(&trees, above, name);
            let copy = trees.add_folder(above, &[name], is_known);
            to.insert(folder, copy);
            for at in 0..trees.files.len() {
                let (of, name, facts) = trees.files[at];
                let name = byte(&trees, name);
                if of == folder {
                    match dice.roll(edits) {
                        0 => (),
                        1 => file(&mut trees, dice, copy, name.into()),
                        _ => {
                            trees.add_file(copy, &[name], facts);
                        }
                    }
                }
            }
        }
    }
    for number in 0..trees.folders.len() {
        let above = trees.folders[number].parent as usize;
        let of_above = trees.folders.get(above).map(|above| above.is_online);
        trees.folders[number].is_online = of_above.unwrap_or_else(|| dice.roll(4) > 0);
    }
    trees
}

fn byte(trees: &Trees, name: u32) -> u8 {
    trees.names.iter().find(|(_, number)| **number == name).unwrap().0[0]
}

fn free_name(trees: &Trees, parent: Option<u32>, first: u8) -> u8 {
    let parent = parent.unwrap_or(NONE);
    let taken = |name: u8| {
        let name = trees.names.get(&[name][..]);
        trees.folders.iter().any(|f| f.parent == parent && Some(&f.name) == name)
    };
    (first..).find(|name| parent == NONE || !taken(*name)).unwrap()
}

/// As the naive search says it.
fn line(pair: &PartialPair) -> String {
    let [a, b] = pair.folders;
    let only = pair.only.each_ref().map(|only| only.count);
    let in_doubt = pair.not_compared.each_ref().map(|files| files.count);
    let (content, time) = (pair.other_content.count, pair.other_time.count);
    let won = pair.winnings;
    format!("{a} ~ {b} {} {only:?} {in_doubt:?} {content} {time} {won}", pair.shared)
}

fn lines(alike: &Alike) -> [BTreeSet<String>; 3] {
    let exact = alike.exact.iter();
    let exact = exact.map(|set| format!("{:?} {} {}", set.folders, set.winnings, set.is_in_pair));
    let partial = alike.partial.iter().map(line);
    let contained = alike.contained.iter().map(|held| {
        let Containment { folder, within, winnings, is_in_pair, .. } = held;
        format!("{folder} < {within} {winnings} {is_in_pair}")
    });
    [exact.collect(), partial.collect(), contained.collect()]
}

#[test]
fn all_that_a_naive_search_finds_is_found_and_nothing_else() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut found = [0; 6];
    for case in 0..2_000 {
        let trees = random_trees(&mut dice);
        let percent = [20, 34, 50, 75, 100][dice.roll(5) as usize];
        for (at, by) in [By::Names, By::Contents].into_iter().enumerate() {
            let likeness = Likeness { by, percent, holders: usize::MAX, ..Likeness::default() };
            let naive = Naive::new(&trees, likeness);
            let expected = [naive.exact(), naive.partial(), naive.contained()];
            let told = lines(&find(&trees, &likeness));
            assert_eq!(told, expected, "case {case}, {by:?}, {percent} %");
            for (kind, told) in told.iter().enumerate() {
                found[at * 3 + kind] += told.len();
            }
        }
    }
    assert!(found.iter().all(|found| *found > 500), "too little of something: {found:?}");
}

#[test]
fn whoever_is_contained_in_something_that_stays_is_told() {
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    for case in 0..1_000 {
        let mut trees = random_trees(&mut dice);
        if case % 3 > 0 {
            trees.folders.iter_mut().for_each(|folder| folder.is_online = true);
        }
        let by = if case % 2 == 0 { By::Names } else { By::Contents };
        let likeness = Likeness { by, holders: usize::MAX, ..Likeness::default() };
        let alike = find(&trees, &likeness);
        let untold = Naive::new(&trees, likeness).untold(&alike);
        assert_eq!(untold, None, "case {case}, {by:?}: {alike:?}");
    }
}

/// Numbers of files, names and contents are those of rows in a database, which are older or newer.
#[test]
fn the_order_in_which_files_come_and_their_numbers_decide_nothing() {
    let mut dice = Dice(11);
    for case in 0..300 {
        let trees = random_trees(&mut dice);
        let by = if case % 2 == 0 { By::Names } else { By::Contents };
        let mut other = Trees::default();
        (0..100_u8).rev().for_each(|name| assert!(other.name(&[name]) < 100));
        for folder in &trees.folders {
            let parent = Some(folder.parent).filter(|parent| *parent != NONE);
            let name = byte(&trees, folder.name);
            let number = other.add_folder(parent, &[name], folder.is_known) as usize;
            other.folders[number].is_online = folder.is_online;
        }
        let mut files: Vec<usize> = (0..trees.files.len()).collect();
        files.sort_by_key(|file| Reverse(trees.files[*file].0));
        for file in &files {
            let (folder, name, mut facts) = trees.files[*file];
            if let Content::Of(content) = &mut facts.content {
                *content = 1_000 - *content;
            }
            other.add_file(folder, &[byte(&trees, name)], facts);
        }
        let likeness = Likeness { by, holders: 1, examples: 2, steps: 200, ..Likeness::default() };
        let (told, mut others) = (find(&trees, &likeness), find(&other, &likeness));
        let number = |file: &mut u32| *file = files[*file as usize] as u32;
        for pair in &mut others.partial {
            let single = pair.only.iter_mut().chain(&mut pair.not_compared);
            single.flat_map(|files| &mut files.examples).for_each(number);
            let both = [&mut pair.other_content, &mut pair.other_time].into_iter();
            both.flat_map(|files| &mut files.examples).flatten().for_each(number);
        }
        assert_eq!(format!("{others:?}"), format!("{told:?}"), "case {case}");
    }
}

#[test]
fn with_narrow_limits_all_that_is_told_is_true_and_always_the_same() {
    let mut dice = Dice(7);
    for case in 0..500 {
        let trees = random_trees(&mut dice);
        let by = if case % 2 == 0 { By::Names } else { By::Contents };
        let (pairs, steps) = (dice.roll(20) as usize, dice.roll(60).into());
        let likeness = Likeness { by, holders: 1, pairs, steps, ..Likeness::default() };
        let alike = find(&trees, &likeness);
        assert_eq!(format!("{alike:?}"), format!("{:?}", find(&trees, &likeness)));
        assert!(alike.exact.is_sorted_by_key(|set| Reverse(set.winnings)));
        assert!(alike.partial.is_sorted_by_key(|pair| Reverse(pair.winnings)));
        assert!(alike.contained.is_sorted_by_key(|held| Reverse(held.winnings)));
        let naive = Naive::new(&trees, likeness);
        for pair in &alike.partial {
            let [a, b] = pair.folders.map(|folder| folder as usize);
            assert!(naive.are_similar(a, b));
            assert_eq!(line(pair), naive.pair(a, b));
        }
        for held in &alike.contained {
            assert!(naive.holds(held.within as usize, held.folder as usize));
        }
    }
}

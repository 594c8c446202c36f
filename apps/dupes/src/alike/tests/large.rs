//! What a search of large trees costs, and what limits do.

use super::*;

/// Five copies of a source tree, each edited here and there.
fn edited_copies() -> Trees {
    let (mut trees, mut dice) = (Trees::default(), Dice(42));
    for copy in 0..5_u32 {
        let root = copy * 2_000;
        for folder in 0..2_000 {
            let parent = (folder > 0).then(|| root + (folder - 1) / 4);
            let name = format!("folder {folder}");
            let number = trees.add_folder(parent, name.as_bytes(), true);
            for file in 0..10 {
                let name = format!("file {}", file + folder % 7);
                let content = match dice.roll(1_000) {
                    0..3 => Content::Unique,
                    // A licence that is everywhere.
                    3..20 => Content::Of(0),
                    _ => Content::Of(1 + folder * 10 + file),
                };
                let facts = Facts { size: 4_096, on_disk: 4_096, content, mtime: 0 };
                trees.add_file(number, name.as_bytes(), facts);
            }
        }
    }
    trees
}

#[test]
fn candidates_are_few() {
    let trees = edited_copies();
    assert_eq!((trees.files.len(), trees.folders.len()), (100_000, 10_000));
    for by in [By::Names, By::Contents] {
        let alike = find(&trees, &Likeness { by, ..Likeness::default() });
        // All pairs would be fifty million.
        assert!(alike.pairs.0 <= 40_000, "{by:?} {:?}", alike.pairs);
        assert!(alike.pairs.1 <= 20_000, "{by:?} {:?}", alike.pairs);
        assert!(alike.is_complete);
        let roots = alike.partial.iter().filter(|pair| pair.folders.iter().all(|f| f % 2_000 == 0));
        assert_eq!((roots.count(), alike.partial.len()), (10, 10));
        assert!(alike.exact.iter().all(|set| set.is_in_pair));
        assert!(alike.contained.iter().all(|held| held.is_in_pair));
    }
}

#[test]
fn of_many_similar_folders_each_is_told_with_the_next() {
    let day = |day: u32| -> String {
        let files = (0..9).map(|file| format!("day{day}/{file}={file} "));
        files.chain([format!("day{day}/log= ")]).collect()
    };
    let days: String = (0..30).map(day).collect();
    for by in [By::Names, By::Contents] {
        let told = told_by(by, &days);
        assert_eq!(told.len(), 29, "{told:?}");
        assert_eq!(told[28], "day28 ~ day29 9/11");
    }
}

#[test]
fn limits_are_kept_and_said() {
    let trees = edited_copies();
    for likeness in [
        Likeness { pairs: 100, ..Likeness::default() },
        Likeness { steps: 100, ..Likeness::default() },
    ] {
        let alike = find(&trees, &likeness);
        assert!(!alike.is_complete);
        assert!(alike.exact.len() > 1_000, "equal folders need no search");
    }
}

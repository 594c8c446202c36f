use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::digest::Verified;
use crate::listing::{Entry, Set};
use crate::options::Root;
use crate::plan::{Grain, Maker, Plan, Protect, guard, rule};

/// A tree of these files, each with its content; one that ends with `/` is a folder, one with `->` a hard link.
fn tree(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else if let Some(other) = text.strip_prefix("->") {
            fs::hard_link(dir.path().join(other), path).unwrap();
        } else {
            fs::write(path, text).unwrap();
        }
    }
    dir
}

/// All sets of files below, as a search finds them: by their bytes, names of one file together.
fn sets(top: &Path) -> Vec<Set> {
    let mut by_content: BTreeMap<Vec<u8>, BTreeMap<u64, Vec<Vec<u8>>>> = BTreeMap::new();
    let mut next = vec![top.to_owned()];
    while let Some(path) = next.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            next.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if about.is_file() && about.len() > 0 {
            let paths = by_content.entry(fs::read(&path).unwrap()).or_default();
            paths.entry(about.ino()).or_default().push(path.into_os_string().into_vec());
        }
    }
    let set = |(text, files): (Vec<u8>, BTreeMap<u64, Vec<Vec<u8>>>)| {
        let mut files: Vec<Entry> = files
            .into_values()
            .map(|paths| Entry { paths, reference: false, offline: false })
            .collect();
        files.iter_mut().for_each(|file| file.paths.sort());
        files.sort_by(|one, other| one.paths.cmp(&other.paths)); // whichever numbers they were given
        let size = text.len() as u64;
        Set { size, digest: None, verified: Verified::Bytes, files, reclaimable: 0 }
    };
    by_content.into_iter().map(set).filter(|set| set.files.len() > 1).collect()
}

fn planned(dir: &TempDir, roots: &[(&str, bool)], keep: Keep) -> Plan {
    let top = dir.path().canonicalize().unwrap();
    let all: Vec<Root> = roots
        .iter()
        .map(|(root, reference)| Root { path: top.join(root), reference: *reference })
        .collect();
    let mut maker = Maker::new(&all, keep, Grain::Folders);
    sets(&top).iter().for_each(|set| maker.add(set));
    let (plan, left_out) = maker.finish();
    assert_eq!(left_out, []);
    assert_eq!(plan.check(), Ok(()), "what is made is sound");
    plan
}

/// What goes, with what stays for it: folders end with `/`.
fn lines(dir: &TempDir, plan: &Plan) -> Vec<String> {
    let top = dir.path().canonicalize().unwrap().into_os_string().into_vec();
    let name = |member: &Member| {
        let whole = plan.whole(&member.names[0]).unwrap();
        let name = String::from_utf8(whole[top.len() + 1..].to_vec()).unwrap();
        if member.tree.is_some() { name + "/" } else { name }
    };
    plan.victims().map(|(set, it)| format!("{} of {}", name(it), name(&set.keepers[0]))).collect()
}

#[track_caller]
fn check(files: &[(&str, &str)], keep: &[&str], expected: &[&str]) {
    let dir = tree(files);
    let rules = keep.iter().map(|text| rule(text).unwrap()).collect();
    let plan = planned(&dir, &[("", false)], Keep { rules, ..Keep::default() });
    assert_eq!(lines(&dir, &plan), expected, "{files:?}");
}

#[test]
fn equal_folders_go_as_one_and_the_rest_file_by_file() {
    let files = [
        ("a/x", "one"),
        ("a/in/y", "two"),
        ("a/in/none", ""),
        ("a/empty/", ""),
        ("b/c/x", "one"),
        ("b/c/in/y", "two"),
        ("b/c/in/none", ""),
        ("b/c/empty/", ""),
        ("lone", "one"),
    ];
    check(&files, &[], &["b/c/ of a/", "lone of a/x"]);
    check(&files, &["deepest"], &["a/ of b/c/", "lone of b/c/x"]);
}

#[test]
fn anything_more_or_else_makes_a_folder_no_duplicate() {
    let more: [(&str, &str); 5] = [
        ("b/new", "new"),
        ("b/in/none", ""),
        ("b/in/empty/", ""),
        ("b/folder/", ""),
        ("b/X", "one"),
    ];
    for new in more {
        let dir =
            tree(&[("a/x", "one"), ("a/in/y", "two"), ("b/x", "one"), ("b/in/y", "two"), new]);
        let plan = planned(&dir, &[("", false)], Keep::default());
        assert!(!lines(&dir, &plan).contains(&"b/ of a/".to_owned()), "{new:?}");
    }
    // Other names are another folder.
    check(&[("a/x", "one"), ("b/y", "one")], &[], &["b/y of a/x"]);
    let dir = tree(&[("a/x", "one"), ("b/x", "one")]);
    std::os::unix::fs::symlink("x", dir.path().join("b/link")).unwrap();
    assert_eq!(lines(&dir, &planned(&dir, &[("", false)], Keep::default())), ["b/x of a/x"]);
}

#[test]
fn the_largest_decide_and_what_is_in_them_follows() {
    // All of a is once more in b; what a has in it is once more in c.
    let files = [
        ("a/in/x", "one"),
        ("a/y", "two"),
        ("b/in/x", "one"),
        ("b/y", "two"),
        ("c/in/x", "one"),
        ("c/z", "three"),
        ("d", "three"),
    ];
    check(&files, &[], &["b/ of a/", "c/in/ of a/in/", "d of c/z"]);
    check(&files, &["path:**/b"], &["a/ of b/", "c/in/ of b/in/", "d of c/z"]);
    // What a pattern chooses does not go for one that stays whole.
    check(&files, &["path:**/c/**", "path:**/b"], &["a/ of b/", "d of c/z"]);
}

#[test]
fn a_pattern_keeps_the_same_side_of_folders_as_of_files() {
    let files = [
        ("A/in/1", "one"),
        ("A/in/2", "two"),
        ("B/1", "one"),
        ("B/2", "two"),
        ("X/C/3", "six"),
        ("Y/C/3", "six"),
    ];
    for pattern in ["path:**/B/**", "path:**/B", "name:B", "path:**/B/2", "path:**/B/*"] {
        check(&files, &[pattern, "path:**/Y/**"], &["A/in/ of B/", "X/ of Y/"]);
    }
    check(&files, &["path:**/A/**"], &["B/ of A/in/", "Y/ of X/"]);
    // One of each: none goes as one.
    let mixed = ["path:**/A/in/1", "path:**/B/2"];
    check(&files, &mixed, &["Y/ of X/", "B/1 of A/in/1", "A/in/2 of B/2"]);
    // What is chosen elsewhere says nothing against it.
    let lone = [&files[..], &[("0/B/1", "one")]].concat();
    check(&lone, &["path:**/B/**"], &["A/in/ of B/", "Y/ of X/"]);
}

#[test]
fn a_pattern_is_idle_only_if_it_matches_neither_files_nor_folders() {
    let dir = tree(&[("A/1", "one"), ("B/1", "one")]);
    let top = dir.path().canonicalize().unwrap();
    let texts = ["path:**/B", "name:B", "path:**/B/**", "name:1", "name:none", "path:**/C/**"];
    let rules = texts.iter().map(|text| rule(text).unwrap()).collect();
    let roots = [Root { path: top.clone(), reference: false }];
    let mut maker = Maker::new(&roots, Keep { rules, ..Keep::default() }, Grain::Folders);
    sets(&top).iter().for_each(|set| maker.add(set));
    assert_eq!(maker.idle_rules().collect::<Vec<_>>(), ["name:none", "path:**/C/**"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Where a pattern tells the files of a set apart, those that stay without folders stay with them.
    #[test]
    fn no_folder_goes_with_what_the_patterns_keep(
        files in prop::collection::btree_map(0..24usize, 0..3usize, 2..12),
        rules in prop::collection::vec(0..10usize, 1..4),
        copies in 1..3usize,
    ) {
        const FOLDERS: [&str; 6] = ["a", "a/in", "b", "b/in", "c", "c-d/in"];
        const RULES: [&str; 10] = [
            "path:**/a", "path:**/b/**", "path:**/in/*", "path:**/c/1", "path:**/c-d/**", "name:1",
            "name:b", "name:[23]", "path:**/b/in", "path:**/a/in/**",
        ];
        let named: Vec<(String, String)> = files.iter().map(|(at, text)| {
            (format!("{}/{}", FOLDERS[at % 6], at / 6), text.to_string())
        }).collect();
        let named: Vec<(&str, &str)> = named.iter().map(|(at, text)| (&**at, &**text)).collect();
        let dir = tree(&named);
        let top = dir.path().canonicalize().unwrap();
        let rules = rules.iter().map(|at| rule(RULES[*at]).unwrap()).collect();
        let keep = Keep { rules, copies, ..Keep::default() };
        let plan = planned(&dir, &[("", false)], keep.clone());
        let gone: Vec<Vec<u8>> =
            plan.victims().map(|(_, it)| plan.whole(&it.names[0]).unwrap()).collect();
        for set in sets(&top) {
            let candidate = |file: Entry| Candidate {
                paths: file.paths, inside: vec![], root: 0, mtime: (0, 0), reference: false,
            };
            let all: Vec<Candidate> = set.files.into_iter().map(candidate).collect();
            let stays = choose(&all, &keep);
            let is_gone = |one: &Candidate| gone.iter().any(|path| is_below(&one.paths[0], path));
            for (one, _) in all.iter().zip(stays).filter(|(_, stays)| *stays) {
                let is_wrong = is_told_apart(&all, &keep) && is_gone(one);
                prop_assert!(!is_wrong, "{:?}: {named:?}", one.paths);
            }
            prop_assert!(all.iter().filter(|one| !is_gone(one)).count() >= copies.min(all.len()));
        }
    }
}

#[test]
fn what_is_twice_within_a_folder_that_stays_stays() {
    let files = [("a/x", "one"), ("a/y", "one"), ("b/x", "one"), ("b/y", "one"), ("z", "one")];
    check(&files, &[], &["b/ of a/", "z of a/x"]);
}

#[test]
fn folders_of_hard_links_are_no_copies_of_each_other() {
    let files = [("a/x", "one"), ("b/x", "->a/x"), ("c/x", "one")];
    check(&files, &[], &["c/ of a/"]);
}

#[test]
fn references_and_what_is_protected_are_never_in_a_folder_that_goes() {
    let dir = tree(&[("a/x", "one"), ("a/in/y", "two"), ("b/x", "one"), ("b/in/y", "two")]);
    let keep = || Keep { rules: vec![rule("path:**/b").unwrap()], ..Keep::default() };
    let lines = |roots: &[(&str, bool)], keep| lines(&dir, &planned(&dir, roots, keep));
    assert_eq!(lines(&[("", false)], keep()), ["a/ of b/"]);
    assert_eq!(lines(&[("", false), ("a/in", true)], keep()), ["b/x of a/x", "b/in/y of a/in/y"]);
    let protect = || Protect::new(vec![guard("**/a/in/*").unwrap()]);
    assert_eq!(lines(&[("", false)], Keep { protect: protect(), ..keep() }), ["b/ of a/"]);
    // Nor is what is in no set.
    for (name, is_folder) in [("none", false), ("empty", true)] {
        for folder in ["a/in", "b/in"] {
            let path = dir.path().join(folder).join(name);
            if is_folder { fs::create_dir(path).unwrap() } else { fs::write(path, "").unwrap() }
        }
        let protect = Protect::new(vec![guard(&format!("**/a/in/{name}")).unwrap()]);
        assert_eq!(lines(&[("", false)], Keep { protect, ..keep() }), ["b/ of a/"], "{name}");
    }
    // What was given as a path does not go itself.
    assert_eq!(
        lines(&[("a", false), ("b", false)], Keep::default()),
        ["b/in/ of a/in/", "b/x of a/x"]
    );
}

#[test]
fn as_many_folders_stay_as_copies_were_asked_for() {
    let dir = tree(&[("a/x", "one"), ("b/x", "one"), ("c/x", "one"), ("d", "one")]);
    let plan = planned(&dir, &[("", false)], Keep { copies: 2, ..Keep::default() });
    assert_eq!(lines(&dir, &plan), ["c/ of a/", "d of a/x"]);
}

#[test]
fn what_comes_free_is_counted_once_and_only_what_has_no_name_elsewhere() {
    let dir = tree(&[
        ("a/x", "one"),
        ("a/y", "two"),
        ("a/z", "six"),
        ("b/x", "one"),
        ("b/y", "two"),
        ("b/z", "six"),
        ("other", "->b/y"),
    ]);
    let plan = planned(&dir, &[("", false)], Keep::default());
    let block = fs::metadata(dir.path().join("a/x")).unwrap().blocks() * 512;
    assert_eq!(lines(&dir, &plan), ["b/ of a/", "other of a/y"]);
    assert_eq!(plan.frees(), 3 * block, "the file with two names comes free with its last one");
}

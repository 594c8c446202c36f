use std::collections::BTreeMap;
use std::path::Path;

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
    // Whatever a rule says of the small ones: the folder that stays stays whole.
    check(&files, &["path:**/c/**", "path:**/b"], &["a/ of b/", "c/in/ of b/in/", "d of c/z"]);
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

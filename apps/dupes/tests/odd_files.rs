//! On a file system that says of its files what a test wants: one file under two numbers, two under one, names in any
//! case, files that change between a look and a read, reads that are never answered.

#[path = "support/fuse.rs"]
mod fuse;
mod support;
#[path = "support/tree.rs"]
mod tree;

use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{json, stderr};
use tree::{Node, Tree};

const FIND: &str = r#"exec "$DUPES" find --format json --progress never"#;

/// None: skipped, and said so.
fn find(tree: Tree, roots: &str) -> Option<Output> {
    let dir = tempfile::tempdir().unwrap();
    fuse::run(tree, dir.path(), &format!("{FIND} {roots}"))
}

fn names(paths: &Value) -> Vec<String> {
    let name = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    paths.as_array().unwrap().iter().map(name).collect()
}

fn groups(output: &Output) -> Vec<Vec<String>> {
    json(output)["groups"].as_array().unwrap().iter().map(|group| names(&group["paths"])).collect()
}

fn reclaimable(output: &Output) -> u64 {
    json(output)["totals"]["reclaimable_bytes"].as_u64().unwrap()
}

/// Small ones are hashed, large ones compared.
const SIZES: [usize; 2] = [5_000, 100_000];

/// So many bytes on disk.
fn on_disk(size: usize) -> u64 {
    size.div_ceil(512) as u64 * 512
}

#[test]
fn one_file_under_two_inode_numbers_is_two_files_with_the_same_content() {
    for size in SIZES {
        let shown = [("a", 10), ("b", 11)];
        let nodes = shown.map(|(name, inode)| Node::file(name, inode, vec![7; size]));
        let Some(output) = find(Tree { nodes: nodes.into(), ..Tree::default() }, "\"$DIR\"") else {
            return;
        };
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(groups(&output), [["a", "b"]]);
        assert_eq!(reclaimable(&output), on_disk(size), "as the file system says");
    }
}

/// Found to be two by their times, although their number says that they are one.
#[test]
fn two_files_under_one_inode_number_are_not_taken_for_one() {
    for size in SIZES {
        let of = |name, inode, changed, fill| Node {
            changed,
            links: 2,
            ..Node::file(name, inode, vec![fill; size])
        };
        let nodes =
            vec![of("a", 10, 1, 7), of("b", 10, 2, 8), of("c", 11, 3, 7), of("d", 12, 4, 8)];
        let Some(output) = find(Tree { nodes, ..Tree::default() }, "\"$DIR\"") else { return };
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let mut sets = groups(&output);
        sets.sort();
        assert_eq!(sets, [["a", "c"], ["b", "d"]], "{size}");
        for group in json(&output)["groups"].as_array().unwrap() {
            assert_eq!(names(&group["links"]), [""; 0], "none is another name of one");
        }
    }
}

/// Equal ones with one number are one file, as far as anybody can tell: nothing would come free.
#[test]
fn equal_files_under_one_inode_number_are_one() {
    let nodes = ["a", "b"].map(|name| Node::file(name, 10, vec![7; 5_000]));
    let Some(output) = find(Tree { nodes: nodes.into(), ..Tree::default() }, "\"$DIR\"") else {
        return;
    };
    assert_eq!((groups(&output).len(), reclaimable(&output)), (0, 0));
    assert_eq!(output.status.code(), Some(0));
}

/// Deleted, and another file has its number before it is read: told by its times.
#[test]
fn an_inode_number_that_is_given_again_before_the_read_is_unstable() {
    for size in SIZES {
        let of = |name, inode, fill, changed| Node {
            changed,
            ..Node::file(name, inode, vec![fill; size])
        };
        let seen = vec![of("a", 10, 7, 1), of("b", 11, 7, 1), of("c", 12, 7, 1)];
        let later = vec![of("a", 10, 8, 2), of("b", 11, 7, 1), of("c", 12, 7, 1)];
        let tree = Tree { nodes: seen, later: Some(later), ..Tree::default() };
        let Some(output) = find(tree, "\"$DIR\"") else { return };
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert_eq!(groups(&output), [["b", "c"]]);
        assert!(stderr(&output).contains("/a: changed while it was read"), "{}", stderr(&output));
        assert_eq!(json(&output)["totals"]["unstable"], 1);
    }
}

/// If nothing but its bytes tells that it is another one, it counts by its bytes: none that were
/// there before are claimed.
#[test]
fn an_inode_number_that_is_given_again_with_the_same_times_counts_by_its_bytes() {
    for size in SIZES {
        let of = |name, inode, fill| Node::file(name, inode, vec![fill; size]);
        let seen = vec![of("a", 10, 7), of("b", 11, 7), of("c", 12, 8)];
        let later = vec![of("a", 10, 8), of("b", 11, 7), of("c", 12, 8)];
        let tree = Tree { nodes: seen, later: Some(later), ..Tree::default() };
        let Some(output) = find(tree, "\"$DIR\"") else { return };
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(groups(&output), [["a", "c"]], "{size}");
    }
}

/// A folder with a file, and another one with the same content. The first file has a link that is not shown.
fn photos(folds_case: bool) -> Tree {
    let file = |name, inode| Node::file(name, inode, vec![7; 5_000]).within(0);
    let linked = Node { links: 2, ..file("Two.jpg", 12) };
    Tree {
        nodes: vec![Node::folder("Photos", 10), file("One.jpg", 11), linked],
        folds_case,
        ..Tree::default()
    }
}

#[test]
fn a_name_in_another_case_is_what_the_file_system_says() {
    // Folders and files, in two spellings each.
    let folders = r#""$DIR/Photos" "$DIR/photos""#;
    let files = r#""$DIR/Photos/One.jpg" "$DIR/photos/ONE.JPG" "$DIR/Photos/Two.jpg""#;
    for roots in [folders, files] {
        let Some(output) = find(photos(true), roots) else { return };
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(groups(&output), [["One.jpg", "Two.jpg"]], "a file is one: {roots}");
        assert_eq!(json(&output)["totals"]["files"], 2, "{roots}");
        // Without folding there is no such name, and that is said.
        let output = find(photos(false), roots).unwrap();
        assert_eq!(output.status.code(), Some(3), "{roots}");
        assert!(stderr(&output).contains("can't look there: No such file"), "{}", stderr(&output));
    }
}

#[test]
fn names_that_differ_by_case_are_two_files_where_case_counts() {
    let nodes = [("a", 10), ("A", 11)].map(|(name, inode)| Node::file(name, inode, vec![7; 10]));
    let Some(output) = find(Tree { nodes: nodes.into(), ..Tree::default() }, "\"$DIR\"") else {
        return;
    };
    assert_eq!(groups(&output), [["A", "a"]]);
}

/// Two spellings of one name are no two links.
#[test]
fn a_name_in_two_cases_does_not_stand_for_a_link_elsewhere() {
    let roots = r#""$DIR/Photos/One.jpg" "$DIR/Photos/TWO.jpg" "$DIR/Photos/two.JPG""#;
    let Some(output) = find(photos(true), roots) else { return };
    assert_eq!(groups(&output).len(), 1);
    assert_eq!(reclaimable(&output), 0, "another link keeps the second one: {}", json(&output));
}

/// What is promised for the first Ctrl-C. In virtual time: `tests/bounds.rs`.
const PROMISED: Duration = Duration::from_secs(5);

/// As on a mount whose server is gone: whoever reads hangs.
#[test]
fn a_read_that_is_never_answered_does_not_hold_up_the_end_that_is_asked_for() {
    let nodes = [("a", 10), ("b", 11)].map(|(name, inode)| Node::file(name, inode, vec![7; 5_000]));
    let tree = Tree { nodes: nodes.into(), holds_reads: true, ..Tree::default() };
    let dir = tempfile::tempdir().unwrap();
    let started = fuse::start(tree, dir.path(), &format!("{FIND} \"$DIR\""));
    let Some(mut running) = started else { return };
    if !running.until_a_read_is_held() {
        let ended = running.end();
        return assert!(ended.is_none(), "nobody reads: {ended:?}");
    }
    let (id, since) = (running.child.id(), Instant::now());
    kill_process(Pid::from_child(&running.child), Signal::INT).unwrap();
    // It has ended, but for the thread that the kernel holds in its read.
    support::in_time_of(20 * PROMISED, "its end", move || fuse::until_it_has_ended(id));
    eprintln!("ended {:?} after the signal", since.elapsed());
    running.let_go();
    let output = running.end().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(output.stdout, b"", "nothing is listed");
    assert!(stderr(&output).contains("interrupted: "), "{}", stderr(&output));
}

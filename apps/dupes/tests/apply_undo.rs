//! Any tree, any action, and the way back: it is the tree it was.

mod support;

#[path = "support/acts.rs"]
mod acts;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use acts::{Acts, Manifest};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Made {
    folder: usize,
    content: usize,
    mode: u32,
    mtime: u64,
    /// A further name of the file before it.
    link: bool,
}

fn made() -> impl Strategy<Value = Made> {
    let modes = prop::sample::select(vec![0o644, 0o600, 0o755, 0o444]);
    (0..4usize, 0..4usize, modes, 0..3u64, prop::bool::weighted(0.2)).prop_map(
        |(folder, content, mode, mtime, link)| Made { folder, content, mode, mtime, link },
    )
}

fn tree(files: &[Made]) -> Acts {
    const FOLDERS: [&str; 4] = ["", "x/", "x/y/", "z/"];
    let acts = Acts::new();
    let mut last: Option<String> = None;
    for (number, file) in files.iter().enumerate() {
        let name = format!("{}{number}", FOLDERS[file.folder]);
        if let (true, Some(other)) = (file.link, &last) {
            fs::create_dir_all(acts.path(&name).parent().unwrap()).unwrap();
            fs::hard_link(acts.path(other), acts.path(&name)).unwrap();
            continue;
        }
        acts.write(&name, format!("content {}", file.content).repeat(file.content * 9_000));
        let path = acts.path(&name);
        let open = fs::File::options().append(true).open(&path).unwrap();
        open.set_modified(UNIX_EPOCH + Duration::from_secs(1_000 + file.mtime)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode)).unwrap();
        last = Some(name);
    }
    fs::create_dir(acts.beside("moved")).unwrap();
    acts
}

/// So that there are folders that are equal, also within each other.
fn copy_folders(acts: &Acts) {
    for (from, to) in
        [("x", "u"), ("x", "z"), ("z", "w")].map(|(a, b)| (acts.path(a), acts.path(b)))
    {
        let copied = from.is_dir().then(|| Command::new("cp").arg("-a").args([from, to]).status());
        assert!(copied.is_none_or(|copied| copied.unwrap().success()));
    }
}

/// Every content, wherever it is.
fn contents(manifest: &Manifest) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = manifest
        .values()
        .filter(|item| item.mode & 0o170_000 == 0o100_000)
        .map(|item| item.content.clone())
        .collect();
    all.sort();
    all.dedup();
    all
}

fn cases() -> u32 {
    std::env::var("TIDEGATE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..Default::default() })]

    #[test]
    fn apply_then_undo_gives_back_the_tree(
        files in prop::collection::vec(made(), 2..14),
        action in 0..5usize,
        keep in prop::sample::select(vec!["newest", "oldest", "deepest", "shallowest", "name:*1*"]),
        copies in prop::sample::select(vec!["1", "2"]),
        allow in any::<bool>(),
        copied in any::<bool>(),
        folders in any::<bool>(),
    ) {
        let acts = tree(&files);
        if copied {
            copy_folders(&acts);
        }
        let before = acts.manifest();
        let action = ["remove", "move", "hardlink", "symlink", "reflink"][action];
        let mut words = vec![action, "tree", "--min-size", "0", "--keep", keep, "--keep-copies", copies];
        if action == "move" {
            words.extend(["--to", "moved"]);
        }
        if allow && ["hardlink", "symlink"].contains(&action) {
            words.extend(["--allow-differing", "mode,times"]);
        }
        let folders = folders && ["remove", "move"].contains(&action);
        if folders {
            // A plan: what is twice in a folder that stays is for a search after this one.
            acts.runs(&["plan", "tree", "-o", "plan", "--folders", "--min-size", "0", "--keep", keep, "--keep-copies", copies]);
            words.splice(1..8, ["--plan", "plan"]);
        }
        let (code, said) = acts.apply(&words);
        prop_assert!(code == 0 || code == 3, "{said}");
        let after = acts.manifest();
        prop_assert_eq!(contents(&before), contents(&after), "a content was lost: {}", said);
        let (again, said) = acts.apply(&words);
        prop_assert!(again == code || again == 0, "{said}");
        prop_assert_eq!(&acts.manifest(), &after, "a second run changes nothing: {}", said);
        if after != before {
            acts.runs(&["undo"]);
        }
        prop_assert_eq!(acts.manifest(), before, "{}", said);
    }
}

//! Blocks are shared by the one call in which the kernel compares the bytes first (`FIDEDUPERANGE`). `FICLONE` and
//! `FICLONERANGE` replace whatever is there by then: nothing of ours calls them, or names what does.

use std::fs;
use std::path::{Path, PathBuf};

/// Lower case, of names in code: of the calls, of their wrappers, of crates that are made of them.
const BANNED: [&str; 5] =
    ["ficlone", "reflink_copy", "reflink_or_copy", "copy_file_range", "sendfile"];
/// Their numbers: `_IOW(0x94, 9, …)` and `_IOW(0x94, 13, …)`.
const NUMBERS: [&str; 4] = ["0x94, 9", "0x94, 13", "0x40049409", "0x4020940d"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Lines of code that name one of them.
fn complaints(name: &str, text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let names = |line: &&str| {
        let lower = line.to_lowercase().replace('_', "");
        BANNED.iter().any(|word| lower.contains(&word.replace('_', "")))
            || NUMBERS.iter().any(|number| line.contains(number))
    };
    text.lines().filter(is_code).filter(names).map(|line| format!("{name}: {line}")).collect()
}

#[test]
fn nothing_replaces_blocks_without_a_comparison() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [own.join("src"), own.join("../../crates/extents/src")] {
        sources(&folder, &mut found);
    }
    assert!(found.len() > 50, "{found:?}");
    let all = found.iter().flat_map(|path| {
        complaints(&path.display().to_string(), &fs::read_to_string(path).unwrap())
    });
    assert_eq!(all.collect::<Vec<_>>(), Vec::<String>::new());
    for manifest in [own.join("Cargo.toml"), own.join("../../crates/extents/Cargo.toml")] {
        assert!(!fs::read_to_string(manifest).unwrap().contains("reflink"), "no crate for it");
    }
}

#[test]
fn each_way_to_do_it_is_complained_of() {
    for line in [
        "rustix::fs::ioctl_ficlone(&to, &from)?;",
        "ioctl(fd, FICLONERANGE, &range);",
        "reflink_copy::reflink(from, to)",
        "opcode::write::<i32>(0x94, 9)",
        "fs::copy_file_range(from, None, to, None, 10)",
    ] {
        assert_eq!(complaints("x", line).len(), 1, "{line}");
    }
    assert!(
        complaints("x", "// FICLONE is banned\nopcode::read_write::<Source>(0x94, 54)").is_empty()
    );
}

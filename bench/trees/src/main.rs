//! Makes the trees that duplicate finders are measured on: the same names and bytes for the same
//! arguments, on any machine, and with them the sets that a finder has to find.
//!
//! ```text
//! dupes-trees TREE FOLDER [--scale 1] [--seed 1] [--base FOLDER]...
//! ```
//!
//! | in FOLDER | |
//! |---|---|
//! | `files/` | the tree |
//! | `sets` | what is equal: paths below `files/`, each with a zero byte behind it, and one more behind each set |
//! | `links` | pairs: a further name of a file, the name that `sets` has for it |
//! | `made` | what was made, as JSON; the last thing written. Until then it is `making` |
//!
//! A folder that is complete is left as it is, one that is not is made anew, and any other is refused.

mod checkouts;
mod numbered;
mod random;
mod writing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use crate::writing::Made;

/// Of files that other arguments or another version would have made otherwise.
const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    tree: String,
    folder: PathBuf,
    scale: f64,
    seed: u64,
    /// Source trees to make checkouts of; if there are none, sources are invented.
    bases: Vec<PathBuf>,
}

impl Request {
    /// `whole` things of the tree in full size, `least` in the smallest.
    pub(crate) fn scaled(&self, whole: u64, least: u64) -> u64 {
        ((whole as f64 * self.scale).round() as u64).max(least)
    }
}

fn main() -> ExitCode {
    let request = match parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(problem) => {
            eprintln!("dupes-trees: {problem}");
            return ExitCode::from(1);
        }
    };
    match make(&request) {
        Ok(made) => {
            print!("{made}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("dupes-trees: {}: {problem}", request.folder.display());
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let tree = arguments.next().ok_or("no tree given: a, b, c, d or e")?;
    if !["a", "b", "c", "d", "e"].contains(&tree.as_str()) {
        return Err(format!("no tree is called {tree}: there are a, b, c, d and e"));
    }
    let folder = arguments.next().ok_or("no folder given")?.into();
    let mut request = Request { tree, folder, scale: 1.0, seed: 1, bases: Vec::new() };
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
        let refused = || format!("{option} can't be {value}");
        match option.as_str() {
            "--scale" => request.scale = value.parse().map_err(|_| refused())?,
            "--seed" => request.seed = value.parse().map_err(|_| refused())?,
            "--base" => request.bases.push(value.into()),
            _ => return Err(format!("no option is called {option}")),
        }
    }
    if !(request.scale > 0.0 && request.scale <= 4.0) {
        return Err(format!("--scale can't be {}: more than 0, and 4 at the most", request.scale));
    }
    Ok(request)
}

/// The JSON that is in `made`, whether it was there already or not.
fn make(request: &Request) -> io::Result<String> {
    let (making, done) = (request.folder.join("making"), request.folder.join("made"));
    let files = request.folder.join("files");
    if let Ok(text) = fs::read_to_string(&done) {
        if text.starts_with(&key(request)) {
            return Ok(text);
        }
        // Ours, but of other arguments.
        fs::rename(&done, &making)?;
    } else if request.folder.exists() && !making.exists() {
        return Err(io::Error::other("is there, and was not made by this program"));
    }
    fs::create_dir_all(&request.folder)?;
    fs::write(&making, "")?;
    if files.exists() {
        fs::remove_dir_all(&files)?;
    }
    fs::create_dir(&files)?;

    let made = match request.tree.as_str() {
        "b" => checkouts::make(request, &files)?,
        _ => numbered::make(request, &files)?,
    };
    let text = format!("{}, {}}}\n", key(request), describe(&made));
    fs::write(request.folder.join("sets"), made.sets())?;
    fs::write(request.folder.join("links"), made.links())?;
    fs::write(&making, &text)?;
    fs::rename(&making, &done)?;
    Ok(text)
}

fn key(request: &Request) -> String {
    let Request { tree, scale, seed, bases, .. } = request;
    let names: Vec<_> = bases.iter().map(|base| base_name(base)).collect();
    // Which sources there were decides about the bytes; where they lay does not.
    let bases = random::hash(names.join("\n").as_bytes());
    format!(
        "{{\"tree\": \"{tree}\", \"version\": {VERSION}, \"scale\": {scale}, \"seed\": {seed}, \
         \"bases\": {}, \"bases_hash\": \"{bases:032x}\"",
        names.len()
    )
}

fn base_name(base: &Path) -> String {
    base.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn describe(made: &Made) -> String {
    let (files, bytes) = (made.files.len(), made.bytes());
    let (links, sets, redundant) = (made.links.len(), made.classes().len(), made.redundant());
    format!(
        "\"files\": {files}, \"bytes\": {bytes}, \"links\": {links}, \"sets\": {sets}, \
         \"redundant\": {redundant}, \"hash\": \"{:032x}\"",
        made.hash()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn made_in(folder: &Path, line: &str) -> io::Result<String> {
        let mut request = parsed(line).unwrap();
        request.folder = folder.to_owned();
        make(&request)
    }

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("dupes-trees-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_wrong_command_line_is_refused() {
        for line in ["", "f x", "a", "a x --scale", "a x --scale 0", "a x --scale 9", "a x --sed 1"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_same_arguments_make_the_same_bytes() {
        let known = [
            ("a", "9719c1dad6c8ebfa"),
            ("b", "34a3e5362f24b9cf"),
            ("c", "f631cb26c423c297"),
            ("d", "5ce83ed04d4a6454"),
            ("e", "bf95d5710d569ef9"),
        ];
        for (tree, hash) in known {
            let (one, two) = (scratch(&format!("{tree}1")), scratch(&format!("{tree}2")));
            let line = format!("{tree} x --scale 0.001");
            let first = made_in(&one, &line).unwrap();
            assert!(first.contains(hash), "tree {tree} is not what it was elsewhere: {first}");
            assert_eq!(first, made_in(&two, &line).unwrap(), "tree {tree}");
            for file in ["sets", "links"] {
                assert_eq!(fs::read(one.join(file)).unwrap(), fs::read(two.join(file)).unwrap());
            }
            assert_ne!(first, made_in(&two, &format!("{line} --seed 2")).unwrap(), "tree {tree}");
            fs::remove_dir_all(one).unwrap();
            fs::remove_dir_all(two).unwrap();
        }
    }

    #[test]
    fn a_complete_tree_is_left_alone_and_a_foreign_folder_refused() {
        let folder = scratch("again");
        made_in(&folder, "d x --scale 0.01").unwrap();
        let mark = folder.join("files/mark");
        fs::write(&mark, "").unwrap();
        made_in(&folder, "d x --scale 0.01").unwrap();
        assert!(mark.exists(), "it was made again");
        fs::rename(folder.join("made"), folder.join("making")).unwrap();
        made_in(&folder, "d x --scale 0.01").unwrap();
        assert!(!mark.exists(), "an incomplete tree was kept");

        fs::remove_file(folder.join("made")).unwrap();
        assert!(made_in(&folder, "d x --scale 0.01").is_err(), "somebody's folder was taken");
        fs::remove_dir_all(folder).unwrap();
    }
}

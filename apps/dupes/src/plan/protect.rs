//! `--protect`: what stays, whatever else is said. **It never fails open**: whatever a pattern names stays with all that
//! is below it, and one that names nothing is for whoever acts to complain of.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::GlobMatcher;

use super::{glob, is_below};

/// A pattern, as it was given and as it is understood.
#[derive(Clone, Debug)]
pub struct Guard {
    text: String,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A name, of a file or of any folder on the way.
    Name(GlobMatcher),
    /// What lies below a path: all of it, or what has a way from there that matches.
    Below { top: Vec<u8>, rest: Option<GlobMatcher>, is_there: bool },
}

/// Understands a pattern. A path in it is made real, as far as it has no wildcards and is there: the paths of files
/// have no links in them either.
pub fn guard(text: &str) -> Result<Guard, String> {
    let what = if text.is_empty() {
        return Err("it matches nothing: expected a path, or a glob as '*.jpg'".into());
    } else if text.contains('/') || matches!(text, "." | "..") {
        below(text)?
    } else {
        What::Name(glob(text)?)
    };
    Ok(Guard { text: text.to_owned(), what })
}

fn below(text: &str) -> Result<What, String> {
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    let is_fixed = |name: &&&str| !name.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let (fixed, rest) = names.split_at(names.iter().take_while(is_fixed).count());
    let start = match text.starts_with('/') || text.starts_with("**/") {
        true => PathBuf::from("/"),
        false => std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?,
    };
    let (top, missing) = real(&start, fixed)?;
    if missing.iter().chain(rest).any(|name| matches!(*name, "." | "..")) {
        return Err("no path has . or .. in it behind what is there".into());
    }
    let is_there = missing.is_empty();
    let top = missing.iter().fold(top, |top, name| top.join(name)).into_os_string().into_vec();
    let rest = match rest {
        [] => None,
        rest => Some(glob(&rest.join("/"))?),
    };
    Ok(What::Below { top, rest, is_there })
}

/// Without links, as far as it is there; and the names of the rest.
fn real<'n>(start: &Path, names: &'n [&'n str]) -> Result<(PathBuf, &'n [&'n str]), String> {
    for there in (0..=names.len()).rev() {
        let path = names[..there].iter().fold(start.to_owned(), |path, name| path.join(name));
        match path.canonicalize() {
            Ok(path) => return Ok((path, &names[there..])),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{} is not there any more", start.display()))
}

impl Guard {
    fn holds(&self, path: &[u8]) -> bool {
        let is_match = |glob: &GlobMatcher, way: &[u8]| glob.is_match(OsStr::from_bytes(way));
        match &self.what {
            What::Name(glob) => path.split(|byte| *byte == b'/').any(|name| is_match(glob, name)),
            What::Below { top, rest: None, .. } => is_below(path, top),
            What::Below { top, rest: Some(glob), .. } => {
                let from = top.strip_suffix(b"/").unwrap_or(top).len() + 1;
                let Some(way) = path.get(from..).filter(|_| is_below(path, top)) else {
                    return false;
                };
                let ends = way.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                let mut ends = ends.map(|(end, _)| end).chain([way.len()]);
                ends.any(|end| is_match(glob, &way[..end]))
            }
        }
    }

    /// It is a path that is there, with all below it: that nothing in it is there twice is no mistake.
    fn is_there(&self) -> bool {
        match &self.what {
            What::Name(_) => false,
            What::Below { rest, is_there, .. } => {
                *is_there && rest.as_ref().is_none_or(|glob| glob.glob().glob() == "**")
            }
        }
    }
}

/// All patterns, and which of them have held for anything; clones share that.
#[derive(Clone, Debug, Default)]
pub struct Protect(Arc<[(Guard, AtomicBool)]>);

impl Protect {
    /// Of these.
    pub fn new(guards: Vec<Guard>) -> Protect {
        Protect(guards.into_iter().map(|guard| (guard, AtomicBool::new(false))).collect())
    }

    /// Nothing is asked for then.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what is at a path, in full and without links, stays. Each pattern is asked.
    pub fn holds(&self, path: &[u8]) -> bool {
        self.0.iter().fold(false, |held, (guard, has_held)| {
            let holds = guard.holds(path);
            has_held.fetch_or(holds, Ordering::Relaxed);
            held | holds
        })
    }

    /// Those that have held for nothing, as they were given: perhaps somebody has mistyped them.
    pub fn idle(&self) -> impl Iterator<Item = &str> {
        let idle = |(guard, has_held): &&(Guard, AtomicBool)| {
            !has_held.load(Ordering::Relaxed) && !guard.is_there()
        };
        self.0.iter().filter(idle).map(|(guard, _)| guard.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, held: &[&str], free: &[&str]) {
        let guard = guard(pattern).unwrap();
        held.iter().for_each(|path| assert!(guard.holds(path.as_bytes()), "{pattern}: {path}"));
        free.iter().for_each(|path| assert!(!guard.holds(path.as_bytes()), "{pattern}: {path}"));
    }

    #[test]
    fn a_pattern_protects_what_it_names_and_all_below_it() {
        check("keep.txt", &["/none/keep.txt", "/keep.txt/x"], &["/none/keep.txt.old"]);
        check("*.raw", &["/none/a.raw", "/a.raw/b"], &["/none/raw"]);
        for pattern in ["/none/b", "/none/b/", "/none//b/**", "/none/b/*", "/none/[b]"] {
            check(pattern, &["/none/b/x", "/none/b/in/x"], &["/none/bb/x", "/none/x", "/b/x"]);
        }
        check("/none/*/x", &["/none/a/x", "/none/a/x/y"], &["/none/a/y", "/none/x", "/none/a/b/x"]);
        check("/none/{a/b,c}/x", &["/none/a/b/x", "/none/c/x/y"], &["/none/a/x"]);
        check("**/x/*", &["/none/x/y", "/x/y", "/a/x/y/z"], &["/none/x", "/none/xx/y"]);
        check("/", &["/none", "/a/b"], &[]);
        check("/**", &["/none", "/a/b"], &[]);
    }

    #[test]
    fn what_is_relative_begins_with_the_current_folder() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let here = here.to_str().unwrap();
        let file = format!("{here}/src/lib.rs");
        for pattern in ["src/lib.rs", "./src/*.rs", "src/", "src/**", "./src/../src/lib.rs", "."] {
            check(pattern, &[&file], &["/none/src/lib.rs"]);
        }
    }

    #[test]
    fn a_path_through_a_link_is_made_real() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("b")).unwrap();
        std::os::unix::fs::symlink("b", top.join("link")).unwrap();
        let (top, file) = (top.to_str().unwrap(), top.join("b/new/x"));
        for way in ["link", "link/", "link/**", "link/new/*", "link/../b", "link/*/x"] {
            check(&format!("{top}/{way}"), &[file.to_str().unwrap()], &["/none/b/new/x"]);
        }
        for wrong in ["", "[", "/none/[", "/none/../x", "/*/../x"] {
            assert!(guard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_holds_for_nothing_is_known() {
        let texts = ["/none/a", "/", "/**", "name", "/none/b"];
        let protect = Protect::new(texts.map(|text| guard(text).unwrap()).into());
        assert!(protect.clone().holds(b"/none/b/x"));
        assert_eq!(protect.idle().collect::<Vec<_>>(), ["/none/a", "name"]);
        assert!(!Protect::default().holds(b"/a") && Protect::default().is_empty());
    }
}

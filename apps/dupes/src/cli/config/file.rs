//! Which file is read, and how: without waiting for anybody, and no more than a person would write.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::escape::escaped;
use crate::exit::Exit;

/// Nobody has so much to say.
const LARGEST: u64 = 1 << 20;

/// Variables, as the process was given them.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Of this process.
    pub fn of_process() -> Environment {
        Environment(std::env::vars_os().collect())
    }

    /// One that is empty is not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    /// Those that are set.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        set.filter_map(|(name, _)| name.to_str())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(all: [(&str, &str); N]) -> Environment {
        Environment(all.map(|(name, value)| (name.into(), value.into())).into())
    }
}

/// Which file somebody wants to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Wanted {
    /// None.
    Nothing,
    /// This one, which must be there.
    Named(PathBuf),
    /// The usual one, if it is there. None: there is no home folder.
    Usual(Option<PathBuf>),
}

impl Wanted {
    /// From `--config`, `--no-config` and variables.
    pub(in crate::cli) fn new(flag: Option<&Path>, nothing: bool, all: &Environment) -> Wanted {
        if nothing {
            return Wanted::Nothing;
        }
        let named = flag.map(Path::to_owned).or_else(|| all.get("DUPES_CONFIG").map(Into::into));
        named.map_or_else(|| Wanted::Usual(usual(all)), Wanted::Named)
    }

    /// Where that is.
    pub(in crate::cli) fn path(&self) -> Option<&Path> {
        match self {
            Wanted::Nothing => None,
            Wanted::Named(path) => Some(path),
            Wanted::Usual(path) => path.as_deref(),
        }
    }
}

/// A relative one says nothing, by the rules of XDG.
fn usual(all: &Environment) -> Option<PathBuf> {
    let folder = |name| all.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(folder.join("dupes/config.toml"))
}

/// Why a file can't be used, and how to end then.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) text: String,
    pub(super) exit: Exit,
}

/// What is in it; None if there is none and need not be.
pub(super) fn read(wanted: &Wanted) -> Result<Option<(PathBuf, String)>, Unusable> {
    let Some(path) = wanted.path() else { return Ok(None) };
    let unusable = |what: String, exit| {
        let path = escaped(path.as_os_str().as_bytes());
        Unusable { text: format!("configuration {path}: {what}"), exit }
    };
    match contents(path) {
        Ok(text) => Ok(Some((path.to_owned(), text))),
        Err(Failed::Missing) if matches!(wanted, Wanted::Usual(_)) => Ok(None),
        // The home of somebody else, as after `sudo`: whether there is a file nobody can tell.
        Err(Failed::Unread(error))
            if matches!(wanted, Wanted::Usual(_)) && is_behind(&error, path) =>
        {
            Ok(None)
        }
        Err(Failed::Missing) => {
            Err(unusable("it was named, and there is no such file".into(), Exit::Usage))
        }
        Err(Failed::Wrong(what)) => Err(unusable(what, Exit::Usage)),
        Err(Failed::Unread(error)) => {
            Err(unusable(format!("can't be read: {error}"), Exit::CouldNotRun))
        }
    }
}

/// Not the file is closed to us, but a folder on the way.
fn is_behind(error: &io::Error, path: &Path) -> bool {
    let denied = io::ErrorKind::PermissionDenied;
    error.kind() == denied && path.metadata().is_err_and(|error| error.kind() == denied)
}

enum Failed {
    Missing,
    Wrong(String),
    Unread(io::Error),
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Failed {
        match error {
            Errno::NOENT | Errno::NOTDIR => Failed::Missing,
            error => Failed::Unread(error.into()),
        }
    }
}

fn contents(path: &Path) -> Result<String, Failed> {
    // Of a FIFO, not waiting means not to wait for one who writes; of a terminal, not to become ours.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            opened => break File::from(opened?),
        }
    };
    let found = file.metadata().map_err(Failed::Unread)?;
    if !found.is_file() {
        let what = if found.is_dir() { "it is a folder" } else { "it is no regular file" };
        return Err(Failed::Wrong(format!("{what}: expected a file with settings in TOML")));
    }
    let mut bytes = Vec::new();
    // One that grows meanwhile is not read to its end, either.
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(Failed::Unread)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failed::Wrong(
            "it is larger than 1 MiB: expected a file with settings in TOML".into(),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let whole = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + whole.iter().filter(|byte| **byte == b'\n').count();
        Failed::Wrong(format!("line {line}: it is not UTF-8, which TOML is"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(flag: Option<&str>, nothing: bool, all: Environment) -> Wanted {
        Wanted::new(flag.map(Path::new), nothing, &all)
    }

    #[test]
    fn a_flag_beats_a_variable_and_that_the_usual_place() {
        let all = || Environment::from([("DUPES_CONFIG", "v"), ("HOME", "/h")]);
        assert_eq!(wanted(Some("f"), false, all()), Wanted::Named("f".into()));
        assert_eq!(wanted(None, false, all()), Wanted::Named("v".into()));
        assert_eq!(wanted(None, true, all()), Wanted::Nothing);
    }

    #[test]
    fn the_usual_place_is_that_of_xdg() {
        let usual = |all: Environment| wanted(None, false, all).path().map(Path::to_owned);
        let at = |path: &str| Some(PathBuf::from(path));
        let home = ("HOME", "/h");
        assert_eq!(usual([home].into()), at("/h/.config/dupes/config.toml"));
        assert_eq!(usual([home, ("XDG_CONFIG_HOME", "/x")].into()), at("/x/dupes/config.toml"));
        for odd in ["", "relative"] {
            let all = [home, ("XDG_CONFIG_HOME", odd), ("DUPES_CONFIG", "")];
            assert_eq!(usual(all.into()), at("/h/.config/dupes/config.toml"), "{odd:?}");
        }
        assert_eq!(usual([].into()), None);
    }
}

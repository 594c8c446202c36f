//! A tree to act on, and what there is to know of it before and after.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::support::in_time;

/// A folder with a tree, a journal and a place for the quarantine.
#[derive(Debug)]
pub(crate) struct Acts {
    dir: TempDir,
}

/// Of each path: all that an undo has to give back.
pub(crate) type Manifest = BTreeMap<PathBuf, Item>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Bytes of a file, or where a link leads.
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) mtime: (i64, i64),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first path of the same file.
    pub(crate) same_as: PathBuf,
}

impl Acts {
    pub(crate) fn new() -> Acts {
        let acts = Acts { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(acts.tree()).unwrap();
        fs::create_dir(acts.quarantine()).unwrap();
        acts
    }

    /// With files of these names and contents.
    pub(crate) fn with(files: &[(&str, &str)]) -> Acts {
        let acts = Acts::new();
        files.iter().for_each(|(name, text)| acts.write(name, text));
        acts
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    pub(crate) fn quarantine(&self) -> PathBuf {
        self.dir.path().join("aside")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tree().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        // All of one age: links would take that from them otherwise.
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000))
            .unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub(crate) fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.path(name)).unwrap().ino()
    }

    /// The program, with these words. Nobody's configuration is read.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
        command.args(words).arg("--no-config").current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("XDG_DATA_HOME", self.dir.path().join("data"));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        let mut command = self.command(words);
        let what = format!("dupes {}", words.join(" "));
        in_time(&what, move || command.output().unwrap())
    }

    /// As somebody who may not write to what he may not write to: all is his, as it is at the first time. None, said
    /// to be skipped, where that can't be.
    pub(crate) fn as_nobody(&self, words: &[&str]) -> Option<(i32, String)> {
        let mut command = self.command(words);
        if rustix::process::geteuid().is_root() {
            // The program may lie where only root comes to.
            let program = self.beside("dupes");
            if !program.exists() {
                crate::support::copy_program_to(&program);
                let mut everything = Command::new("chown");
                everything.args(["-hR", "65534:65534"]).arg(self.dir.path());
                assert!(everything.status().unwrap().success());
            }
            let mut setpriv = Command::new("setpriv");
            setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
            command = through(setpriv, &command);
        }
        let output = in_time("as nobody", move || command.output());
        let Ok(output) = output else {
            eprintln!("skipped: needs setpriv");
            return None;
        };
        let said = [output.stdout, output.stderr].concat();
        Some((output.status.code().unwrap(), String::from_utf8(said).unwrap()))
    }

    /// Of a run that goes well: what it printed.
    #[track_caller]
    pub(crate) fn runs(&self, words: &[&str]) -> String {
        self.ends(words, 0).0
    }

    /// What it printed, to stdout and to stderr.
    #[track_caller]
    pub(crate) fn ends(&self, words: &[&str], code: i32) -> (String, String) {
        let output = self.run(words);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{err}");
        (out, err)
    }

    /// Plans to keep the first path, then does something, then carries the plan out.
    #[track_caller]
    pub(crate) fn planned(&self, action: &str, between: impl FnOnce(&Acts)) -> (i32, String) {
        self.runs(&["plan", "tree", "-o", "plan"]);
        between(self);
        self.apply(&[action, "--plan", "plan"])
    }

    /// Executes; its exit code, and all that it said.
    #[track_caller]
    pub(crate) fn apply(&self, words: &[&str]) -> (i32, String) {
        let mut all = vec!["apply"];
        all.extend(words);
        all.push("--execute");
        if words[0] == "remove" {
            all.extend(["--quarantine", "aside"]);
        }
        let output = self.run(&all);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    pub(crate) fn manifest(&self) -> Manifest {
        manifest(&self.tree())
    }
}

/// The words, folder and environment of a command behind the words of another one.
pub(crate) fn through(mut wrapper: Command, command: &Command) -> Command {
    wrapper.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    wrapper.envs(command.get_envs().map(|(name, value)| (name, value.unwrap())));
    wrapper.stdin(Stdio::null());
    wrapper
}

/// Of all files, links and folders below.
pub(crate) fn manifest(root: &Path) -> Manifest {
    let (mut all, mut first) = (Manifest::new(), HashMap::new());
    add(root, root, &mut all, &mut first);
    all
}

fn add(root: &Path, path: &Path, all: &mut Manifest, first: &mut HashMap<u64, PathBuf>) {
    let found = fs::symlink_metadata(path).unwrap();
    let name = path.strip_prefix(root).unwrap().to_owned();
    let content = if found.is_symlink() {
        fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()
    } else if found.is_file() {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    let same_as = first.entry(found.ino()).or_insert_with(|| name.clone()).clone();
    let item = Item {
        content,
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        mtime: (found.mtime(), found.mtime_nsec()),
        xattrs: if found.is_file() { xattrs(path) } else { Vec::new() },
        same_as,
    };
    all.insert(name, item);
    if found.is_dir() {
        let mut below: Vec<PathBuf> =
            fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        below.sort();
        below.iter().for_each(|path| add(root, path, all, first));
    }
}

pub(crate) fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 4096];
    let Ok(len) = rustix::fs::listxattr(path, &mut names[..]) else { return Vec::new() };
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let name = std::ffi::OsStr::from_bytes(name);
        let len = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
        value[..len].to_vec()
    };
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut all: Vec<_> = names.map(|name| (name.to_vec(), value(name))).collect();
    all.sort();
    all
}

//! Mounts of a test's own, in a namespace of its own: as root, and said to be skipped elsewhere.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::support::in_time;

/// Runs a script of the shell in which `$DIR` is a folder and `$DUPES` the program; None if the
/// machine does not allow what `needs` tries.
pub(crate) fn in_namespace(dir: &Path, needs: &str, script: &str) -> Option<Output> {
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
        command.env("DIR", dir).env("DUPES", env!("CARGO_BIN_EXE_dupes")).stdin(Stdio::null());
        in_time("a script with mounts", move || command.output())
    };
    let tried = shell(needs);
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        let why =
            tried.map_or_else(|e| e.to_string(), |t| String::from_utf8_lossy(&t.stderr).into());
        eprintln!("skipped: {}", why.trim_end());
        return None;
    }
    Some(shell(script).unwrap())
}

pub(crate) fn folder(files: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![7; 100_000]).unwrap();
    }
    dir
}

pub(crate) const BIND: &str = r#"mkdir -p "$DIR/mounted"; mount --bind "$DIR" "$DIR/mounted""#;

pub(crate) const TMPFS: &str = r#"mkdir -p "$DIR/mounted"; mount -t tmpfs none "$DIR/mounted""#;

/// A file system of this type in a file, on `$DIR/mounted`.
pub(crate) fn loop_mount(make: &str) -> String {
    format!(
        r#"mkdir -p "$DIR/mounted"; truncate -s 400M "$DIR/image"; {make} "$DIR/image" >/dev/null
        mount -o loop "$DIR/image" "$DIR/mounted""#
    )
}

/// What an action prints, with what the shell says of the tree after it.
pub(crate) fn acted(dir: &Path, needs: &str, script: &str) -> Option<String> {
    let script = format!(
        r#"export XDG_DATA_HOME="$DIR/data" HOME="$DIR"; dupes() {{ "$DUPES" "$@" --no-config 2>&1 || echo "exit $?"; }}
        {script}"#
    );
    let output = in_namespace(dir, needs, &script)?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

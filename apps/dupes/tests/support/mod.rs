//! A test binary that plays a second process, and limits on everything that could hang.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far more than anything here takes, on a machine that is busy with something else.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What `f` returns, or a panic after [`LIMIT`].
pub(crate) fn in_time<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    in_time_of(LIMIT, what, f)
}

/// The same, after another time.
pub(crate) fn in_time_of<T: Send + 'static>(
    limit: Duration,
    what: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    let helper = thread::spawn(move || {
        let _ = sender.send(f());
    });
    match receiver.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not within {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(helper.join().expect_err("it sent nothing"))
        }
    }
}

/// The program, with the signals that it is about: whoever runs the tests in the background may
/// have told them to ignore some.
pub(crate) fn dupes_with_signals() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_dupes")]);
    command
}

/// False, with a line, where system calls can't be made to fail, or held up.
pub(crate) fn can_inject() -> bool {
    let works = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "inject=getppid:error=EIO", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        eprintln!("skipped: needs strace, and the right to trace");
    }
    works
}

const PART: &str = "DUPES_TEST_PART";

/// Whether this process was started by [`Player::start`] to play this part.
pub(crate) fn plays(part: &str) -> bool {
    std::env::var(PART).is_ok_and(|own| own == part)
}

/// This binary again, which runs one test only, in which [`plays`] is true. Killed at the end.
pub(crate) struct Player {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Player {
    /// `signals` is for `env`: what it is started with does not depend on who started us.
    pub(crate) fn start(part: &str, signals: &[&str], stderr: impl Into<Stdio>) -> Player {
        let me = std::env::current_exe().unwrap();
        let mut child = Command::new("env")
            .args(signals)
            .arg(me)
            .args(["--exact", part, "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Player { child, lines }
    }

    /// Waits for a line that ends with these words; libtest writes its own before them.
    pub(crate) fn hear(&self, words: &str) {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) if line.ends_with(words) => return,
                Ok(_) => {}
                Err(error) => panic!("no {words:?}: {error}"),
            }
        }
    }

    /// Lets it go on where it waits in [`until_told`].
    pub(crate) fn tell(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Its end, after the last of its lines.
    pub(crate) fn end(mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(error) => panic!("it does not end: {error}"),
            }
        }
    }

    pub(crate) fn stderr(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// In a player: waits for [`Player::tell`].
pub(crate) fn until_told() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn write(dir: &TempDir, name: &str, text: &str) {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A copy of the program, where somebody else comes to. By another process: one that another test begins just now would
/// have the copy open for writing, too, and nobody could run it.
pub(crate) fn copy_program_to(path: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_dupes")).arg(path).status();
    assert!(copied.unwrap().success());
}

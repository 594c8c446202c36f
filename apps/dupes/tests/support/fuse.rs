//! A file system in user space, for what no other one can be made to do: as much of the kernel's protocol on
//! `/dev/fuse` as tests need, and no library. What the files are is a matter of `Files`: `tree.rs` can be read and says
//! whatever a test wants, `disk.rs` can be changed. As root, in a mount namespace of its own; said to be
//! skipped elsewhere.

#![allow(dead_code, reason = "not every binary needs all of it")]

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{LIMIT, in_time};

/// Bytes, or the number of an error.
pub(crate) type Answer = Result<Vec<u8>, i32>;

/// Who knows what is there.
pub(crate) trait Files: Send + 'static {
    /// To a request of this kind about a node. [`HELD`]: none until it is let go.
    fn answer(&mut self, kind: u32, node: u64, body: &[u8]) -> Answer;

    /// Nothing is held from now on.
    fn let_go(&mut self) {}
}

/// In the place of an error: whoever asked waits.
pub(crate) const HELD: i32 = i32::MAX;

/// A program that runs on such files, and who serves them.
pub(crate) struct Running {
    pub(crate) child: Child,
    servers: Vec<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    /// A line for each request that is held.
    held: mpsc::Receiver<()>,
    release: Vec<mpsc::Sender<()>>,
}

/// Exit code of a script that was not allowed to mount.
const REFUSED: i32 = 77;

/// Runs a script of the shell in which `$DIR` has the files and `$DUPES` is the program; None if the
/// machine has no such file systems.
pub(crate) fn start(files: impl Files, dir: &Path, script: &str) -> Option<Running> {
    start_all(vec![(dir.to_owned(), Box::new(files))], script)
}

/// The same with several; `$DIR` is the first.
pub(crate) fn start_all(all: Vec<(PathBuf, Box<dyn Files>)>, script: &str) -> Option<Running> {
    let said = |what: &str, error: io::Error| eprintln!("skipped: {what}: {error}");
    let mut command = Command::new("unshare");
    let (mut mounts, mut devices) = (String::new(), Vec::new());
    for (at, (dir, _)) in all.iter().enumerate() {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| said("/dev/fuse", error)).ok()?;
        // Whoever mounts it names the descriptor that it is served by.
        let given = device.try_clone().unwrap();
        let number = if at == 0 { 0 } else { std::os::fd::AsRawFd::as_raw_fd(&given) };
        mounts += &format!(
            "mount -i -t fuse -o fd={number},rootmode=40000,user_id=0,group_id=0 odd '{}' || exit {REFUSED}\n",
            dir.display()
        );
        if at == 0 {
            command.stdin(given);
        } else {
            rustix::io::fcntl_setfd(&given, rustix::io::FdFlags::empty()).unwrap();
            devices.push(given);
        }
        devices.push(device);
    }
    command.args(["--mount", "--propagation", "private", "env", "--default-signal=INT"]);
    command.args(["sh", "-c", &format!("{mounts} {{ {script}\n }} </dev/null")]);
    command.env("DIR", &all[0].0).env("DUPES", env!("CARGO_BIN_EXE_dupes"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| said("unshare", error)).ok()?;
    drop(command);
    let over = Arc::new(AtomicBool::new(false));
    let (told, held) = mpsc::channel();
    let (mut servers, mut release) = (Vec::new(), Vec::new());
    // Those that were given are the child's.
    devices.retain(|device| !rustix::io::fcntl_getfd(device).unwrap().is_empty());
    for (device, (_, files)) in devices.into_iter().zip(all) {
        let (let_go, released) = mpsc::channel();
        let server = Server { device, files, held: VecDeque::new(), told: told.clone(), released };
        let over = Arc::clone(&over);
        servers.push(thread::spawn(move || server.serve(&over)));
        release.push(let_go);
    }
    Some(Running { child, servers, over, held, release })
}

/// Runs it to its end.
pub(crate) fn run(files: impl Files, dir: &Path, script: &str) -> Option<Output> {
    start(files, dir, script)?.end()
}

impl Running {
    /// Until a request is held; false if it has ended before.
    pub(crate) fn until_a_read_is_held(&mut self) -> bool {
        let since = Instant::now();
        while self.held.recv_timeout(Duration::from_millis(10)).is_err() {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(since.elapsed() < LIMIT, "nobody reads");
        }
        true
    }

    /// Requests that were held fail.
    pub(crate) fn let_go(&self) {
        self.release.iter().for_each(|release| release.send(()).unwrap());
    }

    pub(crate) fn end(self) -> Option<Output> {
        let output = in_time("its end", move || self.child.wait_with_output().unwrap());
        self.over.store(true, SeqCst);
        for server in self.servers {
            in_time("the end of its files", move || server.join().unwrap());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(REFUSED) || said.starts_with("unshare:") {
            eprintln!("skipped: {}", said.trim_end());
            return None;
        }
        Some(output)
    }
}

struct Server {
    device: File,
    files: Box<dyn Files>,
    /// Requests that nobody has answered.
    held: VecDeque<u64>,
    told: mpsc::Sender<()>,
    released: mpsc::Receiver<()>,
}

/// Requests by their numbers.
pub(crate) mod ask {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const FORGET_MANY: u32 = 42;
    pub(crate) const RENAME2: u32 = 45;
}

pub(crate) const ENOENT: i32 = 2;
pub(crate) const EIO: i32 = 5;
const EPERM: i32 = 1;
const ENODEV: i32 = 19;
pub(crate) const ENOSYS: i32 = 38;
/// Bytes before what is asked.
const HEAD: usize = 40;
impl Server {
    /// Until nobody has it mounted.
    fn serve(mut self, over: &AtomicBool) {
        let mut request = vec![0; 1 << 18];
        loop {
            while self.released.try_recv().is_ok() {
                self.files.let_go();
                while let Some(held) = self.held.pop_front() {
                    self.reply(held, Err(EIO));
                }
            }
            match self.next(&mut request) {
                Ok(Some(length)) => self.handle(&request[..length]),
                Ok(None) if over.load(SeqCst) => return,
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(ENODEV) => return,
                Err(error) => panic!("a request: {error}"),
            }
        }
    }

    /// None: there is none yet.
    fn next(&mut self, request: &mut [u8]) -> io::Result<Option<usize>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let a_moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let mut device = [PollFd::new(&self.device, PollFlags::IN)];
        if poll(&mut device, Some(&a_moment))? == 0 {
            return Ok(None);
        }
        match self.device.read(request) {
            Ok(length) => Ok(Some(length)),
            // Nobody has mounted it so far.
            Err(error) if error.raw_os_error() == Some(EPERM) => {
                thread::park_timeout(Duration::from_millis(1));
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            // The request was taken back.
            Err(error) if error.raw_os_error() == Some(ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn handle(&mut self, request: &[u8]) {
        let (kind, unique, node) = (u32_at(request, 4), u64_at(request, 8), u64_at(request, 16));
        let body = &request[HEAD..];
        let answer = match kind {
            ask::FORGET | ask::FORGET_MANY | ask::INTERRUPT => return, // no answer is wanted
            ask::INIT => Ok(greeting(body)),
            kind => self.files.answer(kind, node, body),
        };
        if answer == Err(HELD) {
            self.held.push_back(unique);
            return self.told.send(()).unwrap_or_default();
        }
        self.reply(unique, answer);
    }

    fn reply(&mut self, unique: u64, answer: Answer) {
        let (error, body) = answer.map_or_else(|error| (-error, Vec::new()), |body| (0, body));
        let length = (16 + body.len()) as u32;
        let head = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes()];
        let answer = [&head.concat()[..], &body].concat();
        // An error: whoever asked is gone.
        let _ = self.device.write(&answer);
    }
}

/// That we speak as the kernel does, in version 7.31, and can do nothing special.
fn greeting(body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(&7_u32.to_ne_bytes());
    bytes[4..8].copy_from_slice(&31_u32.to_ne_bytes());
    bytes[8..12].copy_from_slice(&body[8..12]); // how far to read ahead
    bytes[20..24].copy_from_slice(&4_096_u32.to_ne_bytes()); // the longest write
    bytes
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// When a process has ended but for threads that its files hold.
pub(crate) fn until_it_has_ended(id: u32) {
    let is_over = || {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_none_or(|state| state.trim().starts_with('Z'))
    };
    while !is_over() {
        thread::park_timeout(Duration::from_millis(1));
    }
}

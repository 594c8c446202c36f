//! A file system in user space, for what no other one can be made to do: it says of its files whatever a
//! test wants. As much of the kernel's protocol on `/dev/fuse` as it takes to list and to read, and no
//! library. As root, in a mount namespace of its own; said to be skipped elsewhere.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::{LIMIT, in_time};

/// A file, or a folder.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    /// What `stat` says, whether it is true or not.
    pub(crate) inode: u64,
    pub(crate) links: u32,
    /// Of the last change, of content and of anything, in seconds.
    pub(crate) changed: u64,
    /// None: a folder.
    pub(crate) bytes: Option<Vec<u8>>,
    /// In which folder: its place in the list, or `TOP`.
    pub(crate) parent: usize,
}

/// The folder of all.
pub(crate) const TOP: usize = usize::MAX;

impl Node {
    pub(crate) fn file(name: &'static str, inode: u64, bytes: Vec<u8>) -> Node {
        Node { name, inode, links: 1, changed: 1_000, bytes: Some(bytes), parent: TOP }
    }

    pub(crate) fn folder(name: &'static str, inode: u64) -> Node {
        Node { name, inode, links: 2, changed: 1_000, bytes: None, parent: TOP }
    }

    pub(crate) fn within(self, parent: usize) -> Node {
        Node { parent, ..self }
    }
}

/// What is there, and how it behaves.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// What is there instead, from the moment on when a file is opened: everything was listed by then.
    pub(crate) later: Option<Vec<Node>>,
    /// A name finds a file that is spelled in another case.
    pub(crate) folds_case: bool,
    /// Whoever reads waits until it is let go.
    pub(crate) holds_reads: bool,
}

/// A program that runs on a tree, and who serves that.
pub(crate) struct Running {
    pub(crate) child: Child,
    server: JoinHandle<()>,
    over: Arc<AtomicBool>,
    /// A line for each read that is held.
    held: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
}

/// Exit code of a script that was not allowed to mount.
const REFUSED: i32 = 77;

/// Runs a script of the shell in which `$DIR` is the tree and `$DUPES` the program; None if the machine
/// has no such file systems.
pub(crate) fn start(tree: Tree, dir: &Path, script: &str) -> Option<Running> {
    let said = |what: &str, error: io::Error| eprintln!("skipped: {what}: {error}");
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| said("/dev/fuse", error)).ok()?;
    let mount = format!(
        "mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 odd \"$DIR\" || exit {REFUSED}"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "env", "--default-signal=INT"]);
    command.args(["sh", "-c", &format!("{mount}; {{ {script}; }} </dev/null")]);
    command.env("DIR", dir).env("DUPES", env!("CARGO_BIN_EXE_dupes"));
    // Whoever mounts it names the descriptor that it is served by.
    command.stdin(device.try_clone().unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| said("unshare", error)).ok()?;
    drop(command);
    let over = Arc::new(AtomicBool::new(false));
    let ((told, held), (release, released)) = (mpsc::channel(), mpsc::channel());
    let server = Server { device, tree, held: VecDeque::new(), told, released };
    let server = thread::spawn({
        let over = Arc::clone(&over);
        move || server.serve(&over)
    });
    Some(Running { child, server, over, held, release })
}

/// Runs it to its end.
pub(crate) fn run(tree: Tree, dir: &Path, script: &str) -> Option<Output> {
    start(tree, dir, script)?.end()
}

impl Running {
    /// Until a read is held; false if it has ended before.
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

    /// Reads that were held fail.
    pub(crate) fn let_go(&self) {
        self.release.send(()).unwrap();
    }

    pub(crate) fn end(self) -> Option<Output> {
        let output = in_time("its end", move || self.child.wait_with_output().unwrap());
        self.over.store(true, SeqCst);
        in_time("the end of its files", move || self.server.join().unwrap());
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
    tree: Tree,
    /// Requests that nobody has answered.
    held: VecDeque<u64>,
    told: mpsc::Sender<()>,
    released: mpsc::Receiver<()>,
}

/// Requests by their numbers.
mod ask {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const FORGET_MANY: u32 = 42;
}

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EPERM: i32 = 1;
const ENODEV: i32 = 19;
const ENOSYS: i32 = 38;
/// Bytes before what is asked.
const HEAD: usize = 40;
/// The kernel keeps no bytes.
const DIRECT: u32 = 1;

type Answer = Result<Vec<u8>, i32>;

impl Server {
    /// Until nobody has it mounted.
    fn serve(mut self, over: &AtomicBool) {
        let mut request = vec![0; 1 << 18];
        loop {
            while self.released.try_recv().is_ok() {
                self.tree.holds_reads = false;
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
            ask::LOOKUP => self.look_up(node, body),
            ask::GETATTR => Ok(self.attributes(node, 16)),
            ask::OPEN => {
                if let Some(later) = self.tree.later.take() {
                    self.tree.nodes = later;
                }
                Ok([&[0; 8][..], &DIRECT.to_ne_bytes(), &[0; 4]].concat())
            }
            ask::READ if self.tree.holds_reads => {
                self.held.push_back(unique);
                return self.told.send(()).unwrap_or_default();
            }
            ask::READ => Ok(self.read(node, body)),
            ask::OPENDIR => Ok(vec![0; 16]),
            ask::READDIR => Ok(self.list(node, body)),
            ask::STATFS => Ok(vec![0; 80]),
            ask::RELEASE | ask::RELEASEDIR | ask::FLUSH => Ok(Vec::new()),
            _ => Err(ENOSYS),
        };
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

    /// Nodes go by their place in the list, after the top, which is 1.
    fn node(&self, number: u64) -> Option<&Node> {
        self.tree.nodes.get((number as usize).checked_sub(2)?)
    }

    fn in_folder(&self, number: u64) -> impl Iterator<Item = (u64, &Node)> {
        let parent = (number as usize).checked_sub(2).unwrap_or(TOP);
        let all = self.tree.nodes.iter().enumerate().map(|(at, node)| (at as u64 + 2, node));
        all.filter(move |(_, node)| node.parent == parent)
    }

    fn look_up(&self, folder: u64, name: &[u8]) -> Answer {
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let is_it = |node: &Node| match self.tree.folds_case {
            true => node.name.as_bytes().eq_ignore_ascii_case(name),
            false => node.name.as_bytes() == name,
        };
        let found = self.in_folder(folder).find(|(_, node)| is_it(node));
        let (number, _) = found.ok_or(ENOENT)?;
        // Its number, and that nothing of it may be kept; then what it is.
        Ok([&number.to_ne_bytes()[..], &self.attributes(number, 32)].concat())
    }

    /// After so many zero bytes: how long they may be kept.
    fn attributes(&self, number: u64, kept: usize) -> Vec<u8> {
        let top = Node::folder("", 1);
        let node = self.node(number).unwrap_or(&top);
        let size = node.bytes.as_ref().map_or(0, Vec::len) as u64;
        let mode: u32 = if node.bytes.is_some() { 0o100_644 } else { 0o040_755 };
        let long = [node.inode, size, size.div_ceil(512), 0, node.changed, node.changed];
        let short = [0, 0, 0, mode, node.links, 0, 0, 0, 4_096, 0];
        let mut bytes = vec![0; kept];
        bytes.extend(long.iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend(short.iter().flat_map(|number| number.to_ne_bytes()));
        bytes
    }

    fn read(&self, number: u64, body: &[u8]) -> Vec<u8> {
        let bytes = self.node(number).and_then(|node| node.bytes.as_deref()).unwrap_or_default();
        let begin = (u64_at(body, 8) as usize).min(bytes.len());
        let end = (begin + u32_at(body, 16) as usize).min(bytes.len());
        bytes[begin..end].to_vec()
    }

    fn list(&self, folder: u64, body: &[u8]) -> Vec<u8> {
        let (offset, room) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
        let mut bytes = Vec::new();
        for (at, (_, node)) in self.in_folder(folder).enumerate().skip(offset) {
            let kind: u32 = if node.bytes.is_some() { 8 } else { 4 };
            let next = at as u64 + 1;
            let mut entry = [node.inode.to_ne_bytes(), next.to_ne_bytes()].concat();
            entry.extend((node.name.len() as u32).to_ne_bytes());
            entry.extend(kind.to_ne_bytes());
            entry.extend(node.name.as_bytes());
            entry.resize(entry.len().next_multiple_of(8), 0);
            if bytes.len() + entry.len() > room {
                break;
            }
            bytes.extend(entry);
        }
        bytes
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
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

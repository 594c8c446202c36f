//! A tree that says of its files whatever a test wants, and that can only be read.

use crate::fuse::{Answer, ENOENT, ENOSYS, Files, HELD, ask, u32_at, u64_at};

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

/// The kernel keeps no bytes.
const DIRECT: u32 = 1;

impl Files for Tree {
    fn answer(&mut self, kind: u32, node: u64, body: &[u8]) -> Answer {
        match kind {
            ask::LOOKUP => self.look_up(node, body),
            ask::GETATTR => Ok(self.attributes(node, 16)),
            ask::OPEN => {
                if let Some(later) = self.later.take() {
                    self.nodes = later;
                }
                Ok([&[0; 8][..], &DIRECT.to_ne_bytes(), &[0; 4]].concat())
            }
            ask::READ if self.holds_reads => Err(HELD),
            ask::READ => Ok(self.read(node, body)),
            ask::OPENDIR => Ok(vec![0; 16]),
            ask::READDIR => Ok(self.list(node, body)),
            ask::STATFS => Ok(vec![0; 80]),
            ask::RELEASE | ask::RELEASEDIR | ask::FLUSH => Ok(Vec::new()),
            _ => Err(ENOSYS),
        }
    }

    fn let_go(&mut self) {
        self.holds_reads = false;
    }
}

impl Tree {
    /// Nodes go by their place in the list, after the top, which is 1.
    fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get((number as usize).checked_sub(2)?)
    }

    fn in_folder(&self, number: u64) -> impl Iterator<Item = (u64, &Node)> {
        let parent = (number as usize).checked_sub(2).unwrap_or(TOP);
        let all = self.nodes.iter().enumerate().map(|(at, node)| (at as u64 + 2, node));
        all.filter(move |(_, node)| node.parent == parent)
    }

    fn look_up(&self, folder: u64, name: &[u8]) -> Answer {
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let is_it = |node: &Node| match self.folds_case {
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

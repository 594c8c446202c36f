//! A disk in memory as the kernel asks for it. Of bytes nothing may be kept, and of names only if it says so.

use crate::disk::{Disk, Kind, Node, State, TOP};
use crate::fuse::{Answer, EIO, ENOENT, ENOSYS, Files, ask, u32_at, u64_at};

/// All of a disk, seen in this way.
pub(crate) struct Served {
    pub(crate) disk: Disk,
    pub(crate) view: u64,
}

/// The kernel keeps no bytes.
const OPENED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

/// For its bits in a number.
const VIEW: u32 = 32;

fn number(node: Node) -> u64 {
    ((node.view << VIEW) | node.object as u64) + 2
}

impl Files for Served {
    fn answer(&mut self, kind: u32, node: u64, body: &[u8]) -> Answer {
        let node = self.node(node);
        let disk = self.disk.clone();
        let mut state = disk.state();
        let state = &mut *state;
        match kind {
            ask::LOOKUP => {
                let found = state.find(node, names(body)[0])?;
                Ok(entry(state, found.1))
            }
            ask::GETATTR => Ok(attributes(state, node, 16)),
            ask::SETATTR => set(state, node, body),
            ask::READLINK => match &state.object(node).kind {
                Kind::Link(target) => Ok(target.clone()),
                _ => Err(ENOENT),
            },
            ask::SYMLINK => {
                let [name, target] = names(body)[..] else { return Err(EIO) };
                Ok(made(state, node, name, Kind::Link(target.to_vec()), 0o777))
            }
            ask::MKDIR => {
                let mode = u32_at(body, 0) & !u32_at(body, 4) & 0o7777;
                Ok(made(state, node, names(&body[8..])[0], Kind::Folder(Vec::new()), mode))
            }
            ask::UNLINK | ask::RMDIR => state.leave(node, names(body)[0]).map(|()| Vec::new()),
            ask::RENAME | ask::RENAME2 => {
                let (flags, after) =
                    if kind == ask::RENAME { (0, 8) } else { (u32_at(body, 8), 16) };
                let [name, new] = names(&body[after..])[..] else { return Err(EIO) };
                let to = self.node(u64_at(body, 0));
                state.rename((node, name), (to, new), flags).map(|()| Vec::new())
            }
            ask::LINK => {
                let file = self.node(u64_at(body, 0));
                state.enter(node, names(&body[8..])[0], file);
                Ok(entry(state, file))
            }
            ask::CREATE => {
                let mode = u32_at(body, 4) & !u32_at(body, 8) & 0o7777;
                let new = made(state, node, names(&body[16..])[0], Kind::File(Vec::new()), mode);
                Ok([&new[..], &OPENED].concat())
            }
            ask::OPEN => Ok(OPENED.into()),
            ask::READ => read(state, node, body),
            ask::WRITE => write(state, node, body),
            ask::OPENDIR => Ok(vec![0; 16]),
            ask::READDIR => list(state, node, body),
            ask::STATFS => Ok(vec![0; 80]),
            ask::RELEASE | ask::RELEASEDIR | ask::FLUSH | ask::FSYNC | ask::FSYNCDIR => {
                Ok(Vec::new())
            }
            _ => Err(ENOSYS),
        }
    }
}

impl Served {
    fn node(&self, number: u64) -> Node {
        match number.checked_sub(2) {
            None => Node { view: self.view, ..TOP },
            Some(rest) => Node { view: rest >> VIEW, object: (rest & ((1 << VIEW) - 1)) as usize },
        }
    }
}

/// Each with a zero behind it.
fn names(body: &[u8]) -> Vec<&[u8]> {
    let mut names: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
    names.pop();
    names
}

/// Its number, and how long that and the rest may be kept; then what it is.
fn entry(state: &mut State, node: Node) -> Vec<u8> {
    let mut bytes = [&number(node).to_ne_bytes()[..], &attributes(state, node, 32)].concat();
    let kept = state.kept_for().to_ne_bytes();
    bytes[16..24].copy_from_slice(&kept);
    bytes[24..32].copy_from_slice(&kept);
    bytes
}

/// As seen in its folder.
fn made(state: &mut State, folder: Node, name: &[u8], kind: Kind, mode: u32) -> Vec<u8> {
    let node = Node { view: folder.view, ..state.make(kind, mode) };
    let now = state.now();
    let object = state.object(node);
    (object.atime, object.mtime) = (now, now);
    state.enter(folder, name, node);
    entry(state, node)
}

/// After so many zero bytes: how long they may be kept.
fn attributes(state: &mut State, node: Node, kept: usize) -> Vec<u8> {
    let inode = state.number(node);
    let object = state.object(node);
    let (kind, size) = match &object.kind {
        Kind::File(bytes) => (0o100_000, bytes.len() as u64),
        Kind::Folder(_) => (0o040_000, 0),
        Kind::Link(target) => (0o120_000, target.len() as u64),
    };
    let (atime, mtime, ctime) = (object.atime, object.mtime, object.ctime);
    let long = [inode, size, size.div_ceil(512), atime.0, mtime.0, ctime.0];
    let (user, group) = object.owner;
    let mode = kind | object.mode;
    let short = [atime.1, mtime.1, ctime.1, mode, object.links, user, group, 0, 4_096, 0];
    let mut bytes = vec![0; kept];
    bytes.extend(long.iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend(short.iter().flat_map(|number| number.to_ne_bytes()));
    bytes
}

fn set(state: &mut State, node: Node, body: &[u8]) -> Answer {
    let now = state.now();
    let object = state.object(node);
    let asks_for = |bit: u32| u32_at(body, 0) & (1 << bit) != 0;
    if asks_for(0) {
        object.mode = u32_at(body, 68) & 0o7777;
    }
    if asks_for(1) {
        object.owner.0 = u32_at(body, 76);
    }
    if asks_for(2) {
        object.owner.1 = u32_at(body, 80);
    }
    if asks_for(3)
        && let Kind::File(bytes) = &mut object.kind
    {
        bytes.resize(u64_at(body, 16) as usize, 0);
        object.mtime = now;
    }
    if asks_for(4) {
        object.atime = (u64_at(body, 32), u32_at(body, 56));
    }
    if asks_for(5) {
        object.mtime = (u64_at(body, 40), u32_at(body, 60));
    }
    state.changed(node);
    Ok(attributes(state, node, 16))
}

fn read(state: &mut State, node: Node, body: &[u8]) -> Answer {
    let object = state.object(node);
    let Kind::File(bytes) = &object.kind else { return Err(EIO) };
    // For tests: `chmod 0` breaks it.
    if object.mode == 0 {
        return Err(EIO);
    }
    let begin = (u64_at(body, 8) as usize).min(bytes.len());
    let end = (begin + u32_at(body, 16) as usize).min(bytes.len());
    Ok(bytes[begin..end].to_vec())
}

fn write(state: &mut State, node: Node, body: &[u8]) -> Answer {
    let (at, len) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
    let now = state.now();
    let object = state.object(node);
    let Kind::File(bytes) = &mut object.kind else { return Err(EIO) };
    bytes.resize(bytes.len().max(at + len), 0);
    bytes[at..at + len].copy_from_slice(&body[40..40 + len]);
    object.mtime = now;
    state.changed(node);
    Ok([len as u32, 0].iter().flat_map(|number| number.to_ne_bytes()).collect())
}

fn list(state: &mut State, folder: Node, body: &[u8]) -> Answer {
    let (offset, room) = (u64_at(body, 8) as usize, u32_at(body, 16) as usize);
    let mut bytes = Vec::new();
    for (at, one) in state.entries(folder)?.clone().iter().enumerate().skip(offset) {
        let node = state.seen(folder, one, &one.name);
        let kind: u32 = match &state.object(node).kind {
            Kind::File(_) => 8,
            Kind::Folder(_) => 4,
            Kind::Link(_) => 10,
        };
        let next = at as u64 + 1;
        let mut entry = [state.number(node).to_ne_bytes(), next.to_ne_bytes()].concat();
        entry.extend((one.name.len() as u32).to_ne_bytes());
        entry.extend(kind.to_ne_bytes());
        entry.extend(&one.name);
        entry.resize(entry.len().next_multiple_of(8), 0);
        if bytes.len() + entry.len() > room {
            break;
        }
        bytes.extend(entry);
    }
    Ok(bytes)
}

//! Which of a file's bytes on disk are its own.
//!
//! The one place for calls of the system that have no safe wrapper, so that `dupes` itself needs no
//! unsafe code.

use std::io;

use rustix::fd::AsFd;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// The head of `struct fiemap` in the kernel's `linux/fiemap.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The last one of the file.
const LAST: u32 = 0x1;
/// Another file, or a snapshot, has it as well.
const SHARED: u32 = 0x2000;

/// So many are asked for at a time.
const ROOM: usize = 64;

/// What is handed to the kernel: the head says how many extents there is room for behind it.
#[repr(C)]
struct Request {
    head: Head,
    extents: [Extent; ROOM],
}

/// `FS_IOC_FIEMAP`. Its number is made of the size of the head alone.
const FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);

const _: () = assert!(size_of::<Head>() == 32 && size_of::<Extent>() == 56);

/// Bytes of a file on disk that nobody shares with it, as far as they have been written there. An
/// error where the file system can't say.
pub fn unshared_bytes(file: impl AsFd) -> io::Result<u64> {
    let mut own = 0;
    let mut start = 0;
    loop {
        let length = u64::MAX - start;
        let head = Head { start, length, room: ROOM as u32, ..Head::default() };
        let mut request = Request { head, extents: [Extent::default(); ROOM] };
        // SAFETY: the kernel reads the head and writes to it and to at most `room` extents behind
        // it, which is how many there are; both have the layout of its header, and any bytes are a
        // value of theirs.
        unsafe { ioctl(&file, Updater::<FIEMAP, Request>::new(&mut request))? };
        let mapped = &request.extents[..(request.head.mapped as usize).min(ROOM)];
        own +=
            mapped.iter().filter(|one| one.flags & SHARED == 0).map(|one| one.length).sum::<u64>();
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => return Ok(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    /// On a file system that can say: more extents than fit into one answer.
    #[test]
    fn every_piece_of_a_file_with_holes_is_its_own() {
        const PIECE: usize = 4_096;
        let mut file = tempfile::tempfile().unwrap();
        let pieces = 3 * ROOM as u64;
        for piece in 0..pieces {
            file.seek(SeekFrom::Start(piece * 4 * PIECE as u64)).unwrap();
            file.write_all(&[1; PIECE]).unwrap();
        }
        file.sync_all().unwrap();
        match unshared_bytes(&file) {
            Ok(bytes) => assert_eq!(bytes, pieces * PIECE as u64),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn an_empty_file_has_none_and_a_device_can_not_say() {
        if let Ok(bytes) = unshared_bytes(tempfile::tempfile().unwrap()) {
            assert_eq!(bytes, 0);
        }
        assert!(unshared_bytes(File::open("/dev/null").unwrap()).is_err());
    }
}

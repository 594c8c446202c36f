//! Which of a file's bytes on disk are its own, and how two files come to share theirs.
//!
//! The one place for calls of the system that have no safe wrapper, so that `dupes` itself needs no
//! unsafe code.

use std::io;
use std::os::fd::AsRawFd;

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
/// Where it is, is not known.
const UNKNOWN: u32 = 0x2;
/// It has no place yet.
const WAITING: u32 = 0x4;
/// It lies among what the file system knows of the file.
const INLINE: u32 = 0x200;
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
    let all = all(file)?;
    Ok(all.iter().filter(|one| one.flags & SHARED == 0).map(|one| one.length).sum())
}

/// Whether a file has all of its blocks from another one already, or is so small that it lies where the file system keeps
/// names and times, and has none. An error where the file system can't say.
pub fn has_nothing_to_share(from: impl AsFd, file: impl AsFd) -> io::Result<bool> {
    let (there, here) = (all(from)?, all(file)?);
    let place = |one: &Extent| (one.logical, one.physical, one.length);
    let is_inline = |one: &Extent| one.flags & INLINE != 0;
    let is_known = |one: &Extent| one.flags & (UNKNOWN | WAITING | INLINE) == 0;
    Ok(here.iter().all(is_inline)
        || here.iter().all(is_known) && here.iter().map(place).eq(there.iter().map(place)))
}

fn all(file: impl AsFd) -> io::Result<Vec<Extent>> {
    let mut all = Vec::new();
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
        all.extend_from_slice(mapped);
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => return Ok(all),
        }
    }
}

/// The head of `struct file_dedupe_range` in the kernel's `linux/fs.h`.
#[repr(C)]
struct Source {
    offset: u64,
    length: u64,
    destinations: u16,
    reserved_16: u16,
    reserved_32: u32,
}

/// `struct file_dedupe_range_info`.
#[repr(C)]
struct Destination {
    file: i64,
    offset: u64,
    shared: u64,
    status: i32,
    reserved: u32,
}

/// What is handed to the kernel: the head says how many destinations are behind it.
#[repr(C)]
struct Ranges {
    source: Source,
    destination: Destination,
}

/// `FIDEDUPERANGE`. Its number is made of the size of the head alone.
const DEDUPE: Opcode = opcode::read_write::<Source>(0x94, 54);

const _: () = assert!(size_of::<Source>() == 24 && size_of::<Destination>() == 32);

/// Bytes of the destination were not those of the source.
const DIFFERS: i32 = 1;

/// Lets a range of one file share the blocks of another one, if the bytes are the same: the kernel compares, and
/// keeps everybody from writing meanwhile. How many bytes are shared now, from the beginning of the range:
/// perhaps fewer than asked for; 0 if they differ.
pub fn dedupe(
    from: impl AsFd,
    from_offset: u64,
    to: impl AsFd,
    to_offset: u64,
    length: u64,
) -> io::Result<u64> {
    let mut ranges = Ranges {
        source: Source {
            offset: from_offset,
            length,
            destinations: 1,
            reserved_16: 0,
            reserved_32: 0,
        },
        destination: Destination {
            file: to.as_fd().as_raw_fd().into(),
            offset: to_offset,
            shared: 0,
            status: 0,
            reserved: 0,
        },
    };
    // SAFETY: the kernel reads the head and writes to as many destinations behind it as it says: one, which
    // is there. Both have the layout of its header, and any bytes are a value of theirs. The descriptor
    // that is passed by number is borrowed until after the call.
    unsafe { ioctl(&from, Updater::<DEDUPE, Ranges>::new(&mut ranges))? };
    match ranges.destination.status {
        0 => Ok(ranges.destination.shared),
        DIFFERS => Ok(0),
        error => Err(io::Error::from_raw_os_error(-error)),
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

    /// Where it is not supported it is an error, never a copy.
    #[test]
    fn bytes_are_shared_only_if_they_are_the_same() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file.sync_all().unwrap();
            file
        };
        let (one, same, other) = (file(&[1; 8_192]), file(&[1; 8_192]), file(&[2; 8_192]));
        match dedupe(&one, 0, &same, 0, 8_192) {
            Ok(shared) => {
                assert_eq!(shared, 8_192);
                assert_eq!(dedupe(&one, 0, &other, 0, 8_192).unwrap(), 0);
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
        for mut file in [&one, &same, &other] {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
            assert_eq!(bytes.len(), 8_192);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        }
        assert!(dedupe(&one, 0, File::open("/dev/null").unwrap(), 0, 1).is_err());
    }
}

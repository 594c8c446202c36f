//! Whether two files have the same bytes, just now.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::facts::Facts;
use super::why::Why;
use crate::buffers::with_buffer;
use crate::digest::Hasher;
use crate::stop::Stop;

/// Read at a time, of each.
const PIECE: usize = 256 << 10;

/// Compares all bytes of two files that are as these facts say, before and after. `hasher` is fed with them.
pub fn compare(
    (one, facts): (&File, &Facts),
    (other, others): (&File, &Facts),
    mut hasher: Option<&mut Hasher>,
    stop: &Stop,
) -> Result<(), Why> {
    if facts.size != others.size {
        return Err(Why::Differs);
    }
    with_buffer(2 * PIECE, |buffer| {
        let (mine, theirs) = buffer.split_at_mut(PIECE);
        let mut at = 0;
        loop {
            if stop.is_asked() {
                return Err(Why::Stopped);
            }
            let len = fill(one, mine, at)?;
            // One that was cut short or has grown meanwhile shows here, or by its facts below.
            if fill(other, theirs, at)? != len || mine[..len] != theirs[..len] {
                return Err(Why::Differs);
            }
            if let Some(hasher) = &mut hasher {
                hasher.update(&mine[..len]);
            }
            at += len as u64;
            if len < PIECE {
                break;
            }
        }
        if at != facts.size { Err(Why::Changed) } else { Ok(()) }
    })?;
    for (file, facts) in [(one, facts), (other, others)] {
        if !Facts::of(file)?.is_as_written(facts) {
            return Err(Why::Changed);
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
pub fn fill(file: &File, buffer: &mut [u8], at: u64) -> Result<usize, Why> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Why::Failed("read it", errno(&error))),
        }
    }
    Ok(filled)
}

/// Of an error of the system.
pub fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    fn outcome(one: &[u8], other: &[u8]) -> Result<(), Why> {
        let dir = tempfile::tempdir().unwrap();
        let open = |name, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(path).unwrap();
            let facts = Facts::of(&file).unwrap();
            (file, facts)
        };
        let (one_is, other_is) = (open("one", one), open("other", other));
        let mut hasher = Hasher::new(Algorithm::Blake3);
        compare(
            (&one_is.0, &one_is.1),
            (&other_is.0, &other_is.1),
            Some(&mut hasher),
            &Stop::new(),
        )?;
        assert_eq!(hasher.finish(), Algorithm::Blake3.digest(one));
        Ok(())
    }

    #[test]
    fn every_byte_counts() {
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 77] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert_eq!(outcome(&bytes, &bytes), Ok(()), "{len}");
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_eq!(outcome(&bytes, &other), Err(Why::Differs), "{at} of {len}");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(outcome(&bytes, &longer), Err(Why::Differs), "{len}");
        }
    }

    #[test]
    fn who_is_told_to_stop_claims_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "a").unwrap();
        let file = File::open(dir.path().join("a")).unwrap();
        let facts = Facts::of(&file).unwrap();
        let stop = Stop::new();
        stop.ask();
        assert_eq!(compare((&file, &facts), (&file, &facts), None, &stop), Err(Why::Stopped));
    }
}

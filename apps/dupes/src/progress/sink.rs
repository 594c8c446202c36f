//! A stderr that may be full, stopped or gone, and is never waited for for long.
//!
//! What was begun is finished before anything else, so that no object is torn; what comes meanwhile
//! is left out: who reads too slowly sees less. Not through `io::Stderr`'s own lock, which a write
//! that does not return would hold for ever.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

const AT_ONCE: usize = 4_096;

/// A descriptor, and what it has not taken yet.
pub(super) struct Sink<F> {
    to: F,
    rest: Vec<u8>,
}

impl<F: AsFd> Sink<F> {
    pub(super) fn new(to: F) -> Sink<F> {
        Sink { to, rest: Vec::new() }
    }

    /// Writes it if that takes no time. An error means that nobody will ever read it.
    pub(super) fn offer(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.rest.is_empty() {
            self.rest.extend_from_slice(bytes);
        }
        self.push(Instant::now())
    }

    /// Writes it after all that is left, within this time.
    pub(super) fn insist(&mut self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        self.rest.extend_from_slice(bytes);
        self.push(Instant::now() + limit)
    }

    /// Nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn push(&mut self, until: Instant) -> io::Result<()> {
        while !self.rest.is_empty() && self.is_ready(until)? {
            // No more than a pipe has room for that takes anything: a longer write would wait.
            let next = self.rest.len().min(AT_ONCE);
            match write(&self.to, &self.rest[..next]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => drop(self.rest.drain(..taken)),
                Err(Errno::INTR) => {}
                // It is not, after all: the next time.
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether a write would return, be it with an error.
    fn is_ready(&self, until: Instant) -> io::Result<bool> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], Some(&left)) {
                Err(Errno::INTR) => {}
                result => return Ok(result? > 0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// More than any pipe holds.
    fn much() -> Vec<u8> {
        (0..10_000_000_u32).map(|n| n as u8).collect()
    }

    /// A write to a full pipe returns only if the pipe says so.
    fn pipe() -> (io::PipeReader, Sink<io::PipeWriter>) {
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        (reader, Sink::new(writer))
    }

    #[test]
    fn what_fits_is_written_at_once() {
        let (mut reader, mut sink) = pipe();
        sink.offer(b"one\n").unwrap();
        sink.insist(b"two\n", Duration::ZERO).unwrap();
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn a_full_one_loses_offers_and_tears_none() {
        let (mut reader, mut sink) = pipe();
        sink.offer(&much()).unwrap();
        assert!(!sink.rest.is_empty(), "it does not fit");
        sink.offer(b"lost").unwrap();
        sink.insist(b"last", Duration::from_millis(1)).unwrap();
        let mut all = Vec::new();
        let mut part = vec![0; 1 << 20];
        while !sink.rest.is_empty() {
            let read = reader.read(&mut part).unwrap();
            all.extend_from_slice(&part[..read]);
            sink.offer(b"lost").unwrap();
        }
        drop(sink);
        reader.read_to_end(&mut all).unwrap();
        assert!(all == [&much()[..], b"last"].concat(), "{} bytes", all.len());
    }

    #[test]
    fn a_closed_one_is_an_error() {
        let (reader, mut sink) = pipe();
        drop(reader);
        let error = sink.offer(b"one").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = Sink::new(full).offer(b"one").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

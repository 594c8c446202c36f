//! A connection on which no wait outlasts its deadline, or the run.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A client, as a reader and a writer.
pub(super) struct Line<'a> {
    client: &'a TcpStream,
    over: &'a UnixStream,
    until: Instant,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        client: &'a TcpStream,
        over: &'a UnixStream,
        until: Instant,
    ) -> io::Result<Line<'a>> {
        client.set_nonblocking(true)?;
        Ok(Line { client, over, until })
    }

    /// Says that nothing follows.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.client.shutdown(Shutdown::Write)
    }

    fn wait(&self, events: PollFlags) -> io::Result<()> {
        wait_for(Some(PollFd::new(self.client, events)), self.over, Some(self.until))
    }
}

impl Read for Line<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // First, or a client that sends without a pause would never hear of its deadline.
            self.wait(PollFlags::IN)?;
            match self.client.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            // Before a wait: who has asked in time gets what fits, also if the run is just over.
            match self.client.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            self.wait(PollFlags::OUT)?;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// To be waited for until there is something to read or to accept.
pub(super) fn readable(of: &impl AsFd) -> PollFd<'_> {
    PollFd::new(of, PollFlags::IN)
}

/// Waits until it is ready; an error once the time is up, or the other end of `over` is.
pub(super) fn wait_for(
    what: Option<PollFd<'_>>,
    over: &UnixStream,
    until: Option<Instant>,
) -> io::Result<()> {
    let mut both: Vec<PollFd<'_>> = [readable(over)].into_iter().chain(what).collect();
    loop {
        match poll(&mut both, left(until)?.as_ref()) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if !both[0].revents().is_empty() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if both.get(1).is_some_and(|what| !what.revents().is_empty()) {
            return Ok(());
        }
    }
}

/// How long; None is for ever.
fn left(until: Option<Instant>) -> io::Result<Option<Timespec>> {
    let Some(until) = until else { return Ok(None) };
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Timespec::try_from(left).map(Some).map_err(io::Error::other)
}

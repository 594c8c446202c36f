//! `--metrics`: what a run is doing, for Prometheus, while it runs.
//!
//! One pool does it all: a worker that takes connections, and one for each that may be open.
//! Nobody in it waits for a client alone: every wait is for the client, until a deadline, or until
//! the run is over. So the end of a run never waits for a scrape.

mod http;
mod line;

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown as Half, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use tidegate::{Budget, Exporter, Pool, Shutdown};

use crate::find::Pools;
use crate::tally::Tally;
use http::Answer;
use line::{Line, wait_for};

/// Connections that may be open; what comes above that is closed at once.
const SEATS: usize = 8;

/// How long a client may take, from its first byte to our last.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the end of a run may wait for pages on their way, and for who does not hear that.
pub(crate) const LAST_PAGES: Duration = Duration::from_millis(500);
pub(crate) const LAST_GRACE: Duration = Duration::from_millis(250);

/// Before the next try after a connection could not be taken, for want of descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves `GET /metrics` on this address until it is dropped.
///
/// An error names the address.
pub fn serve(addr: SocketAddr, pools: Pools, tally: Arc<Tally>) -> io::Result<Served> {
    open(addr, pools, tally).map_err(|error| {
        io::Error::new(error.kind(), format!("can't serve metrics on {addr}: {error}"))
    })
}

fn open(addr: SocketAddr, pools: Pools, tally: Arc<Tally>) -> io::Result<Served> {
    let listener = TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let (end, over) = UnixStream::pair()?;
    // The listener has a worker for itself, so that it never waits for a client.
    let pool = Pool::builder("metrics").workers(1 + SEATS).queue(SEATS).build();
    let pool = pool.map_err(io::Error::other)?;
    let served = Served { addr, end, pool: pool.clone() };
    let page = Arc::new(Page { exporter: Exporter::new(), pools, tally, over });
    let seats = Budget::new("metrics", SEATS as u64);
    let listen = move || take_connections(&listener, &pool, &seats, &page);
    served.pool.spawn(listen).map_err(|refused| io::Error::other(refused.to_string()))?;
    Ok(served)
}

/// Metrics are served while this lives; its drop takes less than a second.
#[derive(Debug)]
#[must_use = "dropping it ends the service"]
pub struct Served {
    addr: SocketAddr,
    /// `Page::over` ends when this does.
    end: UnixStream,
    pool: Pool,
}

impl Served {
    /// Where; with the port that the system chose if none was asked for.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // An error would mean that it has ended already.
        let _ = self.end.shutdown(Half::Both);
        let how = Shutdown::light().within(LAST_PAGES);
        // Only a task of the pool would be refused, and none has us.
        let _ = self.pool.shutdown(how.grace(LAST_GRACE));
    }
}

/// What every connection needs.
struct Page {
    exporter: Exporter,
    pools: Pools,
    tally: Arc<Tally>,
    over: UnixStream,
}

fn take_connections(listener: &TcpListener, pool: &Pool, seats: &Budget, page: &Arc<Page>) {
    while wait_for(Some(line::readable(listener)), &page.over, None).is_ok() {
        match listener.accept() {
            Ok((stream, _)) => {
                let page = Arc::clone(page);
                let seat = pool.task("scrape").budget(seats, 1);
                // Refused: the drop of the work has hung up.
                let _ = seat.try_spawn(move |_| page.scrape(&stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                // Whether the pause is over or the run, the next wait knows.
                let _ = wait_for(None, &page.over, Some(Instant::now() + PAUSE));
            }
        }
    }
}

impl Page {
    /// A client that is too slow, or gone, gets nothing, and nobody needs to know.
    fn scrape(&self, stream: &TcpStream) {
        let line = Line::new(stream, &self.over, Instant::now() + PATIENCE);
        let _ = line.and_then(|line| self.answer(line));
    }

    fn answer(&self, mut line: Line<'_>) -> io::Result<()> {
        let answer = http::read_request(&mut line)?;
        let body = if answer == Answer::Page { self.render() } else { String::new() };
        line.write_all(&answer.response(&body))?;
        line.finish()?;
        // With something unread a close would be a reset, which can overtake what was answered.
        while line.read(&mut [0; 4096])? > 0 {}
        Ok(())
    }

    fn render(&self) -> String {
        for pool in (self.pools)() {
            // It knows most of them. Refused would be another one of the same name.
            let _ = self.exporter.add(&pool);
        }
        let mut text = self.exporter.render();
        for (name, help, counter) in COUNTERS {
            let value = Tally::get(counter(&self.tally));
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
        }
        text
    }
}

/// Name, HELP, and where it is counted.
const COUNTERS: [(&str, &str, fn(&Tally) -> &AtomicU64); 9] = [
    ("dupes_folders_total", "Folders that were looked into.", |tally| &tally.folders),
    ("dupes_files_total", "Files that were seen and fit the filters.", |tally| &tally.files),
    ("dupes_file_bytes_total", "Bytes of those files.", |tally| &tally.bytes),
    ("dupes_reads_wanted_total", "Reads of files known to be needed.", |tally| &tally.reads_wanted),
    ("dupes_reads_total", "Reads of files that were done.", |tally| &tally.reads_done),
    ("dupes_read_bytes_wanted_total", "Bytes known to be needed.", |tally| {
        &tally.read_bytes_wanted
    }),
    ("dupes_read_bytes_total", "Bytes that were read.", |tally| &tally.read_bytes_done),
    ("dupes_unread_total", "Files and folders that could not be read.", |tally| &tally.unread),
    ("dupes_unstable_total", "Files that changed while they were read.", |tally| &tally.unstable),
];

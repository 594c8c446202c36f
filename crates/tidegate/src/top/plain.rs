//! Draws frames where a terminal's keys can't be had one by one.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};

use super::{COLUMNS, EVERY, Top};
use crate::spawn;

impl Top {
    /// Draws the pools once a second on standard output, until a line `q` comes, the input
    /// ends, or the last pool has stopped.
    pub fn run(&mut self) -> io::Result<()> {
        let (tell, told) = channel();
        // Ends with the input, or with the line that ends us.
        let read = move || {
            let mut lines = io::stdin().lock().lines().map_while(Result::ok);
            lines.any(|line| line.trim().eq_ignore_ascii_case("q"));
            drop(tell);
        };
        spawn::spawn("tidegate-top".to_owned(), None, None, read)?;
        loop {
            let frame = self.frame(COLUMNS);
            let mut screen = io::stdout().lock();
            write!(screen, "\x1b[2J\x1b[H{frame}q and Enter: quit\n")?;
            screen.flush()?;
            drop(screen);
            if self.all_have_stopped() {
                return Ok(()); // the reader stays until there is something to read
            }
            if told.recv_timeout(EVERY) == Err::<(), _>(RecvTimeoutError::Disconnected) {
                return Ok(());
            }
        }
    }
}

//! Draws frames in a terminal until somebody presses `q`.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{COLUMNS, EVERY, Top};

/// What a terminal that does not say has.
const ROWS: usize = 24;

impl Top {
    /// Draws the pools once a second in the terminal of this process, until `q` or Ctrl-C is
    /// pressed, its input ends, or the last pool has stopped. The terminal is as it was
    /// afterwards.
    ///
    /// An error if standard input is no terminal.
    pub fn run(&mut self) -> io::Result<()> {
        let mut screen = io::stdout();
        let raw = Raw::enter(io::stdin().as_raw_fd(), screen.as_raw_fd())?;
        loop {
            let (columns, rows) = raw.size();
            let frame = self.frame(columns);
            let (lines, room) = (frame.lines().count(), rows.saturating_sub(1));
            let mut text = String::from("\x1b[H");
            for line in frame.lines().take(room) {
                text.push_str(line);
                text.push_str("\x1b[K\r\n"); // and nothing of what was there
            }
            let hidden = match lines.saturating_sub(room) {
                0 => String::new(),
                hidden => format!(", {hidden} more lines do not fit"),
            };
            let last: String = format!("q: quit{hidden}").chars().take(columns).collect();
            text.push_str(&format!("\x1b[2m{last}\x1b[0m\x1b[K\x1b[J"));
            screen.write_all(text.as_bytes())?;
            screen.flush()?;
            if self.all_have_stopped() {
                return Ok(());
            }
            if raw.asks_to_quit(EVERY)? {
                return Ok(());
            }
        }
    }
}

fn is_quit(key: u8) -> bool {
    matches!(key, b'q' | b'Q' | 3 | 4) // Ctrl-C and Ctrl-D are keys in this mode
}

/// A terminal that gives keys at once and shows another screen, until it is dropped.
struct Raw {
    input: i32,
    output: i32,
    before: libc::termios,
}

impl Raw {
    fn enter(input: i32, output: i32) -> io::Result<Raw> {
        // SAFETY: a plain struct of numbers, filled by the next call.
        let mut before = unsafe { std::mem::zeroed::<libc::termios>() };
        // SAFETY: an open descriptor and a struct to fill.
        if unsafe { libc::tcgetattr(input, &mut before) } != 0 {
            return Err(io::Error::other("the live view needs a terminal as its input"));
        }
        let raw = Raw { input, output, before };
        let mut mode = before;
        mode.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        // SAFETY: an open descriptor and a valid struct.
        if unsafe { libc::tcsetattr(input, libc::TCSANOW, &mode) } != 0 {
            return Err(io::Error::last_os_error());
        }
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l\x1b[2J")?;
        Ok(raw)
    }

    /// Columns and rows.
    fn size(&self) -> (usize, usize) {
        // SAFETY: a plain struct of numbers, filled by the next call.
        let mut size = unsafe { std::mem::zeroed::<libc::winsize>() };
        // SAFETY: an open descriptor and a struct to fill.
        let told = unsafe { libc::ioctl(self.output, libc::TIOCGWINSZ, &mut size) } == 0;
        let or = |said: u16, usual| if told && said > 0 { usize::from(said) } else { usual };
        (or(size.ws_col, COLUMNS), or(size.ws_row, ROWS))
    }

    /// Whether a key says so before that time is over, or there are no more keys.
    fn asks_to_quit(&self, time: Duration) -> io::Result<bool> {
        if !self.key_within(time)? {
            return Ok(false);
        }
        let mut keys = [0_u8; 64];
        // Not through `io::stdin`, whose buffer `poll` does not see.
        // SAFETY: an open descriptor, and as much room as said.
        let count = unsafe { libc::read(self.input, keys.as_mut_ptr().cast(), keys.len()) };
        match usize::try_from(count) {
            Ok(count) => Ok(count == 0 || keys[..count].iter().copied().any(is_quit)),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Whether there is something to read before that time is over.
    fn key_within(&self, time: Duration) -> io::Result<bool> {
        let mut asked = libc::pollfd { fd: self.input, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        let ready = unsafe { libc::poll(&mut asked, 1, time.as_millis() as libc::c_int) };
        match (ready, io::Error::last_os_error()) {
            (-1, error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            (-1, error) => Err(error),
            (ready, _) => Ok(ready > 0),
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        // SAFETY: an open descriptor and the struct it gave us.
        unsafe { libc::tcsetattr(self.input, libc::TCSANOW, &self.before) };
    }
}

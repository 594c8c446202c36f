//! How a run ends, as the shell sees it. The help, the man page and `main` all take it from here.

use std::process::ExitCode;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All was read.
    Complete = 0,
    /// The command line makes no sense.
    Usage = 1,
    /// It could not begin, or not go on.
    CouldNotRun = 2,
    /// It came to its end, but not all was read.
    Unread = 3,
    /// Ctrl-C, or another signal that asks to stop.
    Interrupted = 130,
    /// Whoever read the listing went away.
    ClosedPipe = 141,
}

impl Exit {
    /// All of them, by rising code.
    pub const ALL: [Exit; 6] = [
        Exit::Complete,
        Exit::Usage,
        Exit::CouldNotRun,
        Exit::Unread,
        Exit::Interrupted,
        Exit::ClosedPipe,
    ];

    /// The code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Complete => "complete: everything was read",
            Exit::Usage => {
                "the command line or the configuration was wrong, or nobody agreed: nothing was done"
            }
            Exit::CouldNotRun => "could not run, or not go on",
            Exit::Unread => "finished, but something was not read, or not done: see stderr",
            Exit::Interrupted => "interrupted",
            Exit::ClosedPipe => "the reader of the output closed the pipe",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

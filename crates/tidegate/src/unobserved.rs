//! Failures that no handle will ever see, and where they go by default.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ids::TaskId;
use crate::second::{Admitted, Second};
use crate::text::write_on_one_line;

/// A failure that nobody would see otherwise, as told to `on_unobserved`.
///
/// A fire-and-forget task failed, a handle with an error in it was dropped
/// unread, a pool was dropped with work left, or a callback or hook panicked.
/// Log it or count it; nothing waits for an answer. Without a hook of your own
/// it is printed on stderr, at most ten a second; or, with feature `tracing` and
/// a subscriber that wants it, an event.
///
/// Printed as one line, with line breaks in the message made visible; the
/// [`message`](Unobserved::message) itself is as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unobserved {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// What happened.
    pub kind: UnobservedKind,
    /// The name of the task or hook; may be empty.
    pub name: &'static str,
    /// The task, if it is about one.
    pub id: Option<TaskId>,
    /// The text of the error or panic; may be empty.
    pub message: String,
}

/// What happened, in an [`Unobserved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnobservedKind {
    /// A task returned an error that nobody collects.
    Failed,
    /// A task panicked and nobody collects that.
    Panicked,
    /// A task that nobody waits for ran out of time.
    TimedOut,
    /// A task that nobody waits for was told to stop, did not return within the grace, and may
    /// still run.
    Abandoned,
    /// The last `Pool` was dropped with this many tasks unsettled. They go on in
    /// the background and are lost if the process ends first: call `shutdown`.
    DroppedWithWork(u64),
    /// An `on_outcome` callback panicked. Its task keeps its outcome.
    CallbackPanicked,
    /// A hook of the pool panicked.
    HookPanicked,
    /// A worker could not be started, or made no state. It is tried again, with a pause.
    WorkerFailed,
}

impl fmt::Display for UnobservedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnobservedKind::Failed => f.write_str("failed"),
            UnobservedKind::Panicked => f.write_str("panicked"),
            UnobservedKind::TimedOut => f.write_str("timed out"),
            UnobservedKind::Abandoned => f.write_str("abandoned"),
            UnobservedKind::DroppedWithWork(1) => f.write_str("dropped with 1 task unsettled"),
            UnobservedKind::DroppedWithWork(n) => write!(f, "dropped with {n} tasks unsettled"),
            UnobservedKind::CallbackPanicked => f.write_str("on_outcome callback panicked"),
            UnobservedKind::HookPanicked => f.write_str("hook panicked"),
            UnobservedKind::WorkerFailed => f.write_str("worker failed"),
        }
    }
}

impl fmt::Display for Unobserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {:?}: ", self.pool)?;
        let of_a_task = matches!(self.kind, UnobservedKind::Failed | UnobservedKind::Panicked);
        if of_a_task || self.id.is_some() {
            f.write_str("task ")?;
        }
        if !self.name.is_empty() {
            write_on_one_line(f, self.name)?;
            f.write_str(" ")?;
        }
        if let Some(id) = self.id {
            write!(f, "{id} ")?;
        }
        write!(f, "{}", self.kind)?;
        if self.message.is_empty() {
            return Ok(());
        }
        f.write_str(": ")?;
        write_on_one_line(f, &self.message)
    }
}

/// The hook of a pool that has none: at most [`Second::MOST`] lines on stderr in
/// a second, and then one that says how many were left out. Whatever is left over
/// when the pool goes is said then.
#[derive(Debug, Default)]
pub(crate) struct StderrLimiter {
    second: Mutex<Second>,
}

impl StderrLimiter {
    pub(crate) fn report(&self, event: &Unobserved, now_ns: u64) {
        if let Some(text) = self.text_for(event, now_ns) {
            write_to_stderr(&text);
        }
    }

    /// Says how many lines were left out, if any were.
    pub(crate) fn flush(&self) {
        let left_out = self.second().take_left_out();
        if left_out > 0 {
            write_to_stderr(&left_out_line(left_out));
        }
    }

    /// What to print for `event`, if anything. Decided under the lock, formatted
    /// and written outside it.
    fn text_for(&self, event: &Unobserved, now_ns: u64) -> Option<String> {
        let admitted = self.second().admit(now_ns);
        match admitted {
            Admitted::LeaveOut => None,
            Admitted::Say { left_out: 0 } => Some(format!("tidegate: {event}\n")),
            Admitted::SayLast => {
                Some(format!("tidegate: {event} (more within this second are only counted)\n"))
            }
            Admitted::Say { left_out } => {
                Some(format!("{}tidegate: {event}\n", left_out_line(left_out)))
            }
        }
    }

    fn second(&self) -> std::sync::MutexGuard<'_, Second> {
        self.second.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StderrLimiter {
    fn drop(&mut self) {
        self.flush();
    }
}

fn left_out_line(count: u64) -> String {
    format!("tidegate: {count} more unobserved failures were left out here\n")
}

/// In one piece, so that lines of different threads don't mix. Not `eprintln!`,
/// which panics when stderr is closed.
fn write_to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Unobserved {
        Unobserved {
            pool: "images".into(),
            kind: UnobservedKind::Failed,
            name: "resize",
            id: Some(TaskId { hi: 1, lo: 2 }),
            message: "no ink".into(),
        }
    }

    #[test]
    fn an_event_is_one_line_that_says_where_and_what() {
        let dropped = Unobserved {
            kind: UnobservedKind::DroppedWithWork(12),
            name: "",
            id: None,
            message: String::new(),
            ..failed()
        };
        let hook = Unobserved {
            kind: UnobservedKind::HookPanicked,
            name: "on_worker_start",
            id: None,
            message: "left != right\n left: 1".into(),
            ..failed()
        };
        assert_eq!(failed().to_string(), "pool \"images\": task resize t1-2 failed: no ink");
        assert_eq!(dropped.to_string(), "pool \"images\": dropped with 12 tasks unsettled");
        assert_eq!(
            hook.to_string(),
            "pool \"images\": on_worker_start hook panicked: left != right\\n left: 1"
        );
    }

    #[test]
    fn a_long_message_is_cut_in_the_line_and_whole_in_the_field() {
        let event = Unobserved { message: "é".repeat(501), ..failed() };
        assert!(event.to_string().ends_with("é …"));
        assert_eq!(event.message.chars().count(), 501);
        let event = Unobserved { message: "é".repeat(500), ..failed() };
        assert!(event.to_string().ends_with("éé"));
    }

    #[test]
    fn the_count_of_what_was_left_out_is_said_once() {
        let limiter = StderrLimiter::default();
        let printed = (0..15).filter_map(|now| limiter.text_for(&failed(), now)).count();
        assert_eq!(printed, 10);
        let text = limiter.text_for(&failed(), 2_000_000_000).unwrap();
        assert_eq!(
            text,
            "tidegate: 5 more unobserved failures were left out here\n\
             tidegate: pool \"images\": task resize t1-2 failed: no ink\n"
        );
        assert_eq!(limiter.second().take_left_out(), 0);
    }

    #[test]
    fn a_flush_ends_the_count_but_not_the_second() {
        let limiter = StderrLimiter::default();
        let printed = |_: &u64| limiter.text_for(&failed(), 0).is_some();
        assert_eq!((0..12).filter(printed).count(), 10);
        limiter.flush();
        assert_eq!(limiter.second().take_left_out(), 0);
        assert_eq!(limiter.text_for(&failed(), 0), None);
    }
}

//! What a pool tells `tracing` (V2), with the feature of that name: a span for each task that
//! has a name, and events.
//!
//! Both halves have the same functions; without the feature they are empty. A subscriber is
//! user code: it may panic, block or call the pool. So each call of it
//!
//! - is made by a caller, a worker or the reaper, never by the supervisor nor under a lock;
//! - comes before a task is offered, while it runs, or after its outcome is out: never between
//!   claim and publication, where a task could be lost;
//! - is caught and counted as a panicking hook, counts as code of the pool (it never waits for
//!   the pool, R8), and is not traced itself, or it would have to trace that, too.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::decide::Closing;
use crate::ids::WorkerId;
use crate::reaper::Chore;
use crate::report::{Mode, Report};

#[cfg(not(feature = "tracing"))]
mod disabled;
#[cfg(feature = "tracing")]
mod enabled;
#[cfg(not(feature = "tracing"))]
use disabled as chosen;
#[cfg(feature = "tracing")]
use enabled as chosen;

pub(crate) use chosen::{
    Said, TaskSpan, abandoned, listens, listens_to, returned_late, silently, tell, worker_failed,
};

/// What happened to the pool as a whole.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code))]
pub(crate) enum News {
    WorkerRestarted(WorkerId),
    Resized { from: usize, to: usize },
    ShutdownBegun { mode: Mode, deadline: Option<Duration> },
    ShutdownEscalated { mode: Mode, deadline: Option<Duration>, late: bool },
    ShutdownEnded(Box<Report>),
}

impl News {
    /// What a request or a limit made of a shutdown, if it changed anything.
    pub(crate) fn of_closing(before: Option<Closing>, now: Closing) -> Option<News> {
        let never = crate::clock::Ticks::NEVER;
        let deadline = (now.hard_at != never).then(|| now.hard_at.since(now.began));
        let (mode, late) = (now.mode, now.late);
        match before {
            None => Some(News::ShutdownBegun { mode, deadline }),
            Some(before) => ((before.mode, before.hard_at) != (mode, now.hard_at))
                .then_some(News::ShutdownEscalated { mode, deadline, late }),
        }
    }
}

impl Core {
    /// Lets the reaper tell it, for threads that may not run user code and for news that
    /// should come in their order.
    pub(crate) fn tell_later(self: &Arc<Self>, news: News) {
        if listens_to(&news) {
            self.reap(Chore::Tell(news));
        }
    }
}

//! Settling on behalf of threads that may not run user code.
//!
//! The supervisor and `Token::cancel` only claim. What remains (dropping captures,
//! waking, callbacks) is done here, on a thread that is started when there is a chore
//! and ends when there is none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::cell::Kind;
use crate::clock::Ticks;
use crate::core::Core;
use crate::frames;
use crate::ids::{TaskId, WorkerId};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::queue::Item;
use crate::settle;
use crate::spawn::{self, Joiner};
use crate::token::Token;
use crate::trace::{self, News};
use crate::unobserved::UnobservedKind;

#[derive(Debug)]
pub(crate) enum Chore {
    /// Claimed in the queue.
    Unstarted(Item, Kind, Cause),
    /// Claimed while running.
    Abandoned(CellRef, Cause),
    /// Counted already, and without a cell: only told.
    AbandonedInline(TaskId),
    WorkerFailed(WorkerId, String),
    Tell(News),
    CancelToken(Token),
    /// Futures whose time to wait is up.
    Wake(Vec<Waker>),
    /// For a future that waits for room.
    RoomIsFree,
    /// For futures that wait for room: the first was told and has not come.
    PassOn,
}

#[derive(Debug, Default)]
pub(crate) struct Reaper {
    chores: VecDeque<Chore>,
    /// Threads at work, or about to be: one, and more if those before hang in user code.
    busy: usize,
    /// Chores done so far, and when that was last seen to change, in real time.
    done: u64,
    seen: (u64, Ticks),
    /// Threads whose joiner is not in `threads` yet.
    starting: usize,
    threads: Vec<Joiner>,
    /// Refused threads in a row.
    failures: u32,
}

/// A chore that takes longer hangs, as far as those behind it are concerned.
const STALLED_AFTER: Duration = Duration::from_millis(50);
/// So many hanging destructors at a time are made up for.
const MAX_BUSY: usize = 16;
/// After so many refused threads the supervisor does the chores itself: a slow destructor
/// then delays its watch, but a task without an outcome would be worse.
const HOPELESS_AFTER: u32 = 3;

impl Reaper {
    /// Nothing to do and nobody at it.
    pub(crate) fn is_idle(&self) -> bool {
        self.chores.is_empty() && self.busy == 0 && self.starting == 0
    }

    /// Those that have left their loop; none that may hang.
    pub(crate) fn take_idle_threads(&mut self) -> Vec<Joiner> {
        if self.busy == 0 { std::mem::take(&mut self.threads) } else { Vec::new() }
    }
}

impl Core {
    pub(crate) fn reap(self: &Arc<Self>, chore: Chore) {
        self.reaper.lock().chores.push_back(chore);
        self.start_reaper();
        self.wake_supervisor(); // to see to it that it gets done
    }

    /// Starts the reaper's thread if there are chores and nobody at them. If the system
    /// refuses, the supervisor is woken and tries again.
    pub(crate) fn start_reaper(self: &Arc<Self>) {
        let old = {
            let mut reaper = self.reaper.lock();
            if reaper.busy > 0 || reaper.chores.is_empty() {
                return;
            }
            reaper.busy += 1;
            reaper.starting += 1;
            std::mem::take(&mut reaper.threads)
        };
        old.into_iter().for_each(Joiner::join); // they have left their loops
        if !self.driver.start_reaper(self) {
            self.start_reaper_thread();
        }
    }

    /// Does chores on the calling thread, and whatever else is there.
    pub(crate) fn reap_here(self: &Arc<Self>, chores: impl Iterator<Item = Chore>) {
        {
            let mut reaper = self.reaper.lock();
            reaper.chores.extend(chores);
            reaper.busy += 1;
        }
        self.wake_supervisor(); // in case a destructor hangs here
        self.do_chores();
    }

    /// Sends another thread if those at work have hung in user code for a while (or, in the
    /// end, at all) and left chores undone. True if one was sent.
    pub(crate) fn relieve_reaper(self: &Arc<Self>, real_now: Ticks, in_the_end: bool) -> bool {
        {
            let mut reaper = self.reaper.lock();
            if reaper.done != reaper.seen.0 || reaper.chores.is_empty() {
                reaper.seen = (reaper.done, real_now);
            }
            let stalled = in_the_end || real_now.since(reaper.seen.1) >= STALLED_AFTER;
            let undone = !reaper.chores.is_empty() && (1..MAX_BUSY).contains(&reaper.busy);
            if !stalled || !undone {
                return false;
            }
            reaper.seen.1 = real_now;
            reaper.busy += 1;
            reaper.starting += 1;
        }
        self.start_reaper_thread()
    }

    /// A reaper that is no thread begins, or was dropped instead.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn reaper_started(self: &Arc<Self>, begins: bool) {
        let mut reaper = self.reaper.lock();
        reaper.starting -= 1;
        if !begins {
            reaper.busy -= 1;
            drop(reaper);
            self.start_reaper();
        }
    }

    /// The caller has counted it. True if it could be started.
    fn start_reaper_thread(self: &Arc<Self>) -> bool {
        let core = Arc::clone(self);
        let name = format!("{}-reaper", self.name);
        let body = move || frames::enter(core.address(), None, || core.do_chores());
        let started = spawn::spawn(name, None, self.config.spawner.as_ref(), body);
        let mut reaper = self.reaper.lock();
        reaper.starting -= 1;
        match started {
            Ok(thread) => {
                reaper.threads.push(thread);
                reaper.failures = 0;
                true
            }
            Err(_) => {
                reaper.busy -= 1;
                reaper.failures += 1;
                drop(reaper);
                self.wake_supervisor();
                false
            }
        }
    }

    /// The supervisor's last resort.
    pub(crate) fn do_chores_if_nobody_can(self: &Arc<Self>) {
        let mine = {
            let mut reaper = self.reaper.lock();
            let mine = reaper.busy == 0 && reaper.failures >= HOPELESS_AFTER;
            reaper.busy += usize::from(mine);
            reaper.failures = if mine { 0 } else { reaper.failures };
            mine
        };
        if mine {
            // News are not worth it: what must not be lost then goes to stderr.
            trace::silently(|| frames::enter(self.address(), None, || self.do_chores()));
        }
    }

    pub(crate) fn do_chores(self: &Arc<Self>) {
        loop {
            let chore = {
                let mut reaper = self.reaper.lock();
                match reaper.chores.pop_front() {
                    Some(chore) => chore,
                    None => {
                        reaper.busy -= 1;
                        break;
                    }
                }
            };
            self.do_chore(chore);
            self.reaper.lock().done += 1;
        }
        self.wake_supervisor();
    }

    fn do_chore(self: &Arc<Self>, chore: Chore) {
        match chore {
            Chore::Unstarted(item, kind, cause) => {
                settle::settle_item(item, kind, Some(cause), self);
            }
            Chore::Abandoned(cell, cause) => settle::settle_abandoned(cell, cause, self),
            Chore::AbandonedInline(id) => {
                trace::abandoned(self, "", id, None);
                self.unobserved(UnobservedKind::Abandoned, "", Some(id), String::new());
            }
            Chore::WorkerFailed(worker, cause) => self.worker_failed(worker, &cause),
            Chore::Tell(news) => trace::tell(self, news),
            Chore::CancelToken(token) => token.cancel(),
            Chore::Wake(wakers) => self.wake(wakers),
            Chore::RoomIsFree => self.room_is_free(),
            Chore::PassOn => self.pass_the_turn_on(),
        }
    }
}

//! Settling on behalf of threads that may not run user code.
//!
//! The supervisor and `Token::cancel` only claim. What remains (dropping captures,
//! waking, callbacks) is done here, on a thread that is started when there is a chore
//! and ends when there is none.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cell::{CellRef, Kind};
use crate::core::Core;
use crate::frames;
use crate::outcome::Cause;
use crate::queue::Item;
use crate::settle;
use crate::spawn::{self, Joiner};
use crate::token::Token;

#[derive(Debug)]
pub(crate) enum Chore {
    /// Claimed in the queue.
    Cancelled(Item, Cause),
    /// Claimed while running.
    Abandoned(CellRef, Cause),
    CancelToken(Token),
}

#[derive(Debug, Default)]
pub(crate) struct Reaper {
    chores: VecDeque<Chore>,
    /// A thread is at work, or about to be.
    busy: bool,
    thread: Option<Joiner>,
    /// Refused threads in a row.
    failures: u32,
}

/// After so many refused threads the supervisor does the chores itself: a slow destructor
/// then delays its watch, but a task without an outcome would be worse.
const HOPELESS_AFTER: u32 = 3;

impl Reaper {
    /// Nothing to do and nobody at it.
    pub(crate) fn is_idle(&self) -> bool {
        self.chores.is_empty() && !self.busy
    }

    pub(crate) fn take_thread(&mut self) -> Option<Joiner> {
        if self.busy { None } else { self.thread.take() }
    }
}

impl Core {
    pub(crate) fn reap(self: &Arc<Self>, chore: Chore) {
        self.reaper.lock().chores.push_back(chore);
        self.start_reaper();
    }

    /// Starts the reaper's thread if there are chores and nobody at them. If the system
    /// refuses, the supervisor is woken and tries again.
    pub(crate) fn start_reaper(self: &Arc<Self>) {
        let old = {
            let mut reaper = self.reaper.lock();
            if reaper.busy || reaper.chores.is_empty() {
                return;
            }
            reaper.busy = true;
            reaper.thread.take()
        };
        if let Some(old) = old
            && !old.is_current()
        {
            old.join(); // it has left its loop
        }
        let core = Arc::clone(self);
        let name = format!("{}-reaper", self.name);
        let body = move || frames::enter(core.address(), None, || core.do_chores());
        let started = spawn::spawn(name, None, self.config.spawner.as_ref(), body);
        let mut reaper = self.reaper.lock();
        match started {
            Ok(thread) => {
                reaper.thread = Some(thread);
                reaper.failures = 0;
            }
            Err(_) => {
                reaper.busy = false;
                reaper.failures += 1;
                drop(reaper);
                self.wake_supervisor();
            }
        }
    }

    /// The supervisor's last resort.
    pub(crate) fn do_chores_if_nobody_can(self: &Arc<Self>) {
        let mine = {
            let mut reaper = self.reaper.lock();
            let mine = !reaper.busy && reaper.failures >= HOPELESS_AFTER;
            reaper.busy |= mine;
            reaper.failures = if mine { 0 } else { reaper.failures };
            mine
        };
        if mine {
            frames::enter(self.address(), None, || self.do_chores());
        }
    }

    fn do_chores(self: &Arc<Self>) {
        loop {
            let chore = {
                let mut reaper = self.reaper.lock();
                match reaper.chores.pop_front() {
                    Some(chore) => chore,
                    None => {
                        reaper.busy = false;
                        break;
                    }
                }
            };
            self.do_chore(chore);
        }
        self.wake_supervisor();
    }

    /// At the very end: what a reaper that hangs, or gets no core, has left undone.
    pub(crate) fn do_remaining_chores(self: &Arc<Self>) {
        let chores = std::mem::take(&mut self.reaper.lock().chores);
        for chore in chores {
            frames::enter(self.address(), None, || self.do_chore(chore));
        }
    }

    fn do_chore(self: &Arc<Self>, chore: Chore) {
        match chore {
            Chore::Cancelled(item, cause) => {
                settle::settle_item(item, Kind::Cancelled, Some(cause), self);
            }
            Chore::Abandoned(cell, cause) => settle::settle_abandoned(cell, cause, self),
            Chore::CancelToken(token) => token.cancel(),
        }
    }
}

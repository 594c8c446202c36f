//! Tasks in flight whose outcomes are collected in the order in which they come.
//!
//! Each task has a handle, kept here, and a callback that puts its number on the list of
//! settled ones. The handle owns the outcome until it is collected.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::core::Core;
use crate::event::wake_quietly;
use crate::extras::Callback;
use crate::frames;
use crate::handle::Handle;
use crate::life::CellRef;
use crate::parker::with_parker;
use crate::sync::Lock;

pub(crate) struct InFlight<T, E> {
    handles: BTreeMap<u64, Handle<T, E>>,
    settled: Arc<Settled>,
}

#[derive(Default)]
pub(crate) struct Settled {
    state: Lock<(VecDeque<u64>, Option<Waker>)>,
}

impl<T, E> InFlight<T, E> {
    pub(crate) fn new() -> Self {
        InFlight { handles: BTreeMap::new(), settled: Arc::new(Settled::default()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The callback for a task that will be `add`ed under this number, if it is accepted.
    pub(crate) fn callback(&self, key: u64) -> Callback {
        let settled = Arc::clone(&self.settled);
        Box::new(move |_| settled.add(key))
    }

    pub(crate) fn add(&mut self, key: u64, handle: Handle<T, E>) {
        self.handles.insert(key, handle);
    }

    /// The next that has settled; waits for it. None if nothing is in flight.
    pub(crate) fn next(&mut self, core: &Arc<Core>) -> Option<(u64, Handle<T, E>)> {
        self.run_inside(core);
        with_parker(|parker, waker| {
            loop {
                match self.poll_next(&mut Context::from_waker(waker)) {
                    Poll::Ready(found) => return found,
                    Poll::Pending => parker.park(),
                }
            }
        })
    }

    /// Inside a task of the pool whoever wants the next runs the oldest of its own queued tasks
    /// instead of waiting, also when that one has fallen far behind: nobody else may be there to
    /// run it.
    pub(crate) fn run_inside(&self, core: &Arc<Core>) {
        if frames::depth(core.address()) > 0 && (!self.has_settled() || self.lags_behind()) {
            let _ = self.handles.values().any(|handle| handle.run_inside(core));
        }
    }

    pub(crate) fn try_next(&mut self) -> Option<(u64, Handle<T, E>)> {
        let key = self.settled.state.lock().0.pop_front()?;
        Some(self.take(key))
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Handle<T, E>)>> {
        if self.handles.is_empty() {
            return Poll::Ready(None);
        }
        let waker = cx.waker().clone();
        let (key, old) = {
            let mut state = self.settled.state.lock();
            match state.0.pop_front() {
                Some(key) => (Some(key), None),
                None => (None, state.1.replace(waker)),
            }
        };
        drop(old);
        match key {
            Some(key) => Poll::Ready(Some(self.take(key))),
            None => Poll::Pending,
        }
    }

    /// R9 for a stream that is polled inside the pool: the oldest of its own that is queued
    /// begins there if nothing has settled.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn begin_queued(&self, waker: &Waker) {
        if !self.has_settled() {
            let mut queued =
                self.handles.values().filter_map(Handle::cell).filter(|cell| cell.is_queued());
            let _ = queued.any(|cell| crate::on_tokio::begin_queued(cell, waker));
        }
    }

    fn lags_behind(&self) -> bool {
        const FAR: u64 = 4;
        let (first, last) = (self.handles.keys().next(), self.handles.keys().next_back());
        let apart = first.zip(last).map_or(0, |(first, last)| last - first);
        apart > FAR * self.handles.len() as u64
    }

    pub(crate) fn has_settled(&self) -> bool {
        !self.settled.state.lock().0.is_empty()
    }

    /// The list of those that have.
    pub(crate) fn settled(&self) -> &Arc<Settled> {
        &self.settled
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        self.handles.keys().next().copied()
    }

    /// Nothing has settled, and a wait could keep the rest from it: inside a poll; or inside a
    /// task whose worker's state is in use, and all are queued: this worker can't run them, and
    /// there may be no other (W1).
    pub(crate) fn is_held_up(&self, core: &Core) -> bool {
        if frames::polls() {
            return !self.handles.is_empty() && !self.has_settled();
        }
        core.config.worker_state.is_some()
            && frames::depth(core.address()) > 0
            && !self.handles.is_empty()
            && !self.has_settled()
            && self.handles.values().filter_map(Handle::cell).all(CellRef::is_queued)
    }

    /// Everything that is in flight.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle<T, E>> {
        self.handles.values()
    }

    fn take(&mut self, key: u64) -> (u64, Handle<T, E>) {
        (key, self.handles.remove(&key).expect("a settled number is in flight"))
    }
}

impl Settled {
    /// Whether one has settled; if not, the waker is woken when one does.
    pub(crate) fn is_ready_or_wakes(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let old = {
            let mut state = self.state.lock();
            if !state.0.is_empty() {
                return true;
            }
            state.1.replace(waker)
        };
        drop(old);
        false
    }

    /// That of a task which will not be `add`ed after all.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn forget(&self, key: u64) {
        self.state.lock().0.retain(|settled| *settled != key);
    }

    fn add(&self, key: u64) {
        let waker = {
            let mut state = self.state.lock();
            state.0.push_back(key);
            state.1.take()
        };
        wake_quietly(waker);
    }
}

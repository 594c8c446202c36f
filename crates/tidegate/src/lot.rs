//! Where workers sleep, and who wakes whom.
//!
//! ```text
//!  state: sleeping (16 bits) | searching << 16 | held << 32
//!
//!  submit:  publish by RMW, then read `state`            one of the two
//!  sleep:   change `state` by RMW, then look at the queue     sees the other
//! ```
//!
//! At most one worker *searches* (looks for work, awake). A submit wakes nobody
//! while somebody searches; the finder stops searching, takes its task, and wakes
//! the next before it runs it. So a burst wakes a chain of workers, one submit never
//! pays for more than one wake-up, and no task waits while a worker sleeps. Where one search is
//! not enough somebody says so (`wake_another`).
//!
//! A wake-up is a token: the waker moves one from sleeping to searching and adds a
//! token; whichever sleeper takes the token is the searcher. Tokens are never lost or
//! doubled, whatever the order in which the OS lets threads run.
//!
//! `held` counts idle workers whose place a helping caller occupies (R10):
//! held ≤ sleeping + searching at all times, so callers and workers together never
//! exceed the number of workers.
//!
//! Workers that are futures (`on_tokio/`) leave a waker instead of sleeping, then look at the
//! tokens once more. A waker is taken off the list by whoever wakes it, or by its own worker:
//! for each token that is there, somebody was woken who has not looked yet.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Guess, Lock, MODELLED, Padded, WaitWord, snooze};

const SLEEPING: u64 = 1;
const SEARCHING: u64 = 1 << 16;
const HELD: u64 = 1 << 32;
const FIELD: u64 = 0xffff;

/// Tokens in the low half of the word, kicks (look again at your orders) in the high half.
const TOKEN: u32 = 1;
const TOKENS: u32 = 0xffff;
const KICK: u32 = 1 << 16;

/// How long a worker searches before it goes to sleep: about what it costs to be woken, for who
/// wakes it and until it runs.
const SEARCH: Duration = Duration::from_micros(150);
/// After so many searches in vain it sleeps at once, and searches only every so many times: tasks
/// that come one by one, a while apart, would cost a search each. On a host that runs both virtual
/// cores on one, they would wait for it, too.
const IN_VAIN: u32 = 2;
const NOW_AND_THEN: u32 = 16;
/// So many steps it goes without a look at the clock.
const FIRST_STEPS: u32 = 8;

/// The counts fit in their fields.
pub(crate) const MAX_WORKERS: usize = 0xfff0;

fn sleeping(state: u64) -> u64 {
    state & FIELD
}
fn searching(state: u64) -> u64 {
    state >> 16 & FIELD
}
fn held(state: u64) -> u64 {
    state >> 32 & FIELD
}

#[derive(Debug)]
pub(crate) struct Lot {
    state: Padded<AtomicU64>,
    tokens: Padded<WaitWord>,
    /// Sleeping workers that are futures, by their number; None in a pool on threads.
    futures: Option<Lock<BTreeMap<u32, Waker>>>,
    /// How often somebody was woken who waited for an outcome of such a worker.
    wakes: AtomicU32,
    /// Rests since a search has found something.
    in_vain: Guess,
}

/// How far a search has come.
struct Search {
    step: u32,
    until: Option<Moment>,
}

impl Search {
    fn from(step: u32) -> Search {
        Search { step, until: None }
    }

    /// After a pause; false once it has been long enough.
    fn goes_on(&mut self) -> bool {
        self.step += 1;
        if MODELLED {
            return false; // time does not pass: one look is as good as many
        }
        let over = self.step > FIRST_STEPS
            && self.until.get_or_insert_with(|| Moment::after(SEARCH)).has_come();
        if !over {
            snooze(self.step);
        }
        !over
    }
}

/// Who comes for a task that was just published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Whoever works: nobody sleeps.
    Nobody,
    /// One that has to be woken.
    Sleeper,
    /// One that searches, or will when it runs.
    Searcher,
}

/// Why a worker is awake again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Awake {
    /// It holds the right to search.
    Searching,
    /// It was told to leave the lot; it counts as active again.
    Called,
}

/// How a worker that is a future counts in the lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "tokio", tidegate_loom)), allow(dead_code))]
pub(crate) enum Rest {
    #[default]
    Awake,
    Searching,
    Asleep,
}

impl Lot {
    pub(crate) fn new() -> Self {
        let (state, tokens) = (AtomicU64::new(0), WaitWord::new(0));
        Lot {
            state: Padded(state),
            tokens: Padded(tokens),
            futures: None,
            wakes: AtomicU32::new(0),
            in_vain: Guess::default(),
        }
    }

    /// For workers that are futures.
    #[cfg_attr(not(any(feature = "tokio", tidegate_loom)), allow(dead_code))]
    pub(crate) fn of_futures() -> Self {
        Lot { futures: Some(Lock::default()), ..Lot::new() }
    }

    // ------------------------------------------------------------ wakers

    /// Whom a task that was just published needs.
    #[inline(always)]
    pub(crate) fn need(&self) -> Need {
        // Pairs with the RMW at the start of `sleep`.
        let state = self.state.load(SeqCst);
        match sleeping(state) {
            0 => Need::Nobody,
            _ if searching(state) == 0 => Need::Sleeper,
            _ => Need::Searcher,
        }
    }

    /// True if it would have to wake somebody.
    #[inline(always)]
    pub(crate) fn needs_wake(&self) -> bool {
        self.need() == Need::Sleeper
    }

    /// Somebody was woken and has not come to its search yet.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn is_awaited(&self) -> bool {
        self.tokens.value.load(SeqCst) & TOKENS != 0
    }

    /// True if every worker sleeps. If not, one of them will look at the queue after
    /// whatever the caller has published by now: see `sleep`.
    pub(crate) fn all_asleep(&self, workers: u64) -> bool {
        sleeping(self.state.load(SeqCst)) >= workers
    }

    pub(crate) fn somebody_searches(&self) -> bool {
        searching(self.state.load(Relaxed)) != 0
    }

    /// As `somebody_searches`, after what was written before.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn is_searched(&self) -> bool {
        searching(self.state.load(SeqCst)) != 0
    }

    /// Makes one sleeper the searcher, unless there is one already.
    #[cold]
    pub(crate) fn wake_one(&self) -> bool {
        self.wake_unless(|state| searching(state) != 0)
    }

    /// As `wake_one`, beside one that searches: it may not come to its next look (a future, on a
    /// thread that somebody else does not give back), or there is work for both (`map_slice`).
    pub(crate) fn wake_another(&self) -> bool {
        self.wake_unless(|_| false)
    }

    fn wake_unless(&self, searched: impl Fn(u64) -> bool) -> bool {
        let mut state = self.state.load(SeqCst);
        loop {
            let idle = sleeping(state) + searching(state);
            if sleeping(state) == 0 || searched(state) || idle <= held(state) {
                return false;
            }
            let next = state - SLEEPING + SEARCHING;
            match self.state.compare_exchange(state, next, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        self.tokens.value.fetch_add(TOKEN, SeqCst);
        match &self.futures {
            None => self.tokens.wake(1),
            Some(futures) => {
                let first = futures.lock().pop_first();
                first.into_iter().for_each(|(_, waker)| waker.wake());
            }
        }
        true
    }

    /// Makes every sleeper look at its orders.
    pub(crate) fn kick_all(&self) {
        self.tokens.value.fetch_add(KICK, SeqCst);
        match &self.futures {
            None => self.tokens.wake(i32::MAX),
            Some(futures) => {
                let all = std::mem::take(&mut *futures.lock());
                all.into_values().for_each(Waker::wake);
            }
        }
    }

    /// Idle workers, for the roster and the snapshot.
    pub(crate) fn idle(&self) -> u64 {
        let state = self.state.load(Relaxed);
        (sleeping(state) + searching(state)).saturating_sub(held(state))
    }

    /// Somebody who waits for an outcome is about to be woken.
    #[cfg_attr(tidegate_loom, allow(dead_code))]
    pub(crate) fn note_wake(&self) {
        if self.futures.is_some() {
            self.wakes.fetch_add(1, Relaxed);
        }
    }

    /// How often that was so.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    #[inline(always)]
    pub(crate) fn wakes(&self) -> u32 {
        self.wakes.load(Relaxed)
    }

    /// Whether there were such since `last`, which is brought up to date.
    #[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
    pub(crate) fn were_wakes(&self, last: &mut u32) -> bool {
        let now = self.wakes();
        std::mem::replace(last, now) != now
    }

    // ------------------------------------------------------------ workers

    /// Searches for a while, then sleeps; returns when there is work or an order. Either way
    /// the caller counts as active again, and must pass on what it does not take.
    ///
    /// `first_step`: how long the first pause of the search is.
    /// `aside`: the caller has stepped aside, and sleeps at once.
    pub(crate) fn rest(
        &self,
        first_step: u32,
        aside: bool,
        workable: impl Fn() -> bool,
        called: impl Fn() -> bool,
    ) {
        let mut search = Search::from(first_step);
        let mut searching = match aside {
            false => self.count_rest_and_may_search() && self.begin_search(),
            true if self.doze(&called) == Awake::Called => return,
            true => true,
        };
        let mut was_woken = aside;
        loop {
            if searching && self.finds(&mut search, &workable, &called) {
                if !was_woken {
                    self.in_vain.set(0);
                }
                return;
            }
            was_woken = true;
            match self.sleep(searching, &workable, &called) {
                Awake::Called => return,
                Awake::Searching => (searching, search) = (true, Search::from(0)),
            }
        }
    }

    /// Asked once for each rest. Workers that ask at the same time may count as one.
    fn count_rest_and_may_search(&self) -> bool {
        let in_vain = self.in_vain.get();
        self.in_vain.set(in_vain.wrapping_add(1));
        in_vain < IN_VAIN || in_vain.is_multiple_of(NOW_AND_THEN) || MODELLED
    }

    /// Searches on; true if there is work, and the worker counts as awake.
    fn finds(
        &self,
        search: &mut Search,
        workable: impl Fn() -> bool,
        called: impl Fn() -> bool,
    ) -> bool {
        loop {
            if workable() {
                return self.end_search(); // unless a helping caller has our place
            }
            if called() || !search.goes_on() {
                return false;
            }
        }
    }

    /// As `rest`, for the worker `number`, which is a future. `rest` is its own, and Ready means
    /// that it is awake, and whether it has woken another one before. `search`: whether it goes on to search rather than sleep; it is then
    /// polled again, soon, without being woken.
    #[cfg_attr(not(any(feature = "tokio", tidegate_loom)), allow(dead_code))]
    pub(crate) fn poll_rest(
        &self,
        rest: &mut Rest,
        search: bool,
        (number, waker): (u32, &Waker),
        workable: impl Fn() -> bool,
        called: impl Fn() -> bool,
    ) -> Poll<bool> {
        if *rest == Rest::Awake && search && self.begin_search() {
            *rest = Rest::Searching;
        }
        if *rest == Rest::Searching {
            match workable() {
                true if self.end_search() => {
                    *rest = Rest::Awake;
                    return Poll::Ready(false);
                }
                false if search && !called() => return Poll::Pending,
                _ => {}
            }
        }
        let mut woke = false;
        if *rest != Rest::Asleep {
            woke = self.lie_down(*rest == Rest::Searching, &workable);
            *rest = Rest::Asleep;
        }
        loop {
            match self.poll_doze((number, waker), &called) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Awake::Called) => break,
                Poll::Ready(Awake::Searching) if workable() && self.end_search() => break,
                Poll::Ready(Awake::Searching) => woke |= self.lie_down(true, &workable),
            }
        }
        *rest = Rest::Awake;
        Poll::Ready(woke)
    }

    /// A worker that is a future goes without having been called.
    #[cfg_attr(not(any(feature = "tokio", tidegate_loom)), allow(dead_code))]
    pub(crate) fn desert(&self, rest: Rest, number: u32) {
        match rest {
            Rest::Awake => return,
            Rest::Searching => {
                self.state.fetch_sub(SEARCHING, SeqCst);
                return;
            }
            Rest::Asleep => {}
        }
        if let Some(futures) = &self.futures {
            drop(futures.lock().remove(&number));
        }
        // Either its share of the sleepers, or the token that was meant for one of them.
        while !self.leave() {
            let tokens = self.tokens.value.load(SeqCst);
            if tokens & TOKENS != 0
                && self
                    .tokens
                    .value
                    .compare_exchange(tokens, tokens - TOKEN, SeqCst, SeqCst)
                    .is_ok()
            {
                self.state.fetch_sub(SEARCHING, SeqCst);
                return;
            }
            snooze(5);
        }
    }

    fn poll_doze(&self, (number, waker): (u32, &Waker), called: impl Fn() -> bool) -> Poll<Awake> {
        let futures = self.futures.as_ref().expect("a lot of futures");
        let mut listed = false;
        loop {
            let tokens = self.tokens.value.load(SeqCst);
            let awake = if tokens & TOKENS != 0 {
                let left = tokens - TOKEN;
                if self.tokens.value.compare_exchange(tokens, left, SeqCst, Relaxed).is_err() {
                    continue;
                }
                Some(Awake::Searching)
            } else if called() {
                if !self.leave() {
                    // Every sleeper is spoken for: a token for us is on its way.
                    snooze(5);
                    continue;
                }
                Some(Awake::Called)
            } else {
                None
            };
            match awake {
                Some(awake) => {
                    drop(futures.lock().remove(&number));
                    return Poll::Ready(awake);
                }
                None if listed => return Poll::Pending,
                // Then once more: a token that came in between has woken nobody.
                None => drop(futures.lock().insert(number, waker.clone())),
            }
            listed = true;
        }
    }

    /// Counts an active worker as asleep if another one stays active. That one looks at the
    /// queue before it sleeps, so nothing need be looked at here.
    pub(crate) fn step_aside(&self, workers: u64) -> bool {
        let mut state = self.state.load(SeqCst);
        while sleeping(state) + searching(state) + 1 < workers {
            match self.state.compare_exchange_weak(state, state + SLEEPING, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes the right to search, if it is free.
    pub(crate) fn begin_search(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        while searching(state) == 0 {
            match self.state.compare_exchange_weak(state, state + SEARCHING, SeqCst, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Gives the right to search back and counts as active; false if a helping caller
    /// holds this worker's place, which must then sleep.
    pub(crate) fn end_search(&self) -> bool {
        let mut state = self.state.load(SeqCst);
        loop {
            if sleeping(state) + searching(state) - 1 < held(state) {
                return false;
            }
            match self.state.compare_exchange_weak(state, state - SEARCHING, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Sleeps until there is a token or `called` says to leave.
    ///
    /// `searched`: the caller holds the right to search and gives it up here.
    /// `work`: is there something to do? Asked once after the count has changed.
    pub(crate) fn sleep(
        &self,
        searched: bool,
        work: impl Fn() -> bool,
        called: impl Fn() -> bool,
    ) -> Awake {
        self.lie_down(searched, work);
        self.doze(called)
    }

    /// True if it has woken somebody, perhaps itself.
    fn lie_down(&self, searched: bool, work: impl Fn() -> bool) -> bool {
        let change = if searched { SLEEPING.wrapping_sub(SEARCHING) } else { SLEEPING };
        self.state.fetch_add(change, SeqCst);
        // A submit that did not see us asleep has published before this look.
        work() && self.wake_one()
    }

    /// Sleeps, as one that is counted so.
    pub(crate) fn doze(&self, called: impl Fn() -> bool) -> Awake {
        let mut step = 0;
        loop {
            let tokens = self.tokens.value.load(SeqCst);
            if tokens & TOKENS != 0 {
                let left = tokens - TOKEN;
                if self.tokens.value.compare_exchange(tokens, left, SeqCst, Relaxed).is_ok() {
                    return Awake::Searching;
                }
                continue;
            }
            if called() {
                if self.leave() {
                    return Awake::Called;
                }
                // Every sleeper is spoken for: a token for us is on its way.
                snooze(step);
                step += 1;
                continue;
            }
            self.tokens.wait(tokens, None);
        }
    }

    fn leave(&self) -> bool {
        let mut state = self.state.load(SeqCst);
        while sleeping(state) != 0 {
            match self.state.compare_exchange_weak(state, state - SLEEPING, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    // ------------------------------------------------------------ helping callers

    /// Occupies the place of an idle worker.
    pub(crate) fn hold(&self) -> bool {
        let mut state = self.state.load(SeqCst);
        while sleeping(state) + searching(state) > held(state) {
            match self.state.compare_exchange_weak(state, state + HELD, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Gives the place back; the caller then looks whether somebody must be woken.
    pub(crate) fn release(&self) {
        self.state.fetch_sub(HELD, SeqCst);
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_searches_in_vain_does_so_ever_more_seldom_until_one_finds_something() {
        let lot = Lot::new();
        let searches = |rests: u32| (0..rests).filter(|_| lot.count_rest_and_may_search()).count();
        assert_eq!(searches(IN_VAIN), IN_VAIN as usize);
        assert_eq!(searches(NOW_AND_THEN - IN_VAIN), 0);
        assert_eq!(searches(10 * NOW_AND_THEN), 10);
        let found = std::cell::Cell::new(false);
        // The next one is due: it looks once in vain, and finds something at its second look.
        lot.rest(0, false, || found.replace(true), || false);
        assert_eq!(searches(1), 1, "it has paid");
    }
}

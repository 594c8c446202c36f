//! Futures that have begun and not ended, where they are polled.
//!
//! One as a rule. A task that waits for a queued task of its own pool begins that one on top of
//! itself (R9), so they form a stack, and only its top may begin another. Whoever is further down
//! and wants to begin one leaves a *wish*, its waker, and is woken when it is the top again. So
//! tasks that wait for their pool run what they wait for one after the other, as on a thread,
//! and `workers` and the limits of groups hold for futures, too.
//!
//! Who is on top has a waker of its own: of a deep stack only those are polled that can go on.
//!
//! Wakers are code of the user, which may panic: none is cloned while the tasks are out of the
//! nest, and all are dropped quietly.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::body::Started;
use crate::clock::Ticks;
use crate::core::Core;
use crate::frames;
use crate::life::CellRef;
use crate::line::WorkerLine;
use crate::outcome::Cause;
use crate::panics::drop_quietly;
use crate::parker::with_parker;
use crate::settle::RunEnv;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;
use crate::token::{Listener, Registration};

#[derive(Default)]
pub(crate) struct Nest {
    /// The lowest, if there is any: alone it needs nothing else. It is polled by the waker of
    /// whoever polls the nest, so at each wake.
    first: Cell<Option<Started>>,
    more: Cell<Option<Box<More>>>,
    /// Whether what a worker begins now is polled at once, or was.
    first_poll: Cell<FirstPoll>,
}

/// The first poll of a task that a worker has taken from the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FirstPoll {
    /// By `Nest::poll`, as all others.
    #[default]
    Later,
    AtOnce,
    /// It has to go on, and nothing has begun on top of it: there is nothing left to poll.
    Pending,
}

#[derive(Default)]
struct More {
    /// The newest last.
    above: Vec<Above>,
    /// Of the lowest.
    wishes: Wishes,
    /// Of whoever polls the nest.
    outer: Option<Arc<Outer>>,
}

struct Above {
    task: Started,
    /// None until it is polled.
    signal: Option<(Arc<Signal>, Option<Registration>)>,
    wishes: Wishes,
}

impl Nest {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        let first = self.first.take();
        let empty = first.is_none();
        self.first.set(first);
        empty
    }

    pub(super) fn add(&self, task: Started) {
        match self.first.take() {
            None => self.first.set(Some(task)),
            first => {
                self.first.set(first);
                let mut more = self.more.take().unwrap_or_default();
                more.above.push(Above::new(task));
                self.more.set(Some(more));
            }
        }
    }

    /// Adds one that was polled while it was not in here: it is below whatever it has begun, with
    /// these wishes. True if there is neither.
    pub(super) fn add_below(&self, task: Started, wishes: Vec<(usize, Waker)>) -> bool {
        let begun = self.first.replace(Some(task));
        let is_alone = begun.is_none() && wishes.is_empty();
        if !is_alone {
            let mut more = self.more.take().unwrap_or_default();
            if let Some(begun) = begun {
                more.above.insert(0, Above::new(begun));
            }
            more.wishes.add(wishes);
            self.more.set(Some(more));
        }
        is_alone
    }

    /// What the worker takes from the queue next is polled where it begins.
    pub(super) fn poll_at_once(&self) {
        self.first_poll.set(FirstPoll::AtOnce);
    }

    /// Whether that is so, for one task, or how it went.
    pub(super) fn take_first_poll(&self) -> FirstPoll {
        self.first_poll.take()
    }

    pub(super) fn is_pending(&self) {
        self.first_poll.set(FirstPoll::Pending);
    }

    /// A poll of a task that is the top.
    pub(super) fn top_poll(&self, line: Option<&WorkerLine>) -> frames::Poll {
        frames::Poll::new(std::ptr::from_ref(self).cast(), line, true)
    }

    /// All of them, the lowest first.
    fn take_all(&self) -> impl Iterator<Item = Started> + use<> {
        let above = self.more.take().map(|more| more.above).unwrap_or_default();
        self.first.take().into_iter().chain(above.into_iter().map(|one| one.task))
    }

    /// Polls what is in it, until all of it is pending (Pending) or over.
    pub(super) fn poll(
        &self,
        mut reach: Reach,
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut turn = None;
        loop {
            self.set_outer(cx.waker());
            if !self.poll_each(env, cx, reach) {
                return if self.is_empty() { Poll::Ready(()) } else { Poll::Pending };
            }
            // What has begun must be polled once, or nothing would wake us for it. Not for ever: a
            // worker that was woken for the others may have to wait for this thread (R7).
            reach = Reach::Top;
            if turn.get_or_insert_with(|| Turn::new(env.core)).is_over(env.core) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    /// Those on top wake whoever polls now.
    fn set_outer(&self, waker: &Waker) {
        let Some(more) = self.more.take() else { return };
        let is_set = more.outer.as_ref().is_some_and(|outer| outer.waker().will_wake(waker));
        self.more.set(Some(more));
        if !is_set {
            let mut outer = Some(Arc::new(Outer(Some(waker.clone()))));
            if let Some(mut more) = self.more.take() {
                std::mem::swap(&mut more.outer, &mut outer);
                self.more.set(Some(more));
            }
        }
    }

    /// From the top down, so that whoever waits for one above it goes on at once. True if
    /// something has begun meanwhile.
    fn poll_each(&self, env: &RunEnv<'_>, cx: &mut Context<'_>, reach: Reach) -> bool {
        let (mut first, mut more) = (self.first.take(), self.more.take());
        let mut is_top = true;
        let count = more.as_ref().map_or(0, |more| more.above.len());
        let outer = more.as_ref().and_then(|more| more.outer.clone());
        for at in (0..count).rev() {
            if reach == Reach::Top && !is_top {
                break; // who is woken further down has woken us, too
            }
            let above = &mut more.as_mut().expect("counted").above;
            let Above { task, signal, wishes } = &mut above[at];
            let is_due = Signal::renew(signal, task, env, outer.as_ref().expect("set for those"));
            let is_wished = is_top && wishes.are_there();
            if !is_due && !is_wished {
                is_top = false;
                continue;
            }
            let waker = Waker::from(Arc::clone(&signal.as_ref().expect("renewed").0));
            let mut own = Context::from_waker(&waker);
            let polled = self.advance(task, wishes, (is_top, is_due), env, &mut own);
            if polled.is_over {
                above.remove(at);
            }
            is_top = polled.is_next_top;
        }
        let mut fresh = Wishes::default();
        if let Some(task) = &mut first {
            let wishes = more.as_mut().map_or(&mut fresh, |more| &mut more.wishes);
            let is_due = is_top || reach == Reach::All;
            if self.advance(task, wishes, (is_top, is_due), env, cx).is_over {
                first = None;
            }
        }
        // Who wishes has begun one, so there is a list now.
        let begun = self.first.take().map(Above::new).into_iter();
        let rest = self.more.take().map(|more| more.above).unwrap_or_default();
        let mut begun = begun.chain(rest).peekable();
        let has_begun = begun.peek().is_some();
        if has_begun {
            more.get_or_insert_default().above.extend(begun);
        }
        if let Some(more) = &mut more {
            more.wishes.append(fresh);
        }
        if first.is_none() {
            more = more.filter(|more| !more.above.is_empty());
            if let Some(more) = &mut more {
                let lowest = more.above.remove(0);
                first = Some(lowest.task);
                more.wishes = lowest.wishes;
            }
        }
        self.first.set(first);
        self.more.set(more);
        has_begun
    }

    /// Polls one if it is due. If it is the top, then also for each of its wishes, until it has
    /// begun something.
    fn advance(
        &self,
        task: &mut Started,
        wishes: &mut Wishes,
        (is_top, mut is_due): (bool, bool),
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
    ) -> Polled {
        loop {
            is_due |= is_top && wishes.grant(env.core);
            if !is_due {
                return Polled { is_over: false, is_next_top: false };
            }
            is_due = false;
            let poll = frames::Poll::new(std::ptr::from_ref(self).cast(), env.line, is_top);
            let polled = task.poll(env, cx, &poll);
            wishes.add(poll.wishes.take());
            let may_begin = poll.may_begin.get();
            if polled.is_ready() {
                return Polled { is_over: true, is_next_top: may_begin };
            }
            if !may_begin || !wishes.are_there() {
                return Polled { is_over: false, is_next_top: false };
            }
        }
    }

    /// Drops what is in it, and what its destructors begin.
    pub(crate) fn stop(&self, env: &RunEnv<'_>, cause: Cause) {
        while !self.is_empty() {
            for mut task in self.take_all() {
                let poll = self.top_poll(env.line);
                task.stop(env, cause, &poll);
                drop_wishes(poll.wishes.take());
            }
        }
    }

    /// As `poll`, where no worker is woken when one of them is told to stop.
    pub(crate) fn poll_hosted(
        &self,
        env: &RunEnv<'_>,
        cx: &mut Context<'_>,
        told: &mut StopWake,
    ) -> Poll<()> {
        loop {
            told.watch(self, cx.waker());
            let polled = self.poll(Reach::All, env, cx);
            if polled.is_ready() || told.watches(self) {
                return polled;
            }
        }
    }

    /// What `f` gives for the lowest.
    fn with_first<R>(&self, f: impl FnOnce(&mut Started) -> R) -> Option<R> {
        let mut first = self.first.take();
        let found = first.as_mut().map(f);
        self.first.set(first);
        found
    }

    /// Polls what is in it to the end, on this thread.
    #[inline(always)]
    pub(crate) fn finish_here(&self, env: &RunEnv<'_>) {
        if !self.is_empty() {
            self.finish(env);
        }
    }

    #[cold]
    fn finish(&self, env: &RunEnv<'_>) {
        let _inside = env.core.driver.enter();
        with_parker(|parker, waker| {
            let (mut cx, mut told) = (Context::from_waker(waker), StopWake::default());
            while self.poll_hosted(env, &mut cx, &mut told).is_pending() {
                parker.park();
            }
        });
    }
}

/// Which of them are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    /// The newest, and who is the top if that ends.
    Top,
}

/// How long what begins is polled at once.
struct Turn {
    began: Ticks,
    left: u32,
}

impl Turn {
    const PASSES: u32 = 32;
    const LENGTH: Duration = Duration::from_micros(500);

    fn new(core: &Core) -> Turn {
        Turn { began: core.real_time.now(), left: Turn::PASSES }
    }

    fn is_over(&mut self, core: &Core) -> bool {
        self.left -= 1;
        self.left == 0 || core.real_time.now().since(self.began) > Turn::LENGTH
    }
}

/// How a poll left one of them, and whether the next below is the top now.
struct Polled {
    is_over: bool,
    is_next_top: bool,
}

impl Above {
    fn new(task: Started) -> Above {
        Above { task, signal: None, wishes: Wishes::default() }
    }
}

// ---------------------------------------------------------------- who is woken

/// The waker of one that is on top of another.
struct Signal {
    is_woken: AtomicBool,
    outer: Arc<Outer>,
}

/// The waker of whoever polls the nest.
struct Outer(Option<Waker>);

impl Outer {
    fn waker(&self) -> &Waker {
        self.0.as_ref().expect("until it is dropped")
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

impl Signal {
    /// Whether its task is to be polled; with a new signal if it has none for this waker.
    fn renew(
        signal: &mut Option<(Arc<Signal>, Option<Registration>)>,
        task: &mut Started,
        env: &RunEnv<'_>,
        outer: &Arc<Outer>,
    ) -> bool {
        if let Some((signal, _)) = signal
            && Arc::ptr_eq(&signal.outer, outer)
        {
            let is_woken = signal.is_woken.load(SeqCst) && signal.is_woken.swap(false, SeqCst);
            return is_woken || task.cell().stop_requested().is_some();
        }
        let new = Signal { is_woken: AtomicBool::new(false), outer: Arc::clone(outer) };
        let new = Arc::new(new);
        // A worker is woken when its task is told to stop; a caller's task sees to it itself.
        let told = match env.line {
            Some(_) => None,
            None => task.token().register(Listener::Waker(Waker::from(Arc::clone(&new)))),
        };
        *signal = Some((new, told));
        true
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, SeqCst) {
            self.outer.waker().wake_by_ref();
        }
    }
}

/// Wakes whoever polls a nest that is no worker's, when the lowest task in it is told to stop.
#[derive(Default)]
pub(crate) struct StopWake {
    watched: Option<(CellRef, Waker)>,
    registration: Option<Registration>,
}

impl StopWake {
    fn watch(&mut self, nest: &Nest, waker: &Waker) {
        let is_same = self.watched.as_ref().is_some_and(|(_, by)| by.will_wake(waker));
        if is_same && self.watches(nest) {
            return;
        }
        self.watched = nest.with_first(Started::cell).map(|cell| (cell, waker.clone()));
        let waker = waker.clone();
        // One that was told already is dropped by the poll that follows.
        self.registration = nest
            .with_first(Started::token)
            .and_then(|token| token.register(Listener::Waker(waker)));
    }

    fn watches(&self, nest: &Nest) -> bool {
        let now = nest.with_first(Started::cell);
        self.watched.as_ref().is_some_and(|(of, _)| Some(*of) == now)
    }
}

// ---------------------------------------------------------------- who begins what

/// Those who would begin something on top, in the order of their coming: of each, the last waker.
#[derive(Default)]
struct Wishes {
    line: VecDeque<usize>,
    wakers: BTreeMap<usize, Waker>,
}

/// Of a task that is over.
#[cold]
pub(super) fn drop_wishes(wishes: Vec<(usize, Waker)>) {
    Wishes::default().add(wishes);
}

impl Wishes {
    fn add(&mut self, wishes: impl IntoIterator<Item = (usize, Waker)>) {
        for (who, waker) in wishes {
            match self.wakers.insert(who, waker) {
                None => self.line.push_back(who),
                Some(old) => drop(drop_quietly(old)),
            }
        }
    }

    fn are_there(&self) -> bool {
        !self.line.is_empty()
    }

    fn append(&mut self, mut other: Wishes) {
        let wakers = &mut other.wakers;
        self.add(other.line.drain(..).filter_map(|who| Some((who, wakers.remove(&who)?))));
    }

    /// Wakes the oldest; false if there is none.
    fn grant(&mut self, core: &Core) -> bool {
        let Some(who) = self.line.pop_front() else { return false };
        core.wake(self.wakers.remove(&who));
        true
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        while let Some((_, waker)) = self.wakers.pop_first() {
            drop_quietly(waker);
        }
    }
}

/// R9 for futures: a target of the same pool that is still queued is begun by the worker that
/// waits for it, on top of the task that is polled there, or `waker` is woken when that may be.
/// False if somebody else was first.
pub(crate) fn begin_queued(cell: CellRef, waker: &Waker) -> bool {
    let (pool, who) = (cell.cell().core.load(SeqCst), cell.address().addr());
    frames::with_poll(pool.cast_const(), |poll| match poll {
        Some(poll) if poll.may_begin_or_wish(who, waker) => {
            Core::find(pool).is_none_or(|core| core.begin_on_top(cell, poll))
        }
        _ => true,
    })
}

impl Core {
    /// Begins a queued task on top of the one that is polled, which may; false if somebody else
    /// was first.
    pub(crate) fn begin_on_top(self: &Arc<Self>, cell: CellRef, poll: &frames::Poll) -> bool {
        if !cell.claim_start() {
            return false;
        }
        self.queue.give_credit();
        self.room_is_free();
        if self.lobby.has_futures() {
            self.driver.spread(self); // who was told of room must not wait behind this task
        }
        self.begin_claimed_on_top(cell, poll);
        true
    }

    /// As `begin_on_top`, for a task that was claimed.
    pub(crate) fn begin_claimed_on_top(self: &Arc<Self>, cell: CellRef, poll: &frames::Poll) {
        debug_assert!(poll.may_begin.get(), "only the top begins another");
        // SAFETY: it was made of a nest that lives as long as the poll, on this thread.
        let nest = unsafe { &*poll.inbox.cast::<Nest>() };
        let line = poll.line();
        self.ledger.nested.fetch_add(1, SeqCst);
        match line {
            Some(line) => line.count_nested(),
            None => {
                self.ledger.started.fetch_add(1, SeqCst);
                self.callers.lock().push((cell, frames::fresh_number()));
            }
        }
        let env = RunEnv { core: self, line, state: crate::worker::no_state(), nest };
        crate::worker::run_claimed(cell, &env);
        // One whose time was over has ended instead.
        poll.may_begin.set(nest.is_empty());
    }
}

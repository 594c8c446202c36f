//! Where those who want a share of a budget stand in line.
//!
//! Whoever finds too little left queues up, and nobody goes by: a heavy one at the head is
//! not starved by light ones behind it. Whoever gives something back, makes the budget larger
//! or leaves the line *serves* it: takes for the first, and the next, while there is enough.
//! A place in the line knows whether it was served; leaving it gives back what it was given.
//!
//! Time serves nobody by itself, and only the first in line has to mind it. A thread does so by
//! the length of its sleep. For futures there is a *minder*, a thread that is there while one of
//! them waits for a rate, first in line or not: nobody waits for a future to be polled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::event::wake_quietly;
use crate::panics::drop_quietly;
use crate::parker::{Parker, with_parker};
use crate::refused::Reason;
use crate::spawn;
use crate::supply::Supply;
use crate::sync::Lock;

pub(crate) struct Pot {
    name: Arc<str>,
    state: Lock<State>,
}

struct State {
    supply: Supply,
    clock: Clock,
    line: VecDeque<Waiter>,
    /// Those that have left the line and do not know yet: true if it was taken for them.
    served: BTreeMap<u64, bool>,
    next_number: u64,
    /// Of a rate: who was last told that it is first, and until when it will sleep.
    told_first: Option<(u64, Ticks)>,
    /// The thread that minds the time for futures, while there is one.
    minder: Option<Arc<Parker>>,
    held_by_abandoned: u64,
}

struct Waiter {
    number: u64,
    weight: u64,
    /// None until it has looked, and after it was woken to mind the time.
    waker: Option<Waker>,
}

/// All of a budget at one moment.
#[derive(Debug)]
pub(crate) struct BudgetReading {
    pub(crate) capacity: u64,
    pub(crate) in_use: u64,
    pub(crate) available: u64,
    pub(crate) waiting: u64,
    pub(crate) held_by_abandoned: u64,
}

impl Pot {
    pub(crate) fn new(name: String, supply: Supply, clock: Clock) -> Arc<Pot> {
        let state = State {
            supply,
            clock,
            line: VecDeque::new(),
            served: BTreeMap::new(),
            next_number: 0,
            told_first: None,
            minder: None,
            held_by_abandoned: 0,
        };
        Arc::new(Pot { name: name.into(), state: Lock::new(state) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn clock(&self) -> Clock {
        self.state.lock().clock.clone()
    }

    pub(crate) fn set_clock(&self, clock: Clock) {
        let mut state = self.state.lock();
        state.supply.restart(clock.now());
        state.clock = clock;
    }

    pub(crate) fn reading(&self) -> BudgetReading {
        let mut state = self.state.lock();
        let now = state.clock.now();
        BudgetReading {
            capacity: state.supply.capacity(),
            in_use: state.supply.used(),
            available: state.supply.available(now),
            waiting: state.line.len() as u64,
            held_by_abandoned: state.held_by_abandoned,
        }
    }

    /// Changes what there is, and serves the line.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Supply, Ticks)) {
        let wakers = {
            let mut state = self.state.lock();
            let now = state.clock.now();
            change(&mut state.supply, now);
            state.serve()
        };
        wake_quietly(wakers);
    }

    /// Those who wait for more than there is then are told so.
    pub(crate) fn resize(&self, capacity: u64) {
        let wakers = {
            let mut state = self.state.lock();
            let now = state.clock.now();
            state.supply.resize(capacity, now);
            let (too_heavy, line): (VecDeque<_>, _) =
                std::mem::take(&mut state.line).into_iter().partition(|w| w.weight > capacity);
            state.line = line;
            let mut wakers = Vec::new();
            for waiter in too_heavy {
                state.served.insert(waiter.number, false);
                wakers.extend(waiter.waker);
            }
            wakers.extend(state.serve());
            wakers
        };
        wake_quietly(wakers);
    }

    pub(crate) fn count_abandoned(&self, weight: u64, held: bool) {
        let mut state = self.state.lock();
        let before = state.held_by_abandoned;
        state.held_by_abandoned = if held { before + weight } else { before - weight };
    }

    // ------------------------------------------------------------ taking

    /// Without a wait: TooHeavy or OverBudget.
    pub(crate) fn try_take(&self, weight: u64) -> Result<(), Reason> {
        self.state.lock().try_take(weight)
    }

    /// None: taken. Some: a place in the line.
    pub(crate) fn enter(self: &Arc<Self>, weight: u64) -> Result<Option<InLine>, Reason> {
        let mut state = self.state.lock();
        match state.try_take(weight) {
            Ok(()) => Ok(None),
            Err(Reason::OverBudget) => {
                let number = state.next_number;
                state.next_number += 1;
                state.line.push_back(Waiter { number, weight, waker: None });
                Ok(Some(InLine { pot: Arc::clone(self), number, weight, left: false }))
            }
            Err(reason) => Err(reason),
        }
    }

    /// Takes it, and waits on this thread, until `deadline` of `clock` or until `end` has a
    /// reason not to. `register` is given the waker that makes it ask.
    pub(crate) fn wait_for<R>(
        self: &Arc<Self>,
        weight: u64,
        clock: &Clock,
        deadline: Ticks,
        register: impl FnOnce(&Waker) -> R,
        end: impl Fn() -> Option<Reason>,
    ) -> Result<(), Reason> {
        let Some(mut place) = self.enter(weight)? else { return Ok(()) };
        if crate::frames::polls() {
            return Err(Reason::WouldDeadlock); // it would hold up a runtime
        }
        with_parker(|parker, waker| {
            let _registered = register(waker);
            loop {
                if let Some(reason) = end() {
                    return Err(reason);
                }
                let due = match place.look(waker) {
                    Look::Served => return Ok(()),
                    Look::TooHeavy => return Err(Reason::TooHeavy),
                    Look::Waiting { due, .. } => due,
                };
                if clock.now() >= deadline {
                    return Err(Reason::TimedOut);
                }
                self.park(parker, clock, deadline, due);
            }
        })
    }

    /// Sleeps until it is woken, until `deadline` of `clock`, or until time has made room.
    fn park(&self, parker: &Arc<Parker>, clock: &Clock, deadline: Ticks, due: Ticks) {
        let own = self.clock();
        if due == Ticks::NEVER {
            parker.park_until(clock, deadline);
        } else if own.is_real() && own.goes_with(clock) {
            // Two of them may have begun to count at different times.
            let due = clock.now().after(due.since(own.now()));
            parker.park_until(clock, due.min(deadline));
        } else if own.goes_with(clock) {
            // The same one, and not by how long it is until then: a test may move it meanwhile.
            parker.park_until(clock, due.min(deadline));
        } else {
            // A test's clock beside another one: both have to be watched.
            const NAP: Duration = Duration::from_millis(1);
            let real = Clock::system();
            parker.park_until(&real, real.now().after(NAP));
        }
    }

    // ------------------------------------------------------------ minding the time

    /// Starts the thread that minds the time, unless there is one.
    fn mind_the_time(self: &Arc<Self>) -> Result<(), Reason> {
        let parker = {
            let mut state = self.state.lock();
            if state.minder.is_some() {
                return Ok(());
            }
            Arc::clone(state.minder.insert(Parker::new()))
        };
        let (pot, name) = (Arc::clone(self), format!("{}-refill", self.name));
        let name = name.replace('\0', "");
        match spawn::spawn(name, None, None, move || pot.mind(&parker)) {
            Ok(_) => Ok(()), // it ends by itself
            Err(_) => {
                let wakers = {
                    let mut state = self.state.lock();
                    // Whoever was told meanwhile was told to nobody.
                    (state.minder, state.told_first) = (None, None);
                    state.serve()
                };
                wake_quietly(wakers);
                Err(Reason::SpawnFailed)
            }
        }
    }

    /// Serves the line whenever time has made room, until it is empty.
    fn mind(&self, parker: &Arc<Parker>) {
        loop {
            let (wakers, sleep) = {
                let mut state = self.state.lock();
                let wakers = state.serve();
                let sleep = state.due_at().map(|due| (state.clock.clone(), due));
                if sleep.is_none() {
                    state.minder = None;
                }
                (wakers, sleep)
            };
            wake_quietly(wakers);
            let Some((clock, due)) = sleep else { return };
            parker.park_until(&clock, due);
        }
    }
}

impl State {
    fn try_take(&mut self, weight: u64) -> Result<(), Reason> {
        if weight > self.supply.capacity() {
            return Err(Reason::TooHeavy);
        }
        let now = self.clock.now();
        if weight == 0 || (self.line.is_empty() && self.supply.take(weight, now)) {
            return Ok(());
        }
        Err(Reason::OverBudget)
    }

    /// Takes for the first in line while there is enough; whom to wake.
    fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let now = self.clock.now();
        while let Some(first) = self.line.front() {
            let fits = first.weight <= self.supply.capacity();
            if fits && !self.supply.take(first.weight, now) {
                break;
            }
            if let Some(first) = self.line.pop_front() {
                self.served.insert(first.number, fits);
                wakers.extend(first.waker);
            }
        }
        let due = self.due_at();
        if let (Some(due), Some(first)) = (due, self.line.front_mut()) {
            // Its time comes without anybody giving something back, and whoever minds it may
            // sleep too long: another one was first, or some has come back.
            let knows = self.told_first.is_some_and(|(who, at)| who == first.number && at <= due);
            if !knows {
                self.told_first = Some((first.number, due));
                match &self.minder {
                    Some(minder) => minder.unpark(),
                    None => wakers.extend(first.waker.take()),
                }
            }
        }
        wakers
    }

    /// The line is in the order of the numbers.
    fn find(&self, number: u64) -> Option<usize> {
        self.line.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    /// When time makes room for the first in line.
    fn due_at(&self) -> Option<Ticks> {
        self.line.front().and_then(|first| self.supply.due_at(first.weight))
    }
}

// ---------------------------------------------------------------- in line

/// A place in the line; dropping it leaves.
pub(crate) struct InLine {
    pot: Arc<Pot>,
    number: u64,
    weight: u64,
    left: bool,
}

enum Look {
    /// It is taken, and belongs to whoever looked.
    Served,
    /// The budget was made too small for it.
    TooHeavy,
    /// Look again when woken, or then.
    Waiting { due: Ticks, refills: bool },
}

impl InLine {
    fn look(&mut self, waker: &Waker) -> Look {
        let waker = waker.clone(); // user code: before the lock
        let (look, wakers, old) = {
            let mut state = self.pot.state.lock();
            // Time may have made room.
            let wakers = state.serve();
            match state.served.remove(&self.number) {
                Some(taken) => {
                    self.left = true;
                    (if taken { Look::Served } else { Look::TooHeavy }, wakers, None)
                }
                None => {
                    let first = state.line.front().is_some_and(|w| w.number == self.number);
                    let due = state.due_at();
                    if let Some(due) = due.filter(|_| first) {
                        state.told_first = Some((self.number, due));
                    }
                    let mine = state.find(self.number).and_then(|at| state.line.get_mut(at));
                    let old = mine.and_then(|mine| mine.waker.replace(waker));
                    let refills = due.is_some();
                    let due = due.filter(|_| first).unwrap_or(Ticks::NEVER);
                    (Look::Waiting { due, refills }, wakers, old)
                }
            }
        };
        wake_quietly(wakers);
        drop_quietly(old); // last: it may panic
        look
    }

    /// For a future: ready once it is taken, or never will be.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Reason>> {
        match self.look(waker) {
            Look::Served => Poll::Ready(Ok(())),
            Look::TooHeavy => Poll::Ready(Err(Reason::TooHeavy)),
            Look::Waiting { refills: false, .. } => Poll::Pending,
            Look::Waiting { .. } => match self.pot.mind_the_time() {
                Ok(()) => Poll::Pending,
                Err(reason) => Poll::Ready(Err(reason)),
            },
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (wakers, old) = {
            let mut state = self.pot.state.lock();
            let now = state.clock.now();
            if state.served.remove(&self.number) == Some(true) {
                state.supply.refund(self.weight, now);
            }
            let old = state.find(self.number).and_then(|at| state.line.remove(at));
            // If it was first, the turn passes on.
            (state.serve(), old)
        };
        wake_quietly(wakers);
        drop_quietly(old.map(|old| old.waker)); // last: it may panic
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;
    use crate::supply::Rate;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn waker() -> (Arc<Woken>, Waker) {
        let woken = Arc::<Woken>::default();
        (Arc::clone(&woken), Waker::from(woken))
    }

    /// One a second, up to `burst` at once, and none left.
    fn empty_rate(burst: u64) -> (Arc<Pot>, crate::ManualClock) {
        let (clock, hand) = Clock::manual();
        let supply = Supply::refilled(Rate::new(1, SECOND), burst, clock.now());
        let pot = Pot::new("rate".into(), supply, clock);
        pot.try_take(burst).unwrap();
        (pot, hand)
    }

    fn in_line(pot: &Arc<Pot>, weight: u64) -> InLine {
        pot.enter(weight).unwrap().expect("nothing is left")
    }

    #[test]
    fn b2_what_is_refunded_brings_the_first_forward() {
        let (pot, _hand) = empty_rate(10);
        let mut first = in_line(&pot, 10);
        let (woken, waker) = waker();
        let due = |first: &mut InLine| match first.look(&waker) {
            Look::Waiting { due, .. } => due.since(pot.clock().now()),
            _ => Duration::ZERO,
        };
        assert_eq!(due(&mut first), 10 * SECOND);
        pot.change(|supply, now| supply.refund(5, now));
        assert_eq!(woken.0.load(SeqCst), 1, "it sleeps too long");
        assert_eq!(due(&mut first), 5 * SECOND);
        pot.change(|supply, now| supply.refund(5, now));
        assert_eq!((woken.0.load(SeqCst), due(&mut first)), (2, Duration::ZERO));
    }

    /// A clock that moves between the look and the sleep makes the sleep shorter, not longer.
    #[test]
    fn b2_who_has_looked_sleeps_until_then_and_not_for_so_long() {
        let (pot, hand) = empty_rate(1);
        let mut first = in_line(&pot, 1);
        let (_woken, waker) = waker();
        let Look::Waiting { due, .. } = first.look(&waker) else { panic!("nothing is left") };
        hand.advance(SECOND);
        let (tell, told) = std::sync::mpsc::channel();
        let own = Arc::clone(&pot);
        std::thread::spawn(move || {
            with_parker(|parker, _| own.park(parker, &own.clock(), Ticks::NEVER, due));
            tell.send(()).unwrap();
        });
        told.recv_timeout(60 * SECOND).expect("it oversleeps");
        assert!(matches!(first.look(&waker), Look::Served));
    }

    #[test]
    fn b2_a_future_that_is_not_polled_holds_up_nobody() {
        let (pot, hand) = empty_rate(1);
        let mut line: Vec<_> = (0..3).map(|_| in_line(&pot, 1)).collect();
        let (woken, waker) = waker();
        for place in &mut line {
            assert!(place.poll(&waker).is_pending());
        }
        // The first two are never polled again; there is a minder for each.
        let deadline = std::time::Instant::now() + 20 * SECOND;
        while woken.0.load(SeqCst) < 3 {
            hand.advance(SECOND);
            std::thread::yield_now();
            assert!(std::time::Instant::now() < deadline, "woken: {:?}", woken.0);
        }
        assert_eq!(line[2].poll(&waker), Poll::Ready(Ok(())));
    }

    #[test]
    fn b2_a_burst_is_full_at_first() {
        let budget = crate::Budget::per_second("api", 1).burst(10);
        assert_eq!((budget.capacity(), budget.available()), (10, 10));
        assert_eq!(budget.burst(3).available(), 3);
        let nothing = crate::Budget::per_second("off", 0);
        assert_eq!(nothing.try_acquire(1).unwrap_err().reason(), Reason::TooHeavy);
    }

    #[test]
    fn b1_a_waker_that_panics_keeps_nobody_waiting() {
        struct Bad;
        impl Wake for Bad {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("on purpose: a waker that panics in its drop");
            }
        }
        let pot = Pot::new("memory".into(), Supply::held(10), Clock::system());
        pot.try_take(5).unwrap();
        let (mut first, mut second) = (in_line(&pot, 10), in_line(&pot, 5));
        let (woken, waker) = waker();
        assert!(first.poll(&Waker::from(Arc::new(Bad))).is_pending());
        assert!(second.poll(&waker).is_pending());
        drop(first); // the turn passes on, whatever the waker does
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(second.poll(&waker), Poll::Ready(Ok(())));
    }
}

//! Map over a slice: a few tasks share the items.

use std::error::Error;
use std::fmt;
use std::iter;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::admission::Patience;
use crate::core::{Core, HARD};
use crate::cx::Cx;
use crate::fences::Fences;
use crate::frames;
use crate::job::WithCx;
use crate::life::CellRef;
use crate::panics::{self, Panic, quietly};
use crate::pool::Pool;
use crate::ranges::Ranges;
use crate::refused::{HOLDS_UP_A_RUNTIME, Reason};
use crate::scope::Scope;
use crate::settle;
use crate::sync::Lock;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::task::Offer;
use crate::token::{Listener, Token};

/// What [`Pool::map_slice`] returns when a result is missing.
pub struct SliceError<T> {
    /// One for each item; `None` if it panicked or was not run.
    pub results: Vec<Option<T>>,
    /// The numbers of the items that panicked, and their panics.
    pub panics: Vec<(usize, Panic)>,
    /// Why items were not run, if some were not: the pool is closed or is being stopped
    /// (`Closed`), or the tasks that ran them were (`Cancelled`); inside a poll of a future it
    /// would block (`WouldDeadlock`).
    pub refused: Option<Reason>,
}

impl<S: 'static> Pool<S> {
    /// Runs `f` on each item of a slice, which it may borrow, and returns the results in
    /// order. Blocks.
    ///
    /// At most one task per worker shares the items: each takes one at a time, and who has
    /// none left takes over half of somebody's, so nothing waits behind a long item. That
    /// makes it the cheapest way to run many short items: no task, queue place or wake-up for
    /// each. They are counted as `items`, and the pool's `task_timeout` does not apply.
    ///
    /// A panic costs the one item. A Hard shutdown ends it between two items; Light lets it
    /// finish, and so does Soft once an item has begun. Inside a task of the pool that task takes part, so it also works on
    /// one worker.
    ///
    /// ```
    /// use tidegate::{Pool, Shutdown};
    ///
    /// let pool = Pool::builder("lengths").workers(2).build()?;
    /// let words = ["tide".to_string(), "gate".to_string(), "!".to_string()];
    /// assert_eq!(pool.map_slice(&words, |word| word.len())?, [4, 4, 1]);
    /// pool.shutdown(Shutdown::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map_slice<I, T, F>(&self, items: &[I], f: F) -> Result<Vec<T>, SliceError<T>>
    where
        I: Sync,
        T: Send,
        F: Fn(&I) -> T + Sync,
    {
        // Of one round, mostly, which has made room for all of its own.
        let mut results = Vec::new();
        // Longer slices than a range can count go in several rounds.
        for (round, part) in items.chunks(Ranges::MOST as usize).enumerate() {
            let before = round * Ranges::MOST as usize;
            match self.map_part(part, &f) {
                Ok(more) if results.is_empty() => results = more,
                Ok(more) => results.extend(more),
                Err(mut error) => {
                    let rest = items.len() - before - part.len();
                    error.results.splice(0..0, results.into_iter().map(Some));
                    error.results.extend((0..rest).map(|_| None));
                    error.panics.iter_mut().for_each(|(item, _)| *item += before);
                    return Err(error);
                }
            }
        }
        Ok(results)
    }

    fn map_part<I, T, F>(&self, items: &[I], f: &F) -> Result<Vec<T>, SliceError<T>>
    where
        I: Sync,
        T: Send,
        F: Fn(&I) -> T + Sync,
    {
        if frames::polls() {
            let results = items.iter().map(|_| None).collect();
            let refused = Some(Reason::WouldDeadlock); // it blocks
            return Err(SliceError { results, panics: Vec::new(), refused });
        }
        let core = self.core();
        let mut results = Vec::with_capacity(items.len());
        results.resize_with(items.len(), MaybeUninit::uninit);
        let participants = core.most_workers().clamp(1, items.len().max(1));
        let fences = Fences::best(core.config.spawner.as_ref());
        let sharing = Sharing {
            core,
            items,
            f,
            places: Places(results.as_mut_ptr()),
            ranges: Ranges::new(items.len() as u32, participants, fences),
            left: AtomicU64::new(items.len() as u64),
            to_come: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            queued: Lock::default(),
            enough: Token::new(),
            ended: Lock::new(Ended::default()),
        };
        let refused = loop {
            let refused = self.scope(|scope| sharing.share_out(scope, participants));
            // Somebody else's full queue may have pushed our tasks out before they began.
            let left = sharing.left.load(SeqCst) > 0 && !sharing.stopped.load(SeqCst);
            if !left || refused.is_some() || core.queue.is_closed() {
                break refused;
            }
        };
        let complete = sharing.left.load(SeqCst) == 0;
        let Ended { filled, mut panics } = std::mem::take(&mut *sharing.ended.lock());
        if complete && panics.is_empty() {
            return Ok(all_filled(results));
        }
        let mut found: Vec<Option<T>> = results.iter().map(|_| None).collect();
        for place in filled.into_iter().flatten() {
            // SAFETY: a participant has filled it, and each place is listed once.
            found[place as usize] = Some(unsafe { results[place as usize].assume_init_read() });
        }
        let stopped = if core.queue.is_closed() { Reason::Closed } else { Reason::Cancelled };
        let refused = if complete { None } else { Some(refused.unwrap_or(stopped)) };
        panics.sort_by_key(|(item, _)| *item);
        Err(SliceError { results: found, panics, refused })
    }
}

/// Every place is filled.
fn all_filled<T>(results: Vec<MaybeUninit<T>>) -> Vec<T> {
    let mut results = ManuallyDrop::new(results);
    // SAFETY: same layout, same allocation, and all of it is initialised.
    unsafe { Vec::from_raw_parts(results.as_mut_ptr().cast(), results.len(), results.capacity()) }
}

/// One slice, while it is being worked on.
struct Sharing<'a, I, T, F> {
    core: &'a Arc<Core>,
    items: &'a [I],
    f: &'a F,
    places: Places<T>,
    ranges: Ranges,
    /// Items that nobody has finished.
    left: AtomicU64,
    /// Participants that have neither begun nor been refused.
    to_come: AtomicU64,
    /// A participant was told to stop.
    stopped: AtomicBool,
    /// Those that may be queued.
    queued: Lock<Vec<CellRef>>,
    /// Tells one that waits for room that there is nothing left.
    enough: Token,
    ended: Lock<Ended>,
}

/// Where results go. Each place is written by the one participant that took its item.
struct Places<T>(*mut MaybeUninit<T>);

// SAFETY: by the rule above no two threads touch the same place, and `T` changes threads.
unsafe impl<T: Send> Sync for Places<T> {}

#[derive(Default)]
struct Ended {
    filled: Vec<Range<u32>>,
    panics: Vec<(usize, Panic)>,
}

impl<I: Sync, T: Send, F: Fn(&I) -> T + Sync> Sharing<'_, I, T, F> {
    /// Gets the participants going; the reason if one was refused.
    fn share_out<'scope, S: 'static>(
        &'scope self,
        scope: &'scope Scope<'scope, '_, S>,
        participants: usize,
    ) -> Option<Reason> {
        let inside = frames::depth(self.core.address()) > 0;
        let patience = if inside { Patience::Probe } else { Patience::Room };
        let registered = Lock::new(None);
        let unwanted = |waker: &Waker| {
            *registered.lock() = self.enough.register(Listener::Waker(waker.clone()));
            self.enough.is_cancelled()
        };
        let (mut refused, mut helpers) = (None, 0);
        self.to_come.store(participants as u64, SeqCst);
        for me in usize::from(inside)..participants {
            if self.left.load(SeqCst) == 0 || refused.is_some() {
                break;
            }
            let offer = Offer {
                unwanted: Some(&unwanted),
                patience,
                timeout: Some(Duration::MAX),
                // Whom the first one wakes may get this thread's core, and be through with all
                // items before it gets that back: there must be one to wake the next for.
                others_follow: helpers == 0 && me + 1 < participants,
                ..Offer::default()
            };
            let work = WithCx(move |cx: &Cx| {
                let cell = cx.cell();
                self.to_come.fetch_sub(1, SeqCst);
                self.take_part(me, move || cell.stop_requested().is_some());
            });
            match scope.offer_item(work, offer) {
                Ok(helper) => {
                    self.queued.lock().extend(helper.cell());
                    helper.detach();
                    helpers += 1;
                }
                // Whoever is inside does it alone.
                Err(not_taken) if inside && not_taken.reason() == Reason::Full => break,
                Err(not_taken) => refused = Some(not_taken.reason()),
            }
        }
        self.core.tasks_added(); // also for one that none has followed
        let missing = usize::from(inside) + helpers..participants;
        self.to_come.fetch_sub((usize::from(inside) + missing.len()) as u64, SeqCst);
        if inside {
            // Those that found no room come last, when mostly nothing is left of theirs. But if
            // the fences of thieves fail, nobody else can begin it.
            let mut mine = iter::once(0).chain(missing);
            while self.left.load(SeqCst) > 0
                && let Some(me) = mine.next()
            {
                self.take_part(me, || self.core.flags.load(SeqCst) & HARD != 0);
            }
        }
        self.end_if_done();
        refused
    }

    fn end_if_done(&self) {
        if self.left.load(SeqCst) == 0 && self.to_come.load(SeqCst) > 0 {
            for cell in std::mem::take(&mut *self.queued.lock()) {
                settle::complete_queued(cell, self.core);
            }
            self.enough.cancel();
        }
    }

    /// Runs items until there are none.
    fn take_part(&self, me: usize, stopping: impl Fn() -> bool) {
        let mut ended = Ended::default();
        // Where the run of filled places begins that is not listed yet.
        let mut first = self.ranges.hand(me).next();
        // Items share one catch as long as none panics, and a run is noted at its end: an item
        // costs hardly more than its call.
        loop {
            let filled = &mut ended.filled;
            let run = || match panics::is_captured() {
                false => self.run_items(me, &stopping, &mut first, filled, self.f),
                true => self.run_items(me, &stopping, &mut first, filled, |item| {
                    panics::begin_next();
                    (self.f)(item)
                }),
            };
            match quietly(run) {
                Ok(end) => {
                    ended.filled.push(first..end);
                    break;
                }
                Err(panic) => {
                    let at = self.ranges.last(me);
                    ended.panics.push((at as usize, panic));
                    ended.filled.push(first..at);
                    first = at + 1;
                }
            }
        }
        if stopping() {
            self.stopped.store(true, SeqCst);
        }
        let done = ended.filled.iter().map(ExactSizeIterator::len).sum::<usize>() as u64;
        let done = done + ended.panics.len() as u64;
        {
            let mut all = self.ended.lock();
            all.filled.append(&mut ended.filled);
            all.panics.append(&mut ended.panics);
        }
        self.core.ledger.items.fetch_add(done, SeqCst);
        self.left.fetch_sub(done, SeqCst);
        self.end_if_done();
    }

    /// Runs items until there are none, or one panics. Lists the runs of places that it has
    /// filled, but for the last, which begins at `first`, and gives its end.
    #[inline(always)]
    fn run_items(
        &self,
        me: usize,
        stopping: impl Fn() -> bool,
        first: &mut u32,
        filled: &mut Vec<Range<u32>>,
        f: impl Fn(&I) -> T,
    ) -> u32 {
        let (items, places) = (self.items, self.places.0);
        let mut hand = self.ranges.hand(me);
        let mut end = hand.next();
        while !stopping()
            && let Some(at) = hand.take()
        {
            if at != end {
                filled.push(*first..end);
                *first = at;
            }
            let value = f(&items[at as usize]);
            // SAFETY: the item is ours, so its place is, and lies in the vector.
            unsafe { (*places.add(at as usize)).write(value) };
            end = at + 1;
        }
        end
    }
}

impl<T> fmt::Debug for SliceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceError")
            .field("items", &self.results.len())
            .field("panics", &self.panics)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SliceError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.results.len();
        if let Some((item, panic)) = self.panics.first() {
            let count = self.panics.len();
            return write!(
                f,
                "{count} of {all} items panicked, among them item {item}: {}",
                panic.message()
            );
        }
        let done = self.results.iter().flatten().count();
        match self.refused {
            Some(Reason::Cancelled) => {
                write!(f, "{done} of {all} items were run, then their tasks were stopped")
            }
            Some(Reason::WouldDeadlock) => {
                write!(f, "none of {all} items was run: {HOLDS_UP_A_RUNTIME}; ")?;
                f.write_str("call it in `spawn_blocking`, or await a task for each item")
            }
            Some(reason) => write!(f, "{done} of {all} items were run; of the pool: {reason}"),
            None => write!(f, "{done} of {all} items were run"),
        }
    }
}

impl<T> Error for SliceError<T> {}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use crate::fences::FORBIDDEN;
    use crate::{Pool, Shutdown, Token};

    /// What takes longer than this will not come any more.
    const HANG: Duration = Duration::from_secs(20);

    /// Items share one catch.
    #[test]
    fn the_panic_of_an_item_has_no_backtrace_of_the_item_before()
    -> Result<(), Box<dyn std::error::Error>> {
        crate::capture_backtraces();
        let pool = Pool::builder("traced").workers(1).build()?;
        let error = pool
            .map_slice(&[0, 1, 2], |item| match item {
                0 => drop(std::panic::catch_unwind(|| panic!("caught by the item itself"))),
                1 => std::panic::resume_unwind(Box::new("no hook, no backtrace")),
                _ => (),
            })
            .unwrap_err();
        let [(1, panic)] = &error.panics[..] else { panic!("{error:?}") };
        assert_eq!(panic.message(), "no hook, no backtrace");
        assert!(panic.backtrace().is_none(), "it is that of item 0");
        pool.shutdown(Shutdown::default())?;
        Ok(())
    }

    /// Nothing can be taken over then, so who is inside must begin all that nobody else can.
    #[test]
    fn without_fences_a_map_inside_a_full_pool_still_ends() -> Result<(), Box<dyn std::error::Error>>
    {
        let pool = Pool::builder("sandboxed").workers(2).queue(1).build()?;
        let gate = Token::new();
        let shut = gate.clone();
        let held = pool.submit(move || shut.wait())?;
        let (inside, (tell, told)) = (pool.clone(), mpsc::channel());
        let (full, filled) = mpsc::channel();
        let map = pool.submit(move || {
            let _: Result<(), _> = filled.recv();
            FORBIDDEN.set(true);
            let items: Vec<u32> = (0..100).collect();
            let doubled = inside.map_slice(&items, |n| 2 * n);
            FORBIDDEN.set(false);
            tell.send(doubled.map_err(|error| error.to_string()))
        })?;
        let queued = pool.submit(|| ())?;
        full.send(())?;
        let doubled = told.recv_timeout(HANG)?;
        assert_eq!(doubled?, (0..100).map(|n| 2 * n).collect::<Vec<u32>>());
        gate.cancel();
        held.wait()?;
        map.wait()??;
        queued.wait()?;
        pool.shutdown(Shutdown::default())?;
        Ok(())
    }
}

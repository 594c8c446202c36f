//! The queue: a ring with an exact bound, a spill behind it, and credit for
//! tasks that leave from the middle.
//!
//! ```text
//!  waiting = (tail − head) + spilled − credit  ≤  bound
//!  a ticket t may be taken iff  t < head + bound + credit
//! ```
//!
//! Who changes `credit`:
//! - the winner of a claim on a cell that is *not* moving `head` over it: + 1;
//! - whoever skips a dead slot: − 1, before it moves `head` (+ 1 if it loses the move);
//! - with a bound of 0, a worker that has nothing to do: + 1; − 1 before it moves `head`.
//!
//! Read `head`, then `credit`. Every transient error of the sum is on the low
//! side, and `head + credit` never falls, so a limit once computed stays valid.
//! A refusal must not rest on such an error: whoever takes a credit and moves `head`
//! counts before and after, and who finds no room looks again if anybody was at it.

use std::collections::VecDeque;
#[cfg(not(tidegate_loom))]
use std::time::Duration;

use crate::job::InlineJob;
use crate::life::CellRef;
use crate::ring::{CLOSED, Peek, Ring, SPILLING, Ticket, ticket};
#[cfg(not(tidegate_loom))]
use crate::stamps::Stamps;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use crate::sync::{Lock, MODELLED, Padded, snooze};

/// How long a taker waits for the winner of a claim to move `head`. Not at all in models:
/// there a yield *must* let another thread go on, which hides what happens if none does.
const SKIP_STEPS: u32 = if MODELLED { 0 } else { 3 };

/// Slots for takers that have moved `head` and not freed theirs yet.
const TAKING: u64 = 1_024;

/// One queued task.
#[derive(Debug)]
pub(crate) enum Item {
    Inline(InlineJob),
    Cell(CellRef),
}

/// Why an offer was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Full,
    Closed,
}

/// May the offer take room that is reserved for the first in line?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Newcomer,
    FirstInLine,
}

/// How often somebody began, and ended, to take a credit and move `head`.
#[derive(Debug)]
struct Shifts {
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Queue {
    ring: Ring,
    bound: u64,
    credit: Padded<AtomicI64>,
    shifts: Padded<Shifts>,
    /// Room belongs to the first waiting submitter (`lobby.rs`).
    reserved: AtomicBool,
    /// With a bound of 0: a paused worker is not an idle one.
    suspended: AtomicBool,
    spill: Lock<VecDeque<Item>>,
    /// Accepted through the spill, ever.
    spilled: AtomicU64,
    /// How long they wait; models don't ask.
    #[cfg(not(tidegate_loom))]
    stamps: Option<Stamps>,
}

impl Queue {
    pub(crate) fn new(bound: usize, workers: usize) -> Self {
        let (bound, workers) = (bound as u64, workers as u64);
        // A taker has a slot for a moment longer than its task waits. More takers than that
        // in that moment would only make the queue spill.
        let beside = if bound == 0 { workers } else { workers.min(TAKING) };
        Queue {
            ring: Ring::new(bound.saturating_add(beside)),
            bound,
            credit: Padded(AtomicI64::new(0)),
            shifts: Padded(Shifts { begun: AtomicU64::new(0), ended: AtomicU64::new(0) }),
            reserved: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            spill: Lock::new(VecDeque::new()),
            spilled: AtomicU64::new(0),
            #[cfg(not(tidegate_loom))]
            stamps: None,
        }
    }

    /// With an eye on how long tasks wait.
    #[cfg(not(tidegate_loom))]
    pub(crate) fn watched(self, clock: crate::clock::Clock) -> Self {
        let stamps = Some(Stamps::new(clock, self.ring.slots()));
        Queue { stamps, ..self }
    }

    /// A queue whose ring is smaller than its bound, so that models reach the spill.
    #[cfg(any(test, tidegate_loom, tidegate_shuttle))]
    #[allow(dead_code, reason = "used by models and tests only")]
    pub(crate) fn with_slots(bound: usize, slots: u64) -> Self {
        Queue::with_slots_from(bound, slots, 0)
    }

    /// As `with_slots`, with `first` as the first ticket.
    #[cfg(any(test, tidegate_loom, tidegate_shuttle))]
    #[allow(dead_code, reason = "used by models and tests only")]
    pub(crate) fn with_slots_from(bound: usize, slots: u64, first: u64) -> Self {
        Queue { ring: Ring::starting_at(slots, first), ..Queue::new(bound, 0) }
    }

    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    // ------------------------------------------------------------ offering

    /// Accepts the job, or hands it back.
    #[inline(always)]
    pub(crate) fn push_inline(
        &self,
        job: InlineJob,
        standing: Standing,
    ) -> Result<(), (NoRoom, InlineJob)> {
        match self.admit(standing) {
            Ok(Some(t)) => {
                self.ring.publish_inline(t, job);
                self.came(t);
                Ok(())
            }
            Ok(None) => match self.push_spill(Item::Inline(job), standing) {
                Ok(()) => Ok(()),
                Err((why, Item::Inline(job))) => Err((why, job)),
                Err((_, Item::Cell(_))) => unreachable!("the spill returned another item"),
            },
            Err(why) => Err((why, job)),
        }
    }

    /// Accepts as many of `jobs`, in order, as get a ticket at once; says how many.
    pub(crate) fn push_many(&self, wanted: usize, mut job: impl FnMut() -> InlineJob) -> usize {
        let limit = self.ring.producers.limit.load(Acquire);
        let tickets = self.ring.take_tickets(wanted as u64, limit);
        let count = tickets.end - tickets.start;
        for t in tickets {
            self.ring.publish_inline(t, job());
            self.came(t);
        }
        count as usize
    }

    /// Accepts the cell, which must be in phase Queued.
    #[inline(always)]
    pub(crate) fn push_cell(&self, cell: CellRef, standing: Standing) -> Result<(), NoRoom> {
        match self.admit(standing) {
            Ok(Some(t)) => {
                self.ring.publish_cell(t, cell);
                self.came(t);
                Ok(())
            }
            Ok(None) => self.push_spill(Item::Cell(cell), standing).map_err(|(why, _)| why),
            Err(why) => Err(why),
        }
    }

    #[cfg(tidegate_loom)]
    fn came(&self, _: u64) {}

    #[cfg(not(tidegate_loom))]
    #[inline(always)]
    fn came(&self, t: u64) {
        if let Some(stamps) = &self.stamps {
            stamps.came(t);
        }
    }

    /// How long the task with this ticket has waited, and for how many it stands, if that is
    /// known.
    #[cfg(not(tidegate_loom))]
    #[inline(always)]
    pub(crate) fn waited(&self, ticket: Option<u64>) -> Option<(Duration, u64)> {
        self.stamps.as_ref()?.went(ticket?)
    }

    /// Whether tasks are so long that each can be watched.
    #[cfg(not(tidegate_loom))]
    pub(crate) fn watch_all(&self, all: bool) {
        if let Some(stamps) = &self.stamps {
            stamps.watch_all(all);
        }
    }

    /// A ticket, or None for the spill.
    #[inline(always)]
    fn admit(&self, standing: Standing) -> Result<Option<u64>, NoRoom> {
        let cached = self.ring.producers.limit.load(Acquire);
        match self.ring.take_ticket(cached) {
            Ticket::Granted(t) => Ok(Some(t)),
            other => self.admit_slowly(other, standing),
        }
    }

    #[cold]
    fn admit_slowly(&self, mut answer: Ticket, standing: Standing) -> Result<Option<u64>, NoRoom> {
        loop {
            match answer {
                Ticket::Granted(t) => return Ok(Some(t)),
                Ticket::Closed => return Err(NoRoom::Closed),
                Ticket::NoSlot | Ticket::Spilling => return Ok(None),
                Ticket::AtLimit(t) => {
                    answer = match self.fresh_limit(t, standing) {
                        Some(limit) if t >= limit => return Err(NoRoom::Full),
                        Some(limit) => self.ring.take_ticket(limit),
                        // Says whether it spills now.
                        None => self.ring.take_ticket(0),
                    };
                }
            }
        }
    }

    /// How far tickets may go now, `t` being the next; None if the spill came in between.
    fn fresh_limit(&self, t: u64, standing: Standing) -> Option<u64> {
        let reserved = self.reserved.load(SeqCst);
        if reserved && standing == Standing::Newcomer || self.is_suspended() {
            return Some(0);
        }
        // A limit stays valid for ever, but the credit of a task that died in the spill goes
        // with the spill: count none of those.
        let spilled = self.spilled.load(SeqCst);
        if self.ring.tail() & SPILLING != 0 {
            return None;
        }
        let limit = self.sum(|head, credit| {
            let limit = (head + self.bound).saturating_add_signed(credit);
            (limit, t < limit)
        });
        if self.spilled.load(SeqCst) != spilled {
            return None;
        }
        // With a bound of 0 every offer looks for itself: a pause counts at once.
        if !reserved && self.bound != 0 {
            self.ring.producers.limit.store(limit, Release);
        }
        Some(limit)
    }

    /// What `head` and `credit` give; unless that means room, of a moment when nobody shifts one
    /// against the other.
    fn sum<R>(&self, of: impl Fn(u64, i64) -> (R, bool)) -> R {
        let mut step = 0;
        loop {
            let ended = self.shifts.ended.load(SeqCst);
            let head = self.ring.head.load(SeqCst);
            let (sum, is_room) = of(head, self.credit.load(SeqCst));
            if is_room || self.shifts.begun.load(SeqCst) == ended {
                return sum;
            }
            snooze(step);
            step += 1;
        }
    }

    /// A paused `queue(0)` pool hands nothing over.
    pub(crate) fn suspend(&self, on: bool) {
        self.suspended.store(on, SeqCst);
    }

    fn is_suspended(&self) -> bool {
        self.bound == 0 && self.suspended.load(SeqCst)
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.load(SeqCst)
    }

    /// Keeps room for the first in line, or stops keeping it.
    pub(crate) fn reserve(&self, on: bool) {
        self.reserved.store(on, SeqCst);
        if on {
            // Newcomers come to `fresh_limit` and find the reservation.
            self.ring.producers.limit.store(0, SeqCst);
        }
    }

    #[cold]
    fn push_spill(&self, item: Item, standing: Standing) -> Result<(), (NoRoom, Item)> {
        let mut spill = self.spill.lock();
        let mut tail = self.ring.tail();
        loop {
            if tail & CLOSED != 0 {
                return Err((NoRoom::Closed, item));
            }
            let reserved = self.reserved.load(SeqCst) && standing == Standing::Newcomer;
            if reserved || self.is_suspended() {
                return Err((NoRoom::Full, item));
            }
            let bound = i64::try_from(self.bound).unwrap_or(i64::MAX);
            let is_room = self.sum(|head, credit| {
                // Signed: `tail` may be old, and with a bound of 0 the sum must be negative.
                let waiting = ticket(tail) as i64 - head as i64 + spill.len() as i64 - credit;
                (waiting < bound, waiting < bound)
            });
            if !is_room {
                return Err((NoRoom::Full, item));
            }
            if tail & SPILLING != 0 {
                break;
            }
            if !self.ring.slot_is_busy(ticket(tail)) {
                // The ring has room again: a ticket keeps the order, and costs less.
                drop(spill);
                return self.push_again(item, standing);
            }
            match self.ring.start_spilling(tail) {
                Ok(()) => break,
                Err(now) => tail = now,
            }
        }
        spill.push_back(item);
        self.spilled.fetch_add(1, SeqCst);
        if spill.len() as u64 > 2 * self.bound + 64 {
            self.compact(&mut spill);
        }
        Ok(())
    }

    fn push_again(&self, item: Item, standing: Standing) -> Result<(), (NoRoom, Item)> {
        match item {
            Item::Inline(job) => {
                self.push_inline(job, standing).map_err(|(why, job)| (why, Item::Inline(job)))
            }
            Item::Cell(cell) => {
                self.push_cell(cell, standing).map_err(|why| (why, Item::Cell(cell)))
            }
        }
    }

    /// Throws dead entries out; each takes the credit that its claim gave.
    fn compact(&self, spill: &mut VecDeque<Item>) {
        let before = spill.len();
        spill.retain(|item| match item {
            Item::Inline(_) => true,
            Item::Cell(cell) => cell.is_queued(),
        });
        self.credit.fetch_sub((before - spill.len()) as i64, SeqCst);
    }

    // ------------------------------------------------------------ taking

    /// Takes the oldest live task. `claim` tries to win a cell for the caller.
    /// `reserved_self`: the caller is a worker of a `queue(0)` pool that gave a credit
    /// for itself and takes it back with the task.
    #[inline(always)]
    pub(crate) fn take(
        &self,
        reserved_self: bool,
        claim: impl Fn(CellRef) -> bool,
    ) -> Option<Item> {
        self.take_if(reserved_self, || true, claim).map(|(item, _)| item)
    }

    /// As `take`, with its ticket if it had one; `go` is asked again for each task that was
    /// seen, before it is taken. Whoever forbids it and then publishes a task can rely on that.
    #[inline(always)]
    pub(crate) fn take_if(
        &self,
        reserved_self: bool,
        go: impl Fn() -> bool,
        claim: impl Fn(CellRef) -> bool,
    ) -> Option<(Item, Option<u64>)> {
        loop {
            let h = self.ring.head.load(SeqCst);
            match self.ring.peek(h) {
                Peek::Inline | Peek::Cell(_) if !go() => return None,
                Peek::Inline => {
                    if self.pass(h, reserved_self) {
                        // SAFETY: peeked Inline, and we moved `head`.
                        let job = unsafe { self.ring.take_inline(h) };
                        return Some((Item::Inline(job), Some(h)));
                    }
                }
                Peek::Cell(cell) => {
                    if self.take_cell(h, cell, reserved_self, &claim) {
                        return Some((Item::Cell(cell), Some(h)));
                    }
                    self.skip(h);
                }
                Peek::Late => snooze(0),
                Peek::Nothing => {
                    let tail = self.ring.tail();
                    if tail & SPILLING == 0 {
                        return None;
                    }
                    if self.ring.head.load(SeqCst) == ticket(tail) {
                        if !go() {
                            return None;
                        }
                        match self.take_spilled(reserved_self, &claim) {
                            Some(found) => return found.map(|item| (item, None)),
                            None => continue,
                        }
                    }
                    if self.ring.head.load(SeqCst) == h {
                        // A producer is just publishing. `looks_nonempty` says yes all the
                        // time: let it have the core.
                        snooze(5);
                        return None;
                    }
                }
            }
        }
    }

    /// Takes `wanted` if it is the oldest.
    pub(crate) fn take_first(&self, wanted: CellRef, claim: impl Fn(CellRef) -> bool) -> bool {
        let h = self.ring.head.load(SeqCst);
        let found = matches!(self.ring.peek(h), Peek::Cell(cell) if cell == wanted);
        found && self.take_cell(h, wanted, false, claim)
    }

    /// Claims the cell that was peeked at `h`, and moves `head` over it.
    #[inline(always)]
    fn take_cell(
        &self,
        h: u64,
        cell: CellRef,
        reserved_self: bool,
        claim: impl Fn(CellRef) -> bool,
    ) -> bool {
        let claimed = claim(cell);
        if claimed {
            if self.pass(h, reserved_self) {
                self.ring.free(h);
            } else if !reserved_self {
                // Somebody took our claim for a dead slot and skipped it.
                self.give_credit(); // otherwise our own pays for it
            }
        }
        claimed
    }

    /// Moves `head` over a slot whose cell somebody else claimed.
    #[cold]
    fn skip(&self, h: u64) {
        // The winner is most likely a worker about to move `head` itself.
        #[allow(clippy::reversed_empty_ranges, reason = "no steps at all under a model checker")]
        for step in 0..SKIP_STEPS {
            if self.ring.head.load(Relaxed) != h {
                return;
            }
            snooze(step);
        }
        if self.shift(h) {
            self.ring.free(h);
        }
    }

    /// Moves `head` over the slot `h`, with the caller's own credit if it gave one.
    #[inline(always)]
    fn pass(&self, h: u64, reserved_self: bool) -> bool {
        if reserved_self { self.shift(h) } else { self.ring.advance(h) }
    }

    /// Takes a credit and moves `head` over the slot `h`: both, or neither if somebody else
    /// has moved it.
    #[cold]
    fn shift(&self, h: u64) -> bool {
        self.shifts.begun.fetch_add(1, SeqCst);
        self.credit.fetch_sub(1, SeqCst);
        let moved = self.ring.advance(h);
        if !moved {
            self.give_credit();
        }
        self.shifts.ended.fetch_add(1, SeqCst);
        moved
    }

    /// None: it is not the spill's turn any more.
    #[cold]
    fn take_spilled(
        &self,
        reserved_self: bool,
        claim: impl Fn(CellRef) -> bool,
    ) -> Option<Option<Item>> {
        let mut spill = self.spill.lock();
        // The bit changes only under this lock, and while it is set no ticket is granted:
        // what is true of the two now stays true.
        let tail = self.ring.tail();
        if tail & SPILLING == 0 || self.ring.head.load(SeqCst) != ticket(tail) {
            return None;
        }
        let mut found = None;
        while let Some(item) = spill.pop_front() {
            match item {
                Item::Cell(cell) if !claim(cell) => {
                    self.credit.fetch_sub(1, SeqCst);
                }
                live => {
                    found = Some(live);
                    break;
                }
            }
        }
        if found.is_some() && reserved_self {
            self.credit.fetch_sub(1, SeqCst);
        }
        if spill.is_empty() {
            self.ring.stop_spilling();
        }
        Some(found)
    }

    /// A place in the middle of the queue came free, or a worker of a `queue(0)` pool
    /// waits for a task.
    pub(crate) fn give_credit(&self) {
        self.credit.fetch_add(1, SeqCst);
    }

    /// A worker of a `queue(0)` pool stops waiting.
    pub(crate) fn take_credit_back(&self) {
        self.credit.fetch_sub(1, SeqCst);
    }

    /// As `take_credit_back`, unless a ticket was granted that counts on this worker: then
    /// false, and the worker must look for it.
    pub(crate) fn withdraw(&self) -> bool {
        let credit = self.credit.fetch_sub(1, SeqCst) - 1;
        let alone = self.backlog().0 as i64 <= credit;
        if !alone {
            self.give_credit();
        }
        alone
    }

    // ------------------------------------------------------------ looking

    /// How many entries no taker has passed yet, and how many of them are alive, about.
    pub(crate) fn backlog(&self) -> (u64, u64) {
        let spilled = if self.is_spilling() { self.spill.lock().len() as u64 } else { 0 };
        let head = self.ring.head.load(SeqCst);
        let entries = ticket(self.ring.tail()).saturating_sub(head) + spilled;
        // With a bound of 0 credit stands for workers, not for the dead.
        let dead = if self.bound == 0 { 0 } else { self.credit.load(SeqCst).max(0) as u64 };
        (entries, entries.saturating_sub(dead))
    }

    /// True if a taker would find something to do. SeqCst: half of the sleep/wake pair.
    #[inline(always)]
    pub(crate) fn looks_nonempty(&self) -> bool {
        self.ring.has_published() || self.ring.tail() & SPILLING != 0
    }

    /// Every cell that waits, and some that no longer do: whoever acts on one claims it.
    pub(crate) fn each_cell(&self, mut see: impl FnMut(CellRef)) {
        let tail = ticket(self.ring.tail());
        let mut at = self.ring.head.load(SeqCst);
        while at < tail {
            match self.ring.peek(at) {
                Peek::Cell(cell) => see(cell),
                // Taken meanwhile, and with it what was before: go on at the head.
                Peek::Late => at = at.max(self.ring.head.load(SeqCst).saturating_sub(1)),
                Peek::Inline | Peek::Nothing => {}
            }
            at += 1;
        }
        for item in self.spill.lock().iter() {
            if let Item::Cell(cell) = item {
                see(*cell);
            }
        }
    }

    /// True when closed and nothing is left, not even a ticket that is being published.
    pub(crate) fn is_drained(&self) -> bool {
        let tail = self.ring.tail();
        tail & CLOSED != 0 && tail & SPILLING == 0 && self.ring.head.load(SeqCst) == ticket(tail)
    }

    /// Nothing queued, nothing being published. A snapshot in time.
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.ring.head.load(SeqCst);
        let tail = self.ring.tail();
        tail & SPILLING == 0 && head == ticket(tail)
    }

    /// True if exactly one ticket is out: the caller's own task is alone.
    pub(crate) fn holds_one(&self) -> bool {
        let tail = self.ring.tail();
        tail & SPILLING == 0 && ticket(tail).wrapping_sub(self.ring.head.load(SeqCst)) == 1
    }

    pub(crate) fn is_spilling(&self) -> bool {
        self.ring.tail() & SPILLING != 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.ring.tail() & CLOSED != 0
    }

    /// No ticket is granted from now on; true for the call that did it.
    pub(crate) fn close(&self) -> bool {
        self.ring.close()
    }

    /// Tasks that ever came in through here.
    pub(crate) fn accepted(&self) -> u64 {
        // Spill first: it only grows while the ring's tail stands still.
        let spilled = self.spilled.load(SeqCst);
        spilled + ticket(self.ring.tail())
    }

    /// Room by the present sum, for hysteresis only.
    pub(crate) fn room(&self) -> u64 {
        // SeqCst: of whoever says that it will tell of room, and then looks, and whoever makes room,
        // and then looks whether somebody will, one sees the other (`lobby.rs`).
        let head = self.ring.head.load(SeqCst);
        let limit = (head + self.bound).saturating_add_signed(self.credit.load(SeqCst));
        limit.saturating_sub(ticket(self.ring.producers.tail.load(Relaxed)))
    }

    /// Whether there is room. Mostly a producer knows, and need not ask where the takers are.
    pub(crate) fn has_room(&self) -> bool {
        let producers = &self.ring.producers;
        // Closed or spilling it is far behind any limit.
        producers.tail.load(Relaxed) < producers.limit.load(Relaxed) || self.room() > 0
    }

    pub(crate) fn head(&self) -> u64 {
        self.ring.head.load(Relaxed)
    }

    pub(crate) fn tickets(&self) -> u64 {
        ticket(self.ring.producers.tail.load(Relaxed))
    }
}

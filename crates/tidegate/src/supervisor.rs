//! The supervisor: one thread that watches time and threads, and never runs user code.
//!
//! It sleeps until somebody wakes it or the next deadline comes, then does one `tick`:
//! give up tasks whose grace is over, fill empty places, turn a late shutdown Hard, join
//! threads that have left, and, in the end, write the report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cell::Kind;
use crate::clock::Ticks;
use crate::core::{Core, HARD, STOPPING};
use crate::decide;
use crate::event::Event;
use crate::frames;
use crate::ids::{TaskInfo, WorkerId};
use crate::life::CellRef;
use crate::line::{STUCK, WorkerLine};
use crate::outcome::Cause;
use crate::pace::Looks;
use crate::queue::Item;
use crate::reaper::Chore;
use crate::report::Report;
use crate::resize::Sizing;
use crate::roster::Phase;
use crate::settle::{self, Who};
use crate::spawn;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::trace::{self, News};
use crate::unobserved::UnobservedKind;
use crate::worker::{End, Worker};

/// How soon to look again at a reaper at work, and at a worker that is about to stop.
const RETRY: Duration = Duration::from_millis(10);

pub(crate) fn supervise(core: Arc<Core>) {
    let ending = Arc::clone(&core.ending);
    let (mut looks, mut sizing) = (Looks::default(), Sizing::default());
    let report = loop {
        match core.tick(core.clock.now(), &mut sizing) {
            Ok(nap) => core.sleep(nap, &mut looks, sizing.pace()),
            Err(report) => break report,
        }
    };
    // Whoever sees the report finds the core's threads gone, this one's share included.
    drop(core);
    ending.report.set(report);
}

/// When to look again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nap {
    /// By the pool's clock.
    pub(crate) at: Ticks,
    /// By the system's, whatever the pool's clock is: threads take real time to leave.
    pub(crate) really: Ticks,
}

impl Nap {
    pub(crate) fn until(at: Ticks) -> Nap {
        Nap { at, really: Ticks::NEVER }
    }

    pub(crate) fn really(really: Ticks) -> Nap {
        Nap { at: Ticks::NEVER, really }
    }
}

impl Core {
    /// Sleeps until it is woken or one of these times; in short mode, with an eye on the queue.
    /// `pace`: how often it looks while tasks come. A clock that a test stops does not stop tasks.
    fn sleep(&self, nap: Nap, looks: &mut Looks, pace: Option<Duration>) {
        let limit = (nap.really != Ticks::NEVER).then(|| nap.really.since(self.real_time.now()));
        let until = match limit {
            Some(limit) if self.clock.is_real() => nap.at.min(self.clock.now().after(limit)),
            _ => nap.at,
        };
        while self.pace.is_short() {
            let now = self.clock.now();
            let due = looks.due(now);
            if now >= due {
                let turn = looks.look(now, self.queue.head(), self.queue.looks_nonempty());
                if self.pace.turn(turn) {
                    self.wake_for_rest();
                }
            } else if self.supervisor.park_until(&self.clock, due.min(until)) || until <= due {
                return;
            }
        }
        match limit.into_iter().chain(pace).min() {
            Some(limit) if !self.clock.is_real() => {
                self.supervisor.park_at_most(&self.clock, until, limit);
            }
            _ => drop(self.supervisor.park_until(&self.clock, until)),
        }
    }

    /// Ok: look again at that time. Err: it is over.
    pub(crate) fn tick(
        self: &Arc<Self>,
        now: Ticks,
        sizing: &mut Sizing,
    ) -> Result<Nap, Arc<Report>> {
        let turn = self.watch_turns(now);
        let mut next = self.watch_limits(now).min(turn.at);
        let (overdue, stuck) = self.abandon_overdue(now);
        next = next.min(overdue);
        next = next.min(self.size(now, sizing));
        next = next.min(self.staff(now));
        if let Some(limit) = self.on_limit(now) {
            next = next.min(limit);
        }
        self.give_up_if_hopeless();
        self.start_reaper();
        self.do_chores_if_nobody_can();
        let reaping = !self.reaper.lock().is_idle();
        self.relieve_reaper(self.real_time.now(), false);
        self.join_leaving();
        let mut nap = self.try_to_end(now, stuck != Ticks::NEVER)?;
        if nap.really != Ticks::NEVER {
            return Ok(nap); // the last call
        }
        let really = stuck.min(self.watch_polls()).min(turn.really);
        nap = Nap { at: nap.at.min(next), really };
        if reaping && nap.at > now.after(RETRY) {
            // Whatever the pool's clock is: destructors take real time.
            nap.really = nap.really.min(self.real_time.now().after(RETRY));
        }
        Ok(nap)
    }

    // ------------------------------------------------------------ limits (L2, L3)

    /// Ends what has waited too long, and tells what has run too long.
    fn watch_limits(self: &Arc<Self>, now: Ticks) -> Ticks {
        let due = self.limits.due();
        if now < due {
            return due;
        }
        let began = self.clock.now();
        self.limits.begin_look();
        let mut next = Ticks::NEVER;
        let mut chores = Vec::new();
        let mut late = |cell: CellRef| match cell.limit() {
            Some(at) if at > now => {
                next = next.min(at);
                false
            }
            at => at.is_some(),
        };
        let mut tell = |cell: CellRef, chores: &mut Vec<Chore>| {
            if late(cell) && self.request_stop(cell, Cause::Timeout, now.0) == Some(true) {
                chores.extend(settle::own_token(cell).map(Chore::CancelToken));
            }
        };
        let lines: Vec<_> =
            self.roster.lock().entries.values().map(|entry| Arc::clone(&entry.line)).collect();
        for cell in lines.iter().flat_map(|line| line.running_cells()) {
            tell(cell, &mut chores);
        }
        let callers: Vec<_> = self.callers.lock().iter().map(|(cell, _)| *cell).collect();
        for cell in callers {
            tell(cell, &mut chores);
        }
        let mut expired = Vec::new();
        self.queue.each_cell(|cell| {
            if late(cell) {
                expired.push(cell);
            }
        });
        for cell in expired {
            if cell.claim_queued(Cause::Timeout).is_some() {
                self.queue.give_credit();
                if self.lobby.wake_first_thread() {
                    chores.push(Chore::RoomIsFree);
                }
                let kind = Kind::TimedOutInQueue;
                chores.push(Chore::Unstarted(Item::Cell(cell), kind, Cause::Timeout));
            }
        }
        if self.config.task_timeout.is_some() {
            for line in &lines {
                if let Some((run, at)) = line.inline_limit() {
                    match at > now {
                        true => next = next.min(at),
                        false => self.tell_inline(line, run),
                    }
                }
            }
        }
        let (overdue, next_alarm) = self.alarms.due(now);
        next = next.min(next_alarm);
        if !overdue.is_empty() {
            chores.push(Chore::Wake(overdue));
        }
        // A clock that is not the system's says nothing about the look.
        let took =
            if self.clock.is_real() { self.clock.now().since(began) } else { Duration::ZERO };
        let took = (!self.clock.is_manual()).then_some(took);
        self.limits.end_look(next, now, took);
        for chore in chores {
            self.reap(chore);
        }
        self.limits.due()
    }

    /// Tells of room that nobody has taken. Wakers are user code: the reaper does it.
    fn watch_turns(self: &Arc<Self>, now: Ticks) -> Nap {
        match self.lobby.turn_is_due([now, self.real_time.now()], &self.queue) {
            Ok(true) => self.reap(Chore::PassOn),
            Ok(false) => {}
            Err([at, really]) => return Nap { at, really },
        }
        Nap::until(Ticks::NEVER)
    }

    // ------------------------------------------------------------ grace (L4)

    /// Gives up tasks that were told to stop and did not return within the grace. When to look
    /// again, by the pool's clock and in real time.
    ///
    /// A future is dropped as soon as its worker is polled; if that does not happen, something
    /// is stuck in a poll, which no clock of the runtime's may see. So real time counts there.
    fn abandon_overdue(self: &Arc<Self>, now: Ticks) -> (Ticks, Ticks) {
        let grace = self.config.grace;
        let futures = self.driver.is_async().then(|| self.real_time.now());
        let mut stuck_at = Ticks::NEVER;
        let (closing, told_running, last_call) = {
            let control = self.control.lock();
            (control.closing, control.told_running, control.last_call.unwrap_or(Ticks::NEVER))
        };
        // Under Hard everybody's grace began with it, also for a task that was told a
        // moment later because destructors ran first.
        let hard_due = closing.map_or(Ticks::NEVER, |c| c.grace_ends(grace));
        let mut next = Ticks::NEVER;
        let (mut chores, mut rouse) = (Vec::new(), Vec::new());
        {
            let mut roster = self.roster.lock();
            // Those that are still there are noted again.
            let (known, mut noted) = (std::mem::take(&mut roster.told), BTreeMap::new());
            for entry in roster.entries.values_mut() {
                if !matches!(entry.phase, Phase::Live | Phase::Stuck(_)) {
                    continue;
                }
                // There may be very many, most of them idle.
                if hard_due == Ticks::NEVER && entry.line.has_nothing_to_give_up() {
                    continue;
                }
                let line = Arc::clone(&entry.line);
                // Set first: a worker that returns in between asks the roster, which we hold.
                let mut gave_up = Vec::new();
                for cell in line.running_cells() {
                    if told_running && cell.request_stop(Cause::Shutdown, now.0).is_some() {
                        rouse.push(cell);
                    }
                    if !cell.was_told() || cell.borrows() {
                        continue; // a scoped task is never given up
                    }
                    if let Some(real_now) = futures
                        && cell.ops().is_future
                    {
                        let grace = closing.map_or(grace, |c| c.grace.min(grace));
                        let id = settle::task_id(cell);
                        let since = *known.get(&id).unwrap_or(&real_now);
                        noted.insert(id, since);
                        // Hard ends whoever still waits for its turn.
                        let due = line.patience_ends(grace, since).min(last_call);
                        if due > real_now {
                            stuck_at = stuck_at.min(due);
                            continue;
                        }
                    } else {
                        let due = Ticks(cell.told_at()).after(grace).min(hard_due);
                        if due > now {
                            next = next.min(due);
                            continue;
                        }
                    }
                    let info = settle::task_info(cell);
                    line.orders.fetch_or(STUCK, SeqCst);
                    if let Some(won) = line.give_up(cell) {
                        let cause = won.stop_cause().unwrap_or(Cause::Shutdown);
                        chores.push(Chore::Abandoned(cell, cause));
                        gave_up.extend(info);
                    }
                }
                let due = Ticks(line.hard_at.load(SeqCst)).after(grace).min(hard_due);
                // A task may begin just as its worker is told to stop: look again then.
                let again = if due > now { due } else { now.after(RETRY) };
                next = next.min(if due == Ticks::NEVER { due } else { again });
                if let Some(run) = line.inline_running() {
                    let asked = line.told_inline(run).map(|at| at.after(grace));
                    let due = due.min(asked.unwrap_or(Ticks::NEVER));
                    if due > now {
                        next = next.min(due);
                    } else {
                        line.orders.fetch_or(STUCK, SeqCst);
                        if line.abandon_inline(run) {
                            self.ledger.outcomes.count(Kind::Abandoned);
                            let id = line.inline_id(run);
                            chores.push(Chore::AbandonedInline(id));
                            gave_up.push(TaskInfo { id, name: "", external_id: None });
                        }
                    }
                }
                if !gave_up.is_empty() {
                    entry.is_stuck_in(gave_up);
                } else if !matches!(entry.phase, Phase::Stuck(_)) {
                    line.orders.fetch_and(!STUCK, SeqCst);
                }
            }
            roster.told = noted;
            roster.recount();
        }
        rouse.into_iter().for_each(|cell| self.driver.wake_runner(self, cell));
        if last_call != Ticks::NEVER && !chores.is_empty() {
            self.put_off_the_end(); // the report counts them
        }
        for chore in chores {
            self.reap(chore);
        }
        (next, stuck_at)
    }

    /// V3: looks at polls that have no date. When to look again, in real time.
    fn watch_polls(&self) -> Ticks {
        if !self.driver.is_async() {
            return Ticks::NEVER;
        }
        let mut roster = self.roster.lock();
        let entries = roster.entries.values_mut();
        let workers = entries.map(|entry| (entry.line.poll_word(), &mut entry.seen_poll));
        self.poll_watch.look(self.real_time.now(), workers)
    }

    // ------------------------------------------------------------ places (W2)

    /// Starts what is due, fills what is missing and sends home what is too many.
    fn staff(self: &Arc<Self>, now: Ticks) -> Ticks {
        let mut starts = Vec::new();
        let mut next = Ticks::NEVER;
        let surplus;
        {
            let mut roster = self.roster.lock();
            // Under the lock: a place that a worker left because of these flags is not missing.
            let flags = self.flags.load(SeqCst);
            let over = flags & HARD != 0 || self.queue.is_drained();
            if flags & STOPPING != 0 && over {
                roster.entries.retain(|_, e| !matches!(e.phase, Phase::Restarting { .. }));
                return Ticks::NEVER;
            }
            for entry in roster.entries.values_mut() {
                if let Phase::Restarting { at, .. } = entry.phase {
                    if at <= now {
                        entry.phase = Phase::Starting;
                        starts.push((Arc::clone(&entry.line), !entry.recycled));
                    } else {
                        next = next.min(at);
                    }
                }
            }
            let (target, present) = (self.target(), roster.positions());
            surplus = present.saturating_sub(target);
            if surplus > 0 {
                roster.retire(surplus);
            }
            let missing = target.saturating_sub(present);
            let kept = roster.call_back(missing);
            // At most `max_abandoned` stuck threads are made up for.
            let most = roster.limits.max + self.config.max_abandoned();
            let room = most.saturating_sub(roster.entries.len());
            roster.new_places = roster.new_places.min(missing - kept);
            for _ in 0..(missing - kept).min(room) {
                // Growing is no restart.
                let again = roster.new_places == 0;
                roster.new_places = roster.new_places.saturating_sub(1);
                starts.push((roster.add(), again));
            }
        }
        if surplus > 0 {
            self.lot.kick_all(); // to look at their orders
        }
        for (line, again) in starts {
            match self.start_worker(&line, None) {
                Ok(()) if again => {
                    self.ledger.restarts.fetch_add(1, Relaxed);
                    self.tell_later(News::WorkerRestarted(line.id));
                }
                Ok(()) => {}
                Err(error) => {
                    let cause = format!("thread could not be started: {error}");
                    self.reap(Chore::WorkerFailed(line.id, cause.clone()));
                    next = next.min(self.restart_later(&line, cause));
                }
            }
        }
        next
    }

    /// A place stays empty for a while.
    fn restart_later(&self, line: &Arc<WorkerLine>, cause: String) -> Ticks {
        let now = self.clock.now();
        let mut roster = self.roster.lock();
        roster.failures += 1;
        let Some(entry) = roster.find(line.id) else { return now };
        entry.failures += 1;
        entry.recycled = false;
        let at = now.after(self.backoff(entry.failures, line));
        entry.phase = Phase::Restarting { at, cause };
        at
    }

    fn backoff(&self, failures: u32, line: &WorkerLine) -> Duration {
        let (min, max) = self.config.restart_backoff;
        // Any spread will do: the address and the time make one.
        let seed = self.clock.now().0 ^ std::ptr::from_ref(line) as u64;
        decide::backoff(failures, min, max, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7)
    }

    /// Starts a worker's thread. `first` hears whether it could begin to work.
    pub(crate) fn start_worker(
        self: &Arc<Self>,
        line: &Arc<WorkerLine>,
        first: Option<Arc<Event<Result<(), String>>>>,
    ) -> std::io::Result<()> {
        if let Some(started) = self.driver.start_worker(self, line) {
            return started;
        }
        let name = format!("{}-{}", self.name, line.id);
        let (core, own) = (Arc::clone(self), Arc::clone(line));
        let body = move || {
            let end = frames::enter(core.address(), Some(&own), || {
                let mut worker = Worker::new(Arc::clone(&core), Arc::clone(&own));
                worker.live(|| {
                    core.worker_ready(&own);
                    if let Some(first) = &first {
                        first.set(Ok(()));
                    }
                })
            });
            if let (Some(first), End::Failed(cause)) = (&first, &end) {
                first.set(Err(cause.clone()));
            }
            core.worker_ended(&own, &end);
        };
        let spawner = self.config.spawner.as_ref();
        let joiner = spawn::spawn(name, self.config.stack_size, spawner, body)?;
        let mut roster = self.roster.lock();
        match roster.find(line.id).filter(|entry| Arc::ptr_eq(&entry.line, line)) {
            Some(entry) => entry.thread = Some(joiner),
            None => roster.leaving.push(joiner), // it has come and gone already
        }
        Ok(())
    }

    pub(crate) fn worker_ready(&self, line: &Arc<WorkerLine>) {
        self.roster.lock().begins(line.id);
    }

    /// O6: a pool that can't keep its workers says so.
    pub(crate) fn worker_failed(&self, worker: WorkerId, cause: &str) {
        if trace::worker_failed(self, worker, cause) && self.config.on_unobserved.is_none() {
            return;
        }
        let message = format!("worker {worker}: {cause}");
        self.unobserved(UnobservedKind::WorkerFailed, "", None, message);
    }

    pub(crate) fn worker_ended(&self, line: &Arc<WorkerLine>, end: &End) {
        let now = self.clock.now();
        if let End::Failed(cause) = end {
            self.worker_failed(line.id, cause);
        }
        {
            let mut roster = self.roster.lock();
            let Some(gone) = roster.remove(line.id, end, now) else { return };
            roster.joined += usize::from(self.driver.is_async()); // no thread to wait for
            match end {
                End::Failed(cause) => {
                    roster.failures += 1;
                    let failures = gone.failures + 1;
                    let at = now.after(self.backoff(failures, line));
                    roster.add_again(&gone, at, cause.clone(), failures);
                }
                End::Ordered(why) if gone.replace => {
                    roster.add_again(&gone, now, (*why).to_owned(), 0);
                }
                End::Ordered(_) | End::Returned => {}
            }
        }
        self.settled();
        self.wake_supervisor();
    }

    /// S9: nobody will come for what is queued.
    fn give_up_if_hopeless(self: &Arc<Self>) {
        let closing = self.control.lock().closing.is_some();
        let hopeless = {
            let roster = self.roster.lock();
            decide::is_hopeless(closing, roster.threads() - roster.stuck(), roster.failures)
        };
        if !hopeless || self.queue.is_drained() {
            return;
        }
        self.control.lock().lost_workers = true;
        self.cancel_queued(Cause::WorkerLost, Who::Watcher);
    }

    fn join_leaving(&self) {
        let leaving = std::mem::take(&mut self.roster.lock().leaving);
        let count = leaving.len();
        for thread in leaving {
            thread.join();
        }
        self.roster.lock().joined += count;
    }
}

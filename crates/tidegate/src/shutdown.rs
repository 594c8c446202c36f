//! A shutdown, from the first call to the report.
//!
//! close → claim what is queued → publish → tell the running → join. The first three happen
//! on the thread that asks; the supervisor escalates when a limit passes, and finds the end.

use std::sync::Arc;
use std::time::Duration;

use crate::cell::Kind;
use crate::clock::Ticks;
use crate::core::{Core, HARD, STOPPING};
use crate::decide::{self, Closing};
use crate::ids::TaskInfo;
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::reaper::Chore;
use crate::report::{Mode, Report, Shutdown};
use crate::roster::{Phase, Roster};
use crate::settle::{self, Who};
use crate::supervisor::Nap;
use crate::sync::atomic::Ordering::SeqCst;
use crate::trace::{self, News};

/// After Hard and its grace: how much longer for threads that are in a hook or callback.
const LAST_CALL: Duration = Duration::from_millis(50);

impl Core {
    /// S1, S2: closes, and does what the mode says, on this thread.
    pub(crate) fn begin_shutdown(self: &Arc<Self>, how: Shutdown, who: Who) {
        if self.ending.report.get().is_some() {
            return;
        }
        // Closed before the count begins, so that what the report counts was accepted; and told
        // after, so that what it cancels is counted.
        self.shut_the_door();
        let reading = self.reading();
        let (before, step) = {
            let mut control = self.control.lock();
            if control.closing.is_none() {
                control.baseline = reading.outcomes;
                self.watch.forever();
            }
            let step = decide::escalate(control.closing, how, self.clock.now());
            (control.closing.replace(step.closing), step)
        };
        self.closed.cancel();
        self.tell_closing(before, step.closing);
        self.carry_out(step, who);
    }

    /// The supervisor's part: the limit turns it Hard. When to look again.
    pub(crate) fn on_limit(self: &Arc<Self>, now: Ticks) -> Option<Ticks> {
        let (closing, step) = {
            let mut control = self.control.lock();
            let closing = control.closing?;
            match decide::on_limit(closing, now) {
                None => return (closing.mode != Mode::Hard).then_some(closing.hard_at),
                Some(step) => {
                    control.closing = Some(step.closing);
                    (closing, step)
                }
            }
        };
        self.tell_closing(Some(closing), step.closing);
        self.carry_out(step, Who::Watcher);
        Some(step.closing.grace_ends(self.config.grace))
    }

    fn carry_out(self: &Arc<Self>, step: decide::Step, who: Who) {
        let hard = if step.closing.mode == Mode::Hard { HARD } else { 0 };
        self.flags.fetch_or(STOPPING | hard, SeqCst);
        if step.cancel_queued {
            self.cancel_queued(Cause::Shutdown, who);
        }
        // After that, or a paused worker would start what was to be cancelled.
        self.end_pause();
        if step.tell_running {
            self.tell_running();
            self.control.lock().told_running = true;
        }
        // Those who wait for a slot of a group, or until all is idle. They may be futures, and
        // their wakers are user code.
        match who {
            Who::Caller => self.settled(),
            Who::Watcher => {
                let wakers = self.watch.settled();
                wakers.into_iter().for_each(|wakers| self.reap(Chore::Wake(wakers)));
            }
        }
        self.lot.kick_all();
        self.wake_for_rest();
        self.wake_supervisor();
    }

    /// Claims everything queued, then publishes.
    pub(crate) fn cancel_queued(self: &Arc<Self>, cause: Cause, who: Who) {
        let items = self.drain_queue(|cell: CellRef| cell.claim_queued(cause).is_some());
        let chores = items.into_iter().map(|item| Chore::Unstarted(item, Kind::Cancelled, cause));
        match who {
            // Where others can reach them: a destructor may hang on this thread.
            Who::Caller => self.reap_here(chores),
            Who::Watcher => chores.for_each(|chore| self.reap(chore)),
        }
    }

    fn tell_running(self: &Arc<Self>) {
        let lines: Vec<_> =
            self.roster.lock().entries.values().map(|entry| Arc::clone(&entry.line)).collect();
        let on_workers = lines.iter().flat_map(|line| line.running_cells());
        let cells: Vec<_> =
            on_workers.chain(self.callers.lock().iter().map(|(cell, _)| *cell)).collect();
        for cell in cells {
            self.tell(cell, Cause::Shutdown);
        }
    }

    /// Err: the report, because everything is done or nothing more can be. `may_give_up`: there
    /// are tasks that will be given up if they do not end before.
    pub(crate) fn try_to_end(
        self: &Arc<Self>,
        now: Ticks,
        may_give_up: bool,
    ) -> Result<Nap, Arc<Report>> {
        let Some(closing) = self.control.lock().closing else {
            return Ok(Nap::until(Ticks::NEVER));
        };
        let overdue = closing.grace_ends(self.config.grace);
        let real_now = self.real_time.now();
        let last_call = match now >= overdue {
            false => Ticks::NEVER,
            true => {
                let mut control = self.control.lock();
                *control.last_call.get_or_insert(real_now.after(LAST_CALL))
            }
        };
        let reading = self.reading();
        let open = reading.accepted - reading.outcomes.sum();
        let callers = self.callers.lock().len() as u64;
        let (at_work, leaving) = {
            let roster = self.roster.lock();
            let futures = self.driver.present().saturating_sub(roster.stuck());
            (roster.threads() - roster.stuck(), roster.leaving.len() + futures)
        };
        let gone = at_work == 0 && leaving == 0 && self.reaper.lock().is_idle();
        let done = gone && self.is_idle();
        let rest_borrows = gone && now >= overdue && open <= callers;
        let is_last = real_now >= last_call && !may_give_up;
        if !(done || rest_borrows || is_last) {
            if self.queue.is_drained() {
                // Whoever sleeps has nothing to wait for.
                self.lot.kick_all();
            }
            let waiting = now < overdue;
            return Ok(if waiting { Nap::until(overdue) } else { Nap::really(last_call) });
        }
        // What hangs there is waited for no longer than a hook would be.
        if !done && is_last && self.relieve_reaper(real_now, true)
            || self.tell_end(closing, now, done)
        {
            return Ok(Nap::really(self.put_off_the_end()));
        }
        let reapers = self.reaper.lock().take_idle_threads();
        for thread in reapers {
            thread.join();
            self.roster.lock().joined += 1;
        }
        Err(Arc::new(self.report(closing, now, done)))
    }

    /// Something has to be done before the report. Until when there is time for that.
    pub(crate) fn put_off_the_end(&self) -> Ticks {
        let last_call = self.real_time.now().after(LAST_CALL);
        self.control.lock().last_call = Some(last_call);
        last_call
    }

    /// The reaper tells it, in order, before what the step brings about.
    fn tell_closing(self: &Arc<Self>, before: Option<Closing>, now: Closing) {
        if let Some(news) = News::of_closing(before, now) {
            self.tell_later(news);
        }
    }

    /// True if somebody has to be told first: once.
    fn tell_end(self: &Arc<Self>, closing: Closing, now: Ticks, done: bool) -> bool {
        let first = trace::listens() && !std::mem::replace(&mut self.control.lock().told_end, true);
        if first {
            self.tell_later(News::ShutdownEnded(Box::new(self.report(closing, now, done))));
        }
        first
    }

    fn report(&self, closing: Closing, now: Ticks, done: bool) -> Report {
        let reading = self.reading();
        let mut borrowing: Vec<_> = self.callers.lock().iter().map(|(cell, _)| *cell).collect();
        for entry in self.roster.lock().entries.values() {
            borrowing.extend(entry.line.running_cells().into_iter().filter(|cell| cell.borrows()));
        }
        let borrowing: Vec<_> =
            borrowing.into_iter().filter_map(settle::task_info).take(Report::MAX_LISTED).collect();
        let control = self.control.lock();
        let roster = self.roster.lock();
        let counts = reading.outcomes.since(&control.baseline);
        Report {
            mode: closing.mode,
            duration: now.since(closing.began),
            in_time: !closing.late,
            complete: done && roster.stuck() == 0 && !control.lost_workers,
            completed: counts.completed,
            failed: counts.failed,
            panicked: counts.panicked,
            timed_out: counts.timed_out,
            cancelled: counts.cancelled,
            evicted: counts.evicted,
            abandoned: counts.abandoned,
            cancelled_tasks: control.cancelled_tasks.clone(),
            still_running: still_running(&roster),
            still_borrowing: borrowing,
            workers_lost: control.lost_workers,
            abandoned_workers: roster.stuck(),
            threads_joined: roster.joined,
        }
    }

    /// S4: the report lists what was cancelled since the shutdown began.
    pub(crate) fn note_cancelled(&self, task: TaskInfo) {
        let mut control = self.control.lock();
        if control.closing.is_some() && control.cancelled_tasks.len() < Report::MAX_LISTED {
            control.cancelled_tasks.push(task);
        }
    }
}

fn still_running(roster: &Roster) -> Vec<TaskInfo> {
    let stuck = roster.entries.values().filter_map(|entry| match &entry.phase {
        Phase::Stuck(tasks) => Some(tasks),
        _ => None,
    });
    stuck.flatten().take(Report::MAX_LISTED).cloned().collect()
}

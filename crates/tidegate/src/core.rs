//! The heart of a pool: what workers, supervisor, callers and handles share.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::Waker;

use crate::bell::Bell;
use crate::clock::{Clock, Ticks};
use crate::config::Config;
use crate::decide::Closing;
use crate::depot;
use crate::diagnosis::Past;
use crate::driver::Driver;
use crate::event::{Event, wake_all};
use crate::frames;
use crate::ids::{TaskId, TaskInfo};
use crate::ledger::{Ledger, Totals};
use crate::life::CellRef;
use crate::limits::Limits;
use crate::lobby::Lobby;
use crate::lot::{Lot, Need};
use crate::outcome::Cause;
use crate::pace::Pace;
use crate::panics::{Panic, quietly};
use crate::parker::Parker;
use crate::poll_watch::PollWatch;
use crate::queue::Queue;
use crate::reaper::{Chore, Reaper};
use crate::report::Report;
use crate::roster::Roster;
use crate::settle;
use crate::spawn::Joiner;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use crate::sync::{Lock, Padded, snooze};
use crate::times::Times;
use crate::token::Token;
use crate::trace::Said;
use crate::unobserved::{StderrLimiter, Unobserved, UnobservedKind};
use crate::wake_ups::Alarms;
use crate::watch::Watch;

// Bits of `Core::flags`, which workers read before each task.
pub(crate) const PAUSED: u32 = 1;
/// Workers leave once the queue is drained.
pub(crate) const STOPPING: u32 = 2;
/// Whatever starts is told to stop at once.
pub(crate) const HARD: u32 = 4;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// The system's, also when `clock` is a test's.
    pub(crate) real_time: Clock,
    pub(crate) queue: Queue,
    pub(crate) lot: Lot,
    pub(crate) pace: Pace,
    pub(crate) limits: Limits,
    pub(crate) lobby: Lobby,
    pub(crate) alarms: Alarms,
    pub(crate) ledger: Ledger,
    pub(crate) times: Times,
    /// What `diagnose` compares with.
    pub(crate) past: Past,
    pub(crate) born: Ticks,
    pub(crate) flags: Padded<AtomicU32>,
    /// How many workers there should be. Changes under the roster's lock.
    pub(crate) target: AtomicUsize,
    /// Armed while the supervisor of a pool with a range of workers sleeps.
    pub(crate) bell: Bell,
    pub(crate) poll_watch: PollWatch,
    /// An offer to a `queue(0)` pool found no idle worker (`resize.rs`).
    pub(crate) turned_away: AtomicBool,
    /// The roster's count.
    live: Arc<AtomicUsize>,
    pub(crate) roster: Lock<Roster>,
    pub(crate) driver: Driver,
    pub(crate) control: Lock<Control>,
    pub(crate) reaper: Lock<Reaper>,
    /// Tasks that callers run on their own threads, and which (`frames.rs`).
    pub(crate) callers: Lock<Vec<(CellRef, u64)>>,
    /// Who waits for which running task, by thread: for cycles (R9).
    pub(crate) waits: Lock<HashMap<u64, CellRef>>,
    /// Threads and futures that want to hear when something has settled.
    pub(crate) watch: Watch,
    pub(crate) supervisor: Arc<Parker>,
    /// Cancelled when the pool takes no more: ends the waits of submitters.
    pub(crate) closed: Token,
    pub(crate) ending: Arc<Ending>,
    stderr: StderrLimiter,
    pub(crate) said: Said,
    pid: u32,
}

/// The phase of the pool, under one lock.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) closing: Option<Closing>,
    /// Outcomes when the shutdown began.
    pub(crate) baseline: Totals,
    pub(crate) cancelled_tasks: Vec<TaskInfo>,
    /// No worker could be made for what was queued (S9).
    pub(crate) lost_workers: bool,
    /// Hard has come as far as telling what runs: not before what is queued was claimed, or
    /// a worker that is set free would start it.
    pub(crate) told_running: bool,
    /// A subscriber was told how it ended (`trace.rs`).
    pub(crate) told_end: bool,
    /// When threads that are neither in a task nor gone are given up, in real time.
    pub(crate) last_call: Option<crate::clock::Ticks>,
}

/// Outlives the core: where the report appears.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) report: Arc<Event<Arc<Report>>>,
    pub(crate) supervisor: Lock<Option<Joiner>>,
    pub(crate) joined: Arc<Event<()>>,
}

impl Core {
    pub(crate) fn new(config: Config) -> Arc<Core> {
        let roster = Roster::new(config.workers, config.driver.is_async());
        let core = Arc::new(Core {
            live: Arc::clone(&roster.live_count),
            roster: Lock::new(roster),
            name: Arc::from(config.name.as_str()),
            clock: config.clock.clone(),
            real_time: Clock::system(),
            queue: Queue::new(config.queue, config.workers.max).watched(config.clock.clone()),
            lot: config.driver.lot(),
            driver: config.driver.clone(),
            // A worker of a `queue(0)` pool has to announce itself: it can't step aside.
            pace: Pace::new(config.clock.is_real() && config.queue > 0),
            limits: Limits::new(),
            lobby: Lobby::new(),
            alarms: Alarms::default(),
            ledger: Ledger::default(),
            times: Times::default(),
            past: Past::default(),
            born: config.clock.now(),
            flags: Padded(AtomicU32::new(0)),
            target: AtomicUsize::new(config.workers.min.max(1)),
            bell: Bell::new(),
            poll_watch: PollWatch::default(),
            turned_away: AtomicBool::new(false),
            control: Lock::default(),
            reaper: Lock::default(),
            callers: Lock::default(),
            waits: Lock::default(),
            watch: Watch::new(),
            supervisor: Parker::new(),
            closed: Token::new(),
            ending: Arc::new(Ending {
                report: Event::new(),
                supervisor: Lock::new(None),
                joined: Event::new(),
            }),
            stderr: StderrLimiter::default(),
            said: Said::default(),
            pid: std::process::id(),
            config,
        });
        registry::add(&core);
        core
    }

    /// The pool whose core has this address, if it still is there. For those who hold
    /// only a cell.
    pub(crate) fn find(address: *mut ()) -> Option<Arc<Core>> {
        registry::find(address)
    }

    pub(crate) fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    pub(crate) fn target(&self) -> usize {
        self.target.load(SeqCst)
    }

    /// Workers that take tasks.
    pub(crate) fn live(&self) -> usize {
        self.live.load(SeqCst)
    }

    /// How many there may be.
    pub(crate) fn most_workers(&self) -> usize {
        self.roster.lock().limits.max
    }

    /// False in a child made by `fork`: it has the memory of a pool but no workers.
    pub(crate) fn is_own_process(&self) -> bool {
        std::process::id() == self.pid
    }

    // ------------------------------------------------------------ waking

    /// A task was published: somebody must be awake for it.
    #[inline(always)]
    pub(crate) fn task_added(&self) {
        match self.lot.need() {
            Need::Sleeper if !self.one_is_enough() => self.wake_for_task(),
            Need::Searcher => self.driver.mind_search(self),
            _ => {}
        }
        if self.bell.is_armed() && self.bell.ring() {
            self.wake_supervisor();
        }
    }

    /// Short mode, and a worker is active.
    #[inline(always)]
    pub(crate) fn one_is_enough(&self) -> bool {
        self.pace.is_short() && !self.lot.all_asleep(self.live() as u64)
    }

    /// S8: what is queued waits for the end of a pause. A ticket of a `queue(0)` pool was granted
    /// for a worker that waited for it: a pause that came later does not strand it.
    #[inline(always)]
    pub(crate) fn is_held_back(&self) -> bool {
        self.flags.load(SeqCst) & PAUSED != 0 && self.queue.bound() != 0
    }

    /// A wake-up costs a hundred short tasks: if somebody is at work, give it a moment.
    #[cold]
    fn wake_for_task(&self) {
        if self.is_held_back() {
            return;
        }
        // Past what was published so far, ours included.
        let own = self.queue.tickets();
        // On a runtime the others may need this very thread.
        if !self.driver.is_async() && !self.lot.all_asleep(self.live() as u64) {
            for _ in 0..crate::sync::steps(12) {
                crate::sync::spin_loop();
                crate::sync::spin_loop();
                // A task in the spill has no ticket.
                let taken = self.queue.head() >= own && !self.queue.is_spilling();
                if taken || self.lot.somebody_searches() {
                    return;
                }
            }
        }
        self.wake_worker();
    }

    /// Somebody who sleeps searches from now on, unless somebody does.
    fn wake_worker(&self) {
        if self.lot.wake_one() {
            self.driver.spread(self);
        }
    }

    /// Several tasks were published that are worth a worker each: two are woken side by side, and
    /// each wakes the next: it may take the first a while to come to that, on a core that slept.
    pub(crate) fn tasks_added(&self) {
        if !self.queue.looks_nonempty() {
            return; // all of them were taken
        }
        self.task_added();
        if !self.is_held_back() && self.queue.looks_nonempty() && !self.one_is_enough() {
            self.lot.wake_another();
        }
    }

    /// A worker found a task after a rest: nothing may be stranded behind it.
    pub(crate) fn wake_next(&self) {
        if self.lot.needs_wake() && self.queue.looks_nonempty() && !self.one_is_enough() {
            self.wake_worker();
        }
    }

    /// Somebody who could have taken a task goes: pass it on.
    pub(crate) fn wake_for_rest(&self) {
        if self.queue.looks_nonempty() {
            self.wake_worker();
        }
    }

    /// A place came free: whoever is first in line takes it.
    pub(crate) fn room_is_free(&self) {
        if self.lobby.wake_first(&self.queue) {
            self.mind_the_turn();
        }
    }

    /// A future was told that there is room, or will have to be. If it does not take it, the next
    /// one shall.
    #[cold]
    pub(crate) fn mind_the_turn(&self) {
        const TURN: std::time::Duration = std::time::Duration::from_millis(2);
        let clocks = [&self.clock, &self.real_time];
        if self.lobby.mind_the_turn(clocks.map(|clock| clock.now().after(TURN))) {
            self.wake_supervisor();
        }
    }

    /// There may be room that nobody has taken.
    pub(crate) fn pass_the_turn_on(&self) {
        if self.lobby.pass_on(&self.queue) {
            self.mind_the_turn();
        }
    }

    pub(crate) fn wake_supervisor(&self) {
        match self.driver.is_async() {
            false => self.supervisor.unpark(),
            true => self.driver.ring(),
        }
    }

    /// Wakes all, and counts the wakers that panic (O5).
    #[inline]
    pub(crate) fn wake(&self, wakers: impl IntoIterator<Item = Waker>) {
        let panics = wake_all(wakers);
        if panics > 0 {
            self.ledger.callback_panics.fetch_add(panics, SeqCst);
        }
    }

    /// As the pool whose code runs on this thread, if there is one.
    #[cold]
    pub(crate) fn count_waker_panics(panics: u64) {
        if let Some(core) = frames::innermost().and_then(Core::find) {
            core.ledger.callback_panics.fetch_add(panics, SeqCst);
        }
    }

    /// Something settled, or a worker has nothing left to do: watchers look again.
    #[inline]
    pub(crate) fn settled(&self) {
        if let Some(wakers) = self.watch.settled() {
            self.wake(wakers);
            self.wake_supervisor();
        }
    }

    // ------------------------------------------------------------ stopping

    /// Accepts nothing from now on; whoever waits to submit is refused.
    pub(crate) fn close(&self) {
        self.shut_the_door();
        self.closed.cancel();
    }

    pub(crate) fn shut_the_door(&self) {
        self.queue.close();
        self.lobby.wake_all();
    }

    pub(crate) fn end_pause(&self) {
        self.flags.fetch_and(!PAUSED, SeqCst);
        self.queue.suspend(false);
    }

    /// Tells a running cell task to stop, without running user code.
    pub(crate) fn tell(self: &Arc<Self>, cell: CellRef, cause: Cause) -> bool {
        match self.request_stop(cell, cause, self.clock.now().0) {
            None => false,
            Some(has_token) => {
                if has_token && let Some(token) = settle::own_token(cell) {
                    self.reap(Chore::CancelToken(token));
                }
                self.wake_supervisor();
                true
            }
        }
    }

    /// As `CellRef::request_stop`; a future is then dropped by its worker.
    pub(crate) fn request_stop(&self, cell: CellRef, cause: Cause, now: u64) -> Option<bool> {
        let told = cell.request_stop(cause, now);
        if told.is_some() {
            self.driver.wake_runner(self, cell);
        }
        told
    }

    /// S3: the parent token was cancelled, on whatever thread.
    pub(crate) fn parent_cancelled(self: &Arc<Self>) {
        self.begin_shutdown(self.config.on_parent_cancel, settle::Who::Watcher);
    }

    /// R9, S7: cancels the task that the roster showed under `id`.
    pub(crate) fn cancel_task(self: &Arc<Self>, id: TaskId) -> bool {
        if id.hi & 1 == 0 {
            let Some(cell) = depot::find((id.hi >> 1) as u32, id.lo) else { return false };
            let mine = std::ptr::eq(cell.cell().core.load(SeqCst).cast_const(), self.address());
            return mine && settle::cancel(cell, Cause::Handle, settle::Who::Caller);
        }
        let line = {
            let mut roster = self.roster.lock();
            let id = crate::ids::WorkerId((id.hi >> 1) as u32);
            roster.find(id).map(|entry| Arc::clone(&entry.line))
        };
        let Some(line) = line else { return false };
        match line.inline_running() {
            Some(run) if run >> 2 == id.lo => {
                self.tell_inline(&line, run);
                true
            }
            _ => false,
        }
    }

    /// R9: the thread that runs a task (`frames.rs`), unless it is only about to.
    pub(crate) fn runner_of(&self, cell: CellRef) -> Option<u64> {
        let on_worker = {
            let roster = self.roster.lock();
            let mut lines = roster.entries.values().map(|entry| &entry.line);
            lines.find(|line| line.running_cells().contains(&cell)).map(|line| line.runner())
        };
        on_worker.or_else(|| {
            let callers = self.callers.lock();
            callers.iter().find(|(other, _)| *other == cell).map(|(_, runner)| *runner)
        })
    }

    /// An inline task has no ear; it can only be given up after the grace.
    pub(crate) fn tell_inline(&self, line: &crate::line::WorkerLine, run: u64) {
        line.tell_inline(run, self.clock.now());
        self.wake_supervisor();
    }

    // ------------------------------------------------------------ telling

    /// O6: nothing fails in silence.
    pub(crate) fn unobserved(
        &self,
        kind: UnobservedKind,
        name: &'static str,
        id: Option<TaskId>,
        message: String,
    ) {
        let event = Unobserved { pool: Arc::clone(&self.name), kind, name, id, message };
        match &self.config.on_unobserved {
            None if self.said.unobserved(self, &event) => {}
            None => self.stderr.report(&event, self.clock.now().0),
            Some(hook) => {
                if let Err(panic) = quietly(|| hook(&event)) {
                    self.ledger.hook_panics.fetch_add(1, Relaxed);
                    self.discard(panic);
                }
            }
        }
    }

    pub(crate) fn hook_panicked(&self, which: &'static str, panic: Panic) {
        self.ledger.hook_panics.fetch_add(1, Relaxed);
        let message = format!("{which}: {}", panic.message());
        self.unobserved(UnobservedKind::HookPanicked, "", None, message);
        self.discard(panic);
    }

    /// Takes everything that is queued, also what is just being published.
    pub(crate) fn drain_queue(&self, claim: impl Fn(CellRef) -> bool) -> Vec<crate::queue::Item> {
        let mut items = Vec::new();
        let mut step = 0;
        while !self.queue.is_drained() {
            match self.queue.take(false, &claim) {
                Some(item) => items.push(item),
                None => {
                    snooze(step);
                    step += 1;
                }
            }
        }
        items
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        registry::remove(self.address());
    }
}

/// All living cores by address. A leaf: nothing is called while it is locked.
mod registry {
    use super::*;

    static CORES: RwLock<Option<HashMap<usize, Weak<Core>>>> = RwLock::new(None);

    pub(super) fn add(core: &Arc<Core>) {
        let mut cores = CORES.write().unwrap_or_else(PoisonError::into_inner);
        let cores = cores.get_or_insert_default();
        cores.insert(core.address() as usize, Arc::downgrade(core));
    }

    pub(super) fn find(address: *mut ()) -> Option<Arc<Core>> {
        let cores = CORES.read().unwrap_or_else(PoisonError::into_inner);
        cores.as_ref()?.get(&(address as usize))?.upgrade()
    }

    pub(super) fn remove(address: *const ()) {
        let mut cores = CORES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(cores) = cores.as_mut() {
            cores.remove(&(address as usize));
        }
    }
}

//! A worker: take a task, run it, settle it, look again.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::cell::Kind;
use crate::clock::Ticks;
use crate::core::{Core, HARD, PAUSED, STOPPING};
use crate::frames;
use crate::job::{InlineJob, Verb};
use crate::life::CellRef;
use crate::line::{CELL, INLINE, RETIRE, STOP_AFTER_TASK, STOP_HARD, STUCK, WorkerLine};
use crate::nest::Nest;
use crate::outcome::Cause;
use crate::pace::{Stride, Turn};
use crate::panics::{drop_quietly, quietly};
use crate::queue::Item;
use crate::settle::{RunEnv, Who};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::sync::atomic::fence;
use crate::sync::snooze;
use crate::trace;
use crate::unobserved::UnobservedKind;

/// Why a worker's thread ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Told to: shutdown, stop or recycle.
    Ordered(&'static str),
    /// It was stuck in a task that has returned.
    Returned,
    /// Hook or state failed: the cause.
    Failed(String),
}

/// One incarnation: on its own thread, or as a future.
pub(crate) struct Worker {
    pub(crate) core: Arc<Core>,
    pub(crate) line: Arc<WorkerLine>,
    state: Option<Box<dyn Any>>,
    pub(crate) nest: Nest,
}

/// What a worker remembers from one task to the next.
pub(crate) struct Shift {
    stride: Stride,
    /// Tasks since the clock was read, and after how many to read it again.
    ran: u32,
    every: u32,
    /// A worker of a `queue(0)` pool announces itself and must not do so twice.
    hand_over: bool,
    pub(crate) announced: bool,
    /// How often futures had been told of room when this worker last saw to it that they go on.
    told: u64,
}

impl Shift {
    pub(crate) fn new(core: &Core) -> Shift {
        let hand_over = core.queue.bound() == 0;
        Shift { stride: Stride::default(), ran: 0, every: 0, hand_over, announced: false, told: 0 }
    }

    /// Whoever was told of room must not wait behind the next task.
    #[inline(never)]
    fn let_told_futures_go_on(&mut self, core: &Core) {
        let told = core.lobby.told_futures();
        if told != self.told && !self.finds_tasks_short() {
            self.told = told;
            core.driver.spread(core);
        }
    }

    fn rested(&mut self) {
        (self.ran, self.every) = (0, 0);
    }

    /// A worker of a `queue(0)` pool would wait for a task, and has not said so.
    fn is_to_announce(&self, core: &Core) -> bool {
        self.hand_over && !self.announced && core.flags.load(SeqCst) & (PAUSED | STOPPING) == 0
    }

    /// It says so; in a pause it takes that back.
    fn announce(&mut self, core: &Core) {
        if self.is_to_announce(core) {
            core.queue.give_credit();
            core.room_is_free();
            self.announced = true;
        } else if self.announced && core.flags.load(Acquire) & PAUSED != 0 && core.queue.is_empty()
        {
            core.queue.take_credit_back();
            self.announced = false;
        }
    }

    /// Its last tasks took less than a microsecond, or it does not look at the clock for each.
    pub(crate) fn finds_tasks_short(&self) -> bool {
        self.every > 1
    }
}

/// What a worker has done.
pub(crate) enum Step {
    Ran,
    Nothing,
    End(End),
}

impl Worker {
    pub(crate) fn new(core: Arc<Core>, line: Arc<WorkerLine>) -> Worker {
        Worker { core, line, state: None, nest: Nest::default() }
    }

    /// Lives from hook to hook. `ready` is told once the first task could run.
    pub(crate) fn live(&mut self, ready: impl FnOnce()) -> End {
        self.line.set_runner(frames::runner());
        if let Err(cause) = self.arrive() {
            return End::Failed(cause);
        }
        ready();
        let end = self.work();
        self.depart();
        end
    }

    /// After the last task.
    pub(crate) fn depart(&mut self) {
        self.drop_state();
        if let Some(hook) = &self.core.config.on_worker_stop
            && let Err(panic) = quietly(|| hook(self.line.id))
        {
            self.core.hook_panicked("on_worker_stop", panic);
        }
    }

    /// Before the first task: the cause if it can't work.
    pub(crate) fn arrive(&mut self) -> Result<(), String> {
        self.prepare()?;
        self.line.begins(self.core.clock.now());
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), String> {
        if let Some(hook) = &self.core.config.on_worker_start
            && let Err(panic) = quietly(|| hook(self.line.id))
        {
            let cause = format!("on_worker_start panicked: {}", panic.message());
            self.core.hook_panicked("on_worker_start", panic);
            return Err(cause);
        }
        self.make_state()
    }

    fn make_state(&mut self) -> Result<(), String> {
        let Some(make) = &self.core.config.worker_state else { return Ok(()) };
        match quietly(|| make(self.line.id)) {
            Ok(Ok(state)) => {
                self.state = Some(state);
                Ok(())
            }
            Ok(Err(cause)) => Err(format!("worker state could not be made: {cause}")),
            Err(panic) => {
                let cause = format!("worker_state panicked: {}", panic.message());
                self.core.hook_panicked("worker_state", panic);
                Err(cause)
            }
        }
    }

    fn drop_state(&mut self) {
        if drop_quietly(self.state.take()) {
            self.core.ledger.drop_panics.fetch_add(1, Relaxed);
        }
    }

    fn work(&mut self) -> End {
        let core = Arc::clone(&self.core);
        let mut shift = Shift::new(&core);
        loop {
            match self.step(&core, &mut shift) {
                Step::Ran => {}
                Step::Nothing => match self.before_rest(&core, &mut shift) {
                    Err(end) => return end,
                    Ok(was_busy) => {
                        let aside = core.pace.is_short() && self.step_aside();
                        // If it was, it lets a few tasks gather before it looks again.
                        self.sleep_awhile(&shift, if was_busy { 5 } else { 0 }, aside);
                    }
                },
                Step::End(end) => return end,
            }
        }
    }

    /// Takes one task and begins it; a closure has then returned, too.
    #[inline(always)]
    pub(crate) fn step(&mut self, core: &Arc<Core>, shift: &mut Shift) -> Step {
        if let Some(end) = self.obey() {
            if shift.ran > 0 {
                self.note_runs(&mut shift.stride, core.clock.now(), shift.ran);
                shift.rested();
            }
            // A ticket that was granted for us comes first.
            if !shift.announced || core.queue.withdraw() {
                // We may have been woken for a task that somebody else must run now.
                core.wake_for_rest();
                return Step::End(end);
            }
            snooze(5); // whoever is about to publish it may need the core
        }
        if shift.hand_over {
            shift.announce(core);
        }
        let go = || !core.is_held_back();
        let taken = core.queue.take_if(shift.announced, go, CellRef::claim_start);
        let Some((item, ticket)) = taken else { return Step::Nothing };
        shift.announced = false;
        if core.lobby.room_made(&core.queue) {
            core.mind_the_turn();
        }
        if core.driver.is_async() {
            shift.let_told_futures_go_on(core);
        }
        if let Some((waited, weight)) = core.queue.waited(ticket) {
            self.note_wait(&item, waited, weight);
        }
        let due = shift.ran >= shift.every;
        if due {
            shift.every = self.read_clock(&mut shift.stride, shift.ran);
            shift.ran = 0;
        }
        let result = self.run(item);
        shift.ran += 1;
        if let Err(cause) = result {
            self.note_runs(&mut shift.stride, core.clock.now(), shift.ran);
            core.wake_for_rest();
            return Step::End(End::Failed(cause));
        }
        if due && core.pace.is_short() && self.step_aside() {
            self.note_runs(&mut shift.stride, core.clock.now(), shift.ran);
            self.sleep_awhile(shift, 0, true);
            shift.rested();
        }
        Step::Ran
    }

    /// Looks at the orders between two tasks.
    #[inline(always)]
    fn obey(&self) -> Option<End> {
        let orders = self.line.orders.load(Acquire);
        if orders == 0 { None } else { self.obey_slowly(orders) }
    }

    #[cold]
    fn obey_slowly(&self, orders: u32) -> Option<End> {
        if orders & STUCK != 0 && !self.core.roster.lock().rejoin(self.line.id, self.core.target())
        {
            return Some(End::Returned);
        }
        if orders & STOP_AFTER_TASK != 0 {
            return Some(End::Ordered("stopped by request"));
        }
        let goes = orders & RETIRE != 0 && self.core.roster.lock().let_go(self.line.id);
        goes.then_some(End::Ordered("not needed any more"))
    }

    /// Once per many short tasks, and before the first after a rest. After how many more to
    /// read it again?
    #[inline(never)]
    fn read_clock(&self, stride: &mut Stride, ran: u32) -> u32 {
        let now = self.core.clock.about_now();
        self.line.running_since(now);
        if ran > 0 {
            self.turn(stride, now, ran);
        } else {
            stride.begin(now);
            self.core.wake_next();
        }
        stride.every()
    }

    /// How long its last tasks took, on the average.
    fn note_runs(&self, stride: &mut Stride, now: Ticks, ran: u32) {
        let took = stride.since_last(now);
        self.line.ran(ran, took);
        self.core.queue.watch_all(stride.pays_to_watch(took, ran));
    }

    #[cold]
    fn note_wait(&self, item: &Item, waited: Duration, weight: u64) {
        self.line.waited(waited, weight);
        if let Item::Cell(cell) = item
            && let Some(times) = self.core.times.of(cell.name().unwrap_or(""))
        {
            times.queue_wait.record(waited, 1); // the others it stands for have other names
        }
    }

    fn turn(&self, stride: &mut Stride, now: Ticks, ran: u32) {
        let core = &*self.core;
        self.note_runs(stride, now, ran);
        let turn = stride.sample(now, ran, core.lobby.waiting() > 0);
        if core.pace.turn(turn) {
            match turn {
                Turn::Off => core.wake_for_rest(), // for the others it pays to be awake again
                _ => core.wake_supervisor(),
            }
        }
    }

    /// Short mode: counts as asleep from now on, if another worker is active.
    fn step_aside(&self) -> bool {
        self.core.settled(); // what we counted
        self.core.lot.step_aside(self.core.live() as u64)
    }

    /// Nothing to do: tells whoever should know. Ok: whether there was much to do; Err: time
    /// to go.
    #[inline(never)]
    pub(crate) fn before_rest(&self, core: &Core, shift: &mut Shift) -> Result<bool, End> {
        core.room_is_free();
        core.settled();
        match shift.ran {
            0 => {}
            ran @ 1..=4 => self.note_runs(&mut shift.stride, core.clock.now(), ran),
            ran => self.turn(&mut shift.stride, core.clock.now(), ran),
        }
        let was_busy = shift.ran > 4 || shift.stride.is_going();
        shift.rested();
        if core.flags.load(SeqCst) & STOPPING != 0 && core.queue.is_drained() {
            // The others may be asleep: they, too, have to notice.
            core.lot.kick_all();
            if shift.announced {
                core.queue.take_credit_back();
            }
            return Err(End::Ordered("shutdown"));
        }
        Ok(was_busy)
    }

    /// Until there is work, or an order.
    fn sleep_awhile(&self, shift: &Shift, first_step: u32, aside: bool) {
        self.core.lot.rest(first_step, aside, || self.is_workable(), || self.is_called(shift));
    }

    /// There is something to take.
    pub(crate) fn is_workable(&self) -> bool {
        !self.core.is_held_back() && self.core.queue.looks_nonempty()
    }

    /// It has to look at its orders, or a pause is over in which it went to rest.
    pub(crate) fn is_called(&self, shift: &Shift) -> bool {
        self.line.orders.load(SeqCst) != 0
            || self.core.flags.load(SeqCst) & STOPPING != 0 && self.core.queue.is_drained()
            || shift.is_to_announce(&self.core)
    }

    #[inline(always)]
    fn run(&mut self, item: Item) -> Result<(), String> {
        let panicked = match item {
            Item::Inline(job) => self.run_inline(job),
            Item::Cell(cell) => self.run_cell(cell),
        };
        if panicked && self.state.is_some() {
            self.drop_state();
            return self.make_state();
        }
        Ok(())
    }

    #[inline(always)]
    fn run_inline(&self, job: InlineJob) -> bool {
        let limit = self.core.config.task_timeout.map(|limit| self.begin_limit(limit));
        let run = self.line.begin(INLINE);
        if let Some(limit) = limit {
            fence(SeqCst); // the run word, then `earliest`: see `limits.rs`
            self.core.watch_limit(limit);
        }
        let result = quietly(|| job.consume(Verb::Run));
        let too_late = limit.is_some_and(|limit| self.core.clock.now() >= limit);
        if !self.line.end_inline(run) {
            self.core.ledger.late_returns.fetch_add(1, Relaxed);
            self.line.end();
            trace::returned_late(&self.core, "", self.line.inline_id(run));
            let panicked = result.is_err();
            if let Err(panic) = result {
                let text = format!("after it was abandoned: {}", panic.message());
                let id = Some(self.line.inline_id(run));
                self.core.unobserved(UnobservedKind::Panicked, "", id, text);
                self.core.discard(panic);
            }
            return panicked;
        }
        match result {
            Ok(()) if too_late => {
                self.line.outcomes().count_own(Kind::TimedOutRunning);
                let id = Some(self.line.inline_id(run));
                self.core.unobserved(UnobservedKind::TimedOut, "", id, String::new());
                false
            }
            Ok(()) => {
                self.line.outcomes().count_own(Kind::Completed);
                false
            }
            Err(panic) => {
                self.line.outcomes().count_own(Kind::Panicked);
                let id = Some(self.line.inline_id(run));
                self.core.unobserved(UnobservedKind::Panicked, "", id, panic.message().into());
                self.core.discard(panic);
                true
            }
        }
    }

    fn begin_limit(&self, limit: Duration) -> Ticks {
        let now = self.core.clock.now();
        self.line.running_since(now);
        let at = now.after(limit);
        self.line.limit_at.store(at.0, SeqCst);
        at
    }

    #[inline(always)]
    fn run_cell(&mut self, cell: CellRef) -> bool {
        self.line.begin(CELL);
        let state = self
            .state
            .as_deref_mut()
            .map_or(no_state(), |state| std::ptr::from_mut(state).cast::<()>());
        let env = RunEnv { core: &self.core, line: Some(&self.line), state, nest: &self.nest };
        let panicked = run_claimed(cell, &env);
        if self.nest.is_empty() {
            self.line.end(); // otherwise it is a future, which has only begun
        }
        panicked
    }
}

/// The state of a pool without one: `&mut ()` needs an address that is not null.
pub(crate) fn no_state() -> *mut () {
    std::ptr::NonNull::<()>::dangling().as_ptr()
}

/// Runs a cell task that this thread has claimed, on top of whatever its stack holds; true
/// if it panicked, also after it was given up.
pub(crate) fn run_claimed(cell: CellRef, env: &RunEnv<'_>) -> bool {
    let run = cell.ops().run;
    // SAFETY: the claim makes this thread the owner of the payload, which `ops` is for, and
    // nobody can give the task up before it is on a line (`RunEnv::show`).
    unsafe { run(cell, env) }
}

impl RunEnv<'_> {
    /// Shows a task on this worker's line: from now on it can be given up, and its cell be
    /// somebody else's. So the closure must be out of it. For `hide`: is it the lowest?
    #[inline(always)]
    pub(crate) fn show(&self, cell: CellRef) -> bool {
        let lowest = self.line.is_some_and(|line| line.push(cell));
        // Who offered it may not have come to that, and its first poll may cancel its token.
        if cell.has_extras() && cell.ops().is_future {
            self.core.listen(cell, Who::Watcher);
        }
        // Whoever told it before could not see it: a Hard, a stop of its worker, a cancel.
        fence(SeqCst);
        let hard = self.core.flags.load(SeqCst) & HARD != 0;
        let stopped = self.line.is_some_and(|line| line.ordered(STOP_HARD));
        if hard || stopped || cell.was_told() {
            self.tell_at_once(cell, hard, stopped);
        }
        lowest
    }

    #[cold]
    fn tell_at_once(&self, cell: CellRef, hard: bool, stopped: bool) {
        if hard {
            self.core.tell(cell, Cause::Shutdown);
        }
        if stopped {
            self.core.tell(cell, Cause::WorkerStopped);
        }
        if cell.was_told() {
            self.core.wake_supervisor(); // for its grace
        }
    }

    /// The task is over; on a caller's thread whoever looks for it there finds it gone.
    #[inline(always)]
    pub(crate) fn hide(&self, cell: CellRef, lowest: bool) {
        match self.line {
            Some(line) => line.pop(cell, lowest),
            None => self.core.callers.lock().retain(|(other, _)| *other != cell),
        }
    }
}

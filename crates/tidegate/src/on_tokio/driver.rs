//! What a pool of futures needs of its runtime, and the thread that watches the runtime.
//!
//! The supervisor is a task of the runtime, so that limits follow tokio's time and a paused
//! clock moves on only when they were seen to. A runtime whose threads are all stuck in polls
//! would never get to it: so a thread of ours, the *watch*, does what is due when the runtime
//! has not come to it for a while. It sleeps for good while nothing is due.
//!
//! The supervisor's task is also the sentinel: a runtime that shuts down drops it before its
//! end, and that drop closes the pool, Hard. From then on the watch is the supervisor.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Sleep;

use super::worker::{AsyncWorker, Blocking};
use crate::away_watch::AwayWatch;
use crate::clock::Ticks;
use crate::core::{Core, Ending};
use crate::frames;
use crate::line::WorkerLine;
use crate::parker::Parker;
use crate::report::{Mode, Report, Shutdown};
use crate::resize::Sizing;
use crate::settle::Who;
use crate::spawn::{self, Joiner};
use crate::supervisor::Nap;
use crate::sync::Lock;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// How long the runtime has for what is due, before the watch does it.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same, while it has not answered the last time.
const LITTLE_PATIENCE: Duration = Duration::from_millis(2);

/// The runtime of one pool.
pub(crate) struct Runtime {
    handle: Handle,
    bell: Arc<Bell>,
    /// What the supervisor keeps, and when it has to look again.
    sizing: Lock<Sizing>,
    next_look: Lock<Nap>,
    away: AwayWatch,
    /// More than one thread may poll.
    pub(super) has_threads: bool,
    /// Its tasks are closures, which may block, and how the runtime hears of it.
    pub(super) may_block: bool,
    pub(crate) blocking: Option<Blocking>,
}

/// Between supervisor, watch and those who ring for them.
struct Bell {
    /// Futures of the pool that the runtime has not dropped.
    present: AtomicUsize,
    /// There is something to look at.
    rung: AtomicBool,
    /// The supervisor's.
    waker: Lock<Option<Waker>>,
    /// Looks so far.
    looks: AtomicU64,
    /// The watch is awake, or will be in a moment.
    watching: AtomicBool,
    /// The runtime has left the last look to the watch: its threads are stuck in polls.
    unanswered: AtomicBool,
    /// The runtime shuts down.
    gone: AtomicBool,
    /// How it ended, from the supervisor to the watch.
    report: Lock<Option<Arc<Report>>>,
    watch: Arc<Parker>,
}

impl Bell {
    fn ring(&self) {
        if self.rung.swap(true, SeqCst) {
            return;
        }
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
        if !self.watching.load(SeqCst) {
            self.watch.unpark();
        }
    }

    fn runtime_gone(&self) {
        self.gone.store(true, SeqCst);
        self.watch.unpark();
    }
}

/// One future of the pool: counted until it is dropped.
pub(crate) struct Present(Arc<Bell>);

impl Present {
    /// It is dropped before its end.
    pub(crate) fn runtime_gone(&self) {
        self.0.runtime_gone();
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, SeqCst);
        self.0.ring();
    }
}

impl Runtime {
    pub(crate) fn new(handle: Handle) -> Runtime {
        let bell = Bell {
            present: AtomicUsize::new(0),
            rung: AtomicBool::new(false),
            waker: Lock::default(),
            looks: AtomicU64::new(0),
            watching: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            report: Lock::default(),
            watch: Parker::new(),
        };
        Runtime {
            has_threads: handle.runtime_flavor() != RuntimeFlavor::CurrentThread,
            handle,
            bell: Arc::new(bell),
            sizing: Lock::default(),
            next_look: Lock::new(Nap::until(Ticks::NEVER)),
            away: AwayWatch::new(),
            may_block: false,
            blocking: None,
        }
    }

    /// For tasks that are closures.
    pub(crate) fn for_closures(self, blocking: Option<Blocking>) -> Runtime {
        Runtime { may_block: true, blocking, ..self }
    }

    /// What is woken by a poll goes to a slot of tokio's for what that thread does next, from
    /// which no other thread takes anything, however long the poll goes on. The next that is woken
    /// drives it out, into a queue that others steal from. Not for whoever else submits from the
    /// runtime: as a rule that awaits something soon, and then the slot is the quickest way.
    pub(crate) fn spread(&self, core: &Core) {
        if frames::depth(core.address()) > 0 {
            drive_out(&self.handle);
        }
    }

    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.handle.enter()
    }

    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    pub(crate) fn present(&self) -> usize {
        self.bell.present.load(SeqCst)
    }

    fn count(&self) -> Present {
        self.bell.present.fetch_add(1, SeqCst);
        Present(Arc::clone(&self.bell))
    }

    /// The first worker begins on the thread that builds the pool: that must not wait for a
    /// runtime which may need the very same thread.
    pub(crate) fn start_first(
        &self,
        core: &Arc<Core>,
        line: &Arc<WorkerLine>,
    ) -> Result<(), String> {
        let (own, line) = (Arc::clone(core), Arc::clone(line));
        let mut worker = AsyncWorker::new(own, line, self.count());
        worker.arrive()?;
        drop(self.handle.spawn(worker));
        Ok(())
    }

    pub(crate) fn start_worker(&self, core: &Arc<Core>, line: &Arc<WorkerLine>) -> io::Result<()> {
        if self.bell.gone.load(SeqCst) {
            return Err(io::Error::other("the runtime shut down"));
        }
        let worker = AsyncWorker::new(Arc::clone(core), Arc::clone(line), self.count());
        // A runtime that has shut down drops it at once, and that is its end.
        drop(self.handle.spawn(worker));
        Ok(())
    }

    pub(crate) fn start_supervisor(&self, core: &Arc<Core>) -> io::Result<Joiner> {
        let supervisor = Supervisor {
            core: Arc::downgrade(core),
            ending: Arc::clone(&core.ending),
            bell: Arc::clone(&self.bell),
            timer: None,
            rest: None,
        };
        let (bell, own) = (Arc::clone(&self.bell), Arc::clone(core));
        let name = format!("{}-watch", core.name);
        let watch = spawn::spawn(name, None, core.config.spawner.as_ref(), move || {
            watch(own, &bell);
        })?;
        drop(self.handle.spawn(supervisor));
        Ok(watch)
    }

    /// Chores are done on the runtime: with a paused clock no time passes meanwhile. False if it
    /// would not come to them.
    pub(crate) fn start_reaper(&self, core: &Arc<Core>) -> bool {
        if self.bell.gone.load(SeqCst) || self.bell.unanswered.load(SeqCst) {
            return false;
        }
        let chores = Chores { core: Some(Arc::clone(core)), present: self.count() };
        drop(self.handle.spawn(chores));
        true
    }
}

/// What this thread of the runtime would do next goes to its queue, from which others steal.
pub(super) fn drive_out(handle: &Handle) {
    drop(handle.spawn(std::future::ready(())));
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("present", &self.present()).finish_non_exhaustive()
    }
}

// ---------------------------------------------------------------- the supervisor

impl Runtime {
    /// One look of the supervisor, or of the watch in its place. Ok: whether the next is due
    /// sooner than was said before.
    fn look(&self, core: &Arc<Core>) -> Result<bool, Arc<Report>> {
        let mut sizing = self.sizing.lock();
        let nap = core.tick(core.clock.now(), &mut sizing)?;
        let before = std::mem::replace(&mut *self.next_look.lock(), nap);
        Ok(nap.at < before.at || nap.really < before.really)
    }

    /// Whether a look is due that was not made.
    fn is_look_due(&self, core: &Core) -> bool {
        let Nap { at, really } = *self.next_look.lock();
        core.clock.now() >= at || core.real_time.now() >= really
    }

    /// A worker lets others go on.
    pub(super) fn leave(&self, core: &Core, line: &WorkerLine) {
        line.away.store(true, SeqCst);
        if self.away.leave(|| core.real_time.now()) {
            self.bell.watch.unpark();
        }
    }

    /// Its thread has come back to it, if it was away.
    pub(super) fn come_back(&self, line: &WorkerLine) {
        if line.away.load(Relaxed) {
            line.away.store(false, SeqCst);
            self.away.come_back();
        }
    }

    /// A submit counts on a worker that was woken and has not been polled yet. It may be what tokio
    /// does next on the thread that woke it (`spread`), and that may be long in coming.
    #[cold]
    pub(crate) fn mind_search(&self, core: &Core) {
        if core.lot.is_awaited() && self.away.mind(|| core.real_time.now()) {
            self.bell.watch.unpark();
        }
    }

    /// R7: wakes who is away if tasks wait for it. When to look again, in real time.
    fn watch_away(&self, core: &Core) -> Ticks {
        let head = || core.queue.looks_nonempty() && !core.is_held_back();
        let (stands, again) = self.away.look(
            core.real_time.now(),
            || head().then(|| core.queue.head()),
            || core.lot.is_searched(),
            || core.lot.is_awaited(),
        );
        if stands {
            let away: Vec<Waker> = {
                let roster = core.roster.lock();
                let lines = roster.entries.values().map(|entry| &entry.line);
                lines
                    .filter_map(|line| line.waker.get().filter(|_| line.away.load(SeqCst)))
                    .cloned()
                    .collect()
            };
            away.into_iter().for_each(Waker::wake);
            // In case the runtime is about to poll them on the very thread that is stuck.
            core.lot.wake_another();
        }
        again
    }

    /// The watch sleeps until a look is due, or there is something new.
    fn sleep_until_due(&self, core: &Core) {
        let Nap { at, really } = *self.next_look.lock();
        match really.min(self.watch_away(core)) {
            Ticks::NEVER => drop(self.bell.watch.park_until(&core.clock, at)),
            really => {
                let left = really.since(core.real_time.now());
                self.bell.watch.park_at_most(&core.clock, at, left);
            }
        }
    }
}

/// Looks when it is rung for, and when something is due.
struct Supervisor {
    core: Weak<Core>,
    ending: Arc<Ending>,
    bell: Arc<Bell>,
    timer: Option<Pin<Box<Sleep>>>,
    /// After a look at very many workers: not before that.
    rest: Option<Pin<Box<Sleep>>>,
}

/// A look that takes longer is followed by a rest of twice its length, up to the second: while
/// thousands of workers leave, each rings.
const LONG_LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

impl Future for Supervisor {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut waker = this.bell.waker.lock();
            if !waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        }
        loop {
            if let Some(rest) = &mut this.rest {
                if rest.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.rest = None;
            }
            this.bell.rung.store(false, SeqCst);
            let Some(core) = this.core.upgrade().filter(|_| this.ending.report.get().is_none())
            else {
                return Poll::Ready(());
            };
            this.bell.unanswered.store(false, SeqCst);
            let began = core.real_time.now();
            let looked = core.driver.runtime().look(&core);
            this.bell.looks.fetch_add(1, SeqCst);
            let took = core.real_time.now().since(began);
            if took > LONG_LOOK.0 && core.clock.tokio_time().is_some() {
                let rest = (2 * took).min(LONG_LOOK.1);
                this.rest = Some(Box::pin(tokio::time::sleep(rest)));
            }
            let at = match looked {
                Ok(sooner) => {
                    // In case the runtime does not come to it; and a clock of another kind only
                    // the watch can follow.
                    if sooner || core.clock.tokio_time().is_none() {
                        this.bell.watch.unpark();
                    }
                    core.driver.runtime().next_look.lock().at
                }
                Err(report) => {
                    drop(core);
                    *this.bell.report.lock() = Some(report);
                    this.bell.watch.unpark();
                    return Poll::Ready(());
                }
            };
            // By a clock that is not the runtime's the watch goes, and rings.
            let time = core.clock.tokio_time().filter(|_| at != Ticks::NEVER);
            this.timer = match time {
                None => None,
                Some(time) => {
                    let left = at.since(core.clock.now());
                    let at = time.after(left.min(FAR));
                    match this.timer.take() {
                        None => Some(Box::pin(tokio::time::sleep_until(at))),
                        Some(mut timer) => {
                            timer.as_mut().reset(at);
                            Some(timer)
                        }
                    }
                }
            };
            drop(core);
            let due = this.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
            if !due && !this.bell.rung.load(SeqCst) {
                return Poll::Pending;
            }
        }
    }
}

/// What a timer can hold; then it looks again.
const FAR: Duration = Duration::from_secs(86_400 * 365);

impl Drop for Supervisor {
    fn drop(&mut self) {
        let over = self.ending.report.get().is_some() || self.bell.report.lock().is_some();
        if !over {
            self.bell.runtime_gone();
        }
    }
}

/// Runs code of the pool in a poll of the runtime's.
pub(super) fn enter<R>(core: &Core, line: Option<&WorkerLine>, f: impl FnOnce() -> R) -> R {
    let may_block = core.driver.runtime().may_block;
    frames::enter_on_runtime(core.address(), line, may_block, f)
}

/// The reaper's work as a future that is ready at once.
struct Chores {
    core: Option<Arc<Core>>,
    present: Present,
}

impl Future for Chores {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if let Some(core) = self.core.take() {
            core.reaper_started(true);
            enter(&core, None, || core.do_chores());
        }
        Poll::Ready(())
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        // By a runtime that shuts down: a thread must do it. It may be the first to notice, in the
        // spawn itself, and then another one would fare as this one did, and so on.
        if let Some(core) = self.core.take() {
            self.present.runtime_gone();
            core.reaper_started(false);
        }
    }
}

// ---------------------------------------------------------------- the watch

impl Core {
    /// The runtime has gone with work left, and nobody has asked for Hard.
    pub(super) fn work_is_lost(&self) {
        let mut control = self.control.lock();
        let asked = control.closing.is_some_and(|closing| closing.mode == Mode::Hard);
        control.lost_workers |= !asked;
    }
}

/// Sees to it that what is due gets done, whatever the runtime does, and ends the pool.
fn watch(core: Arc<Core>, bell: &Bell) {
    let ending = Arc::clone(&core.ending);
    let mut is_told = false;
    let report = loop {
        bell.watching.store(true, SeqCst);
        if let Some(report) = bell.report.lock().take() {
            break report;
        }
        let looks = bell.looks.load(SeqCst);
        if bell.gone.load(SeqCst) {
            // Nothing can run any more: what is queued is cancelled, what ran was dropped. Once:
            // each time would give the reaper something to do, and us another look.
            if !std::mem::replace(&mut is_told, true) {
                if !core.reading().is_idle() {
                    core.work_is_lost();
                }
                core.begin_shutdown(Shutdown::hard(), Who::Watcher);
            }
        } else if bell.rung.load(SeqCst) || core.driver.runtime().is_look_due(&core) {
            bell.rung.store(false, SeqCst);
            bell.ring();
            let stuck = bell.unanswered.load(SeqCst);
            let patience = if stuck { LITTLE_PATIENCE } else { PATIENCE };
            let until = core.real_time.now().after(patience);
            let is_answered = || bell.looks.load(SeqCst) != looks || bell.gone.load(SeqCst);
            while !is_answered() && core.real_time.now() < until {
                let away = core.driver.runtime().watch_away(&core);
                bell.watch.park_until(&core.real_time, until.min(away));
            }
            if is_answered() {
                continue;
            }
            bell.unanswered.store(true, SeqCst);
        } else {
            bell.watching.store(false, SeqCst);
            // Whoever rang before that may have counted on us.
            if !bell.rung.load(SeqCst) && !bell.gone.load(SeqCst) {
                core.driver.runtime().sleep_until_due(&core);
            }
            continue;
        }
        // The runtime is stuck, or gone.
        bell.rung.store(false, SeqCst);
        let looked = core.driver.runtime().look(&core);
        bell.looks.fetch_add(1, SeqCst);
        match looked {
            Err(report) => break report,
            Ok(_) if bell.gone.load(SeqCst) => {
                // As above: whoever rang during the look has counted on us.
                bell.watching.store(false, SeqCst);
                if !bell.rung.load(SeqCst) {
                    core.driver.runtime().sleep_until_due(&core);
                }
            }
            Ok(_) => {}
        }
    };
    // Whoever sees the report finds the core's threads gone, this one's share included.
    drop(core);
    ending.report.set(report);
    bell.ring();
}

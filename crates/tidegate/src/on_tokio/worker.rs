//! A worker that is a future.
//!
//! The same steps as on a thread (`worker.rs`), but where that one would sleep this one leaves a
//! waker, and where a closure would run it polls. It is woken for four reasons: a token of the
//! lot, an order, a future of its own that can go on, or a task that was told to stop.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::driver::{Present, drive_out, enter};
use super::nest::{FirstPoll, Reach};
use crate::core::Core;
use crate::cx::Cx;
use crate::frames;
use crate::life::CellRef;
use crate::line::WorkerLine;
use crate::lot::Rest;
use crate::outcome::Cause;
use crate::panics::quietly;
use crate::settle::{self, RunEnv};
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::snooze;
use crate::worker::{End, Shift, Step, Worker, no_state};

/// After so many tasks it lets others on the same thread go on; if they are short, after that time.
const BEFORE_LOOKING: u32 = 32;
const BEFORE_YIELDING: Duration = Duration::from_micros(100);

/// How often it looks for work before it sleeps.
const LOOKS: u8 = 100;
/// After so many searches in vain it sleeps at once, and searches only every so many times: tasks
/// that come one by one, a while apart, would otherwise cost a hundred looks each.
const IN_VAIN: u8 = 2;
const NOW_AND_THEN: u8 = 16;

pub(crate) struct AsyncWorker {
    /// None once it has ended.
    worker: Option<Worker>,
    shift: Shift,
    rest: Rest,
    search: Search,
    /// As `Lot::were_wakes` says.
    wakes: u32,
    arrived: bool,
    // Last: who sees it gone finds the core's share gone, too.
    present: Present,
}

/// The looks for work before it sleeps.
#[derive(Default)]
struct Search {
    /// How many are left.
    looks: u8,
    /// Rests since work was found that way.
    in_vain: u8,
}

impl Search {
    fn begin(&mut self, may: bool) {
        let pays = self.in_vain < IN_VAIN || self.in_vain.is_multiple_of(NOW_AND_THEN);
        self.looks = if may && pays { LOOKS } else { 0 };
        if may {
            self.in_vain = self.in_vain.checked_add(1).unwrap_or(NOW_AND_THEN);
        }
    }

    fn has_found(&mut self) {
        self.in_vain = 0;
    }
}

// SAFETY: what is not `Send` in a `Worker` is its state, and a pool of futures has none
// (`Config::check`); the nest is only touched by whoever polls it.
unsafe impl Send for AsyncWorker {}
// Nothing in it is pinned: each future is in a box of its own.
impl Unpin for AsyncWorker {}

impl AsyncWorker {
    pub(crate) fn new(core: Arc<Core>, line: Arc<WorkerLine>, present: Present) -> AsyncWorker {
        let shift = Shift::new(&core);
        let worker = Some(Worker::new(core, line));
        AsyncWorker {
            worker,
            shift,
            rest: Rest::Awake,
            search: Search::default(),
            wakes: 0,
            arrived: false,
            present,
        }
    }

    /// Before its first task. With `queue(0)` the first worker is there from the start.
    pub(crate) fn arrive(&mut self) -> Result<(), String> {
        let worker = self.worker.as_mut().expect("it has not ended");
        let (core, line) = (Arc::clone(&worker.core), Arc::clone(&worker.line));
        line.set_runner(frames::fresh_number());
        frames::enter(core.address(), Some(&line), || worker.arrive())?;
        core.worker_ready(&line);
        self.arrived = true;
        if core.queue.bound() == 0 && core.flags.load(SeqCst) == 0 {
            core.queue.give_credit();
            core.room_is_free();
            self.shift.announced = true;
        }
        Ok(())
    }

    fn work(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let worker = self.worker.as_mut().expect("it has not ended");
        let core = Arc::clone(&worker.core);
        core.driver.runtime().come_back(&worker.line);
        if worker.line.waker.get().is_none() {
            // Its task keeps one waker for good.
            let _ = worker.line.waker.set(cx.waker().clone());
        }
        if !self.arrived
            && let Err(cause) = self.arrive()
        {
            return Poll::Ready(End::Failed(cause));
        }
        let worker = self.worker.as_mut().expect("it has not ended");
        let (mut begun, mut reach, mut since) = (0, Reach::All, None);
        loop {
            if self.rest != Rest::Awake
                && poll_rest(worker, &self.shift, &mut self.rest, &mut self.search, cx).is_pending()
            {
                return Poll::Pending;
            }
            if poll_tasks(worker, reach, cx).is_pending() {
                return Poll::Pending;
            }
            if begun == BEFORE_LOOKING {
                let now = core.real_time.now();
                let is_long = now.since(*since.get_or_insert(now)) > BEFORE_YIELDING;
                if is_long || !self.shift.finds_tasks_short() {
                    return let_others_go_on(worker, cx);
                }
                begun = 0;
            }
            begun += 1;
            worker.nest.poll_at_once();
            let wakes = core.lot.wakes();
            let step = step(worker, &core, &mut self.shift);
            let first_poll = worker.nest.take_first_poll();
            match step {
                Step::Ran if first_poll == FirstPoll::Pending => return Poll::Pending,
                // Who waits for its outcome is what this thread does next, and no other one may.
                // While tasks are short that is soon enough.
                Step::Ran if core.lot.wakes() != wakes && !self.shift.finds_tasks_short() => {
                    return let_others_go_on(worker, cx);
                }
                Step::Ran => reach = Reach::Top,
                Step::End(end) => return Poll::Ready(end),
                Step::Nothing => {
                    // Where tasks may block, tokio gives each poll after one to another thread.
                    let sleeps =
                        core.driver.runtime().may_block | core.lot.were_wakes(&mut self.wakes);
                    self.search.begin(!sleeps);
                    if let Err(end) = worker.before_rest(&core, &mut self.shift) {
                        return Poll::Ready(end);
                    }
                    let (shift, rest) = (&self.shift, &mut self.rest);
                    if poll_rest(worker, shift, rest, &mut self.search, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// It breaks off, wherever it was: what it ran is lost, and nobody counts on it.
    fn break_off(&mut self) {
        let Some(worker) = &self.worker else { return };
        let (core, line) = (Arc::clone(&worker.core), Arc::clone(&worker.line));
        let env = env(worker);
        worker.nest.stop(&env, Cause::WorkerLost);
        // What a panic of ours has dropped from the nest.
        for cell in line.running_cells() {
            let cx = Cx::untimed(cell, Some(line.id));
            settle::settle_stopped(cell, &env, &cx, None, Cause::WorkerLost);
        }
        line.end();
        core.driver.runtime().come_back(&line);
        core.lot.desert(std::mem::take(&mut self.rest), line.id.0);
        if std::mem::take(&mut self.shift.announced) {
            core.queue.take_credit_back();
        }
    }

    /// Nothing in here should panic; if something does, it costs this worker and not the pool.
    fn work_or_fail(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        quietly(|| self.work(cx)).unwrap_or_else(|panic| {
            self.break_off();
            Poll::Ready(End::Failed(panic.to_string()))
        })
    }

    /// It is over: nobody is waited for any more, and who counts it finds it gone.
    fn end(&mut self, end: &End) {
        let Some(mut worker) = self.worker.take() else { return };
        if self.arrived {
            worker.depart();
        }
        worker.core.worker_ended(&worker.line, end);
    }
}

/// How code is run that may block, on a runtime whose other tasks should go on.
pub(crate) type Blocking = fn(&mut dyn FnMut());

fn step(worker: &mut Worker, core: &Arc<Core>, shift: &mut Shift) -> Step {
    let Some(blocking) = core.driver.runtime().blocking else { return worker.step(core, shift) };
    let mut done = None;
    blocking(&mut || done = Some(worker.step(core, shift)));
    done.expect("it was run")
}

/// Will be polled again when whatever else is ready on this thread has been. To wake itself would
/// wake another thread for it, too.
fn let_others_go_on<T>(worker: &Worker, cx: &mut Context<'_>) -> Poll<T> {
    let runtime = worker.core.driver.runtime();
    runtime.leave(&worker.core, &worker.line);
    let again = runtime.has_threads.then(|| Waker::from(Arc::clone(&worker.line)));
    let mut cx = Context::from_waker(again.as_ref().unwrap_or(cx.waker()));
    let _ = pin!(tokio::task::yield_now()).poll(&mut cx);
    Poll::Pending
}

/// Of a worker that lets others go on. Its thread wakes it after those, and it would be what that
/// does next (`Runtime::spread`): as a rule at once, but now and then tokio looks first at what has
/// come from outside. If that blocks nobody else gets at the worker, and whoever wakes it changes
/// nothing, since it is awake. So it is driven out, to where other threads find it.
impl Wake for WorkerLine {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        let Some(waker) = self.waker.get() else { return };
        waker.wake_by_ref();
        if let Ok(runtime) = Handle::try_current() {
            drive_out(&runtime);
        }
    }
}

/// Until there is work, or an order. To be woken costs as much as a hundred short tasks, so it
/// looks for some before it sleeps, each time that its thread has nothing else to do. But whoever
/// was woken for an outcome may submit more, one by one: then it sleeps at once, and lets those
/// gather.
fn poll_rest(
    worker: &Worker,
    shift: &Shift,
    rest: &mut Rest,
    search: &mut Search,
    cx: &mut Context<'_>,
) -> Poll<()> {
    search.looks = search.looks.saturating_sub(1);
    let before = *rest;
    let me = (worker.line.id.0, cx.waker());
    let (workable, called) = (|| worker.is_workable(), || worker.is_called(shift));
    let polled = worker.core.lot.poll_rest(rest, search.looks > 0, me, workable, called);
    match (before, *rest) {
        (_, Rest::Searching) => {
            snooze(5); // whoever is about to submit may need the core
            return let_others_go_on(worker, cx);
        }
        (Rest::Searching, Rest::Awake) => search.has_found(),
        _ => {}
    }
    if polled == Poll::Ready(true) {
        worker.core.driver.spread(&worker.core);
    }
    polled.map(|_| ())
}

/// Polls what this worker runs, until all of it is pending (Pending) or over.
fn poll_tasks(worker: &Worker, reach: Reach, cx: &mut Context<'_>) -> Poll<()> {
    if worker.nest.is_empty() {
        return Poll::Ready(());
    }
    let polled = worker.nest.poll(reach, &env(worker), cx);
    if polled.is_ready() {
        worker.line.end();
    }
    polled
}

fn env(worker: &Worker) -> RunEnv<'_> {
    let (core, line, nest) = (&worker.core, &worker.line, &worker.nest);
    RunEnv { core, line: Some(line), state: no_state(), nest }
}

impl Future for AsyncWorker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(worker) = &this.worker else { return Poll::Ready(()) };
        let (pool, line) = (worker.core.address(), Arc::clone(&worker.line));
        let may_block = worker.core.driver.runtime().may_block;
        let worked = frames::enter_on_runtime(pool, Some(&line), may_block, || {
            let worked = this.work_or_fail(cx);
            if let Poll::Ready(end) = &worked {
                this.end(end);
            }
            worked
        });
        worked.map(|_| ())
    }
}

impl Drop for AsyncWorker {
    /// Before its end only a runtime does this that shuts down.
    fn drop(&mut self) {
        let Some(worker) = &self.worker else { return };
        self.present.runtime_gone();
        let (core, line) = (Arc::clone(&worker.core), Arc::clone(&worker.line));
        if !worker.nest.is_empty() {
            core.work_is_lost();
        }
        enter(&core, Some(&line), || {
            self.break_off();
            self.end(&End::Ordered("the runtime shut down"));
        });
    }
}

/// Wakes the worker that polls this task, if it is one.
pub(crate) fn wake_runner(core: &Core, cell: CellRef) {
    let waker: Option<Waker> = {
        let mut roster = core.roster.lock();
        roster.find(cell.runner()).and_then(|entry| entry.line.waker.get().cloned())
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;

    use super::*;
    use crate::ids::WorkerId;

    /// A thread of a runtime with two wakes a task that has let others go on, and then blocks.
    #[test]
    fn r7_who_lets_others_go_on_is_polled_by_another_thread_if_its_own_blocks() {
        const LONG: Duration = Duration::from_secs(60);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let line = WorkerLine::new(WorkerId(0), None);
        let (tells, told) = mpsc::channel();
        let (own, mut is_set) = (Arc::clone(&line), false);
        let waits = poll_fn(move |cx| {
            if !is_set {
                is_set = own.waker.set(cx.waker().clone()).is_ok();
                return Poll::Pending;
            }
            tells.send(()).unwrap();
            Poll::Ready(())
        });
        drop(runtime.spawn(waits));
        while line.waker.get().is_none() {
            snooze(10);
        }
        let blocks = async move {
            Waker::from(line).wake();
            told.recv_timeout(LONG)
        };
        assert_eq!(runtime.block_on(runtime.spawn(blocks)).unwrap(), Ok(()), "it was next there");
    }

    fn looks(search: &mut Search, rests: u32) -> u32 {
        (0..rests)
            .map(|_| {
                search.begin(true);
                u32::from(search.looks)
            })
            .sum()
    }

    #[test]
    fn who_searches_in_vain_does_so_ever_more_seldom_until_it_finds_something() {
        let (mut search, full) = (Search::default(), u32::from(LOOKS));
        assert_eq!(looks(&mut search, 2), 2 * full);
        assert_eq!(looks(&mut search, 14), 0);
        assert!(looks(&mut search, 1_600) <= 101 * full, "one in sixteen");
        search.has_found();
        assert_eq!(looks(&mut search, 1), full);
    }

    #[test]
    fn who_was_woken_for_an_outcome_does_not_search() {
        let mut search = Search::default();
        search.begin(false);
        assert_eq!(search.looks, 0);
        assert_eq!(looks(&mut search, 1), u32::from(LOOKS), "and that was not in vain");
    }
}

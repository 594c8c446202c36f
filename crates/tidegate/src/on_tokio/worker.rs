//! A worker that is a future.
//!
//! The same steps as on a thread (`worker.rs`), but where that one would sleep this one leaves a
//! waker, and where a closure would run it polls. It is woken for four reasons: a token of the
//! lot, an order, a future of its own that can go on, or a task that was told to stop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::driver::{Present, enter};
use crate::core::Core;
use crate::frames;
use crate::line::WorkerLine;
use crate::outcome::Cause;
use crate::settle::RunEnv;
use crate::sync::atomic::Ordering::SeqCst;
use crate::worker::{End, Shift, Step, Worker, no_state};

/// Tasks that it begins before it lets others on the same thread go on.
const BEFORE_YIELDING: u32 = 32;

pub(crate) struct AsyncWorker {
    /// None once it has ended.
    worker: Option<Worker>,
    shift: Shift,
    /// As `Lot::poll_rest` says.
    asleep: bool,
    arrived: bool,
    // Last: who sees it gone finds the core's share gone, too.
    present: Present,
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
        AsyncWorker { worker, shift, asleep: false, arrived: false, present }
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
        let mut begun = 0;
        loop {
            if self.asleep && poll_rest(worker, &mut self.asleep, cx).is_pending() {
                return Poll::Pending;
            }
            if poll_tasks(worker, cx).is_pending() {
                return Poll::Pending;
            }
            if begun == BEFORE_YIELDING {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            begun += 1;
            match step(worker, &core, &mut self.shift) {
                Step::Ran => {}
                Step::End(end) => return Poll::Ready(end),
                Step::Nothing => {
                    if let Err(end) = worker.before_rest(&core, &mut self.shift) {
                        return Poll::Ready(end);
                    }
                    if poll_rest(worker, &mut self.asleep, cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
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

/// Until there is work, or an order.
fn poll_rest(worker: &Worker, asleep: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
    let me = (worker.line.id.0, cx.waker());
    worker.core.lot.poll_rest(asleep, me, || worker.is_workable(), || worker.is_called())
}

/// Polls what this worker runs, until all of it is pending (Pending) or over.
fn poll_tasks(worker: &Worker, cx: &mut Context<'_>) -> Poll<()> {
    if worker.nest.is_empty() {
        return Poll::Ready(());
    }
    let polled = worker.nest.poll(&env(worker), cx);
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
            let worked = this.work(cx);
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
            worker.nest.stop(&env(worker), Cause::WorkerLost);
            line.end();
        });
        core.lot.desert(self.asleep, line.id.0);
        if self.shift.announced {
            core.queue.take_credit_back();
        }
        enter(&core, Some(&line), || {
            self.end(&End::Ordered("the runtime shut down"));
        });
    }
}

/// Wakes the worker that polls this task, if it is one.
pub(crate) fn wake_runner(core: &Core, cell: crate::life::CellRef) {
    let waker: Option<Waker> = {
        let mut roster = core.roster.lock();
        roster.find(cell.runner()).and_then(|entry| entry.line.waker.get().cloned())
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

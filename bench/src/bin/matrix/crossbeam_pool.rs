//! Threads that read one crossbeam channel: what one writes around it to have
//! a pool that hands back and ends in three ways.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{Receiver, Select, Sender, TrySendError, bounded};
use tidegate::Reason;

use tidegate_conformance::{
    Ending, How, Kind, Need, Refusal, StopSignal, SuiteHandle, SuitePool, Wish, Work,
};

use crate::peer_pool::{Slot, SlotHandle, lock, message};

pub(crate) struct CrossbeamKind;

impl Kind for CrossbeamKind {
    fn name(&self) -> &str {
        "crossbeam-2w"
    }

    fn workers(&self) -> usize {
        2
    }

    fn offers(&self, need: Need) -> bool {
        use Need::*;
        let offered = [BoundedQueue, HandsBack, Fifo, ReleasesBlocked, SoftShutdown, HardShutdown];
        offered.contains(&need) || [DrainsOnDrop, NamedThreads, Alone].contains(&need)
    }

    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        if wish.workers == 0 {
            return Err("a pool needs at least one worker".to_owned());
        }
        Ok(Arc::new(CrossbeamPool::open(wish)?))
    }
}

struct CrossbeamPool {
    /// None once closed. Every submit clones it, so that the workers see the
    /// end of the channel only after the last submit that got in.
    queue: Mutex<Option<Sender<Job>>>,
    /// Dropping the sender tells blocked submitters.
    closed: (Mutex<Option<Sender<()>>>, Receiver<()>),
    orders: Arc<Orders>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct Orders {
    discard_queued: AtomicBool,
    stop_running: AtomicBool,
}

struct Job {
    work: Work,
    result: Arc<Slot>,
}

impl CrossbeamPool {
    fn open(wish: &Wish) -> Result<CrossbeamPool, String> {
        let (queue, jobs) = bounded::<Job>(wish.queue.unwrap_or(1_000));
        let (closing, closed) = bounded(0);
        let orders = Arc::<Orders>::default();
        let start = |n: usize| {
            let (jobs, orders) = (jobs.clone(), Arc::clone(&orders));
            let thread = thread::Builder::new().name(format!("{}-{n}", wish.name));
            thread.spawn(move || jobs.iter().for_each(|job| job.run(&orders)))
        };
        let threads = (0..wish.workers).map(start).collect::<Result<Vec<_>, _>>();
        Ok(CrossbeamPool {
            queue: Mutex::new(Some(queue)),
            closed: (Mutex::new(Some(closing)), closed),
            orders: Arc::clone(&orders),
            threads: Mutex::new(threads.map_err(|e| e.to_string())?),
        })
    }

    fn way_in(&self, work: Work) -> Result<(Sender<Job>, Job), Refusal> {
        match lock(&self.queue).clone() {
            Some(queue) => Ok((queue, Job { work, result: Arc::default() })),
            None => Err(refuse(Reason::Closed, work)),
        }
    }
}

impl SuitePool for CrossbeamPool {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (queue, job) = self.way_in(work)?;
        let handle = Arc::clone(&job.result);
        let mut either = Select::new();
        let room = either.send(&queue);
        either.recv(&self.closed.1);
        let turn = either.select();
        if turn.index() == room {
            turn.send(&queue, job).map_err(|unsent| refuse(Reason::Closed, unsent.0.work))?;
            return Ok(Box::new(SlotHandle(handle)));
        }
        let _ = turn.recv(&self.closed.1);
        Err(refuse(Reason::Closed, job.work))
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let (queue, job) = self.way_in(work)?;
        let handle = Arc::clone(&job.result);
        match queue.try_send(job) {
            Ok(()) => Ok(Box::new(SlotHandle(handle))),
            Err(TrySendError::Full(job)) => Err(refuse(Reason::Full, job.work)),
            Err(TrySendError::Disconnected(job)) => Err(refuse(Reason::Closed, job.work)),
        }
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        let work: Work = Box::new(move |_| {
            work();
            Ok(0)
        });
        self.submit(work).map(drop).map_err(|refusal| refusal.reason)
    }

    fn close(&self) {
        lock(&self.queue).take();
        lock(&self.closed.0).take();
    }

    fn shutdown(&self, how: How) {
        self.orders.discard_queued.fetch_or(how != How::Light, SeqCst);
        self.orders.stop_running.fetch_or(how == How::Hard, SeqCst);
        self.close();
        let mut threads = lock(&self.threads);
        for thread in threads.drain(..) {
            thread.join().expect("a worker catches every panic");
        }
    }
}

impl Drop for CrossbeamPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Job {
    fn run(self, orders: &Orders) {
        let Job { work, result } = self;
        if orders.discard_queued.load(SeqCst) {
            drop(work);
            return result.settle(Ending::Cancelled);
        }
        let ending = match catch_unwind(AssertUnwindSafe(|| work(orders))) {
            Ok(Ok(value)) => Ending::Value(value),
            Ok(Err(_)) if orders.stopping() => Ending::Cancelled,
            Ok(Err(error)) => Ending::Failed(error),
            Err(payload) => Ending::Panicked(message(&*payload)),
        };
        result.settle(ending);
    }
}

impl StopSignal for Orders {
    fn stopping(&self) -> bool {
        self.stop_running.load(SeqCst)
    }
}

fn refuse(reason: Reason, work: Work) -> Refusal {
    Refusal { reason, work: Some(work) }
}

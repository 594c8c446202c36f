//! A pool as one writes it by hand: a queue, its lock, some threads. It shows
//! how a pool is plugged in that offers only part of the contract.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tidegate::Reason;

use crate::ctx::Wish;
use crate::port::{Ending, How, Kind, Need, Refusal, StopSignal, SuiteHandle, SuitePool, Work};

/// That pool with this many threads.
#[derive(Clone, Debug)]
pub struct HandMadeKind {
    name: &'static str,
    workers: usize,
}

impl HandMadeKind {
    /// A queue of 1,000 unless a test wishes another.
    pub fn new(name: &'static str, workers: usize) -> HandMadeKind {
        HandMadeKind { name, workers }
    }
}

impl Kind for HandMadeKind {
    fn name(&self) -> &str {
        self.name
    }

    fn workers(&self) -> usize {
        self.workers
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
        Ok(Arc::new(HandMadePool::open(wish)?))
    }
}

struct HandMadePool {
    queue: Arc<Queue>,
    orders: Arc<Orders>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

struct Queue {
    most: usize,
    jobs: Mutex<Jobs>,
    job_came: Condvar,
    room_came: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    closed: bool,
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

#[derive(Default)]
struct Slot {
    ending: Mutex<Option<Ending>>,
    settled: Condvar,
}

impl Queue {
    /// Waits for room if it may, and gives the job back with a reason if it can't take it.
    fn push(&self, job: Job, may_wait: bool) -> Result<(), Refusal> {
        let mut jobs = lock(&self.jobs);
        // What an idle thread is about to take needs no place.
        while !jobs.closed && jobs.waiting.len() >= self.most.max(jobs.idle) {
            if !may_wait {
                return Err(refuse(Reason::Full, job.work));
            }
            jobs = self.room_came.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        if jobs.closed {
            return Err(refuse(Reason::Closed, job.work));
        }
        jobs.waiting.push_back(job);
        self.job_came.notify_one();
        Ok(())
    }

    /// None once it is closed and empty.
    fn pop(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        jobs.idle += 1;
        self.room_came.notify_one(); // for a queue without places
        let nothing = |jobs: &mut Jobs| jobs.waiting.is_empty() && !jobs.closed;
        let mut jobs =
            self.job_came.wait_while(jobs, nothing).unwrap_or_else(PoisonError::into_inner);
        jobs.idle -= 1;
        let job = jobs.waiting.pop_front();
        self.room_came.notify_one();
        job
    }

    fn close(&self) {
        lock(&self.jobs).closed = true;
        self.job_came.notify_all();
        self.room_came.notify_all();
    }
}

impl HandMadePool {
    fn open(wish: &Wish) -> Result<HandMadePool, String> {
        let queue = Arc::new(Queue {
            most: wish.queue.unwrap_or(1_000),
            jobs: Mutex::default(),
            job_came: Condvar::new(),
            room_came: Condvar::new(),
        });
        let orders = Arc::<Orders>::default();
        let start = |n: usize| {
            let (queue, orders) = (Arc::clone(&queue), Arc::clone(&orders));
            let thread = thread::Builder::new().name(format!("{}-{n}", wish.name));
            thread.spawn(move || {
                while let Some(job) = queue.pop() {
                    job.run(&orders);
                }
            })
        };
        let threads = (0..wish.workers).map(start).collect::<Result<Vec<_>, _>>();
        let threads = threads.map_err(|error| {
            queue.close();
            error.to_string()
        })?;
        Ok(HandMadePool { queue, orders, threads: Mutex::new(threads) })
    }

    fn offer(&self, work: Work, may_wait: bool) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let result = Arc::<Slot>::default();
        self.queue.push(Job { work, result: Arc::clone(&result) }, may_wait)?;
        Ok(Box::new(result))
    }
}

impl SuitePool for HandMadePool {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.offer(work, true)
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.offer(work, false)
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        let work: Work = Box::new(move |_| {
            work();
            Ok(0)
        });
        self.submit(work).map(drop).map_err(|refusal| refusal.reason)
    }

    fn close(&self) {
        self.queue.close();
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

impl Drop for HandMadePool {
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

impl Slot {
    fn settle(&self, ending: Ending) {
        *lock(&self.ending) = Some(ending);
        self.settled.notify_all();
    }
}

impl SuiteHandle for Arc<Slot> {
    fn wait(self: Box<Self>) -> Ending {
        let unsettled = |ending: &mut Option<Ending>| ending.is_none();
        let ending = self.settled.wait_while(lock(&self.ending), unsettled);
        ending.unwrap_or_else(PoisonError::into_inner).take().expect("waited until it is there")
    }

    fn is_settled(&self) -> bool {
        lock(&self.ending).is_some()
    }
}

fn refuse(reason: Reason, work: Work) -> Refusal {
    Refusal { reason, work: Some(work) }
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

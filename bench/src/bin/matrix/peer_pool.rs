//! What any pool that runs closures needs to be put to the suite: results by
//! handle, an end of accepting, and a wait for the end of all tasks. It is
//! what its user would write around it; everything else is the pool's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidegate::Reason;
use tidegate_conformance::{
    Ending, How, Kind, Need, Refusal, StopSignal, SuiteHandle, SuitePool, Wish, Work,
};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A pool that runs closures.
pub(crate) trait Peer: Send + Sync + Sized + 'static {
    const NAME: &'static str;
    const OFFERS: &'static [Need];

    fn open(name: &str, workers: usize) -> Self;
    fn execute(&self, job: Job);
    /// Ends the pool, whose tasks are done.
    fn end(self);
}

/// How the suite opens a [`Peer`].
pub(crate) struct PeerKind<P>(std::marker::PhantomData<fn() -> P>);

impl<P: Peer> PeerKind<P> {
    pub(crate) fn kind() -> Arc<dyn Kind> {
        Arc::new(PeerKind::<P>(std::marker::PhantomData))
    }
}

impl<P: Peer> Kind for PeerKind<P> {
    fn name(&self) -> &str {
        P::NAME
    }

    fn workers(&self) -> usize {
        2
    }

    fn offers(&self, need: Need) -> bool {
        P::OFFERS.contains(&need)
    }

    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        // Some of them panic, others would start a thread per core.
        if wish.workers == 0 {
            return Err("a pool needs at least one worker".to_owned());
        }
        let pool = P::open(&wish.name, wish.workers);
        Ok(Arc::new(PeerPool { pool: Mutex::new(Some(pool)), unfinished: Arc::default() }))
    }
}

struct PeerPool<P: Peer> {
    /// None once closed and ended.
    pool: Mutex<Option<P>>,
    unfinished: Arc<Unfinished>,
}

impl<P: Peer> PeerPool<P> {
    fn offer(&self, work: Work) -> Result<Arc<Slot>, Refusal> {
        // None of these pools makes a submitter wait, so a lock is no bar.
        let pool = lock(&self.pool);
        let Some(pool) = pool.as_ref().filter(|_| self.unfinished.enter()) else {
            return Err(Refusal { reason: Reason::Closed, work: Some(work) });
        };
        let slot = Arc::<Slot>::default();
        let (result, unfinished) = (Arc::clone(&slot), Arc::clone(&self.unfinished));
        pool.execute(Box::new(move || {
            let _leave = Leave(unfinished);
            run_into(&result, work, &NeverStops);
        }));
        Ok(slot)
    }
}

impl<P: Peer> SuitePool for PeerPool<P> {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.offer(work).map(|slot| Box::new(SlotHandle(slot)) as Box<dyn SuiteHandle>)
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        self.submit(work)
    }

    fn spawn(&self, work: Job) -> Result<(), Reason> {
        let work: Work = Box::new(move |_| {
            work();
            Ok(0)
        });
        self.offer(work).map(drop).map_err(|refusal| refusal.reason)
    }

    fn close(&self) {
        self.unfinished.close();
    }

    fn shutdown(&self, _how: How) {
        self.close();
        self.unfinished.wait();
        let pool = lock(&self.pool).take();
        if let Some(pool) = pool {
            pool.end();
        }
    }
}

/// Runs the work and tells its handle how it ended. A panic goes on into the
/// pool afterwards: to live with it is the pool's part.
pub(crate) fn run_into(slot: &Slot, work: Work, stop: &dyn StopSignal) {
    match catch_unwind(AssertUnwindSafe(|| work(stop))) {
        Ok(Ok(value)) => slot.settle(Ending::Value(value)),
        Ok(Err(error)) => slot.settle(Ending::Failed(error)),
        Err(payload) => {
            slot.settle(Ending::Panicked(message(&*payload)));
            resume_unwind(payload);
        }
    }
}

/// Tasks that were accepted and have not ended, and whether more may come.
#[derive(Default)]
pub(crate) struct Unfinished {
    state: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Unfinished {
    /// False once closed.
    pub(crate) fn enter(&self) -> bool {
        let mut state = lock(&self.state);
        if !state.1 {
            state.0 += 1;
        }
        !state.1
    }

    pub(crate) fn close(&self) {
        lock(&self.state).1 = true;
    }

    pub(crate) fn wait(&self) {
        let some = |state: &mut (u64, bool)| state.0 > 0;
        drop(self.changed.wait_while(lock(&self.state), some));
    }
}

/// Counts a task as ended when it is dropped, also by a panic.
pub(crate) struct Leave(pub(crate) Arc<Unfinished>);

impl Drop for Leave {
    fn drop(&mut self) {
        lock(&self.0.state).0 -= 1;
        self.0.changed.notify_all();
    }
}

/// Where a task leaves how it ended.
#[derive(Default)]
pub(crate) struct Slot {
    ending: Mutex<Option<Ending>>,
    settled: Condvar,
}

impl Slot {
    pub(crate) fn settle(&self, ending: Ending) {
        *lock(&self.ending) = Some(ending);
        self.settled.notify_all();
    }
}

/// The handle: the place itself, shared with the task.
pub(crate) struct SlotHandle(pub(crate) Arc<Slot>);

impl SuiteHandle for SlotHandle {
    fn wait(self: Box<Self>) -> Ending {
        let unsettled = |ending: &mut Option<Ending>| ending.is_none();
        let ending = self.0.settled.wait_while(lock(&self.0.ending), unsettled);
        ending.unwrap_or_else(PoisonError::into_inner).take().expect("waited until it was there")
    }

    fn is_settled(&self) -> bool {
        lock(&self.0.ending).is_some()
    }
}

/// These pools can't tell a running task anything.
pub(crate) struct NeverStops;

impl StopSignal for NeverStops {
    fn stopping(&self) -> bool {
        false
    }
}

pub(crate) fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! tokio's `spawn` behind a semaphore, as many permits as there are workers
//! and places in the queue.

use std::sync::{Arc, Mutex};

use tidegate::Reason;
use tidegate_conformance::{How, Kind, Need, Refusal, SuiteHandle, SuitePool, Wish, Work};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::peer_pool::{Leave, NeverStops, Slot, SlotHandle, Unfinished, lock, run_into};

pub(crate) struct SemaphoreKind;

impl Kind for SemaphoreKind {
    fn name(&self) -> &str {
        "tokio_sem-2w"
    }

    fn workers(&self) -> usize {
        2
    }

    fn offers(&self, need: Need) -> bool {
        matches!(need, Need::BoundedQueue | Need::HandsBack | Need::ReleasesBlocked)
    }

    fn open(&self, wish: &Wish) -> Result<Arc<dyn SuitePool>, String> {
        if wish.workers == 0 {
            return Err("a pool needs at least one worker".to_owned());
        }
        let runtime = Builder::new_multi_thread().worker_threads(wish.workers).build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Arc::new(SemaphorePool {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            room: Arc::new(Semaphore::new(wish.workers + wish.queue.unwrap_or(1_000))),
            unfinished: Arc::default(),
        }))
    }
}

struct SemaphorePool {
    handle: tokio::runtime::Handle,
    /// None once shut down.
    runtime: Mutex<Option<Runtime>>,
    room: Arc<Semaphore>,
    unfinished: Arc<Unfinished>,
}

impl SemaphorePool {
    fn start(&self, permit: OwnedSemaphorePermit, work: Work) -> Result<Arc<Slot>, Refusal> {
        if !self.unfinished.enter() {
            return Err(Refusal { reason: Reason::Closed, work: Some(work) });
        }
        let slot = Arc::<Slot>::default();
        let (result, leave) = (Arc::clone(&slot), Leave(Arc::clone(&self.unfinished)));
        self.handle.spawn(async move {
            let _held = (leave, permit);
            run_into(&result, work, &NeverStops);
        });
        Ok(slot)
    }
}

impl SuitePool for SemaphorePool {
    fn submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let room = Arc::clone(&self.room);
        // A task that submits to its own pool may not block its thread so:
        // as with tokio itself, it can only try.
        if tokio::runtime::Handle::try_current().is_ok() {
            return self.try_submit(work);
        }
        match self.handle.block_on(room.acquire_owned()) {
            Ok(permit) => self.start(permit, work).map(|slot| Box::new(SlotHandle(slot)) as _),
            Err(_closed) => Err(Refusal { reason: Reason::Closed, work: Some(work) }),
        }
    }

    fn try_submit(&self, work: Work) -> Result<Box<dyn SuiteHandle>, Refusal> {
        let reason = match Arc::clone(&self.room).try_acquire_owned() {
            Ok(permit) => {
                return self.start(permit, work).map(|slot| Box::new(SlotHandle(slot)) as _);
            }
            Err(TryAcquireError::Closed) => Reason::Closed,
            Err(TryAcquireError::NoPermits) => Reason::Full,
        };
        Err(Refusal { reason, work: Some(work) })
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> Result<(), Reason> {
        let work: Work = Box::new(move |_| {
            work();
            Ok(0)
        });
        self.submit(work).map(drop).map_err(|refusal| refusal.reason)
    }

    fn close(&self) {
        self.unfinished.close();
        self.room.close();
    }

    fn shutdown(&self, _how: How) {
        self.close();
        self.unfinished.wait();
        let runtime = lock(&self.runtime).take();
        drop(runtime);
    }
}

impl Drop for SemaphorePool {
    fn drop(&mut self) {
        // A runtime may not be dropped, and wait, in one of its own tasks.
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }
}

//! Threads, or a tokio runtime.

use std::io;
use std::sync::Arc;

use crate::core::Core;
use crate::life::CellRef;
use crate::line::WorkerLine;
use crate::lot::Lot;
use crate::on_tokio::Runtime;
use crate::spawn::Joiner;

#[derive(Clone, Debug, Default)]
pub(crate) struct Driver(Option<Arc<Runtime>>);

impl Driver {
    pub(crate) fn tokio(runtime: Runtime) -> Driver {
        Driver(Some(Arc::new(runtime)))
    }

    #[inline(always)]
    pub(crate) fn is_async(&self) -> bool {
        self.0.is_some()
    }

    /// Where its workers sleep.
    pub(crate) fn lot(&self) -> Lot {
        if self.is_async() { Lot::of_futures() } else { Lot::new() }
    }

    /// None: it takes a thread.
    pub(crate) fn start_first(
        &self,
        core: &Arc<Core>,
        line: &Arc<WorkerLine>,
    ) -> Option<Result<(), String>> {
        self.0.as_ref().map(|runtime| runtime.start_first(core, line))
    }

    /// None: it takes a thread.
    pub(crate) fn start_worker(
        &self,
        core: &Arc<Core>,
        line: &Arc<WorkerLine>,
    ) -> Option<io::Result<()>> {
        self.0.as_ref().map(|runtime| runtime.start_worker(core, line))
    }

    /// None: it takes a thread.
    pub(crate) fn start_supervisor(&self, core: &Arc<Core>) -> Option<io::Result<Joiner>> {
        self.0.as_ref().map(|runtime| runtime.start_supervisor(core))
    }

    /// False: it takes a thread.
    pub(crate) fn start_reaper(&self, core: &Arc<Core>) -> bool {
        self.0.as_ref().is_some_and(|runtime| runtime.start_reaper(core))
    }

    /// Wakes the supervisor, if it is a future.
    pub(crate) fn ring(&self) {
        if let Some(runtime) = &self.0 {
            runtime.ring();
        }
    }

    /// Of a pool of futures.
    pub(crate) fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("a pool of futures")
    }

    /// Futures of the pool that the runtime has not dropped yet.
    pub(crate) fn present(&self) -> usize {
        self.0.as_ref().map_or(0, |runtime| runtime.present())
    }

    /// A task was told to stop: if it is a future, its worker drops it.
    #[inline(always)]
    pub(crate) fn wake_runner(&self, core: &Core, cell: CellRef) {
        if self.is_async() {
            crate::on_tokio::wake_runner(core, cell);
        }
    }

    /// A worker was woken, perhaps by another one.
    pub(crate) fn spread(&self, core: &Core) {
        if let Some(runtime) = &self.0 {
            runtime.spread(core);
        }
    }

    /// A submit counts on somebody who searches.
    #[inline(always)]
    pub(crate) fn mind_search(&self, core: &Core) {
        if let Some(runtime) = &self.0 {
            runtime.mind_search(core);
        }
    }

    /// For code that is not on the runtime.
    pub(crate) fn enter(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.0.as_ref().map(|runtime| runtime.enter())
    }
}

//! Threads, and nothing else.

use std::io;
use std::sync::Arc;

use crate::core::Core;
use crate::life::CellRef;
use crate::line::WorkerLine;
use crate::lot::Lot;
use crate::spawn::Joiner;

#[derive(Clone, Debug, Default)]
pub(crate) struct Driver {}

impl Driver {
    #[inline(always)]
    pub(crate) fn is_async(&self) -> bool {
        false
    }
    pub(crate) fn lot(&self) -> Lot {
        Lot::new()
    }
    pub(crate) fn start_first(
        &self,
        _: &Arc<Core>,
        _: &Arc<WorkerLine>,
    ) -> Option<Result<(), String>> {
        None
    }
    pub(crate) fn start_worker(
        &self,
        _: &Arc<Core>,
        _: &Arc<WorkerLine>,
    ) -> Option<io::Result<()>> {
        None
    }
    pub(crate) fn start_supervisor(&self, _: &Arc<Core>) -> Option<io::Result<Joiner>> {
        None
    }
    pub(crate) fn start_reaper(&self, _: &Arc<Core>) -> bool {
        false
    }
    pub(crate) fn ring(&self) {}
    #[inline(always)]
    pub(crate) fn mind_search(&self, _: &Core) {}
    pub(crate) fn spread(&self, _: &Core) {}
    pub(crate) fn present(&self) -> usize {
        0
    }
    #[inline(always)]
    pub(crate) fn wake_runner(&self, _: &Core, _: CellRef) {}
}

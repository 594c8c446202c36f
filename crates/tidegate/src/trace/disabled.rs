//! Without the feature: nothing.

use super::News;
use crate::core::Core;
use crate::ids::{TaskId, WorkerId};
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::refused::Reason;
use crate::task::Offer;
use crate::unobserved::Unobserved;

#[derive(Debug, Default)]
pub(crate) struct Said {}

impl Said {
    #[inline(always)]
    pub(crate) fn refused(&self, _: &Core, _: &'static str, _: Reason) {}
    #[inline(always)]
    pub(crate) fn unobserved(&self, _: &Core, _: &Unobserved) -> bool {
        false
    }
}

#[derive(Debug, Default)]
pub(crate) struct TaskSpan;

impl TaskSpan {
    #[inline(always)]
    pub(crate) fn new(_: &Core, _: &Offer<'_>, _: TaskId) -> TaskSpan {
        TaskSpan
    }
    #[inline(always)]
    pub(crate) fn of(_: CellRef, _: &str) -> TaskSpan {
        TaskSpan
    }
    #[inline(always)]
    pub(crate) fn is_some(&self) -> bool {
        false
    }
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    pub(crate) fn twin(&self) -> TaskSpan {
        TaskSpan
    }
    #[inline(always)]
    pub(crate) fn around<R>(self, _: &Core, f: impl FnOnce() -> R) -> R {
        f()
    }
    #[cfg_attr(not(feature = "tokio"), allow(dead_code))]
    #[inline(always)]
    pub(crate) fn close(self, _: &Core) {}
    #[inline(always)]
    pub(crate) fn end(self, _: &Core, _: impl std::fmt::Debug) {}
}

#[inline(always)]
pub(crate) fn listens() -> bool {
    false
}
#[inline(always)]
pub(crate) fn listens_to(_: &News) -> bool {
    false
}
pub(crate) fn worker_failed(_: &Core, _: WorkerId, _: &str) -> bool {
    false
}
pub(crate) fn abandoned(_: &Core, _: &'static str, _: TaskId, _: Option<Cause>) {}
pub(crate) fn returned_late(_: &Core, _: &'static str, _: TaskId) {}
pub(crate) fn tell(_: &Core, _: News) {}
pub(crate) fn silently<R>(f: impl FnOnce() -> R) -> R {
    f()
}

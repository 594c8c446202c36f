//! Where there is no `membarrier`.

#[cfg(not(tidegate_loom))]
use std::sync::Arc;

#[cfg(not(tidegate_loom))]
use crate::spawn::Spawner;

#[cfg(not(tidegate_loom))]
pub(super) fn register_if_alone() {}

#[cfg(not(tidegate_loom))]
pub(super) fn is_registered(_: Option<&Arc<Spawner>>) -> bool {
    false
}

pub(super) fn everywhere() -> bool {
    false
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
pub(super) fn is_to_come() -> bool {
    false
}

//! Where the workers, the supervisor and the reaper of a pool run: on threads of their own, or
//! on a tokio runtime (`on_tokio/`). Without the feature there are only threads.

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
mod either;
#[cfg(not(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle)))))]
mod threads;

#[cfg(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) use either::Driver;
#[cfg(not(all(feature = "tokio", not(any(tidegate_loom, tidegate_shuttle)))))]
pub(crate) use threads::Driver;

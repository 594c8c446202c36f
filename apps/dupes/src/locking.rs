//! Locks, of which a panic elsewhere takes nothing: whatever they guard is whole between two lines.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for it, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Locking without poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that is consistent between any two statements, so that a panic of a thread that held
/// the lock does no harm.
pub(super) fn lock<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}

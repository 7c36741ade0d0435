//! Host callbacks: functions of the program that a stream calls, from which the driver must not be called.
//!
//! What is dropped in a callback and would call the driver is kept until a thread that may call it does so.

use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::lock;
use crate::thread_state::THREAD;

/// Whether this thread is in a host callback.
#[inline]
pub(crate) fn in_host_callback() -> bool {
    THREAD.with(|thread| thread.in_host_callback.get())
}

/// Runs `function` as a host callback.
pub(crate) fn run_as_host_callback<R>(function: impl FnOnce() -> R) -> R {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            THREAD.with(|thread| thread.in_host_callback.set(self.0));
        }
    }
    let _leave = Leave(THREAD.with(|thread| thread.in_host_callback.replace(true)));
    function()
}

static DEFERRED: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
static ANY_DEFERRED: AtomicBool = AtomicBool::new(false);

/// Drops `value` at the next driver call of any thread that may call the driver.
pub(crate) fn defer_drop(value: Box<dyn Any + Send>) {
    lock(&DEFERRED).push(value);
    ANY_DEFERRED.store(true, Ordering::Release);
}

/// Drops the deferred values. Costs one load where there are none.
#[inline]
pub(crate) fn drop_deferred() {
    if ANY_DEFERRED.load(Ordering::Acquire) {
        drop_all_deferred();
    }
}

#[cold]
fn drop_all_deferred() {
    if ANY_DEFERRED.swap(false, Ordering::AcqRel) {
        let deferred = std::mem::take(&mut *lock(&DEFERRED));
        // Dropping them may call the driver, and so this function again: the lock is released before.
        drop(deferred);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_until_the_function_ends_whatever_its_end() {
        assert!(
            !in_host_callback() && run_as_host_callback(in_host_callback) && !in_host_callback()
        );
        assert!(run_as_host_callback(|| {
            run_as_host_callback(|| ());
            in_host_callback()
        }));
        assert!(
            std::panic::catch_unwind(|| run_as_host_callback(|| panic!("on purpose"))).is_err()
        );
        assert!(!in_host_callback());
    }
}

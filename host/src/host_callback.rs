//! Host callbacks: functions of the program that a stream calls, from which the driver must not be called.
//!
//! What is dropped in a callback and would call the driver is kept until a thread that may call it does so.

use std::any::Any;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::lock;
use crate::thread_state::{THREAD, ThreadState};

/// Whether this thread is in a host callback.
#[inline]
pub(crate) fn in_host_callback() -> bool {
    THREAD.with(|thread| thread.in_host_callback.get())
}

/// Runs `function` as a host callback.
pub(crate) fn run_as_host_callback<R>(function: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.in_host_callback, function)
}

/// Whether this thread's driver calls leave what is deferred.
pub(crate) fn keeps_deferred() -> bool {
    THREAD.with(|thread| thread.keeps_deferred.get())
}

/// Runs `work`, whose driver calls leave what is deferred: this thread holds a lock that a drop may take.
pub(crate) fn keeping_deferred<R>(work: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.keeps_deferred, work)
}

type Flag = fn(&ThreadState) -> &Cell<bool>;

/// Runs `work` with a flag of this thread set.
fn with_flag<R>(flag: Flag, work: impl FnOnce() -> R) -> R {
    struct Restore(Flag, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREAD.with(|thread| self.0(thread).set(self.1));
        }
    }
    let _restore = Restore(flag, THREAD.with(|thread| flag(thread).replace(true)));
    work()
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
    if !keeps_deferred() && ANY_DEFERRED.swap(false, Ordering::AcqRel) {
        let deferred = std::mem::take(&mut *lock(&DEFERRED));
        // Dropping them may call the driver, and defer more: the lock is released before.
        keeping_deferred(|| drop(deferred));
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

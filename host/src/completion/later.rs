//! What must not end in a host function of a stream, where the driver must not be called.

use std::any::Any;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::signal::lock;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a function that a stream calls, from which the driver must not be called.
pub(crate) fn in_host_func() -> bool {
    INSIDE.get()
}

/// Runs `function` as such a function.
pub(super) fn inside<R>(function: impl FnOnce() -> R) -> R {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _leave = Leave(INSIDE.replace(true));
    function()
}

static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
static ANY_KEPT: AtomicBool = AtomicBool::new(false);

/// Lets `value` live until the next driver call of any thread that may call the driver.
pub(crate) fn keep(value: Box<dyn Any + Send>) {
    lock(&KEPT).push(value);
    ANY_KEPT.store(true, Ordering::Release);
}

/// Ends what was kept. Costs one load where there is nothing.
pub(crate) fn sweep() {
    if ANY_KEPT.load(Ordering::Acquire) && ANY_KEPT.swap(false, Ordering::AcqRel) {
        let kept = std::mem::take(&mut *lock(&KEPT));
        // Their ends may call the driver, and so come here again.
        drop(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_until_the_function_ends_whatever_its_end() {
        assert!(!in_host_func() && inside(in_host_func) && !in_host_func());
        assert!(inside(|| {
            inside(|| ());
            in_host_func()
        }));
        assert!(std::panic::catch_unwind(|| inside(|| panic!("on purpose"))).is_err());
        assert!(!in_host_func());
    }
}

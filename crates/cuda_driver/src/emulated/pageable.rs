//! Warns of asynchronous copies of pageable memory, which are staged or wait for the stream, and so
//! are not asynchronous.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::happens_before;

static SEEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MEANT: Cell<bool> = const { Cell::new(false) };
}

/// Calls `copy`, which may start asynchronous copies of pageable memory on purpose, for instance
/// because it waits for the stream right afterwards. The emulator neither counts them nor warns of
/// them.
pub fn pageable_on_purpose<T>(copy: impl FnOnce() -> T) -> T {
    let before = MEANT.replace(true);
    let done = copy();
    MEANT.set(before);
    done
}

/// Counts a copy, and warns of the first one, if races are checked.
pub(super) fn warn(name: impl FnOnce() -> String) {
    if !happens_before::is_tracked() || MEANT.get() || SEEN.fetch_add(1, Ordering::Relaxed) > 0 {
        return;
    }
    eprintln!(
        "ferrowarp: warning: asynchronous {}: the host memory is pageable, so the call may wait \
         for the stream, and overlaps with nothing. Pinned memory (cuMemHostAlloc, cuMemHostRegister) is \
         copied asynchronously. This warning is printed once; FERROWARP_CHECK without `race` turns it off.",
        name()
    );
}

/// The number of asynchronous copies of this process whose host memory was pageable.
///
/// Only the emulator counts them, and only if races are checked; otherwise this is 0. The first
/// such copy causes a warning on standard error.
pub fn pageable_async_copies() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

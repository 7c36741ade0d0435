//! Asynchronous copies of pageable memory: they wait, or are staged, and so are not what they seem.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::order;

static SEEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MEANT: Cell<bool> = const { Cell::new(false) };
}

/// Hands in asynchronous copies that may well be of pageable memory, for instance since the stream is
/// waited for right afterwards: the emulator does not warn of them.
pub fn pageable_on_purpose<T>(copy: impl FnOnce() -> T) -> T {
    let before = MEANT.replace(true);
    let done = copy();
    MEANT.set(before);
    done
}

/// Counts a copy, and warns of the first one, where races are checked.
pub(super) fn warn(name: impl FnOnce() -> String) {
    if !order::is_kept() || MEANT.get() || SEEN.fetch_add(1, Ordering::Relaxed) > 0 {
        return;
    }
    eprintln!(
        "ferrowarp: warning: asynchronous {}: the host's side is pageable memory, so the call may wait \
         for the stream, and overlaps with nothing. Pinned memory (cuMemHostAlloc, cuMemHostRegister) is \
         copied asynchronously. This is said once; FERROWARP_CHECK without `race` turns it off.",
        name()
    );
}

/// How many asynchronous copies of this process had pageable memory on the host's side.
///
/// Counted by the emulator where races are checked; 0 elsewhere. The first of them is a warning on
/// standard error.
pub fn pageable_async_copies() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

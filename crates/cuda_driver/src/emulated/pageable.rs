//! Asynchronous copies of pageable memory: they wait, or are staged, and so are not what they seem.

use std::sync::atomic::{AtomicU64, Ordering};

use super::order;
use super::transfer::Copy;

static SEEN: AtomicU64 = AtomicU64::new(0);

/// Counts the copy, and says so once, where races are checked.
pub(super) fn warn(copy: &Copy) {
    if !order::is_kept() || SEEN.fetch_add(1, Ordering::Relaxed) > 0 {
        return;
    }
    eprintln!(
        "ferrowarp: warning: asynchronous {}: the host's side is pageable memory, so the call may wait \
         for the stream, and overlaps with nothing. Pinned memory (cuMemHostAlloc, cuMemHostRegister) is \
         copied asynchronously. This is said once; FERROWARP_CHECK without `race` turns it off.",
        copy.name()
    );
}

/// How many asynchronous copies of this process had pageable memory on the host's side.
///
/// Counted by the emulator where races are checked; 0 elsewhere. The first of them is a warning on
/// standard error.
pub fn pageable_async_copies() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

//! The read-modify-writes of `core::sync::atomic`, whose order the builder gives back to the instruction.

#![allow(missing_docs)]

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use cuda_std::prelude::*;

extern crate alloc;
use alloc::sync::Arc;

/// Each order once.
///
/// # Safety
/// `x` points to a number.
#[kernel]
pub unsafe fn each_order(x: *mut u32) {
    // SAFETY: the caller promises it.
    let x = unsafe { AtomicU32::from_ptr(x) };
    x.fetch_add(1, Relaxed);
    x.fetch_or(1, Acquire);
    x.swap(1, Release);
    x.fetch_max(1, AcqRel);
    x.fetch_xor(1, SeqCst);
}

/// What the last owner does to the word.
pub const ENDED: u32 = 0xE4DED;

/// A word that all owners read, and the last one ends.
pub struct Lent {
    word: *mut u32,
}

// SAFETY: all owners only read the word, and the last one writes it when no other is left.
unsafe impl Send for Lent {}
// SAFETY: likewise.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the last owner is alone.
        unsafe { self.word.write(ENDED) };
    }
}

/// Writes as many owners of one [`Lent`] as the last argument says.
///
/// # Safety
/// One thread; `word` points to a number that outlives the owners.
#[kernel]
pub unsafe fn lend(word: *mut u32, owners: *mut u64, count: usize) {
    let lent = Arc::new(Lent { word });
    for i in 0..count {
        // SAFETY: the caller promises room.
        unsafe { owners.add(i).write(Arc::into_raw(lent.clone()).expose_provenance() as u64) };
    }
}

/// Each thread clones an owner, reads the word, and drops both.
///
/// # Safety
/// `owners` are those of [`lend`], one for each thread, and none is used again.
#[kernel]
pub unsafe fn give_back(index: ThreadIndex, owners: &[u64], mut out: DisjointSlice<u32>) {
    if let Some(out) = out.get_mut(index) {
        let raw = core::ptr::with_exposed_provenance::<Lent>(owners[index.get()] as usize);
        // SAFETY: the caller's promise.
        let lent = unsafe { Arc::from_raw(raw) };
        let other = Arc::clone(&lent);
        drop(lent);
        // SAFETY: an owner keeps it.
        *out = unsafe { *other.word };
    }
}

/// How many results [`own_variable`] has for each thread.
pub const STEPS: usize = 9;

/// Atomic operations on a thread's own variable, which begins as `x[i]`: what each found.
#[kernel]
pub fn own_variable(index: ThreadIndex, x: &[u32], mut out: DisjointSlice<[u32; STEPS]>) {
    if let Some(out) = out.get_mut(index) {
        let own = AtomicU32::new(x[index.get()]);
        *out = [
            own.fetch_add(5, AcqRel),
            own.fetch_min(1000, SeqCst),
            own.fetch_max(7, Relaxed),
            own.fetch_and(0xFFFF_FFFE, Acquire),
            own.fetch_or(64, Release),
            own.fetch_xor(3, Relaxed),
            own.compare_exchange(71, 90, SeqCst, Relaxed).unwrap_or_else(|found| found),
            own.swap(1, AcqRel),
            own.load(Acquire),
        ];
    }
}

//! Atomic operations with orders and scopes.

use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::prelude::*;

/// # Safety
/// Both are valid.
#[kernel]
pub unsafe fn scoped(words: *mut u32, wide: *mut f64) {
    // SAFETY: the caller's promise.
    unsafe {
        atomic::fetch_add(words, 1, Ordering::AcqRel, Scope::Device);
        atomic::fetch_sub(wide, 1.0, Ordering::Relaxed, Scope::Block);
        atomic::exchange(wide.add(1), 1.0, Ordering::SeqCst, Scope::System);
        atomic::fetch_max(words.add(2).cast::<i32>(), -1, Ordering::Acquire, Scope::System);
        atomic::fetch_xor(words.add(3), 1, Ordering::Release, Scope::Block);
    }
    atomic::fence(Ordering::Release, Scope::Device);
    atomic::fence(Ordering::SeqCst, Scope::System);
}

#[kernel]
pub fn slices(floats: AtomicSlice<f32>, ints: AtomicSlice<i32>, wide: AtomicSlice<u64>) {
    floats.fetch_add(0, 1.5, Relaxed);
    ints.fetch_add(0, 1, Relaxed);
    ints.fetch_min(1, -7, Release);
    ints.fetch_sub(2, 1, AcqRel);
    wide.fetch_or(0, 6, SeqCst);
    let _ = wide.compare_exchange(1, 0, 9, AcqRel);
    floats.store(1, floats.load(0, Acquire), Release);
}

/// Each thread counts itself in word 0 of all, and leaves its number in word 1: the greatest, the least with its
/// sign turned, a bit of 64, and the sum, found by comparing.
#[kernel]
pub fn system_words(
    index: ThreadIndex,
    greatest: SystemAtomics<u32>,
    least: SystemAtomics<i32>,
    bits: SystemAtomics<u64>,
    sum: SystemAtomics<i64>,
) {
    let i = index.get();
    greatest.get(1).fetch_max(i as u32, Relaxed);
    least.get(1).fetch_min(-(i as i32), Relaxed);
    bits.get(1).fetch_or(1 << (i % 64), Relaxed);
    let total = sum.get(1);
    let mut known = total.load(Relaxed);
    while let Err(other) = total.compare_exchange(known, known + i as i64, Relaxed) {
        known = other;
    }
    greatest.get(0).fetch_add(1, AcqRel);
    least.get(0).fetch_sub(1, AcqRel);
    bits.get(0).fetch_add(1 << 40, AcqRel);
    sum.get(0).fetch_sub(1 << 40, AcqRel);
}

//! Typed atomics that many threads change.

use cuda_std::atomic::{
    self, Atomic, AtomicF32, AtomicF64, BlockAtomicF32, Scope, SystemAtomicF64, scope,
};
use cuda_std::prelude::*;
use cuda_std::{bf16, f16};

/// Sums in three scopes. As one writes it for rust-cuda.
///
/// # Safety
/// `device: [1]`, `system: [1]`, `blocks: [gridDim]`.
#[kernel]
pub unsafe fn float_sums(
    device: *mut AtomicF32,
    system: *mut SystemAtomicF64,
    blocks: *mut BlockAtomicF32,
) {
    let own = thread::index_1d();
    // SAFETY: the caller's promise; each block has a sum of its own.
    unsafe {
        (*device).fetch_add(own as f32, Relaxed);
        (*system).fetch_sub(f64::from(own) * 0.5, AcqRel);
        (*blocks.add(thread::block_idx_x() as usize)).fetch_add(1.0, Relaxed);
    }
}

/// Through a safe parameter: `floats: [1]`, `ints: [5]`.
#[kernel]
pub fn safe_cells(floats: AtomicSlice<f64>, ints: AtomicSlice<i64>) {
    let own = i64::from(thread::index_1d());
    let sum: &AtomicF64 = floats.get(0);
    sum.fetch_add(own as f64, Relaxed);
    ints.get(0).fetch_max(own, Relaxed);
    ints.get(1).fetch_min(-own, AcqRel);
    ints.get(2).fetch_xor(1 << (own % 60), Relaxed);
    while ints.get(3).compare_exchange(own, own + 1, AcqRel).is_err() {}
    ints.fetch_add(4, 3, Relaxed);
}

/// Numbers in a ring: each ticket is below the bound.
#[kernel]
pub fn tickets(ring: AtomicSlice<u32>, counts: AtomicSlice<u32>, bound: u32) {
    let up = ring.get(0).fetch_inc(bound, Relaxed);
    counts.fetch_add(up as usize, 1, Relaxed);
    let down = ring.get(1).fetch_dec(bound, Relaxed);
    counts.fetch_add(down as usize, 1, Relaxed);
}

/// A static that all blocks share.
static COUNT: Atomic<u32, scope::Device> = Atomic::new(0);

/// The last block to arrive writes how many there were.
///
/// # Safety
/// `out: [1]`.
#[kernel]
pub unsafe fn last_block(out: *mut u32) {
    if thread::thread_idx_x() == 0 {
        let before = COUNT.fetch_inc(thread::grid_dim_x() - 1, AcqRel);
        if before + 1 == thread::grid_dim_x() {
            // SAFETY: one thread of the grid comes here.
            unsafe { out.write(before + 1) };
        }
    }
}

/// Adds one to every half, from every thread. `halves: [3]`, `brains: [3]`: one, and a pair.
///
/// # Safety
/// Both are that long, and the pairs are aligned to 4 bytes.
#[kernel]
pub unsafe fn half_sums(
    half: *mut f16,
    halves: *mut [f16; 2],
    brain: *mut bf16,
    brains: *mut [bf16; 2],
) {
    let (one, two) = (f16::from_f32_const(1.0), f16::from_f32_const(-2.0));
    let (b_one, b_two) = (bf16::from_f32_const(1.0), bf16::from_f32_const(-2.0));
    // SAFETY: the caller's promise.
    unsafe {
        atomic::fetch_add_half(half, one, Relaxed, Scope::Device);
        atomic::fetch_add_half_x2(halves, [one, two], Relaxed, Scope::Device);
        atomic::fetch_add_half(brain, b_one, Relaxed, Scope::System);
        atomic::fetch_add_half_x2(brains, [b_one, b_two], AcqRel, Scope::Device);
    }
}

/// Counts in 128 bits, whose halves always agree, and leaves the last thread's number.
///
/// # Safety
/// `counter: [1]`, `last: [1]`, zero at first.
#[kernel]
pub unsafe fn wide(counter: *mut u128, last: *mut u128, seen: AtomicSlice<u32>) {
    const STEP: u128 = 1 << 64 | 1;
    let own = u128::from(thread::index_1d());
    // SAFETY: the caller's promise.
    unsafe {
        let mut current = 0;
        loop {
            let found = atomic::compare_and_swap_128(
                counter,
                current,
                current + STEP,
                AcqRel,
                Scope::Device,
            );
            if found == current {
                break;
            }
            current = found;
        }
        let before = atomic::exchange_128(last, STEP * (own + 1), Relaxed, Scope::Device);
        assert!(before as u64 == (before >> 64) as u64);
        seen.fetch_add(before as usize, 1, Relaxed);
    }
}

/// Block 0 sends `data: [32]` to block 1, which writes `out: [32]`.
///
/// # Safety
/// Two blocks of 32 threads; `flag: [1]` is zero.
#[kernel]
pub unsafe fn message(data: *mut u32, flag: *mut u32, out: *mut u32) {
    let lane = thread::thread_idx_x() as usize;
    // SAFETY: the flag orders the accesses to `data`.
    unsafe {
        if thread::block_idx_x() == 0 {
            data.add(lane).write(100 + lane as u32);
            atomic::fetch_add(flag, 1, Release, Scope::Device);
        } else {
            while atomic::load(flag, Acquire, Scope::Device) < 32 {}
            out.add(lane).write(*data.add(31 - lane));
        }
    }
}

/// The threads of a cluster count. `out: [gridDim]`.
///
/// # Safety
/// Clusters of one block each; `counts: [gridDim]` are zero.
#[kernel]
pub unsafe fn cluster_counts(counts: *mut Atomic<u32, scope::Cluster>) {
    // SAFETY: each block has a number of its own, and is in one cluster.
    unsafe {
        let count = &*counts.add(thread::block_idx_x() as usize);
        count.fetch_add(2, AcqRel);
        count.fetch_sub(1, Relaxed);
        if count.load(Acquire) > 1 << 20 {
            count.store(0, Release);
        }
    }
}

/// Wrong: blocks share a word of block scope.
///
/// # Safety
/// One block alone.
#[kernel]
pub unsafe fn too_narrow(sum: *mut BlockAtomicF32) {
    // SAFETY: the caller's promise.
    unsafe { (*sum).fetch_add(1.0, Relaxed) };
}

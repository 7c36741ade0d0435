//! Reduction over a one-dimensional block: each warp by shuffles, then the warps' results by one warp.

use cuda_std::shared::SharedArray;
use cuda_std::thread;
use cuda_std::warp::WarpShuffleValue;

use crate::warp::reduce::{WARP, reduce as reduce_warp};

/// Combines one value of every thread; thread 0 holds the result, the others something partial.
///
/// * All threads of a block of `32 * WARPS` threads must call it together.
/// * `scratch` holds one value a warp; it may be used again after the next barrier.
/// * The order of combination is fixed: lanes within a warp, then warps.
#[inline(always)]
pub fn reduce<T: WarpShuffleValue, const WARPS: usize>(
    value: T,
    identity: T,
    op: impl Fn(T, T) -> T,
    scratch: SharedArray<T, WARPS>,
) -> T {
    let thread = thread::thread_idx_x();
    let (warp, lane) = ((thread / WARP) as usize, (thread % WARP) as usize);

    let of_warp = reduce_warp(value, &op);
    if lane == 0 {
        // SAFETY: one writer an element, and `warp < WARPS` by the contract.
        unsafe { *scratch.as_mut_ptr().add(warp) = of_warp };
    }
    // The first warp reads what every warp wrote.
    thread::sync_threads();

    if warp != 0 {
        return of_warp;
    }
    // SAFETY: `lane < WARPS`, and the barrier stands between the writes and this read.
    let of_lane = if lane < WARPS { unsafe { *scratch.as_mut_ptr().add(lane) } } else { identity };
    reduce_warp(of_lane, &op)
}

/// As [`reduce`], with the result in every thread. `scratch` may be used again after the next barrier.
#[inline(always)]
pub fn reduce_to_all<T: WarpShuffleValue, const WARPS: usize>(
    value: T,
    identity: T,
    op: impl Fn(T, T) -> T,
    scratch: SharedArray<T, WARPS>,
) -> T {
    let total = reduce(value, identity, op, scratch);
    // The first warp has read the warps' results before one of them is replaced.
    thread::sync_threads();
    if thread::thread_idx_x() == 0 {
        // SAFETY: one writer between two barriers.
        unsafe { *scratch.as_mut_ptr() = total };
    }
    // Every thread reads what the first one wrote.
    thread::sync_threads();
    // SAFETY: written before the barrier.
    unsafe { *scratch.as_mut_ptr() }
}

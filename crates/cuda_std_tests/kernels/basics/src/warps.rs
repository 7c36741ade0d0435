//! Warp operations and barriers.

use cuda_std::prelude::*;
use cuda_std::warp::*;

const ALL: u32 = !0;

/// `out: [32 * results]`: lane `l` writes `out[32 * r + l]` for result `r`.
///
/// # Safety
/// One warp, and `out` is that long.
#[kernel]
pub unsafe fn shuffles(out: *mut u64) {
    let lane = lane_id();
    let mut next = out.wrapping_add(lane as usize);
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    let mut put = |value: u64| unsafe {
        next.write(value);
        next = next.wrapping_add(32);
    };
    let joined = |(value, inside): (u32, bool)| u64::from(value) << 1 | u64::from(inside);
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    unsafe {
        put(joined(warp_shuffle_up(ALL, lane, 3, 16)));
        put(joined(warp_shuffle_down(ALL, lane, 5, 32)));
        put(joined(warp_shuffle_xor(ALL, lane, 8, 8)));
        put(joined(warp_shuffle_xor(ALL, lane, 1, 32)));
        put(joined(warp_shuffle_idx(ALL, lane, 19, 16)));
        put(warp_shuffle_idx(ALL, u128::from(lane) << 100, 7, 32).0.high());
        put(warp_shuffle_down(ALL, f64::from(lane), 1, 32).0 as u64);
        put(warp_shuffle_up(ALL, -(lane as i8), 1, 32).0 as i64 as u64);
    }
}

/// The upper half of 128 bits.
trait HighHalf {
    fn high(self) -> u64;
}

impl HighHalf for u128 {
    fn high(self) -> u64 {
        (self >> 64) as u64
    }
}

/// `out: [32 * results]`, as in [`shuffles`](fn@shuffles).
///
/// # Safety
/// One warp, and `out` is that long.
#[kernel]
pub unsafe fn votes(out: *mut u64) {
    let lane = lane_id();
    let mut next = out.wrapping_add(lane as usize);
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    let mut put = |value: u64| unsafe {
        next.write(value);
        next = next.wrapping_add(32);
    };
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    unsafe {
        put(u64::from(warp_vote_all(ALL, lane < 32)));
        put(u64::from(warp_vote_all(ALL, lane < 31)));
        put(u64::from(warp_vote_any(ALL, lane == 31)));
        put(u64::from(warp_vote_ballot(ALL, lane.is_multiple_of(3))));
        put(u64::from(warp_match_any(ALL, lane / 4)));
        put(u64::from(warp_match_any(ALL, f64::from(lane / 8) + 0.25)));
        put(u64::from(warp_match_all(ALL, 7i64).unwrap_or(0)));
        put(u64::from(warp_match_all(ALL, lane / 31).unwrap_or(0)));
        put(u64::from(activemask()));
        sync_warp(ALL);
    }
}

/// `out: [32 * results]`, as in [`shuffles`](fn@shuffles).
///
/// # Safety
/// One warp, and `out` is that long.
#[kernel]
pub unsafe fn reductions(out: *mut u64) {
    let lane = lane_id();
    let mut next = out.wrapping_add(lane as usize);
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    let mut put = |value: i64| unsafe {
        next.write(value as u64);
        next = next.wrapping_add(32);
    };
    let signed = lane as i32 - 16;
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    unsafe {
        put(i64::from(warp_reduce(ALL, lane, WarpReductionOp::Add)));
        put(i64::from(warp_reduce(ALL, signed, WarpReductionOp::Add)));
        put(i64::from(warp_reduce(ALL, signed, WarpReductionOp::Min)));
        put(i64::from(warp_reduce(ALL, signed, WarpReductionOp::Max)));
        put(i64::from(warp_reduce(ALL, signed as u32, WarpReductionOp::Min)));
        put(i64::from(warp_reduce(ALL, signed as u32, WarpReductionOp::Max)));
        put(i64::from(warp_reduce(ALL, lane | 64, WarpReductionOp::And)));
        put(i64::from(warp_reduce(ALL, lane, WarpReductionOp::Or)));
        put(i64::from(warp_reduce(ALL, 1u32 << lane, WarpReductionOp::Xor)));
    }
}

/// `out: [7]` for each thread of the grid.
#[kernel]
pub fn barriers(out: AtomicSlice<u32>) {
    let own = thread::index() as usize;
    let odd = own as u32 & 1;
    let results = [
        thread::sync_threads_count(odd),
        thread::sync_threads_and(odd),
        thread::sync_threads_or(odd),
        thread::index_in_block(),
        thread::threads_in_block(),
        u32::from(thread::first()),
        thread::warp_size(),
    ];
    thread::grid_fence();
    thread::device_fence();
    thread::system_fence();
    thread::nanosleep(100);
    for (k, result) in results.into_iter().enumerate() {
        out.store(7 * own + k, result, Relaxed);
    }
}

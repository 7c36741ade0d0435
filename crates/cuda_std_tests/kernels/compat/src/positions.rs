//! Positions as `glam` vectors, and shuffles of half-precision numbers.

use cuda_std::prelude::*;
use cuda_std::{bf16, f16, warp};

/// `out: [18]` for each thread of a grid of any shape.
///
/// # Safety
/// `out` is that long.
#[kernel]
pub unsafe fn positions(out: *mut u32) {
    let vectors = [
        thread::thread_idx(),
        thread::block_idx(),
        thread::block_dim(),
        thread::grid_dim(),
        thread::index_3d(),
    ];
    let flat = thread::index_2d();
    // SAFETY: the caller's promise; every thread has rows of its own.
    unsafe {
        let mut next = out.add(18 * thread::index() as usize);
        for component in vectors.iter().flat_map(|v| [v.x, v.y, v.z]).chain([flat.x, flat.y]) {
            next.write(component);
            next = next.add(1);
        }
        next.write(thread::index());
    }
}

/// Each lane's left neighbour's value, as bits: `out: [64]`, `f16` first.
///
/// # Safety
/// One warp, and `out` is that long.
#[kernel]
pub unsafe fn half_shuffles(out: *mut u16) {
    let lane = warp::lane_id();
    let (half, brain) = (f16::from_bits(lane as u16 * 7), bf16::from_bits(lane as u16 | 0x8000));
    // SAFETY: one warp, all of whose lanes take part, and room for the results.
    unsafe {
        let (half, _) = warp::warp_shuffle_up(!0, half, 1, 32);
        let (brain, _) = warp::warp_shuffle_xor(!0, brain, 3, 32);
        out.add(lane as usize).write(half.to_bits());
        out.add(32 + lane as usize).write(brain.to_bits());
    }
}

//! Reduction over a warp by shuffles: no memory, no barrier.

use cuda_std::warp::{WarpShuffleValue, warp_shuffle_down};

/// Threads in a warp.
pub const WARP: u32 = 32;

const ALL_LANES: u32 = u32::MAX;

/// Combines the values of the 32 lanes; lane 0 holds the result, the others something partial.
///
/// The tree is fixed (distances 16, 8, 4, 2, 1), so a rounding `op` gives the same bits every time.
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub fn reduce<T: WarpShuffleValue>(mut value: T, op: impl Fn(T, T) -> T) -> T {
    let mut distance = WARP / 2;
    while distance > 0 {
        // SAFETY: the contract above: every lane of the full mask is here.
        let (other, _) = unsafe { warp_shuffle_down(ALL_LANES, value, distance, WARP) };
        value = op(value, other);
        distance /= 2;
    }
    value
}

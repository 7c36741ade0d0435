//! No GPU loads a kernel that declares more than 48 KiB of shared memory.

use cuda_std::prelude::*;
use cuda_std::shared::Tile;

#[kernel]
pub fn one(_block: Block<256>, _tile: Shared<[f32; 15_000]>) {}

/// Each alone would fit.
#[kernel]
pub fn sum(
    _block: Block<256>,
    _a: Shared<[f32; 8192], 0>,
    _b: Shared<[f64; 4096], 1>,
    _c: Shared<[u8; 8], 2>,
) {
}

#[kernel((f32, 100), (f64, 100))]
pub fn generic<T: Copy, const N: usize>(_block: Block<256>, _tile: Shared<Tile<T, N, N>>) {}

fn main() {}

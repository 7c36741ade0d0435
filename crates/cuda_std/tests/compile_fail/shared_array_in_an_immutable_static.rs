//! Safe code could index it, and threads would race.

use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    static TILE: SharedArray<f32, 256> = SharedArray::UNINIT;
    let _ = &TILE;
}

fn main() {}

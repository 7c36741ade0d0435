//! Shared memory needs the token whose barriers part its phases.

use cuda_std::prelude::*;

#[kernel]
pub fn k(tile: Shared<[u32; 256]>) {}

fn main() {}

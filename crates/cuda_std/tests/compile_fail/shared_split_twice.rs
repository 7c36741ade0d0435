//! The same memory would have two owners.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<64>, memory: Shared<[u8]>) {
    let (_a,) = memory.split::<(u32,)>(&mut block, [4]);
    let (_b,) = memory.split::<(f32,)>(&mut block, [4]);
}

fn main() {}

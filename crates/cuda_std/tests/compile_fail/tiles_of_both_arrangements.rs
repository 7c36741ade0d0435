//! A view's stores are all blocked or all striped: no barrier parts two stores of one tile.

use cuda_std::block::DisjointTiles;
use cuda_std::prelude::*;

#[kernel]
pub fn tiles_meet(block: Block<64>, mut out: DisjointTiles<u32, 256>) {
    let own = block.thread() as u32;
    if own < 32 {
        out.store_blocked(&block, 0, [own; 4]);
    } else {
        out.store_striped(&block, 0, [own; 4]);
    }
}

fn main() {}

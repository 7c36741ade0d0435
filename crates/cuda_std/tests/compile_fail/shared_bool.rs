//! Shared memory that nothing was written to holds bits that are no `bool`, no enum and no `char`.

use cuda_std::prelude::*;

#[derive(Clone, Copy)]
enum Colour {
    Red,
}

fn flags(block: &Block<64>, tile: Shared<[bool; 64]>) {
    tile.put(block, true);
}

fn colours(block: &Block<64>, tile: Shared<[Colour; 64]>) {
    tile.put(block, Colour::Red);
}

fn exchanged(block: &mut Block<64>, scratch: Shared<[u8; 512]>) {
    block.blocked_to_striped(['a'; 2], scratch);
}

fn main() {}

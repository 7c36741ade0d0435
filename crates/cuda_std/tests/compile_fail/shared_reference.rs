//! What a thread did not write would be followed as an address: after a panic, or an early return.

use core::sync::atomic::AtomicU32;
use cuda_std::prelude::*;

static SEVEN: u32 = 7;
static WORD: AtomicU32 = AtomicU32::new(0);

fn read_through(block: &Block<64>, tile: Shared<[&'static u32; 64]>) {
    tile.put(block, &SEVEN);
}

fn written_through(block: &Block<64>, tile: Shared<[&'static AtomicU32; 64]>) {
    tile.put(block, &WORD);
}

fn called(block: &Block<64>, tile: Shared<[fn(u32) -> u32; 64]>) {
    tile.put(block, u32::count_ones);
}

fn main() {}

//! The kernel of `03_shared_memory`: threads of a block share what they have loaded.

use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 256;

/// Neighbours on either side of an element that its average takes in.
pub const RADIUS: usize = 3;

/// `out[i]` is the mean of `x[i - RADIUS ..= i + RADIUS]`, where elements outside `x` count as 0. `x: [n]`, `out: [n]`.
///
/// Each element is needed by 7 threads. The block loads each one once, into a tile in shared memory that is longer than
/// the block by a halo of `RADIUS` elements on either side.
#[kernel]
pub fn average(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    tile: Shared<[f32; BLOCK + 2 * RADIUS]>,
    x: &[f32],
    mut out: DisjointSlice<f32>,
) {
    let start = index.get() - block.thread();
    let tile = tile.fill(&block, |i| {
        let position = (start + i).checked_sub(RADIUS);
        position.and_then(|position| x.get(position)).copied().unwrap_or(0.0)
    });
    // The barrier: after it, every thread may read the whole tile. Threads past the end of `out` take part, too, since
    // they have loaded a part of the halo.
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        let sum: f32 = (0..=2 * RADIUS).map(|i| tile[block.thread() + i]).sum();
        *out = sum / (2 * RADIUS + 1) as f32;
    }
}

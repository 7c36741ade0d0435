//! The textbook's sum.

use crate::prelude::*;

use super::BLOCK;

/// The textbook form: `partials[block]` becomes the bits of the sum of the block's [`BLOCK`] elements of `x: [n]`.
///
/// Shared memory is halved eight times with a barrier each; most threads idle, and each has one load in flight.
#[kernel]
pub fn reduce_tree_f32(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    tile: Shared<[f32; BLOCK as usize]>,
    x: &[f32],
    partials: AtomicSlice<u32>,
) {
    let own = x.get(index.get()).copied().unwrap_or(0.0);
    let mut tree = tile.put(&block, own).halving();
    while let Some(pairs) = tree.halve(&mut block) {
        pairs.each(|own, other| *own += *other);
    }
    if let Some(sum) = tree.root(&block) {
        partials.store(thread::block_idx_x() as usize, sum.to_bits(), Relaxed);
    }
}

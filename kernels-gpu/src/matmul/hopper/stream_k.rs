//! The sums of a tile whose steps are divided among several blocks: each block but the last one stores its sums in global memory, and the last one
//! adds them to its own, those of the block with the highest number first. The order depends on sizes and the number of blocks alone, and so do the
//! bits of the result.
//!
//! Sums are stored in the layout of the accumulator: thread `i` of a consumer reads what thread `i` of the other block's consumer wrote. Each
//! consumer of a block has a flag of its own, which the consumer that reads its sums clears, so that flags are 0 between launches.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::schedule::Schedule;
use super::tile::ROWS_OF_TILE;
use crate::prelude::*;
use crate::quads::Quad;
use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::matrix::*;
use cuda_std::{gpu_only, unrolled};

/// Consumers of a block.
const CONSUMERS: usize = ROWS_OF_TILE / ROWS;
/// The most blocks of a grid that streams tiles.
pub const MOST_STREAM_BLOCKS: usize = 512;
/// The flags of that many blocks.
pub const STREAM_FLAGS: usize = CONSUMERS * MOST_STREAM_BLOCKS;

/// The bytes of the sums that blocks store in global memory, of tiles with this many columns: each block at most those of one tile.
#[must_use]
pub const fn stream_bytes(blocks: usize, columns: usize) -> usize {
    blocks * ROWS_OF_TILE * columns * size_of::<f32>()
}

/// Where the sums are.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// One for each consumer of each block, all 0 when the launch begins.
    pub(super) flags: *mut u32,
    /// [`stream_bytes`], aligned to 16.
    pub(super) sums: *mut f32,
}

impl Parts {
    /// Of at most [`STREAM_FLAGS`] flags, and of sums; both are empty if no tile is streamed.
    #[inline(always)]
    pub fn new(flags: &mut DisjointSlice<'_, u32>, sums: &mut DisjointSlice<'_, f32>) -> Self {
        Self { flags: flags.as_mut_ptr(), sums: sums.as_mut_ptr() }
    }

    #[inline(always)]
    fn flag(self, block: u32, own: usize) -> *mut u32 {
        self.flags.wrapping_add(block as usize * CONSUMERS + own)
    }

    /// The first four sums of a thread of the consumer; the next four are [`WARPGROUP`] further.
    #[inline(always)]
    fn quads<const N: usize>(self, block: u32, (own, thread): (usize, usize)) -> *mut Quad {
        let consumer = block as usize * CONSUMERS + own;
        self.sums.cast::<Quad>().wrapping_add(consumer * (ROWS * N / 4) + thread)
    }

    /// Stores the sums of a consumer's half of a tile that another block finishes in global memory.
    ///
    /// # Safety
    /// All threads of consumer `own` call this together, once in a launch; no product adds to the sums.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn give<const N: usize>(
        self,
        sums: &Accumulator<f32, N>,
        (own, thread): (usize, usize),
    ) where
        Columns<N>: Width<f32>,
    {
        let block = thread::block_idx_x();
        let to = self.quads::<N>(block, (own, thread));
        // SAFETY: these sums are this thread's to write; whole warpgroups.
        unsafe {
            unrolled!(N / 8, |four| {
                let ([x, y], [z, w]) = (sums.pair(4 * four), sums.pair(4 * four + 2));
                let [x, y, z, w] = [x, y, z, w].map(f32::to_bits);
                to.add(four * WARPGROUP).write(Quad::new(x, y, z, w));
            });
            // The first thread's release is for what all threads wrote.
            sync_warpgroup();
            if thread == 0 {
                let flag = self.flag(block, own);
                atomic::store(flag, 1, Ordering::Release, Scope::Device);
            }
        }
    }

    /// Adds the sums of all blocks that have steps of the tile below `first`, the first step of this block.
    ///
    /// # Safety
    /// All threads of consumer `own` call this together, once in a launch; no product adds to the sums.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn add_before<const N: usize>(
        self,
        sums: &mut Accumulator<f32, N>,
        schedule: &Schedule,
        first: u32,
        (own, thread): (usize, usize),
    ) where
        Columns<N>: Width<f32>,
    {
        let own_block = thread::block_idx_x();
        let before = schedule.blocks_before(own_block, first);
        if before == 0 {
            return;
        }
        // SAFETY: those blocks give their sums before they wait for any, and only this consumer clears the flags.
        unsafe {
            // Each lane of the first warp waits for another block.
            let mut nearest = thread as u32;
            while thread < 32 && nearest < before {
                let flag = self.flag(own_block - 1 - nearest, own);
                while atomic::load(flag.cast_const(), Ordering::Acquire, Scope::Device) == 0 {}
                atomic::store(flag, 0, Ordering::Relaxed, Scope::Device);
                nearest += 32;
            }
            // What those lanes have acquired is there for all.
            sync_warpgroup();
            let mut nearest = 0;
            while nearest < before {
                let from = self.quads::<N>(own_block - 1 - nearest, (own, thread)).cast_const();
                let mut four = [0.0; 4];
                sums.map(|index, sum| {
                    if index % 4 == 0 {
                        let Quad { x, y, z, w, .. } = *from.add(index / 4 * WARPGROUP);
                        four = [x, y, z, w].map(f32::from_bits);
                    }
                    sum + four[index % 4]
                });
                nearest += 1;
            }
        }
    }
}

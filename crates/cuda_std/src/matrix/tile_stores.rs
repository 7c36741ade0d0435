//! Results on their way from registers to global memory, tile by tile.

use super::accumulator::{Accumulator, Columns, ROWS, Width};
use super::move_matrix::store_matrices;
use super::warpgroup::{sync_warpgroup, thread_in_warpgroup};
use crate::copy::{
    Extents, Swizzle, Swizzle128, TensorElement, TensorMapMut, Tile, commit_bulk_group,
    fence_proxy_async_shared, wait_bulk_groups_read,
};
use core::fmt;
use cuda_std_macros::gpu_only;

/// A warpgroup's tiles of results in shared memory, `TILES` of them: one is written by the threads while the copy engine stores those before. It is to
/// the end of a product what a [`TilePipeline`](crate::copy::TilePipeline) is to its beginning.
///
/// The threads' copies are committed in groups of their own ([`commit_bulk_group`]); a kernel that commits others meanwhile waits for these, too.
pub struct TileStores<A: Extents, S: Swizzle, const TILES: usize> {
    tiles: *mut Tile<A, S>,
    /// The one that is written next.
    next: usize,
}

impl<A: Extents, S: Swizzle, const TILES: usize> fmt::Debug for TileStores<A, S, TILES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TileStores").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<A: Extents, S: Swizzle, const TILES: usize> TileStores<A, S, TILES> {
    /// Of `TILES` tiles from `tiles` on, one after the other.
    ///
    /// # Safety
    /// The tiles are valid for writes in shared memory, and as long as this is used nothing but one warpgroup, by this, reaches them. All its threads
    /// make one, and call the other functions together.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(tiles: *mut Tile<A, S>) -> Self {
        const { assert!(TILES >= 1 && TILES <= 4, "one to four tiles of results") };
        const { assert!(Tile::<A, S>::BYTES > 0) };
        Self { tiles, next: 0 }
    }

    /// Lets `write` fill the next tile, which all threads of the warpgroup do together, and starts to store it at `at`. What of it lies outside of the
    /// tensor is not stored.
    ///
    /// # Safety
    /// As [`TensorMapMut::store`]: `write` fills every byte of the tile that lies inside of the tensor, and no other store reaches these elements.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn store<const RANK: usize>(
        &mut self,
        map: &TensorMapMut<A, S>,
        at: [i32; RANK],
        write: impl FnOnce(*mut Tile<A, S>),
    ) {
        let (tile, is_first) = (self.tiles.wrapping_add(self.next), thread_in_warpgroup() == 0);
        // SAFETY: whole warpgroups; the barrier is their own.
        unsafe {
            if is_first {
                match TILES {
                    1 => wait_bulk_groups_read::<0>(),
                    2 => wait_bulk_groups_read::<1>(),
                    3 => wait_bulk_groups_read::<2>(),
                    _ => wait_bulk_groups_read::<3>(),
                }
            }
            // No thread writes to the tile before the copy engine has read it.
            sync_warpgroup();
            write(tile);
            // The copy engine sees what this thread wrote.
            fence_proxy_async_shared();
            // All of the tile is there.
            sync_warpgroup();
            if is_first {
                map.store(at, tile);
                commit_bulk_group();
            }
        }
        self.next = if self.next + 1 < TILES { self.next + 1 } else { 0 };
    }

    /// Waits until the copy engine has read all tiles: before the block ends, or the memory is used for something else.
    ///
    /// # Safety
    /// All threads of the warpgroup call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn finish(self) {
        // SAFETY: the caller's promise.
        unsafe {
            if thread_in_warpgroup() == 0 {
                wait_bulk_groups_read::<0>();
            }
            sync_warpgroup();
        }
    }
}

/// Columns of a tile that [`Accumulator::write_columns`] fills: 128 bytes of 16-bit elements.
pub const STORED_COLUMNS: usize = 64;

impl<const N: usize> Accumulator<f32, N>
where
    Columns<N>: Width<f32>,
{
    /// Fills a tile of 16-bit elements with [`STORED_COLUMNS`] columns of the sums, from column `first` on, a multiple of 8: what
    /// [`TileStores::store`] asks its caller for. `f` makes two elements, the first in the lower half, of two neighbouring sums, of which it gets the
    /// row and the column of the first in the accumulator, too. Each warp writes four matrices at a time (`stmatrix`), without bank conflicts.
    ///
    /// In a kernel `first` is a constant, as in [`unrolled!`](crate::unrolled), or the sums go through local memory. Panics if there are not as many
    /// columns from `first` on.
    ///
    /// # Safety
    /// All threads of the warpgroup call this together. The tile is valid for writes in shared memory, and nothing else reaches it.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn write_columns<D: TensorElement, P: Copy>(
        &self,
        first: usize,
        tile: *mut Tile<[[D; STORED_COLUMNS]; ROWS], Swizzle128>,
        mut f: impl FnMut(usize, usize, [f32; 2]) -> P,
    ) {
        const { assert!(size_of::<D>() == 2 && size_of::<P>() == 4, "elements of 16 bits") };
        let thread = thread_in_warpgroup();
        // Lanes of the first 16 say where rows of the left matrices are, the others of the right ones.
        let (lane, warp) = (thread % 32, thread / 32);
        let (row, right) = (warp * 16 + lane % 16, lane / 16);
        let mut elements = |index: usize| {
            let (row, column) = Self::position(thread, index);
            let pair = f(row, column, self.pair(index));
            // SAFETY: of the size of a register.
            unsafe { core::mem::transmute_copy::<P, u32>(&pair) }
        };
        crate::unrolled!(STORED_COLUMNS / 16, |part| {
            let at = first / 2 + 8 * part;
            let registers = [elements(at), elements(at + 2), elements(at + 4), elements(at + 6)];
            let offset = Tile::<[[D; STORED_COLUMNS]; ROWS], Swizzle128>::offset([
                row,
                16 * part + 8 * right,
            ]);
            // SAFETY: 16 bytes inside of the tile; the rest is the caller's promise.
            unsafe { store_matrices::<4, false>(tile.cast::<u8>().add(offset), registers) };
        });
    }
}

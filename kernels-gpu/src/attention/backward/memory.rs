//! The shared memory of a block, and the rows that are copied there.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::{BLOCK, BackwardProblem, Operands, ROWS, rows_of_block, stages};
use crate::attention::hopper::Half;
use crate::attention::warps::copies::copy_rows;
use crate::attention::{RowStrides, Segment};
use crate::prelude::*;
use cuda_std::copy::copy_async_part;
use cuda_std::gpu_only;
use cuda_std::shared::DynamicSharedArray;

/// The dynamic shared memory of a block, for rows of `D` elements: tiles, blocks of two tensors, and two numbers for each row of these. Rows of at most
/// [`MOST_IN_STAGES`](super::MOST_IN_STAGES) elements have two tiles and a ring of blocks.
#[derive(Clone, Copy)]
pub struct Memory<const D: usize>(*mut u8);

impl<const D: usize> Memory<D> {
    /// Blocks in the ring.
    const STAGES: usize = stages(D);

    /// What the launch gives.
    #[gpu_only]
    #[inline(always)]
    pub fn get() -> Self {
        Self(DynamicSharedArray::<u8, 128>::get())
    }

    #[inline(always)]
    fn row(self, index: usize) -> *mut u8 {
        self.0.wrapping_add(index * 2 * D)
    }

    /// The two tiles.
    #[inline(always)]
    pub fn tiles(self) -> [*mut u8; 2] {
        [self.row(0), self.row(ROWS)]
    }

    /// The place of a block of both tensors in the ring.
    #[inline(always)]
    pub fn stage(self, at: u32) -> [*mut u8; 2] {
        let first = 2 + 2 * (at as usize % Self::STAGES);
        [self.row(first * ROWS), self.row((first + 1) * ROWS)]
    }

    /// The places of the halves of a block of `rows` rows, after that many tiles.
    #[inline(always)]
    pub fn halves(self, tiles: usize, rows: usize) -> [*mut u8; 2] {
        [self.row(tiles * ROWS), self.row(tiles * ROWS + rows)]
    }

    /// The place of the numbers of a block's rows: the logarithms of all rows, and then as many sums.
    #[inline(always)]
    pub fn numbers(self, at: u32) -> *mut f32 {
        let rows = 2 * ROWS + 2 * Self::STAGES * rows_of_block(D);
        self.row(rows).cast::<f32>().wrapping_add(at as usize % Self::STAGES * 2 * ROWS)
    }
}

/// Rows of one head.
#[derive(Clone, Copy)]
pub struct Place {
    /// Those of the batch.
    pub rows: Segment,
    pub head: u32,
    /// The first row.
    pub first: u32,
}

/// Two tensors whose rows belong together.
#[derive(Clone, Copy)]
pub struct Pair<T> {
    from: [*const T; 2],
    depths: [u32; 2],
    strides: [RowStrides; 2],
}

impl<T: Half> Pair<T> {
    /// Queries, and the gradients of their results.
    #[inline(always)]
    pub fn of_queries(problem: &BackwardProblem, operands: Operands<'_, T>) -> Self {
        let forward = &problem.forward;
        Self {
            from: [operands.q, operands.d_o],
            depths: [forward.depth, forward.value_depth],
            strides: [forward.q, problem.d_o],
        }
    }

    /// Keys and values.
    #[inline(always)]
    pub fn of_keys(problem: &BackwardProblem, operands: Operands<'_, T>) -> Self {
        let forward = &problem.forward;
        Self {
            from: [operands.k, operands.v],
            depths: [forward.depth, forward.value_depth],
            strides: [forward.k, forward.v],
        }
    }

    /// Starts to copy [`ROWS`] rows of both; those past the end are zero.
    ///
    /// # Safety
    /// As [`copy_rows`], for the whole block.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn copy<const D: usize>(&self, to: [*mut u8; 2], place: Place) {
        // SAFETY: the caller's promise.
        unsafe {
            self.copy_one::<D>(0, to[0], ROWS, place);
            self.copy_one::<D>(1, to[1], ROWS, place);
        }
    }

    /// Starts to copy `count` rows of one of the two; those past the end are zero.
    ///
    /// # Safety
    /// As [`copy_rows`], for the whole block.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn copy_one<const D: usize>(
        &self,
        which: usize,
        to: *mut u8,
        count: usize,
        Place { rows, head, first }: Place,
    ) {
        let (from, depth, strides) = (self.from[which], self.depths[which], self.strides[which]);
        // SAFETY: the caller's promise; rows that are inside are in memory.
        unsafe {
            copy_rows::<T, D>(to, count, from, depth, BLOCK, |row| {
                let row = first + row as u32;
                (row < rows.len, rows.index(strides, head, row))
            });
        }
    }
}

/// Starts to copy the logarithms of the sums, and `delta`, of `count` queries, at most half as many as threads; those past the end are 0. One thread copies one number.
///
/// # Safety
/// All threads of the block call this together; `to` has place for them, which no thread uses before a barrier, at which all threads have waited
/// for the copies.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_numbers<T>(
    problem: &BackwardProblem,
    operands: Operands<'_, T>,
    to: *mut f32,
    count: usize,
    place: Place,
) {
    let thread = thread::index_in_block() as usize;
    if 2 * count < BLOCK && thread >= 2 * count {
        return;
    }
    let query = place.first + (thread % count) as u32;
    let from = if thread < count { operands.lse } else { operands.delta.cast_const() };
    let is_inside = query < place.rows.len;
    let query = place.rows.first + if is_inside { query } else { 0 };
    let from = from.wrapping_add(problem.forward.index(place.rows.batch, place.head, query));
    // SAFETY: the caller's promise; a query that is inside.
    unsafe { copy_async_part(to.wrapping_add(thread), from, if is_inside { 4 } else { 0 }) };
}

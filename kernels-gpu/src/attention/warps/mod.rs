//! Attention by warps (`mma`), with keys and values by `cp.async`: for devices before Hopper, for tensors that the copy engine cannot address, and
//! for few rows, which memory bounds.
//!
//! Each warp has 16 rows (T. Dao, "FlashAttention-2", 2023). Where a block has many rows, its four warps divide the rows, and each multiplies them with all keys
//! of a block of keys. Where there are at most 16 rows, as when text is generated, the warps divide the keys, and their results are
//! brought together at the end. Two blocks of keys and values are in shared memory: one is used while the next one is copied.
//!
//! Keys and values may lie in pages, which a table names: each row of a block of keys is found by itself.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

pub(super) mod copies;
mod join;
pub(super) mod products;

use self::copies::Rows as CopiedRows;
use self::products::{multiply_keys, multiply_values};
use super::combine::Writers;
use super::dropout;
use super::hopper::Half;
use super::output::Output;
use super::scores::{First, Tiles, left_operands, mask};
use super::softmax::Rows;
use super::{Batches, Problem, Schedule, Score, Work};
use crate::prelude::*;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::matrix::M16N8K16;
use cuda_std::shared::DynamicSharedArray;
use cuda_std::{gpu_only, unrolled};

/// Rows of a warp.
pub const ROWS_OF_WARP: usize = 16;
/// Blocks of keys in shared memory. (A third one, with few rows, was slower on an H200.)
const STAGES: usize = 2;

/// Keys of a block of keys, of `depth` elements each.
#[must_use]
pub const fn keys_of_block(depth: usize) -> usize {
    if depth <= 128 { 64 } else { 32 }
}

/// Warps of a block, with many rows or with few. Each has at least 16 keys.
#[must_use]
pub const fn warps(depth: usize, is_few: bool) -> usize {
    if is_few { keys_of_block(depth) / 16 } else { 4 }
}

/// Rows of a tile.
#[must_use]
pub const fn rows_of_tile(is_few: bool) -> usize {
    if is_few { ROWS_OF_WARP } else { 4 * ROWS_OF_WARP }
}

/// Dynamic shared memory of a block, in bytes: the rows, and blocks of keys and values.
#[must_use]
pub const fn shared_bytes(depth: usize, is_few: bool) -> usize {
    2 * depth * (rows_of_tile(is_few) + 2 * STAGES * keys_of_block(depth))
}

/// What a launch gives.
#[derive(Clone, Copy)]
pub struct Operands<'a, T> {
    /// Queries, keys and values.
    pub q: *const T,
    #[allow(missing_docs)]
    pub k: *const T,
    #[allow(missing_docs)]
    pub v: *const T,
    /// The table of pages, `[batches, problem.pages]`.
    pub pages: &'a [u32],
    /// What is known of the batches on the device.
    pub batches: Batches<'a>,
}

/// Attention with rows of at most `D` elements, that is `16 F` and `8 COLUMNS`. `KEYS` are those of a block of keys, of which a warp has `8 E`, or 16 `G`.
///
/// # Safety
/// - All threads of a block of 32 × [`warps`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else uses.
/// - The operands have every element that the problem leads to; the table has `problem.pages` entries for each batch, which are as many pages as `problem.keys`
///   need.
/// - The schedule is one of tiles of [`rows_of_tile`] rows.
/// - `output` is as [`hopper::attend`](super::hopper::attend) has it.
#[gpu_only]
#[inline(always)]
pub unsafe fn attend<
    T,
    C,
    const IS_FEW: bool,
    const D: usize,
    const COLUMNS: usize,
    const KEYS: usize,
    const E: usize,
    const G: usize,
>(
    operands: Operands<'_, T>,
    (schedule, problem): (&Schedule, &Problem),
    (score, factor): (C, f32),
    output: Output<'_, T>,
) where
    T: Half + Multiplies,
    C: Score,
{
    let (rows_of_tile, threads) = (rows_of_tile(IS_FEW), 32 * warps(D, IS_FEW));
    let sizes = (rows_of_tile as u32, KEYS as u32);
    let work = schedule.work(problem, score, thread::block_idx_x(), sizes, operands.batches);
    let thread = thread::index_in_block() as usize;
    let (warp, lane) = (thread / 32, thread % 32);
    let (own_row, own_key) = if IS_FEW { (0, warp * 8 * E) } else { (warp * ROWS_OF_WARP, 0) };
    let shared = DynamicSharedArray::<u8, 128>::get();
    let ring = shared.wrapping_add(rows_of_tile * 2 * D);
    let row = work.row + (own_row + lane / 4) as u32;
    let column = 2 * (lane % 4);
    let own = Sixteen { problem, work: &work, score, factor, row, key: own_key + column, lane };
    let copied = CopiedRows::<T, D>::new(problem, &work, operands, threads);
    let (mut rows, mut sums) = (Rows::EMPTY, Tiles::<COLUMNS>::zeroed());
    // SAFETY: the caller's promise; every thread takes the same way through the barriers.
    unsafe {
        if work.blocks.0 < work.blocks.1 {
            copied.queries(shared, rows_of_tile);
        }
        let q = shared.wrapping_add(own_row * 2 * D);
        let block_of = |at| work.block::<C>(operands.batches.lists, at);
        let key_of = |at| block_of(at).0 * KEYS as u32;
        each_block::<T, D, KEYS>(&copied, ring, (work.blocks, key_of), |[k, v], at| {
            let [k, v] = [k, v].map(|rows| rows.wrapping_add(own_key * 2 * D));
            let (block, is_whole) = block_of(at);
            let first = (block * KEYS as u32, is_whole);
            own.add::<T, D, COLUMNS, E, G>(&mut sums, &mut rows, [q, k, v], first);
        });
        let warps = threads / 32;
        if !IS_FEW || join::bring_together(&mut sums, &mut rows, factor, shared, warp, warps) {
            let ([above, below], totals) = (rows.max, rows.whole_sums());
            write::<T, COLUMNS, 0>(&sums, &output, &work, row, (above, totals[0]), column);
            write::<T, COLUMNS, 1>(&sums, &output, &work, row + 8, (below, totals[1]), column);
        }
        // Barrier 0 is that of the block; all warps have finished with the shared memory.
        let (thread, word) = (thread as u32, shared.cast());
        output.finish(&work, rows_of_tile as u32, Writers { thread, threads, barrier: 0, word });
    }
}

/// Copies blocks of keys and values to the ring, the last ones first, and calls `f` with where both are, and which block of the tile's it is. `key_of` says where one begins.
///
/// # Safety
/// All threads of the block call this together; the ring has room for [`STAGES`] blocks. Earlier copies of each thread belong to the first block.
#[gpu_only]
#[inline(always)]
unsafe fn each_block<T: Half, const D: usize, const KEYS: usize>(
    copied: &CopiedRows<'_, T, D>,
    ring: *mut u8,
    ((first, mut at), key_of): ((u32, u32), impl Fn(u32) -> u32),
    mut f: impl FnMut([*mut u8; 2], u32),
) {
    let stage = |at: u32| {
        let k = ring.wrapping_add(at as usize % STAGES * 4 * KEYS * D);
        [k, k.wrapping_add(2 * KEYS * D)]
    };
    let copy = |at: u32| {
        let [k, v] = stage(at);
        // SAFETY: the stage is free, and nothing reads it before the barrier below.
        unsafe {
            copied.keys(k, key_of(at), KEYS);
            copied.values(v, key_of(at), KEYS);
        }
    };
    if first < at {
        copy(at - 1);
    }
    commit_group();
    while at > first {
        at -= 1;
        if at > first {
            copy(at - 1);
        }
        commit_group();
        wait_groups::<1>();
        thread::sync_threads();
        f(stage(at), at);
        // All warps are done with the stage, which is filled next.
        thread::sync_threads();
    }
}

/// Sixteen rows of a warp, of which this lane has two.
struct Sixteen<'a, C> {
    problem: &'a Problem,
    work: &'a Work,
    score: C,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// The lane's first row of the packed head, and its first key in a block.
    row: u32,
    key: usize,
    lane: usize,
}

impl<C: Score> Sixteen<'_, C> {
    /// Adds the products with keys, and values, of the warp in a block that begins with key `first`, of which all rows see all keys if it is whole. The
    /// warp's queries, keys and values are in shared memory.
    ///
    /// # Safety
    /// All lanes of the warp call this together, and the rows are there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<
        T: Half + Multiplies,
        const D: usize,
        const COLUMNS: usize,
        const E: usize,
        const G: usize,
    >(
        &self,
        sums: &mut Tiles<COLUMNS>,
        rows: &mut Rows,
        [q, k, v]: [*mut u8; 3],
        (first, is_whole): (u32, bool),
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut scores = multiply_keys::<T, D, E>(q, k, self.lane);
            let first = First { row: self.row, key: first + self.key as u32 };
            if !is_whole {
                mask(&mut scores, self.score, self.problem, self.work, first);
            }
            let scales = rows.exponentials(&mut scores, self.factor);
            unrolled!(COLUMNS, |e| {
                let [a, b, c, d] = sums.0[e];
                sums.0[e] = [a * scales[0], b * scales[0], c * scales[1], d * scales[1]];
            });
            let mut weights = left_operands::<T, G>(&scores);
            dropout::drop_operands(&mut weights, self.score, (self.problem, self.work), first);
            multiply_values::<T, D, COLUMNS, G>(sums, weights, v, self.lane);
        }
    }
}

/// Elements of which a warp multiplies 16 × 16 by 16 × 8.
pub trait Multiplies: cuda_std::matrix::Element<Register = u32> {
    /// `c + a·b`.
    ///
    /// # Safety
    /// As [`mma_converged`](cuda_std::matrix::mma_converged).
    unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4];
}

/// Implements [`Multiplies`].
macro_rules! multiplies {
    ($($t:ty)*) => {$(
        impl Multiplies for $t {
            #[cfg(not(target_os = "cuda"))]
            unsafe fn multiply(_: [u32; 4], _: [u32; 2], _: [f32; 4]) -> [f32; 4] {
                unreachable!("only kernels multiply")
            }

            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn multiply(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
                use cuda_std::matrix::{FragmentA, FragmentB, FragmentC, mma_converged};
                let a = FragmentA::<M16N8K16, $t>::from_registers(a);
                let b = FragmentB::<M16N8K16, $t>::from_registers(b);
                let c = FragmentC::<M16N8K16, f32>::from_registers(c);
                // SAFETY: the caller's promise.
                unsafe { mma_converged(a, b, c) }.registers()
            }
        }
    )*};
}

multiplies! { cuda_std::bf16 cuda_std::f16 }

/// Writes a lane's columns of one of its two rows, if that is inside.
///
/// # Safety
/// Each row is four lanes', each of which writes columns of its own.
#[gpu_only]
#[inline(always)]
unsafe fn write<T: Half, const COLUMNS: usize, const BELOW: usize>(
    sums: &Tiles<COLUMNS>,
    output: &Output<'_, T>,
    work: &Work,
    row: u32,
    of_row: (f32, f32),
    column: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(to) = output.row(work, row, of_row, column == 0) else { return };
        to.write::<COLUMNS>(column, |eight| {
            let tile = sums.0[eight];
            [tile[2 * BELOW], tile[2 * BELOW + 1]]
        });
    }
}

//! The fastest attention on Hopper: keys and values by the copy engine, multiplied by warpgroups, on a grid that stays.
//!
//! The method is that of J. Shah, G. Bikshandi, Y. Zhang, V. Thakkar, P. Ramani and T. Dao, "FlashAttention-3" (2024). A block takes tiles of
//! 128 queries of a head, or of 192 where rows have 64 elements. One warp, the producer, copies queries, and blocks of keys and values into a ring of shared memory. Two or three
//! consumers of 64 queries each multiply them with a block of keys, take the exponentials, and multiply those with a block of values.
//!
//! | what | why |
//! |---|---|
//! | a consumer starts the scores of the next keys before it multiplies the values of these | while it takes exponentials, its tensor cores have work |
//! | the consumers take turns at starting products | exponentials of one come while the other multiplies |
//! | exponentials are left operands from registers | they are never stored |
//! | tiles with many keys come first, and a block that is done takes the next one | blocks end together |
//! | neighbouring blocks take the same head | its keys and values are in the L2 cache |

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

pub(in crate::attention) mod consume;
pub(in crate::attention) mod produce;
pub(in crate::attention) mod queue;

use self::queue::Queue;
use super::output::Output;
use super::{Batches, Problem, Schedule, Score};
use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::warp::warp_shuffle_idx;
use cuda_std::{bf16, f16};

/// Bytes of a row of a box in shared memory: the span of the swizzle.
pub const SPAN: usize = 128;

/// A box of rows of queries, as bytes: 64 elements of each. (How many of its rows are heads of a packed one, the map knows.)
pub type QueryBox<const R: usize> = [[[[[u8; SPAN]; R]; 1]; 1]; 1];

/// A box of keys or values, as bytes: 64 elements of each.
pub type KeyBox<const N: usize> = [[[[u8; SPAN]; N]; 1]; 1];

/// Keys of a box of values of 8 bits whose keys are neighbours: the span of their swizzle, in bytes.
pub const SPAN_OF_VALUES: usize = 64;

/// A box of such values: of 128 elements.
pub type ValueBox = [[[[u8; SPAN_OF_VALUES]; SPAN]; 1]; 1];

/// A tile of queries: boxes of all their elements.
#[repr(C, align(1024))]
pub struct QueryTile<const R: usize, const BOXES: usize>([[[u8; SPAN]; R]; BOXES]);

/// A block of keys or values: boxes of all their elements.
#[repr(C, align(1024))]
pub struct KeyTile<const N: usize, const BOXES: usize>([[[u8; SPAN]; N]; BOXES]);

/// Consumers, for rows of `depth` elements. Three have more exponentials on the way at a time than two; longer rows' sums leave no registers for a third.
#[must_use]
pub const fn consumers(depth: usize) -> usize {
    if depth == 64 { 3 } else { 2 }
}

/// Rows of a tile.
#[must_use]
pub const fn rows_of_tile(depth: usize) -> usize {
    consumers(depth) * ROWS
}

/// Threads: a producer and the consumers.
#[must_use]
pub const fn threads(depth: usize) -> usize {
    (1 + consumers(depth)) * WARPGROUP
}

/// Keys of a block, of `depth` elements each.
#[must_use]
pub const fn keys_of_block(depth: usize) -> usize {
    match depth {
        64 => 128,
        128 => 176,
        192 => 112,
        _ => 80,
    }
}

/// Keys of a box, of blocks of `keys` and pages of `2^page` keys: as many as divide both.
#[must_use]
pub const fn rows_of_box(keys: u32, page: u32) -> u32 {
    let rows = 1 << keys.trailing_zeros();
    if page < 31 && 1 << page < rows { 1 << page } else { rows }
}

/// Blocks of keys or values in shared memory.
#[must_use]
pub const fn stages(depth: usize) -> usize {
    match depth {
        64 => 8,
        _ => 4,
    }
}

/// Dynamic shared memory of a block, in bytes: queries, the ring, and barriers.
#[must_use]
pub const fn shared_bytes(depth: usize) -> usize {
    let row = 2 * depth;
    rows_of_tile(depth) * row
        + stages(depth) * keys_of_block(depth) * row
        + (2 + 2 * stages(depth)) * 8
        + queue::BYTES
}

/// Elements of 16 bits.
pub trait Half: Value<Pair = u32> + TensorElement {}

impl Half for bf16 {}
impl Half for f16 {}

/// Attention with rows of at most `D` elements, that is `BOXES` × 64 or `E` × 8, and `N` keys in a block of keys, of which `F` times 16; `S` such blocks in shared memory.
///
/// # Safety
/// - All threads of a block of [`threads`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else uses.
/// - `maps` are those of the queries, keys and values: boxes of [`QueryBox`] and [`KeyBox`]. The dimensions of keys and values are batches, heads, rows,
///   elements, those of queries batches, packed heads, queries, heads of a packed one, elements.
/// - The schedule is one of tiles of [`rows_of_tile`] rows, `R`. Of keys in pages, the dimensions are pages, heads, keys of a page, elements, and boxes have
///   [`rows_of_box`] keys; `work` has the table of pages, and what is known of the batches on the device.
/// - Maps of packed tensors are as [`Segment::coordinates`](super::Segment::coordinates) has it.
/// - `counter` is 0, and of this launch alone, if there are more tiles than blocks: a block that is done takes the next tile, and the last one that asks writes 0
///   again.
/// - `output` has every element that the problem leads to, and where keys are divided among blocks a counter for each tile, which is 0 before the launch and afterwards.
#[gpu_only]
#[inline(always)]
pub unsafe fn attend<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const N: usize,
    const F: usize,
    const S: usize,
    const R: usize,
>(
    maps: GridConstant<'_, [MapWords; 3]>,
    work: (&Schedule, &Problem, &[u32], Batches<'_>),
    counter: *mut u32,
    score: (C, f32),
    output: Output<'_, T>,
) where
    T: Half,
    C: Score,
    Columns<N>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
{
    // SAFETY: all lanes of each warp are here.
    let (group, thread) = (unsafe { warpgroup_of_warp() }, thread_in_warpgroup());
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<R, BOXES, N, S>::new() };
    // SAFETY: each branch is one of whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry, 32 and thrice 160 the 128 of a larger block.
    unsafe {
        if group == 0 {
            if R == 3 * ROWS {
                lower_registers::<32>()
            } else {
                lower_registers::<40>()
            }
            if thread < 32 {
                produce::all::<C, R, BOXES, N, S, false>(block, maps, work, score.0, counter);
            }
        } else {
            if R == 3 * ROWS {
                raise_registers::<160>()
            } else {
                raise_registers::<232>()
            }
            let (schedule, problem, _, batches) = work;
            let work = (schedule, problem, batches);
            consume::all::<T, C, D, BOXES, E, N, F, S, R>(block, work, score, output, group - 1);
        }
    }
    // Where the paths of both kinds of warps do not meet, the assembler has the multiplications wait for each other.
    thread::sync_threads();
}

/// [`warpgroup_id`], of which the assembler sees that all lanes have the same.
///
/// # Safety
/// All lanes of the warp call this together.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn warpgroup_of_warp() -> usize {
    // SAFETY: the caller's promise.
    unsafe { warp_shuffle_idx(!0, warpgroup_id() as u32, 0, 32).0 as usize }
}

/// The dynamic shared memory of a block.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Block<
    const R: usize,
    const BOXES: usize,
    const N: usize,
    const S: usize,
> {
    /// The queries of a tile.
    pub queries: TilePipeline<QueryTile<R, BOXES>, 1>,
    /// Keys and values, in the order in which a consumer takes them: the first keys, then alternately the next keys and the values of the previous ones.
    pub ring: TilePipeline<KeyTile<N, BOXES>, S>,
    /// The next tile.
    pub queue: Queue,
}

impl<const R: usize, const BOXES: usize, const N: usize, const S: usize> Block<R, BOXES, N, S> {
    /// # Safety
    /// All threads of the block call this together; the launch gives [`shared_bytes`], and nothing else uses them.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new() -> Self {
        let queries = DynamicSharedArray::<u8, 1024>::get();
        let ring = queries.wrapping_add(size_of::<QueryTile<R, BOXES>>());
        let barriers = ring.wrapping_add(S * size_of::<KeyTile<N, BOXES>>());
        // SAFETY: the caller's promise; one thread fills a stage, and one of each consumer releases it. The pipelines are made after the queue, with barriers of the block.
        unsafe {
            let of_queue = barriers.wrapping_add((2 + 2 * S) * 8);
            let queue = Queue::new(SharedArray::from_raw(of_queue.cast()), R as u32 * 2);
            let of_queries = SharedArray::<u64, 2>::from_raw(barriers.cast());
            let of_ring = SharedArray::<u64, 32>::from_raw(barriers.wrapping_add(16).cast());
            let queries = SharedArray::<QueryTile<R, BOXES>, 1>::from_raw(queries.cast());
            let ring = SharedArray::<KeyTile<N, BOXES>, S>::from_raw(ring.cast());
            Self {
                queries: TilePipeline::new(queries, of_queries, (R / ROWS) as u32),
                ring: TilePipeline::new(ring, of_ring, (R / ROWS) as u32),
                queue,
            }
        }
    }
}

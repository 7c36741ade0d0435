//! Sum of an array, from the textbook form to one that reads at the memory's full speed.
//!
//! * [`reduce_tree_f32`](fn@reduce_tree_f32): each thread loads one element into shared memory, the block halves it step by step;
//!   one partial sum a block, which a second launch (or the host) adds up.
//! * [`reduce_sum_f32`](fn@reduce_sum_f32), [`reduce_sum_i32`](fn@reduce_sum_i32): 16-byte loads, four in flight a thread; sums in registers;
//!   shuffles instead of shared memory; the last block to finish adds the partials, so one launch does it all.
//!
//! The order of additions depends on the length and the alignment of the input alone, never on the
//! device or on which block runs first: the same input gives the same bits everywhere.

use core::ops::Range;

use cuda_std::prelude::*;
use cuda_std::vector::{Element, split_vectors};
use cuda_std::warp::WarpShuffleValue;

use crate::block;

/// Threads in a block.
pub const BLOCK: u32 = 256;
/// 16-byte loads that each thread has in flight.
pub const VECTORS_PER_THREAD: usize = 4;
/// Vectors that a block takes at a time.
pub const TILE: usize = BLOCK as usize * VECTORS_PER_THREAD;
/// Most blocks of a launch: eight for each of 132 multiprocessors, whatever the device has.
pub const MAX_BLOCKS: u32 = 8 * 132;

const WARPS: usize = BLOCK as usize / 32;

/// Blocks to launch for `n_elems` elements: one a tile, at most [`MAX_BLOCKS`], at least one.
pub const fn blocks(n_elems: usize) -> u32 {
    let tiles = (n_elems / 4).div_ceil(TILE);
    if tiles == 0 {
        1
    } else if tiles < MAX_BLOCKS as usize {
        tiles as u32
    } else {
        MAX_BLOCKS
    }
}

/// What can be summed: addition from zero, and 32 bits to hand over between blocks.
pub trait Summand: WarpShuffleValue + Element {
    /// The neutral element.
    const ZERO: Self;
    /// Addition; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// The value's bits.
    fn to_bits(self) -> u32;
    /// The value of these bits.
    fn from_bits(bits: u32) -> Self;
}

impl Summand for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn to_bits(self) -> u32 {
        f32::to_bits(self)
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
}

impl Summand for i32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn to_bits(self) -> u32 {
        self as u32
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits as i32
    }
}

/// Element-wise sum of two vectors.
#[inline(always)]
fn plus<T: Summand>(a: Vec4<T>, b: Vec4<T>) -> Vec4<T> {
    Vec4::new(a.x.plus(b.x), a.y.plus(b.y), a.z.plus(b.z), a.w.plus(b.w))
}

/// Adds this thread's vectors of one full tile to `sums`: all loads first, then all additions.
#[inline(always)]
fn add_tile<T: Summand>(sums: Vec4<T>, tile: &[Vec4<T>; TILE]) -> Vec4<T> {
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: `thread < BLOCK` by the kernel's contract, and `k < VECTORS_PER_THREAD`.
    let at = |k| unsafe { *tile.get_unchecked(k * BLOCK as usize + thread) };
    let [a, b, c, d] = [at(0), at(1), at(2), at(3)];
    plus(plus(plus(plus(sums, a), b), c), d)
}

/// What this thread sums of `range` when the block's threads take its elements in turn.
#[inline(always)]
fn add_ragged<T: Summand>(sum: T, x: &[T], range: Range<usize>) -> T {
    let mut sum = sum;
    let mut i = range.start + thread::thread_idx_x() as usize;
    while i < range.end {
        sum = sum.plus(x[i]);
        i += BLOCK as usize;
    }
    sum
}

/// This thread's share of the whole input: full tiles in turn over the grid; what is left, in block 0.
#[inline(always)]
fn sum_of_thread<T: Summand>(x: &[T]) -> T {
    let (head, body, _) = split_vectors(x);
    let (tiles, _) = body.as_chunks::<TILE>();
    let block = thread::block_idx_x() as usize;

    let mut sums = Vec4::splat(T::ZERO);
    let mut i = block;
    while i < tiles.len() {
        sums = add_tile(sums, &tiles[i]);
        i += thread::grid_dim_x() as usize;
    }
    let sum = (sums.x.plus(sums.y)).plus(sums.z.plus(sums.w));
    if block != 0 {
        return sum;
    }
    let sum = add_ragged(sum, x, 0..head.len());
    add_ragged(sum, x, head.len() + tiles.len() * TILE * 4..x.len())
}

/// Sums `x` over the whole grid into `out[0]`. `partials` has a word a block; `finished[0]` starts and ends at 0.
#[inline(always)]
fn sum_of_grid<T: Summand>(
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: AtomicSlice<u32>,
    scratch: SharedArray<T, WARPS>,
    is_last: SharedArray<bool, 1>,
) {
    let (block, thread) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    let blocks = thread::grid_dim_x();
    let sum = block::reduce::reduce(sum_of_thread(x), T::ZERO, T::plus, scratch);

    if thread == 0 {
        partials.store(block, sum.to_bits(), Relaxed);
        // Release: the partial is seen before the count. Acquire: the last block sees all of them.
        let before = finished.fetch_add(0, 1, AcqRel);
        // SAFETY: thread 0 alone writes.
        unsafe { *is_last.as_mut_ptr() = before == blocks - 1 };
    }
    // All threads learn from thread 0 whether their block is the last; `scratch` is free again.
    thread::sync_threads();
    // SAFETY: written before the barrier.
    if !unsafe { *is_last.as_mut_ptr() } {
        return;
    }

    let mut sum = T::ZERO;
    let mut i = thread;
    while i < blocks {
        sum = sum.plus(T::from_bits(partials.load(i as usize, Relaxed)));
        i += BLOCK;
    }
    let total = block::reduce::reduce(sum, T::ZERO, T::plus, scratch);
    if thread == 0 {
        out.store(0, total.to_bits(), Relaxed);
        finished.store(0, 0, Relaxed);
    }
}

/// Sum of `x: [n]`, f32, into the bits of `out[0]`. Launch [`blocks`]`(n)` blocks.
///
/// `partials: [blocks]` is scratch; `finished: [1]` must be 0 and is 0 again afterwards.
#[kernel(block = BLOCK)]
pub fn reduce_sum_f32(
    x: &[f32],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: AtomicSlice<u32>,
) {
    let (scratch, is_last) = (shared_array![f32; WARPS], shared_array![bool; 1]);
    sum_of_grid(x, partials, finished, out, scratch, is_last);
}

/// Wrapping sum of `x: [n]`, i32, into the bits of `out[0]`. Launch and scratch as for [`reduce_sum_f32`](fn@reduce_sum_f32).
#[kernel(block = BLOCK)]
pub fn reduce_sum_i32(
    x: &[i32],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: AtomicSlice<u32>,
) {
    let (scratch, is_last) = (shared_array![i32; WARPS], shared_array![bool; 1]);
    sum_of_grid(x, partials, finished, out, scratch, is_last);
}

/// The textbook form: `partials[block]` becomes the sum of the block's [`BLOCK`] elements of `x: [n]`.
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

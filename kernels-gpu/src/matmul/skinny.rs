//! Products with few rows, which memory bounds: B is read once, as fast as a copy.
//!
//! With at most [`ROWS`] rows, each element of B is multiplied so seldom that its way from memory is what takes time. So nothing goes
//! through shared memory on the way: each lane loads what it multiplies, 16 bytes at a time, [`RING`] chunks ahead, and only the
//! sums of a block's warps, which divide K among them, meet there. A block has [`COLUMNS`] columns of D. Where that makes too
//! few blocks, K is divided among several, and [`finish`](super::finish) adds their sums.
//!
//! `mma` multiplies 16 × 16 by 16 × 8, and adds along K in any order. A lane's share of a column are four elements along K; they are
//! taken to be four neighbours, in A alike, so that 16 bytes of a lane are its shares of two multiplications:
//!
//! | B is contiguous | a lane loads for each [`DEPTH`] | fragments |
//! |---|---|---|
//! | along K (`x · weightsᵀ`) | 8 along K, of each of four columns | as loaded |
//! | along its rows | 4 columns, of each of eight along K | pairs of rows by `prmt` |
//!
//! A is read through the caches by every block. It may lie in either order; rows along K that begin at multiples of 16 bytes are
//! loaded 16 bytes at a time, as are those of B, and others element by element.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::hopper::{divide, part};
use super::output::Output;
use super::{Epilogue, Problem, Value};
use crate::prelude::*;
use crate::quads::{self, Quad};
use cuda_std::intrinsics::byte_perm;
use cuda_std::matrix::{FragmentA, FragmentB, FragmentC, M16N8K16, converge, mma_converged};
use cuda_std::unroll::{build, each};
use cuda_std::{bf16, f16, gpu_only, unrolled};

/// The most rows of D.
pub const ROWS: usize = 16;
/// Columns of D of a block.
pub const COLUMNS: usize = 8 * TILES;
/// Elements along K of a chunk, which a warp loads at a time.
pub const DEPTH: usize = 4 * PER_LANE;
/// Warps of a block.
const WARPS: usize = 8;
/// Threads of a block.
pub const BLOCK: usize = 32 * WARPS;
/// Dynamic shared memory of a block, in bytes: the sums of all warps.
pub const SHARED_BYTES: usize = WARPS * REGISTERS * 32 * size_of::<f32>();

/// Multiplications side by side: of 8 columns each.
const TILES: usize = 4;
/// Elements along K of a lane in a chunk: 16 bytes.
const PER_LANE: usize = 8;
/// Chunks that a warp has in registers or on the way to them: three of 2 KiB for each of 16 warps fill the memory's latency.
const RING: usize = 3;
/// Chunks side by side along K that are one warp's: 128 bytes of a column, which are a line of the cache.
const RUN: u32 = 2;

/// The sums of a lane: of each tile, two columns of its row and of the one 8 further.
type Sums = [[f32; 4]; TILES];
/// Of a lane.
const REGISTERS: usize = 4 * TILES;

/// Blocks of a product's grid, those of all parts of K.
#[must_use]
pub const fn blocks(problem: &Problem) -> usize {
    (problem.n as usize).div_ceil(COLUMNS) * problem.batches as usize * problem.splits as usize
}

/// Elements of 16 bits that `mma` multiplies.
pub trait Multiplied: Value {
    /// `sums += left · right`, 16 × 16 by 16 × 8.
    ///
    /// # Safety
    /// As [`mma_converged`].
    unsafe fn multiply(left: [u32; 4], right: [u32; 2], sums: [f32; 4]) -> [f32; 4];
}

/// Implements [`Multiplied`].
macro_rules! multiplied {
    ($($half:ident)*) => {$(
        impl Multiplied for $half {
            #[inline(always)]
            unsafe fn multiply(left: [u32; 4], right: [u32; 2], sums: [f32; 4]) -> [f32; 4] {
                let left = FragmentA::<M16N8K16, Self>::from_registers(left);
                let right = FragmentB::<M16N8K16, Self>::from_registers(right);
                let sums = FragmentC::<M16N8K16, f32>::from_registers(sums);
                // SAFETY: the caller's promise.
                unsafe { mma_converged(left, right, sums) }.registers()
            }
        }
    )*};
}

multiplied! { bf16 f16 }

/// What a lane has of [`DEPTH`] along K.
#[derive(Clone, Copy)]
struct Chunk {
    /// Of A: 8 along K, of the lane's row and of the one 8 further.
    a: [[u32; 4]; 2],
    /// Of B: 8 along K of each of four columns, or four columns of each of 8 along K.
    b: [u32; 4 * TILES],
}

impl Chunk {
    /// All elements 0.
    #[inline(always)]
    fn zeroed() -> Self {
        // SAFETY: zero bits are numbers. (A list of zeros would become a loop in memory.)
        unsafe { core::mem::zeroed() }
    }

    /// The registers of A in multiplication `half` of both.
    #[inline(always)]
    fn left(&self, half: usize) -> [u32; 4] {
        let [above, below] = self.a;
        [above[2 * half], below[2 * half], above[2 * half + 1], below[2 * half + 1]]
    }

    /// The registers of B's tile `tile` in multiplication `half` of both.
    #[inline(always)]
    fn right<const BY_K: bool>(&self, tile: usize, half: usize) -> [u32; 2] {
        if BY_K {
            let first = 4 * tile + 2 * half;
            return [self.b[first], self.b[first + 1]];
        }
        // Columns 0 and 1 are in a row's first word; the lower halves of two words, or the upper ones, are one column.
        let which = if tile % 2 == 0 { 0x5410 } else { 0x7632 };
        let word = |row: usize| self.b[2 * row + tile / 2] as i32;
        let pair = |row| byte_perm(word(row), word(row + 1), which) as u32;
        [pair(4 * half), pair(4 * half + 2)]
    }

    /// Adds its products.
    ///
    /// # Safety
    /// All lanes of a warp call this together.
    #[inline(always)]
    unsafe fn add_products<T: Multiplied, const BY_K: bool>(&self, sums: &mut Sums) {
        // SAFETY: the caller's promise; no branch parts the multiplications.
        unsafe {
            converge();
            each::<{ 2 * TILES }>(|i| {
                let (tile, half) = (i / 2, i % 2);
                sums[tile] =
                    T::multiply(self.left(half), self.right::<BY_K>(tile, half), sums[tile]);
            });
        }
    }
}

/// Up to eight elements, `stride` apart, and zeros for the others. A function: it is seldom called, and from many places.
///
/// # Safety
/// The first `count` elements are valid for reads.
#[inline(never)]
unsafe fn load_elements<T: Value>(from: *const T, stride: usize, count: usize) -> Quad {
    let mut words = [0; 4];
    each::<PER_LANE>(|i| {
        if i < count {
            // SAFETY: below the count; an element is 16 bits.
            let bits = unsafe { from.add(i * stride).cast::<u16>().read() };
            words[i / 2] |= u32::from(bits) << (16 * (i % 2));
        }
    });
    let [x, y, z, w] = words;
    Quad::new(x, y, z, w)
}

/// How many of `PER_LANE` elements from index `first` on are below `end`.
#[inline(always)]
fn count(first: usize, end: usize) -> usize {
    end.saturating_sub(first).min(PER_LANE)
}

/// A as a lane reads it.
struct Left<T> {
    /// The first element along K of the lane's row, and of the one 8 further.
    rows: [*const T; 2],
    /// From an element to the next along K.
    stride: usize,
    k: usize,
    /// Whether there are more than 8 rows.
    is_tall: bool,
    is_aligned: bool,
}

impl<T: Value> Left<T> {
    #[inline(always)]
    fn new(problem: &Problem, a: *const T, batch: usize, lane: usize) -> Self {
        let (strides, m) = (problem.a, problem.m as usize);
        // Rows past the last one are that one: what becomes of them is not stored.
        let row = |row: usize| a.wrapping_add(strides.index(batch, row.min(m - 1), 0));
        let rows = [row(lane / 4), row(lane / 4 + 8)];
        let is_aligned = strides.column == 1
            && rows[0].addr().is_multiple_of(16)
            && (m == 1 || strides.row.is_multiple_of(PER_LANE as u64));
        let (stride, k) = (strides.column as usize, problem.k as usize);
        Self { rows, stride, k, is_tall: m > 8, is_aligned }
    }

    /// The lane's elements of the chunk that begins at `first`, of which K ends at or after `whole`.
    ///
    /// # Safety
    /// The matrix is valid for reads.
    #[inline(always)]
    unsafe fn load(&self, first: usize, is_whole: bool, lane: usize) -> [[u32; 4]; 2] {
        let first = first + lane % 4 * PER_LANE;
        let is_fast = is_whole && self.is_aligned;
        build(|row| {
            if row == 1 && !self.is_tall {
                return [0; 4];
            }
            let from = self.rows[row].wrapping_add(first * self.stride);
            // SAFETY: a whole chunk is inside of K, and else `count` is.
            let quad = unsafe {
                if is_fast {
                    quads::load(from.cast())
                } else {
                    load_elements(from, self.stride, count(first, self.k))
                }
            };
            quad.to_array()
        })
    }
}

/// B as a lane reads it.
struct Right<T, const BY_K: bool> {
    /// The first element along K of the lane's first column.
    from: *const T,
    /// From one contiguous row or column to the next.
    pitch: usize,
    k: usize,
    /// Columns from the lane's first one on.
    columns: usize,
    is_aligned: bool,
}

impl<T: Value, const BY_K: bool> Right<T, BY_K> {
    #[inline(always)]
    fn new(problem: &Problem, b: *const T, work: Work, lane: usize) -> Self {
        let (strides, n) = (problem.b, problem.n as usize);
        let b = b.wrapping_add(work.batch * strides.batch as usize);
        let pitch = if BY_K { strides.column } else { strides.row } as usize;
        let (column, bytes, are_whole) = if BY_K {
            // A column past the last one is that one: what becomes of it is not stored.
            ((work.column + lane / 4).min(n - 1), 16, true)
        } else {
            (work.column + lane / 4 * TILES, 2 * TILES, work.column + COLUMNS <= n)
        };
        let is_aligned =
            are_whole && b.addr().is_multiple_of(bytes) && pitch.is_multiple_of(bytes / 2);
        let from = b.wrapping_add(strides.index(0, 0, column));
        Self { from, pitch, k: problem.k as usize, columns: n.saturating_sub(column), is_aligned }
    }

    /// The lane's elements of the chunk that begins at `first`.
    ///
    /// # Safety
    /// As [`Left::load`].
    #[inline(always)]
    unsafe fn load(&self, first: usize, is_whole: bool, lane: usize) -> [u32; 4 * TILES] {
        let first = first + lane % 4 * PER_LANE;
        let is_fast = is_whole && self.is_aligned;
        // SAFETY: the caller's promise.
        unsafe { if BY_K { self.along(first, is_fast) } else { self.across(first, is_fast) } }
    }

    /// Eight along K of four columns.
    ///
    /// # Safety
    /// As [`Left::load`].
    #[inline(always)]
    unsafe fn along(&self, first: usize, is_fast: bool) -> [u32; 4 * TILES] {
        let quads: [Quad; TILES] = build(|tile| {
            let column = (8 * tile).min(self.columns - 1);
            let from = self.from.wrapping_add(column * self.pitch + first);
            // SAFETY: the column exists; a whole chunk is inside of K, and else `count` is.
            unsafe {
                if is_fast {
                    quads::load_once(from.cast())
                } else {
                    load_elements(from, 1, count(first, self.k))
                }
            }
        });
        build(|word| quads[word / 4].to_array()[word % 4])
    }

    /// Four columns of eight along K.
    ///
    /// # Safety
    /// As [`Left::load`].
    #[inline(always)]
    unsafe fn across(&self, first: usize, is_fast: bool) -> [u32; 4 * TILES] {
        let quads: [Quad; PER_LANE] = build(|row| {
            let from = self.from.wrapping_add((first + row) * self.pitch);
            // SAFETY: a whole chunk is inside of K and of the columns, and else the number of elements is.
            unsafe {
                if is_fast {
                    quads::load_part(from.cast(), 2 * TILES)
                } else {
                    let is_inside = first + row < self.k;
                    load_elements(from, 1, if is_inside { self.columns.min(TILES) } else { 0 })
                }
            }
        });
        build(|word| quads[word / 2].to_array()[word % 2])
    }
}

/// What a block multiplies.
#[derive(Clone, Copy)]
struct Work {
    batch: usize,
    /// The matrix of D: that of the batch, or one for each part of the sums.
    output: usize,
    /// The first column.
    column: usize,
    /// The first chunk along K, and the one after the last.
    chunks: (u32, u32),
}

impl Work {
    #[inline(always)]
    fn of(block: u32, problem: &Problem) -> Self {
        let (output, tile) = divide(block, problem.n.div_ceil(COLUMNS as u32));
        let (batch, split) = divide(output, problem.splits);
        let chunks = problem.k.div_ceil(DEPTH as u32);
        let edge = |split| part(chunks, split, problem.splits);
        Self {
            batch: batch as usize,
            output: output as usize,
            column: tile as usize * COLUMNS,
            chunks: (edge(split), edge(split + 1)),
        }
    }

    /// The chunk that warp `warp` takes as its `i`-th one: it may be past the last.
    #[inline(always)]
    fn chunk(&self, warp: usize, i: u32) -> u32 {
        self.chunks.0 + (i / RUN * WARPS as u32 + warp as u32) * RUN + i % RUN
    }
}

/// What a lane loads.
struct Source<T, const BY_K: bool> {
    work: Work,
    left: Left<T>,
    right: Right<T, BY_K>,
    k: usize,
    warp: usize,
    lane: usize,
}

impl<T: Value, const BY_K: bool> Source<T, BY_K> {
    /// Whether the warp has no chunk from its `i`-th one on.
    #[inline(always)]
    fn is_over(&self, i: u32) -> bool {
        self.work.chunk(self.warp, i) >= self.work.chunks.1
    }

    /// The `i`-th chunk of the warp, or zeros after the last.
    ///
    /// # Safety
    /// Both matrices are valid for reads.
    #[inline(always)]
    unsafe fn load(&self, i: u32) -> Chunk {
        if self.is_over(i) {
            return Chunk::zeroed();
        }
        let first = self.work.chunk(self.warp, i) as usize * DEPTH;
        let is_whole = first + DEPTH <= self.k;
        // SAFETY: the caller's promise; the chunk is one of K.
        unsafe {
            Chunk {
                a: self.left.load(first, is_whole, self.lane),
                b: self.right.load(first, is_whole, self.lane),
            }
        }
    }
}

/// A warp's sums.
///
/// # Safety
/// As [`multiply`]; `BY_K` is how B lies.
#[gpu_only]
#[inline(always)]
// Steps that `unrolled!` writes out past the last slot are never taken.
#[allow(unconditional_panic)]
unsafe fn sums<T: Multiplied, const BY_K: bool>(
    problem: &Problem,
    work: Work,
    [a, b]: [*const T; 2],
    (warp, lane): (usize, usize),
) -> Sums {
    let left = Left::new(problem, a, work.batch, lane);
    let right = Right::<T, BY_K>::new(problem, b, work, lane);
    let source = Source { work, left, right, k: problem.k as usize, warp, lane };
    // SAFETY: zero bits are numbers.
    let mut sums: Sums = unsafe { core::mem::zeroed() };
    // The first round multiplies zeros, so that there is one place of each load: they are long.
    // SAFETY: zero bits are numbers.
    let mut ring: [Chunk; RING] = unsafe { core::mem::zeroed() };
    let mut i = 0;
    loop {
        unrolled!(RING, |slot| {
            // SAFETY: whether there is a chunk depends on the warp alone, so its lanes are together; the caller's promise.
            unsafe {
                ring[slot].add_products::<T, BY_K>(&mut sums);
                ring[slot] = source.load(i + slot as u32);
            }
        });
        if source.is_over(i) {
            return sums;
        }
        i += RING as u32;
    }
}

/// `D = epilogue(alpha · A·B + beta · C)`, where D has at most [`ROWS`] rows. Launch [`blocks`]. D and C may have any strides.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together, with [`SHARED_BYTES`] of dynamic shared memory that nothing else uses.
/// - A, B and D have every element that `problem` leads to; K is not 0; D's elements are not those of A, B or of another place. With
///   more than one split, D has a matrix for each, and K a chunk.
/// - As [`Beside::new`](super::beside::Beside::new) for what the epilogue reads.
#[gpu_only]
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn multiply<T: Multiplied, D: Value, E: Epilogue>(
    problem: &Problem,
    [a, b]: [*const T; 2],
    c: *const D,
    vectors: [*const D; 2],
    d: *mut D,
    epilogue: E,
) {
    let thread = thread::thread_idx_x() as usize;
    let (warp, lane) = (thread / 32, thread % 32);
    let work = Work::of(thread::block_idx_x(), problem);
    let by_k = problem.b.row == 1;
    let memory = DynamicSharedArray::<f32>::get();
    // The sums of all warps, by warp, register and lane.
    let place = |warp: usize, i: usize| memory.wrapping_add((warp * REGISTERS + i) * 32 + lane);
    // SAFETY: the caller's promise. Each thread writes sums of its own, which all read after the barrier.
    unsafe {
        let sums = if by_k {
            sums::<T, true>(problem, work, [a, b], (warp, lane))
        } else {
            sums::<T, false>(problem, work, [a, b], (warp, lane))
        };
        each::<REGISTERS>(|i| place(warp, i).write(sums[i / 4][i % 4]));
        // Each thread adds two sums of all warps.
        thread::sync_threads();
        let of_warps = |i: usize| {
            let mut sum = 0.0;
            each::<WARPS>(|other| sum += place(other, i).read());
            sum
        };
        let (tile, below) = (warp / 2, warp % 2);
        let first = 4 * tile + 2 * below;
        let column = |n: usize| work.column + if by_k { 8 * tile + n } else { TILES * n + tile };
        let columns = [column(lane % 4 * 2), column(lane % 4 * 2 + 1)];
        let output = Output::new(problem, c, vectors, d, epilogue);
        let row = lane / 4 + 8 * below;
        output.write_pair([of_warps(first), of_warps(first + 1)], work.output, row, columns);
    }
}

const _: () = {
    // A warp writes one half of a tile's rows.
    assert!(WARPS == 2 * TILES);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_of_a_tile_has_one_warp() {
        for (k, splits) in [(1, 1), (32, 1), (1000, 1), (4096, 3), (7168, 8), (65, 3)] {
            let problem = Problem { m: 1, n: 100, k, batches: 2, splits, ..Problem::default() };
            let mut found: Vec<_> = (0..blocks(&problem) as u32)
                .map(|block| Work::of(block, &problem))
                .flat_map(|work| {
                    let chunks = (0..WARPS)
                        .flat_map(move |warp| (0..k).map(move |i| work.chunk(warp, i)))
                        .filter(move |chunk| *chunk < work.chunks.1);
                    chunks.map(move |chunk| (work.batch, work.column, chunk))
                })
                .collect();
            found.sort_unstable();
            let chunks = 0..k.div_ceil(DEPTH as u32);
            let expected: Vec<_> = (0..2)
                .flat_map(|batch| [0, 32, 64, 96].map(|column| (batch, column)))
                .flat_map(|(batch, column)| chunks.clone().map(move |x| (batch, column, x)))
                .collect();
            assert_eq!(found, expected, "{k} {splits}");
        }
    }
}

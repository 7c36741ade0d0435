//! Products with few rows, which memory bounds: B is read once, as fast as a copy.
//!
//! With at most [`ROWS`] rows, each element of B is multiplied so seldom that its way from memory is what takes time. So nothing goes
//! through shared memory on the way: each lane loads what it multiplies, 16 bytes at a time, three chunks ahead, and only the
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
//! loaded 16 bytes at a time, others element by element. The end of K, and all of a B whose rows begin at other addresses, are
//! loaded element by element, after the chunks of B that are loaded 16 bytes at a time.

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
        let which = if tile.is_multiple_of(2) { 0x5410 } else { 0x7632 };
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
    /// Whether all lanes' rows are.
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
        Self { rows, stride, k, is_aligned }
    }

    /// The lane's elements of a chunk, of which the lane's begin at `first` along K.
    ///
    /// # Safety
    /// The matrix is valid for reads, and has the whole chunk.
    #[inline(always)]
    unsafe fn load_whole(&self, first: usize) -> [[u32; 4]; 2] {
        let from = self.rows.map(|row| row.wrapping_add(first * self.stride));
        // SAFETY: the caller's promise; an element is 16 bits.
        unsafe {
            if self.is_aligned {
                return build(|row| quads::load(from[row].cast()).to_array());
            }
            let bits = |row: usize, i: usize| {
                u32::from(from[row].wrapping_add(i * self.stride).cast::<u16>().read())
            };
            build(|row| build(|word| bits(row, 2 * word) | bits(row, 2 * word + 1) << 16))
        }
    }

    /// As [`load_whole`](Self::load_whole), of any matrix and chunk: zeros past the end of K.
    ///
    /// # Safety
    /// The matrix is valid for reads.
    #[inline(always)]
    unsafe fn load(&self, first: usize) -> [[u32; 4]; 2] {
        build(|row| {
            let from = self.rows[row].wrapping_add(first * self.stride);
            // SAFETY: so many elements exist.
            unsafe { load_elements(from, self.stride, count(first, self.k)) }.to_array()
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

    /// The lane's elements of a chunk, of which the lane's begin at `first` along K: eight along K of four columns, or four columns
    /// of eight along K.
    ///
    /// # Safety
    /// As [`Left::load_whole`]; the matrix is aligned.
    #[inline(always)]
    unsafe fn load_whole(&self, first: usize) -> [u32; 4 * TILES] {
        // SAFETY: the caller's promise; a column that is read exists.
        unsafe {
            if BY_K {
                let quads: [Quad; TILES] =
                    build(|tile| quads::load_once(self.column(tile).wrapping_add(first).cast()));
                build(|word| quads[word / 4].to_array()[word % 4])
            } else {
                let quads: [Quad; PER_LANE] =
                    build(|row| quads::load_part(self.row(first + row).cast(), 2 * TILES));
                build(|word| quads[word / 2].to_array()[word % 2])
            }
        }
    }

    /// As [`load_whole`](Self::load_whole), of any matrix and chunk: zeros past the end of K and of the columns.
    ///
    /// # Safety
    /// As [`Left::load`].
    #[inline(always)]
    unsafe fn load(&self, first: usize) -> [u32; 4 * TILES] {
        // SAFETY: so many elements exist.
        unsafe {
            if BY_K {
                let quads: [Quad; TILES] = build(|tile| {
                    load_elements(self.column(tile).wrapping_add(first), 1, count(first, self.k))
                });
                build(|word| quads[word / 4].to_array()[word % 4])
            } else {
                let quads: [Quad; PER_LANE] = build(|row| {
                    let columns = if first + row < self.k { self.columns.min(TILES) } else { 0 };
                    load_elements(self.row(first + row), 1, columns)
                });
                build(|word| quads[word / 2].to_array()[word % 2])
            }
        }
    }

    /// The first element along K of the lane's column of a tile.
    #[inline(always)]
    fn column(&self, tile: usize) -> *const T {
        self.from.wrapping_add((8 * tile).min(self.columns - 1) * self.pitch)
    }

    /// The lane's first column at an index along K.
    #[inline(always)]
    fn row(&self, k: usize) -> *const T {
        self.from.wrapping_add(k * self.pitch)
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
    /// Chunks before this one are whole, and B is loaded 16 bytes at a time there.
    whole: u32,
    warp: usize,
    lane: usize,
}

impl<T: Value, const BY_K: bool> Source<T, BY_K> {
    #[inline(always)]
    fn new(
        problem: &Problem,
        work: Work,
        [a, b]: [*const T; 2],
        (warp, lane): (usize, usize),
    ) -> Self {
        let left = Left::new(problem, a, work.batch, lane);
        let right = Right::<T, BY_K>::new(problem, b, work, lane);
        let whole = if right.is_aligned { problem.k / DEPTH as u32 } else { 0 };
        Self { work, left, right, whole: whole.min(work.chunks.1), warp, lane }
    }

    /// The lane's first element along K of the `i`-th chunk of the warp.
    #[inline(always)]
    fn first(&self, i: u32) -> usize {
        self.work.chunk(self.warp, i) as usize * DEPTH + self.lane % 4 * PER_LANE
    }

    /// Whether the warp has no chunk before `end` from its `i`-th one on.
    #[inline(always)]
    fn is_over(&self, i: u32, end: u32) -> bool {
        self.work.chunk(self.warp, i) >= end
    }

    /// The `i`-th chunk of the warp if it is whole, and else zeros.
    ///
    /// # Safety
    /// Both matrices are valid for reads.
    #[inline(always)]
    unsafe fn load_whole(&self, i: u32) -> Chunk {
        if self.is_over(i, self.whole) {
            return Chunk::zeroed();
        }
        let first = self.first(i);
        // SAFETY: the caller's promise; the chunk is whole.
        unsafe { Chunk { a: self.left.load_whole(first), b: self.right.load_whole(first) } }
    }

    /// The `i`-th chunk of the warp, which there is.
    ///
    /// # Safety
    /// Both matrices are valid for reads.
    #[inline(always)]
    unsafe fn load(&self, i: u32) -> Chunk {
        let first = self.first(i);
        // SAFETY: the caller's promise.
        unsafe { Chunk { a: self.left.load(first), b: self.right.load(first) } }
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
    let source = Source::<T, BY_K>::new(problem, work, [a, b], (warp, lane));
    // SAFETY: zero bits are numbers.
    let mut sums: Sums = unsafe { core::mem::zeroed() };
    // The first round multiplies zeros, so that there is one place of each load.
    // SAFETY: zero bits are numbers.
    let mut ring: [Chunk; RING] = unsafe { core::mem::zeroed() };
    let mut i = 0;
    // SAFETY: whether there is a chunk depends on the warp alone, so its lanes are together; the caller's promise.
    unsafe {
        loop {
            unrolled!(RING, |slot| {
                ring[slot].add_products::<T, BY_K>(&mut sums);
                ring[slot] = source.load_whole(i + slot as u32);
            });
            if source.is_over(i, source.whole) {
                break;
            }
            i += RING as u32;
        }
        // What is left, from the round on in which the last whole chunk was loaded: the end of K, or all of a B that is not aligned.
        i = i.saturating_sub(RING as u32);
        while !source.is_over(i, work.chunks.1) {
            if source.is_over(i, source.whole) {
                source.load(i).add_products::<T, BY_K>(&mut sums);
            }
            i += 1;
        }
    }
    sums
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

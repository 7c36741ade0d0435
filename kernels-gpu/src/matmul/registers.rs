//! The third step: tiles in registers.
//!
//! A thread computes 16 × 8 of D: for each k it loads 16 elements of A and 8 of B from shared memory, 16 bytes at a time, for 128
//! multiplications, which is what lets ordinary cores reach their rate. A block of 256 threads computes 256 × 128.
//!
//! * The tiles lie in shared memory as rows of K, so that both are read along rows. Where K is contiguous in global memory, a
//!   thread turns what it loaded: it stores four elements to four rows. The places in row k are exchanged by an exclusive or with
//!   k / 4, which spreads these four rows over the banks.
//! * The next tiles are loaded to registers before the current ones are multiplied, and stored to the other half of shared
//!   memory after that: one barrier a tile.
//! * The lanes of a warp are 4 × 8 threads, so that a load of A has 4 different vectors and one of B 8.
//!
//! With f32 this is the product on ordinary cores: every step is an f32 fused multiply-add.

use super::output::Output;
use super::place::Place;
use super::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use crate::quads;
use cuda_std::unroll::{build, each};
use cuda_std::vector::Vec4;
use cuda_std::{bf16, f16};

/// Rows of D of a block.
pub const ROWS: usize = 256;
/// Columns of D of a block.
pub const COLUMNS: usize = 128;
/// K of a tile.
const DEPTH: usize = 16;
/// Threads of a block.
pub const THREADS: usize = 256;
/// Elements that a thread loads or stores together.
const QUAD: usize = 4;
/// Rows (or columns) that quads of 16 threads cover: a thread's quads are this far apart.
const APART: usize = 16 * QUAD;
/// Rows of D of a thread.
const OWN_ROWS: usize = ROWS / APART * QUAD;
/// Columns of D of a thread.
const OWN_COLUMNS: usize = COLUMNS / APART * QUAD;
/// Elements of a tile of A and one of B.
const STAGE: usize = (ROWS + COLUMNS) * DEPTH;
/// A thread's sums.
type Sums = [[f32; OWN_COLUMNS]; OWN_ROWS];

/// Quads that a thread loads of a tile `side` wide.
const fn quads(side: usize) -> usize {
    side * DEPTH / QUAD / THREADS
}
/// Blocks of a product's grid.
#[must_use]
pub const fn register_blocks(problem: &Problem) -> usize {
    problem.tiles(ROWS, COLUMNS)
}

/// Where element (k, i) of a tile `side` wide is.
#[inline(always)]
const fn place(side: usize, k: usize, i: usize) -> usize {
    k * side + (i ^ (k / QUAD % 4 * 8))
}

/// One of the matrices, as a thread loads its quads of the tiles along K. The matrix is a number of lines of contiguous elements:
/// rows of A (or columns of B) along K, or rows of K.
struct Operand<T, const SIDE: usize, const QUADS: usize> {
    is_by_k: bool,
    /// The thread's first quad of the next tile. The others are a fixed number of lines apart.
    from: *const T,
    /// Elements from a line to the next.
    pitch: usize,
    /// Lines from the thread's first one on, and elements of a line from the thread's first one on.
    lines: u32,
    len: u32,
    is_aligned: bool,
    /// Where the first quad goes in a tile.
    to: usize,
    quads: [[f32; QUAD]; QUADS],
}

impl<T: Value, const SIDE: usize, const QUADS: usize> Operand<T, SIDE, QUADS> {
    /// From the first element of the block's tile, the distances to the next one along K and along the other dimension, one of
    /// which is 1, and the number of elements along both.
    #[inline(always)]
    fn new(tile: *const T, [along_k, along_rows]: [u64; 2], k: usize, rows: usize) -> Self {
        let (quad, is_by_k) = (thread::thread_idx_x() as usize, along_k == 1);
        let line_quads = if is_by_k { DEPTH } else { SIDE } / QUAD;
        let (line, first) = (quad / line_quads, quad % line_quads * QUAD);
        let pitch = if is_by_k { along_rows } else { along_k } as usize;
        let (lines, len) = if is_by_k { (rows, k) } else { (k, rows) };
        let bytes = QUAD * size_of::<T>();
        Self {
            is_by_k,
            from: tile.wrapping_add(line * pitch + first),
            pitch,
            lines: lines.saturating_sub(line) as u32,
            len: len.saturating_sub(first) as u32,
            is_aligned: tile.addr().is_multiple_of(bytes) && pitch.is_multiple_of(QUAD),
            to: if is_by_k { place(SIDE, first, line) } else { place(SIDE, line, first) },
            quads: [[0.0; QUAD]; QUADS],
        }
    }

    /// Lines from a quad of the thread to its next one.
    #[inline(always)]
    fn lines_apart(&self) -> usize {
        THREADS * QUAD / if self.is_by_k { DEPTH } else { SIDE }
    }

    /// Loads the thread's quads, zeros past the matrix, and goes on to the next tile.
    ///
    /// # Safety
    /// The matrix is valid for reads.
    #[inline(always)]
    unsafe fn load(&mut self) {
        let apart = self.lines_apart();
        let is_whole = self.lines as usize > (QUADS - 1) * apart && self.len as usize >= QUAD;
        let line = |i: usize| self.from.wrapping_add(i * apart * self.pitch);
        // SAFETY: inside, as `lines` and `len` count what is left.
        self.quads = unsafe {
            if self.is_aligned && is_whole {
                build(|i| {
                    let quad = quads::load_part(line(i).cast(), QUAD * size_of::<T>());
                    build(|j| quads::lane::<T>(quad, j).widen())
                })
            } else {
                build(|i| {
                    let is_line = i * apart < self.lines as usize;
                    load_some(line(i), if is_line { self.len as usize } else { 0 })
                })
            }
        };
        if self.is_by_k {
            self.from = self.from.wrapping_add(DEPTH);
            self.len = self.len.saturating_sub(DEPTH as u32);
        } else {
            self.from = self.from.wrapping_add(DEPTH * self.pitch);
            self.lines = self.lines.saturating_sub(DEPTH as u32);
        }
    }

    /// Stores what was loaded to a tile, as rows of K.
    ///
    /// # Safety
    /// The tile has room, and no other thread reaches these elements.
    #[inline(always)]
    unsafe fn store(&self, tile: *mut f32) {
        let apart = self.lines_apart();
        // SAFETY: inside the tile; distances along a row do not reach the bits that are exchanged, or change them alike.
        each::<QUADS>(|i| unsafe {
            if self.is_by_k {
                store_column::<SIDE>(tile.add(self.to + i * apart), self.quads[i]);
            } else {
                let exchanged = i * apart / QUAD % 4 * 8;
                let to = tile.add((self.to ^ exchanged) + i * apart * SIDE).cast::<Vec4<f32>>();
                let [x, y, z, w] = self.quads[i];
                ((*to).x, (*to).y, (*to).z, (*to).w) = (x, y, z, w);
            }
        });
    }
}

/// Stores four elements to as many rows of a tile: to one column, as the four rows are exchanged alike.
///
/// # Safety
/// As [`Operand::store`].
#[inline(always)]
unsafe fn store_column<const SIDE: usize>(to: *mut f32, quad: [f32; QUAD]) {
    // SAFETY: inside the tile, by the caller's promise.
    each::<QUAD>(|j| unsafe { to.add(j * SIDE).write(quad[j]) });
}

/// Up to four neighbours, and zeros for the others.
///
/// # Safety
/// The first `count` elements are valid for reads.
#[inline(always)]
unsafe fn load_some<T: Value>(from: *const T, count: usize) -> [f32; QUAD] {
    // SAFETY: below the count.
    build(|i| if i < count { unsafe { from.add(i).read().widen() } } else { 0.0 })
}

/// What a block multiplies: its tile of D, and both matrices.
struct Work<T> {
    batch: usize,
    row: usize,
    column: usize,
    a: Operand<T, ROWS, { quads(ROWS) }>,
    b: Operand<T, COLUMNS, { quads(COLUMNS) }>,
}

impl<T: Value> Work<T> {
    #[inline(always)]
    fn new(problem: &Problem, a: &[T], b: &[T]) -> Self {
        let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
        let Place { batch, row, column } = Place::of(thread::block_idx_x(), problem, ROWS, COLUMNS);
        let (of_a, of_b) = (problem.a, problem.b);
        let first = a.as_ptr().wrapping_add(of_a.index(batch, row, 0));
        let a = Operand::new(first, [of_a.column, of_a.row], k, m - row);
        let first = b.as_ptr().wrapping_add(of_b.index(batch, 0, column));
        let b = Operand::new(first, [of_b.row, of_b.column], k, n - column);
        Self { batch, row, column, a, b }
    }
}

/// The first row and column of a thread's elements in the block's tile: lanes of a warp are 4 × 8 threads, the warps 4 × 2. Four rows
/// and columns begin there, and at each multiple of [`APART`] further.
#[inline(always)]
fn thread_place(thread: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    ((warp / 2 * 4 + lane / 8) * QUAD, (warp % 2 * 8 + lane % 8) * QUAD)
}

/// How far a thread's element `i` is from its first one.
#[inline(always)]
const fn further(i: usize) -> usize {
    i % QUAD + i / QUAD * APART
}

/// A thread's elements of row `k` of a tile.
///
/// # Safety
/// The tile is written and no thread writes it.
#[inline(always)]
unsafe fn load_own<const SIDE: usize, const OWN: usize>(
    tile: *const f32,
    k: usize,
    first: usize,
) -> [f32; OWN] {
    build(|i| {
        let quad = place(SIDE, k, first) + i / QUAD * APART;
        // SAFETY: inside the tile.
        let quad = unsafe { &*tile.add(quad).cast::<Vec4<f32>>() };
        [quad.x, quad.y, quad.z, quad.w][i % QUAD]
    })
}

/// `sums += x yᵀ`.
#[inline(always)]
fn add_products(sums: &mut Sums, x: [f32; OWN_ROWS], y: [f32; OWN_COLUMNS]) {
    each::<OWN_ROWS>(|i| {
        each::<OWN_COLUMNS>(|j| sums[i][j] = x[i].mul_add(y[j], sums[i][j]));
    });
}

/// Multiplies. Launch [`register_blocks`].
///
/// # Safety
/// As [`naive`](fn@super::naive::naive).
#[kernel((bf16, bf16, Plain), (f16, f16, Plain), (f32, f32, Plain), block = THREADS, min_blocks = 1)]
pub unsafe fn registers<T: Value, Out: Value, E: Epilogue>(
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    per_row: &[Out],
    per_column: &[Out],
    mut d: DisjointSlice<Out>,
    epilogue: E,
) {
    let memory = shared_array![f32; 2 * STAGE].as_mut_ptr();
    let tiles = |half: usize| {
        let tile = memory.wrapping_add(half % 2 * STAGE);
        (tile, tile.wrapping_add(ROWS * DEPTH))
    };
    let mut work = Work::new(&problem, a, b);
    let (row, column) = thread_place(thread::thread_idx_x() as usize);
    // SAFETY: zero bits are numbers. (A list of zeros would become a loop in memory.)
    let mut sums: Sums = unsafe { core::mem::zeroed() };
    let steps = (problem.k as usize).div_ceil(DEPTH);
    // SAFETY: the caller's promise for the matrices; tiles are written and read on different sides of a barrier.
    unsafe {
        if steps > 0 {
            work.a.load();
            work.b.load();
        }
        for step in 0..steps {
            let (left, right) = tiles(step);
            work.a.store(left);
            work.b.store(right);
            // The tiles are there; and all have finished with the other half, which is written next.
            thread::sync_threads();
            if step + 1 < steps {
                work.a.load();
                work.b.load();
            }
            each::<DEPTH>(|k| {
                let x = load_own::<ROWS, OWN_ROWS>(left, k, row);
                let y = load_own::<COLUMNS, OWN_COLUMNS>(right, k, column);
                add_products(&mut sums, x, y);
            });
        }
    }
    let vectors = [per_row.as_ptr(), per_column.as_ptr()];
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    // SAFETY: the caller's promise.
    let output = unsafe { Output::new(&problem, c_from, vectors, d.as_mut_ptr(), epilogue) };
    let (row, column) = (work.row + row, work.column + column);
    each::<OWN_ROWS>(|i| {
        each::<{ OWN_COLUMNS / 2 }>(|pair| {
            let (j, row) = (2 * pair, row + further(i));
            let columns = [column + further(j), column + further(j) + 1];
            // SAFETY: the batch is inside; the rest is the caller's promise.
            unsafe { output.write_pair([sums[i][j], sums[i][j + 1]], work.batch, row, columns) };
        });
    });
}

//! The third step: tiles in registers.
//!
//! A thread computes 8 × 8 of D: for each k it loads 8 elements of A and 8 of B from shared memory, 16 bytes at a time, for 64
//! multiplications, which is what lets ordinary cores reach their rate. A block of 256 threads computes 128 × 128.
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
use super::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use crate::quads;
use cuda_std::unroll::{build, each};
use cuda_std::vector::Vec4;
use cuda_std::{bf16, f16};

/// Rows and columns of D of a block.
pub const SIDE: usize = 128;
/// K of a tile.
const DEPTH: usize = 16;
/// Threads of a block.
pub const THREADS: usize = 256;
/// Rows and columns of D of a thread.
const OWN: usize = 8;
/// Elements that a thread loads or stores together.
const QUAD: usize = 4;
/// Quads of a tile that a thread loads.
const QUADS: usize = SIDE * DEPTH / QUAD / THREADS;
/// Elements of a tile.
const TILE: usize = SIDE * DEPTH;
/// Tiles of D that lie below each other and run at a time: they share the tiles of B.
const GROUP: usize = 8;

/// Blocks of a product's grid.
#[must_use]
pub const fn register_blocks(problem: &Problem) -> usize {
    problem.tiles(SIDE, SIDE)
}

/// Where element (k, i) of a tile is.
#[inline(always)]
const fn place(k: usize, i: usize) -> usize {
    k * SIDE + (i ^ (k / QUAD % 4 * 8))
}

/// A matrix as the tiles of one block are loaded from it, and what the thread has loaded.
struct Operand<T> {
    /// The first element of the block's rows of A (or columns of B).
    from: *const T,
    /// Elements from one to the next along K, and along the other dimension; one of the two is 1.
    along_k: usize,
    along_rows: usize,
    /// Rows of A or columns of B from the block's first one on.
    rows: usize,
    k: usize,
    is_aligned: bool,
    quads: [[f32; QUAD]; QUADS],
}

impl<T: Value> Operand<T> {
    /// Quads of the thread: (index along K, index along the other dimension) of the first element.
    #[inline(always)]
    fn places(&self) -> [(usize, usize); QUADS] {
        let thread = thread::thread_idx_x() as usize;
        build(|i| {
            let quad = thread + i * THREADS;
            if self.along_k == 1 {
                (quad % (DEPTH / QUAD) * QUAD, quad / (DEPTH / QUAD))
            } else {
                (quad / (SIDE / QUAD), quad % (SIDE / QUAD) * QUAD)
            }
        })
    }

    /// Loads the thread's quads of the tile at `depth` along K, zeros past the matrix.
    ///
    /// # Safety
    /// The matrix is valid for reads.
    #[inline(always)]
    unsafe fn load(&mut self, depth: usize) {
        let places = self.places();
        each::<QUADS>(|i| {
            let (k, row) = (depth + places[i].0, places[i].1);
            let (left, is_row) = if self.along_k == 1 {
                (self.k.saturating_sub(k), row < self.rows)
            } else {
                (self.rows.saturating_sub(row), k < self.k)
            };
            let from = self.from.wrapping_add(k * self.along_k + row * self.along_rows);
            let count = if is_row { left } else { 0 };
            // SAFETY: `count` elements are inside.
            self.quads[i] = unsafe { load_quad(from, count, self.is_aligned) };
        });
    }

    /// Stores what was loaded to a tile, as rows of K.
    ///
    /// # Safety
    /// The tile has room, and no other thread reaches these elements.
    #[inline(always)]
    unsafe fn store(&self, tile: *mut f32) {
        let places = self.places();
        each::<QUADS>(|i| {
            let ((k, row), quad) = (places[i], self.quads[i]);
            // SAFETY: inside the tile.
            unsafe {
                if self.along_k == 1 {
                    store_column(tile, k, row, quad);
                } else {
                    let to = &mut *tile.add(place(k, row)).cast::<Vec4<f32>>();
                    (to.x, to.y, to.z, to.w) = (quad[0], quad[1], quad[2], quad[3]);
                }
            }
        });
    }
}

/// Stores four elements to as many rows of a tile.
///
/// # Safety
/// As [`Operand::store`].
#[inline(always)]
unsafe fn store_column(tile: *mut f32, k: usize, row: usize, quad: [f32; QUAD]) {
    // SAFETY: inside the tile, by the caller's promise.
    each::<QUAD>(|j| unsafe { tile.add(place(k + j, row)).write(quad[j]) });
}

/// Up to four neighbours, and zeros for the others.
///
/// # Safety
/// The first `count` elements are valid for reads, and aligned to four if `is_aligned`.
#[inline(always)]
unsafe fn load_quad<T: Value>(from: *const T, count: usize, is_aligned: bool) -> [f32; QUAD] {
    // SAFETY: the caller's promise.
    unsafe {
        if is_aligned && count >= QUAD {
            let quad = quads::load_part(from.cast(), QUAD * size_of::<T>());
            build(|i| quads::lane::<T>(quad, i).widen())
        } else {
            build(|i| if i < count { from.add(i).read().widen() } else { 0.0 })
        }
    }
}

/// What a block multiplies: its tile of D, and both matrices.
struct Work<T> {
    batch: usize,
    row: usize,
    column: usize,
    a: Operand<T>,
    b: Operand<T>,
}

impl<T: Value> Work<T> {
    #[inline(always)]
    fn new(problem: &Problem, a: &[T], b: &[T]) -> Self {
        let (down, across) = ((problem.m as usize).div_ceil(SIDE), (problem.n as usize).div_ceil(SIDE));
        let block = thread::block_idx_x() as usize;
        let (batch, tile) = (block / (down * across), block % (down * across));
        let (group, within) = (tile / (GROUP * across), tile % (GROUP * across));
        let height = (down - group * GROUP).min(GROUP);
        let row = (group * GROUP + within % height) * SIDE;
        let column = within / height * SIDE;
        let operand = |matrix: &[T], at: usize, [along_k, along_rows]: [u64; 2], rows: usize| {
            let [along_k, along_rows] = [along_k as usize, along_rows as usize];
            let from = matrix.as_ptr().wrapping_add(at);
            let (bytes, pitch) = (QUAD * size_of::<T>(), along_k.max(along_rows));
            let is_aligned = from.addr().is_multiple_of(bytes) && pitch.is_multiple_of(QUAD);
            let k = problem.k as usize;
            let quads = [[0.0; QUAD]; QUADS];
            Operand { from, along_k, along_rows, rows, k, is_aligned, quads }
        };
        let (m, n) = (problem.m as usize, problem.n as usize);
        let [of_a, of_b] = [problem.a, problem.b];
        let a = operand(a, of_a.index(batch, row, 0), [of_a.column, of_a.row], m - row);
        let b = operand(b, of_b.index(batch, 0, column), [of_b.row, of_b.column], n - column);
        Self { batch, row, column, a, b }
    }
}

/// The first row and column of a thread's elements in the block's tile: lanes of a warp are 4 × 8 threads, the warps 4 × 2. Four rows
/// and columns begin there, and four half of the tile further.
#[inline(always)]
fn thread_place(thread: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    ((warp / 2 * 4 + lane / 8) * QUAD, (warp % 2 * 8 + lane % 8) * QUAD)
}

/// A thread's elements of row `k` of a tile: four from `first` on, and four half of the tile further.
///
/// # Safety
/// The tile is written and no thread writes it.
#[inline(always)]
unsafe fn load_own(tile: *const f32, k: usize, first: usize) -> [f32; OWN] {
    build(|i| {
        let quad = place(k, first) + i / QUAD * (SIDE / 2);
        // SAFETY: inside the tile.
        let quad = unsafe { &*tile.add(quad).cast::<Vec4<f32>>() };
        [quad.x, quad.y, quad.z, quad.w][i % QUAD]
    })
}

/// `sums += x yᵀ`.
#[inline(always)]
fn add_products(sums: &mut [[f32; OWN]; OWN], x: [f32; OWN], y: [f32; OWN]) {
    each::<{ OWN * OWN }>(|i| {
        let sum = &mut sums[i / OWN][i % OWN];
        *sum = x[i / OWN].mul_add(y[i % OWN], *sum);
    });
}

/// Multiplies. Launch [`register_blocks`].
///
/// # Safety
/// As [`naive`](fn@super::naive::naive).
#[kernel((bf16, bf16, Plain), (f16, f16, Plain), (f32, f32, Plain), block = THREADS, min_blocks = 2)]
pub unsafe fn registers<T: Value, D: Value, E: Epilogue>(
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[D],
    per_row: &[D],
    per_column: &[D],
    mut d: DisjointSlice<D>,
    epilogue: E,
) {
    let memory = shared_array![f32; 4 * TILE].as_mut_ptr();
    let tiles = |half: usize| {
        let tile = memory.wrapping_add(half % 2 * 2 * TILE);
        (tile, tile.wrapping_add(TILE))
    };
    let mut work = Work::new(&problem, a, b);
    let (row, column) = thread_place(thread::thread_idx_x() as usize);
    // SAFETY: zero bits are numbers. (A list of zeros would become a loop in memory.)
    let mut sums: [[f32; OWN]; OWN] = unsafe { core::mem::zeroed() };
    let steps = (problem.k as usize).div_ceil(DEPTH);
    // SAFETY: the caller's promise for the matrices; tiles are written and read on different sides of a barrier.
    unsafe {
        if steps > 0 {
            work.a.load(0);
            work.b.load(0);
        }
        for step in 0..steps {
            let (left, right) = tiles(step);
            work.a.store(left);
            work.b.store(right);
            // The tiles are there; and all have finished with the other half, which is written next.
            thread::sync_threads();
            if step + 1 < steps {
                work.a.load((step + 1) * DEPTH);
                work.b.load((step + 1) * DEPTH);
            }
            each::<DEPTH>(|k| {
                add_products(&mut sums, load_own(left, k, row), load_own(right, k, column));
            });
        }
    }
    let output = Output::new(problem, c, [per_row, per_column], &mut d, epilogue);
    let (row, column) = (work.row + row, work.column + column);
    let further = |i: usize| i % QUAD + i / QUAD * (SIDE / 2);
    each::<{ OWN * OWN / 2 }>(|pair| {
        let (i, j) = (pair / (OWN / 2), pair % (OWN / 2) * 2);
        let sums = [sums[i][j], sums[i][j + 1]];
        // SAFETY: the batch is inside; the rest is the caller's promise.
        unsafe { output.write_pair(sums, work.batch, row + further(i), column + further(j)) };
    });
}

//! `mma` and `cp.async`: the product by warps, for every GPU since `sm_80`, and for matrices that the copy engine cannot address.
//!
//! A block of 8 warps computes 128 × 128 of D, each warp 64 × 32. Tiles of A and B go through [`STAGES`] stages of shared memory:
//! while the warps multiply one, the copies of the next ones are under way, by `cp.async`, which takes no registers and
//! no thread's time. One barrier a stage suffices: it says that all have finished the stage before, which is the one
//! that is filled next.
//!
//! Both orders of both matrices are read as they lie in memory: rows along K by `ldmatrix`; rows of K, of 16-bit elements and bytes, by
//! its transposing form, and of wider elements one by one ([`operand`]). Tiles are swizzled so that none of it meets bank
//! conflicts, but for bytes along rows of K, where two rows of eight meet.

mod copies;
mod kernels;
pub mod operand;
mod scaled;

pub use kernels::{warps_double, warps_grouped, warps_integer, warps_three_tf32, with_epilogue};
pub use scaled::warps_scaled;

use copies::Tile;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::matrix::converge;
use cuda_std::shared::DynamicSharedArray;
use cuda_std::unroll::{build, each};
use cuda_std::unrolled;
use operand::Operand;

use super::Problem;
use super::place::Place;
use crate::prelude::*;

/// Rows and columns of D of a block.
pub const SIDE: usize = 128;
/// Rows of D of a warp.
pub const WARP_ROWS: usize = 64;
/// Columns of D of a warp.
pub const WARP_COLUMNS: usize = 32;
/// Threads of a block.
pub const THREADS: usize = 32 * (SIDE / WARP_ROWS) * (SIDE / WARP_COLUMNS);
/// Stages of shared memory.
pub const STAGES: usize = 4;
/// Fragments of 16 rows of a warp.
const DOWN: usize = WARP_ROWS / 16;
/// Pairs of fragments of 8 columns of a warp.
const ACROSS: usize = WARP_COLUMNS / 16;
/// A lane's sums: fragments by rows, pairs of columns, and halves of a pair.
pub type Sums<O> = [[[[<O as Operand>::Sum; 4]; 2]; ACROSS]; DOWN];

/// Bytes of a tile of A or of B.
pub const fn tile_bytes<O: Operand>() -> usize {
    SIDE * O::DEPTH * size_of::<O::Element>()
}

/// Dynamic shared memory of a block.
pub const fn shared_bytes<O: Operand>() -> usize {
    2 * STAGES * tile_bytes::<O>()
}

/// Blocks of a product's grid, batches outermost.
#[must_use]
pub const fn blocks(problem: &Problem) -> usize {
    problem.tiles(SIDE, SIDE)
}

/// The first row and column of a warp in its block's tile.
#[inline(always)]
fn warp_place(thread: usize) -> (usize, usize) {
    const DOWN: usize = SIDE / WARP_ROWS;
    let warp = thread / 32;
    (warp % DOWN * WARP_ROWS, warp / DOWN * WARP_COLUMNS)
}

/// Multiplies, in either order of A and B, and gives `finish` the thread's sums in pairs of a row: the row, both columns, and the
/// sums. Rows and columns may be past those of D.
///
/// # Safety
/// - All threads of a block of [`THREADS`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else
///   uses.
/// - `a` and `b` are valid for what `problem` says, and no thread writes them meanwhile.
#[inline(always)]
pub unsafe fn multiply<O: Operand>(
    problem: &Problem,
    place: Place,
    a: *const O::Element,
    b: *const O::Element,
    finish: impl FnMut(usize, [usize; 2], [O::Sum; 2]),
) {
    let (a_by_k, b_by_k) = (problem.a.column == 1, problem.b.row == 1);
    // SAFETY: the caller's promise; each branch is taken by the whole grid.
    let sums = unsafe {
        match (a_by_k, b_by_k) {
            (true, true) => sums::<O, _, true, true>(problem, place, a, b, OwnChains),
            (true, false) => sums::<O, _, true, false>(problem, place, a, b, OwnChains),
            (false, true) => sums::<O, _, false, true>(problem, place, a, b, OwnChains),
            (false, false) => sums::<O, _, false, false>(problem, place, a, b, OwnChains),
        }
    };
    finish_all::<O>(&sums, place, (a_by_k, b_by_k), finish);
}

/// [`multiply`] of operands that are contiguous along K, where `chains` adds the sums of some stages to the others.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn multiply_along_k<O: Operand, C: Chains<O>>(
    problem: &Problem,
    place: Place,
    a: *const O::Element,
    b: *const O::Element,
    chains: C,
    finish: impl FnMut(usize, [usize; 2], [O::Sum; 2]),
) {
    // SAFETY: the caller's promise.
    let sums = unsafe { sums::<O, C, true, true>(problem, place, a, b, chains) };
    finish_all::<O>(&sums, place, (true, true), finish);
}

/// Gives `finish` the thread's sums.
#[inline(always)]
fn finish_all<O: Operand>(
    sums: &Sums<O>,
    place: Place,
    (a_by_k, b_by_k): (bool, bool),
    mut finish: impl FnMut(usize, [usize; 2], [O::Sum; 2]),
) {
    let thread = thread::thread_idx_x() as usize;
    let (warp_row, warp_column) = warp_place(thread);
    let rows = if a_by_k { O::rows::<true>(thread % 32) } else { O::rows::<false>(thread % 32) };
    let columns =
        if b_by_k { O::columns::<true>(thread % 32) } else { O::columns::<false>(thread % 32) };
    let (row, column) = (place.row + warp_row, place.column + warp_column);
    unrolled!(2 * FRAGMENTS, |x| {
        let ((i, j, half), below) = (fragment(x / 2), x % 2);
        let own = columns[half];
        let sums = sums[i][j][half];
        let columns = [column + 16 * j + own[0], column + 16 * j + own[1]];
        finish(row + 16 * i + rows[below], columns, [sums[2 * below], sums[2 * below + 1]]);
    });
}

/// The thread's sums, with K contiguous in A or B or not.
///
/// # Safety
/// As [`multiply`].
#[inline(always)]
unsafe fn sums<O: Operand, C: Chains<O>, const A_BY_K: bool, const B_BY_K: bool>(
    problem: &Problem,
    place: Place,
    a: *const O::Element,
    b: *const O::Element,
    chains: C,
) -> Sums<O> {
    let thread = thread::thread_idx_x() as usize;
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let pitch_a = if A_BY_K { problem.a.row } else { problem.a.column } as usize;
    let pitch_b = if B_BY_K { problem.b.column } else { problem.b.row } as usize;
    let a = a.wrapping_add(place.batch * problem.a.batch as usize);
    let b = b.wrapping_add(place.batch * problem.b.batch as usize);
    let mut left = Tile::<O, A_BY_K>::new(a, pitch_a, (place.row, m), k, thread);
    let mut right = Tile::<O, B_BY_K>::new(b, pitch_b, (place.column, n), k, thread);
    let memory = DynamicSharedArray::<u8, 128>::get();
    let stage = |number: usize| memory.wrapping_add(number % STAGES * 2 * tile_bytes::<O>());
    let (row, column) = warp_place(thread);
    let bases =
        (O::left_base::<A_BY_K>(thread % 32, row), O::right_base::<B_BY_K>(thread % 32, column));
    let steps = k.div_ceil(O::DEPTH);
    // SAFETY: zero bits are numbers.
    let (mut sums, mut chain): (Sums<O>, Sums<O>) = unsafe { core::mem::zeroed() };
    // SAFETY: a stage is filled after the barrier that follows its last use, and used after the barrier that follows the wait
    // for its copies; all lanes of a warp are together.
    unsafe {
        let mut fill = |number: usize| {
            left.copy(stage(number));
            right.copy(stage(number).wrapping_add(tile_bytes::<O>()));
            commit_group();
        };
        let ahead = steps.min(STAGES - 1);
        (0..ahead).for_each(&mut fill);
        // As many groups as stages, however few there are.
        (ahead..STAGES - 1).for_each(|_| commit_group());
        for number in 0..steps {
            wait_groups::<{ STAGES - 2 }>();
            // The stage is there for all threads, and all have finished with the one before.
            thread::sync_threads();
            if number + STAGES - 1 < steps {
                fill(number + STAGES - 1);
            } else {
                commit_group();
            }
            if const { C::STAGES == 0 } {
                multiply_stage::<O, A_BY_K, B_BY_K>(stage(number), bases, &mut sums);
            } else {
                multiply_stage::<O, A_BY_K, B_BY_K>(stage(number), bases, &mut chain);
                if (number + 1).is_multiple_of(C::STAGES) || number + 1 == steps {
                    let rows = O::rows::<A_BY_K>(thread % 32).map(|own| place.row + row + own);
                    add_chain(chains, number / C::STAGES, rows, &mut sums, &mut chain);
                }
            }
        }
    }
    sums
}

/// Adds the products of one stage.
///
/// # Safety
/// All lanes of a warp call this together; the tiles of A and B in the stage are written.
#[inline(always)]
unsafe fn multiply_stage<O: Operand, const A_BY_K: bool, const B_BY_K: bool>(
    stage: *const u8,
    bases: (usize, usize),
    sums: &mut Sums<O>,
) {
    unrolled!(O::DEPTH / O::K, |step| {
        // SAFETY: the caller's promise.
        unsafe { multiply_step::<O, A_BY_K, B_BY_K>(stage, bases, step, sums) }
    });
}

/// Adds the products of one step along K.
///
/// # Safety
/// As [`multiply_stage`], for a step inside it.
#[inline(always)]
unsafe fn multiply_step<O: Operand, const A_BY_K: bool, const B_BY_K: bool>(
    stage: *const u8,
    (left_base, right_base): (usize, usize),
    step: usize,
    sums: &mut Sums<O>,
) {
    let right_tile = stage.wrapping_add(tile_bytes::<O>());
    // SAFETY: the caller's promise.
    unsafe {
        let right: [[O::Right; 2]; ACROSS] =
            build(|j| O::right::<B_BY_K>(right_tile, right_base, j, step));
        // Once for all multiplications of the step, which no branch parts.
        converge();
        each::<DOWN>(|i| {
            let left = O::left::<A_BY_K>(stage, left_base, i, step);
            each::<{ 2 * ACROSS }>(|j| {
                let sum = &mut sums[i][j / 2][j % 2];
                *sum = O::multiply(left, right[j / 2][j % 2], *sum);
            });
        });
    }
}

/// Fragments of a warp's sums.
const FRAGMENTS: usize = DOWN * ACROSS * 2;

/// The row of fragments, the pair and the half of it of fragment `x`.
#[inline(always)]
const fn fragment(x: usize) -> (usize, usize, usize) {
    (x / (2 * ACROSS), x / 2 % ACROSS, x % 2)
}

/// How the sums of a few stages are added to the others.
trait Chains<O: Operand>: Copy {
    /// Stages of a chain; 0 if all are one.
    const STAGES: usize;

    /// What belongs to a chain beside its rows.
    type OfChain: Copy;

    /// Loads that of a chain, by its number along K.
    ///
    /// # Safety
    /// The chain is one of the product.
    unsafe fn load(self, number: usize) -> Self::OfChain;

    /// The sums with those of a chain: two of each row, which may be past those of D.
    ///
    /// # Safety
    /// The chain is one of the product.
    unsafe fn add(
        self,
        number: usize,
        of_chain: Self::OfChain,
        rows: [usize; 2],
        sums: [O::Sum; 4],
        chain: [O::Sum; 4],
    ) -> [O::Sum; 4];
}

/// As the operand has it.
#[derive(Clone, Copy)]
struct OwnChains;

impl<O: Operand> Chains<O> for OwnChains {
    const STAGES: usize = O::CHAIN;
    type OfChain = ();

    #[inline(always)]
    unsafe fn load(self, _: usize) {}

    #[inline(always)]
    unsafe fn add(
        self,
        _: usize,
        (): (),
        _: [usize; 2],
        sums: [O::Sum; 4],
        chain: [O::Sum; 4],
    ) -> [O::Sum; 4] {
        O::add(sums, chain)
    }
}

/// Adds the sums of a chain, and sets them to zero. `rows` are those of the first fragment.
///
/// # Safety
/// The chain is one of the product.
#[inline(always)]
unsafe fn add_chain<O: Operand, C: Chains<O>>(
    chains: C,
    number: usize,
    rows: [usize; 2],
    sums: &mut Sums<O>,
    chain: &mut Sums<O>,
) {
    // SAFETY: the caller's promise; zero bits are numbers.
    unsafe {
        let of_chain = chains.load(number);
        unrolled!(FRAGMENTS, |x| {
            let (i, j, half) = fragment(x);
            let rows = [rows[0] + 16 * i, rows[1] + 16 * i];
            let sum = &mut sums[i][j][half];
            *sum = chains.add(number, of_chain, rows, *sum, chain[i][j][half]);
        });
        *chain = core::mem::zeroed();
    }
}

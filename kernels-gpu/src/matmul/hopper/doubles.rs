//! Products of f64: tiles by the copy engine, multiplied by warps (`mma`), for which there is no `wgmma`.
//!
//! A producer fills the stages, as for [`multiply`](super::multiply), so that the warps which multiply copy nothing and wait for no other
//! one: with a barrier for each stage, all warps would load their operands at the same time, while the tensor cores have nothing to do.
//!
//! A block computes 128 × [`SQUARE`] of D at a time, each of its eight warps 64 × 32. The rows of a fragment are not neighbours: those that
//! half a warp reads together lie so that they meet different banks ([`row_of`]). A lane loads single elements, into the registers in which the
//! instruction has them: two with one load would have to be moved there.

use super::super::form::{SQUARE, take_turn};
use super::*;
use bytemuck::Zeroable;
use cuda_std::unroll::{build, each};
use cuda_std::unrolled;

/// Rows and columns of D of a warp, in groups of eight.
const DOWN: usize = ROWS / 8;
const ACROSS: usize = SQUARE / 32;
/// Warps that multiply.
const WARPS: u32 = 2 * WARPGROUP as u32 / 32;
/// K of an instruction, and instructions along K of a stage.
const DEPTH: usize = 8;
const _: () = assert!(2 * DEPTH == depth(size_of::<f64>()) && DOWN == 8);

/// A lane's elements of A for [`DEPTH`] of K, of sixteen rows.
type Left = FragmentA<M16N8K8, f64>;
/// Those of B, of each eight columns.
type Right = [FragmentB<M16N8K8, f64>; ACROSS];

/// Where a lane loads [`DEPTH`] of K of its warp's rows and columns.
#[derive(Clone, Copy)]
struct Half {
    /// The first row of A, and of B, for each four of K.
    a: [*const u8; 2],
    b: [*const u8; 2],
}

/// A lane's sums, by pairs of eight rows, and eight columns.
type Sums = [[[f64; 4]; ACROSS]; DOWN / 2];

/// Which of eight rows row `index` of a fragment is: those of the lanes that load at a time are two apart.
#[inline(always)]
const fn row_of(index: usize) -> usize {
    index % 4 * 2 + index / 4
}

/// `D = alpha · A·B + beta · C`. The factors are these, not those of the problem.
///
/// # Safety
/// As [`multiply`](super::multiply), with maps of A and B alone, both contiguous along K, and tiles of 128 × [`SQUARE`]. The schedule does not
/// add, and K is neither split nor 0.
#[kernel(dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<SQUARE>())]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_double(
    maps: GridConstant<[MapWords; 3]>,
    schedule: Schedule,
    problem: Problem,
    alpha: f64,
    beta: f64,
    a: &[f64],
    b: &[f64],
    c: &[f64],
    c_from: *const f64,
    mut d: DisjointSlice<f64>,
) {
    let output = DoubleOutput { problem: &problem, alpha, beta, c: c_from, d: d.as_mut_ptr() };
    // SAFETY: the caller's promise.
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        multiply_doubles::<{ stages(SQUARE) }>(maps, &schedule, output);
    }
}

/// The body of [`hopper_double`](fn@hopper_double).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_doubles<const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    output: DoubleOutput<'_>,
) {
    // SAFETY: all lanes of each warp are here.
    let group = unsafe { warpgroup_of_warp() };
    let passes = (schedule, output.problem);
    let first = schedule.first(output.problem, false);
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<SQUARE, S>::released_by(WARPS, false) };
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                produce::in_turn::<f64, SQUARE, S>(block, maps, schedule, passes, first);
            },
            consumer own with 232 registers => {
                take_turn();
                consume_doubles(block, passes, output, first, own);
            },
        }
    }
}

/// Multiplies the tiles of all passes of this block, and writes a warp's sums of each.
///
/// # Safety
/// All threads of a consumer call this together; the passes, and `first`, are what the producer goes by.
#[gpu_only]
#[inline(always)]
unsafe fn consume_doubles<const S: usize>(
    block: Block<SQUARE, S>,
    passes: (&Schedule, &Problem),
    output: DoubleOutput<'_>,
    first: Work,
    own: usize,
) {
    let (len, stride) = (passes.count(), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    let thread = thread_in_warpgroup();
    let (lane, warp) = (thread % 32, thread / 32);
    let (row, column) = (own * ROWS, warp * 8 * ACROSS);
    let place = (row, column);
    // SAFETY: a lane of each warp releases each stage.
    let mut consumer = unsafe { block.pipeline.consumer() };
    while index < len {
        let mut sums = Sums::zeroed();
        let (mut step, end) = work.steps;
        let mut stage = consumer.wait();
        let mut half = Half::new(stage, lane, place, 0);
        // SAFETY: the stages are full; all lanes have read one when one of them releases it.
        unsafe {
            let (mut left, mut right) = (half.left(0), half.right());
            while step < end {
                step += 1;
                let other = Half::new(stage, lane, place, 1);
                (left, right) = add(&mut sums, half, (left, right), || other);
                (left, right) = add(&mut sums, other, (left, right), || {
                    if step < end {
                        // All lanes have read all of the stage.
                        converge();
                        consumer.step();
                        if lane == 0 {
                            consumer.release(1);
                        }
                        stage = consumer.wait();
                        half = Half::new(stage, lane, place, 0);
                    }
                    half
                });
            }
            // The last stage is read once more, for nothing.
            converge();
            consumer.step();
            if lane == 0 {
                consumer.release(1);
            }
        }
        let at = [
            work.output as usize,
            work.rows.0 as usize + row,
            work.column as usize * SQUARE + column,
        ];
        // SAFETY: each sum is one lane's.
        unsafe { output.write(&sums, at, lane) };
        index += stride;
        work = passes.work(index);
    }
}

impl Half {
    /// Of box `part` of a stage, for a warp's rows and columns from the ones given on.
    #[gpu_only]
    #[inline(always)]
    fn new<const N: usize>(
        stage: *const Stage<N>,
        lane: usize,
        (row, column): (usize, usize),
        part: usize,
    ) -> Self {
        let (own, j) = (row_of(lane / 4), lane % 4);
        // Units of 16 bytes of a row of 128 are exchanged as the swizzle has it.
        let in_row = |four: usize| {
            own * SPAN + (((4 * part + 2 * four + j / 2) ^ own) * 16) + j % 2 * size_of::<f64>()
        };
        // SAFETY: a stage of shared memory.
        let (a, b) = unsafe { (&raw const (*stage).a, &raw const (*stage).b) };
        let (a, b) = (a.cast::<u8>(), b.cast::<u8>());
        Self {
            a: [0, 1].map(|four| a.wrapping_add(row * SPAN + in_row(four))),
            b: [0, 1].map(|four| b.wrapping_add(column * SPAN + in_row(four))),
        }
    }

    /// Sixteen rows of A.
    ///
    /// # Safety
    /// The stage is full, and they are some of the warp's.
    #[inline(always)]
    unsafe fn left(self, sixteen: usize) -> Left {
        // SAFETY: the caller's promise.
        let of = |below, four: usize| unsafe { element(self.a[four], 2 * sixteen + below) };
        FragmentA::from_registers([of(0, 0), of(1, 0), of(0, 1), of(1, 1)])
    }

    /// The columns of B.
    ///
    /// # Safety
    /// The stage is full.
    #[inline(always)]
    unsafe fn right(self) -> Right {
        // SAFETY: the caller's promise.
        let of = |eight, four: usize| unsafe { element(self.b[four], eight) };
        build(|eight| FragmentB::from_registers([of(eight, 0), of(eight, 1)]))
    }
}

/// A lane's element of row (or column) `8 eight` of its own.
///
/// # Safety
/// It is in shared memory, and written.
#[inline(always)]
unsafe fn element(rows: *const u8, eight: usize) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { rows.wrapping_add(eight * 8 * SPAN).cast::<f64>().read() }
}

/// Adds the products of [`DEPTH`] of K, of which the first operands are loaded already; loads the first ones of what `next` gives, while the last
/// products are under way.
///
/// # Safety
/// All lanes of a warp call this together; the stages are full.
#[gpu_only]
#[inline(always)]
unsafe fn add(
    sums: &mut Sums,
    half: Half,
    (first, right): (Left, Right),
    next: impl FnOnce() -> Half,
) -> (Left, Right) {
    // SAFETY: the caller's promise.
    unsafe {
        converge();
        let second = half.left(1);
        multiply_rows(&mut sums[0], first, right);
        let third = half.left(2);
        multiply_rows(&mut sums[1], second, right);
        let fourth = half.left(3);
        let next = next();
        converge();
        let ahead = (next.left(0), next.right());
        multiply_rows(&mut sums[2], third, right);
        multiply_rows(&mut sums[3], fourth, right);
        ahead
    }
}

/// Adds the products of sixteen rows.
///
/// # Safety
/// All lanes of a warp call this together, after `converge`.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_rows(sums: &mut [[f64; 4]; ACROSS], left: Left, right: Right) {
    each::<ACROSS>(|k| {
        let sum = FragmentC::<M16N8K8, f64>::from_registers(sums[k]);
        // SAFETY: the caller's promise.
        sums[k] = unsafe { mma_converged(left, right[k], sum) }.registers();
    });
}

/// D of a product of f64.
#[derive(Clone, Copy)]
struct DoubleOutput<'a> {
    problem: &'a Problem,
    alpha: f64,
    beta: f64,
    c: *const f64,
    d: *mut f64,
}

impl DoubleOutput<'_> {
    /// Writes a lane's sums of the 64 × 32 from `at` (matrix, row and column) on, those that are inside.
    ///
    /// # Safety
    /// The lane alone writes them, and D and, where beta is not 0, C have every element that the problem leads to.
    #[gpu_only]
    #[inline(always)]
    unsafe fn write(&self, sums: &Sums, [output, row, column]: [usize; 3], lane: usize) {
        let &Problem { m, n, c: of_c, d: of_d, .. } = self.problem;
        let row = row + row_of(lane / 4);
        // The columns of both sums of a row, which are rows of B's fragments.
        let columns = [column + row_of(lane % 4 * 2), column + row_of(lane % 4 * 2 + 1)];
        unrolled!(DOWN, |eight| {
            let row = row + 8 * eight;
            unrolled!(2 * ACROSS, |sum| {
                let column = columns[sum % 2] + sum / 2 * 8;
                if row < m as usize && column < n as usize {
                    let sum = sums[eight / 2][sum / 2][eight % 2 * 2 + sum % 2];
                    // SAFETY: inside; the caller's promise.
                    unsafe {
                        let addend = if self.beta != 0.0 {
                            self.beta * self.c.add(of_c.index(output, row, column)).read()
                        } else {
                            0.0
                        };
                        self.d
                            .add(of_d.index(output, row, column))
                            .write(self.alpha * sum + addend);
                    }
                }
            });
        });
    }
}

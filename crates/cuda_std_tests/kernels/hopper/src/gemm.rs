//! A matrix product in bf16 with f32 sums: tiles by the copy engine, multiplied by a warpgroup each.
//!
//! `C = A Bᵀ`: A is M × K, B is N × K and C is M × N, all row-major. A block computes 128 × 128 of C:
//! one warp copies tiles of 64 along K into four stages, two warpgroups multiply 64 rows each.

use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::prelude::*;
use cuda_std::shared::dynamic_shared_mem;
use cuda_std::{bf16, warp_specialized};

/// Rows of a block's part of C.
pub const TILE: usize = 128;
/// Columns of a block's part of C in [`gemm`].
pub const COLUMNS: usize = 128;
/// Columns of a block's part of C in [`gemm_wide`]: A is read half as often.
pub const WIDE: usize = 256;
/// Values along K of a stage.
pub const DEPTH: usize = 64;
/// Stages between copies and products.
pub const STAGES: usize = 4;
/// Threads: a warpgroup that copies, and two that multiply.
pub const BLOCK: usize = 3 * WARPGROUP;

/// What the copies bring of A.
pub type Left = [[bf16; DEPTH]; TILE];
/// What the copies bring of B.
pub type Right<const N: usize> = [[bf16; DEPTH]; N];

/// One stage.
#[repr(C)]
pub struct Stage<const N: usize> {
    a: Tile<Left, Swizzle128>,
    b: Tile<Right<N>, Swizzle128>,
}

/// Dynamic shared memory of a block: the stages, wherever the next multiple of their alignment is.
pub const fn shared_bytes<const N: usize>() -> usize {
    STAGES * size_of::<Stage<N>>() + align_of::<Stage<N>>()
}

/// Two sums that are stored together.
#[repr(C, align(8))]
struct Pair([f32; 2]);

/// A block's part of the product.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together, with [`shared_bytes`] of dynamic shared
///   memory that nothing else uses.
/// - `c` has `m × n` values for `n` a multiple of 2, and the maps are of M × K and N × K for `k`.
#[inline(always)]
unsafe fn multiply<const N: usize>(
    barriers: SharedArray<u64, { 2 * STAGES }>,
    (m, n, k): (usize, usize, usize),
    a: &TensorMap<Left, Swizzle128>,
    b: &TensorMap<Right<N>, Swizzle128>,
    c: *mut f32,
) where
    Columns<N>: Instruction<bf16, bf16, f32>,
{
    // SAFETY: the launch gives room for the stages behind the alignment.
    let stages = unsafe {
        let memory = dynamic_shared_mem::<u8>();
        let memory = memory.add(memory.align_offset(align_of::<Stage<N>>()));
        SharedArray::<Stage<N>, STAGES>::from_raw(memory.cast())
    };
    // SAFETY: all threads together; one thread fills, and one of each of two warpgroups arrives.
    let pipeline = unsafe { TilePipeline::new(stages, barriers, 2) };
    let row = thread::block_idx_y() as usize * TILE;
    let column = thread::block_idx_x() as usize * N;
    let steps = k.div_ceil(DEPTH);
    let thread = thread_in_warpgroup();
    // SAFETY: each part is one of whole warpgroups. 24 and twice 240 registers are the block's 168
    // each at entry.
    unsafe {
        warp_specialized! {
            warpgroup_of_warp(),
            producer with 24 registers => if thread == 0 {
                let mut producer = pipeline.producer();
                for step in 0..steps {
                    let depth = (step * DEPTH) as i32;
                    producer.fill(|slot| {
                        slot.load(a, [row as i32, depth], |stage| &mut stage.a);
                        slot.load(b, [column as i32, depth], |stage| &mut stage.b);
                    });
                }
            },
            consumer own with 240 registers => {
                let own = ROWS * own;
                let mut consumer = pipeline.consumer();
                let mut sums = Accumulator::<f32, N>::zeroed();
                for step in 0..steps {
                    let stage = consumer.wait();
                    sums.multiply(&raw const (*stage).a, own, &raw const (*stage).b, step > 0);
                    consumer.step();
                    if step > 0 {
                        // The product before is done with its stage.
                        sums.wait::<1>();
                        if thread == 0 {
                            consumer.release(2);
                        }
                    }
                }
                sums.wait::<0>();
                sums.for_each_pair(thread, |i, j, pair| {
                    let (i, j) = (row + own + i, column + j);
                    if i < m && j < n {
                        c.add(i * n + j).cast::<Pair>().write(Pair(pair));
                    }
                });
            },
        }
    }
}

/// Multiplies. The grid has a block for each tile of C, columns along x.
///
/// # Safety
/// `c` has `m × n` values for `n` a multiple of 2, and the maps are of M × K and N × K for `k`.
#[kernel(block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<COLUMNS>())]
pub unsafe fn gemm(
    m: usize,
    n: usize,
    k: usize,
    a: &TensorMap<Left, Swizzle128>,
    b: &TensorMap<Right<COLUMNS>, Swizzle128>,
    c: *mut f32,
) {
    // SAFETY: the caller's promise, and the contract's.
    unsafe { multiply::<COLUMNS>(shared_array![u64; 2 * STAGES], (m, n, k), a, b, c) }
}

/// [`gemm`] with tiles of twice as many columns.
///
/// # Safety
/// As [`gemm`].
#[kernel(block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<WIDE>())]
pub unsafe fn gemm_wide(
    m: usize,
    n: usize,
    k: usize,
    a: &TensorMap<Left, Swizzle128>,
    b: &TensorMap<Right<WIDE>, Swizzle128>,
    c: *mut f32,
) {
    // SAFETY: the caller's promise, and the contract's.
    unsafe { multiply::<WIDE>(shared_array![u64; 2 * STAGES], (m, n, k), a, b, c) }
}
